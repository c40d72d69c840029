//! One interface for timer_create(2) and its family and for the engine.

use std::ops::Deref;
use std::time::{Duration, Instant};

pub use ufutex::timer::TimerCall as Call;

use crate::common::PATIENCE;
pub use crate::common::kernel::now;
use crate::common::libc;
use crate::memory::{Event, Memory, SPEC, Spec};

/// Whether the host has this clock. CPU-time clocks are Linux's.
pub fn has_clock(clock: libc::clockid_t) -> bool {
    cfg!(target_os = "linux") || ![libc::CLOCK_PROCESS_CPUTIME_ID, libc::CLOCK_THREAD_CPUTIME_ID].contains(&clock)
}

/// A timer's signal that has been taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Info {
    pub signal: i32,
    pub code: i32,
    pub id: i32,
    pub overrun: i32,
    pub value: u64,
}

/// The kernel or the engine, with two threads: the thread that makes the calls, and another thread that only takes
/// signals.
pub trait System {
    /// Whether it is the host's kernel.
    #[cfg(target_arch = "x86_64")] // asked by the tests of 32-bit calls
    fn is_kernel(&self) -> bool {
        false
    }

    fn call(&self, call: Call, args: [u64; 6]) -> isize;

    /// Takes the first signal that is pending for the process or for the calling thread.
    fn take(&self) -> Option<Info>;

    /// Takes the first signal that is pending for the other thread only.
    fn take_on_other(&self) -> Option<Info>;

    /// The TID of the other thread.
    fn other(&self) -> i32;

    /// Ends the other thread and waits until it has ended.
    fn end_other(&self);

    /// Lets time pass.
    fn pause(&self, length: Duration);

    /// Makes further creates fail, until [`leave_room`](Self::leave_room). Returns the number of timers that it created
    /// for that.
    fn leave_no_room(&self) -> usize;

    fn leave_room(&self);
}

pub struct Machine {
    system: Box<dyn System>,
    memory: Memory,
}

impl Deref for Machine {
    type Target = Memory;
    fn deref(&self) -> &Memory {
        &self.memory
    }
}

/// The offset of this time namespace's clocks. The kernel stores absolute times on the host's clocks, so the maximum
/// time can be shorter by this amount.
pub fn moved_by_namespace() -> Duration {
    let offsets = std::fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default();
    let moved = offsets.lines().filter_map(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let seconds: i64 = fields.next()?.parse().ok()?;
        Some(Duration::new(seconds.unsigned_abs(), fields.next()?.parse().ok()?))
    });
    moved.max().unwrap_or_default()
}

/// How long a test waits to check that no signal arrives.
const QUIET: Duration = Duration::from_millis(15);

pub const MS: Duration = Duration::from_millis(1);
pub const HOUR: Duration = Duration::from_secs(3600);

impl Machine {
    pub fn new(make: impl FnOnce(&Memory) -> Box<dyn System>) -> Self {
        let memory = Memory::new();
        Self { system: make(&memory), memory }
    }

    pub fn system(&self) -> &dyn System {
        &*self.system
    }

    pub fn call(&self, call: Call, args: [u64; 6]) -> isize {
        self.system.call(call, args)
    }

    /// timer_create(2) with exactly these arguments.
    pub fn raw_create(&self, clock: i32, event: u64, id: u64) -> isize {
        // As in a call from C, the upper half of the register is undefined.
        self.call(Call::Create, [u64::from(clock as u32) | 0x7777 << 32, event, id, 0, 0, 0])
    }

    /// Creates a timer. Returns its ID or `-errno`.
    pub fn try_create(&self, clock: i32, event: Option<Event>) -> isize {
        let id = self.bytes(4);
        let event = event.map_or(0, |event| self.event(event));
        match self.raw_create(clock, event, id) {
            0 => self.get_i32(id) as isize,
            error => error,
        }
    }

    #[track_caller]
    pub fn create(&self, clock: i32, event: Event) -> i32 {
        let id = self.try_create(clock, Some(event));
        assert!(id >= 0, "timer_create: {id}");
        id as i32
    }

