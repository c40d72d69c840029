//! `schbench`: message threads and workers that wake each other. Each target runs for some seconds in a round.

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
use lab_targets::schbench::{SharedState, as_thread, serve_messages};
use lab_targets::{Name, Shape, Subject};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::thread::{Builder, Scope};

/// Stack of each thread: enough for a worker, and small because there are thousands.
const STACK_BYTES: usize = 256 * 1024;
/// Bounds of the tables that do not size themselves. Within them the size follows the threads, unless `-b` is given.
const BUCKETS: (usize, usize) = (16, 4096);

/// One target of a run.
pub struct Competitor {
    /// The target's name.
    pub name: Name,
    /// The size policy of its table.
    pub policy: Policy,
    /// The target itself.
    pub subject: Arc<dyn Subject>,
}

/// Runs every target once in each round, and passes the results to `sink`.
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
    let plan = sample::Rounds { count: rounds, warm_up: false, limit: None };
    let found = lab.rounds(plan, competitors.len(), &progress, |number| {
        let one = &competitors[number];
        progress.remark(&format!("schbench: {}", one.name));
        once(asked, one, sink)
    })?;
    drop(progress);
    let found = SchbenchOutcome { asked, competitors: &competitors, found: &found, notes: &notes };
    sink.schbench(&lab, &found)?;
    if interrupt::requested() {
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
            notes.push(format!("{name} left out: tasks cannot wait on it"));
            continue;
        }
        let policy = if name == Name::Live { settings.live_policy() } else { Policy::Fixed(buckets) };
        let shape = Shape::new(settings.layout, policy);
        let subject = lab_targets::build(name, &shape)?;
        subject.note_threads(threads);
        // The first wait makes the table. Without it, the run would begin in a domain without a table.
        subject.wait(&AtomicU32::new(0), 1);
        competitors.push(Competitor { name, policy, subject });
    }
    Ok(competitors)
}

/// One run of one target.
fn once(asked: &Schbench, one: &Competitor, sink: &mut dyn Sink) -> Result<Findings> {
    one.subject.make_ready();
    let (shared, subject) = (SharedState::new(asked.plan.clone()), &*one.subject);
    std::thread::scope(|scope| {
        let started = start(scope, asked, &shared, subject);
        // Also called if a thread could not be started, so that no thread sleeps for ever.
        let found =
            started.map(|()| watch::watch(&shared, &asked.course, |found| sink.schbench_interval(asked, found)));
        shared.stop(subject);
        found
    })
}

/// Starts the message threads first: when the run is stopped, also after a failed start, they wake the workers.
fn start<'s>(
    scope: &'s Scope<'s, '_>,
    asked: &'s Schbench,
    shared: &'s SharedState,
    subject: &'s dyn Subject,
) -> Result<()> {
    let thread = |name: &str, work: Box<dyn FnOnce() + Send + 's>| {
        let builder = Builder::new().name(name.to_string()).stack_size(STACK_BYTES);
        builder.spawn_scoped(scope, work).map(|_| ()).with_context(|| format!("cannot start a thread ({name})"))
    };
    let pinning = &asked.pinning;
    for (number, message_thread) in shared.message_threads.iter().enumerate() {
        let cpu = pinning.messages.as_ref().map(|cpus| cpus[number % cpus.len()]);
        let message = move || {
            cpu.into_iter().for_each(machine::pin);
            serve_messages(shared, message_thread, subject);
        };
        thread("schbench-msg", Box::new(message))?;
    }
    let cpus_of = |message_thread: usize| {
        pinning.workers.as_ref().map_or(&[][..], |groups| &groups[message_thread % groups.len()])
    };
    if let Some(executors) = asked.executors {
        for executor in 0..executors {
            let work = move || {
                machine::pin_to(cpus_of_all(pinning));
                subject.serve_tasks(shared, executor, executors);
            };
            thread("schbench-tasks", Box::new(work))?;
        }
        return Ok(());
    }
    for (number, message_thread) in shared.message_threads.iter().enumerate() {
        let cpus = cpus_of(number);
        for worker in 0..message_thread.workers.len() {
            let work = move || {
                machine::pin_to(cpus);
                as_thread(shared, message_thread, worker, subject);
            };
            thread("schbench-worker", Box::new(work))?;
        }
    }
    Ok(())
}

/// The CPUs of a task's executor, which runs workers of all message threads.
fn cpus_of_all(pinning: &Pinning) -> &[usize] {
    match pinning.workers.as_deref() {
        Some([only]) => only,
        _ => &[],
    }
}
