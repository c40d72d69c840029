//! The loops of a sample's threads, and which parts of them are timed.

use super::{Bytes, Errno, Notify, Process};
use lab_measure::clock;
use lab_measure::pool::Gate;
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Barrier, Mutex, PoisonError};
use std::time::{Duration, Instant};
use strum::{Display, EnumMessage, EnumString, IntoStaticStr, VariantArray};

/// The measured operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display, EnumMessage, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Test {
    /// Each thread creates its timers, reads each one's overrun, and deletes them.
    CreateGetoverrun,
    /// Each thread creates and deletes timers in a loop.
    CreateDelete,
    /// Each thread sets its armed timers again, in random order.
    Settime,
    /// Timers expire one after another within a second: how late each is.
    Expire,
}

impl Test {
    /// The printed name.
    pub fn text(self) -> &'static str {
        self.into()
    }
}

/// The work of one thread.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// The measured operations.
    pub test: Test,
    /// Number of timers of this thread. `create-delete` has one at a time.
    pub timers: usize,
    /// Distance between two IDs if the caller chooses them. `None`: the table chooses them.
    pub sparse: Option<usize>,
    /// Number of this thread in its process.
    pub thread: usize,
    /// Number of threads of the process.
    pub threads: usize,
}

/// Lateness of timers in microseconds. `None` if no timer expired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Lateness {
    /// The median.
    pub p50: Option<f64>,
    /// The 99th percentile.
    pub p99: Option<f64>,
    /// The maximum.
    pub max: Option<f64>,
    /// Timers that were never delivered.
    #[serde(skip_serializing)]
    pub lost: usize,
}

/// The result of one thread. Times are in nanoseconds for each timer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// timer_create.
    pub create_ns: Option<f64>,
    /// timer_getoverrun.
    pub getoverrun_ns: Option<f64>,
    /// timer_settime.
    pub settime_ns: Option<f64>,
    /// timer_delete.
    pub delete_ns: Option<f64>,
    /// A timer_create and a timer_delete.
    pub create_delete_ns: Option<f64>,
    /// Memory while all timers existed. Only the first thread has it.
    pub bytes: Option<Bytes>,
    /// Lateness of expired timers.
    pub lateness: Option<Lateness>,
    /// Time that the thread worked.
    pub elapsed: Duration,
    /// CPU time of the thread in `elapsed`.
    pub on_cpu: Duration,
}

/// A thread stops sleeping this long before the start, and spins.
const AWAKE: Duration = Duration::from_micros(500);

/// Synchronises the threads of one sample.
pub struct Rendezvous {
    start: Arc<Gate>,
    /// When the processes of a sample start, on the monotonic clock. `None` if there is only this process.
    start_at: Option<Duration>,
    /// No thread deletes a timer before all have created theirs and the memory has been measured.
    between: Barrier,
    /// The first error of a thread.
    trouble: Mutex<Option<String>>,
}

impl Rendezvous {
    /// For this many threads.
    pub fn new(threads: usize, start_at: Option<Duration>) -> Arc<Rendezvous> {
        let (start, between) = (Gate::new(threads), Barrier::new(threads));
        Arc::new(Rendezvous { start, start_at, between, trouble: Mutex::new(None) })
    }

    fn begin(&self) {
        self.start.pass_together();
        let Some(start) = self.start_at else { return };
        std::thread::sleep(start.saturating_sub(clock::monotonic() + AWAKE));
        while clock::monotonic() < start {
            std::hint::spin_loop();
        }
    }

    fn fail(&self, trouble: String) {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(trouble);
    }

    fn result(&self, times: Times) -> Result<Times, String> {
        let trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        trouble.as_ref().map_or(Ok(times), |trouble| Err(trouble.clone()))
    }
}

