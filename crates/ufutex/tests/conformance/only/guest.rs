//! Words in a guest's memory.

use std::pin::pin;
use std::task::Waker;

use ufutex::{At, Error, GuestWord, WaitOptions, Waiter, Width};

use crate::common::domains::{domain, on_domains};
use crate::common::guest_memory::GuestMemory;

const WIDTHS: [Width; 4] = [Width::U8, Width::U16, Width::U32, Width::U64];

fn guest_waits_while_its_word_holds_the_value() {
    let (domain, memory) = (domain(), GuestMemory::new());
    memory.store(8, 8, 0x0102_0304_0506_0708);
    let values = [0x08, 0x0708, 0x0506_0708, 0x0102_0304_0506_0708];
    for (width, value) in std::iter::zip(WIDTHS, values) {
        let word = memory.target_of(8, width);
        assert_eq!(domain.wait(word, value - 1), Err(Error::Again), "{width:?}");
        let mut waiter = pin!(Waiter::new());
        let waker = Waker::noop().clone();
        let queued = domain.prepare_with(waiter.as_mut(), word, value, &WaitOptions::new(), waker);
        let queued = queued.expect("the word holds the value");
        // Operations match by address, whatever their width.
        let other_width = memory.target_of(8, Width::U8);
        assert_eq!(domain.wake(other_width, usize::MAX), 1, "{width:?}");
        assert!(queued.is_woken());
    }
}

#[test]
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

fn wait_on_an_unmapped_address_is_efault_and_leaves_no_entry() {
    let (domain, memory) = (domain(), GuestMemory::new());
    for address in [0, memory.at(0) - 8, 1 << 40, u64::MAX - 7] {
        let word = GuestWord::new(&memory, address, Width::U64).expect("aligned");
        assert_eq!(domain.wait(word, 0), Err(Error::Fault), "{address:#x}");
        assert_eq!(domain.wait(At::address_space(word), 0), Err(Error::Fault), "{address:#x}");
        assert_eq!(domain.wake(word, usize::MAX), 0, "{address:#x}");
    }
}

fn wake_does_not_access_the_word() {
    let (domain, memory) = (domain(), GuestMemory::new());
    let mut waiter = pin!(Waiter::new());
    let word = memory.target(0);
    let waker = Waker::noop().clone();
    let queued = domain.prepare_with(waiter.as_mut(), word, 0, &WaitOptions::new(), waker).expect("the word is 0");
    let untouchable = GuestMemory::with_hook(|event, _| panic!("a wake has used the word: {event:?}"));
    for (address, woken) in [(0, 0), (untouchable.at(0), 1)] {
        let word = GuestWord::new(&untouchable, address, Width::U32).expect("aligned");
        assert_eq!(domain.wake(word, usize::MAX), woken);
    }
    assert!(queued.is_woken());
}

on_domains![
    guest_waits_while_its_word_holds_the_value,
    value_that_the_word_cannot_hold_is_invalid,
    wait_on_an_unmapped_address_is_efault_and_leaves_no_entry,
    wake_does_not_access_the_word,
];
