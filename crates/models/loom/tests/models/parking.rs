//! Locks that park: a mutex and a condition variable as in `parking_lot`, on the queues of `parking`.
//!
//! The interleavings looked for: a thread decides to park, and the unlock that it waits for comes between the decision
//! and the queue; a thread that times out tells the lock that nobody is parked although another thread has parked
//! meanwhile; a lock is handed to a thread that reports a timeout, or that is on its way to another queue. All that is
//! decided under the lock of the queue ([E]), and a thread that an unpark has taken waits for its token ([J]).

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use ufutex_loom::model::{AtomicU32, Ordering, PlatformRef};
use ufutex_loom::parking::{Filter, Parked, ParkingLot, PlaceRef};
use ufutex_loom::platform::Deadline;
use ufutex_loom::{System, SystemConfig};

use crate::support::{NEVER, OTHER, PAIR, TRIO, catches, check, check_pair, hangs};

const MUTEX: usize = 0x1000;
/// In the other bucket, in a table of two.
const CONDITION: usize = OTHER as usize;

const HELD: u32 = 1;
/// Threads are parked at `MUTEX`, or were.
const PARKED: u32 = 2;

/// The token of an unpark that gives the mutex to the thread.
const HANDED: usize = 1;
const WOKEN: usize = 2;

/// A mutex and what it guards. The mutex is `parking_lot`'s, without its spinning.
struct Shared {
    lot: ParkingLot,
    word: AtomicU32,
    data: UnsafeCell<u32>,
}

// SAFETY: the mutex guards the cell. Loom reports accesses that nothing orders.
unsafe impl Sync for Shared {}
// SAFETY: as above.
unsafe impl Send for Shared {}

/// How the mutex is given up if a thread is parked: it is handed over, or the thread is woken to try again.
#[derive(Clone, Copy)]
enum Unlock {
    HandsOver,
    Wakes,
}

fn some_time() -> Option<Deadline> {
    Some(PlatformRef::HOST.begin(NEVER))
}

impl Shared {
    fn new() -> Arc<Self> {
        let config = SystemConfig::new().cpus(1).global_slots(2).hash_seed(1).default_slots(2);
        let system = System::with_config(config).expect("the models' configuration is valid");
        let lot = ParkingLot::new(&system);
        lot.set_slots(2).expect("a table can be made");
        Arc::new(Self { lot, word: AtomicU32::new(0), data: UnsafeCell::new(0) })
    }

    fn replace(&self, old: u32, new: u32, order: Ordering) -> bool {
        self.word.compare_exchange(old, new, order, Ordering::Relaxed).is_ok()
    }

    /// Locks the mutex. `false` if the deadline has passed.
    fn lock(&self, deadline: Option<Deadline>) -> bool {
        loop {
            let word = self.word.load(Ordering::Relaxed);
            if word & HELD == 0 {
                if self.replace(word, word | HELD, Ordering::Acquire) {
                    return true;
                }
                continue;
            }
            if word & PARKED == 0 && !self.replace(word, word | PARKED, Ordering::Relaxed) {
                continue;
            }
            let validate = || self.word.load(Ordering::Relaxed) == HELD | PARKED;
            let timed_out = |_, is_last| {
                if is_last {
                    self.word.fetch_and(!PARKED, Ordering::Relaxed);
                }
            };
            match self.lot.park(MUTEX, 0, validate, drop, timed_out, deadline.as_ref()) {
                Parked::Unparked(HANDED) => return true,
                Parked::TimedOut => return false,
                Parked::Unparked(_) | Parked::Invalid => {}
            }
        }
    }

