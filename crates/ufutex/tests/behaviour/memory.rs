//! Memory of a domain: none before its first wait, and none per address that was waited on.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

use ufutex::{At, Domain, Error, Timeout, WaitOptions, Waiter};

use crate::common::domains::{domain, on_domains};
use crate::common::guest_memory::GuestMemory;
use crate::common::kernel::timeouts_without_slack;
use crate::common::waiters::queue;

fn domain_takes_no_memory_before_its_first_wait() {
    let domain = domain();
    let word = AtomicU32::new(0);
    assert_eq!(domain.wake(&word, usize::MAX), 0);
    assert_eq!(domain.wake(At::address_space(&word), usize::MAX), 0);
    assert_eq!(domain.wait(&word, 1), Err(Error::Again), "the early return");
    assert_eq!((domain.slots(), domain.table_bytes()), (0, 0));
    assert!(queue(&domain, &mut Box::pin(Waiter::new()), &word).cancel());
    assert_eq!(domain.slots(), 16);
    assert!(domain.table_bytes() > 0);
}

/// A defect of wasmtime, wazero and JSC ([peer-tables]): their map grows with every address that was waited on. Here
/// each address is waited on with a timeout that has passed, and the table keeps its size.
fn wait_on_ever_new_addresses(waits: u64) {
    // With the default timer slack each of these timeouts would take 50 us.
    timeouts_without_slack();
    let domain: Domain = domain();
    let memory = GuestMemory::with_words(waits as usize + 1);
    let at_once = WaitOptions::new().timeout(Timeout::After(Duration::ZERO));
    assert_eq!(domain.wait_with(memory.target(0), 0, &at_once), Err(Error::TimedOut));
    let bytes = domain.table_bytes();
    for i in 1..=waits {
        assert_eq!(domain.wait_with(memory.target(i * 4), 0, &at_once), Err(Error::TimedOut));
    }
    assert_eq!(domain.table_bytes(), bytes);
    assert_eq!(domain.wake(memory.target(waits * 4), usize::MAX), 0);
}

#[cfg(not(feature = "counted"))]
#[test]
fn million_zero_timeout_waits_on_a_million_addresses_leave_the_table_as_it_was() {
    wait_on_ever_new_addresses(1_000_000);
}

#[cfg(feature = "counted")]
#[test]
fn no_scheme_takes_memory_for_an_address() {
    wait_on_ever_new_addresses(50_000);
}

/// Waits that end because the word differs, because they are cancelled, and by a wake.
fn waits_that_end_take_no_memory() {
    const WAITS: u64 = 2_000;
    let domain = domain();
    let memory = GuestMemory::with_words(16 * (WAITS as usize + 1));
    let mut waiter = Box::pin(Waiter::new());
    assert!(queue(&domain, &mut waiter, memory.target(0)).cancel());
    let bytes = domain.table_bytes();
    for word in (1..=WAITS).map(|i| memory.target(i * 64)) {
        assert_eq!(domain.wait(word, 1), Err(Error::Again));
        assert!(queue(&domain, &mut waiter, word).cancel());
        let mut queued = queue(&domain, &mut waiter, word);
        assert_eq!(domain.wake(word, 1), 1);
        assert!(!queued.cancel());
    }
    assert_eq!(domain.table_bytes(), bytes);
}

fn waiter_takes_128_bytes_at_most() {
    assert!(size_of::<Waiter<'static>>() <= 128);
}

on_domains![
    domain_takes_no_memory_before_its_first_wait,
    waits_that_end_take_no_memory,
    waiter_takes_128_bytes_at_most,
];
