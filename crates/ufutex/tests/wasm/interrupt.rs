//! A runtime interrupts a waiting thread of its guest.

use std::sync::Arc;

use ufutex::wasm::{Trap, Waited};
use ufutex::{Error, Interrupt};

use crate::machines::{Alone, Moving};
use crate::memories::GuestMemory;
use crate::suite::waiting::Waiting;
use crate::suite::{FOREVER, Machine, Wait32};

const A: u64 = 64;

fn waits_until<M: Machine>(
    machine: &Arc<M>,
    wait: impl FnOnce(&M) -> Result<Waited, Trap> + Send + 'static,
) -> Waiting {
    let machine = machine.clone();
    Waiting::new(move || wait(&machine))
}

#[test]
fn interrupt_ends_its_sleeping_wait_and_no_other() {
    let machine = Arc::new(Alone::new(1, 1));
    let interrupt = Arc::new(Interrupt::new());
    let first = Waiting::on::<_, Wait32>(&machine, A);
    let its_interrupt = interrupt.clone();
    let stopped =
        waits_until(&machine, move |machine| machine.atomics().interrupted_by(&its_interrupt).wait32(A, 0, FOREVER));
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
fn interrupt_that_is_cleared_at_once_ends_the_wait_that_is_under_way() {
    let machine = Arc::new(Alone::new(1, 1));
    let interrupt = Arc::new(Interrupt::new());
    for _ in 0..200 {
        let its_interrupt = interrupt.clone();
        let stopped = waits_until(&machine, move |machine| {
            machine.atomics().interrupted_by(&its_interrupt).wait32(A, 0, FOREVER)
        });
        interrupt.raise();
        interrupt.clear();
        assert_eq!(stopped.outcome(), Err(Trap::Interrupted));
    }
}

#[test]
fn notify_that_came_before_the_interrupt_is_not_lost() {
    let machine = Arc::new(Alone::new(1, 1));
    for _ in 0..200 {
        let interrupt = Arc::new(Interrupt::new());
        let its_interrupt = interrupt.clone();
        let waiting = waits_until(&machine, move |machine| {
            machine.atomics().interrupted_by(&its_interrupt).wait64(A, 0, FOREVER)
        });
        let raises = std::thread::spawn(move || interrupt.raise());
        let expected = match machine.notify(A, 1) {
            Ok(1) => Ok(Waited::Ok),
            none => {
                assert_eq!(none, Ok(0));
                Err(Trap::Interrupted)
            }
        };
        assert_eq!(waiting.outcome(), expected);
        raises.join().expect("it does not panic");
    }
}

#[test]
fn memory_may_grow_and_move_before_the_interrupt() {
    let machine = Arc::new(Moving::new(1, 2));
    let interrupt = Arc::new(Interrupt::new());
    let its_interrupt = interrupt.clone();
    let waiting =
        waits_until(&machine, move |machine| machine.atomics().interrupted_by(&its_interrupt).wait64(A, 0, FOREVER));
    assert!(machine.memory.grow(1));
    interrupt.raise();
    assert_eq!(waiting.outcome(), Err(Trap::Interrupted));
}

#[test]
fn two_threads_with_one_interrupt_panic() {
    let machine = Arc::new(Alone::new(1, 1));
    let interrupt = Arc::new(Interrupt::new());
    let its_interrupt = interrupt.clone();
    let waiting =
        waits_until(&machine, move |machine| machine.atomics().interrupted_by(&its_interrupt).wait32(A, 0, FOREVER));
    let atomics = machine.atomics().interrupted_by(&interrupt);
    assert_eq!(atomics.wait32(A + 64, 0, FOREVER), Err(Trap::Refused(Error::Busy)));
    assert_eq!(machine.notify(A, 1), Ok(1));
    assert_eq!(waiting.outcome(), Ok(Waited::Ok));
}

/// The interrupt of a [`ufutex::Task`] can be used for its waits.
#[test]
fn interrupt_of_a_task_can_be_used() {
    let machine = Arc::new(Alone::new(1, 1));
    let task = Arc::new(machine.domain.task(1).expect("the TID is free"));
    let its_task = task.clone();
    let waiting = waits_until(&machine, move |machine| {
        machine.atomics().interrupted_by(its_task.interrupt()).wait32(A, 0, FOREVER)
    });
    task.interrupt().raise();
    assert_eq!(waiting.outcome(), Err(Trap::Interrupted));
}
