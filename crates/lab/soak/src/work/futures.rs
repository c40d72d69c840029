//! A small executor: futures that wait on the crowd's words, and are polled only after their wakers have been called. Some are
//! ended before they are done, and others are dropped in the middle of their wait.

use super::crowd::COUNTS;
use crate::heart::Doing;
use crate::limit::Limit;
use crate::settings::seconds;
use crate::shift::{Seat, Shift, bitset};
use crate::watched;
use crate::word::{Cell, Word, cells};
use std::future::Future;
use std::num::NonZeroU32;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;
use ufutex::{Cause, Error, Key, Wait, WaitOptions};

const LONGEST: Duration = Duration::from_secs(2);
/// How long an executor without work sleeps.
const IDLE: Duration = Duration::from_millis(1);
/// What it does by itself between two looks at the line.
const ACTS: usize = 16;
/// Words of futures that may be dropped. A dropped future does not say whether it had been woken.
const DROP_WORDS: usize = 16;

/// The futures whose wakers have been called.
#[derive(Default)]
struct Line {
    ready: Mutex<Vec<usize>>,
    bell: Condvar,
}

impl Line {
    fn lock(&self) -> MutexGuard<'_, Vec<usize>> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All that are ready; waits a little if none is.
    fn take(&self, into: &mut Vec<usize>) {
        into.clear();
        let ready = self.lock();
        let waited = self.bell.wait_timeout_while(ready, IDLE, |ready| ready.is_empty());
        std::mem::swap(&mut *waited.unwrap_or_else(PoisonError::into_inner).0, into);
    }
}

struct Bell {
    line: Arc<Line>,
    index: usize,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.line.lock().push(self.index);
        self.line.bell.notify_one();
    }
}

/// A future that waits.
struct Waiting<'a> {
    future: Pin<Box<Wait<'a, Word<'a>>>>,
    limit: Limit,
    may_be_dropped: bool,
}

struct Executor<'a> {
    shift: &'a Shift,
    seat: Seat,
    line: Arc<Line>,
    drop_words: &'a [Cell],
    wakers: Vec<Waker>,
    waiting: Vec<Option<Waiting<'a>>>,
}

/// Works until the run is stopped, and then until all that is due has ended.
pub fn run(shift: &Shift, seat: Seat) {
    let drop_words = cells(DROP_WORDS);
    let line = Arc::new(Line::default());
    let waker = |index| Arc::new(Bell { line: line.clone(), index }).into();
    let mut executor = Executor {
        shift,
        seat,
        drop_words: &drop_words,
        wakers: (0..shift.futures).map(waker).collect(),
        waiting: (0..shift.futures).map(|_| None).collect(),
        line,
    };
    for index in 0..shift.futures {
        executor.begin(index);
        executor.seat.heart.beat();
    }
    shift.world.flags.filled.fetch_add(1, Ordering::Relaxed);
    let mut ready = Vec::new();
    while shift.world.is_running() {
        executor.poll_ready(&mut ready);
        for _ in 0..ACTS {
            executor.act();
        }
    }
    executor.finish(&mut ready);
}

impl<'a> Executor<'a> {
    fn begin(&mut self, index: usize) {
        let (shift, random) = (self.shift, &mut self.seat.random);
        let may_be_dropped = random.one_in(4);
        let word =
            if may_be_dropped { self.drop_words[random.below(DROP_WORDS)].private() } else { shift.word(random) };
        let limit = if random.one_in(2) { Limit::none() } else { Limit::within(LONGEST, &shift.world, random) };
        let bits = NonZeroU32::new(bitset(random)).unwrap_or(NonZeroU32::MAX);
        let options = limit.options().bitset(bits).realtime_priority(random.of(&[0, 0, 0, 1, 50]));
        let future = Box::pin(shift.plain.wait_async(word, word.value(), &options));
        self.waiting[index] = Some(Waiting { future, limit, may_be_dropped });
        shift.world.counts.futures_begun.add(1);
        self.poll(index);
    }

    /// Polls a future. If it is done, its place is free.
    fn poll(&mut self, index: usize) {
        let Some(waiting) = &mut self.waiting[index] else { return };
        let polled = waiting.future.as_mut().poll(&mut Context::from_waker(&self.wakers[index]));
        if let Poll::Ready(ended) = polled {
            self.shift.world.counts.futures_done.add(1);
            self.note(index, ended);
        }
    }

    fn note(&mut self, index: usize, ended: Result<(), Error>) {
        let Some(waiting) = self.waiting[index].take() else { return };
        let world = &*self.shift.world;
        match ended {
            Ok(()) if waiting.may_be_dropped => world.counts.drops_received.add(1),
            Ok(()) => world.counts.received.add(1),
            Err(Error::TimedOut) => {
                world.counts.futures_timed_out.add(1);
                waiting.limit.check_passed(world, &world.findings);
            }
            Err(Error::Again) => world.counts.mismatched.add(1),
            Err(Error::Interrupted) => {}
            Err(error) => world.unexpected("a future", error),
        }
    }

