//! Memories that are not shared, on which a wait traps.

use ufutex::Domain;
use ufutex::wasm::Trap::{NotShared, OutOfBounds, Unaligned};
use ufutex::wasm::{Atomics, Trap};

use crate::common::domains::domain;
use crate::memories::{GuestMemory, PAGE, Reserved};

fn unshared() -> (Domain, Reserved) {
    (domain(), Reserved::with_pages(1, 1).unshared())
}

#[test]
fn wait_traps_in_a_memory_that_is_not_shared() {
    let (domain, memory) = unshared();
    let atomics = Atomics::new(&domain, &memory);
    for (expected, timeout) in [(0, 0), (0, -1), (1, -1)] {
        assert_eq!(atomics.wait32(64, expected, timeout), Err(NotShared));
        assert_eq!(atomics.wait64(64, expected.into(), timeout), Err(NotShared));
        assert_eq!(atomics.wait32_async(64, expected, timeout).err(), Some(NotShared));
        assert_eq!(atomics.wait64_async(64, expected.into(), timeout).err(), Some(NotShared));
    }
}

#[test]
fn notify_in_a_memory_that_is_not_shared_wakes_none_after_its_checks() {
    let (domain, memory) = unshared();
    let atomics = Atomics::new(&domain, &memory);
    for count in [0, 1, u32::MAX] {
        assert_eq!(atomics.notify(64, count), Ok(0));
        assert_eq!(atomics.notify(PAGE - 4, count), Ok(0));
        assert_eq!(atomics.notify(PAGE, count), Err(OutOfBounds));
        assert_eq!(atomics.notify(66, count), Err(Unaligned));
    }
}

#[test]
fn traps_have_the_names_of_the_specifications_tests() {
    let names = [
        (Unaligned, "unaligned atomic"),
        (OutOfBounds, "out of bounds memory access"),
        (NotShared, "expected shared memory"),
        (Trap::Interrupted, "the wait was interrupted"),
    ];
    for (trap, name) in names {
        assert_eq!(trap.to_string(), name);
    }
}
