//! Which waiters a notify wakes.

use std::sync::Arc;
use std::time::Duration;

use ufutex::wasm::Waited::{Ok as Woken, TimedOut};

use super::waiting::{Waiting, woken};
use super::{Machine, Wait32, Wait64, Width};

const A: u64 = 128;
const MANY: usize = 40;

/// Starts `count` waits at `A`, numbered in order of arrival.
fn crowd<M: Machine, W: Width>(machine: &Arc<M>, count: usize) -> Vec<(usize, Waiting)> {
    (0..count).map(|number| (number, Waiting::on::<M, W>(machine, A))).collect()
}

pub fn waiters_are_woken_first_come_first_served<M: Machine, W: Width>() {
    let machine = Arc::new(M::new(1, 1));
    let mut waiting = crowd::<M, W>(&machine, MANY);
    for number in 0..MANY {
        assert_eq!(machine.notify(A, 1), Ok(1));
        assert_eq!(woken(&mut waiting, 1), [number]);
    }
    assert_eq!(machine.notify(A, 1), Ok(0));
}

pub fn notify_wakes_its_count_of_waiters_in_order<M: Machine, W: Width>() {
    let machine = Arc::new(M::new(1, 1));
    let mut waiting = crowd::<M, W>(&machine, MANY);
    assert_eq!(machine.notify(A, 0), Ok(0));
    let mut first = 0;
    for count in [1, 3, 17] {
        assert_eq!(machine.notify(A, count as u32), Ok(count as u32));
        assert_eq!(woken(&mut waiting, count), Vec::from_iter(first..first + count));
        first += count;
    }
    let rest = MANY - first;
    assert!(waiting.iter().all(|(_, one)| one.is_asleep()), "no other waiter has been woken");
    assert_eq!(machine.notify(A, u32::MAX), Ok(rest as u32));
    assert_eq!(woken(&mut waiting, rest), Vec::from_iter(first..MANY));
}

pub fn waiter_that_timed_out_is_not_notified<M: Machine, W: Width>() {
    let machine = Arc::new(M::new(1, 1));
    let first = Waiting::on::<M, W>(&machine, A);
    let its_machine = machine.clone();
    let second = Waiting::new(move || W::wait(&*its_machine, A, 0, 3_000_000));
    let third = Waiting::on::<M, W>(&machine, A);
    // It may have timed out already.
    assert_eq!(second.outcome(), Ok(TimedOut));
    assert_eq!(machine.notify(A, 1), Ok(1));
    assert_eq!(first.outcome(), Ok(Woken));
    assert!(third.is_asleep());
    assert_eq!(machine.notify(A, 5), Ok(1));
    assert_eq!(third.outcome(), Ok(Woken));
}

pub fn notify_of_another_address_wakes_none<M: Machine, W: Width>() {
    let machine = Arc::new(M::new(1, 1));
    let waiting = Waiting::on::<M, W>(&machine, A);
    for address in (0..machine.bytes()).step_by(4).filter(|address| *address != A) {
        assert_eq!(machine.notify(address, u32::MAX), Ok(0), "at {address}");
    }
    std::thread::sleep(Duration::from_millis(1));
    assert!(waiting.is_asleep());
    assert_eq!(machine.notify(A, u32::MAX), Ok(1));
    assert_eq!(waiting.outcome(), Ok(Woken));
}

pub fn waits_of_both_widths_at_one_address_are_one_queue<M: Machine>() {
    let machine = Arc::new(M::new(1, 1));
    let narrow = Waiting::on::<M, Wait32>(&machine, A);
    let wide = Waiting::on::<M, Wait64>(&machine, A);
    let last = Waiting::on::<M, Wait32>(&machine, A);
    for waiting in [narrow, wide, last] {
        assert!(waiting.is_asleep());
        assert_eq!(machine.notify(A, 1), Ok(1));
        assert_eq!(waiting.outcome(), Ok(Woken));
    }
}

pub fn notify_in_the_middle_of_a_word_wakes_none<M: Machine>() {
    let machine = Arc::new(M::new(1, 1));
    let wide = Waiting::on::<M, Wait64>(&machine, A);
    let upper_half = Waiting::on::<M, Wait32>(&machine, A + 4);
    assert_eq!(machine.notify(A + 4, u32::MAX), Ok(1));
    assert_eq!(upper_half.outcome(), Ok(Woken));
    assert!(wide.is_asleep());
    assert_eq!(machine.notify(A, u32::MAX), Ok(1));
    assert_eq!(wide.outcome(), Ok(Woken));
}