    fn poll_ready(&mut self, ready: &mut Vec<usize>) {
        self.line.take(ready);
        self.seat.heart.during(Doing::Futures, 0, || ());
        for index in ready.drain(..) {
            self.poll(index);
            if self.waiting[index].is_none() {
                self.begin(index);
            }
        }
    }

    /// Does one thing: ends or drops a future, wakes, looks after one.
    fn act(&mut self) {
        let index = self.seat.random.below(self.waiting.len());
        match self.seat.random.below(8) {
            0 => self.leave(index),
            1..4 => self.wake(),
            4 => self.pass_on(),
            _ => self.look_after(index),
        }
        if self.waiting[index].is_none() {
            self.begin(index);
        }
    }

    /// Ends or drops a future, unless its timeout is due: that has to end it.
    fn leave(&mut self, index: usize) {
        let Some(mut waiting) = self.waiting[index].take_if(|waiting| !waiting.limit.is_due()) else { return };
        let counts = &self.shift.world.counts;
        if waiting.may_be_dropped {
            counts.futures_dropped.add(1);
            return;
        }
        counts.futures_ended.add(1);
        let ended = waiting.future.as_mut().end(Cause::Interrupted);
        self.waiting[index] = Some(waiting);
        self.note(index, ended);
    }

    fn wake(&mut self) {
        let (shift, random) = (self.shift, &mut self.seat.random);
        if random.one_in(4) {
            let word = self.drop_words[random.below(DROP_WORDS)].private();
            let woken =
                self.seat.heart.during(Doing::Wake, word.address(), || shift.plain.wake(word, random.of(&COUNTS)));
            shift.world.counts.drops_woken.add(woken);
        } else {
            let (word, count, bits) = (shift.word(random), random.of(&COUNTS), bitset(random));
            shift.wake(&self.seat.heart, word, count, bits);
        }
    }

    /// A wake takes the first of two futures, which is dropped before it is polled: the second one has to get the wake.
    fn pass_on(&mut self) {
        let (shift, cell) = (self.shift, Cell::default());
        let (word, counts) = (cell.private(), &shift.world.counts);
        let mut context = Context::from_waker(Waker::noop());
        let mut wait = || {
            let mut future = Box::pin(shift.plain.wait_async(word, 0, &WaitOptions::new()));
            let polled = future.as_mut().poll(&mut context);
            polled.is_pending().then_some(future)
        };
        let (Some(first), Some(mut second)) = (wait(), wait()) else {
            shift.world.findings.add("a future waits while its word is as expected", "pending", "ready");
            return;
        };
        counts.passes_made.add(1);
        counts.passes_woken.add(shift.plain.wake(word, 1));
        drop(first);
        let polled = second.as_mut().poll(&mut context);
        counts.passes_received.add(usize::from(polled == Poll::Ready(Ok(()))));
    }

    fn look_after(&mut self, index: usize) {
        let world = &self.shift.world;
        if self.waiting[index].as_mut().is_some_and(|waiting| waiting.limit.is_overdue(world)) {
            self.lost(index);
        }
    }

    /// Notes that a timeout has not ended a wait, and gives the future up.
    fn lost(&mut self, index: usize) {
        let Some(waiting) = self.waiting[index].take() else { return };
        let world = &self.shift.world;
        world.findings.add(
            format_args!("{}: a future's timeout ends its wait", world.name),
            format_args!("within {}", seconds(world.flags.patience)),
            waiting.limit.lateness(world),
        );
    }

    /// Waits until all timeouts that are due have ended their waits, and ends the other waits.
    fn finish(&mut self, ready: &mut Vec<usize>) {
        let end = watched::now() + self.shift.world.flags.patience;
        let is_due = |waiting: &Option<Waiting<'_>>| waiting.as_ref().is_some_and(|waiting| waiting.limit.is_due());
        while self.waiting.iter().any(is_due) && watched::now() < end {
            self.line.take(ready);
            self.seat.heart.beat();
            ready.drain(..).for_each(|index| self.poll(index));
        }
        let is_out_of_patience = watched::now() >= end;
        for index in 0..self.waiting.len() {
            let is_known = |waiting: &Waiting<'_>| waiting.limit.is_known(&self.shift.world);
            let is_lost = is_due(&self.waiting[index]) && self.waiting[index].as_ref().is_some_and(is_known);
            if is_out_of_patience && is_lost {
                self.lost(index);
            }
            self.shift.world.counts.futures_ended.add(usize::from(self.waiting[index].is_some()));
            if let Some(waiting) = &mut self.waiting[index] {
                let ended = waiting.future.as_mut().end(Cause::Interrupted);
                self.note(index, ended);
            }
        }
    }
}
