//! The flags, checked against each other, with the defaults filled in.

use crate::cli::BenchArgs;
use crate::cli::values::{Buckets, Line, List, Policy};
use crate::targets::{Layout, Name};
use crate::workloads::{WAKE_PARALLEL_THREADS, Workload};
use clap::ValueEnum;
use std::time::Duration;

/// The most memory for the words of one workload.
const WORDS_BYTES_MAX: usize = 1 << 30;

/// What `bench` is asked to do; every value has been checked.
#[derive(Clone, Debug)]
pub struct Settings {
    /// In the order in which they run.
    pub workloads: Vec<Workload>,
    /// Whether all workloads run, with the sections that only the full bench has.
    pub full: bool,
    /// `-t`, when given.
    pub threads: Option<Vec<usize>>,
    /// Words of one thread.
    pub futexes: usize,
    /// `-b`.
    pub buckets: Buckets,
    /// `-r`, when given, in seconds.
    pub runtime_s: Option<f64>,
    /// `-S`.
    pub shared: bool,
    /// `-s`.
    pub silent: bool,
    /// In the order in which they are printed.
    pub targets: Vec<Name>,
    /// Of our tables.
    pub layout: Layout,
    /// `--policy`, when given.
    pub policy: Option<Policy>,
    /// `--repeat`, when given.
    pub repeat: Option<usize>,
    /// From a word to its neighbour.
    pub stride_bytes: usize,
    /// `resize`: slots before and after.
    pub resize: (usize, usize),
    /// `crowd`: `-n`, when given.
    pub waiters: Option<Vec<usize>>,
    /// `requeue`: `-q`, when given.
    pub nrequeue: Option<usize>,
    /// `requeue`: all at once.
    pub broadcast: bool,
    /// `requeue`: to a lock that lends priorities.
    pub pi: bool,
    /// `wake-parallel`: `-w`, when given.
    pub nwakers: Option<usize>,
    /// `lock-pi`: a lock for each thread.
    pub multi: bool,
    /// `lock-pi`: how long a thread sleeps with the lock.
    pub hold: Option<Duration>,
    /// Of `locks`.
    pub locks: Locks,
    /// JSON in place of tables.
    pub json: bool,
}

/// The flags of `locks`.
#[derive(Clone, Debug)]
pub struct Locks {
    /// When one of the flags is given.
    pub writers_readers: Option<(usize, usize)>,
    /// Of many-locks, when given.
    pub locks: Option<usize>,
    /// Steps of work with the lock.
    pub inside: usize,
    /// Steps of work without.
    pub between: usize,
    /// Which parking_lot.
    pub line: Line,
}

impl Default for Locks {
    fn default() -> Self {
        Self { writers_readers: None, locks: None, inside: 1, between: 0, line: Line::V013 }
    }
}

impl Locks {
    fn new(args: &BenchArgs) -> Self {
        let asked = args.writers.is_some() || args.readers.is_some();
        Self {
            writers_readers: asked.then(|| (args.writers.unwrap_or(1), args.readers.unwrap_or(1))),
            locks: args.locks,
            inside: args.work_per_critical_section.unwrap_or(1),
            between: args.work_between_critical_sections.unwrap_or(0),
            line: args.line.unwrap_or(Line::V013),
        }
    }
}

impl Settings {
    /// Fills in the defaults; the error is the line that the user sees.
    pub fn new(args: BenchArgs) -> Result<Settings, String> {
        if let Some(workload) = args.workload {
            refuse_flags_of_others(&args, workload)?;
        }
        refuse_two_ways_to_requeue(&args)?;
        let resize = (args.from.unwrap_or(16), args.to.unwrap_or(1024));
        if resize.0 == resize.1 {
            return Err(format!("--to '{}' is --from; accepted: a power of two that differs", resize.1));
        }
        let locks = Locks::new(&args);
        let settings = Settings {
            workloads: args.workload.map_or_else(|| Workload::value_variants().to_vec(), |one| vec![one]),
            full: args.workload.is_none(),
            threads: args.threads.map(|List(threads)| threads),
            futexes: args.futexes.unwrap_or(1024),
            buckets: args.buckets.unwrap_or(Buckets::Auto),
            runtime_s: args.runtime,
            shared: args.shared,
            silent: args.silent,
            targets: args.targets.map_or_else(|| Name::value_variants().to_vec(), |List(names)| names),
            layout: args.layout,
            policy: args.policy,
            repeat: args.repeat,
            stride_bytes: args.stride.unwrap_or(4),
            resize,
            waiters: args.waiters.map(|List(waiters)| waiters),
            nrequeue: args.nrequeue,
            broadcast: args.broadcast,
            pi: args.pi,
            nwakers: args.nwakers,
            multi: args.multi,
            hold: args.hold.filter(|us| *us > 0).map(Duration::from_micros),
            locks,
            json: args.json,
        };
        settings.refuse_too_many_words()?;
        settings.refuse_uneven_shares()?;
        Ok(settings)
    }

