//! `timers`: tables of POSIX timers: the engine's, the designs that Linux has had or tried, and the host kernel's.
//!
//! Every sample has new tables. Its threads are pinned and begin together. Each creates its timers and reads each one's
//! overrun. When all threads have done so, it deletes its timers. Further tests: create and delete a timer in a loop,
//! and set timers that are armed already.

mod case;
pub mod child;
mod course;
mod expire;
mod row;
mod show;

pub use case::{Case, Measure, section};
pub use row::Row;

use crate::all::All;
use crate::flags::{self, Common};
use crate::settings::Settings;
use crate::summary::Line;
use crate::workers::Disturbances;
use crate::workload::{Workload, plain};
use crate::{Lab, workers};
use anyhow::Result;
use clap::Args;
use lab_measure::pool::Pool;
use lab_measure::stats;
use lab_targets::timers::{self, Name, Rendezvous, Test, Times};
use lab_values::{self as values, List, NUMBER_MAX};
use strum::VariantArray;

/// POSIX timers: the engine's, four designs of a kernel's table, and the host kernel's
#[derive(Clone, Args)]
pub struct Timers {
    /// Timers of each thread (create-delete: loops), a comma list [default: create-getoverrun 20000,100000;
    /// the other tests 100000]
    #[arg(short = 'n', long, visible_alias = "timers", value_name = "LIST",
        value_parser = values::numbers(1, NUMBER_MAX, "waiters or timers"))]
    pub number: Option<List<usize>>,
    /// Threads of each process, a comma list [default: 1, and 2 with 20000 timers]
    #[arg(short, long, value_name = "LIST", value_parser = values::threads())]
    pub threads: Option<List<usize>>,
    /// Processes, a comma list [default: 1]
    #[arg(short, long, value_name = "LIST", value_parser = values::processes())]
    pub processes: Option<List<usize>>,
    /// Tests, a comma list [default: all]: create-getoverrun, create-delete, settime, expire
    #[arg(long, value_name = "LIST", value_parser = values::some_of::<Test>(), hide_possible_values = true)]
    pub tests: Option<List<Test>>,
    /// Distance between IDs, which the caller then chooses [default: one case of 2048 timers, 512 apart]
    #[arg(long, value_name = "STRIDE", value_parser = sparse)]
    pub sparse: Option<usize>,
    /// Targets, a comma list [default: all]: ours, global-lock, precheck, scaled, radix, kernel
    #[arg(long, value_name = "LIST", value_parser = values::some_of::<Name>(), hide_possible_values = true)]
    pub targets: Option<List<Name>>,
    #[command(flatten)]
    pub common: Common,
}

/// Largest number of timers at a time: they take two gigabytes.
const TIMERS_MAX: usize = 1 << 24;

/// `--sparse`.
fn sparse(text: &str) -> Result<usize, String> {
    values::number(1, 1 << 24, "")(text)
        .map_err(|_| "is not accepted; accepted: a distance of 1 to 16777216".to_string())
}

impl Workload for Timers {
    const NAME: &'static str = "timers";
    type Row = Row;

    fn help() -> String {
        flags::help(
            "\
Rows of --json, one object per line:
  workload, target, repeat (rounds)
  test           create-getoverrun: each thread creates its timers, reads each one's overrun, deletes them;
                 create-delete: a loop; settime: armed timers are set again in random order; expire: timers that are
                 due one after another within a second
  timers         of each thread; of create-delete: loops
  threads        of each process; processes
  sparse         distance between two IDs, if the caller chooses them
  create_ns, getoverrun_ns, delete_ns, settime_ns, create_delete_ns (both together)   of one timer, as a thread sees it;
                 CPU time if there is one thread
  bytes_per_timer   of everything; table_bytes: of the tables without the timers
  lateness_us    expire, only of ours: {p50, p99, max} of the worst round; lost: timers that were not delivered
  cpus_apart_ns, cpus_distance   with two threads or more, as in the other workloads
A sample in which a thread had its CPU for less than 95 % of the time is taken once more.",
            "  ufutex bench timers --tests expire            the lateness of timers",
        )
    }

