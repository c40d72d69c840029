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
use lab_targets::loops::{Hammered, Window, empty_histogram};
use lab_targets::{Name, Shape, Subject, Words};
use serde::Serialize;
use std::sync::Arc;
use std::time::{Duration, Instant};

const THREADS: [usize; 2] = [2, 16];
const BUDGET_S: f64 = 9.0;
/// A resize that has not completed after this time is given up, if the target allows it.
pub const GIVE_UP: Duration = Duration::from_millis(200);
/// Time of hammering before the resize begins. It is longer than all threads of a CPU take to have had a turn, so that
/// some have lost their CPU in the middle of an operation, as in a busy program.
const LEAD_IN: Duration = Duration::from_millis(50);
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
    /// Time until the new size was in use, median over the rounds. A resize that was given up counts with the time
    /// until then.
    pub resize_us: f64,
    /// The same, 90th percentile.
    pub resize_p90_us: f64,
    /// Time until the request returned, median over the rounds. On busy CPUs the requesting thread may have to wait for
    /// its turn after other threads have completed the resize.
    pub returned_us: f64,
    /// Whether it completed in every round.
    pub completed: bool,
    /// Share of the rounds in which it completed.
    pub completed_share: f64,
    /// Operations a second until the request returned, divided by those before it: the median over the rounds.
    pub rate_meanwhile: f64,
    /// The work that the threads did not get done until the request returned, as the time that it would take them at
    /// their rate before it was made: the median over the rounds. Negative if they got more done. Unlike rates, it
    /// compares a short request with a long one.
    pub missed_us: f64,
    /// Times of the operations until the request returned.
    pub op_pause_us: Tail,
    /// This row's time divided by the kernel's, round by round.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio_kernel: Option<f64>,
}

struct Repeat {
    /// Until the new size was in use, in ticks.
    resize: u64,
    /// Until the request returned, in ticks.
    returned: u64,
    rate_meanwhile: f64,
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
    let us_per_tick = clock::nanoseconds_per_tick() / 1000.0;
    for ((name, threads), repeats) in competitors.iter().zip(&repeats) {
        let times = repeats.iter().map(|repeat| repeat.resize as f64 * us_per_tick).collect();
        lab.series.put(("resize", name.text(), *threads), times);
        let completed = repeats.iter().map(|repeat| f64::from(u8::from(repeat.completed))).collect();
        lab.series.put(("resize completed", name.text(), *threads), completed);
    }
    let row = |one: &(Name, usize), repeats: &[Repeat]| row(lab, asked, *one, repeats, us_per_tick);
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
    let shape = Shape::new(lab.settings.layout, policy);
    let subject = lab_targets::build(name, &shape)?;
    subject.make_ready();
    let (gate, window, to) = (Gate::new(threads), Arc::new(Window::default()), asked.to);
    let job = {
        let (subject, words, gate, window) = (subject.clone(), words.clone(), gate.clone(), window.clone());
        move |worker: usize| subject.hammer_timed(&words[worker], &gate, &window, to)
    };
    let mut resized = Err("not requested".to_string());
    let workers = pool.run(threads, job, || {
        gate.sleep_until_passed();
        let begin = clock::ticks();
        window.count();
        std::thread::sleep(LEAD_IN);
        let asked = clock::ticks();
        window.open();
        resized = resize(&*subject, to, begin, asked);
        window.close();
        gate.stop();
    })?;
    let resized = resized.map_err(|reason| anyhow!("{name}: {reason}"))?;
    Ok(repeat(&resized, &workers, subject.buckets()))
}

/// A request for another size, in ticks.
struct Request {
    /// When operations began to count.
    begin: u64,
    asked: u64,
    returned: u64,
    completed: bool,
}

fn resize(subject: &dyn Subject, to: usize, begin: u64, asked: u64) -> Result<Request, String> {
    let start = Instant::now();
    let completed = subject.set_slots(to, &mut || start.elapsed() < GIVE_UP)?;
    Ok(Request { begin, asked, returned: clock::ticks(), completed })
}

fn repeat(request: &Request, workers: &[Hammered], buckets: Option<usize>) -> Repeat {
    let Request { begin, asked, returned, completed } = *request;
    let mut pauses = empty_histogram();
    for recorded in workers.iter().flat_map(|worker| worker.pauses.iter_recorded()) {
        pauses.saturating_record_n(recorded.value_iterated_to(), recorded.count_at_value());
    }
    let in_use = workers.iter().filter_map(|worker| worker.saw_new_size).min().unwrap_or(returned).min(returned);
    let sum = |count: fn(&Hammered) -> u64| workers.iter().map(count).sum::<u64>().max(1) as f64;
    let (resize, before, returned) = (in_use.saturating_sub(asked), asked - begin, (returned - asked).max(1));
    let rate = |operations: f64, ticks: u64| operations / ticks as f64;
    let rate_before = rate(sum(|worker| worker.before), before);
    let rate_meanwhile = rate(sum(|worker| worker.meanwhile), returned) / rate_before;
    Repeat { resize, returned, rate_meanwhile, completed, pauses, buckets }
}

fn row(lab: &Lab<'_>, asked: &Resize, (name, threads): (Name, usize), repeats: &[Repeat], us_per_tick: f64) -> Row {
    let mut pauses = empty_histogram();
    for repeat in repeats {
        // `add` fails only if the bounds differ, and these do not.
        let _ = pauses.add(&repeat.pauses);
    }
    let us = |ticks: u64| ticks as f64 * us_per_tick;
    let at = |share| us(pauses.value_at_quantile(share));
    let all = |of: &dyn Fn(&Repeat) -> f64| repeats.iter().map(of).collect::<Vec<_>>();
    let times = all(&|repeat| us(repeat.resize));
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
        resize_p90_us: stats::percentile(&times, 0.9),
        returned_us: stats::median(&all(&|repeat| us(repeat.returned))),
        completed: completed == repeats.len(),
        completed_share: completed as f64 / repeats.len() as f64,
        rate_meanwhile: stats::median(&all(&|repeat| repeat.rate_meanwhile)),
        missed_us: stats::median(&all(&|repeat| (1.0 - repeat.rate_meanwhile) * us(repeat.returned))),
        op_pause_us: Tail { p50: at(0.5), p99: at(0.99), max: us(pauses.max()) },
        ratio_kernel: Ratios::of(&lab.series, "resize", name.text(), threads).kernel,
    }
}
