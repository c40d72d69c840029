//! The engine as a machine: a process whose timers are `Timers` and whose signals are a queue.

use std::cell::RefCell;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ufutex::timer::{Base, Caller, Clocks, Deliver, Driver, Notice, Notify, TimerClock, TimerOptions, Timers};

use crate::common::arena::Arena;
use crate::common::asleep::{is_there, thread_id, until};
use crate::common::libc;

use crate::machine::{Call, Info, Machine, System, now};

const SI_TIMER: i32 = -2;
/// The limit on the number of timers, more than any body creates.
const LIMIT: usize = 300;

/// With a driver that has its own thread.
pub fn by_thread() -> Machine {
    machine(&Driver::host().expect("the memory is there"), false, true)
}

/// With the host's clocks and turns that the test makes, as an embedder would.
pub fn by_turns() -> Machine {
    machine(&Driver::with_clocks(Arc::new(HostClocks)).expect("the memory is there"), true, false)
}

/// As `by_thread`, for a guest whose PIDs and TIDs are not the host's.
#[cfg(target_os = "linux")]
pub fn of_a_guest() -> Machine {
    machine(&Driver::host().expect("the memory is there"), false, false)
}

fn machine(driver: &Driver, is_turned: bool, host_pids: bool) -> Machine {
    let signals = Arc::new(Signals::default());
    let options = TimerOptions::new().max_timers(LIMIT).host_pids(host_pids);
    let timers = Timers::with_options(driver, signals.clone(), options).expect("the memory is there");
    Machine::new(|memory| {
        let (arena, filling) = (memory.arena(), RefCell::new(Vec::new()));
        let caller = Caller { process: std::process::id() as i32, thread: thread_id() };
        Box::new(Engine { timers, is_turned, signals, arena, caller, other: Other::start(), filling })
    })
}

/// The pending signals.
#[derive(Default)]
struct Signals(Mutex<Vec<Notice>>);

impl Deliver for Signals {
    fn expired(&self, _timers: &Timers, notice: Notice) {
        let is_for_nobody = matches!(notice.notify(), Notify::Thread { thread, .. } if !self.has_thread(thread));
        if !is_for_nobody {
            self.0.lock().expect("not poisoned").push(notice);
        }
    }

    fn has_thread(&self, thread: i32) -> bool {
        is_there(thread)
    }
}

struct HostClocks;

impl Clocks for HostClocks {
    fn now(&self, base: Base) -> Duration {
        now(match base {
            Base::Monotonic => libc::CLOCK_MONOTONIC,
            Base::Realtime => libc::CLOCK_REALTIME,
            Base::Boottime => libc::CLOCK_BOOTTIME,
            Base::Tai => libc::CLOCK_TAI,
        })
    }

    #[cfg(target_os = "linux")] // with Linux's numbers of processes and threads
    fn cpu_time(&self, of: ufutex::timer::CpuClock) -> Option<Duration> {
        let clock = match of {
            ufutex::timer::CpuClock::Process(process) => !process << 3 | 2,
            ufutex::timer::CpuClock::Thread(thread) => !thread << 3 | 6,
        };
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the time is writable.
        let result = unsafe { libc::clock_gettime(clock, &mut time) };
        (result == 0).then(|| Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
    }

    fn cpus(&self) -> usize {
        std::thread::available_parallelism().map_or(1, Into::into)
    }

    fn changed(&self) {
        // The test turns often enough, so this needs no action.
    }
}

/// An idle thread.
struct Other {
    tid: i32,
    stay: RefCell<Option<Sender<()>>>,
}

impl Other {
    fn start() -> Self {
        let (stay, end) = channel();
        let (send, receive) = channel();
        std::thread::spawn(move || {
            let _ = send.send(thread_id());
            // Sleeps until the sender is dropped.
            let _ = end.recv();
        });
        Self { tid: receive.recv().expect("the thread runs"), stay: RefCell::new(Some(stay)) }
    }
}

struct Engine {
    timers: Timers,
    is_turned: bool,
    signals: Arc<Signals>,
    arena: &'static Arena,
    caller: Caller,
    other: Other,
    /// Timers that were created to reach the limit.
    filling: RefCell<Vec<i32>>,
}

impl Engine {
    fn turn(&self) {
        if self.is_turned {
            self.timers.driver().turn();
        }
    }

    /// Delivers the first signal for the other thread, or the first one for this thread or the process. Notices that
    /// have become invalid are discarded.
    fn take_of(&self, is_for_other: bool) -> Option<Info> {
        self.turn();
        loop {
            let notice = {
                let mut pending = self.signals.0.lock().expect("not poisoned");
                let at = pending.iter().position(|notice| {
                    let thread = if let Notify::Thread { thread, .. } = notice.notify() { Some(thread) } else { None };
                    (thread == Some(self.other.tid)) == is_for_other
                })?;
                pending.remove(at)
            };
            let Some(expired) = self.timers.take(notice) else { continue };
            let (Notify::Signal { signal, value } | Notify::Thread { signal, value, .. }) = expired.notify else {
                panic!("a SIGEV_NONE timer has expired: {expired:?}");
            };
            return Some(Info { signal, code: SI_TIMER, id: expired.id, overrun: expired.overrun, value });
        }
    }
}

impl System for Engine {
    fn call(&self, call: Call, args: [u64; 6]) -> isize {
        self.turn();
        self.timers.syscall(self.caller, self.arena, call, args)
    }

    fn take(&self) -> Option<Info> {
        self.take_of(false)
    }

    fn take_on_other(&self) -> Option<Info> {
        self.take_of(true)
    }

    fn other(&self) -> i32 {
        self.other.tid
    }

    fn end_other(&self) {
        drop(self.other.stay.borrow_mut().take());
        until("the thread ends", || !is_there(self.other.tid));
    }

    fn pause(&self, length: Duration) {
        std::thread::sleep(length);
        self.turn();
    }

    fn leave_no_room(&self) -> usize {
        let made = std::iter::from_fn(|| self.timers.create(TimerClock::Monotonic, Some(Notify::None)).ok());
        self.filling.borrow_mut().extend(made);
        self.filling.borrow().len()
    }

    fn leave_room(&self) {
        for id in self.filling.borrow_mut().drain(..) {
            self.timers.delete(id).expect("it was made for this");
        }
    }
}