/// The work of one thread. Each thread comes to each barrier even after an error.
pub(super) fn work<P: Process>(
    processes: &[P],
    number: usize,
    load: &Load,
    rendezvous: &Rendezvous,
) -> Result<Times, String> {
    let process = &processes[number];
    let alone = load.threads * processes.len() == 1 && rendezvous.start_at.is_none();
    let mut it = Worker { process, thread: process.thread(), load: *load, ids: Vec::with_capacity(load.timers) };
    if load.test == Test::CreateDelete {
        rendezvous.begin();
        let clock = Stopwatch::start(alone);
        let (outcome, create_delete_ns) = clock.lap(load.timers, || it.create_delete());
        let times = clock.times(Times { create_delete_ns: Some(create_delete_ns), ..Times::default() });
        return outcome.map(|()| times).map_err(|error| refused("create and delete", error, load));
    }
    let mut times = Times::default();
    if load.test == Test::CreateGetoverrun {
        rendezvous.begin();
        let clock = Stopwatch::start(alone);
        let (outcome, create_ns) = clock.lap(load.timers, || it.create(Notify::Nothing));
        outcome.unwrap_or_else(|error| rendezvous.fail(refused("create", error, load)));
        let (outcome, getoverrun_ns) = clock.lap(load.timers, || it.getoverrun());
        outcome.unwrap_or_else(|error| rendezvous.fail(refused("getoverrun", error, load)));
        times = Times { create_ns: Some(create_ns), getoverrun_ns: Some(getoverrun_ns), ..clock.times(times) };
    } else {
        let armed = it.create(Notify::Signal).and_then(|()| it.settime(it.order()));
        armed.unwrap_or_else(|error| rendezvous.fail(refused("create and settime", error, load)));
        let order = it.order();
        rendezvous.begin();
        let clock = Stopwatch::start(alone);
        let (outcome, settime_ns) = clock.lap(load.timers, || it.settime(order));
        outcome.unwrap_or_else(|error| rendezvous.fail(refused("settime", error, load)));
        times = Times { settime_ns: Some(settime_ns), ..clock.times(times) };
    }
    if rendezvous.between.wait().is_leader() && load.test == Test::CreateGetoverrun {
        times.bytes = P::bytes(processes, load.timers * load.threads * processes.len());
    }
    rendezvous.between.wait();
    let clock = Stopwatch::start(alone);
    let (outcome, delete_ns) = clock.lap(load.timers, || it.delete());
    outcome.unwrap_or_else(|error| rendezvous.fail(refused("delete", error, load)));
    if load.test == Test::CreateGetoverrun {
        times = Times { delete_ns: Some(delete_ns), ..clock.times(times) };
    }
    rendezvous.result(times)
}

/// The message for a refused call.
fn refused(call: &str, error: Errno, load: &Load) -> String {
    let error = std::io::Error::from_raw_os_error(error);
    format!("{call} of {} timers by a thread: {error}", load.timers)
}

struct Worker<'a, P: Process> {
    process: &'a P,
    thread: P::Thread,
    load: Load,
    ids: Vec<i32>,
}

impl<P: Process> Worker<'_, P> {
    fn create(&mut self, notify: Notify) -> Result<(), Errno> {
        let Load { timers, thread, .. } = self.load;
        match self.load.sparse {
            None => {
                for _ in 0..timers {
                    self.ids.push(self.process.create(&mut self.thread, notify)?);
                }
            }
            Some(stride) => {
                for number in 0..timers {
                    let id = ((thread * timers + number) * stride) as i32;
                    self.process.create_as(&mut self.thread, id, notify)?;
                    self.ids.push(id);
                }
            }
        }
        Ok(())
    }

    fn getoverrun(&self) -> Result<(), Errno> {
        self.ids.iter().try_for_each(|id| match self.process.getoverrun(*id)? {
            0 => Ok(()),
            // None of these timers has expired.
            _ => Err(libc::EPROTO),
        })
    }

    fn delete(&mut self) -> Result<(), Errno> {
        self.ids.iter().try_for_each(|id| self.process.delete(&mut self.thread, *id))
    }

    fn create_delete(&mut self) -> Result<(), Errno> {
        for _ in 0..self.load.timers {
            let id = self.process.create(&mut self.thread, Notify::Nothing)?;
            self.process.delete(&mut self.thread, id)?;
        }
        Ok(())
    }

    /// All timers in random order, each with a different number of seconds from now: more than eleven days.
    fn order(&self) -> Vec<(i32, u64)> {
        let mut order: Vec<_> = self.ids.iter().zip(1_000_000..).map(|(id, seconds)| (*id, seconds)).collect();
        let mut state = 0x9E37_79B9_7F4A_7C15 ^ self.load.thread as u64;
        for last in (1..order.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            order.swap(last, (state >> 33) as usize % (last + 1));
        }
        order
    }

    fn settime(&self, order: Vec<(i32, u64)>) -> Result<(), Errno> {
        order.into_iter().try_for_each(|(id, seconds)| self.process.settime(id, seconds))
    }
}

/// Measures CPU time if the thread runs alone, so that other load on the machine does not count. If there are other
/// threads, it measures real time, because waiting for them counts.
struct Stopwatch {
    alone: bool,
    start: Instant,
    on_cpu: Duration,
}

impl Stopwatch {
    fn start(alone: bool) -> Stopwatch {
        let on_cpu = clock::thread_cpu_time();
        Stopwatch { alone, start: Instant::now(), on_cpu }
    }

    fn elapsed(&self) -> Duration {
        if self.alone { clock::thread_cpu_time() - self.on_cpu } else { self.start.elapsed() }
    }

    /// Runs a step. Returns its result and the nanoseconds for each timer.
    fn lap<R>(&self, timers: usize, step: impl FnOnce() -> R) -> (R, f64) {
        let start = self.elapsed();
        let outcome = step();
        (outcome, (self.elapsed() - start).as_nanos() as f64 / timers as f64)
    }

    /// Adds the time of this stopwatch to `times`.
    fn times(&self, times: Times) -> Times {
        let elapsed = times.elapsed + self.start.elapsed();
        Times { elapsed, on_cpu: times.on_cpu + (clock::thread_cpu_time() - self.on_cpu), ..times }
    }
}
