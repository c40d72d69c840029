//! Keys that are numbers and no addresses.

use std::pin::pin;
use std::sync::atomic::AtomicU32;
use std::task::Waker;

use ufutex::{
    Access, Address, At, Domain, DomainOptions, Fault, GuestWord, Key, ObjectId, Policy, Scope, Target, UserMemory,
    WaitOptions, Waiter, Width,
};

use crate::common::domains::{on_domains, system};

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
fn longest_chain(options: DomainOptions) -> u64 {
    let domain: Domain = Domain::with_options(&system(), options.policy(Policy::Fixed(64)));
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

fn dense_numbers_do_not_gather() {
    assert_eq!(longest_chain(DomainOptions::new()), 64, "they are all in one line");
    // Of 64 balls in 64 bins, 8 in one bin are less likely than one in ten thousand; the seed of the tests is fixed.
    assert!(longest_chain(DomainOptions::new().keys_are_ids(true)) < 8);
}

fn shared_words_meet_those_of_a_domain_whose_keys_are_addresses() {
    let system = system();
    let numbers: Domain = Domain::with_options(&system, DomainOptions::new().keys_are_ids(true));
    let addresses: Domain = Domain::with_options(&system, DomainOptions::new());
    let word = AtomicU32::new(0);
    let id = ObjectId::new(7).expect("a small number");
    let shared = |offset| At::object(&word, id, offset);
    for offset in [4, 68, 4096] {
        let waiter = pin!(Waiter::new());
        let queued = numbers.prepare_with(waiter, shared(offset), 0, &WaitOptions::new(), Waker::noop().clone());
        assert_eq!(addresses.wake(shared(offset), 1), 1);
        assert!(queued.expect("the word is 0").is_woken());
    }
}

/// A page of an object that two guests map, each at an address of its own.
struct Mapped<'w> {
    at: u64,
    word: &'w AtomicU32,
    scope: Scope,
}

impl UserMemory for Mapped<'_> {
    fn load(&self, _: u64, _: Width) -> Result<u64, Fault> {
        Target::load(&self.word).map(u64::from)
    }
    fn compare_exchange(&self, _: u64, _: Width, _: u64, _: u64) -> Result<Result<u64, u64>, Fault> {
        Err(Fault)
    }
    fn fault_in(&self, _: u64, _: Access) -> Result<(), Fault> {
        Err(Fault)
    }
    fn scope(&self, address: u64, access: Access) -> Result<Scope, Fault> {
        let offset = address - self.at;
        match self.scope {
            Scope::Object { id, .. } if access == Access::Read => Ok(Scope::Object { id, offset }),
            Scope::Object { .. } => Err(Fault),
            scope => Ok(scope),
        }
    }
}

fn guest_word_is_private_unless_it_is_asked_for_as_shared() {
    let system = system();
    let [here, there] = [(); 2].map(|()| Domain::with_options(&system, DomainOptions::new()));
    let word = AtomicU32::new(0);
    let wakes = |scope: Scope, asks_shared: bool, wakes_shared: bool, waker: &Domain| {
        let [first, second] = [0x1000, 0x2000].map(|at| Mapped { at, word: &word, scope });
        let mapped = if core::ptr::eq(waker, &here) { &first } else { &second };
        let (waits, wakes) =
            (GuestWord::new(&first, 0x1040, Width::U32), GuestWord::new(mapped, mapped.at + 0x40, Width::U32));
        let (waits, wakes) = (waits.expect("aligned"), wakes.expect("aligned"));
        let (waiter, options) = (pin!(Waiter::new()), WaitOptions::new());
        let queued = if asks_shared {
            let shared = waits.shared(Access::Read).expect("it may be read");
            here.prepare_with(waiter, shared, 0, &options, Waker::noop().clone())
        } else {
            here.prepare_with(waiter, waits, 0, &options, Waker::noop().clone())
        };
        let _queued = queued.expect("the word is 0");
        match wakes_shared {
            true => waker.wake(wakes.shared(Access::Read).expect("it may be read"), 1) == 1,
            false => waker.wake(wakes, 1) == 1,
        }
    };
    let object = Scope::Object { id: ObjectId::new(7).expect("a small number"), offset: 0 };
    for scope in [object, Scope::AddressSpace, Scope::Private] {
        assert!(wakes(scope, false, false, &here), "{scope:?}");
        assert!(!wakes(scope, false, false, &there), "{scope:?}");
        assert!(!wakes(scope, false, true, &here), "{scope:?}");
        assert!(wakes(scope, true, true, &here), "{scope:?}");
        assert!(!wakes(scope, true, false, &here), "{scope:?}");
        assert_eq!(wakes(scope, true, true, &there), scope == object, "{scope:?}");
    }
    let memory = Mapped { at: 0x1000, word: &word, scope: object };
    let guest = GuestWord::new(&memory, 0x1040, Width::U32).expect("aligned");
    assert!(guest.shared(Access::Write).is_err());
}

on_domains! {
    guest_word_is_private_unless_it_is_asked_for_as_shared,
    dense_numbers_do_not_gather,
    shared_words_meet_those_of_a_domain_whose_keys_are_addresses,
}
