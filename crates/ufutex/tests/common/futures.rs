//! Futures, polled by hand.

use std::fmt::Debug;
use std::future::Future;
use std::ops::DerefMut;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

pub type Boxed<F> = Pin<Box<F>>;

pub fn poll_with<F: DerefMut<Target: Future>>(
    future: &mut Pin<F>,
    waker: &Waker,
) -> Poll<<F::Target as Future>::Output> {
    future.as_mut().poll(&mut Context::from_waker(waker))
}

/// Polls a future with a waker that does nothing.
pub fn poll<F: DerefMut<Target: Future>>(future: &mut Pin<F>) -> Poll<<F::Target as Future>::Output> {
    poll_with(future, Waker::noop())
}

/// Polls the future once, which must be pending then.
pub fn pending<F: Future<Output: Debug>>(future: F) -> Boxed<F> {
    pending_with(future, Waker::noop())
}

pub fn pending_with<F: Future<Output: Debug>>(future: F, waker: &Waker) -> Boxed<F> {
    let mut future = Box::pin(future);
    let result = poll_with(&mut future, waker);
    assert!(result.is_pending(), "it is ready at once: {result:?}");
    future
}

/// The result of a future that must be ready at its first poll.
pub fn at_once<F: Future>(future: F) -> F::Output {
    match poll(&mut Box::pin(future)) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("it is not ready at once"),
    }
}
