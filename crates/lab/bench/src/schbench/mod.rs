//! `schbench`: message threads and workers that wake each other. Each target runs for some seconds in a round.

mod load;
mod original;
mod pinning;
mod print;
mod watch;

use crate::Lab;
use crate::flags::{self, Noise, OfLayout};
use crate::settings::{Buckets, Settings};
use crate::workload::Workload;
use anyhow::{Context, Result};
use clap::builder::TypedValueParser;
use clap::{Args, ValueEnum};
use lab_measure::machine;
use lab_measure::sample;
use lab_targets::Policy;
use lab_targets::schbench::{Plan, SharedState, as_thread, serve_messages};
use lab_targets::{Name, Shape, Subject};
use lab_terminal::stderr;
use lab_values::{self as values, List, RUNTIME_MAX_S, THREADS_MAX, WORK_MAX};
use pinning::Pinning;
use print::Row;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::thread::{Builder, Scope};
use std::time::Duration;
use watch::Findings;

/// Stack of each thread: enough for a worker, and small because there are thousands.
const STACK_BYTES: usize = 256 * 1024;
/// Bounds of the tables that do not size themselves. Within them the size follows the threads, unless `-b` is given.
const BUCKETS: (usize, usize) = (16, 4096);

/// First rate of `-A` without `-R`, in requests per second.
const FIRST_RATE: u32 = 10;
const RUNTIME_S: f64 = 5.0;
/// Largest number of workers in all, so that a mistake does not stop the machine.
const WORKERS_MAX: usize = THREADS_MAX;

/// `-P`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Pin {
    /// Message threads with their workers on the CPUs of one last-level cache, in turn
    Ccx,
}

