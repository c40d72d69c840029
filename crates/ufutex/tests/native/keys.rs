//! Keys of words: domains, shared objects, address spaces.

use std::sync::atomic::AtomicU32;

use ufutex::{At, Domain, DomainOptions, ObjectId};

use crate::common::domains::{on_domains, system};
use crate::common::waiters::waiter_on;

fn object(id: u64) -> ObjectId {
    ObjectId::new(id).expect("small enough")
}

fn two_domains() -> [Domain; 2] {
    let system = system();
    [(); 2].map(|()| Domain::with_options(&system, DomainOptions::new()))
}

fn private_word_of_one_domain_is_not_that_of_another() {
    let [a, b] = two_domains();
    let word = AtomicU32::new(0);
    let private = waiter_on(&a, &word);
    let shared = waiter_on(&a, At::address_space(&word));
    assert_eq!(b.wake(&word, usize::MAX), 0);
    assert_eq!(b.wake(At::address_space(&word), usize::MAX), 0);
    assert_eq!(a.wake(&word, usize::MAX), 1);
    assert!(private.is_woken() && !shared.is_woken());
    assert_eq!(a.wake(At::address_space(&word), usize::MAX), 1);
    assert!(shared.is_woken());
}

/// The system's table holds the shared words of all domains, and the private words of domains with 0 slots.
fn private_words_in_the_global_table_keep_their_domains() {
    let [a, b] = two_domains();
    a.set_slots(0).expect("it has no table yet");
    b.set_slots(0).expect("it has no table yet");
    let word = AtomicU32::new(0);
    let at_a = waiter_on(&a, &word);
    let at_b = waiter_on(&b, &word);
    let shared = waiter_on(&a, At::address_space(&word));
    assert_eq!(b.wake(&word, usize::MAX), 1);
    assert_eq!((at_a.is_woken(), at_b.is_woken(), shared.is_woken()), (false, true, false));
    assert_eq!(a.wake(&word, usize::MAX), 1);
    assert_eq!((at_a.is_woken(), shared.is_woken()), (true, false));
    assert_eq!(a.wake(At::address_space(&word), usize::MAX), 1);
}

fn shared_words_need_no_table_of_the_domains_own() {
    let [a, _] = two_domains();
    let word = AtomicU32::new(0);
    let mut queued = waiter_on(&a, At::object(&word, object(1), 0));
    assert_eq!((a.slots(), a.table_bytes()), (0, 0));
    assert!(queued.cancel());
}

fn object_ids_end_where_keys_could_no_longer_tell_them_apart() {
    assert!(ObjectId::new((1 << 62) - 1).is_some());
    assert!(ObjectId::new(1 << 62).is_none());
    let [a, b] = two_domains();
    let word = AtomicU32::new(0);
    for last in [(1 << 61) - 1, (1 << 62) - 1] {
        let mut queued = waiter_on(&a, At::object(&word, object(last), 0));
        for id in [0, 1, 1 << 60, 1 << 61, last ^ 1 << 61] {
            assert_eq!(b.wake(At::object(&word, object(id), 0), usize::MAX), 0);
        }
        assert!(queued.cancel());
    }
}

on_domains![
    private_word_of_one_domain_is_not_that_of_another,
    private_words_in_the_global_table_keep_their_domains,
    shared_words_need_no_table_of_the_domains_own,
    object_ids_end_where_keys_could_no_longer_tell_them_apart,
];
