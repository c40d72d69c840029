//! `memory.grow` while other threads wait.

use std::sync::Arc;

use ufutex::wasm::Trap::OutOfBounds;
use ufutex::wasm::Waited::{Ok as Woken, TimedOut};

use super::waiting::Waiting;
use super::{FOREVER, Machine, Width};

const PAGE: u64 = 65536;

pub fn word_beyond_the_end_can_be_waited_on_once_the_memory_has_grown<M: Machine, W: Width>() {
    let machine = Arc::new(M::new(1, 3));
    for end in [PAGE, 2 * PAGE] {
        assert_eq!(W::wait(&*machine, end, 0, FOREVER), Err(OutOfBounds));
        assert_eq!(machine.notify(end, 1), Err(OutOfBounds));
        assert!(machine.grow(1));
        assert_eq!(W::wait(&*machine, end, 0, 0), Ok(TimedOut));
        let waiting = Waiting::on::<M, W>(&machine, end);
        assert_eq!(machine.notify(end, 1), Ok(1));
        assert_eq!(waiting.outcome(), Ok(Woken));
    }
    assert!(!machine.grow(1), "it is as long as it may be");
    assert_eq!(W::wait(&*machine, 3 * PAGE, 0, FOREVER), Err(OutOfBounds));
}

pub fn waiters_stay_where_they_are_while_the_memory_grows<M: Machine, W: Width>() {
    let machine = Arc::new(M::new(1, 3));
    let addresses = [0, 64, PAGE - 8];
    W::store(&*machine, 256, 1);
    let waiting = addresses.map(|address| Waiting::on::<M, W>(&machine, address));
    assert!(machine.grow(1));
    assert!(machine.grow(1));
    assert_eq!(W::wait(&*machine, 256, 1, 0), Ok(TimedOut), "what it held is still there");
    for (address, waiting) in addresses.into_iter().zip(waiting) {
        assert!(waiting.is_asleep());
        assert_eq!(machine.notify(address, u32::MAX), Ok(1), "at {address}");
        assert_eq!(waiting.outcome(), Ok(Woken));
    }
}
