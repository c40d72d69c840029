//! The first wait makes the domain of a static while a waker looks for it.
//!
//! The interleaving looked for: the waker finds no domain, and so no waiter, although one has queued in the domain that
//! was being made. The domain is published ([W]) before its first waiter reads the word. So [A] and [B] exclude this:
//! either the waker sees the domain, or the waiter sees the new value.

use std::pin::pin;
use std::task::Waker;

use loom::sync::Arc;
use loom::thread;
use ufutex_loom::{DomainOptions, StaticDomain, SystemConfig, WaitOptions, Waiter};

use crate::support::{PAIR, Word, assert_not_lost, catches, check_pair};

struct World {
    futexes: StaticDomain,
    word: Word,
}

impl World {
    fn new() -> Arc<Self> {
        let config = SystemConfig::new().cpus(1).global_slots(2).hash_seed(1).default_slots(2);
        let futexes = StaticDomain::with(config, DomainOptions::new().early_return(false));
        Arc::new(Self { futexes, word: Word::at(0x1000) })
    }
}

fn first_wait_and_wake() {
    let world = World::new();
    let waker = {
        let world = world.clone();
        thread::spawn(move || {
            world.word.store(1);
            world.futexes.wake(&world.word, 1)
        })
    };
    let mut waiter = pin!(Waiter::new());
    let options = WaitOptions::new();
    let domain = world.futexes.get().expect("there is memory");
    let queued = domain.prepare_with(waiter.as_mut(), &world.word, 0, &options, Waker::noop().clone());
    assert_not_lost(queued, waker.join().unwrap());
}

/// Two threads make the domain at once. Both must use the same one.
fn two_first_waits() {
    let world = World::new();
    let other = {
        let world = world.clone();
        thread::spawn(move || std::ptr::from_ref(world.futexes.get().expect("there is memory")).addr())
    };
    let ours = std::ptr::from_ref(world.futexes.get().expect("there is memory")).addr();
    assert_eq!(ours, other.join().unwrap());
}

#[test]
fn wake_finds_the_domain_or_the_first_wait_finds_the_new_value() {
    check_pair(first_wait_and_wake);
}

#[test]
fn two_first_waits_share_one_domain() {
    check_pair(two_first_waits);
}

catches!(static_domain_catches_lazy_relaxed, LazyRelaxed, PAIR, two_first_waits);
catches!(static_domain_catches_no_wait_barrier, NoWaitBarrier, PAIR, first_wait_and_wake);
catches!(static_domain_catches_no_wake_barrier, NoWakeBarrier, PAIR, first_wait_and_wake);
