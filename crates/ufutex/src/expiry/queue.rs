//! The deadlines that one owner has on one clock.

use core::cell::UnsafeCell;
use core::ptr::NonNull;

use super::line::WaitingOwners;
use super::wheel::{Next, Wheel, WheelNode};
use super::{Base, Driver, DriverInner, NEVER};
use crate::lock::Lock;
use crate::sys::counted::Counted;
use crate::sys::platform::PlatformRef;

/// An owner of queues. It is counted, so that the driver can keep it alive while it expires the owner's deadlines.
pub(crate) trait Owner: Sync {
    /// Takes a handle of the owner; `None` if it is being dropped.
    fn hold(&self) -> Option<Held>;

    /// Expires a share of the deadlines that are due on `base`, and schedules the rest. Returns the number that have
    /// passed.
    fn expire(&self, base: Base, visit: &mut Visit) -> usize;
}

/// One owner's share of a turn.
#[derive(Clone, Copy)]
pub(crate) struct Visit {
    /// The time at which the turn began.
    began: u64,
    /// The last reading of the clock.
    now: u64,
    /// The owner still has deadlines that were due when the turn began.
    owes: bool,
}

impl Visit {
    pub fn new(began: u64, now: u64) -> Self {
        Self { began, now, owes: false }
    }

    /// The time on the clock.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Whether the owner still has deadlines that were due when the turn began.
    pub fn owes(&self) -> bool {
        self.owes
    }
}

/// The number of deadlines of one owner that may pass before the turn serves the next owner in line.
const SHARE: u32 = 64;
/// Sorting one batch of deadlines is charged to the share like this many deadlines that pass.
const BATCH: u32 = 16;

/// A handle of an owner. The owner's own code takes it and gives it back.
pub(crate) struct Held {
    owner: NonNull<dyn Owner>,
    let_go: unsafe fn(NonNull<dyn Owner>),
}

impl Held {
    /// Takes one more handle of `owner`; `None` if the last one is being dropped.
    ///
    /// # Safety
    /// `owner` is the value of a [`Counted`] whose memory has not been freed: see [`Counted::upgrade`].
    pub unsafe fn of<T: Owner + 'static>(owner: &T) -> Option<Self> {
        let owner = NonNull::from(owner);
        // SAFETY: the caller guarantees it. `let_go` gives back the handle that is forgotten here.
        core::mem::forget(unsafe { Counted::upgrade(owner) }?);
        // SAFETY: `drop` calls this once.
        Some(Self { owner, let_go: |owner| drop(unsafe { Counted::adopt(owner.cast::<T>()) }) })
    }
}

impl core::ops::Deref for Held {
    type Target = dyn Owner;

    fn deref(&self) -> &Self::Target {
        // SAFETY: valid until the handle is given back.
        unsafe { self.owner.as_ref() }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: called once.
        unsafe { (self.let_go)(self.owner) };
    }
}

/// A queue's place in the driver's wheel.
#[repr(C)]
pub(super) struct Link {
    /// First field, because the driver knows only the node's address.
    node: UnsafeCell<WheelNode>,
    owner: NonNull<dyn Owner>,
    /// The owner's group.
    waiting: NonNull<UnsafeCell<WaitingOwners>>,
}

impl Link {
    pub fn node(this: NonNull<Self>) -> *mut WheelNode {
        this.as_ptr().cast()
    }

    /// The group of the link's owner.
    ///
    /// # Safety
    /// As for [`owner_of`](Self::owner_of).
    pub unsafe fn waiting_of(node: *mut WheelNode) -> *mut WaitingOwners {
        // SAFETY: the node is the link's first field. The owner keeps its group.
        unsafe { (*node.cast::<Self>()).waiting.as_ref().get() }
    }

