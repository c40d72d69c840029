//! timer_create(2) and its family as a machine, which is the oracle.

use std::cell::RefCell;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

#[cfg(target_arch = "x86_64")]
use ufutex::timer::CompatTimerCall;

use crate::alone::SIGNALS;
use crate::common::asleep::{thread_id, until};
use crate::common::emulated::lacks_the_kernel;
use crate::common::errno::EAGAIN;
#[cfg(target_arch = "x86_64")]
use crate::common::int_80::int_80;
use crate::common::kernel::{pointer, syscall};
use crate::common::skipped::skip;
use crate::machine::{Call, Info, Machine, System};

/// The host's kernel.
pub fn machine() -> Machine {
    Machine::new(|_| Box::new(Kernel { other: Other::start(), room: RefCell::new(None) }))
}

/// Whether this kernel behaves as the bodies expect. Prints the reason if not. Linux 6.13 changed pending signals, 6.15
/// added the restoring of IDs, and 6.18 changed the order of the checks.
pub fn is_as_described() -> bool {
    if let Some(reason) = lacks_the_kernel() {
        skip(reason);
        return false;
    }
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse().unwrap_or(0));
    let version: (u32, u32) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let is_new = version >= (6, 18);
    if !is_new {
        skip(format_args!("this kernel is {}, older than 6.18", release.trim()));
    }
    is_new
}

struct Kernel {
    other: Other,
    /// The resource limit to restore.
    room: RefCell<Option<libc::rlimit>>,
}

/// The other thread, which takes signals on request.
struct Other {
    tid: i32,
    asked: RefCell<Option<Sender<()>>>,
    taken: Receiver<Option<Info>>,
}

impl Other {
    fn start() -> Self {
        let (asked, its_orders) = channel();
        let (give, taken) = channel();
        let (send, receive) = channel();
        std::thread::spawn(move || {
            let _ = send.send(thread_id());
            for () in its_orders {
                let _ = give.send(take());
            }
        });
        Self { tid: receive.recv().expect("the thread runs"), asked: RefCell::new(Some(asked)), taken }
    }
}

/// The kernel's `siginfo_t` of a timer signal.
#[repr(C)]
#[derive(Default)]
struct SigInfo {
    signal: i32,
    errno: i32,
    code: i32,
    _gap: i32,
    id: i32,
    overrun: i32,
    value: u64,
    _rest: [u64; 12],
}

/// Takes a signal that is pending for the calling thread or for the process.
fn take() -> Option<Info> {
    let mut info = SigInfo::default();
    let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let mask = SIGNALS;
    let args = [pointer(&raw const mask), pointer(&raw mut info), pointer(&raw const at_once), 8, 0, 0];
    // SAFETY: the set and the timeout are valid for reads, the information for a write of its size.
    let signal = unsafe { syscall(libc::SYS_rt_sigtimedwait, args) };
    if signal < 0 {
        assert_eq!(signal, EAGAIN);
        return None;
    }
    let SigInfo { signal, errno: _, code, id, overrun, value, .. } = info;
    Some(Info { signal, code, id, overrun, value })
}

#[cfg(target_arch = "x86_64")]
fn compat(call: CompatTimerCall, args: [u64; 6]) -> isize {
    let number = match call {
        CompatTimerCall::Create => 259,
        CompatTimerCall::SettimeTime32 => 260,
        CompatTimerCall::GettimeTime32 => 261,
        CompatTimerCall::GettimeTime64 => 408,
        CompatTimerCall::SettimeTime64 => 409,
        CompatTimerCall::Prctl => 172,
        other => panic!("the number of {other:?} is not known here"),
    };
    // SAFETY: as in `Kernel::call`.
    unsafe { int_80(number, args.map(|register| register as u32)) }
}

impl System for Kernel {
    #[cfg(target_arch = "x86_64")]
    fn is_kernel(&self) -> bool {
        true
    }

    fn call(&self, call: Call, args: [u64; 6]) -> isize {
        let number = match call {
            Call::Create => libc::SYS_timer_create,
            Call::Settime => libc::SYS_timer_settime,
            Call::Gettime => libc::SYS_timer_gettime,
            Call::Getoverrun => libc::SYS_timer_getoverrun,
            Call::Delete => libc::SYS_timer_delete,
            Call::Prctl => libc::SYS_prctl,
            #[cfg(target_arch = "x86_64")]
            Call::Compat(call) => return compat(call, args),
            other => panic!("the number of {other:?} is not known here"),
        };
        // SAFETY: the calls write only to arenas, which are accessed by atomics, or to addresses that are not mapped.
        unsafe { syscall(number, args) }
    }

    fn take(&self) -> Option<Info> {
        take()
    }

    fn take_on_other(&self) -> Option<Info> {
        self.other.asked.borrow().as_ref()?.send(()).expect("the thread takes orders");
        self.other.taken.recv().expect("the thread answers")
    }

    fn other(&self) -> i32 {
        self.other.tid
    }

    fn end_other(&self) {
        drop(self.other.asked.borrow_mut().take());
        let its_entry = format!("/proc/self/task/{}", self.other.tid);
        until("the thread ends", || !std::path::Path::new(&its_entry).exists());
    }

    fn pause(&self, length: Duration) {
        std::thread::sleep(length);
    }

    fn leave_no_room(&self) -> usize {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: the limits are valid for the write, then for the read.
        unsafe {
            assert_eq!(libc::getrlimit(libc::RLIMIT_SIGPENDING, &mut limit), 0);
            let none = libc::rlimit { rlim_cur: 0, ..limit };
            assert_eq!(libc::setrlimit(libc::RLIMIT_SIGPENDING, &none), 0);
        }
        *self.room.borrow_mut() = Some(limit);
        0
    }

    fn leave_room(&self) {
        let limit = self.room.borrow_mut().take().expect("the room was taken");
        // SAFETY: the limit is valid for the read.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_SIGPENDING, &limit) }, 0);
    }
}
