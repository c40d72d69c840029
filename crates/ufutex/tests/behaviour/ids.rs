//! Keys that are numbers and no addresses.

use std::pin::pin;
use std::sync::atomic::AtomicU32;
use std::task::Waker;

use ufutex::scheme::Scheme;
use ufutex::{Access, Address, Domain, Fault, Key, ObjectId, Options, Policy, Shared, Target, WaitOptions, Waiter};

use crate::common::domains::{on_every_scheme, system};

/// What an embedder waits for by number. The number's state is in a word anywhere.
#[derive(Clone, Copy)]
struct Numbered<'w> {
    number: u64,
    state: &'w AtomicU32,
}

impl Key for Numbered<'_> {
    fn address(&self) -> u64 {
        self.number
    }
}

impl Target for Numbered<'_> {
    type Value = u32;
    fn load(&self) -> Result<u32, Fault> {
        Target::load(&self.state)
    }
    fn compare_exchange(&self, current: u32, new: u32) -> Result<Result<u32, u32>, Fault> {
        Target::compare_exchange(&self.state, current, new)
    }
    fn fault_in(&self, access: Access) -> Result<(), Fault> {
        self.state.fault_in(access)
    }
}

/// The most keys in a bucket when the numbers from 0 to 63 have a waiter each.
fn longest_chain<S: Scheme>(options: Options) -> u64 {
    let domain: Domain<S> = Domain::with_options_in(&system(), options.policy(Policy::Fixed(64)));
    let state = AtomicU32::new(0);
    let mut waiters: Vec<_> = (0..64).map(|_| Box::pin(Waiter::new())).collect();
    let queued: Vec<_> = (0..)
        .zip(&mut waiters)
        .map(|(number, waiter)| {
            let target = Numbered { number, state: &state };
            let queued = domain.prepare_with(waiter.as_mut(), target, 0, &WaitOptions::new(), Waker::noop().clone());
            queued.expect("the state is 0")
        })
        .collect();
    for (number, waiter) in (0..).zip(&queued) {
        assert_eq!(domain.wake(Address::at(number), usize::MAX), 1, "number {number}");
        assert!(waiter.is_woken());
    }
    domain.counters().longest_chain
}

fn dense_numbers_do_not_gather<S: Scheme>() {
    assert_eq!(longest_chain::<S>(Options::new()), 64, "they are all in one line");
    // Of 64 balls in 64 bins, 8 in one bin are less likely than one in ten thousand; the seed of the tests is fixed.
    assert!(longest_chain::<S>(Options::new().keys_are_ids(true)) < 8);
}

fn shared_words_meet_those_of_a_domain_whose_keys_are_addresses<S: Scheme>() {
    let system = system();
    let numbers: Domain<S> = Domain::with_options_in(&system, Options::new().keys_are_ids(true));
    let addresses: Domain<S> = Domain::with_options_in(&system, Options::new());
    let word = AtomicU32::new(0);
    let id = ObjectId::new(7).expect("a small number");
    let shared = |offset| Shared::object(&word, id, offset);
    for offset in [4, 68, 4096] {
        let waiter = pin!(Waiter::new());
        let queued = numbers.prepare_with(waiter, shared(offset), 0, &WaitOptions::new(), Waker::noop().clone());
        assert_eq!(addresses.wake(shared(offset), 1), 1);
        assert!(queued.expect("the word is 0").is_woken());
    }
}

on_every_scheme! {
    dense_numbers_do_not_gather,
    shared_words_meet_those_of_a_domain_whose_keys_are_addresses,
}