    /// # Safety
    /// `node` belongs to a link whose memory has not been freed, and the driver's wheel is locked.
    pub unsafe fn owner_of(node: *mut WheelNode) -> Option<Held> {
        // SAFETY: the node is the link's first field. A thread that drops the owner waits for the lock before the
        // memory is freed.
        unsafe { (*node.cast::<Self>()).owner.as_ref().hold() }
    }
}

/// Whether the embedder has to be notified, once nothing is locked, that the earliest deadline may have changed.
#[derive(Clone, Copy, Default)]
#[must_use = "the embedder waits for it"]
pub(crate) struct MustNotify(bool);

impl MustNotify {
    /// Notifies the embedder, if necessary. Called with nothing locked.
    pub fn now(self, driver: &Driver) {
        if self.0 {
            driver.inner.changed();
        }
    }

    /// Whether either of the two requires a notification.
    pub fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// What happens to a queue in which nothing is armed any more.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum IfLast {
    /// It is taken out of the driver's wheel, so that the driver does not wake up for nothing.
    Unschedule,
    /// It stays in the driver's wheel, which saves two calls of the host if the owner soon arms again.
    StayScheduled,
}

/// The deadlines of one owner on one clock. It stays in place from [`settle`](Self::settle) on.
pub(crate) struct DeadlineQueue {
    base: Base,
    state: Lock<QueueState>,
    link: UnsafeCell<Option<Link>>,
}

struct QueueState {
    wheel: Wheel,
    /// The time for which the driver's wheel has this queue, or an earlier time.
    scheduled: u64,
}

// SAFETY: the link is written before the queue is shared, and belongs to the driver's lock from then on.
unsafe impl Sync for DeadlineQueue {}
// SAFETY: as for `Sync`. The nodes that the queue points to belong to their owners, which share them between threads.
unsafe impl Send for DeadlineQueue {}

impl DeadlineQueue {
    pub fn new(on: PlatformRef, base: Base) -> Self {
        let state = QueueState { wheel: Wheel::new(), scheduled: NEVER };
        Self { base, state: Lock::new(on, state), link: UnsafeCell::new(None) }
    }

    /// Sets the owner, and the group of `driver` as its group. Called before anything else.
    ///
    /// # Safety
    /// No other thread uses the queue yet. It stays in place, and the owner and `driver` are valid, until `retire`.
    pub unsafe fn settle(&self, owner: NonNull<dyn Owner>, driver: &Driver) {
        let waiting = NonNull::from(driver.group().on(self.base));
        // SAFETY: no other thread uses the queue.
        unsafe { *self.link.get() = Some(Link { node: UnsafeCell::new(WheelNode::new()), owner, waiting }) };
    }

    fn link(&self) -> Option<NonNull<Link>> {
        // SAFETY: only `settle` writes this, before other threads use the queue.
        let link = unsafe { &*self.link.get() };
        link.as_ref().map(NonNull::from)
    }

    /// Arms `node` for `deadline`, whether it is armed already or not. Calls `ready` with the node before, with the
    /// queue locked. `now` is a recent reading of the queue's clock. The clock is not read here, because it may be an
    /// embedder's and panic.
    ///
    /// # Safety
    /// `node` is valid until it has been disarmed or was due, and is in no other queue.
    pub unsafe fn arm(
        &self,
        driver: &DriverInner,
        node: *mut WheelNode,
        deadline: u64,
        now: u64,
        ready: impl FnOnce(*mut WheelNode),
    ) -> MustNotify {
        self.state.lock().with(|state| {
            // SAFETY: the caller guarantees it.
            unsafe {
                state.wheel.remove(node);
                ready(node);
            }
            let is_earlier = deadline < state.scheduled;
            let must_notify = if is_earlier { self.schedule(driver, state, deadline, now) } else { MustNotify(false) };
            // SAFETY: the caller guarantees it, and the node has been taken out.
            unsafe { state.wheel.insert(node, deadline, now) };
            must_notify
        })
    }

