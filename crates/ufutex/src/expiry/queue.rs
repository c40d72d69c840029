//! The deadlines that one owner has on one clock.

use core::cell::UnsafeCell;
use core::ptr::NonNull;

use super::wheel::{Next, Node, Wheel};
use super::{Base, Driver, Inner, NEVER};
use crate::sync::{Mutant, mutant};
use crate::sys::counted::Counted;
use crate::table::lock::Lock;

/// An owner of queues. It is counted, so that the driver can keep it alive while it expires its deadlines.
pub(crate) trait Owner: Sync {
    /// Keeps the owner; `None` when it is being dropped.
    fn hold(&self) -> Option<Held>;

    /// Expires a share of what is due on `base`, and schedules the rest. Returns how many deadlines have passed.
    fn expire(&self, base: Base, visit: &mut Visit) -> usize;
}

/// One owner's share of a turn.
#[derive(Clone, Copy)]
pub(crate) struct Visit {
    /// When the turn began.
    began: u64,
    /// What the clock shows.
    now: u64,
    /// The owner still has deadlines that were due when the turn began.
    owes: bool,
}

impl Visit {
    pub fn new(began: u64, now: u64) -> Self {
        Self { began, now, owes: false }
    }

    /// What the clock shows.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Whether the owner still has deadlines that were due when the turn began.
    pub fn owes(&self) -> bool {
        self.owes
    }
}

/// How many deadlines of one owner may pass before the turn serves the next owner.
const SHARE: u32 = 64;
/// Sorting one batch of deadlines is charged to the share like this many deadlines that pass.
const BATCH: u32 = 16;

/// An owner that is kept: a handle of it, made and dropped by its own code.
pub(crate) struct Held {
    owner: NonNull<dyn Owner>,
    let_go: unsafe fn(NonNull<dyn Owner>),
}

impl Held {
    /// One more handle of `owner`; `None` when the last one is being dropped.
    ///
    /// # Safety
    /// `owner` is what a [`Counted`] holds, whose memory is there: see [`Counted::upgrade`].
    pub unsafe fn of<T: Owner + 'static>(owner: &T) -> Option<Self> {
        let owner = NonNull::from(owner);
        // SAFETY: the caller guarantees it. The handle that is forgotten is the one that is let go.
        core::mem::forget(unsafe { Counted::upgrade(owner) }?);
        // SAFETY: once, says `drop`.
        Some(Self { owner, let_go: |owner| unsafe { Counted::let_go(owner.cast::<T>()) } })
    }
}

impl core::ops::Deref for Held {
    type Target = dyn Owner;

    fn deref(&self) -> &Self::Target {
        // SAFETY: valid until it is let go.
        unsafe { self.owner.as_ref() }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: once.
        unsafe { (self.let_go)(self.owner) };
    }
}

/// A queue's place in the driver's wheel.
#[repr(C)]
pub(super) struct Link {
    /// First: the driver has its address alone.
    node: UnsafeCell<Node>,
    owner: NonNull<dyn Owner>,
}

impl Link {
    pub fn node(this: NonNull<Self>) -> *mut Node {
        this.as_ptr().cast()
    }

    /// # Safety
    /// `node` is a link's, whose memory is there, and the driver's wheel is locked.
    pub unsafe fn owner_of(node: *mut Node) -> Option<Held> {
        // SAFETY: the node comes first in its link. Who drops the owner waits for the lock before the memory goes.
        unsafe { (*node.cast::<Self>()).owner.as_ref().hold() }
    }
}

/// The embedder is to be told that the earliest deadline may have changed, once nothing is locked.
#[derive(Clone, Copy, Default)]
#[must_use = "the embedder waits for it"]
pub(crate) struct Tell(bool);

impl Tell {
    /// Tells, if need be. With nothing locked.
    pub fn now(self, driver: &Driver) {
        if self.0 {
            driver.inner.changed();
        }
    }

    /// Both.
    pub fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// See the top of this file. It stays where it is from [`settle`](Self::settle) on.
pub(crate) struct Queue {
    base: Base,
    state: Lock<State>,
    link: UnsafeCell<Option<Link>>,
}

struct State {
    wheel: Wheel,
    /// What the driver has this queue at, or less.
    scheduled: u64,
}

// SAFETY: the link is written before the queue is shared, and belongs to the driver's lock then.
unsafe impl Sync for Queue {}
// SAFETY: as above; and the nodes that it points to are their owners', who share them.
unsafe impl Send for Queue {}

impl Queue {
    pub fn new(base: Base) -> Self {
        let state = State { wheel: Wheel::new(), scheduled: NEVER };
        Self { base, state: Lock::new(state), link: UnsafeCell::new(None) }
    }

    /// Names the owner, before anything else.
    ///
    /// # Safety
    /// Nobody else uses the queue yet. It stays where it is, and the owner is valid, until `retire`.
    pub unsafe fn settle(&self, owner: NonNull<dyn Owner>) {
        // SAFETY: nobody else uses it.
        unsafe { *self.link.get() = Some(Link { node: UnsafeCell::new(Node::new()), owner }) };
    }

    fn link(&self) -> Option<NonNull<Link>> {
        // SAFETY: written by `settle` alone, before there are others.
        let link = unsafe { &*self.link.get() };
        link.as_ref().map(NonNull::from)
    }

