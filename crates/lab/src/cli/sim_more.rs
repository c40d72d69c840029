//! `ufutex sim timers`, `sim schbench` and `sim validate`: the workloads of `sim` with their own options.

use super::sim;
use clap::Args;
use lab_sim::published::Source;
use lab_sim::timers::{Design, Test};
use lab_sim::validate::hash::Scheme;
use lab_sim::{schbench, timers, validate};
use lab_values::{self as values, List};
use std::time::Duration;
use strum::VariantArray;
use ufutex_coherence::{CORES, Topology};

/// Last exit statuses of all three.
macro_rules! ends_with {
    () => {
        "
  2    a mistake in the options
  130  interrupted: the results until then were printed"
    };
}

/// End of the help of `sim timers`.
pub const TIMERS: &str = concat!(
    "\
Nothing is measured: all figures are modelled, in virtual time. The same arguments print the same figures.

Rows of --json, one object per line:
  workload, test, design, topology, threads (of each process), processes, timers (of each thread), seed; create_ns,
  getoverrun_ns, create_delete_ns (both together) of one timer, as a thread sees it, null if the test has none;
  hitm_per_op; hot, by object, field and offset: hitm in all

Exit status:
  0    run and printed
  1    a run failed",
    ends_with!(),
    "

Examples:
  ufutex sim timers --cores 63 --tests create-delete        all threads of one process
  ufutex sim timers --cores 63 --tests create-delete -p     the same with one thread in each process"
);

/// End of the help of `sim schbench`.
pub const SCHBENCH: &str = concat!(
    "\
Nothing is measured: all figures are modelled, in virtual time. The same arguments print the same figures.

Rows of --json, one object per line:
  workload, scheme, buckets, topology, message_threads, threads (workers of each), seed; rps (requests per second of all
  workers), hitm_per_op (for each request)

Exit status:
  0    run and printed
  1    a run failed",
    ends_with!(),
    "

Example:
  ufutex sim schbench --topology zen3-2s -m 4 -t 128 -b 2048"
);

/// End of the help of `sim validate`.
pub const VALIDATE: &str = concat!(
    "\
Rows of --json, one object per line:
  source, comparison, published [base, other], published_ratio, here_ratio (null: not measured here), modelled [base,
  other], modelled_ratio, sized (whether the ratio must be right within a factor of 1.5), verdict, note

Exit status:
  0    the model is right in every comparison that it must get right
  1    it misses one of them, or a run failed",
    ends_with!(),
    "

Example:
  ufutex sim validate --only private-hash,timer-hash --no-measure"
);

/// Arguments of `sim timers`: designs of a timer table on virtual cores.
#[derive(Args)]
pub struct TimersArgs {
    /// The machine: epyc-9d64, turin, skylake-2s, zen3-2s, power, ivb-4s, here, or a file
    #[arg(long, value_name = "NAME|FILE", default_value = "skylake-2s", value_parser = sim::topology)]
    topology: Topology,
    /// Virtual cores, a comma list; each core has one thread
    #[arg(short = 't', long, visible_alias = "threads", value_name = "LIST", default_value = "1,8,63",
        value_parser = values::numbers(1, CORES, "cores"))]
    cores: List<usize>,
    /// Designs, a comma list: ours, global-lock, precheck, scaled, radix [default: all]
    #[arg(long, visible_alias = "targets", value_name = "LIST", value_parser = values::one_of::<Design>(), value_delimiter = ',')]
    designs: Vec<Design>,
    /// Tests, a comma list: create-getoverrun, create-delete [default: both]
    #[arg(long, value_name = "LIST", value_parser = values::one_of::<Test>(), value_delimiter = ',')]
    tests: Vec<Test>,
    /// Timers of each thread; create-delete: loops
    #[arg(short = 'n', long, value_name = "N", default_value = "200", value_parser = values::number::<usize>(1, 1_000_000, "timers a thread"))]
    timers: usize,
    /// Put each thread into its own process
    #[arg(short, long)]
    processes: bool,
    /// Add to each call what the kernel's call costs outside its table
    #[arg(long)]
    kernel: bool,
    /// Seed of the random numbers
    #[arg(long, value_name = "N", default_value = "1", value_parser = sim::seed)]
    seed: u64,
    /// No progress on stderr
    #[arg(short, long)]
    silent: bool,
    /// Print one JSON object per line on stdout, and nothing else
    #[arg(long)]
    json: bool,
}

