//! The measured loops, written once and compiled for each target.

use super::{Futex, Waited, Words};
use hdrhistogram::Histogram;
use lab_measure::clock;
use lab_measure::machine::OwnLine;
use lab_measure::pool::Gate;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The expected value of perf's waits. The words hold 0.
const DIFFERING_VALUE: u32 = 1234;
/// Operations between two checks of the stop flag.
const BATCH: usize = 1024;

/// The result of one worker.
#[derive(Clone, Copy, Debug)]
pub struct Tally {
    /// Operations.
    pub operations: u64,
    /// When the worker passed the gate.
    pub start: Instant,
    /// When the worker saw that the sample was over.
    pub end: Instant,
    /// The worker's CPU time.
    pub on_cpu: Duration,
    /// Operations with an unexpected result. Any is a defect.
    pub failed: u64,
}

/// One operation of a hammering worker.
pub trait Step {
    /// Does the operation. Returns whether it had the expected result.
    fn take<F: Futex>(futex: &F, word: &AtomicU32) -> bool;
}

/// perf's `hash`.
pub struct WaitDiffers;
/// A `wake` of a word without waiters.
pub struct WakeNoWaiter;

impl Step for WaitDiffers {
    #[inline(always)]
    fn take<F: Futex>(futex: &F, word: &AtomicU32) -> bool {
        futex.wait(word, DIFFERING_VALUE) == Waited::Differs
    }
}

impl Step for WakeNoWaiter {
    #[inline(always)]
    fn take<F: Futex>(futex: &F, word: &AtomicU32) -> bool {
        futex.wake(word) == 0
    }
}

/// Repeats an operation on one word after the other. Counts at least one batch.
///
/// A batch before the gate is not counted. It brings back the table's lines, which other targets' samples have evicted.
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
    // Not inlined, for each target and step. Inlined loops share the registers of the larger function, and targets with
    // the same instructions then differ by nanoseconds.
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

/// The time during which a resize runs, as a state that workers read.
#[derive(Default)]
pub struct Window(OwnLine<AtomicU8>);

// 0 at first: operations do not count yet.
const BEFORE: u8 = 1;
const OPEN: u8 = 2;
const AFTER: u8 = 3;

impl Window {
    /// Call when the operations before the resize begin to count.
    pub fn count(&self) {
        self.0.0.store(BEFORE, Ordering::SeqCst); // [Lg]
    }

    /// Call before the resize.
    pub fn open(&self) {
        self.0.0.store(OPEN, Ordering::SeqCst); // [Lg]
    }

    /// Call after the resize.
    pub fn close(&self) {
        self.0.0.store(AFTER, Ordering::SeqCst); // [Lg]
    }

    #[inline]
    fn state(&self) -> u8 {
        self.0.0.load(Ordering::Acquire) // [Lg]
    }
}

/// What a worker did before and while the window was open.
pub struct Hammered {
    /// Ticks of the waits that overlap the window, and with a count of 0 of all others. So its `max` is not theirs.
    pub pauses: Histogram<u64>,
    /// Waits that ended before the window was open, from [`Window::count`] on.
    pub before: u64,
    /// Waits that ended while it was open.
    pub meanwhile: u64,
    /// When this worker first saw the new size in use, in ticks.
    pub saw_new_size: Option<u64>,
}

/// Like [`hammer`] with waits, each of them timed, until a resize to `slots` has ended.
///
/// There is one time stamp for each operation: it ends one and begins the next. All targets pay for both. The harness does the same
/// before the resize as meanwhile: it records each operation, with a count of 0 if that does not overlap the window, and checks
/// the size.
pub fn hammer_timed<F: Futex>(futex: &F, words: &Words, gate: &Gate, window: &Window, slots: usize) -> Hammered {
    let mut done = Hammered { pauses: empty_histogram(), before: 0, meanwhile: 0, saw_new_size: None };
    done.pauses.reset(); // writes to all of it, so that its page faults come now
    gate.pass_together();
    let (mut number, mut state_before, mut end_before) = (0, window.state(), clock::ticks());
    while !gate.stopped() {
        let waited = futex.wait(words.word(number), DIFFERING_VALUE);
        let end = clock::ticks();
        assert_eq!(waited, Waited::Differs, "a wait on a differing word");
        let state = window.state();
        match state {
            BEFORE => done.before += 1,
            OPEN => done.meanwhile += 1,
            _ => {}
        }
        if futex.is_in_use(slots) && state == OPEN && done.saw_new_size.is_none() {
            // Read after the check: a thread that loses its CPU in between saw the new size late, not early.
            done.saw_new_size = Some(clock::ticks());
        }
        let overlaps = matches!(state, OPEN | AFTER) && state_before != AFTER;
        done.pauses.saturating_record_n(end.wrapping_sub(end_before), u64::from(overlaps));
        (state_before, end_before) = (state, end);
        number = if number + 1 == words.count() { 0 } else { number + 1 };
    }
    done
}

