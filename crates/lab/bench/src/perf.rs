//! `--format perf`: the five workloads of `perf bench futex` ([perf-bench]), one target at a time, with perf's defaults
//! and in perf's output format, for people and scripts that read perf's.

use crate::settings::Buckets;
use crate::workload::{ALL, Job};
use crate::{Lab, noise};
use anyhow::{Result, bail};
use lab_measure::interrupt;
use lab_targets::Policy;
use lab_targets::loops::Tally;
use lab_targets::{Name, Shape, Subject};
use lab_terminal::stderr;
use lab_terminal::stdout::print;
use lab_values as values;
use std::io::Write;
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

/// One workload on one target.
pub struct Bench<'a> {
    /// The settings and CPUs.
    pub lab: &'a Lab<'a>,
    /// `-t`, or as many threads as there are CPUs.
    pub threads: usize,
    /// The target, with its table.
    pub subject: Arc<dyn Subject>,
}

/// What a workload needs of a target.
#[derive(Clone, Copy, Default)]
pub struct Needs {
    /// Threads can sleep on it.
    pub sleep: bool,
    /// It has locks with priority inheritance.
    pub pi: bool,
    /// It can requeue some of the waiters in a call.
    pub count: bool,
}

impl Needs {
    /// Rejects a target that does not have them.
    fn check(self, name: Name) -> Result<()> {
        if self.sleep && !name.can_sleep() {
            bail!(
                "--targets '{name}' is not accepted with this workload and --format perf: no thread can sleep on it; accepted: hash"
            );
        }
        if self.pi && !name.has_pi() {
            bail!("--targets '{name}' has no locks with priority inheritance; accepted: the other targets");
        }
        if self.count && name == Name::ParkingLot {
            bail!("--targets '{name}' requeues all waiters in one call; accepted: --broadcast");
        }
        Ok(())
    }
}

/// The names of perf's benchmarks, in its order.
pub fn names() -> String {
    let mut of_perf: Vec<_> = ALL.iter().filter(|entry| entry.perf.is_some()).collect();
    of_perf.sort_by_key(|entry| entry.perf);
    values::names(of_perf.iter().map(|entry| entry.name))
}

/// Runs the workloads, one target after another.
pub fn run(bench: &crate::Bench, first_line: FirstLine) -> Result<()> {
    let Some(first) = bench.jobs.first() else { return Ok(()) };
    let targets = &first.settings.targets;
    // Before any table is made, and before the first target is measured for seconds.
    for job in &bench.jobs {
        targets.iter().try_for_each(|name| job.part.perf_needs().check(*name))?;
    }
    let mut lab = Lab::new(&first.settings);
    if let Some(noise) = noise::remark(&lab) {
        print(&format!("# {noise}"))?;
    }
    for name in targets.iter().copied().take_while(|_| !interrupt::requested()) {
        if targets.len() > 1 && !first.settings.silent {
            stderr::say(format_args!("target {name}"));
        }
        for job in bench.jobs.iter().take_while(|_| !interrupt::requested()) {
            lab.settings = &job.settings;
            let workload = job.part.name();
            // With several benchmarks perf's first line is worded differently, and does not depend on the format.
            match first_line {
                _ if bench.is_all => print(&format!("# Running futex/{workload} benchmark..."))?,
                FirstLine::Shown => print(&format!("# Running 'futex/{workload}' benchmark:"))?,
                FirstLine::Left => {}
            }
            one(&lab, name, job)?;
            if bench.is_all {
                writeln!(std::io::stdout())?;
            }
        }
    }
    if interrupt::requested() {
        crate::say_interrupted(&[], false);
    }
    Ok(())
}

fn one(lab: &Lab<'_>, name: Name, job: &Job) -> Result<()> {
    let threads = job.part.threads().map_or(lab.cpus.len(), |threads| threads[0]);
    let bench = Bench { lab, threads, subject: build(lab, name, threads)? };
    lab.beside_noise(|| job.part.perf(&bench))?;
    let Buckets::Exactly(slots) = lab.settings.buckets else { return Ok(()) };
    if slots == 0 {
        return print("Futex hashing: global hash");
    }
    let immutable = if lab.settings.immutable { " (immutable)" } else { "" };
    print(&format!("Futex hashing: {} hash buckets{immutable}", bench.subject.buckets().unwrap_or(slots)))
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

/// Prints what the benchmark does.
pub fn summary(text: String) -> Result<()> {
    print(&format!("Run summary [PID {}]: {text}\n", std::process::id()))
}

impl Bench<'_> {
    /// perf's name for it.
    pub fn privacy(&self) -> &'static str {
        if self.lab.settings.shared { "shared" } else { "private" }
    }

    /// The time of workloads that run for a time.
    pub fn runtime(&self) -> Duration {
        self.lab.settings.runtime_s.map_or(RUNTIME, Duration::from_secs_f64)
    }

    /// Prints the rate of each thread, behind what `thread` says about it, and their average.
    pub fn rates(&self, tallies: &[Tally], thread: impl Fn(usize) -> String) -> Result<()> {
        let elapsed = |tally: &Tally| tally.end - tally.start;
        let rates: Vec<_> =
            tallies.iter().map(|tally| tally.operations as f64 / elapsed(tally).as_secs_f64()).collect();
        let seconds = tallies.iter().map(elapsed).max().unwrap_or_default().as_secs();
        let mut before = "";
        if !self.lab.settings.silent {
            for (number, rate) in rates.iter().enumerate() {
                print(&format!("{} [ {rate:.0} ops/sec ]", thread(number)))?;
            }
            before = "\n";
        }
        let rates = Stats::of(rates.into_iter());
        let (mean, percent) = (rates.mean, rates.percent());
        print(&format!("{before}Averaged {mean:.0} operations/sec (+- {percent:.2}%), total secs = {seconds}"))
    }

    /// Prints the times of all runs, after Ctrl-C only of the first one, and then their mean. `each` says what a run has
    /// done, and `all` what all have.
    pub fn runs(&self, each: &str, all: &str, once: impl Fn() -> Result<Duration>) -> Result<()> {
        let mut times = Stats::default();
        self.each_run(|run| {
            let ms = milliseconds(once()?);
            times.update(ms);
            Ok(format!("[Run {run}]: {each} in {ms:.4} ms"))
        })?;
        print(&format!("{all} in {:.4} ms (+-{:.2}%)", times.mean, times.percent()))
    }

    /// Calls `once` for each run, and prints what it returns. After Ctrl-C there is only the first one.
    pub fn each_run(&self, mut once: impl FnMut(usize) -> Result<String>) -> Result<()> {
        let runs = 1..=self.lab.settings.repeat.unwrap_or(RUNS);
        for run in runs.take_while(|run| *run == 1 || !interrupt::requested()) {
            let text = once(run)?;
            if !self.lab.settings.silent {
                print(&text)?;
            }
        }
        Ok(())
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
    /// Of these values.
    pub fn of(values: impl Iterator<Item = f64>) -> Stats {
        let mut stats = Stats::default();
        values.for_each(|value| stats.update(value));
        stats
    }

    /// Adds a value.
    pub fn update(&mut self, value: f64) {
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

/// Milliseconds, perf's unit.
pub fn milliseconds(time: Duration) -> f64 {
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
