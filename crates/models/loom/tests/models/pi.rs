//! A lock is handed over, against everything that can happen to the owner and the waiter: another task's fast path, a
//! timeout, a drop, the death of the owner.
//!
//! What must hold: one task at a time has the lock (loom watches a cell), the word names it, no waiter of the lock is
//! forgotten, and in the end none is queued. While no task waits, the word alone names the owner. Once WAITERS
//! is set, the bucket and the graph decide, and the owner must lock them ([E]). A waiter is notified ([N]) after it can
//! see what it has to do ([O]).

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use ufutex_loom::{
    Cause, Domain, Error, Task, Timeout, WaitOptions,
    pi::{OWNER_DIED, Priority, TID_MASK, WAITERS},
};

use crate::support::{NEVER, PAIR, Word, World, catches, check_pair, hangs};

struct Locks {
    world: Arc<World>,
    /// Guarded by the lock.
    guarded: UnsafeCell<u32>,
}

impl Locks {
    fn new() -> Arc<Self> {
        Arc::new(Self { world: World::with_slots(2), guarded: UnsafeCell::new(0) })
    }

    fn task(&self, tid: u32) -> Task {
        self.world.domain.task(tid).expect("the number is free")
    }

    fn word(&self) -> &Word {
        &self.world.word
    }

    fn lock(&self, task: &Task) {
        assert_eq!(self.world.domain.lock_pi(self.word(), task), Ok(()));
        self.work(task);
    }

    /// The owner's work. Loom detects a second owner.
    fn work(&self, task: &Task) {
        assert_eq!(self.word().value() & TID_MASK, task.tid(), "the word names the owner");
        self.guarded.with_mut(|count| {
            // SAFETY: this task has the lock. The model checks that.
            unsafe { *count += 1 };
        });
    }

    fn unlock(&self, task: &Task) {
        unlock(&self.world.domain, self.word(), task);
    }

    fn assert_free(&self, locked: u32) {
        assert_eq!(self.word().value(), 0);
        // SAFETY: no task has the lock any more.
        assert_eq!(self.guarded.with(|count| unsafe { *count }), locked);
        assert_eq!(self.world.domain.try_wake_bitset(self.word(), 9, std::num::NonZeroU32::MAX), Ok(0), "nobody waits");
    }
}

/// Unlocks. `Again` means that WAITERS was set meanwhile: the caller tries again.
fn unlock(domain: &Domain, word: &Word, task: &Task) {
    loop {
        match domain.unlock_pi(word, task) {
            Err(Error::Again) => {}
            result => return assert_eq!(result, Ok(())),
        }
    }
}

/// A model does not wait for this: see [`some_time`](crate::support::some_time).
const SOON: Option<Timeout> = Some(NEVER);

fn poll(future: Pin<&mut impl Future<Output = Result<(), Error>>>) -> Poll<Result<(), Error>> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Two tasks lock and unlock.
fn lock_against_lock() {
    let locks = Locks::new();
    let (one, two) = (locks.task(1), locks.task(2));
    let other = {
        let locks = locks.clone();
        thread::spawn(move || {
            locks.lock(&two);
            locks.unlock(&two);
        })
    };
    locks.lock(&one);
    locks.unlock(&one);
    other.join().unwrap();
    locks.assert_free(2);
}

/// The waiter gives up while the lock is handed to it. Either it gets the lock, or the owner's unlock frees it.
fn timeout_against_unlock() {
    let locks = Locks::new();
    let (one, two) = (locks.task(1), locks.task(2));
    locks.lock(&one);
    let waiter = {
        let locks = locks.clone();
        thread::spawn(move || {
            match locks.world.domain.lock_pi_with(locks.word(), &two, &WaitOptions::new().maybe_timeout(SOON)) {
                Ok(()) => {
                    locks.work(&two);
                    locks.unlock(&two);
                    1
                }
                result => {
                    assert_eq!(result, Err(Error::TimedOut));
                    0
                }
            }
        })
    };
    locks.unlock(&one);
    let locked = waiter.join().unwrap();
    locks.assert_free(1 + locked);
}

/// The owner dies while a task comes to wait. The waiter inherits the lock, or finds that there is no such owner.
fn death_against_lock() {
    let locks = Locks::new();
    let (one, two) = (locks.task(1), locks.task(2));
    locks.lock(&one);
    let waiter = {
        let locks = locks.clone();
        thread::spawn(move || match locks.world.domain.lock_pi(locks.word(), &two) {
            Ok(()) => {
                assert_eq!(locks.word().value(), 2 | WAITERS | OWNER_DIED);
                locks.work(&two);
                locks.unlock(&two);
            }
            result => {
                assert_eq!(result, Err(Error::NoTask));
                assert_eq!(locks.word().value(), 1 | WAITERS, "nobody puts the word of a task right that is gone");
                locks.word().store(0);
                // SAFETY: the owner is gone, and no other task uses the lock.
                locks.guarded.with_mut(|count| unsafe { *count += 1 });
            }
        })
    };
    drop(one);
    waiter.join().unwrap();
    locks.assert_free(2);
}

