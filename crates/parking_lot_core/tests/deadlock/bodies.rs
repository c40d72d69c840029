// Compiled once for each line. `core` is the line's package.

use crate::alone;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier, mpsc};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

/// A lock such as a user of the crate might write.
#[derive(Default)]
struct Lock {
    is_locked: AtomicBool,
}

impl Lock {
    fn key(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    fn lock(&self) {
        assert!(self.lock_until(None));
    }

    fn lock_until(&self, timeout: Option<Instant>) -> bool {
        while self.is_locked.swap(true, SeqCst) {
            let validate = || self.is_locked.load(SeqCst);
            // SAFETY: the key is the lock's own address, and the callbacks call nothing of the crate.
            let parked =
                unsafe { core::park(self.key(), validate, || {}, |_, _| {}, core::DEFAULT_PARK_TOKEN, timeout) };
            if parked == core::ParkResult::TimedOut {
                return false;
            }
        }
        // SAFETY: it is released by `unlock`.
        unsafe { core::deadlock::acquire_resource(self.key()) };
        true
    }

    fn unlock(&self) {
        // SAFETY: acquired by `lock`.
        unsafe { core::deadlock::release_resource(self.key()) };
        self.is_locked.store(false, SeqCst);
        // SAFETY: the key is the lock's own address.
        unsafe { core::unpark_one(self.key(), |_| core::DEFAULT_UNPARK_TOKEN) };
    }
}

/// The deadlocks that one check finds, each as its threads.
fn check() -> Vec<HashSet<ThreadId>> {
    let found = core::deadlock::check_deadlock();
    assert!(found.iter().flatten().all(|thread| !thread.backtrace().frames().is_empty()), "{found:?}");
    found.iter().map(|threads| threads.iter().map(core::deadlock::DeadlockedThread::thread_id).collect()).collect()
}

/// Checks until a deadlock is found.
fn find() -> Vec<HashSet<ThreadId>> {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let found = check();
        if !found.is_empty() {
            return found;
        }
        assert!(Instant::now() < until, "nothing is found");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Starts threads in a deadlock: each locks one lock and then the next one's. They block for good. Returns their IDs.
fn deadlock(threads: usize) -> HashSet<ThreadId> {
    let locks: Arc<Vec<Lock>> = Arc::new((0..threads).map(|_| Lock::default()).collect());
    let barrier = Arc::new(Barrier::new(threads));
    let spawn = |number: usize| {
        let (locks, barrier) = (locks.clone(), barrier.clone());
        let thread = std::thread::spawn(move || {
            locks[number].lock();
            barrier.wait();
            locks[(number + 1) % threads].lock();
            panic!("it cannot have that lock");
        });
        thread.thread().id()
    };
    (0..threads).map(spawn).collect()
}

fn assert_found(threads: usize) {
    alone(|| {
        assert!(check().is_empty());
        let deadlocked = deadlock(threads);
        assert_eq!(find(), [deadlocked]);
        assert!(check().is_empty(), "it is found once");
    });
}

#[test]
fn two_threads_that_wait_for_one_another_are_found() {
    assert_found(2);
}

#[test]
fn three_threads_in_a_circle_are_found() {
    assert_found(3);
}

#[test]
fn fifty_threads_in_a_circle_are_found() {
    assert_found(50);
}

#[test]
fn thread_that_waits_for_itself_is_found() {
    assert_found(1);
}

#[test]
fn two_deadlocks_are_reported_separately() {
    alone(|| {
        let deadlocked = [deadlock(2), deadlock(3)];
        let mut found = find();
        while found.len() < 2 {
            found.extend(find());
        }
        assert!(deadlocked.iter().all(|threads| found.contains(threads)), "{found:?} are not {deadlocked:?}");
    });
}

#[test]
fn a_thread_that_waits_for_a_deadlock_without_being_waited_for_is_not_in_it() {
    alone(|| {
        let (lock, barrier) = (Arc::new(Lock::default()), Arc::new(Barrier::new(2)));
        let spawn = |times: usize| {
            let (lock, barrier) = (lock.clone(), barrier.clone());
            let thread = std::thread::spawn(move || {
                for _ in 0..times {
                    lock.lock();
                    barrier.wait();
                }
            });
            thread.thread().id()
        };
        let owner = spawn(2); // waits for itself
        barrier.wait();
        spawn(1); // waits for it
        assert_eq!(find(), [HashSet::from([owner])]);
    });
}

#[test]
fn threads_that_wait_for_one_that_runs_are_no_deadlock() {
    alone(|| {
        let locks: Arc<[Lock; 3]> = Arc::default();
        let (say_ready, ready) = mpsc::channel();
        locks[2].lock();
        let threads: Vec<_> = (0..2)
            .map(|number| {
                let (locks, say_ready) = (locks.clone(), say_ready.clone());
                std::thread::spawn(move || {
                    locks[number].lock();
                    say_ready.send(()).expect("the receiver waits for it");
                    locks[number + 1].lock();
                    locks[number + 1].unlock();
                    locks[number].unlock();
                })
            })
            .collect();
        assert!((0..2).all(|_| ready.recv().is_ok()));
        for _ in 0..30 {
            assert!(check().is_empty());
            std::thread::sleep(Duration::from_millis(1));
        }
        locks[2].unlock();
        assert!(threads.into_iter().all(|thread| thread.join().is_ok()));
    });
}

#[test]
fn thread_with_a_timeout_is_in_no_deadlock() {
    alone(|| {
        let (locks, barrier): (Arc<[Lock; 2]>, _) = (Arc::default(), Arc::new(Barrier::new(2)));
        let spawn = |number: usize, timeout: Option<Duration>| {
            let (locks, barrier) = (locks.clone(), barrier.clone());
            std::thread::spawn(move || {
                locks[number].lock();
                barrier.wait();
                let has_both = locks[1 - number].lock_until(timeout.map(|timeout| Instant::now() + timeout));
                if has_both {
                    locks[1 - number].unlock();
                }
                locks[number].unlock();
                has_both
            })
        };
        let (waits, gives_up) = (spawn(0, None), spawn(1, Some(Duration::from_millis(100))));
        while !gives_up.is_finished() {
            assert!(check().is_empty());
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(check().is_empty());
        assert!(waits.join().expect("it does not panic"));
        assert!(!gives_up.join().expect("it does not panic"));
    });
}

/// Checks do not disturb running threads: the threads go on, and a lock has one owner at a time.
#[test]
fn nothing_is_found_among_busy_threads_that_lock_in_order() {
    const THREADS: usize = 6;
    alone(|| {
        let locks: [Lock; 4] = std::array::from_fn(|_| Lock::default());
        let (stop, inside) = (AtomicBool::new(false), [const { AtomicUsize::new(0) }; 4]);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (locks, stop, inside) = (&locks, &stop, &inside);
                scope.spawn(move || {
                    let mut round = thread;
                    while !stop.load(SeqCst) {
                        round += 1;
                        let (first, second) = (round % 3, round % 3 + 1);
                        for lock in [first, second] {
                            locks[lock].lock();
                            assert_eq!(inside[lock].fetch_add(1, SeqCst), 0, "one thread has a lock");
                        }
                        std::thread::yield_now();
                        for lock in [second, first] {
                            inside[lock].fetch_sub(1, SeqCst);
                            locks[lock].unlock();
                        }
                    }
                });
            }
            let until = Instant::now() + Duration::from_millis(300);
            let mut looks = 0;
            while Instant::now() < until {
                assert!(check().is_empty());
                looks += 1;
            }
            stop.store(true, SeqCst);
            assert!(looks > 10, "{looks} looks prove nothing");
        });
    });
}

/// Two threads lock two locks in the same order. The order changes with each turn, so they never deadlock. A detector
/// that saw one thread in one turn and the other in the next would see each own what the other waits for.
#[test]
fn waits_at_different_times_are_no_deadlock() {
    alone(|| {
        let (locks, turns): (Arc<[Lock; 2]>, _) = (Arc::default(), Arc::new(Barrier::new(2)));
        let until = Instant::now() + Duration::from_millis(400);
        let threads = [0, 1].map(|_| {
            let (locks, turns) = (locks.clone(), turns.clone());
            // Not scoped: a thread that the detector took for deadlocked would never end.
            std::thread::spawn(move || {
                let stop = |turn: usize| turn.is_multiple_of(64) && Instant::now() > until;
                for turn in 1.. {
                    let (first, second) = (&locks[turn % 2], &locks[1 - turn % 2]);
                    turns.wait();
                    first.lock();
                    second.lock();
                    first.unlock();
                    std::thread::yield_now();
                    let ends = stop(turn);
                    second.unlock();
                    if ends {
                        return;
                    }
                }
            })
        });
        while !threads.iter().any(std::thread::JoinHandle::is_finished) {
            let found = check();
            assert!(found.is_empty(), "{found:?}");
        }
    });
}