    fn check(&mut self) -> Result<Settings, String> {
        if let Some(stride) = self.sparse {
            let tests = self.tests.get_or_insert_with(|| List(vec![Test::CreateGetoverrun]));
            if let Some(test) = tests.iter().find(|test| **test != Test::CreateGetoverrun) {
                return Err(format!(
                    "--sparse '{stride}' is not accepted with '{test}'; accepted: --tests create-getoverrun"
                ));
            }
        }
        self.refuse_too_many()?;
        Ok(self.common.settings())
    }

    fn in_all(all: &All) -> Vec<Self> {
        vec![Timers { targets: all.timers(), threads: all.threads.clone(), ..plain() }]
    }

    /// Measures all targets.
    fn run(&self, lab: &mut Lab<'_>, notes: &mut Vec<String>) -> Result<Vec<Row>> {
        if lab.settings.shared {
            notes.push("left out with -S: it has no futexes".to_string());
            return Ok(Vec::new());
        }
        let competitors = line_up(lab, self, notes);
        let threads = competitors.iter().map(|one| one.case.threads * one.case.processes).max();
        let Some(threads) = threads else { return Ok(Vec::new()) };
        keep_freed_memory();
        let runner = Runner { lab, pool: Pool::new(threads, &lab.cpus)?, disturbances: Disturbances::default() };
        let samples = lab.beside_noise(|| course::run(lab, &competitors, |one| runner.sample(one)))?;
        notes.extend(runner.disturbances.remark());
        let mut taken = Vec::new();
        for (one, samples) in competitors.iter().zip(samples) {
            match samples.into_iter().collect::<Result<Vec<Times>, String>>() {
                Ok(samples) if samples.is_empty() => {}
                Ok(samples) => taken.push((one, samples)),
                Err(reason) => notes.push(format!("{}, {} left out: {reason}", one.name, one.case)),
            }
        }
        for (one, samples) in &taken {
            for measure in Measure::VARIANTS.iter().copied() {
                let values = measure.of(samples);
                if !values.is_empty() {
                    lab.series.put((&section(measure, &one.case), one.name.text(), one.case.threads), values);
                }
            }
        }
        Ok(taken.iter().map(|(one, samples)| row(lab, one, samples)).collect())
    }

    fn text(&self, rows: &[Row]) -> String {
        show::text(rows)
    }

    fn line(&self, rows: &[Row]) -> Option<Line> {
        show::line(rows)
    }
}

impl Timers {
    fn targets(&self) -> &[Name] {
        self.targets.as_ref().map_or(Name::VARIANTS, |targets| targets)
    }

    fn tests(&self) -> &[Test] {
        self.tests.as_ref().map_or(Test::VARIANTS, |tests| tests)
    }

    /// Limits the timers, which exist at the same time, and their IDs, which have 31 bits.
    fn refuse_too_many(&self) -> Result<(), String> {
        if self.number.is_none() || self.tests() == [Test::CreateDelete] {
            return Ok(());
        }
        let most = |list: &Option<List<usize>>| list.as_ref().and_then(|list| list.iter().max()).copied().unwrap_or(1);
        let timers = most(&self.number);
        let process = timers.saturating_mul(most(&self.threads));
        let all = process.saturating_mul(most(&self.processes));
        if all > TIMERS_MAX {
            return Err(format!(
                "--number '{timers}' is too large: {all} timers in all; accepted: up to {TIMERS_MAX} in all"
            ));
        }
        match self.sparse {
            Some(stride) if (process - 1).saturating_mul(stride) > i32::MAX as usize => Err(format!(
                "--sparse '{stride}' is too large: the IDs of {process} timers exceed 31 bits; accepted: up to {}",
                i32::MAX as usize / (process - 1)
            )),
            _ => Ok(()),
        }
    }
}

/// A target with its case.
struct Competitor {
    name: Name,
    case: Case,
}

