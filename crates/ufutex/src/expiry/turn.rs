//! A turn: expires all deadlines that are due, owner by owner.
//!
//! Owners with deadlines that have passed are in a line, in which groups of owners take turns (see `line`). The turn
//! takes the first owner and expires a share of its deadlines that are due. If the owner has more, it goes to the end of
//! its group. The clocks are read before each share, and clocks that can be set also before each deadline is expired. So
//! an owner whose deadline passes during the turn also joins the line, behind one owner of each other group, however
//! many owners and deadlines those have. Each clock has a line of its own, and the turn serves one share of each line in
//! rotation.
//!
//! On a clock where nothing is due the turn ends at once: it takes the lock of that clock's wheel once.
//!
//! A turn ends when all deadlines that were due at its beginning have passed. To know that, the turn asks each owner
//! after its share whether it still has such deadlines. If one says yes, the turn visits every owner that is in the
//! line at that moment, since another of them may have such deadlines too. When all of these have said no, the turn
//! ends. A deadline that is armed during the turn for a time before the turn began is held back from the turn. A
//! deadline that becomes due during the turn does not make the turn longer. So it ends, whatever is armed.

use super::queue::{Held, Link, Visit};
use super::wheel::Next;
use super::{Base, Driver, DriverInner, Earliest, NEVER};
use crate::sys::unwind::{Otherwise, call};

/// The number of owners that are put in line before another thread may take the driver's lock.
const BATCH: usize = 64;

/// Runs one turn: see the top of this file. Its drop schedules the deadlines that are left, also if a callback panics.
pub(super) struct Turn<'d> {
    driver: &'d Driver,
    rounds: [Round; 4],
}

/// The state of a turn for one clock.
#[derive(Clone, Copy, Default)]
struct Round {
    /// The turn uses this clock's wheel: at its end it schedules the wheel anew.
    is_open: bool,
    /// The clock's reading when the turn began; 0 if nothing was armed.
    began: u64,
    /// The clock has been read and `began` is that reading: it need not be read again for the first visit.
    is_fresh: bool,
    /// The value of [`Earliest::next_calls`] when the turn began.
    next_calls: u64,
    /// Some owner may still have deadlines that were due when the turn began. True at first, and after a visit to an
    /// owner that says so.
    owes: bool,
    /// At the end of this lap all owners have been visited, and it is known that none has such deadlines. `None` if that
    /// is known.
    until: Option<u64>,
    /// Owners have been taken out of the driver's wheel during the turn.
    has_served: bool,
    /// A waker or a delivery has panicked: the rest of this clock is left to the next turn.
    has_panicked: bool,
}

impl Round {
    /// Begins the turn on one clock. If nothing is due there, it also ends the turn there, and schedules the next for
    /// the earliest deadline.
    fn begin(&mut self, driver: &DriverInner, base: Base, earliest: &mut Earliest) {
        self.next_calls = earliest.next_calls;
        // The thread to which the time of this turn was announced is turning now. The time of the next turn is
        // announced at once, or at the end of this turn.
        earliest.announced = NEVER;
        if earliest.wheel.is_empty() {
            return;
        }
        self.began = driver.now(base);
        let at = earliest.wheel.peek().unwrap_or(NEVER);
        if at > self.began && !earliest.wheel.is_ahead_of(self.began) {
            // The thread that turns asks for the next deadline itself, so it need not be woken.
            let _looks_itself = driver.announce(base, earliest, at);
            return;
        }
        (self.is_open, self.is_fresh, self.owes) = (true, true, true);
    }

    fn goes_on(&self) -> bool {
        self.owes || self.until.is_some()
    }

    fn end(&mut self) {
        (self.owes, self.until, self.has_panicked) = (false, None, true);
    }
}

impl<'d> Turn<'d> {
    pub fn begin(driver: &'d Driver) -> Self {
        let mut rounds = [Round::default(); 4];
        for (&base, round) in Base::ALL.iter().zip(&mut rounds) {
            if let Some(earliest) = driver.inner.earliest(base) {
                earliest.lock().with(|earliest| round.begin(&driver.inner, base, earliest));
            }
        }
        Self { driver, rounds }
    }