/// schbench: message threads and their workers wake each other
#[derive(Clone, Args)]
pub struct Schbench {
    /// Message threads
    #[arg(short, long, value_name = "N", default_value = "1", value_parser = values::number::<usize>(1, 1024, "threads"))]
    message_threads: usize,
    /// Workers of each message thread [default: the CPUs divided by the message threads]
    #[arg(short, long, value_name = "N", value_parser = values::number::<usize>(1, THREADS_MAX, "workers"))]
    threads: Option<usize>,
    /// CPUs of message threads, one each in turn: 0-3,8 or auto (one each; the workers have the others)
    #[arg(short = 'M', long, value_name = "CPUS", value_parser = cpus)]
    message_cpus: Option<Cpus>,
    /// CPUs that workers share: 0-3,8 or auto
    #[arg(short = 'W', long, value_name = "CPUS", value_parser = cpus)]
    worker_cpus: Option<Cpus>,
    /// Pin message threads and their workers by last-level cache
    #[arg(short = 'P', long, value_enum, conflicts_with_all = ["message_cpus", "worker_cpus"])]
    pin: Option<Pin>,
    /// How long each target runs: seconds, or a time such as 2m [default: 5; schbench's own default is 30]
    #[arg(short, long, value_name = "TIME", value_parser = values::runtime)]
    runtime: Option<f64>,
    /// Kilobytes of a worker's matrices
    #[arg(short = 'F', long = "cache_footprint", alias = "cache-footprint", value_name = "KB", default_value = "256",
        value_parser = values::number::<usize>(0, 1 << 20, "KB"))]
    cache_footprint: usize,
    /// Matrix multiplications of a request
    #[arg(short = 'n', long, value_name = "N", default_value = "5", value_parser = values::number::<usize>(0, WORK_MAX, "operations a request"))]
    operations: usize,
    /// Microseconds that a request sleeps first
    #[arg(short, long = "sleep_usec", alias = "sleep-usec", value_name = "US", default_value = "100",
        value_parser = values::number::<u64>(0, 10_000_000, "microseconds").map(Duration::from_micros))]
    sleep_usec: Duration,
    /// Requests per second that the message threads hand out [default: workers start requests themselves]
    #[arg(short = 'R', long, value_name = "N", value_parser = values::number::<u32>(1, 100_000_000, "requests a second"))]
    rps: Option<u32>,
    /// Adjust the requests per second until the machine is busy to this percentage
    #[arg(short = 'A', long, value_name = "PERCENT", value_parser = values::number::<u32>(1, 100, "percent").map(f64::from), conflicts_with = "noise")]
    auto_rps: Option<f64>,
    /// Bytes that message threads and workers send each other instead of requests
    #[arg(short, long, value_name = "BYTES", value_parser = values::number::<usize>(1, 1 << 20, "bytes"))]
    pipe: Option<usize>,
    /// Seconds before latencies are recorded
    #[arg(short, long, value_name = "SECONDS", default_value = "0", value_parser = seconds(0))]
    warmuptime: Duration,
    /// Seconds between two reports on stderr
    #[arg(short, long, value_name = "SECONDS", default_value = "10", value_parser = seconds(1))]
    intervaltime: Duration,
    /// Interval in seconds at which latencies are discarded [default: never]
    #[arg(short, long, value_name = "SECONDS", value_parser = seconds(1))]
    zerotime: Option<Duration>,
    /// Do not hold the CPU's lock while a request computes
    #[arg(short = 'L', long)]
    no_locking: bool,
    /// Time only the computation, without sleep and locks
    #[arg(short = 'C', long)]
    calibrate: bool,
    /// Write schbench's own JSON, an object for each target, to this file (-: stdout)
    #[arg(short = 'j', value_name = "FILE")]
    file: Option<PathBuf>,
    /// Job name in schbench's own JSON
    #[arg(short = 'J', long, value_name = "NAME")]
    jobname: Option<String>,
    /// Run workers as futures on a few threads
    #[arg(long)]
    tasks: bool,
    /// Threads that run the workers' futures [default: one for each CPU]
    #[arg(long, value_name = "N", requires = "tasks", value_parser = values::number::<usize>(1, 1024, "threads"))]
    executors: Option<usize>,
    /// Targets, a comma list [default: all]
    #[arg(long, value_name = "LIST", value_parser = values::some_among(values::sleeping()), hide_possible_values = true)]
    targets: Option<List<Name>>,
    /// Buckets: a power of two, or 0 for the global table [default: by the number of threads]
    #[arg(short, long, value_name = "N", value_parser = slots_or_none)]
    buckets: Option<usize>,
    #[command(flatten)]
    of: OfLayout,
    /// Size policy of `live`: threads, load, or a power of two [default: load; with -b N, N]
    #[arg(long, value_name = "POLICY", value_parser = values::policies(), hide_possible_values = true)]
    policy: Option<Policy>,
    /// Rounds, each with a run of every target
    #[arg(long, value_name = "N", default_value = "1", value_parser = values::number::<usize>(1, flags::REPEAT_MAX, "rounds"))]
    repeat: usize,
    #[command(flatten)]
    noise: Noise,
    /// No progress and no notes on stderr
    #[arg(long)]
    silent: bool,
    /// Print one JSON object per line on stdout, and nothing else
    #[arg(long)]
    json: bool,
}

/// `-M` or `-W`.
#[derive(Clone, Debug, PartialEq)]
pub enum Cpus {
    /// One CPU for each message thread, the rest for the workers.
    Auto,
    /// These CPUs.
    These(Vec<usize>),
}

/// A time in whole seconds.
fn seconds(smallest: usize) -> impl TypedValueParser<Value = Duration> {
    values::number::<u64>(smallest, RUNTIME_MAX_S as usize, "seconds").map(Duration::from_secs)
}

/// `-M`, `-W`.
fn cpus(text: &str) -> Result<Cpus, String> {
    if text == "auto" {
        return Ok(Cpus::Auto);
    }
    let cpus = machine::cpu_list(text);
    cpus.map(Cpus::These).ok_or_else(|| "is not accepted; accepted: auto, or CPUs such as 0-3,8".to_string())
}

/// `-b`. 0 means the global table.
fn slots_or_none(text: &str) -> Result<usize, String> {
    if text == "0" { Ok(0) } else { values::slots(text).map_err(|reason| reason + ", or 0 for the global table") }
}

