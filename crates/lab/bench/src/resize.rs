//! `resize`: a new table size while threads hammer the old one. How long does it take, and how long do they stand?

use super::arena;
use super::{Lab, Outcome};
use crate::Row;
use anyhow::{Result, anyhow};
use hdrhistogram::Histogram;
use lab_measure::clock;
use lab_measure::pool::{Gate, Pool};
use lab_measure::sample::{self, Course};
use lab_measure::stats::Tail;
use lab_targets::Policy;
use lab_targets::loops::{Window, empty_histogram};
use lab_targets::{Name, Shape, Subject, Words};
use std::sync::Arc;
use std::time::{Duration, Instant};

const THREADS: [usize; 2] = [2, 16];
const BUDGET_S: f64 = 9.0;
/// A resize that has not completed by then is given up, where the target lets us.
pub const GIVE_UP: Duration = Duration::from_millis(200);
/// How long the threads hammer before the resize begins.
const LEAD_IN: Duration = Duration::from_millis(3);
/// What a round takes where one target stalls; decides how many rounds fit into the budget.
const ROUND_GUESS: Duration = Duration::from_millis(250);

struct Repeat {
    resize_us: f64,
    completed: bool,
    pauses: Histogram<u64>,
    buckets: Option<usize>,
}

/// Measures every target that can resize, each time from a fresh table.
pub fn run(lab: &mut Lab<'_>) -> Result<Outcome> {
    let mut notes = Vec::new();
    let names = names(lab, &mut notes);
    let threads = lab.threads(&THREADS, &mut notes);
    let competitors: Vec<_> = threads.iter().flat_map(|threads| names.iter().map(|name| (*name, *threads))).collect();
    if competitors.is_empty() {
        return Ok(Outcome { rows: Vec::new(), notes });
    }
    let most = threads.iter().copied().max().unwrap_or(1);
    let (pool, words) = (Pool::new(most, &lab.cpus)?, arena::words(lab.settings, most));
    let course = course(lab, competitors.len());
    let stage = format!("resize: {} rows, {} rounds", competitors.len(), course.rounds);
    let progress = lab.progress(&stage, course.rounds);
    let repeats = sample::rounds(course, competitors.len(), &progress, |number| {
        let (name, threads) = competitors[number];
        once(lab, &pool, &words, name, threads)
    })?;
    drop(progress);
    for ((name, threads), repeats) in competitors.iter().zip(&repeats) {
        let times = repeats.iter().map(|repeat| repeat.resize_us).collect();
        lab.series.put(("resize", name.text(), *threads), times);
        let completed = repeats.iter().map(|repeat| f64::from(u8::from(repeat.completed))).collect();
        lab.series.put(("resize completed", name.text(), *threads), completed);
    }
    let ns_per_tick = clock::nanoseconds_per_tick();
    let rows = competitors.iter().zip(&repeats);
    let rows = rows.map(|((name, threads), repeats)| row(lab, *name, *threads, repeats, ns_per_tick)).collect();
    Ok(Outcome { rows, notes })
}

fn names(lab: &Lab<'_>, notes: &mut Vec<String>) -> Vec<Name> {
    let (mut names, cannot): (Vec<_>, Vec<_>) = lab.sleeping_targets().into_iter().partition(|name| name.can_resize());
    if !cannot.is_empty() {
        let cannot: Vec<_> = cannot.iter().map(|name: &Name| name.text()).collect();
        notes.push(format!("left out, their tables take no new size: {}", cannot.join(", ")));
    }
    if names.contains(&Name::Kernel) && !lab_targets::kernel_has_private_hash() {
        notes.push("kernel left out: no PR_FUTEX_HASH here (6.16 and later)".to_string());
        names.retain(|name| *name != Name::Kernel);
    }
    names
}

fn course(lab: &Lab<'_>, competitors: usize) -> Course {
    let budget = lab.budget(BUDGET_S);
    let round = ROUND_GUESS * competitors as u32 / 2;
    let fit = (budget.as_nanos() / round.as_nanos().max(1)) as usize;
    let rounds = lab.settings.repeat.unwrap_or_else(|| fit.saturating_sub(1).max(1));
    Course { rounds, warm_up: true, limit: lab.settings.repeat.is_none().then_some(budget) }
}

fn once(lab: &Lab<'_>, pool: &Pool, words: &Arc<Vec<Words>>, name: Name, threads: usize) -> Result<Repeat> {
    let (from, to) = lab.settings.resize;
    let policy = Policy::Fixed(from);
    let shape = Shape { layout: lab.settings.layout, policy, shared: false, early_return: false };
    let subject = lab_targets::build(name, &shape)?;
    subject.make_ready();
    let (gate, window) = (Gate::new(threads), Arc::new(Window::default()));
    let job = {
        let (subject, words, gate, window) = (subject.clone(), words.clone(), gate.clone(), window.clone());
        move |worker: usize| subject.hammer_timed(&words[worker], &gate, &window)
    };
    let mut resized = Ok((0.0, false));
    let histograms = pool.run(threads, job, || {
        gate.sleep_until_passed();
        std::thread::sleep(LEAD_IN);
        window.open();
        resized = resize(&*subject, to);
        window.close();
        gate.stop();
    })?;
    let (resize_us, completed) = resized.map_err(|reason| anyhow!("{name}: {reason}"))?;
    let mut pauses = empty_histogram();
    for histogram in histograms {
        pauses.add(histogram)?;
    }
    Ok(Repeat { resize_us, completed, pauses, buckets: subject.buckets() })
}

fn resize(subject: &dyn Subject, to: usize) -> Result<(f64, bool), String> {
    let start = Instant::now();
    let completed = subject.set_slots(to, &mut || start.elapsed() < GIVE_UP)?;
    Ok((start.elapsed().as_nanos() as f64 / 1000.0, completed))
}

fn row(lab: &Lab<'_>, name: Name, threads: usize, repeats: &[Repeat], ns_per_tick: f64) -> Row {
    let mut pauses = empty_histogram();
    for repeat in repeats {
        // Both have the same bounds.
        let _ = pauses.add(&repeat.pauses);
    }
    let us = |ticks: u64| ticks as f64 * ns_per_tick / 1000.0;
    let at = |share| us(pauses.value_at_quantile(share));
    let key = |name: Name| ("resize", name.text(), threads);
    let completed = repeats.iter().filter(|repeat| repeat.completed).count();
    Row {
        futexes: lab.settings.futexes,
        buckets: repeats.last().and_then(|repeat| repeat.buckets),
        from: Some(lab.settings.resize.0),
        to: Some(lab.settings.resize.1),
        resize_us: lab.series.median(key(name)),
        completed: Some(completed == repeats.len()),
        completed_share: Some(completed as f64 / repeats.len() as f64),
        op_pause_us: Some(Tail { p50: at(0.5), p99: at(0.99), max: us(pauses.max()) }),
        ratio_kernel: lab.series.ratio(key(name), key(Name::Kernel)),
        repeat: repeats.len(),
        ..Row::new(lab, "resize", name, threads)
    }
}
