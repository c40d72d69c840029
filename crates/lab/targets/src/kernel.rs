//! The host's kernel: futex(2) by `syscall`, as in perf, and prctl(PR_FUTEX_HASH) for the size of its hash.

use super::{Futex, Shape, Target, Waited};
use crate::Policy;
use lab_terminal::stderr;
use std::io::Error;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// `PR_FUTEX_HASH`, which `libc` does not have yet.
const PR_FUTEX_HASH: libc::c_int = 78;
const PR_FUTEX_HASH_SET_SLOTS: libc::c_ulong = 1;
const PR_FUTEX_HASH_GET_SLOTS: libc::c_ulong = 2;

/// futex(2). A process has one private hash, so all instances share it.
pub struct Kernel {
    /// `FUTEX_PRIVATE_FLAG`, or 0 for shared futexes.
    private_flag: libc::c_int,
    slots: Option<usize>,
}

impl Kernel {
    /// A fixed policy sets this many slots. With any other policy the kernel sizes its hash by its own rule.
    pub fn new(shape: &Shape) -> Kernel {
        let slots = match shape.policy {
            Policy::Fixed(slots) if !shape.shared && has_private_hash() => Some(slots),
            _ => None,
        };
        Kernel { private_flag: if shape.shared { 0 } else { libc::FUTEX_PRIVATE_FLAG }, slots }
    }
}

/// Whether this kernel has PR_FUTEX_HASH (Linux 6.16 and later, [futex-hash-prctl]).
pub fn has_private_hash() -> bool {
    slots_now().is_some()
}

/// Number of slots of this process. 0: it uses the global hash, or has none yet. `None`: no PR_FUTEX_HASH.
fn slots_now() -> Option<usize> {
    // SAFETY: GET_SLOTS takes numbers only and changes nothing.
    let slots = unsafe { libc::prctl(PR_FUTEX_HASH, PR_FUTEX_HASH_GET_SLOTS, 0, 0, 0) };
    usize::try_from(slots).ok()
}

fn set_slots(slots: usize) -> Result<(), Error> {
    // SAFETY: SET_SLOTS takes only numbers. The kernel moves waiters to the new table.
    let failed = unsafe { libc::prctl(PR_FUTEX_HASH, PR_FUTEX_HASH_SET_SLOTS, slots as libc::c_ulong, 0, 0) };
    if failed == 0 { Ok(()) } else { Err(Error::last_os_error()) }
}

impl Kernel {
    /// Calls futex(2) with an operation that takes a word, two numbers and another word. A negative result is an error.
    #[inline(always)]
    fn call(&self, operation: libc::c_int, word: &AtomicU32, first: usize, second: usize, other: *const u32) -> isize {
        let operation = operation | self.private_flag;
        // Calls that compare the word compare it with 0. The kernel takes counts up to i32::MAX.
        let (first, second) = (first.min(i32::MAX as usize), second.min(i32::MAX as usize));
        // SAFETY: both words live as long as their references. `second` is 0 where a timeout is expected.
        unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, first, second, other, 0) as isize }
    }
}

impl Target for Kernel {
    #[inline(always)]
    fn wait(&self, word: &AtomicU32, expected: u32) -> Waited {
        let operation = libc::FUTEX_WAIT | self.private_flag;
        let forever = std::ptr::null::<libc::timespec>();
        // SAFETY: the word lives as long as its reference; a null timeout means none.
        let failed = unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, expected, forever) } != 0;
        if !failed {
            return Waited::Woken;
        }
        if Error::last_os_error().raw_os_error() == Some(libc::EAGAIN) { Waited::Differs } else { Waited::Failed }
    }

    #[inline(always)]
    fn wake(&self, word: &AtomicU32) -> usize {
        let operation = libc::FUTEX_WAKE | self.private_flag;
        // SAFETY: FUTEX_WAKE uses the address as a key and reads nothing through it.
        let woken = unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, 1) };
        usize::try_from(woken).unwrap_or(usize::MAX)
    }

    #[inline(always)]
    fn wake_many(&self, word: &AtomicU32, count: usize) -> usize {
        counted(self.call(libc::FUTEX_WAKE, word, count, 0, std::ptr::null()))
    }

    #[inline(always)]
    fn cmp_requeue(&self, from: &AtomicU32, to: &AtomicU32, count: usize) -> usize {
        counted(self.call(libc::FUTEX_CMP_REQUEUE, from, 0, count, to.as_ptr()))
    }

    #[inline(always)]
    fn cmp_requeue_pi(&self, from: &AtomicU32, lock: &AtomicU32, count: usize) -> usize {
        // The call counts the first waiter separately, because it may get the lock if that is free.
        counted(self.call(libc::FUTEX_CMP_REQUEUE_PI, from, 1, count - 1, lock.as_ptr()))
    }

    fn buckets(&self) -> Option<usize> {
        if self.private_flag == 0 {
            return None;
        }
        slots_now().filter(|slots| *slots > 0)
    }

    fn set_slots(&self, slots: usize, _keep_trying: &mut dyn FnMut() -> bool) -> Result<bool, String> {
        // The call cannot be cancelled. It returns when the new size is in effect.
        set_slots(slots).map(|()| true).map_err(|error| format!("PR_FUTEX_HASH: {error}"))
    }

    fn make_ready(&self) {
        // On the global hash GET_SLOTS returns 0, as before the first hash. The process stays there, so 0 is set once.
        static GLOBAL: AtomicBool = AtomicBool::new(false);
        if let Some(slots) = self.slots
            && (slots_now() != Some(slots) || slots == 0 && !GLOBAL.swap(true, Ordering::Relaxed))
            && let Err(error) = set_slots(slots)
        {
            stderr::say(format_args!("PR_FUTEX_HASH refused {slots} slots: {error}"));
        }
    }
}

impl Futex for Kernel {
    type Task = ();

    fn task(&self) {}

    #[inline(always)]
    fn lock_pi(&self, lock: &AtomicU32, (): &()) -> bool {
        self.call(libc::FUTEX_LOCK_PI, lock, 0, 0, std::ptr::null()) == 0
    }

    #[inline(always)]
    fn unlock_pi(&self, lock: &AtomicU32, (): &()) -> bool {
        self.call(libc::FUTEX_UNLOCK_PI, lock, 0, 0, std::ptr::null()) == 0
    }

    fn wait_requeue_pi(&self, from: &AtomicU32, lock: &AtomicU32, (): &()) -> bool {
        self.call(libc::FUTEX_WAIT_REQUEUE_PI, from, 0, 0, lock.as_ptr()) == 0
    }
}

/// Number of waiters that a call woke or moved. An error counts as 0, and the workloads notice the missing waiters.
fn counted(answer: isize) -> usize {
    usize::try_from(answer).unwrap_or(0)
}
