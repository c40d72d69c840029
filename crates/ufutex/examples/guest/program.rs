//! User space: what the guest's threads run. Its instructions reach words by address, and `futex` is a system call.

use super::Thread;
use std::sync::atomic::Ordering::SeqCst;
use ufutex::pi::{Priority, TID_MASK};

const WAIT: u64 = 128; // FUTEX_WAIT | FUTEX_PRIVATE_FLAG
const WAKE: u64 = 129;
const LOCK_PI: u64 = 134;
const UNLOCK_PI: u64 = 135;

const MUTEX: u64 = 0x1000;
const SUM: u64 = 0x1004;
const DOOR: u64 = 0x1008;
const FILE: u64 = 0x100c;
const HOLE: u64 = 0x2000;
const BELL: u64 = 0x3000;

/// Adds to a sum under a mutex, and then waits at a barrier until the sum is 3.
///
/// The mutex: 0 is free, 1 locked, 2 locked and perhaps waited for. Only of the last one the kernel hears.
pub async fn adder(thread: Thread<'_>) {
    let (mutex, sum, door) = (thread.word(MUTEX), thread.word(SUM), thread.word(DOOR));
    if mutex.compare_exchange(0, 1, SeqCst, SeqCst).is_err() {
        while mutex.swap(2, SeqCst) != 0 {
            thread.futex(MUTEX, WAIT, 2).await;
        }
    }
    let before = sum.load(SeqCst);
    thread.lose_the_cpu().await; // the worst moment
    sum.store(before + 1, SeqCst);
    if mutex.swap(0, SeqCst) == 2 {
        thread.futex(MUTEX, WAKE, 1).await;
    }

    if before + 1 == 3 {
        door.store(1, SeqCst);
        thread.futex(DOOR, WAKE, i32::MAX as u64).await;
    }
    while door.load(SeqCst) == 0 {
        thread.futex(DOOR, WAIT, 0).await;
    }
    thread.says(&format!("the sum is {}", sum.load(SeqCst)));
}

/// Locks a file without a system call, and unlocks it with one, since somebody waits by then.
pub async fn owner(thread: Thread<'_>) {
    thread.word(FILE).store(thread.tid, SeqCst);
    thread.lose_the_cpu().await;
    thread.says(&format!("the file is mine, my priority is {}", thread.priority()));
    thread.futex(FILE, UNLOCK_PI, 0).await;
    thread.says(&format!("my priority is {}", thread.priority()));
}

/// Wants the file, and is more important than its owner.
pub async fn urgent(thread: Thread<'_>) {
    thread.task().set_priority(Priority::realtime(50));
    thread.futex(FILE, LOCK_PI, 0).await;
    thread.says(&format!("the file is {}'s", thread.word(FILE).load(SeqCst) & TID_MASK));
}

/// Waits in a page that nobody has touched before.
pub async fn sleeper(thread: Thread<'_>) {
    thread.futex(BELL, WAIT, 0).await;
    thread.says("good morning");
}

/// Disturbs the sleeper, then wakes it; and tries a page that there is not.
pub async fn ringer(thread: Thread<'_>, sleeper: u32) {
    thread.says(&format!("a signal to {sleeper}"));
    thread.kernel.signal(sleeper);
    thread.lose_the_cpu().await;
    thread.word(BELL).store(1, SeqCst);
    thread.futex(BELL, WAKE, 1).await;
    thread.futex(HOLE, WAKE, 1).await; // touches no memory
    thread.futex(HOLE, WAIT, 0).await; // EFAULT
}
