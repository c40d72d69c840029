//! A turn: expires all deadlines that are due, owner by owner.
//!
//! Owners with deadlines that have passed are in a line for each clock, in which groups of owners take turns (see `line`). A
//! turn serves the lines in rotation: it takes the first owner and expires a share of its deadlines that are due. If the owner
//! has more, it goes to the end of its group. Clocks are read before each share, those that can be set before each deadline.
//!
//! A turn ends when all deadlines that were due at its beginning have passed. If an owner has such deadlines after its share,
//! the turn visits every owner that is in the line at that moment, since others may have some too, and ends when none of these
//! has. Deadlines that become due later do not make it longer, and those armed for a time before it began are held back.

use super::queue::{Link, Owner, Share};
use super::wheel::Next;
use super::{Base, DriverInner, Earliest, NEVER};
use crate::lock::Lock;
use crate::sys::counted::Counted;
use crate::sys::unwind::{Otherwise, call};

/// Owners that are put in line before another thread may take the driver's lock.
const BATCH: usize = 64;

/// Its drop schedules the deadlines that are left, also if a callback panics.
pub(super) struct Turn<'d> {
    driver: &'d DriverInner,
    rounds: [Round; 4],
}

#[derive(Clone, Copy, Default)]
struct Round {
    /// The turn uses this clock's wheel, and schedules it anew at its end.
    is_open: bool,
    /// The clock's reading when the turn began; 0 if nothing was armed.
    began: u64,
    /// `began` was just read: the clock need not be read for the first visit.
    is_fresh: bool,
    /// [`Earliest::next_calls`] when the turn began.
    next_calls: u64,
    /// Some owner may still have deadlines that were due when the turn began.
    owes: bool,
    /// At the end of this lap no owner has such deadlines. `None` if none has.
    until: Option<u64>,
    /// Owners have been taken out of the driver's wheel during the turn.
    has_served: bool,
    /// A waker or a delivery has panicked: the rest of this clock is left to the next turn.
    has_panicked: bool,
}

impl<'d> Turn<'d> {
    pub fn begin(driver: &'d DriverInner) -> Self {
        let rounds = Base::ALL.map(|base| match driver.earliest(base) {
            Some(earliest) => earliest.lock().with(|earliest| Round::begin(driver, base, earliest)),
            None => Round::default(),
        });
        Self { driver, rounds }
    }

    pub fn serve(&mut self) -> usize {
        let mut passed = 0;
        let mut takes_time = false;
        while self.rounds.iter().any(Round::goes_on) {
            for base in Base::ALL {
                let round = &self.rounds[base as usize];
                // A deadline may have become due while owners on other clocks were served.
                if takes_time && !round.has_panicked || round.goes_on() {
                    passed += self.visit(base);
                }
            }
            takes_time = true;
        }
        passed
    }

    /// Serves one share to the first owner in line. Returns how many deadlines passed.
    fn visit(&mut self, base: Base) -> usize {
        let (driver, round) = (self.driver, &mut self.rounds[base as usize]);
        let Some(earliest) = driver.earliest(base) else { return 0 };
        let now = if core::mem::take(&mut round.is_fresh) {
            round.began
        } else if earliest.lock().with(|earliest| earliest.is_empty()) {
            (round.owes, round.until) = (false, None);
            return 0;
        } else {
            driver.now(base)
        };
        round.is_open = true;
        let Some(owner) = round.next_owner(earliest, now) else { return 0 };
        round.has_served = true;
        let (began, mut owes) = (round.began, false);
        // A callback that always panics must not delay other clocks for ever.
        let serve_others = Otherwise::new(|| {
            call(|| {
                let round = &mut self.rounds[base as usize];
                (round.owes, round.until, round.has_panicked) = (false, None, true);
                self.serve();
            });
        });
        let mut share = Share::new(owner.queue(base), driver, began, now, &mut owes);
        owner.expire(&mut share);
        let passed = share.passed;
        drop(share);
        serve_others.disarm();
        self.rounds[base as usize].owes = owes;
        passed
    }
}

impl Round {
    /// Begins the turn on one clock, and ends it if nothing is due there.
    fn begin(driver: &DriverInner, base: Base, earliest: &mut Earliest) -> Self {
        let mut round = Self { next_calls: earliest.next_calls, ..Self::default() };
        // The thread that was told the time of this turn is turning now.
        earliest.announced = NEVER;
        if earliest.is_empty() {
            return round;
        }
        round.began = driver.now(base);
        let at = earliest.peek().unwrap_or(NEVER);
        if at > round.began && !earliest.wheel.is_ahead_of(round.began) {
            // The thread that turns asks for the next deadline itself.
            let _looks_itself = driver.announce(base, earliest, at);
            return round;
        }
        (round.is_open, round.is_fresh, round.owes) = (true, true, true);
        round
    }

    fn goes_on(&self) -> bool {
        self.owes || self.until.is_some()
    }

    /// The first owner in line, once all owners whose deadlines have passed by `now` have joined the line.
    fn next_owner(&mut self, earliest: &Lock<Earliest>, now: u64) -> Option<Counted<dyn Owner>> {
        loop {
            let found = earliest.lock().with(|earliest| {
                earliest.wheel.set_back(now);
                earliest.wheel.hold_back(self.began);
                if !earliest.line_up(now) {
                    return Some(None);
                }
                if core::mem::take(&mut self.owes) {
                    self.until = Some(earliest.lap + 1);
                }
                let node = earliest.pop_ready();
                let (lap, goes_on) = (earliest.lap, earliest.old != 0);
                self.until = self.until.filter(|&last| node.is_some() && (lap < last || lap == last && goes_on));
                // SAFETY: a node in this wheel belongs to a link, whose owner takes it out under this lock before freeing it.
                node.map(|node| unsafe { Counted::upgrade(Link::of(node).owner) })
            })?;
            if found.is_some() {
                return found; // otherwise the owner is being dropped, or `line_up` has more to do
            }
        }
    }
}

impl Earliest {
    /// Moves owners whose deadlines have passed to the line. `false` if there may be more of them.
    fn line_up(&mut self, now: u64) -> bool {
        for _ in 0..BATCH {
            match self.wheel.next(now) {
                // SAFETY: just taken out; an owner needs this lock to free its node.
                Next::Due(node) => unsafe { self.make_ready(node) },
                Next::Working => return false,
                Next::Later => return true,
            }
        }
        false
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut has_been_asked = false;
        for (base, round) in Base::ALL.into_iter().zip(&self.rounds) {
            let Some(earliest) = self.driver.earliest(base).filter(|_| round.is_open) else { continue };
            earliest.lock().with(|earliest| {
                earliest.wheel.release();
                let at = earliest.peek().unwrap_or(NEVER);
                let _looks_itself = self.driver.announce(base, earliest, at);
                has_been_asked |= round.has_served && earliest.next_calls != round.next_calls;
            });
        }
        // A caller of `Driver::next` during the turn missed the owners that were out of the wheel.
        if has_been_asked {
            self.driver.changed();
        }
    }
}
