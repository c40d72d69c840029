//! `timers`: a table of POSIX timers: ours, the designs that Linux has had or tried, and the host's own.
//!
//! Every sample has fresh tables. Its threads begin together, pinned; each creates its timers, asks each for its overruns
//! and, when all of them have, deletes them. Beside that: a loop that creates a timer and deletes it, and armed timers
//! that are armed again.

mod case;
pub mod child;
mod course;
mod expire;
mod row;

pub use case::{Case, Measure, section};
pub use row::Row;

use super::{Lab, arena};
use anyhow::Result;
use lab_measure::pool::Pool;
use lab_measure::stats;
use lab_targets::timers::{self, Meeting, Name, Test, Times};
use std::cell::Cell;

/// What the workload found.
pub struct Findings {
    /// In the order of the tables.
    pub rows: Vec<Row>,
    /// One line each: what is left out and why.
    pub notes: Vec<String>,
}

/// One row to be.
struct Competitor {
    name: Name,
    case: Case,
}

struct Ring<'a> {
    lab: &'a Lab<'a>,
    pool: Pool,
    samples: Cell<usize>,
    disturbed: Cell<usize>,
}

/// A sample, or why this target cannot do it here.
type Sample = Result<Times, String>;

/// Measures all targets, interleaved.
pub fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let mut notes = Vec::new();
    if lab.settings.shared {
        notes.push("left out: no futexes, so none to share".to_string());
        return Ok(Findings { rows: Vec::new(), notes });
    }
    let competitors = line_up(lab, &mut notes);
    let threads = competitors.iter().map(|one| one.case.threads * one.case.processes).max();
    let Some(threads) = threads else { return Ok(Findings { rows: Vec::new(), notes }) };
    keep_freed_memory();
    let ring = Ring { lab, pool: Pool::new(threads, &lab.cpus)?, samples: Cell::new(0), disturbed: Cell::new(0) };
    let samples = course::run(lab, &competitors, |one| ring.sample(one))?;
    notes.extend(arena::remark(ring.disturbed.get(), ring.samples.get()));
    let mut taken = Vec::new();
    for (one, samples) in competitors.iter().zip(samples) {
        match samples.into_iter().collect::<Result<Vec<Times>, String>>() {
            Ok(samples) => taken.push((one, samples)),
            Err(reason) => notes.push(format!("{}, {} left out: {reason}", one.name, one.case)),
        }
    }
    for (one, samples) in &taken {
        for measure in Measure::ALL {
            let values: Vec<_> = samples.iter().filter_map(|sample| measure.of(sample)).collect();
            if !values.is_empty() {
                lab.series.put((&section(measure, &one.case), one.name.text(), one.case.threads), values);
            }
        }
    }
    let rows = taken.iter().map(|(one, samples)| row(lab, one, samples)).collect();
    Ok(Findings { rows, notes })
}

/// Has the allocator keep what a sample frees for the next one.
///
/// A kernel's memory is always mapped. Here a fresh page would cost every target a fault, as much as some thirty timers,
/// and by the allocator's own rules in some samples only.
fn keep_freed_memory() {
    #[cfg(target_env = "gnu")]
    for (parameter, bytes) in
        [(libc::M_TRIM_THRESHOLD, i32::MAX), (libc::M_MMAP_THRESHOLD, 32 << 20), (libc::M_TOP_PAD, 64 << 20)]
    {
        // SAFETY: the call takes numbers; what it refuses stays as it is.
        unsafe { libc::mallopt(parameter, bytes) };
    }
}

/// All cases, the targets of each one beside each other.
fn line_up(lab: &Lab<'_>, notes: &mut Vec<String>) -> Vec<Competitor> {
    let asked = &lab.settings.timers;
    if asked.targets.is_empty() {
        let all: Vec<_> = <Name as strum::VariantArray>::VARIANTS.iter().map(|name| name.text()).collect();
        notes.push(format!("left out: none of its targets was asked for: {}", all.join(", ")));
    }
    let mut competitors = Vec::new();
    for case in Case::asked(lab, notes) {
        for name in asked.targets.iter().copied() {
            match case.refuses(name) {
                None => competitors.push(Competitor { name, case }),
                Some(reason) => notes.extend(reason),
            }
        }
    }
    notes.dedup();
    competitors
}