    fn unlock(&self, how: Unlock) {
        if self.replace(HELD, 0, Ordering::Release) {
            return;
        }
        let mut queue = self.lot.lock(MUTEX);
        let others = if queue.has_several() { PARKED } else { 0 };
        // `parking_lot` stores. Loom does not order a store behind an exchange of another thread that has read an older
        // value, so with stores it finds executions in which a thread parks on a value that was overwritten before.
        match how {
            Unlock::HandsOver if !queue.is_empty() => {
                // Relaxed: what this thread did is ordered before the next holder by the unpark.
                self.word.swap(HELD | others, Ordering::Relaxed);
                queue.unpark_first(HANDED);
            }
            _ => {
                self.word.swap(others, Ordering::Release);
                queue.unpark_first(WOKEN);
            }
        }
    }

    fn count(&self) {
        // SAFETY: the caller has locked the mutex.
        self.data.with_mut(|data| unsafe { *data += 1 });
    }

    fn lock_and_count(&self, deadline: Option<Deadline>, how: Unlock) -> bool {
        let is_locked = self.lock(deadline);
        if is_locked {
            self.count();
            self.unlock(how);
        }
        is_locked
    }

    /// Asserts that the mutex is free, and how often it has been locked.
    fn assert_ended(&self, counted: u32) {
        assert_eq!(self.word.load(Ordering::Relaxed) & HELD, 0, "the mutex is held, and no thread has it");
        // SAFETY: no other thread is left.
        assert_eq!(self.data.with(|data| unsafe { *data }), counted);
        assert!(self.lot.lock(MUTEX).is_empty() && self.lot.lock(CONDITION).is_empty());
    }
}

fn spawn<R: 'static>(shared: &Arc<Shared>, act: impl FnOnce(&Shared) -> R + 'static) -> thread::JoinHandle<R> {
    let shared = shared.clone();
    thread::spawn(move || act(&shared))
}

fn one_after_the_other(how: Unlock) {
    let shared = Shared::new();
    let other = spawn(&shared, move |shared| shared.lock_and_count(None, how));
    assert!(shared.lock_and_count(None, how) && other.join().unwrap());
    shared.assert_ended(2);
}

fn handed_over() {
    one_after_the_other(Unlock::HandsOver);
}

fn woken_to_try_again() {
    one_after_the_other(Unlock::Wakes);
}

/// The mutex is handed to a thread that gives up.
fn timeout_against_unlock() {
    let shared = Shared::new();
    assert!(shared.lock(None));
    let other = spawn(&shared, |shared| shared.lock_and_count(some_time(), Unlock::HandsOver));
    shared.unlock(Unlock::HandsOver);
    let counted = u32::from(other.join().unwrap());
    shared.assert_ended(counted);
}

/// A thread gives up, as another one parks.
fn timeout_against_park() {
    let shared = Shared::new();
    assert!(shared.lock(None));
    let gives_up = spawn(&shared, |shared| shared.lock_and_count(some_time(), Unlock::HandsOver));
    let stays = spawn(&shared, |shared| shared.lock_and_count(None, Unlock::HandsOver));
    shared.unlock(Unlock::HandsOver);
    assert!(stays.join().unwrap());
    let counted = 1 + u32::from(gives_up.join().unwrap());
    shared.assert_ended(counted);
}

/// The table grows while the mutex is wanted.
fn growth() {
    let shared = Shared::new();
    assert!(shared.lock(None));
    let other = spawn(&shared, |shared| shared.lock_and_count(None, Unlock::HandsOver));
    let mover = spawn(&shared, |shared| shared.lot.set_slots(4).expect("a table can be made"));
    shared.unlock(Unlock::HandsOver);
    assert!(other.join().unwrap());
    mover.join().unwrap();
    shared.assert_ended(1);
}

