//! `--format perf`: the five workloads of `perf bench futex` ([perf-bench]), one target at a time, with perf's
//! defaults. The output has perf's format, so that people and scripts that read perf's can read ours.

mod hash;
mod lock_pi;
mod requeue;
mod wake;
mod wake_parallel;

use super::{Lab, Workload};
use crate::Sink;
use crate::settings::Buckets;
use crate::settings::{FirstLine, Settings};
use anyhow::{Result, bail};
use lab_measure::interrupt;
use lab_targets::Policy;
use lab_targets::loops::Tally;
use lab_targets::{Name, Shape, Subject};
use lab_terminal::stderr;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// perf's, of those that run for a time.
const RUNTIME: Duration = Duration::from_secs(10);
/// perf's, of the others.
const RUNS: usize = 10;

/// A piece of perf's output.
pub enum Line {
    /// Which benchmark runs.
    Begin {
        /// The benchmark.
        workload: Workload,
        /// Whether it is one of several.
        is_one_of_all: bool,
        /// Whether perf would say it.
        first_line: FirstLine,
    },
    /// The benchmark has ended.
    End {
        /// Whether it was one of several.
        is_one_of_all: bool,
    },
    /// What is to be done.
    Summary(String),
    /// One thread's result, or one run's.
    Text(String),
    /// The last line of those that run for a time.
    Averaged {
        /// `-s`.
        silent: bool,
        /// Operations a second, thread by thread.
        rates: Stats,
        /// How long it ran.
        runtime: Duration,
    },
    /// The size of the table, which perf 6.16 and later prints.
    Hashing {
        /// `-b`.
        asked: usize,
        /// The size that the table really had, if it can be seen.
        have: Option<usize>,
        /// `-I`.
        immutable: bool,
    },
}

/// One workload on one target.
struct Bench<'a> {
    lab: &'a Lab<'a>,
    threads: usize,
    subject: Arc<dyn Subject>,
}

/// Runs what was asked for, target by target.
pub fn run(settings: &Settings, first_line: FirstLine, sink: &mut dyn Sink) -> Result<()> {
    let lab = Lab::new(settings);
    for name in settings.targets.iter().copied().take_while(|_| !interrupt::asked()) {
        if settings.targets.len() > 1 && !settings.silent {
            stderr::say(format_args!("target {name}"));
        }
        for workload in settings.workloads.iter().copied().take_while(|_| !interrupt::asked()) {
            sink.perf(Line::Begin { workload, is_one_of_all: settings.full, first_line })?;
            one(&lab, name, workload, sink)?;
            sink.perf(Line::End { is_one_of_all: settings.full })?;
        }
    }
    if interrupt::asked() {
        super::say_interrupted(&[], false);
    }
    Ok(())
}

fn one(lab: &Lab<'_>, name: Name, workload: Workload, sink: &mut dyn Sink) -> Result<()> {
    if !name.can_sleep() && workload != Workload::Hash {
        bail!("nobody can sleep on {name}; accepted: with hash");
    }
    let needs_pi = workload == Workload::LockPi || workload == Workload::Requeue && lab.settings.pi;
    if needs_pi && !name.has_pi() {
        bail!("{name} has no locks that lend priorities");
    }
    if name == Name::ParkingLot && workload == Workload::Requeue && !lab.settings.broadcast {
        bail!("{name} moves all waiters in one call; accepted: --broadcast");
    }
    let threads = lab.settings.threads.as_ref().map_or(lab.cpus.len(), |threads| threads[0]);
    let bench = Bench { lab, threads, subject: build(lab, name, threads)? };
    match workload {
        Workload::Hash => hash::run(&bench, sink),
        Workload::Wake => wake::run(&bench, sink),
        Workload::WakeParallel => wake_parallel::run(&bench, sink),
        Workload::Requeue => requeue::run(&bench, sink),
        Workload::LockPi => lock_pi::run(&bench, sink),
        _ => bail!("perf bench futex has no '{workload}'"),
    }?;
    if let Buckets::Exactly(slots) = lab.settings.buckets {
        let immutable = lab.settings.immutable;
        sink.perf(Line::Hashing { asked: slots, have: bench.subject.buckets(), immutable })?;
    }
    Ok(())
}

/// A table as large as `-b` says, or as the target's own rule does; for those without one, by the kernel's.
fn build(lab: &Lab<'_>, name: Name, threads: usize) -> Result<Arc<dyn Subject>> {
    let settings = lab.settings;
    let policy = match settings.buckets {
        Buckets::Exactly(buckets) => Policy::Fixed(buckets),
        Buckets::Auto if name == Name::Live => settings.live_policy(),
        Buckets::Auto => Policy::Threads,
    };
    let shape = Shape { layout: settings.layout, policy, shared: settings.shared, early_return: false };
    let subject = lab_targets::build(name, &shape)?;
    subject.make_ready();
    subject.note_threads(threads);
    subject.wait(&AtomicU32::new(0), 1);
    lab.freeze(name, &*subject)?;
    Ok(subject)
}

impl Bench<'_> {
    fn settings(&self) -> &Settings {
        self.lab.settings
    }

    /// As perf calls it.
    fn privacy(&self) -> &'static str {
        if self.settings().shared { "shared" } else { "private" }
    }

    fn runtime(&self) -> Duration {
        self.settings().runtime_s.map_or(RUNTIME, Duration::from_secs_f64)
    }

    /// Their numbers; the first one in any case.
    fn runs(&self) -> impl Iterator<Item = usize> {
        (1..=self.settings().repeat.unwrap_or(RUNS)).take_while(|run| *run == 1 || !interrupt::asked())
    }
}

/// perf's `struct stats`: the mean, and how uncertain it is.
#[derive(Default)]
pub struct Stats {
    count: f64,
    /// Of all values.
    pub mean: f64,
    squares: f64,
}

impl Stats {
    fn of(values: impl Iterator<Item = f64>) -> Stats {
        let mut stats = Stats::default();
        values.for_each(|value| stats.update(value));
        stats
    }

    fn update(&mut self, value: f64) {
        self.count += 1.0;
        let delta = value - self.mean;
        self.mean += delta / self.count;
        self.squares += delta * (value - self.mean);
    }

    /// The standard deviation of the mean, in percent of it.
    pub fn percent(&self) -> f64 {
        if self.count < 2.0 || self.mean == 0.0 {
            return 0.0;
        }
        100.0 * (self.squares / (self.count - 1.0) / self.count).sqrt() / self.mean
    }
}

/// Operations a second of each thread, and for how long they ran.
fn rates(tallies: &[Tally]) -> (Vec<f64>, Duration) {
    let elapsed = |tally: &Tally| tally.end - tally.start;
    let rates = tallies.iter().map(|tally| tally.operations as f64 / elapsed(tally).as_secs_f64()).collect();
    (rates, tallies.iter().map(elapsed).max().unwrap_or_default())
}

/// In perf's unit.
fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_percentage_is_the_means_standard_deviation_as_perf_has_it() {
        // perf itself printed these two, and +- 18.60 % of their average.
        let stats = Stats::of([2_555_904.0, 3_724_288.0].into_iter());
        assert_eq!(stats.mean, 3_140_096.0);
        assert!((stats.percent() - 18.604).abs() < 0.001, "{}", stats.percent());
        assert_eq!(Stats::of([5.0].into_iter()).percent(), 0.0);
        assert_eq!(Stats::of([0.0, 0.0].into_iter()).percent(), 0.0);
    }
}
