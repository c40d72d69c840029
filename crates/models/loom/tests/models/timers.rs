//! What the models of timers share: a clock that they set, the notices that came, a driver and a process's timers.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ufutex_loom::Error;
use ufutex_loom::timer::{Base, Clocks, Deliver, Driver, Notice, Setting, TimerClock, Timers};

/// Shows what it is set to. Not loom's atomics: what time it is is not what the models look at.
#[derive(Default)]
pub struct ModelClock {
    now: AtomicU64,
    changed: AtomicUsize,
}

impl ModelClock {
    pub fn set(&self, nanoseconds: u64) {
        self.now.store(nanoseconds, Relaxed);
    }

    /// How often an embedder would have been told to look.
    pub fn changed(&self) -> usize {
        self.changed.load(Relaxed)
    }
}

impl Clocks for ModelClock {
    fn now(&self, _: Base) -> Duration {
        Duration::from_nanos(self.now.load(Relaxed))
    }
    fn changed(&self) {
        self.changed.fetch_add(1, Relaxed);
    }
}

/// Notices as a guest kernel has them: signals that have not been delivered.
#[derive(Default)]
pub struct Notices(Mutex<Vec<Notice>>);

impl Deliver for Notices {
    fn expired(&self, _: &Timers, notice: Notice) {
        self.0.lock().unwrap().push(notice);
    }
}

impl Notices {
    /// Those that have come since.
    pub fn drain(&self) -> Vec<Notice> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// A process with timers, and whoever expires them.
pub struct Process {
    pub clock: Arc<ModelClock>,
    pub notices: Arc<Notices>,
    pub driver: Driver,
    pub timers: Timers,
}

impl Process {
    /// A process with timers of these IDs, at time 0.
    pub fn with(ids: &[i32]) -> Arc<Self> {
        let (clock, notices) = (Arc::new(ModelClock::default()), Arc::new(Notices::default()));
        let driver = Driver::with_clocks(clock.clone()).expect("a driver can be made");
        let timers = Timers::new(&driver, notices.clone()).expect("timers can be made");
        let process = Arc::new(Self { clock, notices, driver, timers });
        ids.iter().for_each(|&id| process.create(id).expect("the ID is free"));
        process
    }

    /// As [`with`](Self::with); timer 0 was armed for [`DUE`], and that is now.
    pub fn with_one_due(ids: &[i32], interval: u64) -> Arc<Self> {
        let process = Self::with(ids);
        process.arm(0, DUE, interval).expect("timer 0 is there");
        process.clock.set(DUE);
        process
    }

    pub fn create(&self, id: i32) -> Result<(), Error> {
        self.timers.create_as(id, TimerClock::Monotonic, None).map(|created| assert_eq!(created, id))
    }

    /// Sets a timer to a point in time.
    pub fn arm(&self, id: i32, at: u64, interval: u64) -> Result<Setting, Error> {
        self.timers.settime(id, true, setting(at, interval))
    }

    pub fn disarm(&self, id: i32) -> Result<Setting, Error> {
        self.timers.settime(id, false, Setting::default())
    }

    /// When the driver has something to do.
    pub fn next(&self) -> Option<u64> {
        self.driver.next(Base::Monotonic).map(|at| at.as_nanos() as u64)
    }

    /// Lets the time come, and answers who has expired and was not void.
    pub fn expired_at(&self, time: u64) -> Vec<i32> {
        self.clock.set(time);
        self.driver.turn();
        let taken = |notice| self.timers.take(notice).map(|expired| expired.id);
        self.notices.drain().into_iter().filter_map(taken).collect()
    }
}

/// When the timers that are due are due.
pub const DUE: u64 = 10;

pub fn setting(value: u64, interval: u64) -> Setting {
    Setting { value: Duration::from_nanos(value), interval: Duration::from_nanos(interval) }
}

/// A thread of the process.
pub fn spawn<R: 'static>(
    process: &Arc<Process>,
    call: impl FnOnce(&Process) -> R + 'static,
) -> loom::thread::JoinHandle<R> {
    let process = process.clone();
    loom::thread::spawn(move || call(&process))
}