struct Runner<'a> {
    lab: &'a Lab<'a>,
    pool: Pool,
    disturbances: Disturbances,
}

/// A sample, or why this target cannot be measured here.
type Sample = Result<Times, String>;

/// Makes the allocator keep the memory that a sample frees for the next one.
///
/// A kernel's memory is always mapped. Here every fresh page would cost a page fault, as long as about thirty timers
/// take, and by the allocator's defaults in some samples only.
fn keep_freed_memory() {
    #[cfg(target_env = "gnu")]
    for (parameter, bytes) in
        [(libc::M_TRIM_THRESHOLD, i32::MAX), (libc::M_MMAP_THRESHOLD, 32 << 20), (libc::M_TOP_PAD, 64 << 20)]
    {
        // SAFETY: the call takes numbers. If it fails, the allocator's settings stay as they are.
        unsafe { libc::mallopt(parameter, bytes) };
    }
}

/// All cases, with the targets of a case next to each other.
fn line_up(lab: &Lab<'_>, asked: &Timers, notes: &mut Vec<String>) -> Vec<Competitor> {
    if asked.targets().is_empty() {
        let all: Vec<_> = Name::VARIANTS.iter().map(|name| name.text()).collect();
        notes.push(format!("left out: none of its targets was requested: {}", all.join(", ")));
    }
    let mut competitors = Vec::new();
    for case in Case::asked(lab, asked, notes) {
        for name in asked.targets().iter().copied() {
            match case.refuses(name) {
                None => competitors.push(Competitor { name, case }),
                Some(reason) => notes.extend(reason),
            }
        }
    }
    notes.dedup();
    competitors
}

impl Runner<'_> {
    /// One sample, taken again if a thread was disturbed and that does not take long.
    fn sample(&self, one: &Competitor) -> Result<Sample> {
        let mut sample = self.take(one)?;
        let all = one.case.threads * one.case.processes;
        let is_disturbed = |sample: &Sample| {
            let had_no_cpu = |times: &Times| workers::had_no_cpu(times.on_cpu, times.elapsed);
            // The time of a single thread is CPU time, so it cannot be disturbed.
            (2..=self.lab.own_cpus()).contains(&all) && sample.as_ref().is_ok_and(had_no_cpu)
        };
        let is_short = |sample: &Sample| sample.as_ref().is_ok_and(|times| times.elapsed < workers::RETAKEN_MAX);
        if is_disturbed(&sample) && is_short(&sample) {
            sample = self.take(one)?;
        }
        self.disturbances.count(is_disturbed(&sample));
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
            let rendezvous = Rendezvous::new(threads * processes, None);
            let case = one.case;
            let job = move |worker: usize| world.work(worker / threads, &case.load(worker % threads), &rendezvous);
            self.pool.run(threads * processes, job, || ())?.into_iter().collect()
        };
        Ok(times.map(|times| mean(&times)))
    }
}

/// The mean over all threads: what one thread sees.
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
        let values = measure.of(samples);
        (!values.is_empty()).then(|| stats::median(&values))
    };
    // Rounded to hundredths: further digits are noise.
    let ns = |measure| median(measure).map(|ns| (ns * 100.0).round() / 100.0);
    let ratio = |measure| {
        let section = section(measure, &one.case);
        let key = |name: Name| (section.as_str(), name.text(), one.case.threads);
        let rival = if one.case.test == Test::Settime { Name::Kernel } else { Name::Radix };
        lab.series.ratio(key(one.name), key(rival))
    };
    let Case { test, timers, threads, processes, sparse } = one.case;
    // The worst round: a deadline that is missed once is missed.
    let worst = samples
        .iter()
        .filter_map(|sample| sample.lateness)
        .max_by(|a, b| a.lost.cmp(&b.lost).then(a.p99.unwrap_or(0.0).total_cmp(&b.p99.unwrap_or(0.0))));
    let distance = lab.distance.filter(|_| threads * processes > 1);
    Row {
        workload: Timers::NAME,
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
