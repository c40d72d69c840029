//! Shared by the models of timers: a clock that they set, the delivered notices, a driver, and a process's timers.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ufutex_loom::Error;
use ufutex_loom::timer::{Base, Clocks, Deliver, Driver, Expiry, Notice, Setting, TimerClock, TimerOptions, Timers};

/// A clock that a model sets. Without loom's atomics: the models do not explore the order of clock readings.
#[derive(Default)]
pub struct ModelClock {
    now: AtomicU64,
    changed: AtomicUsize,
}

impl ModelClock {
    pub fn set(&self, nanoseconds: u64) {
        self.now.store(nanoseconds, Relaxed);
    }

    /// Number of times that an embedder was notified of a new earliest deadline.
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

/// Notices as a guest kernel keeps them: signals that have not been delivered.
#[derive(Default)]
pub struct Notices(Mutex<Vec<Notice>>);

impl Deliver for Notices {
    fn expired(&self, _: &Timers, notice: Notice) {
        self.0.lock().unwrap().push(notice);
    }
}

impl Notices {
    /// The notices since the last call.
    pub fn drain(&self) -> Vec<Notice> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// A process with timers, and the driver that expires them.
pub struct Process {
    pub clock: Arc<ModelClock>,
    pub notices: Arc<Notices>,
    pub driver: Driver,
    pub timers: Timers,
}

impl Process {
    /// Makes a process with timers of these IDs, at time 0.
    pub fn with(ids: &[i32]) -> Arc<Self> {
        Self::with_options(ids, TimerOptions::new())
    }

    pub fn with_options(ids: &[i32], options: TimerOptions) -> Arc<Self> {
        let (clock, notices) = (Arc::new(ModelClock::default()), Arc::new(Notices::default()));
        let driver = Driver::with_clocks(clock.clone()).expect("a driver can be made");
        let timers = Timers::with_options(&driver, notices.clone(), options).expect("timers can be made");
        let process = Arc::new(Self { clock, notices, driver, timers });
        ids.iter().for_each(|&id| process.create(id).expect("the ID is free"));
        process
    }

    /// Like [`with`](Self::with), with timer 0 armed for [`DUE`], and the clock at that time.
    pub fn with_one_due(ids: &[i32], interval: u64) -> Arc<Self> {
        let process = Self::with(ids);
        process.arm(0, DUE, interval).expect("timer 0 is there");
        process.clock.set(DUE);
        process
    }

    pub fn create(&self, id: i32) -> Result<(), Error> {
        self.timers.create_as(id, TimerClock::Monotonic, None).map(|created| assert_eq!(created, id))
    }

    /// Arms a timer for a point in time.
    pub fn arm(&self, id: i32, at: u64, interval: u64) -> Result<Setting, Error> {
        self.timers.settime(id, Expiry::At(Duration::from_nanos(at)), Duration::from_nanos(interval))
    }

    pub fn disarm(&self, id: i32) -> Result<Setting, Error> {
        self.timers.settime(id, Expiry::Never, Duration::ZERO)
    }

    /// When the driver's next turn is due.
    pub fn next(&self) -> Option<u64> {
        self.driver.next(Base::Monotonic).map(|at| at.as_nanos() as u64)
    }

    /// Sets the clock and runs a turn. Returns the IDs of the expired timers whose notices were not void.
    pub fn expired_at(&self, time: u64) -> Vec<i32> {
        self.clock.set(time);
        self.driver.turn();
        let taken = |notice| self.timers.take(notice).map(|expired| expired.id);
        self.notices.drain().into_iter().filter_map(taken).collect()
    }
}

/// The time for which timers are armed.
pub const DUE: u64 = 10;

pub fn setting(value: u64, interval: u64) -> Setting {
    Setting { value: Duration::from_nanos(value), interval: Duration::from_nanos(interval) }
}

/// Starts a thread of the process.
pub fn spawn<R: 'static>(
    process: &Arc<Process>,
    call: impl FnOnce(&Process) -> R + 'static,
) -> loom::thread::JoinHandle<R> {
    let process = process.clone();
    loom::thread::spawn(move || call(&process))
}