/// Two threads are moved to the global table or back, one after the other, and one of them gives up meanwhile. The other
/// one is parked all the time: it makes the move before it sleeps. `goes_behind`: it lets the first be before it.
fn timeout_against_move(slots: [usize; 2], goes_behind: bool) {
    let shared = Shared::new();
    shared.lot.set_slots(slots[0]).expect("a table can be made");
    // Without loom's atomics: set when the thread is parked at the key for good.
    let is_parked = std::sync::Arc::new(AtomicBool::new(!goes_behind));
    let sees = is_parked.clone();
    let not_last = move |_, is_last: bool| assert!(!(is_last && sees.load(Relaxed)), "the other thread is parked");
    let move_both = |_| {
        let gives_up = spawn(&shared, |shared| {
            shared.lot.park(MUTEX, 0, || true, drop, not_last, some_time().as_ref());
        });
        if goes_behind {
            shared.lot.lock_both(CONDITION, MUTEX).unpark_and_requeue(false, 1, WOKEN);
            is_parked.store(true, Relaxed);
        }
        shared.lot.set_slots(slots[1]).expect("a table can be made");
        gives_up.join().unwrap();
        assert_eq!(shared.lot.lock(MUTEX).unpark_all(WOKEN), 1);
    };
    let key = if goes_behind { CONDITION } else { MUTEX };
    assert_eq!(shared.lot.park(key, 0, || true, move_both, |_, _| (), None), Parked::Unparked(WOKEN));
    shared.assert_ended(0);
}

/// The first thread of the queue is moved, and gives up before the second is.
fn timeout_on_the_way_to_the_global_table() {
    timeout_against_move([2, 0], true);
}

/// The first thread of the queue is moved, and the second gives up before it is.
fn timeout_on_the_way_back() {
    timeout_against_move([0, 2], false);
}

/// A thread waits for a condition, and the thread that signals it moves the waiter to the mutex that it holds itself.
fn moved_to_the_mutex(deadline: fn() -> Option<Deadline>) {
    let shared = Shared::new();
    assert!(shared.lock(None));
    let signals = spawn(&shared, |shared| {
        assert!(shared.lock(None));
        let mut queues = shared.lot.lock_both(CONDITION, MUTEX);
        let found = queues.count(1);
        // As `parking_lot` does: this thread has the mutex, so that the word stays held until the waiter is there.
        shared.word.fetch_or(PARKED, Ordering::Relaxed);
        queues.unpark_and_requeue(false, found, WOKEN);
        shared.unlock(Unlock::HandsOver);
        found
    });
    let unlock = |_| shared.unlock(Unlock::HandsOver);
    let mut timed_out_at = 0;
    let deadline = deadline();
    let parked = shared.lot.park(CONDITION, 0, || true, unlock, |key, _| timed_out_at = key, deadline.as_ref());
    match parked {
        Parked::Unparked(token) => assert_eq!((token, timed_out_at), (HANDED, 0)),
        Parked::TimedOut => {
            assert!([CONDITION, MUTEX].contains(&timed_out_at));
            assert!(shared.lock(None));
        }
        Parked::Invalid => panic!("it was valid"),
    }
    shared.count();
    shared.unlock(Unlock::HandsOver);
    let found = signals.join().unwrap();
    assert!(found == 1 || parked == Parked::TimedOut);
    assert!(timed_out_at != MUTEX || found == 1);
    shared.assert_ended(1);
}

fn moved_and_handed_over() {
    moved_to_the_mutex(|| None);
}

fn moved_against_timeout() {
    moved_to_the_mutex(some_time);
}

/// Threads are unparked by their tokens, all at once, against timeouts.
fn picked_against_timeout() {
    let shared = Shared::new();
    let park = |token: usize| {
        spawn(&shared, move |shared| {
            shared.lot.park(MUTEX, token, || true, drop, |_, _| (), some_time().as_ref()) == Parked::Unparked(WOKEN)
        })
    };
    let (first, second) = (park(1), park(2));
    let mut queue = shared.lot.lock(MUTEX);
    let filtered = queue.filter(|token| if token == 1 { Filter::Unpark } else { Filter::Skip });
    queue.unpark_picked(filtered, WOKEN);
    let all = shared.lot.lock(MUTEX).unpark_all(WOKEN);
    let unparked = [first, second].map(|thread| usize::from(thread.join().unwrap()));
    assert_eq!(filtered.picked + all, unparked.iter().sum());
    assert!(filtered.picked <= unparked[0]);
    shared.assert_ended(0);
}