    /// Disarms `node`. `if_last` says what happens to the queue if no other node is armed.
    ///
    /// # Safety
    /// `node` is valid, and in this queue or in none.
    pub unsafe fn disarm(&self, driver: &DriverInner, node: *mut WheelNode, if_last: IfLast) -> MustNotify {
        self.state.lock().with(|state| {
            // SAFETY: the caller guarantees it.
            let was_armed = unsafe { state.wheel.remove(node) };
            let is_last = state.wheel.is_empty();
            if was_armed && is_last && if_last == IfLast::Unschedule {
                self.unschedule(driver, state)
            } else {
                MustNotify(false)
            }
        })
    }

    /// Runs `f` with the queue locked.
    pub fn with_locked<R>(&self, f: impl FnOnce() -> R) -> R {
        self.state.lock().with(|_| f())
    }

    /// Begins a share of the deadlines that are due. When the share is dropped, also by a panic in a callback, and
    /// deadlines are left, the queue goes behind the other owners in line.
    pub fn share<'q>(&'q self, driver: &'q DriverInner, visit: &'q mut Visit) -> Share<'q> {
        Share { queue: self, driver, visit, left: SHARE, is_all: false }
    }

    /// Takes the queue out of the driver's wheel for good.
    pub fn retire(&self, driver: &DriverInner) -> MustNotify {
        self.state.lock().with(|state| self.unschedule(driver, state))
    }

    /// Schedules the queue for `at` in the driver's wheel. `now` is a recent reading of the clock.
    fn schedule(&self, driver: &DriverInner, state: &mut QueueState, at: u64, now: u64) -> MustNotify {
        state.scheduled = at;
        // SAFETY: the link is in place, and the queue locked.
        self.link().map_or(MustNotify(false), |link| MustNotify(unsafe { driver.schedule(self.base, link, at, now) }))
    }

    /// Takes the queue out of the driver's wheel: nothing is armed any more.
    fn unschedule(&self, driver: &DriverInner, state: &mut QueueState) -> MustNotify {
        self.schedule(driver, state, NEVER, 0) // with `NEVER` the time is not used
    }

    /// Ends the turn's work on the queue, when no more deadlines are due. `now` is the turn's reading of the clock.
    fn finish(&self, driver: &DriverInner, state: &mut QueueState, now: u64) {
        state.wheel.release();
        let next = state.wheel.peek().unwrap_or(NEVER);
        // The thread that turns asks for the next deadline itself, so it need not be woken.
        let _looks_itself = self.schedule(driver, state, next, now);
    }
}

/// A share of one queue's deadlines: see [`DeadlineQueue::share`].
pub(crate) struct Share<'q> {
    queue: &'q DeadlineQueue,
    driver: &'q DriverInner,
    visit: &'q mut Visit,
    /// The number of deadlines that may still pass in this share.
    left: u32,
    /// No more deadlines are due.
    is_all: bool,
}

impl Share<'_> {
    /// Takes out one node that is due and calls `then` with it, with the queue locked. Returns `false` if no node is
    /// due, in which case the next turn has been scheduled, or if the share is used up.
    pub fn pop_due(&mut self, then: impl FnOnce(*mut WheelNode)) -> bool {
        let (queue, began) = (self.queue, self.visit.began);
        let mut then = Some(then);
        while self.left != 0 {
            let next = queue.state.lock().with(|state| {
                // The clock may have been set back after the last reading, and a deadline may have been armed after
                // that. By the old reading such a deadline would be due, although the clock has not reached it.
                if queue.base.can_be_set() {
                    self.visit.now = self.driver.now(queue.base);
                }
                let now = self.visit.now;
                if state.wheel.is_ahead_of(now) {
                    state.wheel.set_back(now);
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
            // SAFETY: the link is in place, and the queue is locked. The driver is turning, so it need not be woken.
            unsafe { driver.come_back(queue.base, link) };
        });
    }
}