/// Steps of equal length, from the creation of the timeline on.
#[derive(Clone, Copy, Debug)]
pub struct Timeline {
    /// In ticks.
    pub start: u64,
    /// In ticks.
    pub step: u64,
    steps: usize,
}

/// Operations between two clock readings of a timeline. Few, so that a preempted thread has counted most of its work.
const TIMELINE_BATCH: usize = 16;

impl Timeline {
    /// Makes a timeline that begins now.
    pub fn new(step: u64, steps: usize) -> Timeline {
        Timeline { start: clock::ticks(), step, steps }
    }
}

/// Like [`hammer`] with waits. Returns the number of waits that ended in each step of the timeline.
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

/// An empty histogram of ticks with three digits, up to 2^40 ticks: some minutes.
pub fn empty_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 1 << 40, 3).expect("these bounds are valid")
}

/// The words of a game of ping-pong, one for each player: the number of balls that wait for the player, or at least `GAME_OVER`.
/// Each player passes balls to the next one, and the last to the first.
pub struct PingPong {
    words: Box<[OwnLine<AtomicU32>]>,
    balls: u32,
    /// How long a player works with the ball, in ticks.
    work: u64,
}

impl PingPong {
    /// Makes a game. A player works for `ticks` with each ball.
    pub fn new(players: usize, balls: u32, ticks: u64) -> Self {
        Self { words: (0..players).map(|_| OwnLine::default()).collect(), balls, work: ticks }
    }
}

const GAME_OVER: u32 = 1 << 31;

/// One player. Player 0 serves the balls, and ends the game. `operations` counts a pass of each player for each ball received.
pub fn ping_pong<F: Futex>(futex: &F, ping_pong: &PingPong, player: usize, gate: &Gate) -> Tally {
    let words = &ping_pong.words;
    let (mine, next) = (&words[player].0, &words[(player + 1) % words.len()].0);
    gate.pass_together();
    let (start, on_cpu) = (Instant::now(), clock::thread_cpu_time());
    let mut operations = 0;
    if player == 0 {
        send(futex, next, ping_pong.balls);
    }
    let mut ball = 1;
    while ball == 1 {
        ball = receive(futex, mine);
        operations += words.len() as u64;
        work_for(ping_pong.work);
        if player == 0 && gate.stopped() {
            ball = GAME_OVER;
        }
        send(futex, next, ball);
    }
    let (on_cpu, end) = (clock::thread_cpu_time() - on_cpu, Instant::now());
    Tally { operations, start, end, on_cpu, failed: 0 }
}

/// Keeps the CPU for this many ticks.
fn work_for(ticks: u64) {
    if ticks == 0 {
        return;
    }
    let begin = clock::ticks();
    while clock::ticks().wrapping_sub(begin) < ticks {
        std::hint::spin_loop();
    }
}

fn send<F: Futex>(futex: &F, word: &AtomicU32, balls: u32) {
    word.fetch_add(balls, Ordering::SeqCst); // [Lf]
    futex.wake(word);
}

/// Waits for a ball and takes it. Returns 1, or `GAME_OVER`.
fn receive<F: Futex>(futex: &F, word: &AtomicU32) -> u32 {
    loop {
        let value = word.load(Ordering::Acquire); // [Lf]
        if value >= GAME_OVER {
            return GAME_OVER;
        }
        if value != 0 {
            word.fetch_sub(1, Ordering::Relaxed);
            return 1;
        }
        assert_ne!(futex.wait(word, 0), Waited::Failed, "a wait of ping-pong");
    }
}
