//! Many guest threads while the memory grows.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant};

use ufutex::wasm::Waited;

use super::{FOREVER, Machine};

const THREADS: usize = 4;
const PAGES: u64 = 64;
const LENGTH: Duration = Duration::from_millis(150);

/// Runs `guest` on several threads while the memory grows page by page.
fn run<M: Machine>(machine: &Arc<M>, guest: impl Fn(usize) + Sync) {
    std::thread::scope(|scope| {
        for number in 0..THREADS {
            let guest = &guest;
            scope.spawn(move || guest(number));
        }
        for _ in 1..PAGES {
            std::thread::sleep(LENGTH / PAGES as u32);
            assert!(machine.grow(1));
        }
    });
}

const LOCK: u64 = 0;
const COUNT: u64 = 128;
const FREE: u32 = 0;
const LOCKED: u32 = 1;
const CONTENDED: u32 = 2;

fn lock<M: Machine>(machine: &M) {
    let mut next = LOCKED;
    loop {
        match machine.compare_exchange32(LOCK, FREE, next) {
            FREE => return,
            LOCKED => _ = machine.compare_exchange32(LOCK, LOCKED, CONTENDED),
            _ => {
                let waited = machine.wait32(LOCK, CONTENDED, FOREVER);
                assert!(matches!(waited, Ok(Waited::Ok | Waited::NotEqual)), "{waited:?}");
                next = CONTENDED; // there may be more waiters
            }
        }
    }
}

fn unlock<M: Machine>(machine: &M) {
    let was_locked = machine.compare_exchange32(LOCK, LOCKED, FREE) == LOCKED;
    if !was_locked {
        machine.store32(LOCK, FREE);
        assert!(machine.notify(LOCK, 1).is_ok());
    }
}

/// A lost notify makes the test hang. A lock with two holders loses an increment.
pub fn mutex_and_its_counter_agree_while_the_memory_grows<M: Machine>() {
    let machine = Arc::new(M::new(1, PAGES));
    let begin = Instant::now();
    let counted = AtomicU64::new(0);
    run(&machine, |_| {
        while begin.elapsed() < LENGTH {
            lock(&*machine);
            // Not an atomic increment, so that two threads inside would lose one. The exchange only reads.
            let count = machine.compare_exchange32(COUNT, 0, 0);
            if count % 64 == 0 {
                std::thread::yield_now();
            }
            machine.store32(COUNT, count + 1);
            unlock(&*machine);
            counted.fetch_add(1, Relaxed);
        }
    });
    let count = machine.compare_exchange32(COUNT, 0, 0);
    assert!(count > 0);
    assert_eq!(u64::from(count), counted.load(Relaxed));
    assert_eq!(machine.notify(LOCK, u32::MAX), Ok(0));
}

/// The sum of the notifies' results equals the number of waits that returned ok.
pub fn as_many_waits_are_ok_as_were_notified<M: Machine>() {
    let machine = Arc::new(M::new(1, PAGES));
    let [ok, notified] = [const { AtomicU64::new(0) }; 2];
    let is_over = AtomicBool::new(false);
    let begin = Instant::now();
    run(&machine, |number| {
        if number == 0 {
            // On a busy host, runs until at least one wait has been notified.
            while begin.elapsed() < LENGTH || ok.load(Relaxed) == 0 {
                for address in [0, 8] {
                    notified.fetch_add(machine.notify(address, 2).expect("in bounds").into(), Relaxed);
                }
                std::thread::yield_now();
            }
            is_over.store(true, Relaxed);
            return;
        }
        for timeout in (0..).map(|round| round % 50 * 1_000) {
            let waited = if number == 1 { machine.wait64(8, 0, timeout) } else { machine.wait32(0, 0, timeout) };
            match waited.expect("in bounds") {
                Waited::Ok => _ = ok.fetch_add(1, Relaxed),
                Waited::TimedOut => {}
                Waited::NotEqual => panic!("the word does not change"),
            }
            if is_over.load(Relaxed) {
                break;
            }
        }
    });
    assert_eq!(ok.load(Relaxed), notified.load(Relaxed));
}
