//! Objects that domains of several namespaces share: two threads that make one at the same time, and an object whose place
//! is taken by another one while its words have waiters. [F]
//!
//! Promise: namespaces apart

use std::pin::pin;
use std::task::Waker;

use loom::thread;
use ufutex_loom::{At, Domain, DomainOptions, SharedObject, System, SystemConfig, WaitOptions, Waiter};

use crate::support::{PAIR, Word, catches, check_pair};

fn system() -> System {
    let config = SystemConfig::new().cpus(1).global_slots(2).hash_seed(1).default_slots(2);
    System::with_config(config).expect("the models' configuration is valid")
}

fn object(system: &System) -> SharedObject {
    SharedObject::new(system).expect("the memory is there")
}

/// Two threads make an object each.
fn two_at_once() {
    let system = system();
    let other = {
        let system = system.clone();
        thread::spawn(move || object(&system))
    };
    let ours = object(&system);
    assert_ne!(ours.id(), other.join().unwrap().id());
}

/// A waiter is queued by the number of an object that is gone, while another object takes its place.
fn waiter_of_an_object_that_is_gone() {
    let system = system();
    let next = {
        let system = system.clone();
        thread::spawn(move || object(&system))
    };
    let domain: Domain = Domain::with_options(&system, DomainOptions::new().early_return(false));
    let (word, gone) = (Word::at(0x1000), object(&system));
    let key = At::object(&word, gone.id(), 0);
    let mut waiter = pin!(Waiter::new());
    let waits = domain.prepare_with(waiter.as_mut(), key, 0, &WaitOptions::new(), Waker::noop().clone());
    assert!(waits.is_ok());
    let id = gone.id();
    drop(gone);
    assert_eq!(domain.wake(key, 1), 1);
    assert_ne!(next.join().unwrap().id(), id);
}

#[test]
fn two_objects_have_different_ids() {
    check_pair(two_at_once);
}

#[test]
fn waiter_is_found_by_the_number_of_an_object_that_is_gone() {
    check_pair(waiter_of_an_object_that_is_gone);
}

catches!(objects_catches_place_is_taken_twice, PlaceIsTakenTwice, PAIR, two_at_once);
catches!(objects_catches_object_table_is_replaced, ObjectTableIsReplaced, PAIR, waiter_of_an_object_that_is_gone);
