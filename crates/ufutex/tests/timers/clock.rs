//! Simulated clocks, and a delivery that records its notices.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ufutex::timer::{Base, Clocks, CpuClock, Deliver, Driver, Notice, TimerOptions, Timers};

pub const BASES: [Base; 4] = [Base::Monotonic, Base::Realtime, Base::Boottime, Base::Tai];

/// Clocks that only advance when the test sets them.
#[derive(Default)]
pub struct ManualClocks {
    nanoseconds: [AtomicU64; 4],
    cpu_times: Mutex<BTreeMap<(bool, i32), u64>>,
    /// Number of calls of `changed`, which says that the next turn may be due earlier.
    changes: AtomicUsize,
}

fn by_number(of: CpuClock) -> (bool, i32) {
    match of {
        CpuClock::Process(process) => (false, process),
        CpuClock::Thread(thread) => (true, thread),
    }
}

impl ManualClocks {
    /// Sets all clocks to `time`.
    pub fn at(time: Duration) -> Arc<Self> {
        let this = Self::default();
        this.advance(time);
        Arc::new(this)
    }

    pub fn advance(&self, length: Duration) {
        for clock in &self.nanoseconds {
            clock.fetch_add(length.as_nanos() as u64, SeqCst);
        }
    }

    pub fn set(&self, base: Base, to: Duration) {
        self.nanoseconds[base as usize].store(to.as_nanos() as u64, SeqCst);
    }

    /// Sets a CPU time. `None` means that the process or thread has ended.
    pub fn set_cpu_time(&self, of: CpuClock, to: Option<u64>) {
        let mut times = self.cpu_times.lock().expect("not poisoned");
        match to {
            Some(to) => _ = times.insert(by_number(of), to),
            None => _ = times.remove(&by_number(of)),
        }
    }

    pub fn changes(&self) -> usize {
        self.changes.load(SeqCst)
    }
}

impl Clocks for ManualClocks {
    fn now(&self, base: Base) -> Duration {
        Duration::from_nanos(self.nanoseconds[base as usize].load(SeqCst))
    }

    fn cpu_time(&self, of: CpuClock) -> Option<Duration> {
        let times = self.cpu_times.lock().expect("not poisoned");
        times.get(&by_number(of)).copied().map(Duration::from_nanos)
    }

    fn changed(&self) {
        self.changes.fetch_add(1, SeqCst);
    }
}

/// The delivered notices, in order.
#[derive(Default)]
pub struct Notices(Mutex<Vec<Notice>>);

impl Notices {
    /// Returns and removes all notices.
    pub fn drain(&self) -> Vec<Notice> {
        std::mem::take(&mut *self.0.lock().expect("not poisoned"))
    }
}

/// The TID of the process's only thread, in tests that need one.
pub const THREAD: i32 = 100;

impl Deliver for Notices {
    fn expired(&self, _timers: &Timers, notice: Notice) {
        self.0.lock().expect("not poisoned").push(notice);
    }

    fn has_thread(&self, thread: i32) -> bool {
        thread == THREAD
    }
}

/// A process with simulated clocks.
pub struct Process {
    pub clocks: Arc<ManualClocks>,
    pub driver: Driver,
    pub notices: Arc<Notices>,
    pub timers: Timers,
}

impl Process {
    pub fn new(options: TimerOptions) -> Self {
        let clocks = ManualClocks::at(Duration::from_secs(100_000));
        let driver = Driver::with_clocks(clocks.clone()).expect("the memory is there");
        Self::of(&clocks, &driver, options)
    }

    /// Makes a process with this driver.
    pub fn of(clocks: &Arc<ManualClocks>, driver: &Driver, options: TimerOptions) -> Self {
        let notices = Arc::new(Notices::default());
        let timers = Timers::with_options(driver, notices.clone(), options).expect("the memory is there");
        Self { clocks: clocks.clone(), driver: driver.clone(), notices, timers }
    }
}
