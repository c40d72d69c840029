//! A mutex that parks, wanted by eight threads of which half give up, while the table is resized.
//!
//! The mutex is `parking_lot`'s: a bit says that threads are parked, and the last one to leave the queue takes the bit
//! away under the queue's lock. A thread that no unlock finds is parked for ever, which shuttle reports.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use shuttle::sync::Arc;
use shuttle::thread;
use ufutex_shuttle::model::{AtomicU32, Ordering::SeqCst, PlatformRef};
use ufutex_shuttle::parking::{Parked, ParkingLot};
use ufutex_shuttle::{Clock, System, SystemConfig, Timeout};

use crate::support::{catches, check};

const KEY: usize = 0x10c0;
const HELD: u32 = 1;
/// Threads are parked.
const PARKED: u32 = 2;
/// The token of an unpark that gives the mutex to the thread.
const HANDED: usize = 1;

struct Mutex {
    lot: ParkingLot,
    word: AtomicU32,
    /// How many threads have the mutex, by its own account.
    holders: AtomicUsize,
}

impl Mutex {
    fn new() -> Arc<Self> {
        let config = SystemConfig::new().cpus(1).global_slots(2).hash_seed(1).default_slots(2);
        let system = System::with_config(config).expect("the models' configuration is valid");
        Arc::new(Self { lot: ParkingLot::new(&system), word: AtomicU32::new(0), holders: AtomicUsize::new(0) })
    }

    fn replace(&self, old: u32, new: u32) -> bool {
        self.word.compare_exchange(old, new, SeqCst, SeqCst).is_ok()
    }

    /// Locks the mutex. `false` if the thread gives up.
    fn lock(&self, gives_up: bool) -> bool {
        let deadline = gives_up.then(|| PlatformRef::HOST.begin(Timeout::At(Clock::Monotonic, Duration::MAX)));
        loop {
            let word = self.word.load(SeqCst);
            if word & HELD == 0 {
                if self.replace(word, word | HELD) {
                    return true;
                }
                continue;
            }
            if word & PARKED == 0 && !self.replace(word, word | PARKED) {
                continue;
            }
            let validate = || self.word.load(SeqCst) == HELD | PARKED;
            let timed_out = |_, is_last| {
                if is_last {
                    self.word.fetch_and(!PARKED, SeqCst);
                }
            };
            match self.lot.park(KEY, 0, validate, drop, timed_out, deadline.as_ref()) {
                Parked::Unparked(HANDED) => return true,
                Parked::TimedOut => return false,
                Parked::Unparked(_) | Parked::Invalid => {}
            }
        }
    }

    fn unlock(&self, hands_over: bool) {
        if self.replace(HELD, 0) {
            return;
        }
        let mut queue = self.lot.lock(KEY);
        let hands_over = hands_over && !queue.is_empty();
        let others = if queue.has_several() { PARKED } else { 0 };
        self.word.store(others | if hands_over { HELD } else { 0 }, SeqCst);
        queue.unpark_first(if hands_over { HANDED } else { 0 });
    }
}

fn crowd() {
    let mutex = Mutex::new();
    let threads: Vec<_> = (0..8)
        .map(|number| {
            let mutex = mutex.clone();
            thread::spawn(move || {
                for round in 0..2 {
                    if mutex.lock(number % 2 == 0) {
                        assert_eq!(mutex.holders.fetch_add(1, Relaxed), 0, "two threads have the mutex");
                        thread::yield_now();
                        mutex.holders.fetch_sub(1, Relaxed);
                        mutex.unlock(round == 0);
                    }
                }
            })
        })
        .collect();
    for slots in [4, 0, 2] {
        mutex.lot.set_slots(slots).expect("a table can be made");
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(mutex.word.load(SeqCst), 0, "the mutex is held, or a thread is said to be parked");
    assert!(mutex.lot.lock(KEY).is_empty());
}

#[test]
fn a_mutex_that_parks_is_free_at_the_end() {
    check(2000, crowd);
}

catches!(parking_catches_park_lets_go, ParkLetsGo, 2000, crowd);
catches!(parking_catches_timed_out_unlocked, TimedOutUnlocked, 2000, crowd);
catches!(parking_catches_timeout_loses_wake, TimeoutLosesWake, 2000, crowd);
catches!(parking_catches_source_stays_live, SourceStaysLive, 2000, crowd);
// Few schedules take a waiter off between two pieces of a move.
catches!(parking_catches_timed_out_in_pieces, TimedOutInPieces, 16_000, crowd);
