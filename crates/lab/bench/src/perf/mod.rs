//! `--format perf`: the five workloads of `perf bench futex` ([perf-bench]), one target at a time, with perf's defaults
//! and in perf's output format, for people and scripts that read perf's.

mod hash;
mod lock_pi;
mod requeue;
mod wake;
mod wake_parallel;

use crate::hammer::Hammer;
use crate::lock_pi::LockPi;
use crate::requeue::{AtOnce, Requeue};
use crate::settings::Buckets;
use crate::wake_many::WakeMany;
use crate::wake_parallel::WakeParallel;
use crate::{Asked, Lab, Settings, Sink, Workload, noise};
use anyhow::{Result, bail};
use lab_measure::interrupt;
use lab_targets::Policy;
use lab_targets::loops::Tally;
use lab_targets::{Name, Shape, Subject};
use lab_terminal::stderr;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// perf's default, for workloads that run for a time.
const RUNTIME: Duration = Duration::from_secs(10);
/// perf's default, for the other workloads.
const RUNS: usize = 10;

/// Whether the first line names the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstLine {
    /// As perf by default.
    Shown,
    /// As perf with `--format simple`.
    Left,
}

/// A piece of output.
pub enum Line {
    /// The first line of a benchmark.
    Begin {
        /// The benchmark.
        workload: Workload,
        /// Whether all benchmarks run.
        is_one_of_all: bool,
        /// Whether perf would print it.
        first_line: FirstLine,
    },
    /// The end of a benchmark.
    End {
        /// Whether all benchmarks run.
        is_one_of_all: bool,
    },
    /// What the benchmark does.
    Summary(String),
    /// The result of one thread or one run.
    Text(String),
    /// The last line of workloads that run for a time.
    Averaged {
        /// `-s`.
        silent: bool,
        /// Operations per second of each thread.
        rates: Stats,
        /// Length of the run.
        runtime: Duration,
    },
    /// The size of the table, which perf prints since 6.16.
    Hashing {
        /// `-b`.
        asked: usize,
        /// The actual size, if it can be seen.
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

/// Runs the workloads, one target after another.
pub fn run(bench: &crate::Bench, first_line: FirstLine, sink: &mut dyn Sink) -> Result<()> {
    let Some(first) = bench.jobs.first() else { return Ok(()) };
    let mut lab = Lab::new(&first.settings);
    if let Some(noise) = noise::remark(&lab) {
        sink.perf(Line::Text(format!("# {noise}")))?;
    }
    let (targets, is_one_of_all) = (&first.settings.targets, bench.is_all);
    for name in targets.iter().copied().take_while(|_| !interrupt::requested()) {
        if targets.len() > 1 && !first.settings.silent {
            stderr::say(format_args!("target {name}"));
        }
        for job in bench.jobs.iter().take_while(|_| !interrupt::requested()) {
            lab.settings = &job.settings;
            sink.perf(Line::Begin { workload: job.asked.workload(), is_one_of_all, first_line })?;
            one(&lab, name, &job.asked, sink)?;
            sink.perf(Line::End { is_one_of_all })?;
        }
    }
    if interrupt::requested() {
        crate::say_interrupted(&[], false);
    }
    Ok(())
}

fn one(lab: &Lab<'_>, name: Name, asked: &Asked, sink: &mut dyn Sink) -> Result<()> {
    refuse(name, asked)?;
    let threads = match asked {
        Asked::Hash(Hammer { threads, .. })
        | Asked::WakeMany(WakeMany { threads, .. })
        | Asked::WakeParallel(WakeParallel { threads, .. })
        | Asked::Requeue(Requeue { threads, .. })
        | Asked::LockPi(LockPi { threads, .. }) => threads,
        other => bail!(
            "perf bench futex has no '{}'; accepted: hash, wake, wake-parallel, requeue, lock-pi",
            other.workload()
        ),
    };
    let threads = threads.as_ref().map_or(lab.cpus.len(), |threads| threads[0]);
    let bench = Bench { lab, threads, subject: build(lab, name, threads)? };
    lab.beside_noise(|| match asked {
        Asked::Hash(asked) => hash::run(&bench, asked, sink),
        Asked::WakeMany(asked) => wake::run(&bench, asked.nwakes, sink),
        Asked::WakeParallel(asked) => wake_parallel::run(&bench, asked.nwakers, sink),
        Asked::Requeue(asked) => requeue::run(&bench, asked, sink),
        Asked::LockPi(asked) => lock_pi::run(&bench, asked, sink),
        // Rejected above.
        _ => Ok(()),
    })?;
    if let Buckets::Exactly(slots) = lab.settings.buckets {
        let immutable = lab.settings.immutable;
        sink.perf(Line::Hashing { asked: slots, have: bench.subject.buckets(), immutable })?;
    }
    Ok(())
}

/// Rejects what this target cannot do.
fn refuse(name: Name, asked: &Asked) -> Result<()> {
    let (needs_pi, needs_count) = match asked {
        Asked::LockPi(_) => (true, false),
        Asked::Requeue(asked) => (asked.pi, asked.at_once != Some(AtOnce::All)),
        _ => (false, false),
    };
    if !name.can_sleep() && !matches!(asked, Asked::Hash(_)) {
        bail!(
            "--targets '{name}' is not accepted with this workload and --format perf: no thread can sleep on it; accepted: hash"
        );
    }
    if needs_pi && !name.has_pi() {
        bail!("--targets '{name}' has no locks with priority inheritance; accepted: the other targets");
    }
    if name == Name::ParkingLot && needs_count {
        bail!("--targets '{name}' requeues all waiters in one call; accepted: --broadcast");
    }
    Ok(())
}

/// Makes a target with a table of `-b` buckets, or by the target's own policy. Targets without one get the kernel's.
fn build(lab: &Lab<'_>, name: Name, threads: usize) -> Result<Arc<dyn Subject>> {
    let settings = lab.settings;
    let policy = match settings.buckets {
        Buckets::Exactly(buckets) => Policy::Fixed(buckets),
        Buckets::Auto if name == Name::Live => settings.live_policy(),
        Buckets::Auto => Policy::Threads,
    };
    let shape = Shape { shared: settings.shared, ..Shape::new(settings.layout, policy) };
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

    /// perf's name for it.
    fn privacy(&self) -> &'static str {
        if self.settings().shared { "shared" } else { "private" }
    }

    fn runtime(&self) -> Duration {
        self.settings().runtime_s.map_or(RUNTIME, Duration::from_secs_f64)
    }

    /// The numbers of the runs. After Ctrl-C only the first one.
    fn runs(&self) -> impl Iterator<Item = usize> {
        (1..=self.settings().repeat.unwrap_or(RUNS)).take_while(|run| *run == 1 || !interrupt::requested())
    }
}

/// perf's `struct stats`: the mean and its uncertainty.
#[derive(Default)]
pub struct Stats {
    count: f64,
    /// The mean of all values.
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