    /// The policy of `live`: what `--policy` says, else what `-b` says, else the load.
    pub fn live_policy(&self) -> Policy {
        match (self.policy, self.buckets) {
            (Some(policy), _) => policy,
            (None, Buckets::Exactly(slots)) => Policy::Fixed(slots),
            (None, Buckets::Auto) => Policy::Load,
        }
    }

    /// perf's rule: every waker has as many to wake as the others.
    fn refuse_uneven_shares(&self) -> Result<(), String> {
        let Some(nwakers) = self.nwakers else { return Ok(()) };
        let threads = self.threads.as_deref().unwrap_or(&WAKE_PARALLEL_THREADS);
        match threads.iter().find(|threads| nwakers < **threads && **threads % nwakers != 0) {
            Some(threads) => {
                Err(format!("--nwakers '{nwakers}' cannot share {threads} threads; accepted: a divisor of them"))
            }
            None => Ok(()),
        }
    }

    fn refuse_too_many_words(&self) -> Result<(), String> {
        let threads = self.threads.iter().flatten().max().copied().unwrap_or(16);
        let bytes = threads.saturating_mul(self.futexes).saturating_mul(self.stride_bytes);
        if bytes <= WORDS_BYTES_MAX {
            return Ok(());
        }
        Err(format!(
            "--futexes '{}' is too much: {threads} threads with {} bytes a word make {bytes} bytes; accepted: {WORDS_BYTES_MAX} bytes in all",
            self.futexes, self.stride_bytes
        ))
    }
}

/// All at once, or so many: not both.
fn refuse_two_ways_to_requeue(args: &BenchArgs) -> Result<(), String> {
    match args.nrequeue {
        Some(count) if args.broadcast => {
            Err(format!("--nrequeue '{count}' says nothing to --broadcast; accepted: one of them"))
        }
        _ => Ok(()),
    }
}

/// A flag that a workload does not look at must not pass in silence.
fn refuse_flags_of_others(args: &BenchArgs, workload: Workload) -> Result<(), String> {
    use Workload::{Crowd, Growth, Hash, LockPi, Locks, PingPong, Requeue, Resize, Wake, WakeParallel, Wasm};
    let with_tables = &[Hash, Wake, Growth, PingPong, Requeue, WakeParallel, LockPi, Crowd, Wasm];
    let rules: [(&str, bool, &[Workload]); 21] = [
        (
            "--threads",
            args.threads.is_some(),
            &[Hash, Wake, Resize, Growth, Requeue, WakeParallel, LockPi, Wasm, Locks],
        ),
        ("--futexes", args.futexes.is_some(), &[Hash, Wake, Resize, Wasm]),
        ("--buckets", args.buckets.is_some(), with_tables),
        ("--policy", args.policy.is_some(), with_tables),
        ("--shared", args.shared, &[Hash, Wake, PingPong, Requeue, WakeParallel, LockPi, Wasm]),
        ("--stride", args.stride.is_some(), &[Hash, Wake, Wasm]),
        ("--from", args.from.is_some(), &[Resize]),
        ("--to", args.to.is_some(), &[Resize]),
        ("--nrequeue", args.nrequeue.is_some(), &[Requeue]),
        ("--broadcast", args.broadcast, &[Requeue]),
        ("--pi", args.pi, &[Requeue]),
        ("--nwakers", args.nwakers.is_some(), &[WakeParallel]),
        ("--multi", args.multi, &[LockPi]),
        ("--hold", args.hold.is_some(), &[LockPi]),
        ("--waiters", args.waiters.is_some(), &[Crowd]),
        ("--writers", args.writers.is_some(), &[Locks]),
        ("--readers", args.readers.is_some(), &[Locks]),
        ("--line", args.line.is_some(), &[Locks]),
        ("--locks", args.locks.is_some(), &[Locks]),
        ("--work-per-critical-section", args.work_per_critical_section.is_some(), &[Locks]),
        ("--work-between-critical-sections", args.work_between_critical_sections.is_some(), &[Locks]),
    ];
    for (flag, given, workloads) in rules {
        if given && !workloads.contains(&workload) {
            let names: Vec<_> = workloads.iter().map(ToString::to_string).collect();
            return Err(format!("{flag} says nothing to '{workload}'; accepted: with {}", names.join(", ")));
        }
    }
    Ok(())
}
