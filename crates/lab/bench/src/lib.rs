//! The workloads of `bench`, and the loop that runs them.
//!
//! Each workload is a module; [`workload`] says what it consists of, and has the list of all.

#![cfg_attr(not(test), deny(clippy::print_stderr))]

pub mod all;
mod child;
mod children;
mod crowd;
mod figures;
mod flags;
mod growth;
mod growth_child;
mod hammer;
mod hash;
mod lock_pi;
mod locks;
mod locks_child;
mod memory;
mod neighbour;
mod noise;
mod ping_pong;
mod print;
mod requeue;
mod resize;
mod row;
mod rows;
mod schbench;
pub mod settings;
mod sizes;
mod sleepers;
mod summary;
pub mod survey;
mod timers;
mod wake;
mod wake_parallel;
mod wasm;
mod words;
mod workers;
pub mod workload;

pub use child::Child;
pub use memory::Memory;
pub use resize::GIVE_UP;
pub use row::{Entrant, Head, Ratios, policy_name};
pub use settings::Settings;
pub use timers::Row as TimersRow;

use anyhow::Result;
use lab_measure::interrupt;
use lab_measure::machine::{self, Distance};
use lab_measure::sample::{self, Pace, Rounds};
use lab_measure::series::Series;
use lab_targets::{Name, Policy, Shape};
use lab_terminal::progress::Progress;
use lab_terminal::stderr;
use lab_values::List;
use print::Printer;
use settings::Buckets;
use std::borrow::Cow;
use std::sync::atomic::AtomicU32;
use std::time::Duration;
use workload::Job;

/// Smallest table that `bench` makes if `-b` is not given.
pub const BUCKETS_MIN: usize = 16;

/// Each workload's share of its usual time in a run of all workloads: such a run takes about two minutes on two CPUs.
const SHARE_OF_ALL: f64 = 0.6;

/// Settings of one `bench` command.
pub struct Bench {
    /// The workloads, in the order in which they run.
    pub jobs: Vec<Job>,
    /// All workloads run because none was named. Each gets `SHARE_OF_ALL` of its usual time.
    pub is_all: bool,
    /// `--figures`: run all workloads at full length, then check the bounds that the engine must keep.
    pub figures: bool,
}

/// A [`Key`](lab_measure::series::Key) that owns its section.
pub type OwnKey = (Cow<'static, str>, Cow<'static, str>, usize);

/// State of a run that all workloads use.
pub struct Lab<'a> {
    /// Settings of the workload that is running.
    pub settings: &'a Settings,
    /// CPUs that this process may use.
    pub cpus: Vec<usize>,
    /// Distance between the first two CPUs. `None` if there is only one.
    pub distance: Option<Distance>,
    /// All samples until now.
    pub series: Series,
    /// Share of its usual time that each workload gets.
    share: f64,
    /// The number of the running job, from 1 on, and the number of all jobs. `hash` may be two jobs.
    place: (usize, usize),
}

