//! `growth`: threads park one after another. Measures each one's first wait while the table grows.
//!
//! Each repeat runs in its own process: parking_lot_core has one table in a process, which never shrinks.

use crate::all::All;
use crate::flags::{Own, help_of_futexes};
use crate::growth_child::Report;
use crate::rows::{self, shown};
use crate::settings::{Buckets, Settings};
use crate::summary::Line;
use crate::workload::{Workload, plain};
use crate::{Head, Lab, Ratios, children, policy_name};
use anyhow::{Context, Result, ensure};
use clap::Args;
use lab_measure::interrupt;
use lab_measure::sample::Rounds;
use lab_measure::stats::Tail;
use lab_targets::Name;
use lab_targets::Policy;
use lab_terminal::table::ratio;
use lab_values::{self as values, List};
use serde::Serialize;
use std::process::Stdio;
use std::time::Instant;

const THREADS: [usize; 4] = [43, 171, 683, 1366];
/// Each figure is the median of at least this many repeats.
const REPEATS_MIN: usize = 9;

/// Threads park one after another: each one's first wait
#[derive(Clone, Args)]
pub struct Growth {
    /// Threads that park one after another, a comma list [default: 43,171,683,1366]
    #[arg(short, long, value_name = "LIST", value_parser = values::threads())]
    threads: Option<List<usize>>,
    #[command(flatten)]
    own: Own,
}

/// One row of the results. The help has a line on each field.
#[derive(Serialize)]
pub struct Row {
    #[serde(flatten)]
    head: Head,
    first_wait_us: Tail,
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio_parking_lot: Option<f64>,
}

shown!(Row, |row| row.first_wait_us.max, ["parking_lot": row.ratio_parking_lot]);

impl Workload for Growth {
    const NAME: &'static str = "growth";
    type Row = Row;

    fn help() -> String {
        help_of_futexes(
            "\
  first_wait_us  {p50, p99, max} of the time from the call until the thread sleeps; each the median over the repeats
  ratio_parking_lot   this row's max divided by parking_lot's: the median over the repeats",
            "  ufutex bench growth -t 1366 --targets live,parking_lot",
        )
    }

    fn check(&mut self) -> Result<Settings, String> {
        self.own.settings()
    }

    fn in_all(all: &All) -> Vec<Self> {
        vec![Growth { threads: all.threads.clone(), ..plain() }]
    }

    /// Measures every target that shows when a waiter is queued.
    fn run(&self, lab: &mut Lab<'_>, notes: &mut Vec<String>) -> Result<Vec<Row>> {
        if lab.needs_private(notes) {
            return Ok(Vec::new());
        }
        let names = names(lab, notes);
        let threads = lab.threads(&self.threads, &THREADS, notes);
        let competitors: Vec<_> =
            threads.iter().flat_map(|threads| names.iter().map(|name| (*name, *threads))).collect();
        if competitors.is_empty() {
            return Ok(Vec::new());
        }
        let repeats = lab.settings.repeat.unwrap_or(REPEATS_MIN).max(REPEATS_MIN);
        if lab.settings.repeat.is_some_and(|asked| asked < repeats) {
            notes.push(format!("--repeat is raised to {REPEATS_MIN}: fewer give no median of the slowest wait"));
        }
        let reports = repeat(lab, &competitors, repeats)?;
        let mut rows = Vec::new();
        for ((name, threads), reports) in competitors.into_iter().zip(reports) {
            match reports {
                Ok(reports) if reports.is_empty() => {}
                Ok(reports) => {
                    let worst = reports.iter().map(|report| report.first_wait_us.max).collect();
                    lab.series.put((Self::NAME, name.text(), threads), worst);
                    rows.push((name, threads, reports));
                }
                Err(error) => notes.push(format!("{name} with {threads} threads left out: {error:#}")),
            }
        }
        Ok(rows.iter().map(|(name, threads, reports)| row(lab, *name, *threads, reports)).collect())
    }

    fn text(&self, rows: &[Row]) -> String {
        rows::table(rows, 1, |row| {
            let mut cells = vec![rows::target(row), ("threads", row.head.threads.to_string())];
            cells.push(rows::buckets(&row.head));
            let Tail { p50, p99, max } = row.first_wait_us;
            let us = [("first wait p50, us", p50), ("p99", p99), ("max", max)];
            cells.extend(us.map(|(header, us)| (header, format!("{us:.2}"))));
            cells.push(("max / parking_lot", ratio(row.ratio_parking_lot)));
            cells
        })
    }

