//! A lock that many tasks want: some with a timeout, some as futures that are dropped, some that die as its owner.
//! Waiters of a condition are requeued to it. One task at a time has the lock. In the end it is free, or its last owner
//! has died.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};

use shuttle::sync::Arc;
use shuttle::sync::atomic::{AtomicU32, AtomicUsize, Ordering::SeqCst};
use shuttle::thread;
use ufutex_shuttle::{Clock, Error, Task, Timeout, WaitOptions, pi::TID_MASK};

use crate::support::{Word, World, catches, check};

const SOON: Option<Timeout> = Some(Timeout::At(Clock::Monotonic, std::time::Duration::MAX));

struct Locks {
    world: Arc<World>,
    condition: Word,
    /// The TID of the owner, as the owners record it. 0 means none.
    owner: AtomicU32,
    waiters_left: AtomicUsize,
}

impl Locks {
    fn word(&self) -> &Word {
        &self.world.words[0]
    }

    fn task(&self, tid: u32) -> Task {
        self.world.domain.task(tid).expect("the number is free")
    }

    /// The owner's work. No other task may do it at the same time.
    fn work(&self, task: &Task) {
        assert_eq!(self.word().value.load(SeqCst) & TID_MASK, task.tid(), "the word names the owner");
        assert_eq!(self.owner.swap(task.tid(), SeqCst), 0, "one at a time");
        thread::yield_now();
        assert_eq!(self.owner.swap(0, SeqCst), task.tid(), "one at a time");
    }

    fn work_and_unlock(&self, task: &Task) {
        self.work(task);
        loop {
            match self.world.domain.unlock_pi(self.word(), task) {
                Err(Error::Again) => thread::yield_now(),
                result => return assert_eq!(result, Ok(())),
            }
        }
    }

    /// A task wants the lock, in one of four ways.
    fn want(&self, tid: u32, way: u32) {
        let (task, domain) = (self.task(tid), &self.world.domain);
        match way % 4 {
            0 => match domain.lock_pi(self.word(), &task) {
                Ok(()) => self.work_and_unlock(&task),
                result => self.assert_owner_died(result),
            },
            1 => match domain.lock_pi_with(self.word(), &task, &WaitOptions::new().maybe_timeout(SOON)) {
                Ok(()) => self.work_and_unlock(&task),
                Err(Error::TimedOut) => {}
                result => self.assert_owner_died(result),
            },
            2 => {
                let mut future = pin!(domain.lock_pi_async(self.word(), &task, &WaitOptions::new()));
                if let std::task::Poll::Ready(Ok(())) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                    self.work_and_unlock(&task);
                }
                thread::yield_now();
            }
            _ => match domain.wait_requeue_pi(
                &self.condition,
                0,
                self.word(),
                &task,
                &WaitOptions::new().maybe_timeout(SOON),
            ) {
                Ok(()) => self.work_and_unlock(&task),
                Err(Error::TimedOut) => {}
                result => self.assert_owner_died(result),
            },
        }
        self.waiters_left.fetch_sub(1, SeqCst);
    }

    /// While the word names no living task, other tasks are refused.
    fn assert_owner_died(&self, result: Result<(), Error>) {
        assert!(matches!(result, Err(Error::NoTask | Error::Invalid)), "{result:?}");
    }

    /// Requeues the waiters of the condition.
    fn requeue(&self) {
        while self.waiters_left.load(SeqCst) != 0 {
            let moved = self.world.domain.cmp_requeue_pi(&self.condition, 0, self.word(), 1);
            assert!(matches!(moved, Ok(_) | Err(Error::NoTask | Error::Invalid)), "{moved:?}");
            thread::yield_now();
        }
    }
}

fn crowd(ways: &'static [u32], dies: bool) {
    let locks = Arc::new(Locks {
        world: World::new(),
        condition: Word::at(0x1080),
        owner: AtomicU32::new(0),
        waiters_left: AtomicUsize::new(ways.len()),
    });
    let first = locks.task(1);
    assert_eq!(locks.world.domain.lock_pi(locks.word(), &first), Ok(()));
    let threads: Vec<_> = ways
        .iter()
        .zip(2..)
        .map(|(&way, tid)| {
            let locks = locks.clone();
            thread::spawn(move || locks.want(tid, way))
        })
        .collect();
    let requeuer = {
        let locks = locks.clone();
        thread::spawn(move || locks.requeue())
    };
    locks.world.resize(&[4]);
    if dies {
        locks.work(&first);
    } else {
        locks.work_and_unlock(&first);
    }
    drop(first);
    locks.world.resize(&[2, 0]);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    requeuer.join().unwrap();
    let left = locks.word().value.load(SeqCst);
    assert!(left & TID_MASK == 0 || (dies && left & TID_MASK == 1), "the last owner has unlocked it: {left:#x}");
    let last = locks.task(9);
    if left == 0 {
        assert_eq!(locks.world.domain.lock_pi(locks.word(), &last), Ok(()), "nobody is queued");
    }
}

fn owner_unlocks() {
    crowd(&[0, 1, 2, 3, 0], false);
}

fn owner_dies() {
    crowd(&[0, 1, 2, 0, 3], true);
}

#[test]
fn one_of_many_has_the_lock() {
    check(300, owner_unlocks);
}

#[test]
fn a_lock_outlives_its_owner_in_a_crowd() {
    check(300, owner_dies);
}

catches!(pi_catches_hand_over_keeps_owner, HandOverKeepsOwner, 300, owner_unlocks);
catches!(pi_catches_death_notifies_nobody, DeathNotifiesNobody, 300, owner_dies);
catches!(pi_catches_heir_is_notified_first, HeirIsNotifiedFirst, 300, owner_dies);
catches!(pi_catches_timeout_loses_wake, TimeoutLosesWake, 300, owner_unlocks);
catches!(pi_catches_sleeper_forgets, SleeperForgets, 300, owner_unlocks);
