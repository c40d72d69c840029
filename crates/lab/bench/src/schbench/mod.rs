//! `schbench`: message threads and workers that wake each other. Each target runs for some seconds in a round.

mod pinning;
mod print;
mod watch;

use crate::Lab;
use crate::flags::{self, Noise, OfLayout};
use crate::settings::{Buckets, Settings};
use crate::workload::Workload;
use anyhow::{Context, Result};
use clap::Args;
use clap::builder::TypedValueParser;
use lab_measure::machine;
use lab_measure::sample;
use lab_targets::Policy;
use lab_targets::schbench::{Plan, SharedState, serve_messages, work};
use lab_targets::{Name, Shape, Subject};
use lab_values::{self as values, List, THREADS_MAX, WORK_MAX};
use pinning::Pinning;
use print::Row;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::thread::{Builder, Scope};
use std::time::Duration;
use watch::Findings;

/// Stack of each thread: enough for a worker, and small because there are thousands.
const STACK_BYTES: usize = 256 * 1024;
/// Bounds of the tables that do not size themselves. Within them the size follows the threads, unless `-b` is given.
const BUCKETS: (usize, usize) = (16, 4096);

const RUNTIME_S: f64 = 5.0;
/// Largest number of workers in all, so that a mistake does not stop the machine.
const WORKERS_MAX: usize = THREADS_MAX;

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
    /// Do not hold the CPU's lock while a request computes
    #[arg(short = 'L', long)]
    no_locking: bool,
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
        Ok(settings)
    }

    /// Runs every target once in each round.
    fn run(&self, lab: &mut Lab<'_>, _: &mut Vec<String>) -> Result<Vec<Row>> {
        let competitors = line_up(lab, self)?;
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

    fn text(&self, rows: &[Row]) -> String {
        print::text(rows)
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

    /// The CPUs of the threads.
    fn pinning(&self) -> Pinning {
        let cpus = machine::allowed_cpus();
        Pinning::new(self.message_cpus.as_ref(), self.worker_cpus.as_ref(), self.message_threads, &cpus)
    }

    /// The work of one run.
    fn plan(&self) -> Plan {
        Plan {
            message_threads: self.message_threads,
            workers: self.workers(),
            footprint_bytes: self.cache_footprint * 1024,
            operations: self.operations,
            nap: self.sleep_usec,
            locking: !self.no_locking,
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
        flags::targets(settings, self.targets.as_ref(), &values::sleeping())
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

fn line_up(lab: &Lab<'_>, asked: &Schbench) -> Result<Vec<Competitor>> {
    let settings = lab.settings;
    let threads = asked.message_threads * (asked.workers() + 1);
    let buckets = match settings.buckets {
        Buckets::Exactly(buckets) => buckets,
        Buckets::Auto => threads.next_power_of_two().clamp(BUCKETS.0, BUCKETS.1),
    };
    let mut competitors = Vec::new();
    for name in settings.targets.iter().copied() {
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
        let started = start(scope, &pinning, &shared, subject);
        let found = started.map(|()| watch::watch(&shared, Duration::from_secs_f64(asked.runtime_s())));
        // Also if a thread could not be started, so that no thread sleeps for ever.
        shared.stop(subject);
        found
    })
}

/// Starts the message threads first: when the run is stopped, also after a failed start, they wake the workers.
fn start<'s>(
    scope: &'s Scope<'s, '_>,
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
    for message_thread in &shared.message_threads {
        for worker in 0..message_thread.workers.len() {
            let job = move || {
                machine::pin_to(pinning.workers.as_deref().unwrap_or_default());
                work(shared, message_thread, worker, subject);
            };
            thread("schbench-worker", Box::new(job))?;
        }
    }
    Ok(())
}

/// The end of the help.
const HELP: &str = "\
Message threads and workers wake each other by futexes of the target. Wakeup latency: from the message thread's time
stamp until the worker runs. Request latency: a worker's sleep and its matrices.

Rows of --json, one object per line:
  workload, target, message_threads, workers (of each), buckets, policy, layout, repeat, runtime_s, operations,
  cache_footprint_kb, sleep_us, locking, rps (the median round's, of all workers), requests (done); tasks: false; rate: 0;
  wakeup_us, request_us {p50, p90, p99, p999, min, max, samples}; rps_seconds {p20, p50, p90, min, max};
  scheduling_delay_us {message, worker}: mean wait of a thread for a CPU, as the kernel reports it;
  ratio_kernel: the rps divided by the kernel's; with --noise noise: busy loops on each CPU

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
