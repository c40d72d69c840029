//! `resize`: sets a new table size while threads hammer. Measures the resize and how long it delays operations.

use crate::hammer::Hammer;
use crate::{Head, Lab, Ratios, rows_of, workers};
use anyhow::{Result, anyhow};
use hdrhistogram::Histogram;
use lab_measure::clock;
use lab_measure::pool::{Gate, Pool};
use lab_measure::sample::Rounds;
use lab_measure::stats::{self, Tail};
use lab_targets::Policy;
use lab_targets::loops::{Window, empty_histogram};
use lab_targets::{Name, Shape, Subject, Words};
use serde::Serialize;
use std::sync::Arc;
use std::time::{Duration, Instant};

const THREADS: [usize; 2] = [2, 16];
const BUDGET_S: f64 = 9.0;
/// A resize that has not completed after this time is given up, if the target allows it.
pub const GIVE_UP: Duration = Duration::from_millis(200);
/// Time of hammering before the resize begins.
const LEAD_IN: Duration = Duration::from_millis(3);
/// Assumed time of a round in which one target stalls; decides how many rounds fit into the budget.
const ROUND_GUESS: Duration = Duration::from_millis(250);

/// Settings of `resize`.
#[derive(Clone, Debug)]
pub struct Resize {
    /// The hammering threads and their words.
    pub hammer: Hammer,
    /// Slots before the resize.
    pub from: usize,
    /// Slots after the resize.
    pub to: usize,
}

impl Default for Resize {
    fn default() -> Self {
        Resize { hammer: Hammer::default(), from: 16, to: 1024 }
    }
}

/// One row of the results.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Target, threads and setup.
    #[serde(flatten)]
    pub head: Head,
    /// Slots before the resize.
    pub from: usize,
    /// Slots after the resize.
    pub to: usize,
    /// Time of the resize, median over the rounds. A resize that was given up counts with the time until then.
    pub resize_us: f64,
    /// Whether it completed in every round.
    pub completed: bool,
    /// Share of the rounds in which it completed.
    pub completed_share: f64,
    /// Times of the operations during the resize.
    pub op_pause_us: Tail,
    /// This row's time divided by the kernel's, round by round.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio_kernel: Option<f64>,
}

struct Repeat {
    resize_us: f64,
    completed: bool,
    pauses: Histogram<u64>,
    buckets: Option<usize>,
}

/// Measures every target that can resize, each time with a new table.
pub fn run(lab: &mut Lab<'_>, asked: &Resize, notes: &mut Vec<String>) -> Result<Vec<Row>> {
    if lab.needs_private(notes) {
        return Ok(Vec::new());
    }
    let names = names(lab, notes);
    let threads = lab.threads(&asked.hammer.threads, &THREADS, notes);
    let competitors: Vec<_> = threads.iter().flat_map(|threads| names.iter().map(|name| (*name, *threads))).collect();
    if competitors.is_empty() {
        return Ok(Vec::new());
    }
    let most = threads.iter().copied().max().unwrap_or(1);
    let (pool, words) = (Pool::new(most, &lab.cpus)?, workers::words(&asked.hammer, most));
    let rounds = rounds(lab, competitors.len());
    let stage = format!("resize: {} rows, {} rounds", competitors.len(), rounds.count);
    let progress = lab.progress(&stage, rounds.count);
    let repeats = lab
        .rounds(rounds, competitors.len(), &progress, |number| once(lab, asked, &pool, &words, competitors[number]))?;
    drop(progress);
    for ((name, threads), repeats) in competitors.iter().zip(&repeats) {
        let times = repeats.iter().map(|repeat| repeat.resize_us).collect();
        lab.series.put(("resize", name.text(), *threads), times);
        let completed = repeats.iter().map(|repeat| f64::from(u8::from(repeat.completed))).collect();
        lab.series.put(("resize completed", name.text(), *threads), completed);
    }
    let ns_per_tick = clock::nanoseconds_per_tick();
    let row = |one: &(Name, usize), repeats: &[Repeat]| row(lab, asked, *one, repeats, ns_per_tick);
    Ok(rows_of(&competitors, &repeats, row))
}

fn names(lab: &Lab<'_>, notes: &mut Vec<String>) -> Vec<Name> {
    let (mut names, cannot): (Vec<_>, Vec<_>) = lab.sleeping_targets().into_iter().partition(|name| name.can_resize());
    if !cannot.is_empty() {
        let cannot: Vec<_> = cannot.iter().map(|name: &Name| name.text()).collect();
        notes.push(format!("left out, because their tables cannot be resized: {}", cannot.join(", ")));
    }
    if names.contains(&Name::Kernel) && !lab_targets::kernel_has_private_hash() {
        notes.push("kernel left out: no PR_FUTEX_HASH here (6.16 and later)".to_string());
        names.retain(|name| *name != Name::Kernel);
    }
    names
}

fn rounds(lab: &Lab<'_>, competitors: usize) -> Rounds {
    let budget = lab.budget(BUDGET_S);
    let round = ROUND_GUESS * competitors as u32 / 2;
    let fit = (budget.as_nanos() / round.as_nanos().max(1)) as usize;
    let rounds = lab.settings.repeat.unwrap_or_else(|| fit.saturating_sub(1).max(1));
    Rounds { count: rounds, warm_up: true, limit: lab.settings.repeat.is_none().then_some(budget) }
}

fn once(
    lab: &Lab<'_>,
    asked: &Resize,
    pool: &Pool,
    words: &Arc<Vec<Words>>,
    (name, threads): (Name, usize),
) -> Result<Repeat> {
    let policy = Policy::Fixed(asked.from);
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
        resized = resize(&*subject, asked.to);
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

fn row(lab: &Lab<'_>, asked: &Resize, (name, threads): (Name, usize), repeats: &[Repeat], ns_per_tick: f64) -> Row {
    let mut pauses = empty_histogram();
    for repeat in repeats {
        // `add` fails only if the bounds differ, and these do not.
        let _ = pauses.add(&repeat.pauses);
    }
    let us = |ticks: u64| ticks as f64 * ns_per_tick / 1000.0;
    let at = |share| us(pauses.value_at_quantile(share));
    let times: Vec<_> = repeats.iter().map(|repeat| repeat.resize_us).collect();
    let completed = repeats.iter().filter(|repeat| repeat.completed).count();
    Row {
        head: Head {
            futexes: asked.hammer.futexes,
            buckets: repeats.last().and_then(|repeat| repeat.buckets),
            repeat: repeats.len(),
            ..Head::new(lab, "resize", name, threads)
        },
        from: asked.from,
        to: asked.to,
        resize_us: stats::median(&times),
        completed: completed == repeats.len(),
        completed_share: completed as f64 / repeats.len() as f64,
        op_pause_us: Tail { p50: at(0.5), p99: at(0.99), max: us(pauses.max()) },
        ratio_kernel: Ratios::of(&lab.series, "resize", name.text(), threads).kernel,
    }
}
