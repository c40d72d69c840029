//! The native functions: their results and their memory use.

use std::sync::atomic::AtomicU32;

use ufutex::{Domain, DomainOptions, Error, Policy, System, SystemConfig};

use crate::common::domains::{domain, on_domains, on_resizable_domains, system};
use crate::common::waiters::waiter_on;

/// Makes one wait that times out, so that the domain gets its first table.
fn wait_once(domain: &Domain) {
    assert!(waiter_on(domain, &AtomicU32::new(0)).cancel());
}

fn slots_are_a_power_of_two_from_2_up() {
    let domain = domain();
    for slots in [1, 3, 6, 100, (1 << 24) + 1, usize::MAX] {
        assert_eq!(domain.set_slots(slots), Err(Error::Invalid), "{slots}");
    }
    for slots in [1 << 25, 1 << (usize::BITS - 2), 1 << (usize::BITS - 1)] {
        assert_eq!(domain.set_slots(slots), Err(Error::NoMemory), "{slots}");
    }
    assert_eq!((domain.slots(), domain.table_bytes()), (0, 0));
    assert_eq!(domain.set_slots(2), Ok(()));
    assert_eq!(domain.slots(), 2);
}

fn table_comes_back_from_0_slots() {
    let domain = domain();
    for slots in [0, 16, 0, 0, 64, 0, 16] {
        assert_eq!(domain.set_slots(slots), Ok(()), "{slots}");
        assert_eq!(domain.slots(), slots);
        wait_once(&domain);
        assert_eq!(domain.slots(), slots, "after a wait");
    }
}

fn immutable_table_stays_as_it_is() {
    let domain = domain();
    assert_eq!(domain.set_slots(32), Ok(()));
    assert!(!domain.is_immutable());
    domain.set_immutable();
    assert!(domain.is_immutable());
    for slots in [0, 16, 32, 64] {
        assert_eq!(domain.set_slots(slots), Err(Error::Busy), "{slots}");
    }
    assert_eq!(domain.set_slots(3), Err(Error::Invalid));
    assert_eq!(domain.slots(), 32);
}

/// A domain keeps one table of each size, so resizing up and down repeatedly does not use more memory.
fn all_tables_take_at_most_twice_the_largest() {
    let domain = domain();
    let mut largest = 0;
    for slots in (0..40).map(|i| 2 << (i * 7 % 10)) {
        assert_eq!(domain.set_slots(slots), Ok(()));
        largest = largest.max(slots);
        let bytes = domain.table_bytes();
        assert!(bytes >= largest * 64 && bytes <= 2 * largest * bucket_bytes(), "{bytes} bytes for {largest}");
    }
    let bytes = domain.table_bytes();
    assert_eq!(domain.set_slots(0), Ok(()));
    assert_eq!(domain.table_bytes(), bytes);
}

fn bucket_bytes() -> usize {
    if cfg!(feature = "split") { 128 } else { 64 }
}

on_domains![slots_are_a_power_of_two_from_2_up, immutable_table_stays_as_it_is];
on_resizable_domains![table_comes_back_from_0_slots, all_tables_take_at_most_twice_the_largest];

#[cfg(feature = "fixed")]
#[test]
fn fixed_table_is_busy_once_there_is_one() {
    let domain = domain();
    assert_eq!(domain.set_slots(32), Ok(()));
    assert_eq!(domain.set_slots(32), Ok(()), "it has that many already");
    let bytes = domain.table_bytes();
    assert_eq!(domain.set_slots(1 << 10), Err(Error::Busy));
    assert_eq!(domain.set_slots(0), Err(Error::Busy));
    assert_eq!((domain.slots(), domain.table_bytes()), (32, bytes), "a refusal costs no memory");
}

#[cfg(feature = "fixed")]
#[test]
fn fixed_table_of_a_domain_that_has_waited_is_busy() {
    let domain = domain();
    wait_once(&domain);
    assert_eq!(domain.set_slots(1 << 10), Err(Error::Busy));
    assert_eq!(domain.slots(), 16);
}

/// `keep_trying` returns false at once. The resize succeeds because no operation is in flight.
#[cfg(any(feature = "atomic", feature = "percpu"))]
#[test]
fn resize_that_may_not_wait_still_succeeds_when_nothing_is_in_flight() {
    let domain = domain();
    wait_once(&domain);
    assert_eq!(domain.set_slots_while(64, || false), Ok(()));
    assert_eq!(domain.slots(), 64);
}

#[test]
fn policy_sets_the_size_of_the_first_table() {
    let first = |config: SystemConfig, policy| {
        let system = System::with_config(config.hash_seed(1)).expect("the memory is there");
        let domain = Domain::with_options(&system, DomainOptions::new().policy(policy));
        assert_eq!(domain.slots(), 0);
        wait_once(&domain);
        domain.slots()
    };
    let config = || SystemConfig::new().cpus(2);
    assert_eq!(first(config(), Policy::Load), 16);
    assert_eq!(first(config().default_slots(64), Policy::Load), 64);
    assert_eq!(first(config().default_slots(64).max_slots(8), Policy::Load), 8);
    assert_eq!(first(config(), Policy::Threads), 16);
    assert_eq!(first(config(), Policy::Fixed(0)), 0);
    for slots in [2, 4, 256] {
        assert_eq!(first(config(), Policy::Fixed(slots)), slots);
    }
    assert_eq!(first(config(), Policy::Fixed(1)), 2, "the smallest there is");
    assert_eq!(first(config(), Policy::Fixed(100)), 128, "the next power of two");
}

#[test]
fn one_slot_is_too_few_for_any_table() {
    for config in
        [SystemConfig::new().global_slots(1), SystemConfig::new().default_slots(1), SystemConfig::new().max_slots(1)]
    {
        assert_eq!(System::with_config(config).err(), Some(Error::Invalid));
    }
}

#[test]
#[cfg_attr(feature = "fixed", ignore = "the table is set once")]
fn threads_policy_grows_as_the_kernel_does_and_never_shrinks() {
    let system = System::with_config(SystemConfig::new().cpus(64).hash_seed(1)).expect("the memory is there");
    let domain = Domain::with_options(&system, DomainOptions::new().policy(Policy::Threads));
    domain.note_threads(3);
    assert_eq!(domain.slots(), 0, "not before the first wait");
    wait_once(&domain);
    assert_eq!(domain.slots(), 16);
    for (threads, slots) in [(4, 16), (5, 32), (9, 64), (2, 64), (1000, 256)] {
        domain.note_threads(threads);
        assert_eq!(domain.slots(), slots, "{threads} threads");
    }
    let late = Domain::with_options(&system, DomainOptions::new().policy(Policy::Threads));
    late.note_threads(20);
    wait_once(&late);
    assert_eq!(late.slots(), 128, "the threads noted before the first wait count");
}

#[test]
fn threads_policy_ends_when_a_size_is_set() {
    let domain = Domain::with_options(&system(), DomainOptions::new().policy(Policy::Threads));
    assert_eq!(domain.set_slots(4), Ok(()));
    domain.note_threads(1000);
    assert_eq!(domain.slots(), 4);
}
