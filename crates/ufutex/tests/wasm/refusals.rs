//! Errors that the specification does not define.

use std::pin::pin;
use std::sync::atomic::Ordering::SeqCst;
use std::task::{Context, Poll, Waker};

use ufutex::wasm::{Atomics, Trap, Waited};
use ufutex::{Domain, DomainOptions, Error};

use crate::common::domains::system;
use crate::machines::Moving;
use crate::memories::{GuestMemory, Reserved};
use crate::suite::Machine;

const A: u64 = 64;

#[test]
fn waits_beyond_the_limit_of_the_domain_are_refused() {
    let domain: Domain = Domain::with_options(&system(), DomainOptions::new().max_waiters(1));
    let memory = Reserved::with_pages(1, 1);
    let atomics = Atomics::new(&domain, &memory);
    let mut wait = pin!(atomics.wait32_async(A, 0, -1).expect("in bounds"));
    assert_eq!(wait.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Pending);
    assert_eq!(atomics.wait32(A, 0, -1), Err(Trap::Refused(Error::NoMemory)));
    assert_eq!(atomics.wait32(A, 1, -1), Ok(Waited::NotEqual), "the limit counts waiting threads only");
    assert_eq!(atomics.notify(A, 1), Ok(1));
}

#[test]
fn lost_memory_ends_a_wait_but_not_a_notify() {
    let machine = Moving::new(1, 1);
    machine.memory.is_away.store(true, SeqCst);
    machine.memory.is_lost.store(true, SeqCst);
    assert_eq!(machine.wait32(A, 0, -1), Err(Trap::Refused(Error::Fault)));
    assert_eq!(machine.wait64(A, 0, 0), Err(Trap::Refused(Error::Fault)));
    assert_eq!(machine.notify(A, 1), Ok(0), "it touches no word");
    machine.memory.is_lost.store(false, SeqCst);
    assert_eq!(machine.wait32(A, 0, 0), Ok(Waited::TimedOut));
}

/// A fault is resolved while the memory is being moved and does not end the wait.
#[test]
fn wait_continues_after_the_memory_has_moved() {
    let machine = Moving::new(1, 1);
    machine.store32(A, 7);
    let atomics = Atomics::new(&machine.domain, &machine.memory);
    for round in 1..=3 {
        machine.memory.is_away.store(true, SeqCst);
        let (expected, outcome) = if round == 1 { (7, Waited::TimedOut) } else { (6, Waited::NotEqual) };
        assert_eq!(atomics.wait32(A, expected, 0), Ok(outcome));
        assert_eq!(machine.memory.faults.load(SeqCst), 2 * round - 1);
        machine.memory.is_away.store(true, SeqCst);
        let mut wait = pin!(atomics.wait64_async(A, 0, -1).expect("in bounds"));
        let polled = wait.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert_eq!(polled, Poll::Ready(Ok(Waited::NotEqual)));
        assert_eq!(machine.memory.faults.load(SeqCst), 2 * round);
    }
}