    /// Arms `node` for `deadline`; it may be armed already. `ready` is applied to it first, with the queue locked.
    /// `now` is a recent reading of the queue's clock: the clock itself may be an embedder's and panic, so it is not
    /// read here.
    ///
    /// # Safety
    /// `node` is valid until it has been disarmed or was due, and is in no other queue.
    pub unsafe fn arm(
        &self,
        driver: &Inner,
        node: *mut Node,
        deadline: u64,
        now: u64,
        ready: impl FnOnce(*mut Node),
    ) -> Tell {
        self.state.lock().with(|state| {
            // SAFETY: the caller guarantees it.
            unsafe {
                state.wheel.remove(node);
                ready(node);
            }
            let is_earlier = deadline < state.scheduled;
            let tell = if is_earlier { self.schedule(driver, state, deadline, now) } else { Tell(false) };
            // SAFETY: the caller guarantees it; and it has been taken out.
            unsafe { state.wheel.insert(node, deadline, now) };
            tell
        })
    }

    /// Disarms `node`, and does not have the driver wake up for nothing: unless it is to be `lazy`, which spares an
    /// owner that soon arms again two calls of the host.
    ///
    /// # Safety
    /// `node` is valid, and in this queue or in none.
    pub unsafe fn disarm(&self, driver: &Inner, node: *mut Node, lazy: bool) -> Tell {
        self.state.lock().with(|state| {
            // SAFETY: the caller guarantees it.
            let was_armed = unsafe { state.wheel.remove(node) };
            let is_last = state.wheel.is_empty() || mutant(Mutant::DisarmSilencesOthers);
            if was_armed && !lazy && is_last { self.unschedule(driver, state) } else { Tell(false) }
        })
    }

    /// Does something to what belongs to the lock.
    pub fn with_locked<R>(&self, f: impl FnOnce() -> R) -> R {
        self.state.lock().with(|_| f())
    }

    /// A share of what is due by now. When the share is dropped, also by a panic in a callback, what is left is queued
    /// behind the other owners that have deadlines due.
    pub fn share<'q>(&'q self, driver: &'q Inner, visit: &'q mut Visit) -> Share<'q> {
        Share { queue: self, driver, visit, left: SHARE, is_all: false }
    }

    /// Takes the queue out of the driver's wheel, for good.
    pub fn retire(&self, driver: &Inner) -> Tell {
        self.state.lock().with(|state| self.unschedule(driver, state))
    }

    /// Schedules the queue for `at` in the driver's wheel. `now` is a recent reading of the clock.
    fn schedule(&self, driver: &Inner, state: &mut State, at: u64, now: u64) -> Tell {
        state.scheduled = at;
        // SAFETY: the link is in place, and the queue locked.
        self.link().map_or(Tell(false), |link| Tell(unsafe { driver.schedule(self.base, link, at, now) }))
    }

    /// Takes the queue out of the driver's wheel: nothing is armed any more.
    fn unschedule(&self, driver: &Inner, state: &mut State) -> Tell {
        self.schedule(driver, state, NEVER, 0) // NEVER needs no time
    }

    /// Ends the turn's work on the queue: nothing is left that is due. `now` is the turn's reading of the clock.
    fn finish(&self, driver: &Inner, state: &mut State, now: u64) {
        state.wheel.release();
        let next = state.wheel.peek().unwrap_or(NEVER);
        // The thread is in a turn, and looks for the next deadline itself: it need not be woken.
        let _looks_itself = self.schedule(driver, state, next, now);
    }
}

/// See [`Queue::share`].
pub(crate) struct Share<'q> {
    queue: &'q Queue,
    driver: &'q Inner,
    visit: &'q mut Visit,
    /// How many more deadlines may pass in this share.
    left: u32,
    /// Nothing is left that is due.
    is_all: bool,
}

impl Share<'_> {
    /// Takes one node that is due and gives it to `then`, with the queue locked. `false` if no node is due, in which
    /// case the next turn has been scheduled, or if the share is used up.
    pub fn pop_due(&mut self, then: impl FnOnce(*mut Node)) -> bool {
        let (queue, Visit { began, now, .. }) = (self.queue, *self.visit);
        let mut then = Some(then);
        while self.left != 0 {
            let next = queue.state.lock().with(|state| {
                if state.wheel.is_ahead_of(now) {
                    state.wheel.turn_back(now);
                }
                state.wheel.hold_back(began);
                let next = state.wheel.next(now);
                match next {
                    Next::Due(node) => {
                        if let Some(then) = then.take() {
                            then(node);
                        }
                    }
                    Next::Working => {}
                    Next::At(_) if mutant(Mutant::TurnForgetsRest) => {}
                    Next::At(_) | Next::Never => queue.finish(self.driver, state, now),
                }
                next
            });
            match next {
                Next::Due(_) => {
                    self.left -= 1;
                    return true;
                }
                Next::Working => self.left = self.left.saturating_sub(BATCH),
                Next::At(_) | Next::Never => {
                    self.is_all = true;
                    return false;
                }
            }
        }
        false
    }
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        let Self { queue, driver, is_all, .. } = *self;
        let Some(link) = queue.link().filter(|_| !is_all) else { return };
        queue.state.lock().with(|state| {
            let next = state.wheel.peek_in_turn().unwrap_or(NEVER);
            if next > self.visit.now {
                return queue.finish(driver, state, self.visit.now);
            }
            self.visit.owes = next <= self.visit.began;
            state.scheduled = next;
            // SAFETY: the link is in place, and the queue locked. The driver is turning, and looks itself.
            unsafe { driver.come_back(queue.base, link) };
        });
    }
}
