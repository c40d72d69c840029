//! Words of 8, 16, 32 and 64 bits, of this program and of a guest.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64};
use std::task::Poll;

use ufutex::{At, Error, GuestWord, Target, WaitOptions, Width};

use crate::common::domains::{domain, on_domains};
use crate::common::futures::{pending, poll};
use crate::common::guest_memory::GuestMemory;
use crate::common::waiters::{idle, queue, waiter_on};

const WIDTHS: [Width; 4] = [Width::U8, Width::U16, Width::U32, Width::U64];

/// Waits on `target`, which holds `value`. Every value in `others` differs from `value`.
fn wait_and_wake<T: Target + Copy>(target: T, value: T::Value, others: &[T::Value]) {
    let domain = domain();
    for &other in others {
        assert_eq!(domain.wait(target, other), Err(Error::Again));
    }
    let mut waits = pending(domain.wait_async(target, value, &WaitOptions::new()));
    assert_eq!(domain.wake(target, usize::MAX), 1);
    assert_eq!(poll(&mut waits), Poll::Ready(Ok(())));
}

fn words_of_every_width_are_compared_whole() {
    wait_and_wake(&AtomicU8::new(0xa5), 0xa5, &[0, 0xa4, 0x25]);
    wait_and_wake(&AtomicU16::new(0xa5a5), 0xa5a5, &[0xa5, 0xa500, 0x25a5]);
    wait_and_wake(&AtomicU32::new(0xa5a5_a5a5), 0xa5a5_a5a5, &[0xa5a5, 0xa5a5_0000, 0x25a5_a5a5]);
    let wide = 0xa5a5_a5a5_5a5a_5a5a;
    wait_and_wake(&AtomicU64::new(wide), wide, &[wide & 0xffff_ffff, wide & !0xffff_ffff, wide ^ 1 << 63]);
}

fn guest_waits_while_its_word_holds_the_value() {
    let (domain, memory) = (domain(), GuestMemory::new());
    memory.store(8, 8, 0x0102_0304_0506_0708);
    for (width, value) in std::iter::zip(WIDTHS, [0x08, 0x0708, 0x0506_0708, 0x0102_0304_0506_0708]) {
        let word = memory.target_of(8, width);
        assert_eq!(domain.wait(word, value - 1), Err(Error::Again), "{width:?}");
        let mut waits = pending(domain.wait_async(word, value, &WaitOptions::new()));
        // Operations match by address, whatever their width.
        assert_eq!(domain.wake(memory.target_of(8, Width::U8), usize::MAX), 1, "{width:?}");
        assert_eq!(poll(&mut waits), Poll::Ready(Ok(())));
    }
}

fn misaligned_address_is_invalid() {
    let memory = GuestMemory::new();
    for width in WIDTHS {
        for offset in 0..16 {
            let word = GuestWord::new(&memory, memory.at(offset), width);
            let expected = if offset % width.bytes() == 0 { None } else { Some(Error::Invalid) };
            assert_eq!(word.err(), expected, "{width:?} at {offset}");
        }
    }
}

fn value_that_the_word_cannot_hold_is_invalid() {
    let (domain, memory) = (domain(), GuestMemory::new());
    for width in [Width::U8, Width::U16, Width::U32] {
        let word = memory.target_of(0, width);
        assert_eq!(domain.wait(word, width.max()), Err(Error::Again), "{width:?}");
        assert_eq!(domain.wait(word, width.max() + 1), Err(Error::Invalid), "{width:?}");
        assert_eq!(domain.wait(word, u64::MAX), Err(Error::Invalid), "{width:?}");
        assert_eq!(domain.wait(At::address_space(word), 1 << 40), Err(Error::Invalid), "{width:?}");
    }
    let word = memory.target_of(0, Width::U64);
    assert_eq!(domain.wait(word, u64::MAX), Err(Error::Again));
}

fn neighbouring_bytes_are_different_futexes() {
    let domain = domain();
    let bytes = [const { AtomicU8::new(0) }; 16];
    let mut waiters = idle(bytes.len());
    let queued: Vec<_> =
        std::iter::zip(&mut waiters, &bytes).map(|(waiter, byte)| queue(&domain, waiter, byte)).collect();
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
    let mut queued = waiter_on(&domain, &word);
    assert_eq!(domain.wake(&word, 0), 0);
    assert!(!queued.is_woken());
    assert!(queued.cancel());
}

on_domains![
    words_of_every_width_are_compared_whole,
    guest_waits_while_its_word_holds_the_value,
    misaligned_address_is_invalid,
    value_that_the_word_cannot_hold_is_invalid,
    neighbouring_bytes_are_different_futexes,
    wake_with_count_0_wakes_none,
];
