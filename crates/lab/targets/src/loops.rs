//! The measured loops: one source for all targets, compiled once for each.

use super::{Futex, Waited, Words};
use hdrhistogram::Histogram;
use lab_measure::clock;
use lab_measure::machine::OwnLine;
use lab_measure::pool::Gate;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The value that perf waits for; the words hold 0.
const DIFFERING_VALUE: u32 = 1234;
/// Operations between two looks at the stop flag.
const BATCH: usize = 1024;

/// What one worker did.
#[derive(Clone, Copy, Debug)]
pub struct Tally {
    /// Operations.
    pub operations: u64,
    /// When the worker had passed the gate.
    pub start: Instant,
    /// When it saw that the sample was over.
    pub end: Instant,
    /// The time for which the worker had a CPU.
    pub on_cpu: Duration,
    /// Operations that did not end as they must: any is a defect.
    pub failed: u64,
}

/// One operation of a hammering worker; true when it ended as it must.
pub trait Step {
    /// Does it.
    fn take<F: Futex>(futex: &F, word: &AtomicU32) -> bool;
}

/// perf's `hash`.
pub struct WaitDiffers;
/// `wake` where nobody waits.
pub struct WakeNobody;

impl Step for WaitDiffers {
    #[inline(always)]
    fn take<F: Futex>(futex: &F, word: &AtomicU32) -> bool {
        futex.wait(word, DIFFERING_VALUE) == Waited::Differs
    }
}

impl Step for WakeNobody {
    #[inline(always)]
    fn take<F: Futex>(futex: &F, word: &AtomicU32) -> bool {
        futex.wake(word) == 0
    }
}

/// Walks over the words again and again; a worker does one counted batch at least.
///
/// A first batch before the gate brings the table's lines back, which the targets before have pushed out.
pub fn hammer<F: Futex, S: Step>(futex: &F, words: &Words, gate: &Gate) -> Tally {
    let mut walk = Walk { operations: 0, as_expected: 0, next: 0 };
    walk.batch::<F, S>(futex, words);
    gate.pass_together();
    let (start, on_cpu) = (Instant::now(), clock::thread_cpu_time());
    let uncounted = walk.operations;
    while walk.operations == uncounted || !gate.stopped() {
        walk.batch::<F, S>(futex, words);
    }
    let (on_cpu, end) = (clock::thread_cpu_time() - on_cpu, Instant::now());
    let failed = walk.operations - walk.as_expected;
    Tally { operations: walk.operations - uncounted, start, end, on_cpu, failed }
}

struct Walk {
    operations: u64,
    as_expected: u64,
    next: usize,
}

impl Walk {
    // Apart for each target and step: a loop compiled into a larger function shares its registers, and then targets with
    // the same instructions differ by nanoseconds.
    #[inline(never)]
    fn batch<F: Futex, S: Step>(&mut self, futex: &F, words: &Words) {
        let mut left = BATCH;
        while left > 0 {
            let end = words.count().min(self.next + left);
            let as_expected: u64 = words.range(self.next..end).map(|word| u64::from(S::take(futex, word))).sum();
            self.as_expected += as_expected;
            left -= end - self.next;
            self.next = if end == words.count() { 0 } else { end };
        }
        self.operations += BATCH as u64;
    }
}

/// The time during which a resize runs.
#[derive(Default)]
pub struct Window(OwnLine<AtomicU8>);

const BEFORE: u8 = 0;
const OPEN: u8 = 1;
const AFTER: u8 = 2;

impl Window {
    /// The resize starts.
    pub fn open(&self) {
        self.0.0.store(OPEN, Ordering::SeqCst);
    }

    /// The resize has ended.
    pub fn close(&self) {
        self.0.0.store(AFTER, Ordering::SeqCst);
    }

    #[inline]
    fn state(&self) -> u8 {
        self.0.0.load(Ordering::Acquire)
    }
}

