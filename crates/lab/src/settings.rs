//! The flags, checked against each other, with the defaults filled in.

use crate::cli::BenchArgs;
use crate::cli::values::{self, Buckets, Line, List, Policy, Targets};
use crate::targets::timers::{self, Test};
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
    /// `crowd`, `timers`: `-n`, when given.
    pub number: Option<Vec<usize>>,
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
    /// Of `timers`.
    pub timers: Timers,
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

/// The flags of `timers`.
#[derive(Clone, Debug)]
pub struct Timers {
    /// In the order in which they are printed.
    pub targets: Vec<timers::Name>,
    /// The same.
    pub tests: Vec<Test>,
    /// `-p`, when given.
    pub processes: Option<Vec<usize>>,
    /// `--sparse`, when given.
    pub sparse: Option<usize>,
}

/// The most timers that exist together: they take two gigabytes.
const TIMERS_MAX: usize = 1 << 24;

impl Timers {
    fn new(args: &BenchArgs) -> Result<Self, String> {
        let tests = match (&args.tests, args.sparse) {
            (Some(List(tests)), Some(stride)) => match tests.iter().find(|test| **test != Test::CreateGetoverrun) {
                Some(test) => {
                    return Err(format!(
                        "--sparse '{stride}' says nothing to '{test}'; accepted: with create-getoverrun"
                    ));
                }
                None => tests.clone(),
            },
            (Some(List(tests)), None) => tests.clone(),
            (None, Some(_)) => vec![Test::CreateGetoverrun],
            (None, None) => Test::value_variants().to_vec(),
        };
        let targets = match &args.targets {
            Some(targets) => targets.timers.clone(),
            None => timers::Name::value_variants().to_vec(),
        };
        let processes = args.processes.clone().flatten().map(|List(processes)| processes);
        let timers = Self { targets, tests, processes, sparse: args.sparse };
        timers.refuse_too_many(args)?;
        Ok(timers)
    }