impl<'a> Lab<'a> {
    /// Reads the CPUs and measures the distance between the first two.
    pub fn new(settings: &'a Settings) -> Lab<'a> {
        let cpus = machine::allowed_cpus();
        let distance = (cpus.len() > 1).then(|| Distance::between(cpus[0], cpus[1]));
        Lab { settings, cpus, distance, series: Series::default(), share: 1.0, place: (1, 1) }
    }

    /// Time for one workload: `-r`, or its default times `share`.
    pub fn budget(&self, default_s: f64) -> Duration {
        Duration::from_secs_f64(self.settings.runtime_s.unwrap_or(self.share * default_s))
    }

    /// Number and length of the samples that fit into [`Lab::budget`].
    pub fn pace(&self, default_s: f64, competitors: usize) -> Pace {
        let (budget, settings) = (self.budget(default_s), self.settings);
        Pace::new(budget, settings.runtime_s.is_some(), settings.repeat, competitors)
    }

    /// The rounds that fit into the budget, if one takes so long.
    fn rounds_of(&self, budget_s: f64, round: Duration) -> Rounds {
        let (budget, repeat) = (self.budget(budget_s), self.settings.repeat);
        let fit = (budget.as_nanos() / round.as_nanos().max(1)) as usize;
        let count = repeat.unwrap_or_else(|| fit.saturating_sub(1).max(1));
        Rounds { count, warm_up: true, limit: repeat.is_none().then_some(budget) }
    }

    /// Takes one sample of each competitor in each round, beside the noise if there is any.
    pub fn rounds<T>(
        &self,
        rounds: Rounds,
        competitors: usize,
        progress: &Progress,
        sample: impl FnMut(usize) -> Result<T>,
    ) -> Result<Vec<Vec<T>>> {
        self.beside_noise(|| sample::rounds(rounds, competitors, progress, sample))
    }

    /// Takes one sample of each case in each round ([`rounds`](Self::rounds)), with a progress line about the stage. Stores
    /// the time of each sample in the series under the key of its case, and makes a row of each case that has samples.
    /// After Ctrl-C some have none.
    pub fn measure<C, S, R>(
        &mut self,
        stage: &str,
        rounds: Rounds,
        cases: &[C],
        mut sample: impl FnMut(&Lab<'_>, &C) -> Result<S>,
        (key, time): (impl Fn(&C) -> OwnKey, impl Fn(&S) -> f64),
        row: impl Fn(&Lab<'_>, &C, &[S]) -> R,
    ) -> Result<Vec<R>> {
        let progress = self.progress(&format!("{stage}, {} rounds", rounds.count), rounds.count);
        let samples = self.rounds(rounds, cases.len(), &progress, |number| sample(self, &cases[number]))?;
        drop(progress);
        for (case, samples) in cases.iter().zip(&samples) {
            let (section, label, number) = key(case);
            self.series.put((&section, &label, number), samples.iter().map(&time).collect());
        }
        let measured = cases.iter().zip(&samples).filter(|(_, samples)| !samples.is_empty());
        Ok(measured.map(|(case, samples)| row(self, case, samples)).collect())
    }

    /// Runs `measure` beside the noise if there is any.
    pub fn beside_noise<R>(&self, measure: impl FnOnce() -> Result<R>) -> Result<R> {
        noise::beside(self.settings.noise, &self.cpus, measure)
    }

    /// Number of threads that may have a CPU each to themselves. If one of them has less, its sample is disturbed.
    /// Beside noise no thread has a CPU to itself.
    pub fn own_cpus(&self) -> usize {
        if self.settings.noise.is_some() { 0 } else { self.cpus.len() }
    }

    /// `-t`, or the workload's defaults. On one CPU the default of 2 threads is left out.
    pub fn threads(&self, asked: &Option<List<usize>>, defaults: &[usize], notes: &mut Vec<String>) -> Vec<usize> {
        if let Some(List(threads)) = asked {
            return threads.clone();
        }
        if self.cpus.len() < 2 && defaults.contains(&2) {
            notes.push("2 threads left out: this process may use only one CPU".to_string());
            return defaults.iter().copied().filter(|threads| *threads != 2).collect();
        }
        defaults.to_vec()
    }

    /// The requested targets on which a thread can sleep.
    pub fn sleeping_targets(&self) -> Vec<Name> {
        self.settings.targets.iter().copied().filter(|name| name.can_sleep()).collect()
    }

    /// Makes a target with a small table: `-b`, or [`BUCKETS_MIN`]. `live` follows its size policy.
    pub fn small_table(&self, name: Name, threads: usize) -> Result<Entrant> {
        self.small_spinning_table(name, threads, Duration::ZERO)
    }

    /// As [`small_table`](Self::small_table), with threads that spin for up to `spin` before they sleep.
    pub fn small_spinning_table(&self, name: Name, threads: usize, spin: Duration) -> Result<Entrant> {
        let settings = self.settings;
        let buckets = match settings.buckets {
            Buckets::Exactly(buckets) => buckets,
            Buckets::Auto => BUCKETS_MIN,
        };
        let policy = if name == Name::Live { settings.live_policy() } else { Policy::Fixed(buckets) };
        let shape = Shape { shared: settings.shared, spin, ..Shape::new(settings.layout, policy) };
        let subject = lab_targets::build(name, &shape)?;
        subject.note_threads(threads);
        // The first wait makes the table. Without it, the samples would be of a domain without a table.
        subject.wait(&AtomicU32::new(0), 1);
        Ok(Entrant { name, threads, policy, subject })
    }

    /// Whether `-S` excludes a workload that needs tables of its own. If so, adds a note.
    fn needs_private(&self, notes: &mut Vec<String>) -> bool {
        if self.settings.shared {
            notes.push("left out: shared futexes are in the global table, whose size is fixed".to_string());
        }
        self.settings.shared
    }

    /// Starts a progress line for a stage of `rounds` rounds. If there are several jobs, it begins with `[number/all]`.
    pub fn progress(&self, stage: &str, rounds: usize) -> Progress {
        let stage = match self.place {
            (_, 1) => stage.to_string(),
            (place, all) => format!("[{place}/{all}] {stage}"),
        };
        Progress::start(&stage, rounds, self.settings.silent)
    }
}

/// The stage of a workload in its progress line: how many rows it will have.
fn stage<C>(workload: &str, cases: &[C]) -> String {
    format!("{workload}: {} rows", cases.len())
}

/// Runs the workloads and prints each one's results when it ends. After Ctrl-C these are the results until then.
pub fn run(bench: &Bench) -> Result<()> {
    let Some(first) = bench.jobs.first() else { return Ok(()) };
    let mut lab = Lab::new(&first.settings);
    lab.share = if bench.is_all && !bench.figures { SHARE_OF_ALL } else { 1.0 };
    print::opening(&lab)?;
    let mut printer = Printer::default();
    let mut measured = 0_usize;
    for job in bench.jobs.iter().take_while(|_| !interrupt::requested()) {
        measured += 1;
        lab.settings = &job.settings;
        lab.place = (measured, bench.jobs.len());
        job.part.run(&mut lab, &mut printer)?;
    }
    if interrupt::requested() {
        // `hash` has two parts, and counts as measured after the first one.
        let begun = measured.checked_sub(1).map(|last| bench.jobs[last].part.name());
        let left = &bench.jobs[measured..];
        let parts = left.iter().take_while(|job| Some(job.part.name()) == begun).count();
        say_interrupted(&left[parts..], bench.figures);
        return Ok(());
    }
    if bench.figures {
        let memory = memory::run(&lab)?;
        return figures::print(&lab, &memory);
    }
    printer.end(&lab)
}

/// Reports the interruption on stderr, also with `-s`, which silences only progress and notes.
fn say_interrupted(left: &[Job], figures: bool) {
    let mut line = "interrupted: the rows have the samples until then".to_string();
    let mut left: Vec<_> = left.iter().map(|job| job.part.name()).collect();
    left.dedup();
    if !left.is_empty() {
        line += &format!("; not measured: {}", left.join(", "));
    }
    if figures {
        line += "; no figure was checked";
    }
    stderr::say(line);
}
