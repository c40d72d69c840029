//! The deadlines that one owner has on one clock.

use core::cell::{OnceCell, UnsafeCell};
use core::ptr::NonNull;

use super::line::ReadyGroup;
use super::wheel::{Next, Wheel, WheelNode};
use super::{Base, Driver, DriverInner, NEVER};
use crate::lock::Lock;
use crate::sys::counted;
use crate::sys::platform::PlatformRef;

/// An owner of queues. Counted, so that the driver can keep it while it expires the owner's deadlines.
pub(crate) trait Owner: Sync {
    fn queue(&self, base: Base) -> &DeadlineQueue;

    fn expire(&self, share: &mut Share<'_>);
}

/// The deadlines of one owner that may pass before the turn serves the next owner in line.
const SHARE: u32 = 64;
/// Sorting a batch is charged to the share like this many deadlines.
const BATCH: u32 = 16;

#[repr(C)]
pub(super) struct Link {
    /// First field: the driver knows only the node's address.
    node: UnsafeCell<WheelNode>,
    pub owner: NonNull<counted::Inner<dyn Owner>>,
    /// On the queue's clock.
    pub group: NonNull<UnsafeCell<ReadyGroup>>,
}

impl Link {
    pub fn node(&self) -> *mut WheelNode {
        core::ptr::from_ref(self).cast_mut().cast()
    }

    /// # Safety
    /// `node` belongs to a link whose memory is not freed while the reference exists.
    pub unsafe fn of<'l>(node: *mut WheelNode) -> &'l Self {
        // SAFETY: the node is the link's first field.
        unsafe { &*node.cast() }
    }
}

/// Whether the embedder has to be notified, with nothing locked, that the earliest deadline may have changed.
#[derive(Clone, Copy, Default)]
#[must_use = "the embedder waits for it"]
pub(crate) struct MustNotify(bool);

impl MustNotify {
    pub fn now(self, driver: &Driver) {
        if self.0 {
            driver.inner.changed();
        }
    }

    pub fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// See the head of this file. It stays in place from [`settle`](Self::settle) on.
pub(crate) struct DeadlineQueue {
    base: Base,
    state: Lock<QueueState>,
    /// Written by `settle`. Its node belongs to the driver's lock.
    link: OnceCell<Link>,
}

struct QueueState {
    wheel: Wheel,
    /// The time for which the driver's wheel has this queue, or an earlier time.
    scheduled: u64,
}

// SAFETY: the link is written before the queue is shared.
unsafe impl Sync for DeadlineQueue {}
// SAFETY: as for `Sync`. The nodes that the queue points to belong to their owners, which share them between threads.
unsafe impl Send for DeadlineQueue {}

impl DeadlineQueue {
    pub fn new(on: PlatformRef, base: Base) -> Self {
        let state = QueueState { wheel: Wheel::new(), scheduled: NEVER };
        Self { base, state: Lock::new(on, state), link: OnceCell::new() }
    }

    /// Sets the owner, and as its group that of `driver`. Called once, before anything else.
    ///
    /// # Safety
    /// No other thread uses the queue yet. It stays in place, and the owner and `driver` are valid, until `retire`.
    pub unsafe fn settle(&self, owner: NonNull<counted::Inner<dyn Owner>>, driver: &Driver) {
        let group = driver.group.as_deref().unwrap_or(&driver.inner.group).on(self.base);
        self.link.get_or_init(|| Link { node: UnsafeCell::new(WheelNode::new()), owner, group: group.into() });
    }

    /// Arms `node` for `deadline`, armed already or not. `now` is a recent reading: an embedder's clock might panic in here.
    ///
    /// # Safety
    /// `node` is valid until it has been disarmed or was due, and is in no other queue.
    pub unsafe fn arm(
        &self,
        driver: &DriverInner,
        node: *mut WheelNode,
        deadline: u64,
        now: u64,
        tag: u32,
    ) -> MustNotify {
        self.state.lock().with(|state| {
            // SAFETY: the caller guarantees it.
            unsafe {
                state.wheel.remove(node);
                (*node).tag = tag;
            }
            let is_earlier = deadline < state.scheduled;
            let must_notify = if is_earlier { self.schedule(driver, state, deadline, now) } else { MustNotify(false) };
            // SAFETY: the caller guarantees it, and the node has been taken out.
            unsafe { state.wheel.insert(node, deadline, now) };
            must_notify
        })
    }

