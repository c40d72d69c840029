//! `ufutex bench schbench`: schbench's own flags, which mean other things than those of the other workloads, and the
//! lab's.

use super::values::schbench as own;
use super::values::{self, Targets};
use clap::{Args, ValueEnum};
use lab_bench::Settings;
use lab_bench::schbench::{Course, Cpus, Pinning, Schbench};
use lab_bench::settings::Buckets;
use lab_measure::machine;
use lab_targets::Policy;
use lab_targets::schbench::Plan;
use lab_targets::{Layout, Name};
use std::path::{Path, PathBuf};
use std::time::Duration;
use strum::VariantArray;

/// `-P`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Pin {
    /// Message threads and their workers by last-level caches.
    Ccx,
}

/// schbench's flags by its own names, then the lab's.
#[derive(Args)]
pub struct SchbenchArgs {
    /// Message threads
    #[arg(short, long, value_name = "N", default_value = "1", value_parser = own::messengers, allow_negative_numbers = true)]
    pub message_threads: usize,
    /// Workers of each message thread [default: the CPUs shared out]
    #[arg(short, long, value_name = "N", value_parser = own::workers, allow_negative_numbers = true)]
    pub threads: Option<usize>,
    /// CPUs of message threads, one each in turn: 0-3,8 or auto (one each, workers on the others)
    #[arg(short = 'M', long, value_name = "CPUS", value_parser = own::cpus, allow_negative_numbers = true)]
    pub message_cpus: Option<Cpus>,
    /// CPUs that workers share: 0-3,8 or auto
    #[arg(short = 'W', long, value_name = "CPUS", value_parser = own::cpus, allow_negative_numbers = true)]
    pub worker_cpus: Option<Cpus>,
    /// Message threads and their workers by last-level caches
    #[arg(short = 'P', long, value_enum, conflicts_with_all = ["message_cpus", "worker_cpus"])]
    pub pin: Option<Pin>,
    /// Seconds for each target [default: 5; schbench's own default is 30]
    #[arg(short, long, value_name = "SECONDS", value_parser = values::runtime, allow_negative_numbers = true)]
    pub runtime: Option<f64>,
    /// Kilobytes of cache that a worker's matrices fill
    #[arg(short = 'F', long = "cache_footprint", alias = "cache-footprint", value_name = "KB", default_value = "256",
        value_parser = own::kilobytes, allow_negative_numbers = true)]
    pub cache_footprint: usize,
    /// Matrix multiplications of a request
    #[arg(short = 'n', long, value_name = "N", default_value = "5", value_parser = own::operations, allow_negative_numbers = true)]
    pub operations: usize,
    /// Microseconds that a request sleeps first
    #[arg(short, long = "sleep_usec", alias = "sleep-usec", value_name = "US", default_value = "100",
        value_parser = own::nap, allow_negative_numbers = true)]
    pub sleep_usec: u64,
    /// Requests a second, handed out by message threads [default: workers begin by themselves]
    #[arg(short = 'R', long, value_name = "N", value_parser = own::rate, allow_negative_numbers = true)]
    pub rps: Option<u32>,
    /// Adapt the requests a second until the machine is so busy, in percent
    #[arg(short = 'A', long, value_name = "PERCENT", value_parser = own::percent, allow_negative_numbers = true)]
    pub auto_rps: Option<f64>,
    /// Bytes that message threads and workers write for each other, in place of requests
    #[arg(short, long, value_name = "BYTES", value_parser = own::pipe, allow_negative_numbers = true)]
    pub pipe: Option<usize>,
    /// Seconds before the latencies count
    #[arg(short, long, value_name = "SECONDS", default_value = "0", value_parser = own::seconds, allow_negative_numbers = true)]
    pub warmuptime: u64,
    /// Seconds between two reports on stderr
    #[arg(short, long, value_name = "SECONDS", default_value = "10", value_parser = own::interval, allow_negative_numbers = true)]
    pub intervaltime: u64,
    /// Seconds after which latencies are forgotten, again and again [default: never]
    #[arg(short, long, value_name = "SECONDS", value_parser = own::interval, allow_negative_numbers = true)]
    pub zerotime: Option<u64>,
    /// No lock of the CPU while a request computes
    #[arg(short = 'L', long)]
    pub no_locking: bool,
    /// Time the computation alone, without its sleep and locks
    #[arg(short = 'C', long)]
    pub calibrate: bool,
    /// schbench's own JSON, an object for each target, to this file (-: stdout)
    #[arg(short = 'j', value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// A name for schbench's own JSON
    #[arg(short = 'J', long, value_name = "NAME")]
    pub jobname: Option<String>,
    /// Workers are futures, on a few threads
    #[arg(long)]
    pub tasks: bool,
    /// Threads that run the workers' futures [default: as many as CPUs]
    #[arg(long, value_name = "N", requires = "tasks", value_parser = own::messengers, allow_negative_numbers = true)]
    pub executors: Option<usize>,
    /// Targets, a comma list [default: all]
    #[arg(long, value_name = "LIST", value_parser = values::targets)]
    pub targets: Option<Targets>,
    /// Buckets: a power of two, or 0 for the global table [default: by the threads there are]
    #[arg(short, long, value_name = "N", value_parser = own::slots_or_none, allow_negative_numbers = true)]
    pub buckets: Option<usize>,
    /// Bucket layout of our tables
    #[arg(long, value_parser = values::one_of::<Layout>(), default_value = "lean")]
    pub layout: Layout,
    /// Size policy of `live`: threads, load, or a power of two [default: load; with -b N, N]
    #[arg(long, value_name = "POLICY", value_parser = values::policy, allow_negative_numbers = true)]
    pub policy: Option<Policy>,
    /// Rounds, each with a run of every target
    #[arg(long, value_name = "N", default_value = "1", value_parser = values::repeat, allow_negative_numbers = true)]
    pub repeat: usize,
    /// No progress and no remarks on stderr
    #[arg(long)]
    pub silent: bool,
    /// One JSON object a line on stdout, nothing else there
    #[arg(long)]
    pub json: bool,
}

