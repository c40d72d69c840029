//! Waits as futures: cancelled, ended, dropped.

use std::pin::pin;
use std::task::Poll;

use ufutex::wasm::{Trap, Waited};
use ufutex::{Cause, Timeout};

use crate::common::futures::{pending, poll};
use crate::common::waker::block_on;
use crate::machines::Alone;
use crate::suite::Machine;

const A: u64 = 64;

#[test]
fn future_traps_before_it_is_polled_and_compares_when_it_is() {
    let machine = Alone::new(1, 2);
    let atomics = machine.atomics();
    assert_eq!(atomics.wait32_async(A + 2, 0, -1).err(), Some(Trap::Unaligned));
    assert_eq!(atomics.wait64_async(A + 4, 0, -1).err(), Some(Trap::Unaligned));
    assert_eq!(atomics.wait64_async(65536, 0, -1).err(), Some(Trap::OutOfBounds));
    let mut wait = pin!(atomics.wait64_async(A, 0, -1).expect("in bounds"));
    machine.store64(A, 1);
    assert_eq!(poll(&mut wait), Poll::Ready(Ok(Waited::NotEqual)));
}

#[test]
fn future_may_move_between_host_threads() {
    let machine = Alone::new(1, 1);
    let mut wait = pending(machine.atomics().wait32_async(A, 0, -1).expect("in bounds"));
    std::thread::scope(|scope| {
        let machine = &machine;
        scope.spawn(move || {
            assert_eq!(machine.notify(A, 1), Ok(1));
            assert_eq!(poll(&mut wait), Poll::Ready(Ok(Waited::Ok)));
        });
    });
}

#[test]
fn future_has_the_instruction_s_timeout_and_ends_by_it_unless_a_notify_has_come() {
    let machine = Alone::new(1, 1);
    let atomics = machine.atomics();
    let timeout = |nanoseconds| atomics.wait32_async(A, 0, nanoseconds).expect("in bounds").timeout();
    assert_eq!((timeout(-1), timeout(i64::MIN)), (None, None));
    assert_eq!(timeout(5), Some(Timeout::After(std::time::Duration::from_nanos(5))));
    // The executor ends the wait at its deadline, or the system's driver does.
    let wait32 = |timeout| Box::pin(atomics.wait32_async(A, 0, timeout).expect("in bounds"));
    let wait64 = |timeout| Box::pin(atomics.wait64_async(A, 0, timeout).expect("in bounds"));
    for (cause, outcome) in [(Cause::TimedOut, Ok(Waited::TimedOut)), (Cause::Interrupted, Err(Trap::Interrupted))] {
        let mut wait = atomics.wait32_async(A, 0, 5).expect("in bounds");
        assert_eq!(wait.take_timeout(), timeout(5));
        let mut wait = pending(wait);
        assert_eq!(wait.as_mut().end(cause), outcome);
        assert_eq!(machine.notify(A, 1), Ok(0));

        let mut wait = atomics.wait64_async(A, 0, 5).expect("in bounds");
        assert_eq!(wait.take_timeout(), timeout(5));
        let mut wait = pending(wait);
        assert_eq!(machine.notify(A, 1), Ok(1));
        assert_eq!(wait.as_mut().end(cause), Ok(Waited::Ok));
    }
    for nanoseconds in [0, 5, 2_000_000] {
        assert_eq!(block_on(wait32(nanoseconds)), Ok(Waited::TimedOut));
    }
    let mut wait = wait64(1 << 40);
    assert_eq!(poll(&mut wait), Poll::Pending);
    assert_eq!(machine.notify(A, 1), Ok(1));
    assert_eq!(block_on(wait), Ok(Waited::Ok));
}

#[test]
fn dropped_future_leaves_the_queue_or_passes_its_notify_on() {
    let machine = Alone::new(1, 1);
    let wait = || Box::pin(machine.atomics().wait32_async(A, 0, -1).expect("in bounds"));
    let [mut gone, mut first, mut second, mut third] = [wait(), wait(), wait(), wait()];
    for wait in [&mut gone, &mut first, &mut second, &mut third] {
        assert_eq!(poll(wait), Poll::Pending);
    }
    drop(gone);
    assert_eq!(machine.notify(A, 1), Ok(1));
    drop(first);
    assert_eq!(poll(&mut second), Poll::Ready(Ok(Waited::Ok)));
    assert_eq!(poll(&mut third), Poll::Pending);
}