    /// The row with the most threads shows the effect best.
    fn line(&self, rows: &[Row]) -> Option<Line> {
        Line::last("the slowest first wait, us", rows, |row| row.head.threads)
    }
}

/// The reports of each competitor, or why it has none (a limit on threads, for example).
fn repeat(lab: &Lab<'_>, competitors: &[(Name, usize)], repeats: usize) -> Result<Vec<Result<Vec<Report>>>> {
    let progress = lab.progress(&format!("growth: {} rows, {repeats} repeats", competitors.len()), repeats);
    let start = Instant::now();
    let mut all: Vec<Vec<Result<Report>>> = competitors.iter().map(|_| Vec::new()).collect();
    loop {
        // Each process is new, so a warm-up round would have no effect.
        let rounds = Rounds { count: repeats, warm_up: false, limit: None };
        let batch = lab.rounds(rounds, competitors.len(), &progress, |number| {
            let (name, threads) = competitors[number];
            Ok(child(lab, name, threads))
        })?;
        for (all, batch) in all.iter_mut().zip(batch) {
            all.extend(batch);
        }
        // With `-r`, whole batches are repeated as long as there is time for another one.
        let another = lab.settings.runtime_s.is_some_and(|budget| 2.0 * start.elapsed().as_secs_f64() < budget);
        if lab.settings.repeat.is_some() || !another || interrupt::requested() {
            return Ok(all.into_iter().map(|reports| reports.into_iter().collect()).collect());
        }
    }
}

/// The targets that show when a waiter is queued and whose table grows with its waiters or need not grow.
fn names(lab: &Lab<'_>, notes: &mut Vec<String>) -> Vec<Name> {
    let mut names = lab.sleeping_targets();
    let mut leave_out = |left_out: &[Name], reason: &str| {
        let these: Vec<_> = names.iter().filter(|name| left_out.contains(name)).map(|name| name.text()).collect();
        if !these.is_empty() {
            notes.push(format!("{} left out: {reason}", these.join(", ")));
        }
        names.retain(|name| !left_out.contains(name));
    };
    leave_out(&[Name::Kernel], "user space cannot see when futex(2) has queued a waiter");
    leave_out(&[Name::Atomic, Name::PerCpu], "their tables do not grow while threads wait");
    names
}

/// The size policy: a resizable target gets `live`'s, and a private table that is not resizable is large enough from the
/// start.
fn policy(lab: &Lab<'_>, name: Name, threads: usize) -> Policy {
    if !name.is_ours() || name.can_resize() || name == Name::Global {
        return lab.settings.live_policy();
    }
    match lab.settings.buckets {
        Buckets::Exactly(buckets) => Policy::Fixed(buckets),
        Buckets::Auto => Policy::Fixed(threads.next_power_of_two().max(16)),
    }
}

fn child(lab: &Lab<'_>, name: Name, threads: usize) -> Result<Report> {
    let output = interrupt::in_own_group(&mut children::command()?)
        .arg("growth-child")
        .args(["--target", name.text(), "--threads", &threads.to_string()])
        .args(["--layout", &lab.settings.layout.to_string(), "--policy", &policy(lab, name, threads).to_string()])
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .output()
        .context("cannot start a child")?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "growth of {name} with {threads} threads: {}", complaint.trim());
    serde_json::from_slice(&output.stdout).context("cannot parse a child's report")
}

fn row(lab: &Lab<'_>, name: Name, threads: usize, reports: &[Report]) -> Row {
    let tails: Vec<_> = reports.iter().map(|report| report.first_wait_us).collect();
    Row {
        head: Head {
            futexes: 1,
            buckets: reports.last().and_then(|report| report.buckets),
            policy: name.is_ours().then(|| policy_name(name, policy(lab, name, threads))),
            repeat: reports.len(),
            ..Head::new(lab, Growth::NAME, name, threads)
        },
        first_wait_us: Tail::median_of(&tails),
        ratio_parking_lot: Ratios::of(&lab.series, Growth::NAME, name.text(), threads).parking_lot,
    }
}
