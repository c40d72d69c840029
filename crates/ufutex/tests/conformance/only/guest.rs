//! Words in a guest's memory.

use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;

use ufutex::layout::Layout;
use ufutex::scheme::Scheme;
use ufutex::{Access, Error, Fault, Guest, Shared, UserMemory, WaitOptions, Waiter, Width};

use crate::common::domains::{domain, on_every_domain};

/// One page of memory at guest address 0x1000.
struct Page([AtomicU64; 512]);

impl Page {
    fn new() -> Self {
        Self([const { AtomicU64::new(0) }; 512])
    }

    fn store(&self, address: u64, value: u64) {
        self.0[(address as usize - 0x1000) / 8].store(value, Ordering::Release);
    }
}

impl UserMemory for Page {
    fn load(&self, address: u64, width: Width) -> Result<u64, Fault> {
        let offset = address.checked_sub(0x1000).ok_or(Fault)?;
        let unit = self.0.get((offset / 8) as usize).ok_or(Fault)?.load(Ordering::Acquire);
        Ok(unit >> (offset % 8 * 8) & width.max())
    }

    fn compare_exchange(&self, _: u64, _: Width, _: u64, _: u64) -> Result<Result<u64, u64>, Fault> {
        Err(Fault) // it is read-only
    }
    fn fault_in(&self, _address: u64, access: Access) -> Result<(), Fault> {
        assert_eq!(access, Access::Read);
        Err(Fault)
    }
}

const WIDTHS: [Width; 4] = [Width::U8, Width::U16, Width::U32, Width::U64];

fn guest_waits_while_its_word_holds_the_value<S: Scheme<L>, L: Layout>() {
    let (domain, page) = (domain::<S, L>(), Page::new());
    page.store(0x1008, 0x0102_0304_0506_0708);
    let values = [0x08, 0x0708, 0x0506_0708, 0x0102_0304_0506_0708];
    for (width, value) in std::iter::zip(WIDTHS, values) {
        let word = Guest::new(&page, 0x1008, width).expect("aligned");
        assert_eq!(domain.wait(word, value - 1), Err(Error::Again), "{width:?}");
        let mut waiter = pin!(Waiter::new());
        let waker = Waker::noop().clone();
        let queued = domain.prepare_with(waiter.as_mut(), word, value, &WaitOptions::new(), waker);
        let queued = queued.expect("the word holds the value");
        // Who shares a word is a matter of its address, whatever the width.
        let other_width = Guest::new(&page, 0x1008, Width::U8).expect("aligned");
        assert_eq!(domain.wake(other_width, usize::MAX), 1, "{width:?}");
        assert!(queued.is_woken());
    }
}

#[test]
fn misaligned_address_is_invalid() {
    let page = Page::new();
    for width in WIDTHS {
        for offset in 0..16 {
            let word = Guest::new(&page, 0x1000 + offset, width);
            let expected = if offset % width.bytes() == 0 { None } else { Some(Error::Invalid) };
            assert_eq!(word.err(), expected, "{width:?} at {offset}");
        }
    }
}

fn value_that_the_word_cannot_hold_is_invalid<S: Scheme<L>, L: Layout>() {
    let (domain, page) = (domain::<S, L>(), Page::new());
    for width in [Width::U8, Width::U16, Width::U32] {
        let word = Guest::new(&page, 0x1000, width).expect("aligned");
        assert_eq!(domain.wait(word, width.max()), Err(Error::Again), "{width:?}");
        assert_eq!(domain.wait(word, width.max() + 1), Err(Error::Invalid), "{width:?}");
        assert_eq!(domain.wait(word, u64::MAX), Err(Error::Invalid), "{width:?}");
        assert_eq!(domain.wait(Shared::address_space(word), 1 << 40), Err(Error::Invalid), "{width:?}");
    }
    let word = Guest::new(&page, 0x1000, Width::U64).expect("aligned");
    assert_eq!(domain.wait(word, u64::MAX), Err(Error::Again));
}

fn wait_on_an_address_that_is_not_there_ends_with_efault_and_leaves_no_entry<S: Scheme<L>, L: Layout>() {
    let (domain, page) = (domain::<S, L>(), Page::new());
    for address in [0, 0xff8, 0x2000, u64::MAX - 7] {
        let word = Guest::new(&page, address, Width::U64).expect("aligned");
        assert_eq!(domain.wait(word, 0), Err(Error::Fault), "{address:#x}");
        assert_eq!(domain.wait(Shared::address_space(word), 0), Err(Error::Fault), "{address:#x}");
        assert_eq!(domain.wake(word, usize::MAX), 0, "{address:#x}");
    }
}

fn wake_never_touches_the_word<S: Scheme<L>, L: Layout>() {
    struct Untouchable;
    impl UserMemory for Untouchable {
        fn load(&self, _: u64, _: Width) -> Result<u64, Fault> {
            panic!("a wake has read the word")
        }
        fn compare_exchange(&self, _: u64, _: Width, _: u64, _: u64) -> Result<Result<u64, u64>, Fault> {
            Err(Fault) // it is read-only
        }
        fn fault_in(&self, _: u64, _: Access) -> Result<(), Fault> {
            panic!("a wake has made the word present")
        }
    }
    let (domain, page) = (domain::<S, L>(), Page::new());
    let mut waiter = pin!(Waiter::new());
    let word = Guest::new(&page, 0x1000, Width::U32).expect("aligned");
    let waker = Waker::noop().clone();
    let queued = domain.prepare_with(waiter.as_mut(), word, 0, &WaitOptions::new(), waker).expect("the word is 0");
    for address in [0, 0x1000] {
        let word = Guest::new(&Untouchable, address, Width::U32).expect("aligned");
        assert_eq!(domain.wake(word, usize::MAX), usize::from(address == 0x1000));
    }
    assert!(queued.is_woken());
}

on_every_domain![
    guest_waits_while_its_word_holds_the_value,
    value_that_the_word_cannot_hold_is_invalid,
    wait_on_an_address_that_is_not_there_ends_with_efault_and_leaves_no_entry,
    wake_never_touches_the_word,
];
