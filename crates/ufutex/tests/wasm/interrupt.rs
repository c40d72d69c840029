//! A runtime interrupts a waiting thread of its guest.

use std::sync::Arc;

use ufutex::wasm::{Trap, Waited};
use ufutex::{Error, Interrupt};

use crate::machines::Alone;
use crate::suite::waiting::Waiting;
use crate::suite::{FOREVER, Machine, Wait32};

const A: u64 = 64;

/// A thread that waits at `A` until it is interrupted.
fn interrupted_by(machine: &Arc<Alone>, interrupt: &Arc<Interrupt>) -> Waiting {
    let (machine, interrupt) = (machine.clone(), interrupt.clone());
    Waiting::new(move || machine.atomics().interrupted_by(&interrupt).wait32(A, 0, FOREVER))
}

#[test]
fn interrupt_ends_its_sleeping_wait_and_no_other() {
    let machine = Arc::new(Alone::new(1, 1));
    let interrupt = Arc::new(Interrupt::new());
    let first = Waiting::on::<_, Wait32>(&machine, A);
    let stopped = interrupted_by(&machine, &interrupt);
    let last = Waiting::on::<_, Wait32>(&machine, A);
    interrupt.raise();
    assert_eq!(stopped.outcome(), Err(Trap::Interrupted));
    assert!(first.is_asleep() && last.is_asleep());
    // The interrupted wait has left the queue, so a notify with count 2 wakes the two others.
    assert_eq!(machine.notify(A, 2), Ok(2));
    assert_eq!((first.outcome(), last.outcome()), (Ok(Waited::Ok), Ok(Waited::Ok)));
}

#[test]
fn raised_interrupt_ends_all_waits_until_it_is_cleared() {
    let machine = Arc::new(Alone::new(1, 1));
    let interrupt = Interrupt::new();
    let atomics = machine.atomics().interrupted_by(&interrupt);
    interrupt.raise();
    for timeout in [0, 1_000_000, FOREVER] {
        assert_eq!(atomics.wait32(A, 0, timeout), Err(Trap::Interrupted));
        assert_eq!(atomics.wait64(A, 0, timeout), Err(Trap::Interrupted));
        assert_eq!(atomics.wait32(A, 1, timeout), Ok(Waited::NotEqual));
        assert_eq!(atomics.wait32(A + 1, 0, timeout), Err(Trap::Unaligned));
    }
    assert_eq!(atomics.notify(A, 1), Ok(0));
    interrupt.clear();
    assert_eq!(atomics.wait32(A, 0, 1_000), Ok(Waited::TimedOut));
}

#[test]
fn two_threads_with_one_interrupt_panic() {
    let machine = Arc::new(Alone::new(1, 1));
    let interrupt = Arc::new(Interrupt::new());
    let waiting = interrupted_by(&machine, &interrupt);
    let atomics = machine.atomics().interrupted_by(&interrupt);
    assert_eq!(atomics.wait32(A + 64, 0, FOREVER), Err(Trap::Refused(Error::Busy)));
    assert_eq!(machine.notify(A, 1), Ok(1));
    assert_eq!(waiting.outcome(), Ok(Waited::Ok));
}
