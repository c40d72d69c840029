//! Memory stays bounded: nothing before the first wait, and not a byte for each address that is waited on.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

use ufutex::layout::{Layout, Lean};
use ufutex::scheme::{Atomic, Fixed, Live, PerCpu, Scheme};
use ufutex::{Access, Domain, Error, Fault, Guest, Shared, Timeout, UserMemory, WaitOptions, Waiter, Width};

use crate::common::domains::{domain, on_every_domain};
use crate::common::waiters::queue;

/// Zeroes everywhere.
struct Zeroes;

impl UserMemory for Zeroes {
    fn load(&self, _: u64, _: Width) -> Result<u64, Fault> {
        Ok(0)
    }
    fn compare_exchange(&self, _: u64, _: Width, _: u64, _: u64) -> Result<Result<u64, u64>, Fault> {
        Err(Fault) // it is read-only
    }
    fn fault_in(&self, _: u64, _: Access) -> Result<(), Fault> {
        Err(Fault)
    }
}

fn word(address: u64) -> Guest<'static, Zeroes> {
    Guest::new(&Zeroes, address, Width::U32).expect("aligned")
}

fn domain_takes_no_memory_before_its_first_wait<S: Scheme<L>, L: Layout>() {
    let domain = domain::<S, L>();
    let word = AtomicU32::new(0);
    assert_eq!(domain.wake(&word, usize::MAX), 0);
    assert_eq!(domain.wake(Shared::address_space(&word), usize::MAX), 0);
    assert_eq!(domain.wait(&word, 1), Err(Error::Again), "the early return");
    assert_eq!((domain.slots(), domain.table_bytes()), (0, 0));
    assert!(queue(&domain, &mut Box::pin(Waiter::new()), &word).cancel());
    assert_eq!(domain.slots(), 16);
    assert!(domain.table_bytes() > 0);
}

/// A defect of wasmtime, wazero and JSC ([peer-tables]): their map grows with every address touched. Here a million
/// addresses are waited on, with a timeout that has passed, and the table stays as it was.
fn wait_on_ever_new_addresses<S: Scheme<Lean>>(waits: u64) {
    // Or the kernel lets each timeout that has just passed wait for 50 us more.
    // SAFETY: sets the timer slack of this thread, and touches no memory.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1u64, 0u64, 0u64, 0u64) }, 0);
    let domain: Domain<S> = domain::<S, Lean>();
    let at_once = WaitOptions::new().timeout(Timeout::After(Duration::ZERO));
    assert_eq!(domain.wait_with(word(0), 0, &at_once), Err(Error::TimedOut));
    let bytes = domain.table_bytes();
    for i in 1..=waits {
        assert_eq!(domain.wait_with(word(i * 4), 0, &at_once), Err(Error::TimedOut));
    }
    assert_eq!(domain.table_bytes(), bytes, "{}", S::NAME);
    assert_eq!(domain.wake(word(waits * 4), usize::MAX), 0);
}

#[test]
fn million_zero_timeout_waits_on_a_million_addresses_leave_the_table_as_it_was() {
    wait_on_ever_new_addresses::<Live>(1_000_000);
}

#[test]
fn every_scheme_takes_no_memory_for_an_address() {
    wait_on_ever_new_addresses::<Fixed>(50_000);
    wait_on_ever_new_addresses::<Atomic>(50_000);
    wait_on_ever_new_addresses::<PerCpu>(50_000);
}

/// The same for the other ways to end a wait: it differs, it is cancelled, it is woken.
fn waits_that_end_take_no_memory<S: Scheme<L>, L: Layout>() {
    let domain = domain::<S, L>();
    let mut waiter = Box::pin(Waiter::new());
    assert!(queue(&domain, &mut waiter, word(0)).cancel());
    let bytes = domain.table_bytes();
    for i in 1..=2_000 {
        assert_eq!(domain.wait(word(i * 64), 1), Err(Error::Again));
        assert!(queue(&domain, &mut waiter, word(i * 64)).cancel());
        let queued = queue(&domain, &mut waiter, word(i * 64));
        assert_eq!(domain.wake(word(i * 64), 1), 1);
        assert!(!queued.cancel());
    }
    assert_eq!(domain.table_bytes(), bytes);
}

fn waiter_takes_128_bytes_at_most<S: Scheme<L>, L: Layout>() {
    assert!(size_of::<Waiter<'static, S, L>>() <= 128);
}

on_every_domain![
    domain_takes_no_memory_before_its_first_wait,
    waits_that_end_take_no_memory,
    waiter_takes_128_bytes_at_most,
];
