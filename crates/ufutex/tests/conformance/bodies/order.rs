//! The order in which waiters are woken.

use std::sync::Arc;

use crate::common::asleep::until;
use crate::common::skipped::skip;
use crate::futex::{Futex, How, PLAINLY, word};
use crate::sleeper::{Order, Sleeper};

/// Queues one waiter for each priority and wakes them one by one. Returns their indices in the order in which they
/// woke.
fn wake_one_by_one(futex: &Arc<dyn Futex>, priorities: &[u8]) -> Vec<usize> {
    let word = word(0);
    let order = Order::default();
    for (number, &priority) in priorities.iter().enumerate() {
        let sleeper = Sleeper::start(futex, word, How { priority, ..PLAINLY }, order.note(number));
        sleeper.until_asleep();
    }
    for woken in 1..=priorities.len() {
        assert_eq!(futex.wake(word, 1), 1);
        until("the waiter has noted its wake", || order.seen().len() == woken);
    }
    assert_eq!(futex.wake(word, 1), 0);
    order.seen()
}

pub fn waiters_are_woken_in_the_order_in_which_they_came(futex: &Arc<dyn Futex>) {
    assert_eq!(wake_one_by_one(futex, &[0; 8]), [0, 1, 2, 3, 4, 5, 6, 7]);
}

pub fn wake_of_several_takes_those_that_came_first(futex: &Arc<dyn Futex>) {
    let word = word(0);
    let mut sleepers: Vec<_> = (0..6).map(|_| Sleeper::new(futex, word, PLAINLY)).collect();
    assert_eq!(futex.wake(word, 4), 4);
    let late = sleepers.split_off(4);
    for sleeper in sleepers {
        assert_eq!(sleeper.outcome(), Ok(()));
    }
    // A platform may let them look at their words at any time, so they need not sleep at this moment.
    late.iter().for_each(Sleeper::until_asleep);
    assert_eq!(futex.wake(word, usize::MAX), 2);
}

pub fn real_time_priority_comes_first_and_then_the_order_of_arrival(futex: &Arc<dyn Futex>) {
    if let Some(reason) = futex.lacks_priorities() {
        skip(reason);
        return;
    }
    let priorities = [0, 1, 99, 50, 0, 99, 1, 50];
    assert_eq!(wake_one_by_one(futex, &priorities), [2, 5, 3, 7, 1, 6, 0, 4]);
}
