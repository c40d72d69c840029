//! Waiters that are queued by hand, without a thread for each.

use std::num::NonZeroU32;
use std::pin::Pin;
use std::task::Waker;

use ufutex::{Domain, Queued, Target, WaitOptions, Waiter};

pub type Boxed<'d> = Pin<Box<Waiter<'d>>>;

/// `count` pinned waiters that are not queued yet.
pub fn idle<'d>(count: usize) -> Vec<Boxed<'d>> {
    (0..count).map(|_| Box::pin(Waiter::new())).collect()
}

/// Queues `waiter` on a word that holds 0, with a waker that does nothing.
pub fn queue<'w, 'd, T: Target<Value: From<u8>>>(
    domain: &'d Domain,
    waiter: &'w mut Boxed<'d>,
    target: T,
) -> Queued<'w, 'd> {
    queue_with(domain, waiter, target, WaitOptions::new())
}

/// As `queue`, with options.
pub fn queue_with<'w, 'd, T: Target<Value: From<u8>>>(
    domain: &'d Domain,
    waiter: &'w mut Boxed<'d>,
    target: T,
    options: WaitOptions,
) -> Queued<'w, 'd> {
    domain
        .prepare_with(waiter.as_mut(), target, 0.into(), &options, Waker::noop().clone())
        .expect("the word is 0 and the waiter idle")
}

/// A waiter of its own, queued on a word that holds 0. Its memory is leaked.
pub fn waiter_on<'d, T: Target<Value: From<u8>>>(domain: &'d Domain, target: T) -> Queued<'d, 'd> {
    waiter_with(domain, target, WaitOptions::new())
}

/// As `waiter_on`, with options.
pub fn waiter_with<'d, T: Target<Value: From<u8>>>(
    domain: &'d Domain,
    target: T,
    options: WaitOptions,
) -> Queued<'d, 'd> {
    queue_with(domain, Box::leak(Box::new(Box::pin(Waiter::new()))), target, options)
}

/// `count` waiters of their own, queued on one word. Their memory is leaked.
pub fn waiters_on<'d, T: Target<Value: From<u8>> + Copy>(
    domain: &'d Domain,
    target: T,
    count: usize,
) -> Vec<Queued<'d, 'd>> {
    (0..count).map(|_| waiter_on(domain, target)).collect()
}

/// Wait options with this bitset.
pub fn bits(bitset: u32) -> WaitOptions {
    WaitOptions::new().bitset(nonzero(bitset))
}

pub fn nonzero(bitset: u32) -> NonZeroU32 {
    NonZeroU32::new(bitset).expect("a bitset is not zero")
}
