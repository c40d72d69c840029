//! The results of the instructions.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ufutex::wasm::Waited::{NotEqual, Ok as Woken, TimedOut};

use super::waiting::Waiting;
use super::{FOREVER, Machine, Width};

const A: u64 = 64;

pub fn wait_is_not_equal_when_the_word_differs<M: Machine, W: Width>() {
    let machine = M::new(1, 1);
    assert_eq!(W::wait(&machine, A, 1, FOREVER), Ok(NotEqual));
    assert_eq!(W::wait(&machine, A, 1, 0), Ok(NotEqual), "rather than timed out");
    W::store(&machine, A, 7);
    assert_eq!(W::wait(&machine, A, 0, FOREVER), Ok(NotEqual));
    assert_eq!(W::wait(&machine, A, 6, FOREVER), Ok(NotEqual));
    // The neighbouring words are different futexes.
    assert_eq!(W::wait(&machine, A, 7, 0), Ok(TimedOut));
    assert_eq!(W::wait(&machine, A + W::BYTES, 7, FOREVER), Ok(NotEqual));
    assert_eq!(W::wait(&machine, A - W::BYTES, 7, FOREVER), Ok(NotEqual));
}

pub fn wait_compares_the_whole_word<M: Machine, W: Width>() {
    let machine = M::new(1, 1);
    for byte in 0..W::BYTES {
        let value = 0x80 << (8 * byte);
        W::store(&machine, A, value);
        assert_eq!(W::wait(&machine, A, 0, FOREVER), Ok(NotEqual), "byte {byte}");
        assert_eq!(W::wait(&machine, A, value, 0), Ok(TimedOut), "byte {byte}");
    }
    // The bytes next to the word are not compared.
    W::store(&machine, A, 5);
    machine.store32(A + W::BYTES, u32::MAX);
    machine.store32(A - 4, u32::MAX);
    assert_eq!(W::wait(&machine, A, 5, 0), Ok(TimedOut));
}

pub fn wait_is_ok_when_a_notify_has_come_whether_the_word_has_changed_or_not<M: Machine, W: Width>() {
    let machine = Arc::new(M::new(1, 1));
    for value in [0, 1] {
        let waiting = Waiting::on::<M, W>(&machine, A);
        W::store(&*machine, A, value);
        assert_eq!(machine.notify(A, 1), Ok(1));
        assert_eq!(waiting.outcome(), Ok(Woken));
        assert_eq!(machine.notify(A, 1), Ok(0), "it has left the queue");
    }
}

pub fn wait_is_timed_out_when_no_notify_came_in_time<M: Machine, W: Width>() {
    let machine = M::new(1, 1);
    for timeout in [0, 1, 1_000_000] {
        assert_eq!(W::wait(&machine, A, 0, timeout), Ok(TimedOut), "{timeout} ns");
        assert_eq!(machine.notify(A, u32::MAX), Ok(0), "it has left the queue");
    }
}

pub fn wait_never_ends_before_its_timeout<M: Machine, W: Width>() {
    let machine = M::new(1, 1);
    for timeout in [1, 999, 1_000, 54_321, 999_999, 1_000_001, 7_654_321, 20_000_000] {
        let begin = Instant::now();
        assert_eq!(W::wait(&machine, A, 0, timeout), Ok(TimedOut));
        let elapsed = begin.elapsed();
        assert!(elapsed >= Duration::from_nanos(timeout.unsigned_abs()), "{timeout} ns: after {elapsed:?}");
    }
}

pub fn wait_with_a_negative_timeout_never_expires<M: Machine, W: Width>() {
    let machine = Arc::new(M::new(1, 1));
    for timeout in [-1, i64::MIN, -1_000_000_000] {
        let its_machine = machine.clone();
        let waiting = Waiting::new(move || W::wait(&*its_machine, A, 0, timeout));
        std::thread::sleep(Duration::from_millis(2));
        assert!(waiting.is_asleep(), "{timeout} ns");
        assert_eq!(machine.notify(A, 1), Ok(1));
        assert_eq!(waiting.outcome(), Ok(Woken));
    }
}

/// The timeout is 292 years. Its sum with the clock must not overflow, and the kernel must accept it.
pub fn wait_with_the_longest_timeout_sleeps<M: Machine, W: Width>() {
    let machine = Arc::new(M::new(1, 1));
    for timeout in [i64::MAX, i64::MAX - 1, 1 << 62] {
        let its_machine = machine.clone();
        let waiting = Waiting::new(move || W::wait(&*its_machine, A, 0, timeout));
        assert_eq!(machine.notify(A, 1), Ok(1));
        assert_eq!(waiting.outcome(), Ok(Woken));
    }
}

pub fn store_alone_wakes_none<M: Machine, W: Width>() {
    let machine = Arc::new(M::new(1, 1));
    let waiting = Waiting::on::<M, W>(&machine, A);
    for value in 1..100 {
        W::store(&*machine, A, value);
    }
    std::thread::sleep(Duration::from_millis(1));
    assert!(waiting.is_asleep());
    assert_eq!(machine.notify(A, 1), Ok(1));
    assert_eq!(waiting.outcome(), Ok(Woken));
}

pub fn notify_without_waiters_wakes_none<M: Machine>() {
    let machine = M::new(1, 1);
    for count in [0, 1, 2, i32::MAX as u32, u32::MAX] {
        assert_eq!(machine.notify(A, count), Ok(0));
        assert_eq!(machine.notify(0, count), Ok(0));
        assert_eq!(machine.notify(machine.bytes() - 4, count), Ok(0));
    }
}