    /// timer_create(2) with a requested ID. The mode of restoring must be on.
    pub fn restore(&self, id: i32, event: Option<Event>) -> isize {
        let at = self.bytes(4);
        self.put_i32(at, id);
        let event = event.map_or(0, |event| self.event(event));
        match self.raw_create(libc::CLOCK_MONOTONIC, event, at) {
            0 => {
                assert_eq!(self.get_i32(at), id);
                0
            }
            error => error,
        }
    }

    pub fn prctl(&self, mode: u64) -> isize {
        self.call(Call::Prctl, [77, mode, 0, 0, 0, 0])
    }

    pub fn raw_settime(&self, id: i32, flags: i32, new: u64, old: u64) -> isize {
        let [id, flags] = [id, flags].map(|number| u64::from(number as u32) | 0x7777 << 32);
        self.call(Call::Settime, [id, flags, new, old, 0, 0])
    }

    /// timer_settime(2). Returns 0 or `-errno`.
    pub fn try_settime(&self, id: i32, flags: i32, spec: Spec) -> isize {
        self.raw_settime(id, flags, self.spec(spec), 0)
    }

    /// Sets the timer to a relative time.
    #[track_caller]
    pub fn set(&self, id: i32, spec: Spec) {
        assert_eq!(self.try_settime(id, 0, spec), 0);
    }

    /// Sets the timer to an absolute time.
    #[track_caller]
    pub fn set_at(&self, id: i32, spec: Spec) {
        assert_eq!(self.try_settime(id, libc::TIMER_ABSTIME, spec), 0);
    }

    /// Sets the timer to a relative time and returns the old setting.
    #[track_caller]
    pub fn exchange(&self, id: i32, spec: Spec) -> Spec {
        let old = self.filled(SPEC);
        assert_eq!(self.raw_settime(id, 0, self.spec(spec), old), 0);
        self.get_spec(old)
    }

    /// Memory filled with a value that no call writes.
    fn filled(&self, bytes: u64) -> u64 {
        let at = self.bytes(bytes);
        self.put(at, &vec![0xaa; bytes as usize]);
        at
    }

    pub fn raw_gettime(&self, id: i32, at: u64) -> isize {
        self.call(Call::Gettime, [u64::from(id as u32) | 0x7777 << 32, at, 0, 0, 0, 0])
    }

    #[track_caller]
    pub fn get(&self, id: i32) -> Spec {
        let at = self.filled(SPEC);
        assert_eq!(self.raw_gettime(id, at), 0);
        self.get_spec(at)
    }

    pub fn overrun(&self, id: i32) -> isize {
        self.call(Call::Getoverrun, [u64::from(id as u32) | 0x7777 << 32, 0, 0, 0, 0, 0])
    }

    pub fn delete(&self, id: i32) -> isize {
        self.call(Call::Delete, [u64::from(id as u32) | 0x7777 << 32, 0, 0, 0, 0, 0])
    }

    pub fn pause(&self, length: Duration) {
        self.system.pause(length);
    }

    /// Waits for a signal and takes it. Fails the test if none arrives.
    #[track_caller]
    pub fn take(&self) -> Info {
        self.until("a signal", || self.system.take())
    }

    /// Waits for a signal for the other thread and takes it. Fails the test if none arrives.
    #[track_caller]
    pub fn take_on_other(&self) -> Info {
        self.until("a signal for the other thread", || self.system.take_on_other())
    }

    #[track_caller]
    pub fn until<R>(&self, what: &str, mut look: impl FnMut() -> Option<R>) -> R {
        let begin = Instant::now();
        loop {
            if let Some(found) = look() {
                return found;
            }
            assert!(begin.elapsed() < PATIENCE / 2, "{what} does not come");
            self.pause(MS / 10);
        }
    }

    /// Checks that no signal is pending and none arrives soon.
    #[track_caller]
    pub fn takes_nothing(&self) {
        self.pause(QUIET);
        assert_eq!(self.system.take(), None);
        assert_eq!(self.system.take_on_other(), None);
    }
}
