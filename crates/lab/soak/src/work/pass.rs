//! Two threads that pass a ball, each time by another operation. No other thread waits or wakes at their words, and no wait has
//! a timeout: a wake that is lost stops both.

use crate::heart::{Doing, Heart};
use crate::random::mixed;
use crate::shift::{COURT, Seat, Shift};
use crate::word::Word;
use std::future::Future;
use std::num::NonZeroU32;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake};
use std::thread::Thread;
use ufutex::{Compare, Error, Key, Modify, Requeue, WaitOptions, Waiter, WakeOp};

/// Words by which the ball is thrown. By the last one of the court it comes back.
const SERVES: usize = COURT - 1;
/// Thrown in place of a ball when the run is over.
const END: u32 = u32::MAX;
/// Index of the pairs' first word in the shared object. The crowd's words (`OBJECT_WORDS` in `world.rs`) end before it.
const OF_THE_CROWD: usize = 1024;

/// By which operations a ball is passed.
#[derive(Clone, Copy)]
enum Way {
    Wait,
    Bitset,
    Any,
    Future,
    Prepare,
    Interruptible,
    Requeue,
    WakeOp,
}

const WAYS: [Way; 8] =
    [Way::Wait, Way::Bitset, Way::Any, Way::Future, Way::Prepare, Way::Interruptible, Way::Requeue, Way::WakeOp];

/// How ball `round` is passed. Both threads know.
struct Throw<'a> {
    way: Way,
    /// The words; `serves[at]` is the one that changes.
    serves: [Word<'a>; SERVES],
    at: usize,
    bit: NonZeroU32,
}

impl<'a> Throw<'a> {
    fn new(shift: &'a Shift, round: u32) -> Self {
        let dice = mixed(u64::from(round) << 32 | shift.number as u64);
        let way = WAYS[dice as usize % WAYS.len()];
        let at = (dice >> 8) as usize % SERVES;
        let bit = NonZeroU32::new(1 << ((dice >> 16) % 32)).unwrap_or(NonZeroU32::MIN);
        Self { way, serves: std::array::from_fn(|index| word(shift, index, dice >> 24)), at, bit }
    }

    fn word(&self) -> Word<'a> {
        self.serves[self.at]
    }

    /// The word that a requeue moves the catcher to.
    fn aside(&self) -> Word<'a> {
        self.serves[(self.at + 1) % SERVES]
    }

    fn holds(&self, value: u32) -> bool {
        self.word().value() == value
    }
}

/// A word of the court, whose kind and node differ from ball to ball.
fn word(shift: &Shift, index: usize, dice: u64) -> Word<'_> {
    let cell = &shift.court[index];
    match dice % 4 {
        0 => cell.in_object(&shift.world.object.0, OF_THE_CROWD + COURT * shift.number + index),
        1 => cell.on((dice >> 8) as u32 % shift.world.system.nodes() as u32),
        _ => cell.private(),
    }
}

/// Throws balls until the run is stopped.
pub fn throw(shift: &Shift, seat: Seat) {
    let (counts, back) = (&shift.world.counts, shift.court[SERVES].private());
    let mut round = 0;
    loop {
        round = (round + 1) % END;
        let throw = Throw::new(shift, round);
        // The catcher knows the ball by its number, and the end by `END`.
        let ball = if shift.world.is_running() { round } else { END };
        let woken = seat.heart.during(Doing::Wake, throw.word().address(), || send(shift, &throw, ball));
        counts.balls_woken.add(woken);
        if ball == END {
            return;
        }
        counts.balls_thrown.add(1);
        shift.thrown.fetch_add(1, Ordering::Relaxed);
        while back.value() != round {
            let seen = back.value();
            if seen != round {
                let ended = seat.heart.during(Doing::Wait, back.address(), || shift.plain.wait(back, seen).map(|()| 0));
                note(shift, ended);
            }
        }
    }
}

/// Throws `ball`. Returns how many waiters have been woken.
fn send(shift: &Shift, throw: &Throw<'_>, ball: u32) -> usize {
    let (domain, word) = (&shift.plain, throw.word());
    match throw.way {
        Way::Requeue => {
            let most = Requeue { wake: 0, requeue: 1 };
            match domain.requeue(word, throw.aside(), most) {
                Ok(moved) => {
                    shift.world.counts.requeued.add(moved.requeued);
                    word.store(ball);
                    // The catcher waits at one of the two words, or will not wait.
                    let aside = domain.wake(throw.aside(), 1);
                    if (moved.woken, moved.requeued) != (0, aside) {
                        let found = format!("{} woken, {} moved, {aside} woken there", moved.woken, moved.requeued);
                        shift.world.findings.add("a requeue says how many waiters it has moved", "as many", found);
                    }
                    aside + domain.wake(word, 1)
                }
                Err(error) => {
                    shift.world.unexpected("a requeue", error);
                    word.store(ball);
                    domain.wake(word, 1)
                }
            }
        }
        Way::WakeOp => {
            word.store(ball);
            let op = WakeOp { modify: Modify::Or(0), compare: Compare::Ne(0) };
            domain.wake_op(word, 1, throw.aside(), op, 0).unwrap_or_else(|error| {
                shift.world.unexpected("a wake_op", error);
                0
            })
        }
        Way::Interruptible => {
            word.store(ball);
            shift.catcher.raise();
            0
        }
        Way::Bitset => {
            word.store(ball);
            let other = NonZeroU32::new(!throw.bit.get()).unwrap_or(throw.bit);
            domain.wake_bitset(word, 1, other) + domain.wake_bitset(word, 1, throw.bit)
        }
        _ => {
            word.store(ball);
            domain.wake(word, 1)
        }
    }
}