impl Workload for Schbench {
    const NAME: &'static str = "schbench";
    const IS_ALONE: bool = true;
    type Row = Row;

    fn help() -> String {
        HELP.to_string()
    }

    fn check(&mut self) -> Result<Settings, String> {
        // Now, because a container may change them while the runs go on.
        let cpus = machine::allowed_cpus().len();
        self.threads.get_or_insert(cpus.div_ceil(self.message_threads));
        self.executors.get_or_insert(cpus);
        if self.json && self.file.as_deref() == Some(Path::new("-")) {
            return Err("-j '-' is not accepted with --json; accepted: a file, or one of the two".to_string());
        }
        if let Some(mistake) = self.file.as_deref().filter(|file| *file != Path::new("-")).and_then(values::unwritable)
        {
            return Err(format!("-j {mistake}"));
        }
        let settings = self.settings()?;
        let (workers, all) = (self.workers(), self.all_workers());
        if all > WORKERS_MAX {
            return Err(format!(
                "--threads '{workers}' is too large: {all} workers in all; accepted: up to {WORKERS_MAX} in all"
            ));
        }
        self.refuse_too_much_cache(all)?;
        for (flag, list) in [("--message-cpus", &self.message_cpus), ("--worker-cpus", &self.worker_cpus)] {
            refuse_foreign(flag, list.as_ref())?;
        }
        let runtime_s = self.runtime_s();
        let warm_up = self.warmuptime.as_secs();
        if warm_up as f64 >= runtime_s {
            return Err(format!(
                "--warmuptime '{warm_up}' is not less than --runtime; accepted: less than {runtime_s}"
            ));
        }
        let (rate, least) = (self.rate(), self.message_threads);
        if rate > 0 && (rate as usize) < least {
            return Err(format!("--rps '{rate}' is less than one for each message thread; accepted: {least} or more"));
        }
        Ok(settings)
    }

    /// Runs every target once in each round.
    fn run(&self, lab: &mut Lab<'_>, notes: &mut Vec<String>) -> Result<Vec<Row>> {
        let competitors = line_up(lab, self, notes)?;
        let stage = format!(
            "schbench: {} targets, {} rounds of {} s, {} message threads with {} workers each",
            competitors.len(),
            self.repeat,
            self.runtime_s(),
            self.message_threads,
            self.workers()
        );
        let progress = lab.progress(&stage, self.repeat);
        let rounds = sample::Rounds { count: self.repeat, warm_up: false, limit: None };
        let found = lab.rounds(rounds, competitors.len(), &progress, |number| {
            let one = &competitors[number];
            progress.remark(&format!("schbench: {}", one.name));
            once(self, one)
        })?;
        drop(progress);
        Ok(print::rows(lab, self, &competitors, &found))
    }

    fn text(&self, _: &Lab<'_>, rows: &[Row]) -> String {
        print::text(&self.plan(), rows)
    }

    fn write_more(&self, rows: &[Row]) -> Result<()> {
        original::write(self, rows)
    }
}

impl Schbench {
    /// Workers of each message thread.
    fn workers(&self) -> usize {
        self.threads.unwrap_or_else(|| machine::allowed_cpus().len().div_ceil(self.message_threads))
    }

    fn all_workers(&self) -> usize {
        self.workers().saturating_mul(self.message_threads)
    }

    fn runtime_s(&self) -> f64 {
        self.runtime.unwrap_or(RUNTIME_S)
    }

    /// Requests per second at the start. 0: workers start requests themselves.
    fn rate(&self) -> u32 {
        self.rps.unwrap_or(if self.auto_rps.is_some() { FIRST_RATE } else { 0 })
    }

    /// The number of threads that run the workers as futures. `None`: each worker is a thread.
    fn executors(&self) -> Option<usize> {
        let executors = || self.executors.unwrap_or_else(|| machine::allowed_cpus().len());
        self.tasks.then(|| executors().min(self.all_workers()))
    }

