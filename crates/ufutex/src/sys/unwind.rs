//! Finishes what an operation owes other threads when an embedder's callback panics.
//!
//! The panic goes on to the operation's caller. The `drop` of values does what is still to be done for other threads. They call
//! callbacks through [`call`], because a second panic that left a `drop` would end the process.

use core::task::Waker;

/// Calls a callback. If the thread is unwinding, a panic of `f` is caught, and its payload leaked, because its drop may panic.
#[inline]
pub fn call(f: impl FnOnce()) {
    #[cfg(feature = "std")]
    if std::thread::panicking() {
        return catch(f).unwrap_or_default();
    }
    f();
}

/// Calls a callback. A panic of `f` is caught, as by [`call`]: `None`. Without `std` it ends the process.
#[cold]
pub fn catch<R>(f: impl FnOnce() -> R) -> Option<R> {
    #[cfg(feature = "std")]
    return std::panic::catch_unwind(core::panic::AssertUnwindSafe(f)).map_err(core::mem::forget).ok();
    #[cfg(not(feature = "std"))]
    Some(super::platform::without_unwinding(f))
}

/// Calls `f` if its scope is left before [`disarm`](Self::disarm), by a panic of a callback or by an error.
#[must_use]
pub struct Otherwise<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> Otherwise<F> {
    pub const fn new(f: F) -> Self {
        Self(Some(f))
    }

    pub fn disarm(mut self) {
        self.0 = None;
    }
}

impl<F: FnOnce()> Drop for Otherwise<F> {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(|f| f());
    }
}

/// An embedder's waker, which may panic when it is woken and when it is dropped.
pub struct GuardedWaker(Option<Waker>);

impl GuardedWaker {
    /// Takes a clone, which the caller makes with nothing locked: cloning runs the embedder's code.
    pub fn of(waker: Waker) -> Self {
        Self(Some(waker))
    }

    pub fn wake(mut self) {
        self.0.take().into_iter().for_each(|waker| call(|| waker.wake()));
    }
}

impl Drop for GuardedWaker {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(|waker| call(|| drop(waker)));
    }
}
