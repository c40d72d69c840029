//! Wakers for tests, and a minimal executor.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// A waker that counts how often it has been woken.
#[derive(Default)]
pub struct Notified(AtomicUsize);

impl Notified {
    pub fn new() -> (Arc<Self>, Waker) {
        let notified = Arc::new(Self::default());
        (notified.clone(), notified.into())
    }

    pub fn times(&self) -> usize {
        self.0.load(Ordering::Acquire)
    }
}

impl Wake for Notified {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

/// A waker that calls `f`.
pub struct Calls<F>(pub F);

impl<F: Fn() + Send + Sync + 'static> Calls<F> {
    pub fn waker(f: F) -> Waker {
        Arc::new(Self(f)).into()
    }
}

impl<F: Fn() + Send + Sync + 'static> Wake for Calls<F> {
    fn wake(self: Arc<Self>) {
        (self.0)();
    }
}

/// An executor for one task. It sleeps between polls until the task's waker is woken.
pub fn block_on<F: Future>(future: F) -> F::Output {
    block_on_by(std::thread::park, future)
}

/// As `block_on`, with another way to sleep until the thread is unparked.
pub fn block_on_by<F: Future>(park: fn(), future: F) -> F::Output {
    let mut future = pin!(future);
    let thread = std::thread::current();
    let waker = Calls::waker(move || thread.unpark());
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        park();
    }
}