    /// The standard deviation of the mean, in percent of the mean.
    pub fn percent(&self) -> f64 {
        if self.count < 2.0 || self.mean == 0.0 {
            return 0.0;
        }
        100.0 * (self.squares / (self.count - 1.0) / self.count).sqrt() / self.mean
    }
}

/// Operations per second of each thread, and the length of the run.
fn rates(tallies: &[Tally]) -> (Vec<f64>, Duration) {
    let elapsed = |tally: &Tally| tally.end - tally.start;
    let rates = tallies.iter().map(|tally| tally.operations as f64 / elapsed(tally).as_secs_f64()).collect();
    (rates, tallies.iter().map(elapsed).max().unwrap_or_default())
}

/// Milliseconds, perf's unit.
fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_percentage_is_the_means_standard_deviation_as_perf_has_it() {
        // perf printed these two values, and +- 18.60 % of their average.
        let stats = Stats::of([2_555_904.0, 3_724_288.0].into_iter());
        assert_eq!(stats.mean, 3_140_096.0);
        assert!((stats.percent() - 18.604).abs() < 0.001, "{}", stats.percent());
        assert_eq!(Stats::of([5.0].into_iter()).percent(), 0.0);
        assert_eq!(Stats::of([0.0, 0.0].into_iter()).percent(), 0.0);
    }
}
