//! `growth`: threads park one after another; what does the first wait of each cost while the table grows?
//!
//! Every repeat is a process of its own: parking_lot_core's table is one for the process and never shrinks.

use super::growth_child::Report;
use super::{Lab, Outcome};
use crate::Row;
use crate::settings::Buckets;
use anyhow::{Context, Result, ensure};
use lab_measure::interrupt;
use lab_measure::sample::{self, Course};
use lab_measure::stats::Tail;
use lab_targets::Name;
use lab_targets::Policy;
use std::process::{Command, Stdio};
use std::time::Instant;

const THREADS: [usize; 4] = [43, 171, 683, 1366];
/// The smallest number of repeats that each figure is the median of.
pub const REPEATS_MIN: usize = 9;
/// The series of the worst first wait, which the figures compare.
pub const SECTION: &str = "growth";

/// Measures every target that shows when a waiter is queued.
pub fn run(lab: &mut Lab<'_>) -> Result<Outcome> {
    let mut notes = Vec::new();
    let names = names(lab, &mut notes);
    let threads = lab.threads(&THREADS, &mut notes);
    let competitors: Vec<_> = threads.iter().flat_map(|threads| names.iter().map(|name| (*name, *threads))).collect();
    if competitors.is_empty() {
        return Ok(Outcome { rows: Vec::new(), notes });
    }
    let repeats = lab.settings.repeat.unwrap_or(REPEATS_MIN).max(REPEATS_MIN);
    if lab.settings.repeat.is_some_and(|asked| asked < repeats) {
        notes.push(format!("--repeat is raised to {REPEATS_MIN}: fewer make no median of the worst wait"));
    }
    let reports = repeat(lab, &competitors, repeats)?;
    let mut rows = Vec::new();
    for ((name, threads), reports) in competitors.into_iter().zip(reports) {
        match reports {
            Ok(reports) => {
                let worst = reports.iter().map(|report| report.first_wait_us.max).collect();
                lab.series.put((SECTION, name.text(), threads), worst);
                rows.push((name, threads, reports));
            }
            Err(error) => notes.push(format!("{name} with {threads} threads left out: {error:#}")),
        }
    }
    let rows = rows.iter().map(|(name, threads, reports)| row(lab, *name, *threads, reports)).collect();
    Ok(Outcome { rows, notes })
}

/// The reports of each competitor, or why it has none (a limit on threads, say).
fn repeat(lab: &Lab<'_>, competitors: &[(Name, usize)], repeats: usize) -> Result<Vec<Result<Vec<Report>>>> {
    let progress = lab.progress(&format!("growth: {} rows, {repeats} repeats", competitors.len()), repeats);
    let start = Instant::now();
    let mut all: Vec<Vec<Result<Report>>> = competitors.iter().map(|_| Vec::new()).collect();
    loop {
        // Every process is new: a round before would warm up nothing.
        let course = Course { rounds: repeats, warm_up: false, limit: None };
        let batch = sample::rounds(course, competitors.len(), &progress, |number| {
            let (name, threads) = competitors[number];
            Ok(child(lab, name, threads))
        })?;
        for (all, batch) in all.iter_mut().zip(batch) {
            all.extend(batch);
        }
        // `-r` asks for more than the least: whole batches, as long as there is time for another one.
        let another = lab.settings.runtime_s.is_some_and(|budget| 2.0 * start.elapsed().as_secs_f64() < budget);
        if lab.settings.repeat.is_some() || !another || interrupt::asked() {
            return Ok(all.into_iter().map(|reports| reports.into_iter().collect()).collect());
        }
    }
}

/// Every target whose table follows its waiters, or need not, and that shows when a waiter is queued.
fn names(lab: &Lab<'_>, notes: &mut Vec<String>) -> Vec<Name> {
    let mut names = lab.sleeping_targets();
    let mut leave_out = |left_out: &[Name], reason: &str| {
        let these: Vec<_> = names.iter().filter(|name| left_out.contains(name)).map(|name| name.text()).collect();
        if !these.is_empty() {
            notes.push(format!("{} left out: {reason}", these.join(", ")));
        }
        names.retain(|name| !left_out.contains(name));
    };
    leave_out(&[Name::Kernel], "from outside nobody sees when futex(2) has queued the waiter and sleeps");
    leave_out(&[Name::Atomic, Name::PerCpu], "their tables do not grow while threads wait");
    names
}

/// The size policy: what resizes follows `live`'s, `fixed` is large enough from the start.
fn policy(lab: &Lab<'_>, name: Name, threads: usize) -> Policy {
    match (name, lab.settings.buckets) {
        (Name::Fixed, Buckets::Exactly(buckets)) => Policy::Fixed(buckets),
        (Name::Fixed, Buckets::Auto) => Policy::Fixed(threads.next_power_of_two().max(16)),
        _ => lab.settings.live_policy(),
    }
}

fn child(lab: &Lab<'_>, name: Name, threads: usize) -> Result<Report> {
    let program = std::env::current_exe().context("this program's own file")?;
    let output = interrupt::shield(&mut Command::new(program))
        .arg("growth-child")
        .args(["--target", name.text(), "--threads", &threads.to_string()])
        .args(["--layout", &lab.settings.layout.to_string(), "--policy", &policy(lab, name, threads).to_string()])
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .output()
        .context("cannot start a child")?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "growth of {name} with {threads} threads: {}", complaint.trim());
    serde_json::from_slice(&output.stdout).context("a child's report")
}

fn row(lab: &Lab<'_>, name: Name, threads: usize, reports: &[Report]) -> Row {
    let tails: Vec<_> = reports.iter().map(|report| report.first_wait_us).collect();
    let key = |name: Name| (SECTION, name.text(), threads);
    Row {
        futexes: 1,
        buckets: reports.last().and_then(|report| report.buckets),
        policy: name.is_ours().then(|| super::hammer::policy_name(name, policy(lab, name, threads))),
        first_wait_us: Some(Tail::median_of(&tails)),
        ratio_parking_lot: lab.series.ratio(key(name), key(Name::ParkingLot)),
        repeat: reports.len(),
        ..Row::new(lab, "growth", name, threads)
    }
}