    /// All timers exist together, with IDs that are whole numbers of 31 bits.
    fn refuse_too_many(&self, args: &BenchArgs) -> Result<(), String> {
        let Some(List(number)) = &args.number else { return Ok(()) };
        if args.workload.is_some_and(|one| one != Workload::Timers) || self.tests == [Test::CreateDelete] {
            return Ok(());
        }
        let most = |list: Option<&Vec<usize>>| list.into_iter().flatten().max().copied().unwrap_or(1);
        let timers = most(Some(number));
        let process = timers.saturating_mul(most(args.threads.as_ref().map(|List(threads)| threads)));
        let all = process.saturating_mul(most(self.processes.as_ref()));
        if all > TIMERS_MAX {
            return Err(format!("--number '{timers}' is too much: {all} timers in all; accepted: {TIMERS_MAX} in all"));
        }
        match self.sparse {
            Some(stride) if (process - 1).saturating_mul(stride) > i32::MAX as usize => Err(format!(
                "--sparse '{stride}' is too much: {process} timers need larger IDs than there are; accepted: up to {}",
                i32::MAX as usize / (process - 1)
            )),
            _ => Ok(()),
        }
    }
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

/// What holds where no flag says anything.
impl Default for Settings {
    fn default() -> Self {
        let timers = Timers {
            targets: timers::Name::value_variants().to_vec(),
            tests: Test::value_variants().to_vec(),
            processes: None,
            sparse: None,
        };
        Settings {
            workloads: Workload::value_variants().to_vec(),
            full: true,
            threads: None,
            futexes: 1024,
            buckets: Buckets::Auto,
            runtime_s: None,
            shared: false,
            silent: false,
            targets: Name::value_variants().to_vec(),
            layout: Layout::Lean,
            policy: None,
            repeat: None,
            stride_bytes: 4,
            resize: (16, 1024),
            number: None,
            nrequeue: None,
            broadcast: false,
            pi: false,
            nwakers: None,
            multi: false,
            hold: None,
            locks: Locks::default(),
            timers,
            json: false,
        }
    }
}

impl Settings {
    /// Fills in the defaults; the error is the line that the user sees.
    pub fn new(args: BenchArgs) -> Result<Settings, String> {
        if let Some(workload) = args.workload {
            refuse_flags_of_others(&args, workload)?;
            refuse_targets_of_others(&args, workload)?;
        }
        refuse_two_ways_to_requeue(&args)?;
        let resize = (args.from.unwrap_or(16), args.to.unwrap_or(1024));
        if resize.0 == resize.1 {
            return Err(format!("--to '{}' is --from; accepted: a power of two that differs", resize.1));
        }
        let (locks, timers) = (Locks::new(&args), Timers::new(&args)?);
        let pi = lends_priority(&args);
        let settings = Settings {
            workloads: args.workload.map_or_else(|| Workload::value_variants().to_vec(), |one| vec![one]),
            full: args.workload.is_none(),
            threads: args.threads.map(|List(threads)| threads),
            futexes: args.futexes.unwrap_or(1024),
            buckets: args.buckets.unwrap_or(Buckets::Auto),
            runtime_s: args.runtime,
            shared: args.shared,
            silent: args.silent,
            targets: args.targets.map_or_else(|| Name::value_variants().to_vec(), |targets| targets.futex),
            layout: args.layout,
            policy: args.policy,
            repeat: args.repeat,
            stride_bytes: args.stride.unwrap_or(4),
            resize,
            number: args.number.map(|List(number)| number),
            nrequeue: args.nrequeue,
            broadcast: args.broadcast,
            pi,
            nwakers: args.nwakers,
            multi: args.multi,
            hold: args.hold.filter(|us| *us > 0).map(Duration::from_micros),
            locks,
            timers,
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

/// perf's `-p` is `--pi`; with a list it is `--processes`.
fn lends_priority(args: &BenchArgs) -> bool {
    args.pi || matches!(args.processes, Some(None))
}

/// `timers` has targets of its own, and shares only the kernel.
fn refuse_targets_of_others(args: &BenchArgs, workload: Workload) -> Result<(), String> {
    let Some(Targets { not_futex, not_timers, .. }) = &args.targets else { return Ok(()) };
    let (unknown, accepted) = match workload {
        Workload::Timers => (not_timers, values::timers_targets()),
        _ => (not_futex, values::futex_targets()),
    };
    match unknown {
        Some(name) => Err(format!("--targets '{name}' is no target of '{workload}'; accepted: {accepted}")),
        None => Ok(()),
    }
}

/// A flag that a workload does not look at must not pass in silence.
fn refuse_flags_of_others(args: &BenchArgs, workload: Workload) -> Result<(), String> {
    use Workload::{Crowd, Growth, Hash, LockPi, Locks, PingPong, Requeue, Resize, Timers, Wake, WakeParallel, Wasm};
    let with_tables = &[Hash, Wake, Growth, PingPong, Requeue, WakeParallel, LockPi, Crowd, Wasm];
    let rules: [(&str, bool, &[Workload]); 24] = [
        (
            "--threads",
            args.threads.is_some(),
            &[Hash, Wake, Resize, Growth, Requeue, WakeParallel, LockPi, Wasm, Locks, Timers],
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
        ("--pi", lends_priority(args), &[Requeue]),
        ("--processes", matches!(args.processes, Some(Some(_))), &[Timers]),
        ("--tests", args.tests.is_some(), &[Timers]),
        ("--sparse", args.sparse.is_some(), &[Timers]),
        ("--nwakers", args.nwakers.is_some(), &[WakeParallel]),
        ("--multi", args.multi, &[LockPi]),
        ("--hold", args.hold.is_some(), &[LockPi]),
        ("--number", args.number.is_some(), &[Crowd, Timers]),
        ("--writers", args.writers.is_some(), &[Locks]),
        ("--readers", args.readers.is_some(), &[Locks]),
        ("--line", args.line.is_some(), &[Locks]),
        ("--locks", args.locks.is_some(), &[Locks]),
        ("--work-per-critical-section", args.work_per_critical_section.is_some(), &[Locks]),
        ("--work-between-critical-sections", args.work_between_critical_sections.is_some(), &[Locks]),
    ];
    if workload == Timers && matches!(args.processes, Some(None)) {
        return Err("--processes has no value; accepted: --processes VALUE, see --help".to_string());
    }
    for (flag, given, workloads) in rules {
        if given && !workloads.contains(&workload) {
            let names: Vec<_> = workloads.iter().map(ToString::to_string).collect();
            return Err(format!("{flag} says nothing to '{workload}'; accepted: with {}", names.join(", ")));
        }
    }
    Ok(())
}