impl TimersArgs {
    /// Checks the cores against the machine.
    pub fn check(self) -> Result<timers::Settings, String> {
        let or_all = |given: Vec<Design>| if given.is_empty() { Design::ALL.to_vec() } else { given };
        let or_both = |given: Vec<Test>| if given.is_empty() { Test::VARIANTS.to_vec() } else { given };
        Ok(timers::Settings {
            cores: on_machine(self.cores, &self.topology)?,
            topology: self.topology,
            designs: or_all(self.designs),
            tests: or_both(self.tests),
            timers: self.timers,
            processes: self.processes,
            kernel: self.kernel,
            seed: self.seed,
            silent: self.silent,
            json: self.json,
        })
    }
}

/// The schemes of `sim schbench`, in the order of the rows.
const SCHEMES: [Scheme; 4] = [Scheme::Fixed, Scheme::Atomic, Scheme::PerCpu, Scheme::Live];

/// Arguments of `sim schbench`: schbench's threads on virtual cores, with schbench's flags.
#[derive(Args)]
pub struct SchbenchArgs {
    /// The machine: epyc-9d64, turin, skylake-2s, zen3-2s, power, ivb-4s, here, or a file
    #[arg(long, value_name = "NAME|FILE", default_value = "turin", value_parser = sim::topology)]
    topology: Topology,
    /// Schemes, a comma list: fixed, atomic, percpu, live [default: all]
    #[arg(long, value_name = "LIST", value_parser = values::among(&SCHEMES), value_delimiter = ',')]
    schemes: Vec<Scheme>,
    /// Buckets, a power of two; 0 for the namespace's global table
    #[arg(short, long, value_name = "N", default_value = "1024", value_parser = buckets)]
    buckets: usize,
    /// Message threads
    #[arg(short, long, value_name = "N", default_value = "4", value_parser = values::number::<usize>(1, 64, "message threads"))]
    message_threads: usize,
    /// Workers of each message thread
    #[arg(short = 't', long, value_name = "N", default_value = "256", value_parser = values::number::<usize>(1, 4096, "workers"))]
    threads: usize,
    /// Length of the run in virtual microseconds
    #[arg(short, long, value_name = "US", default_value = "4000", value_parser = values::number::<u64>(1, 10_000_000, "microseconds"))]
    runtime: u64,
    /// Add to each futex call what the kernel's call costs outside its table
    #[arg(long)]
    kernel: bool,
    /// How many virtual microseconds a thread may spin before it sleeps
    #[arg(long, value_name = "US", default_value = "0", value_parser = super::run::spin)]
    spin: Duration,
    /// Seed of the random numbers
    #[arg(long, value_name = "N", default_value = "1", value_parser = sim::seed)]
    seed: u64,
    /// No progress on stderr
    #[arg(long)]
    silent: bool,
    /// Print one JSON object per line on stdout, and nothing else
    #[arg(long)]
    json: bool,
}

impl SchbenchArgs {
    /// Checks the number of threads.
    pub fn check(self) -> Result<schbench::Settings, String> {
        let threads = self.message_threads * (self.threads + 1);
        if threads > values::THREADS_MAX {
            let (workers, most) = (self.threads, values::THREADS_MAX);
            return Err(format!(
                "--threads '{workers}' is too large: {threads} threads in all; accepted: up to {most} in all"
            ));
        }
        Ok(schbench::Settings {
            topology: self.topology,
            schemes: if self.schemes.is_empty() { SCHEMES.to_vec() } else { self.schemes },
            buckets: self.buckets,
            messages: self.message_threads,
            workers: self.threads,
            runtime_us: self.runtime,
            kernel: self.kernel,
            spin: self.spin,
            seed: self.seed,
            silent: self.silent,
            json: self.json,
        })
    }
}

/// Arguments of `sim validate`.
#[derive(Args)]
pub struct ValidateArgs {
    /// Only figures of these sources in docs/REFERENCES.md, a comma list [default: all]
    #[arg(long, value_name = "LIST", value_parser = values::one_of::<Source>(), value_delimiter = ',')]
    only: Vec<Source>,
    /// Do not measure on this machine
    #[arg(long)]
    no_measure: bool,
    /// No progress on stderr
    #[arg(short, long)]
    silent: bool,
    /// Print one JSON object per line on stdout, and nothing else
    #[arg(long)]
    json: bool,
}

impl From<ValidateArgs> for validate::Settings {
    fn from(ValidateArgs { only, no_measure, silent, json }: ValidateArgs) -> Self {
        Self { only, measures: !no_measure, silent, json }
    }
}

fn on_machine(List(cores): List<usize>, topology: &Topology) -> Result<Vec<usize>, String> {
    let (name, cpus) = (&topology.name, topology.cpus());
    match cores.iter().find(|cores| **cores > cpus) {
        Some(beyond) => Err(format!("--cores '{beyond}' is not accepted on {name}; accepted: 1 to {cpus}")),
        None => Ok(cores),
    }
}

fn buckets(text: &str) -> Result<usize, String> {
    if text == "0" { Ok(0) } else { values::slots(text) }
}
