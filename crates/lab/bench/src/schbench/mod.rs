//! `schbench`: message threads and workers that wake one another, a run of some seconds for each target.

mod load;
mod pinning;
mod settings;
mod watch;

pub use pinning::Pinning;
pub use settings::{Course, Cpus, Schbench};
pub use watch::Findings;

use super::{Lab, SchbenchOutcome, Sink};
use crate::settings::Buckets;
use anyhow::{Context, Result};
use lab_measure::interrupt;
use lab_measure::machine;
use lab_measure::sample;
use lab_targets::Policy;
use lab_targets::schbench::{Hall, as_thread, serve_messages};
use lab_targets::{Name, Shape, Subject};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::thread::{Builder, Scope};

/// Enough for a worker; small, so that thousands fit.
const STACK_BYTES: usize = 256 * 1024;
/// Tables of those that do not size themselves, unless `-b` says otherwise: by the threads, within these bounds.
const BUCKETS: (usize, usize) = (16, 4096);

/// One target of a run.
pub struct Competitor {
    /// Which.
    pub name: Name,
    /// How large its table may be.
    pub policy: Policy,
    /// The target itself.
    pub subject: Arc<dyn Subject>,
}

/// Runs every target once in each round, and prints what was found.
pub fn run(asked: &Schbench, sink: &mut dyn Sink) -> Result<()> {
    let settings = &asked.settings;
    let lab = Lab::new(settings);
    sink.opening(&lab)?;
    let mut notes = Vec::new();
    let competitors = line_up(asked, &mut notes)?;
    let rounds = settings.repeat.unwrap_or(1);
    let plan = &asked.plan;
    let stage = format!(
        "schbench: {} targets, {rounds} rounds of {} s, {} message threads with {} workers each",
        competitors.len(),
        asked.course.runtime.as_secs_f64(),
        plan.message_threads,
        plan.workers
    );
    let progress = lab.progress(&stage, rounds);
    let course = sample::Course { rounds, warm_up: false, limit: None };
    let found = sample::rounds(course, competitors.len(), &progress, |number| {
        let one = &competitors[number];
        progress.remark(&format!("schbench: {}", one.name));
        once(asked, one, sink)
    })?;
    drop(progress);
    let found = SchbenchOutcome { asked, competitors: &competitors, found: &found, notes: &notes };
    sink.schbench(&lab, &found)?;
    if interrupt::asked() {
        super::say_interrupted(&[], false);
    }
    Ok(())
}

fn line_up(asked: &Schbench, notes: &mut Vec<String>) -> Result<Vec<Competitor>> {
    let settings = &asked.settings;
    let threads = asked.plan.message_threads * (asked.plan.workers + 1);
    let buckets = match settings.buckets {
        Buckets::Exactly(buckets) => buckets,
        Buckets::Auto => threads.next_power_of_two().clamp(BUCKETS.0, BUCKETS.1),
    };
    let mut competitors = Vec::new();
    for name in settings.targets.iter().copied() {
        if asked.executors.is_some() && !name.has_futures() {
            notes.push(format!("{name} left out: only threads can wait there, not tasks"));
            continue;
        }
        let policy = if name == Name::Live { settings.live_policy() } else { Policy::Fixed(buckets) };
        let shape = Shape { layout: settings.layout, policy, shared: false, early_return: false };
        let subject = lab_targets::build(name, &shape)?;
        subject.note_threads(threads);
        // So that the table exists: nobody measures an empty domain.
        subject.wait(&AtomicU32::new(0), 1);
        competitors.push(Competitor { name, policy, subject });
    }
    Ok(competitors)
}

/// One run of one target.
fn once(asked: &Schbench, one: &Competitor, sink: &mut dyn Sink) -> Result<Findings> {
    one.subject.make_ready();
    let (hall, subject) = (Hall::new(asked.plan.clone()), &*one.subject);
    std::thread::scope(|scope| {
        let started = start(scope, asked, &hall, subject);
        // Also where not all could be started: nobody sleeps for ever.
        let found = started.map(|()| watch::watch(&hall, &asked.course, |found| sink.schbench_interval(asked, found)));
        hall.stop(subject);
        found
    })
}

/// Message threads first: whatever fails to start after them, they let everybody go.
fn start<'s>(scope: &'s Scope<'s, '_>, asked: &'s Schbench, hall: &'s Hall, subject: &'s dyn Subject) -> Result<()> {
    let thread = |name: &str, work: Box<dyn FnOnce() + Send + 's>| {
        let builder = Builder::new().name(name.to_string()).stack_size(STACK_BYTES);
        builder.spawn_scoped(scope, work).map(|_| ()).with_context(|| format!("cannot start a thread ({name})"))
    };
    let pinning = &asked.pinning;
    for (number, desk) in hall.desks.iter().enumerate() {
        let cpu = pinning.messages.as_ref().map(|cpus| cpus[number % cpus.len()]);
        let message = move || {
            cpu.into_iter().for_each(machine::pin);
            serve_messages(hall, desk, subject);
        };
        thread("schbench-msg", Box::new(message))?;
    }
    let cpus_of = |desk: usize| pinning.workers.as_ref().map_or(&[][..], |groups| &groups[desk % groups.len()]);
    if let Some(executors) = asked.executors {
        for executor in 0..executors {
            let work = move || {
                machine::pin_to(cpus_of_all(pinning));
                subject.serve_tasks(hall, executor, executors);
            };
            thread("schbench-tasks", Box::new(work))?;
        }
        return Ok(());
    }
    for (number, desk) in hall.desks.iter().enumerate() {
        let cpus = cpus_of(number);
        for worker in 0..desk.workers.len() {
            let work = move || {
                machine::pin_to(cpus);
                as_thread(hall, desk, worker, subject);
            };
            thread("schbench-worker", Box::new(work))?;
        }
    }
    Ok(())
}

/// Of tasks: an executor has workers of all message threads.
fn cpus_of_all(pinning: &Pinning) -> &[usize] {
    match pinning.workers.as_deref() {
        Some([only]) => only,
        _ => &[],
    }
}
