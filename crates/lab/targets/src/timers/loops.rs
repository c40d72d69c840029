//! What each thread of a sample does, and what of it is timed.

use super::{Bytes, Errno, Notify, Process};
use lab_measure::clock;
use lab_measure::pool::Gate;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::{Arc, Barrier, Mutex, PoisonError};
use std::time::{Duration, Instant};
use strum::{EnumMessage, EnumString, IntoStaticStr, VariantArray};

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumMessage, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Test {
    /// Each thread creates its timers, asks each for its overruns, and deletes them.
    CreateGetoverrun,
    /// Each thread creates a timer and deletes it, again and again.
    CreateDelete,
    /// Each thread has armed timers, and arms them again in random order.
    Settime,
    /// Timers that expire one after another, within a second: how late each is.
    Expire,
}

impl Test {
    /// As it is printed.
    pub fn text(self) -> &'static str {
        self.into()
    }
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// What one thread has to do.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// What is measured.
    pub test: Test,
    /// Timers of this thread; of `create-delete` one after another.
    pub timers: usize,
    /// From an ID to the next, where the caller chooses them.
    pub sparse: Option<usize>,
    /// Which thread of its process this is …
    pub thread: usize,
    /// … of how many.
    pub threads: usize,
}

/// How late timers were delivered, in microseconds; none without any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Lateness {
    /// The median.
    pub p50: Option<f64>,
    /// Of one in a hundred.
    pub p99: Option<f64>,
    /// The latest.
    pub max: Option<f64>,
    /// Timers that never came.
    #[serde(skip_serializing)]
    pub lost: usize,
}

/// What one thread has measured, in nanoseconds for each timer.
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
    /// While all timers were there; the first thread says it.
    pub bytes: Option<Bytes>,
    /// Of timers that expired.
    pub lateness: Option<Lateness>,
    /// For how long the thread worked …
    pub elapsed: Duration,
    /// … and for how much of that it had a CPU.
    pub on_cpu: Duration,
}

/// How long before the start a thread stops sleeping.
const AWAKE: Duration = Duration::from_micros(500);

/// Where the threads of one sample wait for one another.
pub struct Meeting {
    start: Arc<Gate>,
    /// When processes start together; by the monotonic clock.
    start_at: Option<Duration>,
    /// Nobody deletes before all have created, or has measured what that takes.
    between: Barrier,
    /// Why one of them gave up.
    trouble: Mutex<Option<String>>,
}

impl Meeting {
    /// For so many threads.
    pub fn new(threads: usize, start_at: Option<Duration>) -> Arc<Meeting> {
        let (start, between) = (Gate::new(threads), Barrier::new(threads));
        Arc::new(Meeting { start, start_at, between, trouble: Mutex::new(None) })
    }

    fn begin(&self) {
        self.start.pass_together();
        let Some(start) = self.start_at else { return };
        std::thread::sleep(start.saturating_sub(clock::monotonic() + AWAKE));
        while clock::monotonic() < start {
            std::hint::spin_loop();
        }
    }

    fn complain(&self, trouble: String) {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(trouble);
    }

    fn verdict(&self, times: Times) -> Result<Times, String> {
        let trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        trouble.as_ref().map_or(Ok(times), |trouble| Err(trouble.clone()))
    }
}

/// One thread's part. Every thread comes to every meeting, whatever has failed.
pub(super) fn work<P: Process>(
    processes: &[P],
    number: usize,
    load: &Load,
    meeting: &Meeting,
) -> Result<Times, String> {
    let process = &processes[number];
    let alone = load.threads * processes.len() == 1 && meeting.start_at.is_none();
    let mut it = Worker { process, thread: process.thread(), load: *load, ids: Vec::with_capacity(load.timers) };
    if load.test == Test::CreateDelete {
        meeting.begin();
        let clock = Stopwatch::start(alone);
        let (outcome, create_delete_ns) = clock.lap(load.timers, || it.create_delete());
        let times = clock.times(Times { create_delete_ns: Some(create_delete_ns), ..Times::default() });
        return outcome.map(|()| times).map_err(|error| refused("create and delete", error, load));
    }
    let mut times = Times::default();
    if load.test == Test::CreateGetoverrun {
        meeting.begin();
        let clock = Stopwatch::start(alone);
        let (outcome, create_ns) = clock.lap(load.timers, || it.create(Notify::Nothing));
        outcome.unwrap_or_else(|error| meeting.complain(refused("create", error, load)));
        let (outcome, getoverrun_ns) = clock.lap(load.timers, || it.getoverrun());
        outcome.unwrap_or_else(|error| meeting.complain(refused("getoverrun", error, load)));
        times = Times { create_ns: Some(create_ns), getoverrun_ns: Some(getoverrun_ns), ..clock.times(times) };
    } else {
        let armed = it.create(Notify::Signal).and_then(|()| it.settime(it.order()));
        armed.unwrap_or_else(|error| meeting.complain(refused("create and settime", error, load)));
        let order = it.order();
        meeting.begin();
        let clock = Stopwatch::start(alone);
        let (outcome, settime_ns) = clock.lap(load.timers, || it.settime(order));
        outcome.unwrap_or_else(|error| meeting.complain(refused("settime", error, load)));
        times = Times { settime_ns: Some(settime_ns), ..clock.times(times) };
    }
    if meeting.between.wait().is_leader() && load.test == Test::CreateGetoverrun {
        times.bytes = P::bytes(processes, load.timers * load.threads * processes.len());
    }
    meeting.between.wait();
    let clock = Stopwatch::start(alone);
    let (outcome, delete_ns) = clock.lap(load.timers, || it.delete());
    outcome.unwrap_or_else(|error| meeting.complain(refused("delete", error, load)));
    if load.test == Test::CreateGetoverrun {
        times = Times { delete_ns: Some(delete_ns), ..clock.times(times) };
    }
    meeting.verdict(times)
}

/// A line for the reader. The kernel's refusal has a reason that can be changed.
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
            // None of them has ever expired.
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

    /// All of them in random order, each with its seconds from now: days, and all different.
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

/// A thread that runs alone waits for nobody, so its CPU time is what its work takes, whatever else the machine does.
/// Where there are others, waiting for them counts.
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

    /// What a step takes for each timer.
    fn lap<R>(&self, timers: usize, step: impl FnOnce() -> R) -> (R, f64) {
        let start = self.elapsed();
        let outcome = step();
        (outcome, (self.elapsed() - start).as_nanos() as f64 / timers as f64)
    }

    /// With this work added.
    fn times(&self, times: Times) -> Times {
        let elapsed = times.elapsed + self.start.elapsed();
        Times { elapsed, on_cpu: times.on_cpu + (clock::thread_cpu_time() - self.on_cpu), ..times }
    }
}