    /// Disarms `node`. With its last node the queue leaves the driver's wheel, so that the driver does not wake up for nothing.
    ///
    /// # Safety
    /// `node` is valid, and in this queue or in none.
    pub unsafe fn disarm(&self, driver: &DriverInner, node: *mut WheelNode) -> MustNotify {
        self.state.lock().with(|state| {
            // SAFETY: the caller guarantees it.
            let was_armed = unsafe { state.wheel.remove(node) };
            let is_last = state.wheel.is_empty();
            if was_armed && is_last { self.schedule(driver, state, NEVER, 0) } else { MustNotify(false) }
        })
    }

    /// As [`disarm`](Self::disarm), but leaves the queue in the driver's wheel: saves system calls if it is soon armed again.
    ///
    /// # Safety
    /// As for [`disarm`](Self::disarm).
    pub unsafe fn disarm_scheduled(&self, node: *mut WheelNode) {
        // SAFETY: the caller guarantees it.
        self.state.lock().with(|state| unsafe { state.wheel.remove(node) });
    }

    pub fn with_locked<R>(&self, f: impl FnOnce() -> R) -> R {
        self.state.lock().with(|_| f())
    }

    /// Takes the queue out of the driver's wheel for good. Nobody is notified: no deadline becomes earlier.
    pub fn retire(&self, driver: &DriverInner) {
        let _later = self.state.lock().with(|state| self.schedule(driver, state, NEVER, 0));
    }

    /// Schedules the queue for `at` in the driver's wheel; `NEVER` takes it out.
    fn schedule(&self, driver: &DriverInner, state: &mut QueueState, at: u64, now: u64) -> MustNotify {
        state.scheduled = at;
        // SAFETY: the link is in place, and the queue locked.
        MustNotify(self.link.get().is_some_and(|link| unsafe { driver.schedule(self.base, link, at, now) }))
    }

    /// Ends the turn's work on the queue, when no more deadlines are due.
    fn finish(&self, driver: &DriverInner, state: &mut QueueState, now: u64) {
        state.wheel.release();
        let next = state.wheel.peek().unwrap_or(NEVER);
        // The thread that turns asks for the next deadline itself.
        let _looks_itself = self.schedule(driver, state, next, now);
    }
}

/// One owner's share of a turn. If deadlines are left when it is dropped, the queue goes behind the other owners in line.
pub(crate) struct Share<'q> {
    queue: &'q DeadlineQueue,
    driver: &'q DriverInner,
    began: u64,
    pub now: u64,
    left: u32,
    pub passed: usize,
    /// No more deadlines are due.
    is_all: bool,
    /// Set if the owner has more deadlines that were due when the turn began.
    owes: &'q mut bool,
}

impl<'q> Share<'q> {
    pub fn new(queue: &'q DeadlineQueue, driver: &'q DriverInner, began: u64, now: u64, owes: &'q mut bool) -> Self {
        Self { queue, driver, began, now, left: SHARE, passed: 0, is_all: false, owes }
    }

    /// Takes out a node that is due, and returns what `take` makes of it with the queue locked. `None` at the end of the share.
    pub fn pop_due<R>(&mut self, mut take: impl FnMut(*mut WheelNode) -> R) -> Option<R> {
        while self.left != 0 {
            let due = self.queue.state.lock().with(|state| {
                // By the last reading, a deadline that was armed after the clock was set back would be due.
                if matches!(self.queue.base, Base::Realtime | Base::Tai) {
                    self.now = self.driver.now(self.queue.base);
                }
                state.wheel.set_back(self.now);
                state.wheel.hold_back(self.began);
                match state.wheel.next(self.now) {
                    Next::Due(node) => {
                        self.left -= 1;
                        self.passed += 1;
                        return Some(take(node));
                    }
                    Next::Working => self.left = self.left.saturating_sub(BATCH),
                    Next::Later => {
                        (self.left, self.is_all) = (0, true);
                        self.queue.finish(self.driver, state, self.now);
                    }
                }
                None
            });
            if due.is_some() {
                return due;
            }
        }
        None
    }
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        let Self { queue, driver, .. } = *self;
        let (Some(link), Some(earliest), false) = (queue.link.get(), driver.earliest(queue.base), self.is_all) else {
            return;
        };
        queue.state.lock().with(|state| {
            let next = state.wheel.peek_in_turn().unwrap_or(NEVER);
            if next > self.now {
                return queue.finish(driver, state, self.now);
            }
            *self.owes = next <= self.began;
            state.scheduled = next;
            earliest.lock().with(|earliest| {
                let node = link.node();
                // SAFETY: the nodes of links belong to this lock, and an owner takes its link out before freeing it.
                unsafe {
                    // Another turning thread may have put it into the ready line.
                    if !(*node).is_ready() {
                        earliest.wheel.remove(node);
                        earliest.make_ready(node);
                    }
                }
            });
        });
    }
}
