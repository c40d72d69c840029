//! The workloads, and the run over them.

pub mod arena;
mod children;
mod crowd;
mod growth;
pub mod growth_child;
mod hammer;
mod lock_pi;
mod locks;
mod locks_child;
pub mod memory;
pub mod neighbour;
pub mod perf;
mod ping_pong;
mod requeue;
mod resize;
mod row;
pub mod schbench;
pub mod settings;
mod sink;
mod sizes;
mod sleepers;
pub mod survey;
pub mod sweep;
pub mod timers;
mod wake_many;
mod wake_parallel;
mod wasm;

pub use crowd::{Case as CrowdCase, section as crowd_section};
pub use hammer::{policy_name, section};
pub use lock_pi::SECTION as LOCK_PI;
pub use locks::{Case as LocksCase, Target as LocksTarget};
pub use memory::Memory;
pub use requeue::{AtOnce, section as requeue_section};
pub use resize::GIVE_UP;
pub use row::Row;
pub use settings::Settings;
pub use sink::{SchbenchOutcome, Sink};
pub use sizes::share_of_best;
pub use timers::{Case as TimersCase, Findings as Timers, Measure as TimersMeasure, section as timers_section};
pub use wake_parallel::THREADS as WAKE_PARALLEL_THREADS;
pub use wasm::{Case as WasmCase, WASMTIME, section as wasm_section};

use anyhow::{Result, anyhow};
use lab_measure::interrupt;
use lab_measure::machine::{self, Distance};
use lab_measure::series::Series;
use lab_targets::Policy;
use lab_targets::{Name, Operation, Shape, Subject};
use lab_terminal::progress::Progress;
use lab_terminal::stderr;
use settings::Buckets;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;
use strum::{EnumMessage, EnumString, IntoStaticStr, VariantArray};

/// What tables get where nothing else is asked for, and nothing is gained by more.
pub const BUCKETS_MIN: usize = 16;

/// The share of its usual time that a workload gets where all of them run: a newcomer sees the end within 90 s.
const SHARE_OF_ALL: f64 = 0.6;

/// What `bench` can measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumMessage, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Workload {
    /// Wait on a word that differs: perf's `futex hash`
    Hash,
    /// Wake where nobody waits
    Wake,
    /// Another table size under hammering threads
    Resize,
    /// Threads park one after another: the first wait of each
    Growth,
    /// Two threads wake one another in turn
    PingPong,
    /// Sleeping threads are moved to another word: perf's `futex requeue`
    Requeue,
    /// Several threads wake a share of the sleepers each: perf's `futex wake-parallel`
    WakeParallel,
    /// Lock and unlock with priority inheritance: perf's `futex lock-pi`
    LockPi,
    /// Wakes where many wait: futures, custom waiters
    Crowd,
    /// WebAssembly's waits and notifies, beside wasmtime's if built with it
    Wasm,
    /// parking_lot's own benchmarks: on its core, on ours, and std's locks
    Locks,
    /// POSIX timers: ours, four designs of a kernel's table, and the host's own
    Timers,
}

impl Workload {
    /// Those that run where none is named: all but `locks`, whose programs have to be built first.
    pub const BY_DEFAULT: [Workload; 11] = [
        Workload::Hash,
        Workload::Wake,
        Workload::Resize,
        Workload::Growth,
        Workload::PingPong,
        Workload::Requeue,
        Workload::WakeParallel,
        Workload::LockPi,
        Workload::Crowd,
        Workload::Wasm,
        Workload::Timers,
    ];

    /// Those that `perf bench futex` has, in its order.
    pub const OF_PERF: [Workload; 5] =
        [Workload::Hash, Workload::Wake, Workload::WakeParallel, Workload::Requeue, Workload::LockPi];
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.into())
    }
}

/// What one workload found.
#[derive(Default)]
pub struct Outcome {
    /// In the order of the table.
    pub rows: Vec<Row>,
    /// One line each: what is left out and why.
    pub notes: Vec<String>,
}

/// What all workloads of a run share.
pub struct Lab<'a> {
    /// What was asked for.
    pub settings: &'a Settings,
    /// The CPUs that may be used.
    pub cpus: Vec<usize>,
    /// How far the first two are apart; none where there is one only.
    pub distance: Option<Distance>,
    /// Every sample so far.
    pub series: Series,
}