impl Ring<'_> {
    /// One sample; once more where a thread had no CPU for a while, unless that would take long.
    fn sample(&self, one: &Competitor) -> Result<Sample> {
        let mut sample = self.take(one)?;
        let all = one.case.threads * one.case.processes;
        let is_disturbed = |sample: &Sample| {
            let had_no_cpu = |times: &Times| arena::had_no_cpu(times.on_cpu, times.elapsed);
            // One that is alone is timed by its CPU's time.
            (2..=self.lab.cpus.len()).contains(&all) && sample.as_ref().is_ok_and(had_no_cpu)
        };
        let is_short = |sample: &Sample| sample.as_ref().is_ok_and(|times| times.elapsed < arena::RETAKEN_MAX);
        if is_disturbed(&sample) && is_short(&sample) {
            sample = self.take(one)?;
        }
        self.samples.update(|count| count + 1);
        self.disturbed.update(|count| count + usize::from(is_disturbed(&sample)));
        Ok(sample)
    }

    fn take(&self, one: &Competitor) -> Result<Sample> {
        let Case { threads, processes, .. } = one.case;
        if one.case.test == Test::Expire {
            let lateness = expire::sample(one.case.timers);
            return Ok(lateness.map(|lateness| Times { lateness: Some(lateness), ..Times::default() }));
        }
        let times: Result<Vec<Times>, String> = if one.name == Name::Kernel && processes > 1 {
            child::processes(&one.case)?
        } else {
            let world = match timers::build(one.name, processes) {
                Ok(world) => world,
                Err(reason) => return Ok(Err(reason)),
            };
            let meeting = Meeting::new(threads * processes, None);
            let case = one.case;
            let job = move |worker: usize| world.work(worker / threads, &case.load(worker % threads), &meeting);
            self.pool.run(threads * processes, job, || ())?.into_iter().collect()
        };
        Ok(times.map(|times| mean(&times)))
    }
}

/// The mean of all threads: what one thread sees.
fn mean(all: &[Times]) -> Times {
    let mean = |of: fn(&Times) -> Option<f64>| {
        let values: Vec<f64> = all.iter().filter_map(of).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    };
    Times {
        create_ns: mean(|times| times.create_ns),
        getoverrun_ns: mean(|times| times.getoverrun_ns),
        settime_ns: mean(|times| times.settime_ns),
        delete_ns: mean(|times| times.delete_ns),
        create_delete_ns: mean(|times| times.create_delete_ns),
        bytes: all.iter().find_map(|times| times.bytes),
        lateness: all.iter().find_map(|times| times.lateness),
        elapsed: all.iter().map(|times| times.elapsed).sum(),
        on_cpu: all.iter().map(|times| times.on_cpu).sum(),
    }
}

fn row(lab: &Lab<'_>, one: &Competitor, samples: &[Times]) -> Row {
    let median = |measure: Measure| {
        let values: Vec<_> = samples.iter().filter_map(|sample| measure.of(sample)).collect();
        (!values.is_empty()).then(|| stats::median(&values))
    };
    // To the hundredth: the rest is noise.
    let ns = |measure| median(measure).map(|ns| (ns * 100.0).round() / 100.0);
    let ratio = |measure| {
        let section = section(measure, &one.case);
        let key = |name: Name| (section.as_str(), name.text(), one.case.threads);
        let rival = if one.case.test == Test::Settime { Name::Kernel } else { Name::Radix };
        lab.series.ratio(key(one.name), key(rival))
    };
    let Case { test, timers, threads, processes, sparse } = one.case;
    // The worst round: what is late once is late.
    let worst = samples
        .iter()
        .filter_map(|sample| sample.lateness)
        .max_by(|a, b| a.lost.cmp(&b.lost).then(a.p99.unwrap_or(0.0).total_cmp(&b.p99.unwrap_or(0.0))));
    let distance = lab.distance.filter(|_| threads * processes > 1);
    Row {
        workload: "timers",
        test: test.text(),
        target: one.name.text(),
        timers,
        threads,
        processes,
        sparse,
        create_ns: ns(Measure::Create),
        getoverrun_ns: ns(Measure::Getoverrun),
        delete_ns: ns(Measure::Delete),
        settime_ns: ns(Measure::Settime),
        create_delete_ns: ns(Measure::CreateDelete),
        bytes_per_timer: median(Measure::Bytes).map(|bytes| bytes / (timers * threads * processes) as f64),
        table_bytes: median(Measure::TableBytes).map(|bytes| bytes as usize),
        lateness_us: worst,
        lost: worst.map(|lateness| lateness.lost),
        repeat: samples.len(),
        cpus_apart_ns: distance.map(|distance| (distance.apart_ns * 10.0).round() / 10.0),
        cpus_distance: distance.map(|distance| distance.word()),
        ratios: [Measure::Create, Measure::Getoverrun, Measure::CreateDelete, Measure::Settime].map(ratio),
    }
}