    /// The CPUs of the threads.
    fn pinning(&self) -> Pinning {
        let cpus = machine::allowed_cpus();
        match self.pin {
            Some(Pin::Ccx) => Pinning::by_cache(&cpus),
            None => Pinning::new(self.message_cpus.as_ref(), self.worker_cpus.as_ref(), self.message_threads, &cpus),
        }
    }

    /// The work of one run.
    fn plan(&self) -> Plan {
        Plan {
            message_threads: self.message_threads,
            workers: self.workers(),
            footprint_bytes: self.cache_footprint * 1024,
            operations: self.operations,
            nap: self.sleep_usec,
            pipe_bytes: self.pipe.unwrap_or(0),
            rate: self.rate(),
            calibrate: self.calibrate,
            locking: !self.no_locking && !self.calibrate,
        }
    }

    fn settings(&self) -> Result<Settings, String> {
        let settings = Settings {
            buckets: self.buckets.map_or(Buckets::Auto, Buckets::Exactly),
            layout: self.of.layout,
            policy: self.policy,
            repeat: Some(self.repeat),
            noise: self.noise.noise,
            silent: self.silent,
            json: self.json,
            ..Settings::default()
        };
        let settings = flags::targets(settings, self.targets.as_ref(), &values::sleeping())?;
        if self.tasks && !settings.targets.iter().any(|name| name.has_futures()) {
            let names = settings.targets.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
            return Err(format!(
                "--targets '{names}' is not accepted with --tasks; accepted: live, fixed, atomic, percpu, global"
            ));
        }
        Ok(settings)
    }

    /// Limits the matrices to half of the machine's memory, so that other programs are not killed for lack of it.
    fn refuse_too_much_cache(&self, workers: usize) -> Result<(), String> {
        let (each, most) = (self.cache_footprint, machine::memory_bytes() / 2 / 1024 / workers.max(1));
        if each <= most {
            return Ok(());
        }
        Err(format!(
            "--cache_footprint '{each}' is too large for {workers} workers on this machine; accepted: 0 to {most} KB"
        ))
    }
}

fn refuse_foreign(flag: &str, list: Option<&Cpus>) -> Result<(), String> {
    let (Some(Cpus::These(list)), allowed) = (list, machine::allowed_cpus()) else { return Ok(()) };
    match list.iter().find(|cpu| !allowed.contains(cpu)) {
        Some(cpu) => {
            let allowed: Vec<_> = allowed.iter().map(ToString::to_string).collect();
            Err(format!("{flag} '{cpu}' is not a CPU of this process; accepted: {}", allowed.join(",")))
        }
        None => Ok(()),
    }
}

/// One target of a run.
struct Competitor {
    name: Name,
    policy: Policy,
    subject: Arc<dyn Subject>,
}

fn line_up(lab: &Lab<'_>, asked: &Schbench, notes: &mut Vec<String>) -> Result<Vec<Competitor>> {
    let settings = lab.settings;
    let threads = asked.message_threads * (asked.workers() + 1);
    let buckets = match settings.buckets {
        Buckets::Exactly(buckets) => buckets,
        Buckets::Auto => threads.next_power_of_two().clamp(BUCKETS.0, BUCKETS.1),
    };
    let mut competitors = Vec::new();
    for name in settings.targets.iter().copied() {
        if asked.tasks && !name.has_futures() {
            notes.push(format!("{name} left out: tasks cannot wait on it"));
            continue;
        }
        let policy = if name == Name::Live { settings.live_policy() } else { Policy::Fixed(buckets) };
        let shape = Shape::new(settings.layout, policy);
        let subject = lab_targets::build(name, &shape)?;
        subject.note_threads(threads);
        // The first wait makes the table. Without it, the run would begin in a domain without a table.
        subject.wait(&AtomicU32::new(0), 1);
        competitors.push(Competitor { name, policy, subject });
    }
    Ok(competitors)
}