/// How the first of two waiters leaves.
#[derive(Clone, Copy, PartialEq)]
enum Leaves {
    Drops,
    TimesOut,
}

/// The owner unlocks or dies while the first of two waiters leaves. The first waiter gets the lock or is passed over,
/// and in the end the second gets it.
fn owner_against_leaver(owner_dies: bool, leaves: Leaves) {
    let locks = Locks::new();
    let (one, two, three) = (locks.task(1), locks.task(2), locks.task(3));
    locks.lock(&one);
    let domain = &locks.world.domain;
    let mut first = Box::pin(domain.lock_pi_async(locks.word(), &two, &WaitOptions::new()));
    let mut second = pin!(domain.lock_pi_async(locks.word(), &three, &WaitOptions::new()));
    assert!(poll(first.as_mut()).is_pending() && poll(second.as_mut()).is_pending());
    let owner = {
        let locks = locks.clone();
        thread::spawn(move || {
            if !owner_dies {
                locks.unlock(&one);
            }
            // Otherwise the task ends here as the owner of the lock.
        })
    };
    if leaves == Leaves::TimesOut {
        match first.as_mut().end(Cause::TimedOut) {
            Ok(()) => {
                locks.work(&two);
                locks.unlock(&two);
            }
            result => assert_eq!(result, Err(Error::TimedOut)),
        }
    }
    drop(first);
    owner.join().unwrap();
    assert_eq!(poll(second.as_mut()), Poll::Ready(Ok(())), "the lock is the second waiter's");
    locks.work(&three);
    locks.unlock(&three);
    assert!(can_lock_at_once(&locks, &two));
}

/// Whether a task can lock at once when all others have finished.
fn can_lock_at_once(locks: &Locks, task: &Task) -> bool {
    locks.world.domain.try_lock_pi(locks.word(), task) == Ok(()) && locks.word().value() == task.tid()
}

/// A task comes for a lock whose owner is dying and whose heir has not updated the word. The task may be refused,
/// because the word names no living task, and must not take anything from the heir.
fn death_against_newcomer() {
    let locks = Locks::new();
    let (one, two, three) = (locks.task(1), locks.task(2), locks.task(3));
    locks.lock(&one);
    let mut heir = pin!(locks.world.domain.lock_pi_async(locks.word(), &two, &WaitOptions::new()));
    assert!(poll(heir.as_mut()).is_pending());
    let newcomer = {
        let locks = locks.clone();
        thread::spawn(move || {
            let result = poll(pin!(locks.world.domain.lock_pi_async(locks.word(), &three, &WaitOptions::new())));
            assert!(matches!(result, Poll::Pending | Poll::Ready(Err(Error::Invalid))), "{result:?}");
        })
    };
    drop(one);
    assert_eq!(poll(heir.as_mut()), Poll::Ready(Ok(())));
    locks.work(&two);
    newcomer.join().unwrap();
    assert_eq!(locks.word().value(), 2 | WAITERS | OWNER_DIED);
    locks.unlock(&two);
    locks.assert_free(2);
}

fn requeue_against_timeout_then_unlock() {
    requeue_against_timeout(true);
}

fn unlock_against_drop() {
    owner_against_leaver(false, Leaves::Drops);
}

fn unlock_against_timeout() {
    owner_against_leaver(false, Leaves::TimesOut);
}

fn death_against_drop() {
    owner_against_leaver(true, Leaves::Drops);
}

fn death_against_timeout() {
    owner_against_leaver(true, Leaves::TimesOut);
}

/// A requeue gives a waiter a free lock, and the waiter is dropped. Another task waits for that lock, and leaves.
fn requeue_against_drop_and_timeout() {
    let locks = Locks::new();
    let (one, two) = (locks.task(1), locks.task(2));
    let domain = &locks.world.domain;
    let other = {
        let locks = locks.clone();
        thread::spawn(move || {
            match locks.world.domain.lock_pi_with(locks.word(), &two, &WaitOptions::new().maybe_timeout(SOON)) {
                Ok(()) => locks.unlock(&two),
                result => assert_eq!(result, Err(Error::TimedOut)),
            }
        })
    };
    let mut wait =
        Box::pin(domain.wait_requeue_pi_async(&locks.world.other, 0, locks.word(), &one, &WaitOptions::new()));
    assert!(poll(wait.as_mut()).is_pending());
    assert_eq!(domain.cmp_requeue_pi(&locks.world.other, 0, locks.word(), 0), Ok(1));
    drop(wait);
    other.join().unwrap();
    assert_eq!(locks.word().value(), 0, "a task that has not been told that it owns the lock does");
}

