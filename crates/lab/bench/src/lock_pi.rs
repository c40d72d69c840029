//! `lock-pi`, as in perf: threads lock and unlock by the calls alone, one lock for all or one for each.

use crate::all::All;
use crate::flags::{Perfs, Sleeping, help_of_futexes};
use crate::hammer::times_and_rate;
use crate::rows::{self, shown};
use crate::settings::Settings;
use crate::summary::Line;
use crate::workers::{self, Disturbances, Sample};
use crate::workload::{Workload, plain};
use crate::{Entrant, Head, Lab, Ratios, stage};
use anyhow::{Context, Result};
use clap::Args;
use lab_measure::machine::OwnLine;
use lab_measure::pool::{Gate, Pool};
use lab_measure::stats::Spread;
use lab_targets::loops::Tally;
use lab_targets::{Name, Subject};
use lab_terminal::table::ratio;
use lab_values::{self as values, List};
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

const THREADS: [usize; 2] = [1, 2];
const BUDGET_S: f64 = 5.0;

/// Lock and unlock with priority inheritance: perf's `futex lock-pi`
#[derive(Clone, Args)]
pub struct LockPi {
    /// Threads, a comma list [default: 1,2]
    #[arg(short, long, value_name = "LIST", value_parser = values::threads())]
    threads: Option<List<usize>>,
    /// A lock for each thread instead of one for all
    #[arg(short = 'M', long)]
    multi: bool,
    /// Microseconds to sleep while holding the lock
    #[arg(long, value_name = "US", default_value = "0", value_parser = values::number::<u64>(0, 10_000, "microseconds"))]
    hold: u64,
    #[command(flatten)]
    sleeping: Sleeping,
    #[command(flatten)]
    perfs: Perfs,
}

/// One row of the results. The help has a line on each field.
#[derive(Serialize)]
pub struct Row {
    #[serde(flatten)]
    head: Head,
    multi: bool,
    hold_us: u64,
    ns_per_op: Spread,
    ops_per_sec: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio_kernel: Option<f64>,
}

shown!(Row, |row| row.ns_per_op.median, ["the kernel": row.ratio_kernel]);

/// The locks of all threads. With one lock, all have that one.
type Locks = Arc<Vec<OwnLine<AtomicU32>>>;

impl Workload for LockPi {
    const NAME: &'static str = "lock-pi";
    type Row = Row;

    fn help() -> String {
        help_of_futexes(
            "\
  multi          whether each thread has its own lock; futexes is the number of locks
  hold_us        how long a thread sleeps while it holds the lock
  ns_per_op      {p10, median, p90} of one lock and unlock as a thread sees it; ops_per_sec of all threads
  ratio_kernel   this row's ns_per_op divided by the kernel's: the median over the rounds",
            "  ufutex bench lock-pi -t 1,2 --targets live,kernel",
        )
    }

    fn check(&mut self) -> Result<Settings, String> {
        self.perfs.settings(self.sleeping.targets.as_ref())
    }

    fn in_all(all: &All) -> Vec<Self> {
        vec![LockPi { threads: all.threads.clone(), ..plain() }]
    }

    /// Measures the targets with priority inheritance, one sample of each in a round.
    fn run(&self, lab: &mut Lab<'_>, notes: &mut Vec<String>) -> Result<Vec<Row>> {
        let threads = lab.threads(&self.threads, &THREADS, notes);
        let competitors = self.line_up(lab, &threads, notes)?;
        if competitors.is_empty() {
            return Ok(Vec::new());
        }
        let pool = Pool::new(threads.iter().copied().max().unwrap_or(1), &lab.cpus)?;
        let pace = lab.pace(BUDGET_S, competitors.len());
        lab.measure(
            &stage(Self::NAME, &competitors),
            pace.rounds,
            &competitors,
            |lab, (one, locks)| self.once(lab, &pool, one, locks, pace.sample),
            (|(one, _)| (Self::NAME.into(), one.name.text().into(), one.threads), |sample: &Sample| sample.ns_per_op),
            |lab, (one, locks), samples| {
                let (ns_per_op, ops_per_sec) = times_and_rate(samples);
                Row {
                    head: one.head(lab, Self::NAME, locks.len(), samples.len()),
                    multi: self.multi,
                    hold_us: self.hold,
                    ns_per_op,
                    ops_per_sec,
                    ratio_kernel: Ratios::of(&lab.series, Self::NAME, one.name.text(), one.threads).kernel,
                }
            },
        )
    }

    fn text(&self, rows: &[Row]) -> String {
        rows::table(rows, 1, |row| {
            let mut cells = vec![rows::target(row), rows::threads(&row.head), ("locks", row.head.futexes.to_string())];
            cells.push(rows::buckets(&row.head));
            cells.extend(rows::spread("ns/lock+unlock", &row.ns_per_op, 1));
            cells.extend([rows::mops(row.ops_per_sec, 2), ("/ kernel", ratio(row.ratio_kernel))]);
            cells
        })
    }

    /// The row with the most threads shows the effect best.
    fn line(&self, rows: &[Row]) -> Option<Line> {
        Line::last("a PI lock of all threads, ns", rows, |row| (row.head.threads, row.multi))
    }
}

impl LockPi {
    fn locks(&self, threads: usize) -> Locks {
        Arc::new((0..if self.multi { threads } else { 1 }).map(|_| OwnLine::default()).collect())
    }

    fn line_up(&self, lab: &Lab<'_>, threads: &[usize], notes: &mut Vec<String>) -> Result<Vec<(Entrant, Locks)>> {
        let targets = &lab.settings.targets;
        if targets.contains(&Name::ParkingLot) {
            notes.push("parking_lot left out: it has no locks with priority inheritance".to_string());
        }
        let mut competitors = Vec::new();
        for threads in threads.iter().copied() {
            for name in targets.iter().copied().filter(|name| name.has_pi()) {
                competitors.push((lab.small_table(name, threads)?, self.locks(threads)));
            }
        }
        Ok(competitors)
    }

    /// One sample. If no thread has to wait for another, a disturbed sample is taken again.
    fn once(&self, lab: &Lab<'_>, pool: &Pool, one: &Entrant, locks: &Locks, length: Duration) -> Result<Sample> {
        let Entrant { name, threads, subject, .. } = one;
        subject.make_ready();
        let hold = (self.hold > 0).then(|| Duration::from_micros(self.hold));
        let needs_nobody = locks.len() == *threads && *threads <= lab.own_cpus() && hold.is_none();
        let hammer = || hammer(pool, subject, *threads, locks, hold, length).with_context(|| name.to_string());
        Disturbances::default().sample(needs_nobody, hammer)
    }
}

fn hammer(
    pool: &Pool,
    subject: &Arc<dyn Subject>,
    threads: usize,
    locks: &Locks,
    hold: Option<Duration>,
    length: Duration,
) -> Result<Vec<Tally>> {
    let (subject, locks) = (subject.clone(), locks.clone());
    let job = move |worker: usize, gate: &Gate| subject.hammer_pi(&locks[worker % locks.len()].0, hold, gate);
    workers::hammer(pool, threads, length, "lock and unlock", job)
}