impl<'a> Lab<'a> {
    /// Looks at the machine.
    pub fn new(settings: &'a Settings) -> Lab<'a> {
        let cpus = machine::allowed_cpus();
        let distance = (cpus.len() > 1).then(|| Distance::between(cpus[0], cpus[1]));
        Lab { settings, cpus, distance, series: Series::default() }
    }

    /// `-r`, or what this workload gets by default: less if all workloads run, one after the other.
    pub fn budget(&self, default_s: f64) -> Duration {
        let share = if self.settings.full && !self.settings.figures { SHARE_OF_ALL } else { 1.0 };
        Duration::from_secs_f64(self.settings.runtime_s.unwrap_or(share * default_s))
    }

    /// `-t`, or this workload's default, without what needs more CPUs than there are.
    pub fn threads(&self, defaults: &[usize], notes: &mut Vec<String>) -> Vec<usize> {
        if let Some(threads) = &self.settings.threads {
            return threads.clone();
        }
        if self.cpus.len() < 2 && defaults.contains(&2) {
            notes.push("2 threads are skipped: this process may use one CPU only".to_string());
            return defaults.iter().copied().filter(|threads| *threads != 2).collect();
        }
        defaults.to_vec()
    }

    /// The targets that were asked for, without those that nobody can sleep on.
    pub fn sleeping_targets(&self) -> Vec<Name> {
        self.settings.targets.iter().copied().filter(|name| name.can_sleep()).collect()
    }

    /// A target whose table need not be large: with as many buckets as `-b` says, or the fewest; `live` as it likes.
    pub fn small_table(&self, name: Name, threads: usize) -> Result<(Policy, Arc<dyn Subject>)> {
        let settings = self.settings;
        let buckets = match settings.buckets {
            Buckets::Exactly(buckets) => buckets,
            Buckets::Auto => BUCKETS_MIN,
        };
        let policy = if name == Name::Live { settings.live_policy() } else { Policy::Fixed(buckets) };
        let shape = Shape { layout: settings.layout, policy, shared: settings.shared, early_return: false };
        let subject = lab_targets::build(name, &shape)?;
        subject.note_threads(threads);
        // So that the table exists: nobody measures an empty domain.
        subject.wait(&AtomicU32::new(0), 1);
        self.freeze(name, &*subject)?;
        Ok((policy, subject))
    }

    /// With `-I`: the table, which exists, keeps its size.
    fn freeze(&self, name: Name, subject: &dyn Subject) -> Result<()> {
        if self.settings.immutable {
            subject.make_ready();
            subject.set_immutable().map_err(|reason| anyhow!("{name}: {reason}"))?;
        }
        Ok(())
    }

    /// Announces a stage of `rounds` rounds.
    pub fn progress(&self, stage: &str, rounds: usize) -> Progress {
        Progress::start(stage, rounds, self.settings.silent)
    }
}

/// Runs what was asked for, and hands each workload's results to `sink` when it ends. Where the user wants it to end, what there is.
pub fn run(settings: &Settings, sink: &mut dyn Sink) -> Result<()> {
    if settings.mlockall {
        machine::lock_memory()?;
    }
    if let Some(first_line) = settings.perf {
        return perf::run(settings, first_line, sink);
    }
    let mut lab = Lab::new(settings);
    sink.opening(&lab)?;
    if let Some(sizes) = &settings.sweep {
        let outcome = sweep::run(&mut lab, sizes)?;
        sink.sweep(&lab, &outcome)?;
        if interrupt::asked() {
            say_interrupted(&[], false);
        }
        return Ok(());
    }
    let mut measured = 0;
    for workload in settings.workloads.iter().take_while(|_| !interrupt::asked()) {
        measured += 1;
        if *workload == Workload::Timers {
            // Its rows are of another kind.
            let mut findings = timers::run(&mut lab)?;
            findings.rows.retain(|row| row.repeat > 0);
            sink.timers(&lab, &findings)?;
            continue;
        }
        let mut outcome = measure(&mut lab, *workload)?;
        outcome.rows.retain(|row| row.repeat > 0);
        sink.workload(&lab, *workload, &outcome)?;
        if *workload == Workload::Hash && settings.full && !settings.shared && !interrupt::asked() {
            let mut outcome = sizes::run(&mut lab)?;
            outcome.rows.retain(|row| row.repeat > 0);
            sink.sizes(&lab, &outcome)?;
        }
    }
    if interrupt::asked() {
        say_interrupted(&settings.workloads[measured..], settings.figures);
        return Ok(());
    }
    if settings.figures {
        let memory = memory::run(&lab)?;
        return sink.figures(&lab, &memory);
    }
    sink.end(&lab)
}

/// In any case: `-s` is about what goes as it should.
fn say_interrupted(left: &[Workload], figures: bool) {
    let mut line = "interrupted: the rows are of the samples until then".to_string();
    if !left.is_empty() {
        let left: Vec<_> = left.iter().map(ToString::to_string).collect();
        line += &format!("; not measured: {}", left.join(", "));
    }
    if figures {
        line += "; no figure is judged";
    }
    stderr::say(line);
}

fn measure(lab: &mut Lab<'_>, workload: Workload) -> Result<Outcome> {
    if lab.settings.shared && matches!(workload, Workload::Resize | Workload::Growth | Workload::Crowd) {
        let note = "left out: shared futexes stand in the global table, whose size is fixed".to_string();
        return Ok(Outcome { rows: Vec::new(), notes: vec![note] });
    }
    if lab.settings.shared && workload == Workload::Locks {
        return Ok(Outcome { rows: Vec::new(), notes: vec!["left out: its locks are private".to_string()] });
    }
    match workload {
        Workload::Hash => hammer::run(lab, Operation::WaitDiffers),
        Workload::Wake if lab.settings.nwakers.is_some() => wake_many::run(lab),
        Workload::Wake => hammer::run(lab, Operation::WakeNobody),
        Workload::Resize => resize::run(lab),
        Workload::Growth => growth::run(lab),
        Workload::PingPong => ping_pong::run(lab),
        Workload::Requeue => requeue::run(lab),
        Workload::WakeParallel => wake_parallel::run(lab),
        Workload::LockPi => lock_pi::run(lab),
        Workload::Crowd => crowd::run(lab),
        Workload::Wasm => wasm::run(lab),
        Workload::Locks => locks::run(lab),
        // See `run`.
        Workload::Timers => Ok(Outcome::default()),
    }
}
