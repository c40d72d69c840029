//! Sleeps of tasks: the timeouts of waits that are futures.
//!
//! A domain's sleeps by one clock are one owner in the driver: another guest's sleeps wait for only one share of them.

use core::cell::UnsafeCell;
use core::pin::Pin;
use core::task::Waker;
use core::time::Duration;

use super::clocks::nanoseconds;
use super::queue::{DeadlineQueue, Owner, Share};
use super::wheel::WheelNode;
use super::{Base, Driver};
use crate::error::Error;
use crate::sys::counted::Counted;
use crate::sys::lazy::Lazy;
use crate::sys::unwind::GuardedWaker;

pub(crate) struct Sleeps {
    queue: DeadlineQueue,
    driver: Driver,
}

impl Owner for Sleeps {
    fn queue(&self, _: Base) -> &DeadlineQueue {
        &self.queue
    }

    fn expire(&self, share: &mut Share<'_>) {
        // SAFETY: this queue, which is locked, has only nodes of sleeps.
        while let Some(waker) = share.pop_due(|node| unsafe { Sleep::fire(node) }) {
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }
}

impl Drop for Sleeps {
    fn drop(&mut self) {
        if !self.driver.is_abandoned() {
            self.queue.retire(&self.driver.inner);
        }
    }
}

/// The sleeps of a domain by the monotonic and the realtime clock, made when a task first sleeps.
pub(crate) type LazySleeps = Lazy<[Lazy<Counted<Sleeps>>; 2]>;

/// A task's sleep until a point in time. Its memory stays in place while it is armed.
#[repr(C)]
pub(crate) struct Sleep<'d> {
    /// First field: the queue knows only the node's address.
    node: UnsafeCell<WheelNode>,
    /// Belongs to the queue's lock while the node is armed.
    waker: UnsafeCell<Option<GuardedWaker>>,
    sleeps: &'d Sleeps,
}

// SAFETY: other threads touch the fields only with the queue locked.
unsafe impl Send for Sleep<'_> {}
// SAFETY: as for `Send`.
unsafe impl Sync for Sleep<'_> {}

impl<'d> Sleep<'d> {
    /// `lazy` are the sleeps of the task's domain.
    pub fn new(driver: &Driver, lazy: &'d LazySleeps, base: Base, waker: GuardedWaker) -> Result<Counted<Self>, Error> {
        let by_clock = lazy.get_or_make(|| Ok([(); 2].map(|()| Lazy::new())))?;
        let make = || {
            driver.prepare(base)?;
            let queue = DeadlineQueue::new(driver.inner.on, base);
            let sleeps = Counted::new(|_| Sleeps { queue, driver: driver.clone() })?;
            // SAFETY: no other thread has the sleeps yet. Their drop retires the queue, which is a part of them.
            unsafe { sleeps.queue.settle(sleeps.memory(), driver) };
            Ok(sleeps)
        };
        let sleeps = by_clock[usize::from(base != Base::Monotonic)].get_or_make(make)?;
        let (node, waker) = (UnsafeCell::new(WheelNode::new()), UnsafeCell::new(Some(waker)));
        Counted::new(|_| Self { node, waker, sleeps })
    }

    /// Arms the sleep. `now` is a reading of the clock. The driver has been started.
    pub fn begin(self: Pin<&Self>, deadline: Duration, now: u64) {
        // Derived from the whole sleep, because `fire` gets from the node to the other fields.
        let node = core::ptr::from_ref(self.get_ref()).cast_mut().cast();
        // SAFETY: the sleep is pinned, and its drop disarms it. The node is its first field.
        let must_notify =
            unsafe { self.sleeps.queue.arm(&self.sleeps.driver.inner, node, nanoseconds(deadline), now, 0) };
        must_notify.now(&self.sleeps.driver);
    }

    /// Whether the time of a sleep that has begun is up. If not, `waker` is woken when it is.
    pub fn is_over(&self, waker: &Waker) -> bool {
        // A waker's clone and drop are the executor's code: call them with nothing locked.
        let mut waker = Some(GuardedWaker::of(waker.clone()));
        // SAFETY: with the queue locked, the node and the waker belong to this thread.
        self.sleeps.queue.with_locked(|| unsafe {
            core::ptr::swap(self.waker.get(), &raw mut waker);
            // [T]: either `fire` finds this waker later, or the node has left the queue.
            !(*self.node.get()).is_linked()
        })
    }

    /// # Safety
    /// `node` belongs to a sleep, and has just left its queue, which is locked.
    unsafe fn fire(node: *mut WheelNode) -> Option<GuardedWaker> {
        // SAFETY: the node is the sleep's first field, and the sleep stays in place.
        let this = unsafe { &*node.cast::<Self>() };
        // SAFETY: the queue is locked.
        unsafe { (*this.waker.get()).take() }
    }
}

impl Drop for Sleep<'_> {
    fn drop(&mut self) {
        if self.sleeps.driver.is_abandoned() {
            return;
        }
        // Stays scheduled: most timeouts never come, and the next is soon armed.
        // SAFETY: the node is in this queue or in none.
        unsafe { self.sleeps.queue.disarm_scheduled(self.node.get()) };
    }
}