/// Below the help.
pub const MORE: &str = "\
Message threads and workers wake one another by futexes of the target. Wakeup latency: from the message thread's stamp
to the worker's next instruction. Request latency: a worker's sleep and its matrices.

Rows of --json, one object a line:
  workload, target, message_threads, workers (of each), tasks, executors, buckets, policy, layout, repeat, runtime_s,
  operations, cache_footprint_kb, sleep_us, rate, locking, rps (the median round's, of all workers), requests (done);
  wakeup_us, request_us {p50, p90, p99, p999, min, max, samples}; rps_seconds {p20, p50, p90, min, max};
  scheduling_delay_us {message, worker}: for how long threads waited for a CPU each time, as the kernel says;
  ratio_kernel: the rps over the kernel's; pipe_bytes, mb_per_sec with -p

Exit status:
  0    measured
  1    it failed
  2    a mistake in the options
  130  interrupted: the rows are of what was measured until then

Example, as in the kernel's change logs:
  ufutex bench schbench -L -m 4 -M auto -t 256 -n 0 -r 60 -s 0";

/// What `-A` begins with where `-R` says nothing.
const FIRST_RATE: u32 = 10;
const RUNTIME_S: f64 = 5.0;
/// The most threads in all, so that a mistake does not stop the machine.
const WORKERS_MAX: usize = values::THREADS_MAX;

impl SchbenchArgs {
    /// Checks the flags against each other; the error is the line that the user sees.
    pub fn check(self) -> Result<Schbench, String> {
        if self.json && self.file.as_deref() == Some(Path::new("-")) {
            return Err("-j '-' would stand among the rows of --json; accepted: a file, or one of both".to_string());
        }
        if let Some(mistake) = self.file.as_deref().filter(|file| *file != Path::new("-")).and_then(values::unwritable)
        {
            return Err(format!("-j {mistake}"));
        }
        let cpus = machine::allowed_cpus();
        let targets = self.chosen()?;
        let workers = self.threads.unwrap_or_else(|| cpus.len().div_ceil(self.message_threads));
        let all = workers.saturating_mul(self.message_threads);
        if all > WORKERS_MAX {
            return Err(format!("--threads '{workers}' is too much: {all} in all; accepted: {WORKERS_MAX} in all"));
        }
        self.refuse_too_much_cache(all)?;
        for (flag, list) in [("--message-cpus", &self.message_cpus), ("--worker-cpus", &self.worker_cpus)] {
            refuse_foreign(flag, list.as_ref(), &cpus)?;
        }
        let runtime_s = self.runtime.unwrap_or(RUNTIME_S);
        if self.warmuptime as f64 >= runtime_s {
            let warm_up = self.warmuptime;
            return Err(format!("--warmuptime '{warm_up}' leaves nothing of --runtime; accepted: below {runtime_s}"));
        }
        let pinning = match self.pin {
            Some(Pin::Ccx) => Pinning::by_cache(&cpus),
            None => Pinning::new(self.message_cpus.as_ref(), self.worker_cpus.as_ref(), self.message_threads, &cpus),
        };
        let plan = self.plan(workers)?;
        let course = Course {
            runtime: Duration::from_secs_f64(runtime_s),
            warm_up: Duration::from_secs(self.warmuptime),
            interval: Duration::from_secs(self.intervaltime),
            zero: self.zerotime.map(Duration::from_secs),
            busy_percent: self.auto_rps,
        };
        let executors = self.tasks.then(|| self.executors.unwrap_or(cpus.len()).min(all));
        let settings = self.settings(targets);
        Ok(Schbench { settings, plan, course, pinning, executors, file: self.file, jobname: self.jobname })
    }

    /// Half of the machine's memory: beyond that it would end somebody else's programs.
    fn refuse_too_much_cache(&self, workers: usize) -> Result<(), String> {
        let (each, most) = (self.cache_footprint, machine::memory_bytes() / 2 / 1024 / workers.max(1));
        if each <= most {
            return Ok(());
        }
        Err(format!("--cache_footprint '{each}' is too much for {workers} workers here; accepted: 0 to {most} KB"))
    }

    fn plan(&self, workers: usize) -> Result<Plan, String> {
        let rate = self.rps.unwrap_or(if self.auto_rps.is_some() { FIRST_RATE } else { 0 });
        if rate > 0 && (rate as usize) < self.message_threads {
            let least = self.message_threads;
            return Err(format!("--rps '{rate}' is less than one for each message thread; accepted: {least} or more"));
        }
        Ok(Plan {
            message_threads: self.message_threads,
            workers,
            footprint_bytes: self.cache_footprint * 1024,
            operations: self.operations,
            nap: Duration::from_micros(self.sleep_usec),
            pipe_bytes: self.pipe.unwrap_or(0),
            rate,
            calibrate: self.calibrate,
            locking: !self.no_locking && !self.calibrate,
        })
    }

    fn chosen(&self) -> Result<Vec<Name>, String> {
        let Some(Targets { futex, not_futex, .. }) = &self.targets else {
            return Ok(Name::VARIANTS.iter().copied().filter(|name| name.can_sleep()).collect());
        };
        match not_futex {
            Some(name) => {
                Err(format!("--targets '{name}' is no target of 'schbench'; accepted: {}", values::futex_targets()))
            }
            None if self.tasks && !futex.iter().any(|name| name.has_futures()) => {
                let names = futex.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
                Err(format!(
                    "--targets '{names}' has only threads; accepted: with --tasks live, fixed, atomic, percpu, global"
                ))
            }
            None if futex.contains(&Name::Floor) => Err(values::no_sleeping("schbench")),
            None => Ok(futex.clone()),
        }
    }

    fn settings(&self, targets: Vec<Name>) -> Settings {
        Settings {
            buckets: self.buckets.map_or(Buckets::Auto, Buckets::Exactly),
            layout: self.layout,
            policy: self.policy,
            repeat: Some(self.repeat),
            silent: self.silent,
            json: self.json,
            targets,
            ..Settings::default()
        }
    }
}

fn refuse_foreign(flag: &str, list: Option<&Cpus>, allowed: &[usize]) -> Result<(), String> {
    let Some(Cpus::These(list)) = list else { return Ok(()) };
    match list.iter().find(|cpu| !allowed.contains(cpu)) {
        Some(cpu) => {
            let allowed: Vec<_> = allowed.iter().map(ToString::to_string).collect();
            Err(format!("{flag} '{cpu}' is no CPU of this process; accepted: of {}", allowed.join(",")))
        }
        None => Ok(()),
    }
}