/// Catches balls until the end is thrown.
pub fn catch(shift: &Shift, seat: Seat) {
    let (counts, back) = (&shift.world.counts, shift.court[SERVES].private());
    let (mut round, mut caught, mut after_requeue) = (0, 0, false);
    loop {
        round = (round + 1) % END;
        let throw = Throw::new(shift, round);
        if after_requeue || matches!(throw.way, Way::Any | Way::Interruptible) {
            // The throw of the last ball may not have returned. Its wakes are compared with what its requeue has moved, so
            // they must not meet this wait. A wait for several words would be counted by such a wake and by the next, and
            // would return once. A late interrupt would end a wait.
            while shift.thrown.load(Ordering::Relaxed) < caught {
                std::thread::yield_now();
            }
            shift.catcher.clear();
        }
        after_requeue = matches!(throw.way, Way::Requeue);
        while !throw.holds(round) && !throw.holds(END) {
            let ended = receive(shift, &throw, round, &seat.heart);
            if let Ok(index) = ended
                && index != throw.at
            {
                shift.world.findings.add("a wait for several words names the one that was woken", throw.at, index);
            }
            note(shift, ended);
        }
        if throw.holds(END) {
            return;
        }
        counts.balls_caught.add(1);
        caught += 1;
        back.store(round);
        counts.balls_woken.add(shift.plain.wake(back, 1));
        seat.heart.beat();
    }
}

/// Waits once. Returns the index of the word that was woken.
fn receive(shift: &Shift, throw: &Throw<'_>, round: u32, heart: &Heart) -> Result<usize, Error> {
    let (domain, word, options) = (&shift.plain, throw.word(), WaitOptions::new());
    let seen = word.value();
    if seen == round || seen == END {
        return Err(Error::Again);
    }
    let at = |ended: Result<(), Error>| ended.map(|()| throw.at);
    match throw.way {
        Way::Any => heart.during(Doing::WaitAny, word.address(), || {
            let words = throw.serves.map(|other| (other, other.value()));
            // Read before it is compared once more: it may be the ball.
            if [round, END].contains(&words[throw.at].1) {
                Err(Error::Again)
            } else {
                domain.wait_any(&words, &options)
            }
        }),
        Way::Future => {
            heart.during(Doing::Future, word.address(), || at(block_on(domain.wait_async(word, seen, &options))))
        }
        Way::Prepare => heart.during(Doing::Wait, word.address(), || {
            let mut waiter = pin!(Waiter::new());
            at(domain.prepare(waiter.as_mut(), word, seen, &options).and_then(|queued| queued.finish()))
        }),
        Way::Interruptible => heart.during(Doing::Wait, word.address(), || {
            at(domain.wait_interruptible(word, seen, &options, &shift.catcher))
        }),
        Way::Bitset => {
            heart.during(Doing::Wait, word.address(), || at(domain.wait_with(word, seen, &options.bitset(throw.bit))))
        }
        Way::Wait | Way::Requeue | Way::WakeOp => {
            heart.during(Doing::Wait, word.address(), || at(domain.wait(word, seen)))
        }
    }
}

fn note(shift: &Shift, ended: Result<usize, Error>) {
    match ended {
        Ok(_) => shift.world.counts.balls_received.add(1),
        // It is interrupted in place of being woken.
        Err(Error::Again | Error::Interrupted) => {}
        Err(error) => shift.world.unexpected("a wait for a ball", error),
    }
}

struct Bell {
    rung: AtomicBool,
    thread: Thread,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.rung.store(true, Ordering::Release); // [Lc]
        self.thread.unpark();
    }
}

/// Polls the future when its waker has been called, and never else.
fn block_on<F: Future>(future: F) -> F::Output {
    let bell = Arc::new(Bell { rung: AtomicBool::new(false), thread: std::thread::current() });
    let (waker, mut future) = (bell.clone().into(), pin!(future));
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        while !bell.rung.swap(false, Ordering::Acquire) {
            // [Lc]
            std::thread::park();
        }
    }
}
