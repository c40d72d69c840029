//! The flags, checked against each other, with the defaults filled in.

mod refuse;

use crate::cli::BenchArgs;
use crate::cli::values::{Buckets, Format, Line, List};
use crate::workloads::{WAKE_PARALLEL_THREADS, Workload};
use clap::ValueEnum;
use lab_targets::Policy;
use lab_targets::timers::{self, Test};
use lab_targets::{Layout, Name};
use std::time::Duration;
use strum::VariantArray;

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
    /// `-I`.
    pub immutable: bool,
    /// `hash --sweep`: `-b`, when given, or else nothing.
    pub sweep: Option<Vec<usize>>,
    /// `-p`, of `--sweep`.
    pub processes: Option<usize>,
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
    /// perf's output in place of tables; whether with its first line.
    pub perf: Option<FirstLine>,
    /// `-m`.
    pub mlockall: bool,
}

/// Whether perf says which benchmark runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstLine {
    /// As by default.
    Shown,
    /// As with `--format simple`.
    Left,
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
            (None, None) => Test::VARIANTS.to_vec(),
        };
        let targets = match &args.targets {
            Some(targets) => targets.timers.clone(),
            None => timers::Name::VARIANTS.to_vec(),
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
            targets: timers::Name::VARIANTS.to_vec(),
            tests: Test::VARIANTS.to_vec(),
            processes: None,
            sparse: None,
        };
        Settings {
            workloads: Workload::value_variants().to_vec(),
            full: true,
            threads: None,
            futexes: 1024,
            buckets: Buckets::Auto,
            immutable: false,
            sweep: None,
            processes: None,
            runtime_s: None,
            shared: false,
            silent: false,
            targets: Name::VARIANTS.to_vec(),
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
            perf: None,
            mlockall: false,
        }
    }
}

impl Settings {
    /// Fills in the defaults; the error is the line that the user sees.
    pub fn new(args: BenchArgs) -> Result<Settings, String> {
        refuse::all(&args)?;
        let (locks, timers) = (Locks::new(&args), Timers::new(&args)?);
        let pi = refuse::lends_priority(&args);
        let sizes = args.buckets.map_or_else(Vec::new, |List(sizes)| sizes);
        let exact = |size: &Buckets| if let Buckets::Exactly(slots) = size { Some(*slots) } else { None };
        let perf = match args.format {
            Some(Format::Perf) => Some(FirstLine::Shown),
            Some(Format::Simple) => Some(FirstLine::Left),
            _ => None,
        };
        let all = if perf.is_some() { &Workload::OF_PERF[..] } else { Workload::value_variants() };
        let targets = if perf.is_some() { &[Name::Live][..] } else { Name::VARIANTS };
        let settings = Settings {
            workloads: args.workload.map_or_else(|| all.to_vec(), |one| vec![one]),
            full: args.workload.is_none(),
            threads: args.threads.map(|List(threads)| threads),
            futexes: args.futexes.unwrap_or(1024),
            buckets: sizes.first().copied().unwrap_or(Buckets::Auto),
            immutable: args.immutable,
            sweep: args.sweep.then(|| sizes.iter().filter_map(exact).collect()),
            processes: args.processes.flatten().and_then(|List(processes)| processes.first().copied()),
            runtime_s: args.runtime,
            shared: args.shared,
            silent: args.silent,
            targets: args.targets.map_or_else(|| targets.to_vec(), |targets| targets.futex),
            layout: args.layout,
            policy: args.policy,
            repeat: args.repeat,
            stride_bytes: args.stride.unwrap_or(4),
            resize: (args.from.unwrap_or(16), args.to.unwrap_or(1024)),
            number: args.number.map(|List(number)| number),
            nrequeue: args.nrequeue,
            broadcast: args.broadcast,
            pi,
            nwakers: args.nwakers,
            multi: args.multi,
            // perf sleeps with the lock.
            hold: args.hold.or(perf.map(|_| 1)).filter(|us| *us > 0).map(Duration::from_micros),
            locks,
            timers,
            json: args.json || args.format == Some(Format::Json),
            perf,
            mlockall: args.mlockall,
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
        let Some(nwakers) = self.nwakers.filter(|_| self.workloads != [Workload::Wake]) else { return Ok(()) };
        let default = [lab_measure::machine::allowed_cpus().len()];
        let default = if self.perf.is_some() { &default[..] } else { &WAKE_PARALLEL_THREADS };
        let threads = self.threads.as_deref().unwrap_or(default);
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