/// A place that a thread has named in `before_sleep`, until it returns.
struct Named<'p>(&'p loom::sync::Mutex<Option<PlaceRef>>);

impl Drop for Named<'_> {
    fn drop(&mut self) {
        self.0.lock().unwrap().take();
    }
}

/// One certain thread is unparked, wherever it is, against its timeout.
fn place_against_timeout() {
    let shared = Shared::new();
    let named = Arc::new(loom::sync::Mutex::new(None));
    let names = named.clone();
    let parks = spawn(&shared, move |shared| {
        let name = |place| {
            names.lock().unwrap().replace(place);
            Named(&names)
        };
        shared.lot.park(MUTEX, 0, || true, name, |_, _| (), some_time().as_ref())
    });
    let unparked = named.lock().unwrap().is_some_and(|place| {
        // SAFETY: the thread takes the name back before it leaves, which needs the lock that this thread holds.
        unsafe { shared.lot.unpark_place(place, WOKEN) }
    });
    assert_eq!(parks.join().unwrap(), if unparked { Parked::Unparked(WOKEN) } else { Parked::TimedOut });
}

#[test]
fn a_mutex_that_is_handed_over_is_held_by_one_thread() {
    check_pair(handed_over);
}

#[test]
fn a_mutex_that_is_given_up_is_taken_by_one_thread() {
    check_pair(woken_to_try_again);
}

#[test]
fn a_thread_has_timed_out_or_the_mutex() {
    check_pair(timeout_against_unlock);
}

#[test]
fn a_timeout_leaves_no_other_thread_behind() {
    check_pair(timeout_against_park);
}

#[test]
fn a_timeout_during_a_move_in_pieces_sees_the_other_thread() {
    check_pair(timeout_on_the_way_to_the_global_table);
    check_pair(timeout_on_the_way_back);
}

#[test]
fn a_parked_thread_moves_to_a_larger_table() {
    check(growth);
}

#[test]
fn a_thread_that_is_moved_to_the_mutex_gets_it() {
    check_pair(moved_and_handed_over);
    check_pair(moved_against_timeout);
}

#[test]
fn threads_that_are_picked_are_unparked() {
    check(picked_against_timeout);
}

#[test]
fn a_place_is_unparked_or_has_timed_out() {
    check_pair(place_against_timeout);
}

catches!(parking_catches_park_lets_go, ParkLetsGo, PAIR, woken_to_try_again);
catches!(parking_catches_unpark_token_late, UnparkTokenLate, PAIR, handed_over);
catches!(parking_catches_unlock_relaxed, UnlockRelaxed, PAIR, timeout_against_park);
catches!(parking_catches_timeout_loses_wake, TimeoutLosesWake, PAIR, timeout_against_unlock);
catches!(parking_pick_catches_timeout_loses_wake, TimeoutLosesWake, TRIO, picked_against_timeout);
catches!(parking_place_catches_timeout_loses_wake, TimeoutLosesWake, PAIR, place_against_timeout);
catches!(parking_catches_timed_out_unlocked, TimedOutUnlocked, PAIR, timeout_against_park);
catches!(parking_catches_cancel_skips_recheck, CancelSkipsRecheck, PAIR, moved_against_timeout);
catches!(parking_catches_requeue_lets_go, RequeueLetsGo, PAIR, moved_against_timeout);
hangs!(parking_hangs_with_source_stays_live, SourceStaysLive, TRIO, growth);
catches!(parking_catches_timed_out_in_pieces, TimedOutInPieces, PAIR, timeout_on_the_way_to_the_global_table);
catches!(parking_catches_timed_out_in_pieces_on_the_way_back, TimedOutInPieces, PAIR, timeout_on_the_way_back);