    /// Runs the turn. Returns the number of deadlines that have passed.
    pub fn run(mut self) -> usize {
        self.serve()
    }

    fn serve(&mut self) -> usize {
        let mut passed = 0;
        let mut takes_time = false;
        while self.rounds.iter().any(Round::goes_on) {
            for &base in &Base::ALL {
                // Even on a clock where nothing was armed, a deadline may have become due while owners on other clocks
                // were served.
                if takes_time && !self.rounds[base as usize].has_panicked || self.rounds[base as usize].goes_on() {
                    passed += self.visit(base);
                }
            }
            takes_time = true;
        }
        passed
    }

    /// Serves one share to the first owner in line.
    fn visit(&mut self, base: Base) -> usize {
        let Some(now) = self.now(base) else { return 0 };
        self.rounds[base as usize].is_open = true;
        let Some(owner) = self.next_owner(base, now) else { return 0 };
        let round = &mut self.rounds[base as usize];
        round.has_served = true;
        let mut visit = Visit::new(round.began, now);
        // If a waker or a delivery panics, the other clocks are served nevertheless: a callback that always panics must
        // not delay their timers for ever.
        let serve_others = Otherwise::new(|| {
            call(|| {
                self.rounds[base as usize].end();
                self.serve();
            });
        });
        let passed = owner.expire(base, &mut visit);
        serve_others.disarm();
        self.rounds[base as usize].owes = visit.owes();
        passed
    }

    /// The time on the clock. `None` if nothing is armed by it, so that it need not be read.
    fn now(&mut self, base: Base) -> Option<u64> {
        let (inner, round) = (&self.driver.inner, &mut self.rounds[base as usize]);
        if core::mem::take(&mut round.is_fresh) {
            return Some(round.began);
        }
        if inner.earliest(base)?.lock().with(|earliest| earliest.wheel.is_empty()) {
            (round.owes, round.until) = (false, None);
            return None;
        }
        Some(inner.now(base))
    }

    /// The first owner in line, after all owners whose deadlines have passed by `now` have joined the line.
    fn next_owner(&mut self, base: Base, now: u64) -> Option<Held> {
        let round = &mut self.rounds[base as usize];
        let earliest = self.driver.inner.earliest(base)?;
        loop {
            let found = earliest.lock().with(|earliest| {
                if earliest.wheel.is_ahead_of(now) {
                    earliest.wheel.set_back(now);
                }
                earliest.wheel.hold_back(round.began);
                if !earliest.line_up(now) {
                    return Some(None);
                }
                if core::mem::take(&mut round.owes) {
                    round.until = Some(earliest.laps.until());
                }
                let node = earliest.pop_ready();
                round.until = round.until.filter(|lap| node.is_some() && !earliest.laps.is_over(*lap));
                let node = node?;
                // SAFETY: every node in this wheel belongs to a link, whose owner takes it out, with this lock held,
                // before freeing it.
                Some(unsafe { Link::owner_of(node) })
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
                // SAFETY: just taken out of this wheel; an owner needs the wheel's lock to free its node.
                Next::Due(node) => unsafe { self.make_ready(node) },
                Next::Working => return false,
                Next::At(_) | Next::Never => return true,
            }
        }
        false
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let inner = &self.driver.inner;
        let mut has_been_asked = false;
        for (&base, round) in Base::ALL.iter().zip(&self.rounds) {
            let Some(earliest) = inner.earliest(base).filter(|_| round.is_open) else { continue };
            earliest.lock().with(|earliest| {
                earliest.wheel.release();
                let at = earliest.wheel.peek().unwrap_or(NEVER);
                // The thread that turns asks for the next deadline itself, so it need not be woken.
                let _looks_itself = inner.announce(base, earliest, at);
                has_been_asked |= round.has_served && earliest.next_calls != round.next_calls;
            });
        }
        // A caller of `Driver::next` during the turn did not see the owners that were out of the wheel, and may be
        // asleep for too long.
        if has_been_asked {
            inner.changed();
        }
    }
}
