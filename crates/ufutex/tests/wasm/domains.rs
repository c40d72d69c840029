//! Memories and domains: which waits and notifies match, and memory use.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use ufutex::Domain;
use ufutex::wasm::{Atomics, LinearMemory, MemoryWait, Trap, Waited};

use crate::common::domains::system;
use crate::machines::{Alone, Owned};
use crate::memories::{GuestMemory, PAGE, Reserved};
use crate::suite::Machine;

fn numbered(id: u64) -> Reserved {
    Reserved::with_pages(1, 1).numbered(id)
}

fn is_pending<M: LinearMemory>(wait: std::pin::Pin<&mut MemoryWait<'_, M, u32>>) -> bool {
    wait.poll(&mut Context::from_waker(Waker::noop())) == Poll::Pending
}

#[test]
fn memories_with_different_domains_have_different_waiters() {
    let system = system();
    let machines: [Owned<Reserved>; 2] =
        [(); 2].map(|()| Owned { domain: Domain::new(&system), memory: Reserved::with_pages(1, 1) });
    let mut wait = pin!(machines[0].atomics().wait32_async(64, 0, -1).expect("in bounds"));
    assert!(is_pending(wait.as_mut()));
    assert_eq!(machines[1].notify(64, 1), Ok(0));
    assert_eq!(machines[0].notify(64, 1), Ok(1));
    assert!(!is_pending(wait));
}

#[test]
fn memory_number_identifies_a_memory_within_and_across_domains() {
    let system = system();
    let [domain, other_domain] = [(); 2].map(|()| Domain::new(&system));
    let [memory, other_memory] = [1, 2].map(numbered);
    let mut wait = pin!(Atomics::new(&domain, &memory).wait32_async(64, 0, -1).expect("in bounds"));
    assert!(is_pending(wait.as_mut()));
    assert_eq!(Atomics::new(&domain, &other_memory).notify(64, 1), Ok(0));
    assert_eq!(Atomics::new(&other_domain, &other_memory).notify(64, 1), Ok(0));
    // An instance in another domain imports the first memory.
    assert_eq!(Atomics::new(&other_domain, &memory).notify(64, 1), Ok(1));
    assert!(!is_pending(wait));
}

#[test]
fn memory_with_a_number_differs_from_one_without() {
    let domain = Domain::new(&system());
    let (memory, without) = (numbered(1), Reserved::with_pages(1, 1));
    let mut wait = pin!(Atomics::new(&domain, &memory).wait32_async(64, 0, -1).expect("in bounds"));
    assert!(is_pending(wait.as_mut()));
    assert_eq!(Atomics::new(&domain, &without).notify(64, 1), Ok(0));
    assert_eq!(Atomics::new(&domain, &memory).notify(64, 1), Ok(1));
    assert!(!is_pending(wait));
}

/// A handle uses the memory's current length, not its length when the handle was made.
#[test]
fn handle_that_was_made_before_a_growth_has_the_new_bounds() {
    let machine = Alone::new(1, 2);
    let atomics = machine.atomics();
    assert_eq!(atomics.wait32(PAGE, 0, 0), Err(Trap::OutOfBounds));
    assert_eq!(atomics.notify(PAGE, 1), Err(Trap::OutOfBounds));
    assert!(machine.grow(1));
    assert_eq!(atomics.wait32(PAGE, 0, 0), Ok(Waited::TimedOut));
    assert_eq!(atomics.notify(PAGE, 1), Ok(0));
}

/// A word of which only a part is in bounds. With small pages, the memory's length can make that possible.
#[test]
fn word_that_is_partly_beyond_the_end_is_out_of_bounds() {
    struct Tiny(u64);
    impl LinearMemory for Tiny {
        fn bytes(&self) -> u64 {
            self.0
        }
        fn load32(&self, _: u64) -> Result<u32, ufutex::Fault> {
            Ok(0)
        }
        fn load64(&self, _: u64) -> Result<u64, ufutex::Fault> {
            Ok(0)
        }
    }
    let domain = Domain::new(&system());
    for bytes in 0..40 {
        let memory = Tiny(bytes);
        let atomics = Atomics::new(&domain, &memory);
        for address in (0..40).step_by(8) {
            let waited = |width| if address + width <= bytes { Ok(Waited::TimedOut) } else { Err(Trap::OutOfBounds) };
            assert_eq!(atomics.wait32(address, 0, 0), waited(4), "{address} of {bytes}");
            assert_eq!(atomics.wait64(address, 0, 0), waited(8), "{address} of {bytes}");
            assert_eq!(atomics.notify(address, 1), waited(4).map(|_| 0), "{address} of {bytes}");
        }
    }
}
