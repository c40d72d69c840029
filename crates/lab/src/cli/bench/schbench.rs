//! `bench schbench`: schbench's own flags, some of which mean something else than in other workloads, and the lab's.

use super::common;
use super::noise::NoiseArgs;
use crate::cli::values::schbench as own;
use crate::cli::values::{self, List};
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

/// `-P`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Pin {
    /// Message threads with their workers on the CPUs of one last-level cache, in turn
    Ccx,
}

/// schbench's flags, with its names, then the lab's.
#[derive(Args)]
pub struct SchbenchArgs {
    /// Message threads
    #[arg(short, long, value_name = "N", default_value = "1", value_parser = own::messengers, allow_negative_numbers = true)]
    pub message_threads: usize,
    /// Workers of each message thread [default: the CPUs divided by the message threads]
    #[arg(short, long, value_name = "N", value_parser = own::workers, allow_negative_numbers = true)]
    pub threads: Option<usize>,
    /// CPUs of message threads, one each in turn: 0-3,8 or auto (one each; the workers have the others)
    #[arg(short = 'M', long, value_name = "CPUS", value_parser = own::cpus, allow_negative_numbers = true)]
    pub message_cpus: Option<Cpus>,
    /// CPUs that workers share: 0-3,8 or auto
    #[arg(short = 'W', long, value_name = "CPUS", value_parser = own::cpus, allow_negative_numbers = true)]
    pub worker_cpus: Option<Cpus>,
    /// Pin message threads and their workers by last-level cache
    #[arg(short = 'P', long, value_enum, conflicts_with_all = ["message_cpus", "worker_cpus"])]
    pub pin: Option<Pin>,
    /// How long each target runs: seconds, or a time such as 2m [default: 5; schbench's own default is 30]
    #[arg(short, long, value_name = "TIME", value_parser = values::runtime, allow_negative_numbers = true)]
    pub runtime: Option<f64>,
    /// Kilobytes of a worker's matrices
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
    /// Requests per second that the message threads hand out [default: workers start requests themselves]
    #[arg(short = 'R', long, value_name = "N", value_parser = own::rate, allow_negative_numbers = true)]
    pub rps: Option<u32>,
    /// Adjust the requests per second until the machine is busy to this percentage
    #[arg(short = 'A', long, value_name = "PERCENT", value_parser = own::percent, conflicts_with = "noise",
        allow_negative_numbers = true)]
    pub auto_rps: Option<f64>,
    /// Bytes that message threads and workers send each other instead of requests
    #[arg(short, long, value_name = "BYTES", value_parser = own::pipe, allow_negative_numbers = true)]
    pub pipe: Option<usize>,
    /// Seconds before latencies are recorded
    #[arg(short, long, value_name = "SECONDS", default_value = "0", value_parser = own::seconds, allow_negative_numbers = true)]
    pub warmuptime: u64,
    /// Seconds between two reports on stderr
    #[arg(short, long, value_name = "SECONDS", default_value = "10", value_parser = own::interval, allow_negative_numbers = true)]
    pub intervaltime: u64,
    /// Interval in seconds at which latencies are discarded [default: never]
    #[arg(short, long, value_name = "SECONDS", value_parser = own::interval, allow_negative_numbers = true)]
    pub zerotime: Option<u64>,
    /// Do not hold the CPU's lock while a request computes
    #[arg(short = 'L', long)]
    pub no_locking: bool,
    /// Time only the computation, without sleep and locks
    #[arg(short = 'C', long)]
    pub calibrate: bool,
    /// Write schbench's own JSON, an object for each target, to this file (-: stdout)
    #[arg(short = 'j', value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Job name in schbench's own JSON
    #[arg(short = 'J', long, value_name = "NAME")]
    pub jobname: Option<String>,
    /// Run workers as futures on a few threads
    #[arg(long)]
    pub tasks: bool,
    /// Threads that run the workers' futures [default: one for each CPU]
    #[arg(long, value_name = "N", requires = "tasks", value_parser = own::messengers, allow_negative_numbers = true)]
    pub executors: Option<usize>,
    /// Targets, a comma list [default: all]
    #[arg(long, value_name = "LIST", value_parser = values::sleeping_targets)]
    pub targets: Option<List<Name>>,
    /// Buckets: a power of two, or 0 for the global table [default: by the number of threads]
    #[arg(short, long, value_name = "N", value_parser = own::slots_or_none, allow_negative_numbers = true)]
    pub buckets: Option<usize>,
    /// Bucket layout of the engine's tables
    #[arg(long, value_parser = values::one_of::<Layout>(), default_value = "lean")]
    pub layout: Layout,
    /// Size policy of `live`: threads, load, or a power of two [default: load; with -b N, N]
    #[arg(long, value_name = "POLICY", value_parser = values::policy, allow_negative_numbers = true)]
    pub policy: Option<Policy>,
    /// Rounds, each with a run of every target
    #[arg(long, value_name = "N", default_value = "1", value_parser = values::repeat, allow_negative_numbers = true)]
    pub repeat: usize,
    #[command(flatten)]
    pub noise: NoiseArgs,
    /// No progress and no notes on stderr
    #[arg(long)]
    pub silent: bool,
    /// Print one JSON object per line on stdout, and nothing else
    #[arg(long)]
    pub json: bool,
}

/// End of the help.
pub const MORE: &str = "\
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

/// First rate of `-A` without `-R`, in requests per second.
const FIRST_RATE: u32 = 10;
const RUNTIME_S: f64 = 5.0;
/// Largest number of workers in all, so that a mistake does not stop the machine.
const WORKERS_MAX: usize = values::THREADS_MAX;

impl SchbenchArgs {
    /// Checks the flags against each other. An error is one line for the user.
    pub fn check(self) -> Result<Schbench, String> {
        if self.json && self.file.as_deref() == Some(Path::new("-")) {
            return Err("-j '-' is not accepted with --json; accepted: a file, or one of the two".to_string());
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
            return Err(format!(
                "--threads '{workers}' is too large: {all} workers in all; accepted: up to {WORKERS_MAX} in all"
            ));
        }
        self.refuse_too_much_cache(all)?;
        for (flag, list) in [("--message-cpus", &self.message_cpus), ("--worker-cpus", &self.worker_cpus)] {
            refuse_foreign(flag, list.as_ref(), &cpus)?;
        }
        let runtime_s = self.runtime.unwrap_or(RUNTIME_S);
        if self.warmuptime as f64 >= runtime_s {
            let warm_up = self.warmuptime;
            return Err(format!(
                "--warmuptime '{warm_up}' is not less than --runtime; accepted: less than {runtime_s}"
            ));
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
        let given = self.targets.as_ref().map(|List(targets)| targets.clone());
        let is_given = given.is_some();
        let targets = common::of_layout(given, values::sleeping(), self.layout)?;
        if !is_given {
            return Ok(targets);
        }
        if self.tasks && !targets.iter().any(|name| name.has_futures()) {
            let names = targets.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
            return Err(format!(
                "--targets '{names}' is not accepted with --tasks; accepted: live, fixed, atomic, percpu, global"
            ));
        }
        Ok(targets)
    }

    fn settings(&self, targets: Vec<Name>) -> Settings {
        Settings {
            buckets: self.buckets.map_or(Buckets::Auto, Buckets::Exactly),
            layout: self.layout,
            policy: self.policy,
            repeat: Some(self.repeat),
            noise: self.noise.noise,
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
            Err(format!("{flag} '{cpu}' is not a CPU of this process; accepted: {}", allowed.join(",")))
        }
        None => Ok(()),
    }
}