/// One run of one target.
fn once(asked: &Schbench, one: &Competitor) -> Result<Findings> {
    one.subject.make_ready();
    let pinning = asked.pinning();
    let (shared, subject) = (SharedState::new(asked.plan()), &*one.subject);
    std::thread::scope(|scope| {
        let started = start(scope, asked, &pinning, &shared, subject);
        // Also called if a thread could not be started, so that no thread sleeps for ever.
        let interval = |found: &Findings| {
            if !asked.silent {
                stderr::text(&print::run(&asked.plan(), found));
            }
        };
        let found = started.map(|()| watch::watch(&shared, asked, interval));
        shared.stop(subject);
        found
    })
}

/// Starts the message threads first: when the run is stopped, also after a failed start, they wake the workers.
fn start<'s>(
    scope: &'s Scope<'s, '_>,
    asked: &Schbench,
    pinning: &'s Pinning,
    shared: &'s SharedState,
    subject: &'s dyn Subject,
) -> Result<()> {
    let thread = |name: &str, work: Box<dyn FnOnce() + Send + 's>| {
        let builder = Builder::new().name(name.to_string()).stack_size(STACK_BYTES);
        builder.spawn_scoped(scope, work).map(|_| ()).with_context(|| format!("cannot start a thread ({name})"))
    };
    for (number, message_thread) in shared.message_threads.iter().enumerate() {
        let cpu = pinning.messages.as_ref().map(|cpus| cpus[number % cpus.len()]);
        let message = move || {
            cpu.into_iter().for_each(machine::pin);
            serve_messages(shared, message_thread, subject);
        };
        thread("schbench-msg", Box::new(message))?;
    }
    let cpus_of = |message_thread: usize| {
        pinning.workers.as_ref().map_or(&[][..], |groups| &groups[message_thread % groups.len()])
    };
    if let Some(executors) = asked.executors() {
        for executor in 0..executors {
            let work = move || {
                machine::pin_to(cpus_of_all(pinning));
                subject.serve_tasks(shared, executor, executors);
            };
            thread("schbench-tasks", Box::new(work))?;
        }
        return Ok(());
    }
    for (number, message_thread) in shared.message_threads.iter().enumerate() {
        let cpus = cpus_of(number);
        for worker in 0..message_thread.workers.len() {
            let work = move || {
                machine::pin_to(cpus);
                as_thread(shared, message_thread, worker, subject);
            };
            thread("schbench-worker", Box::new(work))?;
        }
    }
    Ok(())
}

/// The CPUs of a task's executor, which runs workers of all message threads.
fn cpus_of_all(pinning: &Pinning) -> &[usize] {
    match pinning.workers.as_deref() {
        Some([only]) => only,
        _ => &[],
    }
}

/// The end of the help.
const HELP: &str = "\
Message threads and workers wake each other by futexes of the target. Wakeup latency: from the message thread's time
stamp until the worker runs. Request latency: a worker's sleep and its matrices.

Rows of --json, one object per line:
  workload, target, message_threads, workers (of each), tasks, executors, buckets, policy, layout, repeat, runtime_s,
  operations, cache_footprint_kb, sleep_us, rate, locking, rps (the median round's, of all workers), requests (done);
  wakeup_us, request_us {p50, p90, p99, p999, min, max, samples}; rps_seconds {p20, p50, p90, min, max};
  scheduling_delay_us {message, worker}: mean wait of a thread for a CPU, as the kernel reports it;
  ratio_kernel: the rps divided by the kernel's; with -p pipe_bytes, mb_per_sec;
  with --noise noise: busy loops on each CPU

Exit status:
  0    measured
  1    it failed
  2    a mistake in the options
  130  interrupted: the rows have what was measured until then

Example, as in the kernel's change logs:
  ufutex bench schbench -L -m 4 -M auto -t 256 -n 0 -r 60 -s 0";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_are_ranges_and_single_ones() {
        assert_eq!(cpus("auto"), Ok(Cpus::Auto));
        assert_eq!(cpus("8,0-2,1"), Ok(Cpus::These(vec![0, 1, 2, 8])));
        for bad in ["", "1,", "3-1", "-1", "a", "1-", "1024", "all"] {
            assert!(cpus(bad).is_err(), "{bad}");
        }
    }
}
