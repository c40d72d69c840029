//! Waits on guest memory whose loads fault: which faults are resolved, and that no lock is held meanwhile.

use std::pin::Pin;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Waker;

use ufutex::{Access, At, Domain, DomainOptions, Error, Fault, Queued, Target, WaitOptions, Waiter};

use crate::common::domains::{on_domains, system};
use crate::common::guest_memory::{Event, GuestMemory};
use crate::common::waiters::{idle, queue, waiter_on};

fn domain(early_return: bool) -> Domain {
    Domain::with_options(&system(), DomainOptions::new().early_return(early_return))
}

fn prepare<'w, 'd, T: Target<Value = u64>>(
    domain: &'d Domain,
    waiter: &'w mut Pin<Box<Waiter<'d>>>,
    word: T,
) -> Result<Queued<'w, 'd>, Error> {
    domain.prepare_with(waiter.as_mut(), word, 0, &WaitOptions::new(), Waker::noop().clone())
}

/// `fault_in` fails.
fn refuse(event: Event, _address: u64) -> Result<(), Fault> {
    if matches!(event, Event::FaultIn(_)) { Err(Fault) } else { Ok(()) }
}

/// The loads before the one with the bucket locked.
fn early_loads(early_return: bool) -> usize {
    usize::from(early_return)
}

fn wait_continues_after_any_number_of_resolved_faults() {
    for early_return in [false, true] {
        for (first, faults) in (0..4).flat_map(|first| (0..5).map(move |faults| (first, faults))) {
            let domain = domain(early_return);
            let memory = GuestMemory::new();
            memory.fault_loads(first..first + faults);
            let mut waiter = Box::pin(Waiter::new());
            let queued = prepare(&domain, &mut waiter, memory.target(0)).expect("each fault is resolved");
            assert_eq!(domain.wake(memory.target(0), usize::MAX), 1);
            assert!(queued.is_woken());
            drop(queued);
            // Each fault with the bucket locked is resolved once. A fault of the early return's load is not resolved.
            let early = early_loads(early_return);
            let under_lock = (early..memory.loads()).filter(|n| (first..first + faults).contains(n)).count();
            assert_eq!(memory.faulted_in(), vec![(memory.at(0), Access::Read); under_lock]);
            assert_eq!(memory.loads(), early + under_lock + 1);
        }
    }
}

fn wait_returns_efault_only_if_a_fault_cannot_be_resolved() {
    for early_return in [false, true] {
        for first in 0..4 {
            let domain = domain(early_return);
            let memory = GuestMemory::with_hook(refuse);
            memory.fault_loads(first..first + 1);
            let mut waiter = Box::pin(Waiter::new());
            let result = prepare(&domain, &mut waiter, memory.target(0));
            let faults = first == early_loads(early_return);
            assert_eq!(result.as_ref().err(), faults.then_some(&Error::Fault), "load {first} faults");
            assert_eq!(domain.wake(memory.target(0), usize::MAX), usize::from(!faults));
            if let Ok(queued) = result {
                assert!(queued.is_woken());
            }
        }
    }
}

fn word_is_compared_again_after_a_fault() {
    let domain = domain(false);
    let mut waiter = Box::pin(Waiter::new());
    let memory = GuestMemory::new();
    memory.fault_next_loads(1);
    memory.word(0).store(1, Relaxed);
    assert_eq!(prepare(&domain, &mut waiter, memory.target(0)).err(), Some(Error::Again));
    assert_eq!(memory.faulted_in().len(), 1);
    assert_eq!(domain.wake(memory.target(0), usize::MAX), 0);
}

fn fault_of_a_shared_word_is_resolved_or_efault() {
    let domain = domain(false);
    let resolved = GuestMemory::new();
    resolved.fault_next_loads(2);
    assert_eq!(domain.wait(At::address_space(resolved.target(0)), 1), Err(Error::Again));
    assert_eq!(resolved.faulted_in().len(), 2);
    let refused = GuestMemory::with_hook(refuse);
    refused.fault_next_loads(1);
    assert_eq!(domain.wait(At::address_space(refused.target(0)), 0), Err(Error::Fault));
}

/// In `fault_in` for one wait, another wait queues, wakes and resizes in the same bucket.
fn no_lock_is_held_in_fault_in() {
    let (domain, there) = (domain(false), GuestMemory::new());
    // `neighbour` lies in the same cache line, and so has the same bucket.
    let (word, neighbour) = (there.target(0), there.target(4));
    let memory = GuestMemory::of_words(&there, |event, _| {
        if !matches!(event, Event::FaultIn(_)) {
            return Ok(());
        }
        let mut first = waiter_on(&domain, word);
        let second = waiter_on(&domain, neighbour);
        let third = waiter_on(&domain, word);
        assert_eq!(domain.wait(word, 1), Err(Error::Again));
        if crate::common::domains::can_resize() {
            let slots = if domain.slots() == 64 { 32 } else { 64 };
            assert_eq!(domain.set_slots(slots), Ok(()));
        }
        assert!(first.cancel());
        assert_eq!(domain.wake(neighbour, usize::MAX), 1);
        assert_eq!(domain.wake(word, usize::MAX), 1);
        assert!(second.is_woken() && third.is_woken());
        Ok(())
    });
    memory.fault_next_loads(3);
    let mut waiter = Box::pin(Waiter::new());
    let queued = prepare(&domain, &mut waiter, memory.target(0)).expect("each fault is resolved");
    assert_eq!(memory.faulted_in().len(), 3);
    assert_eq!(domain.wake(word, usize::MAX), 1);
    assert!(queued.is_woken());
}

/// A wake in `fault_in` goes to a waiter that was queued before, and not to the wait whose word is faulted in.
fn wait_is_queued_after_its_fault_is_resolved() {
    let (domain, there) = (domain(false), GuestMemory::new());
    let mut waiters = idle(2);
    let [before, faulting] = &mut waiters[..] else { unreachable!() };
    let before = queue(&domain, before, there.target(0));
    let memory = GuestMemory::of_words(&there, |event, _| {
        if matches!(event, Event::FaultIn(_)) {
            assert_eq!(domain.wake(there.target(0), 2), 1);
        }
        Ok(())
    });
    memory.fault_next_loads(1);
    let faulting = prepare(&domain, faulting, memory.target(0)).expect("the fault is resolved");
    assert_eq!((before.is_woken(), faulting.is_woken()), (true, false));
    assert_eq!(domain.wake(there.target(0), 2), 1);
    assert!(faulting.is_woken());
}

on_domains![
    wait_continues_after_any_number_of_resolved_faults,
    wait_returns_efault_only_if_a_fault_cannot_be_resolved,
    word_is_compared_again_after_a_fault,
    fault_of_a_shared_word_is_resolved_or_efault,
    no_lock_is_held_in_fault_in,
    wait_is_queued_after_its_fault_is_resolved,
];
