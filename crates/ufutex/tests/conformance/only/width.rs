//! Words of 8, 16, 32 and 64 bits.

use std::pin::pin;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64};
use std::task::Waker;

use ufutex::{Error, Target, WaitOptions, Waiter};

use crate::common::domains::{domain, on_domains};

/// Waits on `target`, which holds `value`. Every value in `others` differs from `value`.
fn wait_and_wake<T: Target + Copy>(target: T, value: T::Value, others: &[T::Value]) {
    let domain = domain();
    for &other in others {
        assert_eq!(domain.wait(target, other), Err(Error::Again));
    }
    let mut waiter = pin!(Waiter::new());
    let waker = Waker::noop().clone();
    let queued = domain.prepare_with(waiter.as_mut(), target, value, &WaitOptions::new(), waker);
    let queued = queued.expect("the word holds the value");
    assert_eq!(domain.wake(target, usize::MAX), 1);
    assert!(queued.is_woken());
}

fn words_of_every_width_are_compared_whole() {
    wait_and_wake::<_>(&AtomicU8::new(0xa5), 0xa5, &[0, 0xa4, 0x25]);
    wait_and_wake::<_>(&AtomicU16::new(0xa5a5), 0xa5a5, &[0xa5, 0xa500, 0x25a5]);
    wait_and_wake::<_>(&AtomicU32::new(0xa5a5_a5a5), 0xa5a5_a5a5, &[0xa5a5, 0xa5a5_0000, 0x25a5_a5a5]);
    let wide = 0xa5a5_a5a5_5a5a_5a5a;
    wait_and_wake::<_>(&AtomicU64::new(wide), wide, &[wide & 0xffff_ffff, wide & !0xffff_ffff, wide ^ 1 << 63]);
}

fn neighbouring_bytes_are_different_futexes() {
    let domain = domain();
    let bytes = [const { AtomicU8::new(0) }; 16];
    let mut waiters: Vec<_> = bytes.iter().map(|_| Box::pin(Waiter::new())).collect();
    let queued: Vec<_> = std::iter::zip(&mut waiters, &bytes)
        .map(|(waiter, byte)| {
            let waker = Waker::noop().clone();
            domain.prepare_with(waiter.as_mut(), byte, 0, &WaitOptions::new(), waker).expect("the byte is 0")
        })
        .collect();
    for (i, byte) in bytes.iter().enumerate() {
        assert_eq!(domain.wake(byte, usize::MAX), 1);
        let woken: Vec<bool> = queued.iter().map(|q| q.is_woken()).collect();
        assert_eq!(woken, (0..bytes.len()).map(|j| j <= i).collect::<Vec<_>>());
    }
}

fn wake_with_count_0_wakes_none() {
    // futex(2) wakes one waiter for a count of 0. A drop-in replacement has to pass 1 for that.
    let domain = domain();
    let word = AtomicU32::new(0);
    let mut waiter = pin!(Waiter::new());
    let waker = Waker::noop().clone();
    let mut queued = domain.prepare_with(waiter.as_mut(), &word, 0, &WaitOptions::new(), waker).expect("the word is 0");
    assert_eq!(domain.wake(&word, 0), 0);
    assert!(!queued.is_woken());
    assert!(queued.cancel());
}

on_domains![
    words_of_every_width_are_compared_whole,
    neighbouring_bytes_are_different_futexes,
    wake_with_count_0_wakes_none,
];
