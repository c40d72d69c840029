//! `ufutex sim`: its options and their checks.

use clap::Args;
use lab_sim::{Scheme, Settings, Workload};
use lab_targets::{Layout, Policy};
use lab_values::{self as values, List};
use std::io::Read;
use strum::VariantArray;
use ufutex_coherence::{CORES, Topology};

/// Arguments of `ufutex sim`.
#[derive(Args)]
pub struct SimArgs {
    /// The workload, if none of the commands below is named
    #[arg(value_parser = values::one_of::<Workload>(), required = true)]
    workload: Option<Workload>,
    /// The machine: epyc-9d64, turin, skylake-2s, zen3-2s, power, ivb-4s, here, or a file
    #[arg(long, value_name = "NAME|FILE", default_value = "epyc-9d64", value_parser = topology)]
    topology: Topology,
    /// Virtual cores, a comma list [default: 1, 8, 64 and all of the machine]
    #[arg(short = 't', long, visible_alias = "threads", value_name = "LIST", value_parser = values::numbers(1, CORES, "cores"))]
    cores: Option<List<usize>>,
    /// Schemes, a comma list: live, fixed, atomic, percpu, global [default: all; resize live,atomic,percpu]
    #[arg(long, value_name = "LIST", value_parser = values::some_of::<Scheme>(), hide_possible_values = true)]
    schemes: Option<List<Scheme>>,
    /// Bucket layouts, a comma list: lean, packed, split
    #[arg(long, value_name = "LIST", default_value = "lean", value_parser = values::some_of::<Layout>(), hide_possible_values = true)]
    layout: List<Layout>,
    /// Buckets, a comma list of powers of two; not for resize, which has --from and --to
    #[arg(short, long, value_name = "LIST", value_parser = buckets)]
    buckets: Option<List<usize>>,
    /// Size policy of the table: threads, load, or a power of two [default: load; with -b N, N]
    #[arg(long, value_name = "POLICY", value_parser = values::policies(), hide_possible_values = true)]
    policy: Option<Policy>,
    /// Futexes (words) of each thread
    #[arg(short, long, value_name = "N", default_value = "1024", value_parser = values::number::<usize>(1, 1 << 16, "futexes a thread"))]
    futexes: usize,
    /// Waits compare the word before they lock the bucket
    #[arg(long)]
    early_return: bool,
    /// resize: slots before the resize
    #[arg(long, value_name = "N", default_value = "16", value_parser = values::slots)]
    from: usize,
    /// resize: slots after the resize
    #[arg(long, value_name = "N", default_value = "1024", value_parser = values::slots)]
    to: usize,
    /// Seed of the random numbers
    #[arg(long, value_name = "N", default_value = "1", value_parser = seed)]
    seed: u64,
    /// No progress on stderr
    #[arg(short, long)]
    silent: bool,
    /// Print one JSON object per line on stdout, and nothing else
    #[arg(long)]
    pub json: bool,
}

/// End of the help.
pub const ROWS: &str = "\
Nothing is measured: all figures are modelled, in virtual time. The same arguments print the same figures.

Rows of --json, one object per line:
  workload, scheme, layout, buckets (in use at the end), policy, topology, cores, futexes, early_return, seed;
  ops_per_sec of all cores, ns_per_op as one core sees it; for each operation: loads_per_op, stores_per_op,
  locked_per_op, transfers_near_per_op (within a chiplet), transfers_far_per_op (beyond), from_memory_per_op,
  hitm_per_op (loads that found the line modified in another core); hot, by object, field and offset, most HITM first:
  hitm, hitm_near, hitm_far, transfers, waited_ns for each operation, functions {name, file, line, share of the
  transfers}
  hash, wake     runs (each with its own seed) until spread, the relative standard error, is at most 1 %, or 5 runs
  resize         from, to, resize_us (given up after 500 us), completed, op_pause_us {p50, p99, max} of operations
                 during the resize, ops_per_sec_before, _during, _after; began_us, timeline_step_us,
                 timeline_ops_per_sec

A topology file is TOML. Times are in nanoseconds. Cores are numbered chiplet by chiplet, siblings last.
  name, ghz, sockets, chiplets_per_socket, cores_per_chiplet; optionally description, threads_per_core [default: 1], and
             [source], which says where each figure is from
  [latency]  hit, locked, barrier, smt, chiplet, socket, far, memory; optionally store [default: 0.4], pause [default:
             15], and with the default 0: hold (how long a core keeps a line that others wait for), window (how long
             before an access a core asks for its line) and sibling (the share by which a core's work takes longer for
             each sibling that works too)
  [thread]   optionally syscall, sleep, wake, wakeup, switch, slice, membarrier