/// As [`hammer`] with waits, each one timed: those that overlap the window are kept, in ticks.
///
/// One stamp an operation, from the end of the one before: the hammering stays dense. Every target's times
/// hold the same cost of a stamp and of a histogram.
pub fn hammer_timed<F: Futex>(futex: &F, words: &Words, gate: &Gate, window: &Window) -> Histogram<u64> {
    let mut pauses = empty_histogram();
    gate.pass_together();
    let (mut number, mut state_before, mut end_before) = (0, window.state(), clock::ticks());
    while !gate.stopped() {
        let waited = futex.wait(words.word(number), DIFFERING_VALUE);
        let end = clock::ticks();
        assert_eq!(waited, Waited::Differs, "a wait on a differing word");
        let state = window.state();
        if state != BEFORE && state_before != AFTER {
            pauses.saturating_record(end.wrapping_sub(end_before));
        }
        (state_before, end_before) = (state, end);
        number = if number + 1 == words.count() { 0 } else { number + 1 };
    }
    pauses
}

/// Steps of time, all of one length, from when the timeline was made.
#[derive(Clone, Copy, Debug)]
pub struct Timeline {
    /// In ticks.
    pub start: u64,
    /// In ticks.
    pub step: u64,
    steps: usize,
}

/// Operations between two looks at the clock of a timeline: few, so that a thread that loses its CPU has counted them.
const TIMELINE_BATCH: usize = 16;

impl Timeline {
    /// Begins now.
    pub fn new(step: u64, steps: usize) -> Timeline {
        Timeline { start: clock::ticks(), step, steps }
    }
}

/// As [`hammer`] with waits; how many ended in each step of the timeline.
pub fn hammer_timeline<F: Futex>(futex: &F, words: &Words, gate: &Gate, timeline: Timeline) -> Vec<u64> {
    let mut counts = vec![0; timeline.steps];
    let mut number = 0;
    gate.pass_together();
    while !gate.stopped() {
        for _ in 0..TIMELINE_BATCH {
            let waited = futex.wait(words.word(number), DIFFERING_VALUE);
            assert_eq!(waited, Waited::Differs, "a wait on a differing word");
            number = if number + 1 == words.count() { 0 } else { number + 1 };
        }
        let step = clock::ticks().saturating_sub(timeline.start) / timeline.step;
        if let Some(count) = counts.get_mut(step as usize) {
            *count += TIMELINE_BATCH as u64;
        }
    }
    counts
}

/// An empty histogram of ticks, up to minutes of them, to three digits.
pub fn empty_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 1 << 40, 3).expect("these bounds are valid")
}

/// Where ping-pong is played: a word for each player.
#[derive(Default)]
pub struct Court {
    words: [OwnLine<AtomicU32>; 2],
}

/// Which player.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Serves, counts and ends the game.
    First,
    /// Returns.
    Second,
}

const EMPTY: u32 = 0;
const BALL: u32 = 1;
const GAME_OVER: u32 = 2;

/// Two threads wake one another in turn. `operations` counts one-way passes.
pub fn play<F: Futex>(futex: &F, court: &Court, side: Side, gate: &Gate) -> Tally {
    let (mine, yours) = match side {
        Side::First => (&court.words[0].0, &court.words[1].0),
        Side::Second => (&court.words[1].0, &court.words[0].0),
    };
    gate.pass_together();
    let start = Instant::now();
    let mut operations = 0;
    if side == Side::First {
        send(futex, yours, BALL);
    }
    while receive(futex, mine) == BALL {
        operations += 2;
        let last = side == Side::First && gate.stopped();
        send(futex, yours, if last { GAME_OVER } else { BALL });
        if last {
            break;
        }
    }
    Tally { operations, start, end: Instant::now(), on_cpu: Duration::ZERO, failed: 0 }
}

fn send<F: Futex>(futex: &F, word: &AtomicU32, value: u32) {
    word.store(value, Ordering::SeqCst);
    futex.wake(word);
}

fn receive<F: Futex>(futex: &F, word: &AtomicU32) -> u32 {
    loop {
        let value = word.load(Ordering::Acquire);
        if value != EMPTY {
            word.store(EMPTY, Ordering::Relaxed);
            return value;
        }
        assert_ne!(futex.wait(word, EMPTY), Waited::Failed, "a wait for the ball");
    }
}
