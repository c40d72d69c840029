//! The contended lock with more threads than loom can explore: one holder at a time, and all sleepers are woken.
//!
//! Promise: lock handed over

use shuttle::sync::Arc;
use shuttle::thread;
use ufutex_shuttle::model::{Lock, PlatformRef};

use crate::support::{catches, check};

const THREADS: usize = 12;
const ROUNDS: usize = 3;

fn contenders() {
    let counter = Arc::new(Lock::new(PlatformRef::HOST, 0));
    let threads: Vec<_> = (0..THREADS)
        .map(|_| {
            let counter = counter.clone();
            thread::spawn(move || {
                for _ in 0..ROUNDS {
                    let mut guard = counter.lock();
                    let before = guard.with(|count| *count);
                    thread::yield_now();
                    guard.with(|count| *count = before + 1);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(counter.lock().with(|count| *count), THREADS * ROUNDS);
}

#[test]
fn contenders_exclude_each_other_and_end() {
    check(400, contenders);
}

catches!(lock_catches_unlock_skips_sleepers, UnlockSkipsSleepers, 400, contenders);
catches!(lock_catches_starving_leaves_mark, StarvingLeavesMark, 400, contenders);
catches!(lock_catches_grant_is_silent, GrantIsSilent, 400, contenders);
