//! futex(2), which is the oracle.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use ufutex_linear::Stopwatch;

use crate::common::asleep::thread_id;
use crate::common::kernel::{lacks_priorities, now, pointer, set_priority, syscall};
use crate::common::libc;
use crate::common::skipped::skip;
use crate::generate::Theme;
use crate::ops::Op;
use crate::run::{Outcome, Target, random_histories_are_linearizable};
use crate::words::Words;

const LOCK_PI2: i32 = 13;

struct Kernel {
    /// How many more times the table's size may be changed. Each time takes the kernel some twenty milliseconds.
    resizes: AtomicUsize,
}

/// One program of this many resizes the kernel's table, once.
const RESIZE_EACH: u64 = 100;

/// A point in time this many microseconds from now, on the monotonic clock.
fn deadline(timeout: Option<u32>) -> Option<libc::timespec> {
    let at = now(libc::CLOCK_MONOTONIC) + Duration::from_micros(timeout?.into());
    Some(libc::timespec { tv_sec: at.as_secs() as libc::time_t, tv_nsec: at.subsec_nanos().into() })
}

impl Target for Kernel {
    fn tid(&self, _: usize) -> u32 {
        thread_id().cast_unsigned()
    }

    fn begin(&self, priority: u8) {
        // Before, while the threads wait for each other, one with a priority would not let the others run.
        if priority > 0 {
            set_priority(0, priority).expect("it is permitted");
        }
    }

    fn call(&self, _: usize, op: &Op, words: &Words, _: Stopwatch) -> Outcome {
        let word = |word: usize| pointer(words.word(word));
        let time = match *op {
            Op::Wait { timeout, .. } | Op::Lock { timeout, .. } => deadline(timeout),
            _ => None,
        };
        let until = time.as_ref().map_or(0, |time| pointer(time));
        let (cmd, args) = match *op {
            Op::Wait { word: of, expected, bitset, .. } => {
                (libc::FUTEX_WAIT_BITSET, [word(of), expected.into(), until, 0, bitset.into()])
            }
            Op::Wake { word: of, count, bitset } => {
                (libc::FUTEX_WAKE_BITSET, [word(of), count as u64, 0, 0, bitset.into()])
            }
            Op::WakeOp { words, counts, value, old } => {
                let encoded = crate::spec::wake_op(value, old);
                (libc::FUTEX_WAKE_OP, [word(words[0]), counts[0] as u64, counts[1] as u64, word(words[1]), encoded])
            }
            Op::Requeue { from, to, expected, wake, requeue } => {
                let cmd = if expected.is_some() { libc::FUTEX_CMP_REQUEUE } else { libc::FUTEX_REQUEUE };
                (cmd, [word(from), wake as u64, requeue as u64, word(to), expected.unwrap_or(0).into()])
            }
            Op::Lock { word: of, .. } => (LOCK_PI2, [word(of), 0, until, 0, 0]),
            Op::TryLock(of) => (libc::FUTEX_TRYLOCK_PI, [word(of), 0, 0, 0, 0]),
            Op::Unlock(of) => (libc::FUTEX_UNLOCK_PI, [word(of), 0, 0, 0, 0]),
            Op::Load(_) | Op::Swap(..) | Op::Store(..) | Op::LockFast(_) | Op::UnlockFast(_) => {
                unreachable!("{op:?} is no system call")
            }
        };
        let [first, value, time, second, value3] = args;
        let args = [first, (cmd | libc::FUTEX_PRIVATE_FLAG) as u64, value, time, second, value3];
        loop {
            // SAFETY: the words and the time outlive the call, which writes to nothing but words.
            let result = unsafe { syscall(libc::SYS_futex, args) } as i64;
            // The kernel reads a lock's word before it locks the bucket. If a thread has set the bit of waiters since,
            // it leaves the lock as it is, for the caller to try again.
            if !matches!(op, Op::Unlock(_)) || result != -i64::from(libc::EAGAIN) {
                return result.into();
            }
        }
    }

    fn resize(&self, slots: usize) {
        const PR_FUTEX_HASH: u64 = 78;
        const SET_SLOTS: u64 = 1;
        // A kernel before 6.16 refuses it. 0 slots would stay for the rest of the process's life.
        if slots > 0 && self.resizes.swap(0, Relaxed) > 0 {
            // SAFETY: it touches no memory of this process.
            let _refused = unsafe { syscall(libc::SYS_prctl, [PR_FUTEX_HASH, SET_SLOTS, slots as u64, 0, 0, 0]) };
        }
    }
}

#[test]
fn histories_of_the_kernel_are_linearizable() {
    let mut themes = vec![Theme::Waits, Theme::OrderedLocks];
    match lacks_priorities() {
        None => themes.push(Theme::Priorities),
        Some(reason) => skip(format_args!("histories with real-time priorities: {reason}")),
    }
    random_histories_are_linearizable("histories_of_the_kernel", &themes, &|number, _| {
        Box::new(Kernel { resizes: AtomicUsize::new((number.is_multiple_of(RESIZE_EACH)).into()) })
    });
}
