//! Sleeps of tasks: what limits a wait that is a future.

use core::cell::UnsafeCell;
use core::pin::Pin;
use core::ptr::NonNull;
use core::task::Waker;
use core::time::Duration;

use super::clocks::nanoseconds;
use super::queue::{Held, Owner, Queue};
use super::wheel::Node;
use super::{Base, Driver, Inner};
use crate::sync::{AtomicU32, Mutant, Ordering, mutant};

/// So many tasks are woken before other owners have their turn.
const BATCH: usize = 64;

/// The sleeps of a driver, by the clock that ends them.
pub(crate) struct Sleeps {
    queues: [Queue; 2],
}

impl Sleeps {
    pub fn new() -> Self {
        Self { queues: [Queue::new(Base::Monotonic), Queue::new(Base::Realtime)] }
    }

    /// # Safety
    /// As [`Queue::settle`]; these sleeps are those of `driver`.
    pub unsafe fn settle(&self, driver: &Inner) {
        for queue in &self.queues {
            // SAFETY: says the caller.
            unsafe { queue.settle(NonNull::<Inner>::from(driver) as NonNull<dyn Owner>) };
        }
    }

    fn on(&self, base: Base) -> Option<&Queue> {
        self.queues.iter().find(|queue| queue.base() == base)
    }
}

// The driver itself owns the sleeps: they belong to nobody who could be asked to keep them.
impl Owner for Inner {
    fn hold(&self) -> Option<Held> {
        // SAFETY: a driver's inside is counted, and the caller has a handle of the driver.
        unsafe { Held::of(self) }
    }

    fn expire(&self, base: Base, now: u64) -> usize {
        let Some(queue) = self.sleeps.on(base) else { return 0 };
        let mut share = queue.share(self, now);
        for woken in 0..BATCH {
            let mut waker = None;
            // SAFETY: what is armed in these queues are nodes of sleeps, and the queue is locked.
            if !share.pop_due(|node| waker = unsafe { Sleep::ring(node) }) {
                return woken;
            }
            if let Some(waker) = waker {
                waker.wake();
            }
        }
        BATCH
    }
}

/// A task's sleep until a point in time, in memory that stays where it is while it is armed.
#[repr(C)]
pub(crate) struct Sleep<'d> {
    /// First: its queue has its address alone.
    node: UnsafeCell<Node>,
    /// Whom to wake; belongs to the queue's lock while the node is armed.
    waker: UnsafeCell<Option<Waker>>,
    /// Whether the time is up: not 0.
    is_over: AtomicU32,
    driver: &'d Driver,
    base: Base,
}

// SAFETY: what others touch they touch with the queue locked.
unsafe impl Send for Sleep<'_> {}
// SAFETY: as above.
unsafe impl Sync for Sleep<'_> {}

impl<'d> Sleep<'d> {
    /// A sleep that has not begun, by one of the clocks that tasks sleep by.
    pub fn new(driver: &'d Driver, base: Base, waker: Waker) -> Self {
        let waker = UnsafeCell::new(Some(waker));
        Self { node: UnsafeCell::new(Node::new()), waker, is_over: AtomicU32::new(0), driver, base }
    }

    fn queue(&self) -> Option<&'d Queue> {
        self.driver.sleeps().on(self.base)
    }

    /// Has the waker woken at `deadline`. The driver has been started.
    pub fn begin(self: Pin<&Self>, deadline: Duration) {
        let Some(queue) = self.queue() else { return };
        // By the whole sleep's address, since `ring` gets from its node to the rest.
        let node = core::ptr::from_ref(self.get_ref()).cast_mut().cast();
        // SAFETY: pinned, and disarmed when it is dropped; the node comes first.
        let tell = unsafe { queue.arm(&self.driver.inner, node, nanoseconds(deadline), |_| {}) };
        tell.now(self.driver);
    }

    /// Whether the time is up; if it is not, `waker` is woken from now on.
    pub fn is_over(&self, waker: &Waker) -> bool {
        let Some(queue) = self.queue() else { return false };
        // Before the lock and after it: what a waker's clone and drop do is not ours to say.
        let mut waker = Some(waker.clone());
        let is_over = || self.is_over.load(Ordering::Relaxed) != 0; // [T]
        let too_early = mutant(Mutant::SleepLooksFirst).then(is_over);
        if !mutant(Mutant::SleepKeepsWaker) {
            // SAFETY: with the queue locked the waker is ours.
            queue.with_locked(|| unsafe { core::ptr::swap(self.waker.get(), &raw mut waker) });
        }
        // Either this waker is found there, or it was over before.
        too_early.unwrap_or_else(is_over)
    }

    /// The time is up. Answers whom to wake.
    ///
    /// # Safety
    /// `node` is a sleep's, whose queue is locked.
    unsafe fn ring(node: *mut Node) -> Option<Waker> {
        // SAFETY: the node comes first, and the sleep stays where it is.
        let this = unsafe { &*node.cast::<Self>() };
        if !mutant(Mutant::SleepGoesOn) {
            this.is_over.store(1, Ordering::Relaxed); // [T]
        }
        if mutant(Mutant::SleepRingsSilently) {
            return None;
        }
        // SAFETY: the queue is locked.
        unsafe { (*this.waker.get()).take() }
    }
}

impl Drop for Sleep<'_> {
    fn drop(&mut self) {
        let Some(queue) = self.queue().filter(|_| !mutant(Mutant::SleepStaysArmed)) else { return };
        // Most timeouts never come, and the next one is soon armed: so not at once.
        // SAFETY: it is in this queue or in none.
        unsafe { queue.disarm(&self.driver.inner, self.node.get(), true) }.now(self.driver);
    }
}