/// A waiter gives up while it is requeued to a lock. The lock's owner unlocks then, or only after the waiter has left.
fn requeue_against_timeout(unlocks_late: bool) {
    let locks = Locks::new();
    let (one, two) = (locks.task(1), locks.task(2));
    locks.lock(&one);
    let waiter = {
        let locks = locks.clone();
        thread::spawn(move || {
            match locks.world.domain.wait_requeue_pi(
                &locks.world.other,
                0,
                locks.word(),
                &two,
                &WaitOptions::new().maybe_timeout(SOON),
            ) {
                Ok(()) => {
                    locks.work(&two);
                    locks.unlock(&two);
                    1
                }
                result => {
                    assert_eq!(result, Err(Error::TimedOut));
                    0
                }
            }
        })
    };
    let moved = locks.world.domain.cmp_requeue_pi(&locks.world.other, 0, locks.word(), 0).expect("states are valid");
    if !unlocks_late {
        locks.unlock(&one);
    }
    let locked = waiter.join().unwrap();
    assert!(locked as usize <= moved && !(unlocks_late && locked == 1));
    if unlocks_late {
        locks.unlock(&one);
    }
    locks.assert_free(1 + locked);
}

/// A waiter leaves, and finds the graph busy. When it has that, and tries the bucket, the queue moves out of the global table.
fn drop_against_graph_then_move() {
    let world = World::with_slots(0);
    let [one, two] = [1, 2].map(|tid| world.domain.task(tid).expect("the number is free"));
    assert_eq!(world.domain.lock_pi(&world.word, &one), Ok(()));
    let mut wait = Box::pin(world.domain.lock_pi_async(&world.word, &two, &WaitOptions::new()));
    assert_eq!(poll(wait.as_mut()), Poll::Pending);
    let mover = {
        let world = world.clone();
        thread::spawn(move || {
            one.set_priority(Priority::realtime(3));
            world.domain.set_slots(2).expect("a table can be made");
            one
        })
    };
    drop(wait);
    let one = mover.join().unwrap();
    unlock(&world.domain, &world.word, &one);
    assert_eq!(world.word.value(), 0);
    assert_eq!(world.domain.try_wake_bitset(&world.word, 9, std::num::NonZeroU32::MAX), Ok(0), "nobody waits");
}

#[test]
fn a_waiter_leaves_while_its_queue_moves() {
    check_pair(drop_against_graph_then_move);
}

#[test]
fn one_at_a_time_has_the_lock() {
    check_pair(lock_against_lock);
}

#[test]
fn a_lock_is_handed_over_or_freed() {
    check_pair(timeout_against_unlock);
    check_pair(unlock_against_drop);
    check_pair(unlock_against_timeout);
}

#[test]
fn a_lock_outlives_its_owner() {
    check_pair(death_against_lock);
    check_pair(death_against_drop);
    check_pair(death_against_timeout);
    check_pair(death_against_newcomer);
}

#[test]
fn a_requeued_waiter_has_the_lock_or_does_not() {
    check_pair(|| requeue_against_timeout(false));
    check_pair(requeue_against_timeout_then_unlock);
}

#[test]
fn a_lock_that_nobody_was_told_of_is_given_back() {
    check_pair(requeue_against_drop_and_timeout);
}

catches!(pi_catches_hand_over_keeps_owner, HandOverKeepsOwner, PAIR, lock_against_lock);
catches!(pi_catches_lock_hides_waiter, LockHidesWaiter, PAIR, lock_against_lock);
catches!(pi_catches_unlock_trusts_emptiness_check, UnlockTrustsEmptinessCheck, PAIR, lock_against_lock);
catches!(pi_catches_sleeper_forgets, SleeperForgets, PAIR, lock_against_lock);
catches!(pi_catches_notify_relaxed, NotifyRelaxed, PAIR, lock_against_lock);
catches!(pi_catches_notify_looks_first, NotifyLooksFirst, PAIR, lock_against_lock);
catches!(pi_catches_spinner_stays_marked, SpinnerStaysMarked, PAIR, lock_against_lock);
catches!(pi_catches_timeout_loses_wake, TimeoutLosesWake, PAIR, timeout_against_unlock);
catches!(pi_catches_heir_leaves_by_drop, HeirLeaves, PAIR, death_against_drop);
catches!(pi_catches_heir_leaves_by_timeout, HeirLeaves, PAIR, death_against_timeout);
catches!(pi_catches_death_notifies_nobody, DeathNotifiesNobody, PAIR, death_against_lock);
catches!(pi_catches_heir_is_notified_first, HeirIsNotifiedFirst, PAIR, death_against_lock);
catches!(pi_catches_drop_keeps_lock, DropKeepsLock, PAIR, requeue_against_drop_and_timeout);
catches!(pi_catches_cancel_skips_recheck, CancelSkipsRecheck, PAIR, requeue_against_timeout_then_unlock);
hangs!(pi_requeue_hangs_with_requeue_shows_taken, RequeueShowsTaken, PAIR, requeue_against_timeout_then_unlock);