Exit status:
  0    run and printed
  1    a run failed
  2    a mistake in the options
  130  interrupted: the rows are those of the runs until then

Examples:
  ufutex sim hash --cores 1,8,64 --schemes live,atomic -b 1024    the cost of a shared counter on 64 cores
  ufutex sim hash --topology turin --layout lean,packed,split     the layouts of a bucket in cache lines
  ufutex sim resize --cores 64                                    which schemes stall during a resize";

impl SimArgs {
    /// Checks the options against each other and against the machine.
    pub fn check(self) -> Result<Settings, String> {
        let (name, cpus) = (&self.topology.name, self.topology.cpus());
        let cores = self.cores.map_or_else(|| usual_cores(cpus), |List(cores)| cores);
        if let Some(beyond) = cores.iter().find(|cores| **cores > cpus) {
            return Err(format!("--cores '{beyond}' is not accepted on {name}; accepted: 1 to {cpus}"));
        }
        if let (Some(List(buckets)), Some(policy)) = (&self.buckets, self.policy) {
            let buckets = buckets[0];
            return Err(format!(
                "--buckets '{buckets}' is not accepted with --policy '{policy}'; accepted: one of the two"
            ));
        }
        // clap requires a workload.
        let workload = self.workload.unwrap_or(Workload::Hash);
        let is_resize = workload == Workload::Resize;
        let all = Scheme::VARIANTS.iter().copied();
        let usual = || all.filter(|scheme| !is_resize || scheme.can_resize()).collect();
        let schemes: Vec<Scheme> = self.schemes.map_or_else(usual, |List(schemes)| schemes);
        if let Some(fixed) = schemes.iter().find(|scheme| is_resize && !scheme.can_resize()) {
            return Err(format!("--schemes '{fixed}' is not accepted with resize; accepted: live, atomic, percpu"));
        }
        if is_resize && (self.buckets.is_some() || self.policy.is_some()) {
            return Err("--buckets and --policy are not accepted with resize; accepted: --from N --to N".to_string());
        }
        if is_resize && self.from == self.to {
            return Err(format!("--to '{}' equals --from; accepted: another power of two", self.to));
        }
        let policies = match self.buckets {
            Some(List(buckets)) => buckets.into_iter().map(Policy::Fixed).collect(),
            None if is_resize => vec![Policy::Fixed(self.from)],
            None => vec![self.policy.unwrap_or(Policy::Load)],
        };
        Ok(Settings {
            workload,
            topology: self.topology,
            cores,
            schemes,
            layouts: self.layout.0,
            policies,
            futexes: self.futexes,
            early_return: self.early_return,
            resize: (self.from, self.to),
            seed: self.seed,
            silent: self.silent,
            json: self.json,
        })
    }
}

fn usual_cores(cpus: usize) -> Vec<usize> {
    let mut cores: Vec<usize> = [1, 8, 64].into_iter().filter(|cores| *cores < cpus).collect();
    cores.push(cpus);
    cores
}

/// A built-in topology, or one from a file.
pub fn topology(text: &str) -> Result<Topology, String> {
    if let Some(topology) = Topology::given(text) {
        return Ok(topology);
    }
    let given = Topology::names().collect::<Vec<_>>().join(", ");
    let described = description(text)
        .map_err(|error| format!("is not accepted ({error}); accepted: {given}, or a file that describes a machine"))?;
    Topology::parse(&described).map_err(|reason| format!("cannot be used: {reason}"))
}

/// Reads at most 1 MiB: a topology has some lines, and a device or a wrong file may be endless.
fn description(file: &str) -> Result<String, std::io::Error> {
    const MOST: u64 = 1 << 20;
    let mut described = String::new();
    std::fs::File::open(file)?.take(MOST + 1).read_to_string(&mut described)?;
    if described.len() as u64 > MOST { Err(std::io::ErrorKind::FileTooLarge.into()) } else { Ok(described) }
}

fn buckets(text: &str) -> Result<List<usize>, String> {
    let accepted = format!("a power of two from 2 to {}, or a comma list of such numbers", values::BUCKETS_MAX);
    values::list(text, &accepted, |part| values::slots(part).ok())
}

/// `--seed`.
pub fn seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("is not accepted; accepted: 0 to {}", u64::MAX))
}
