//! What `bench` is asked to do.

use crate::Workload;
use lab_targets::timers::{self, Test};
use lab_targets::{Layout, Name, Policy};
use std::fmt;
use std::time::Duration;
use strum::{EnumMessage, EnumString, IntoStaticStr, VariantArray};

/// `-b`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buckets {
    /// As many as `live` settles at.
    Auto,
    /// This many on every target that can be told.
    Exactly(usize),
}

/// `--line`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumMessage, EnumString, IntoStaticStr, VariantArray)]
pub enum Line {
    /// parking_lot 0.12, on core 0.9.
    #[strum(serialize = "0.12")]
    V012,
    /// parking_lot 0.13, on core 0.10.
    #[strum(serialize = "0.13")]
    V013,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.into())
    }
}

/// What `bench` is asked to do; every value has been checked.
#[derive(Clone, Debug)]
pub struct Settings {
    /// In the order in which they run.
    pub workloads: Vec<Workload>,
    /// Whether all workloads run, with the sections that only the full bench has.
    pub full: bool,
    /// `--figures`: every workload at full length, and each figure that the project holds itself to.
    pub figures: bool,
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

impl Default for Locks {
    fn default() -> Self {
        Self { writers_readers: None, locks: None, inside: 1, between: 0, line: Line::V013 }
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
            workloads: Workload::BY_DEFAULT.to_vec(),
            full: true,
            figures: false,
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
    /// The policy of `live`: what `--policy` says, else what `-b` says, else the load.
    pub fn live_policy(&self) -> Policy {
        match (self.policy, self.buckets) {
            (Some(policy), _) => policy,
            (None, Buckets::Exactly(slots)) => Policy::Fixed(slots),
            (None, Buckets::Auto) => Policy::Load,
        }
    }
}
