//! The state of a process: one mapping that the kernel zeroes in the child of a fork, however it was forked. So the
//! child begins without waiters, and without a lock held by a thread that it does not have.

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use crate::engine::Engine;
use crate::timers::{self, Timing};
use crate::{calls, hot, late, profile, raw, seat};

/// All zeroes at first, and in the child of a fork.
#[repr(C)]
pub struct Process {
    /// The process that owns this memory. A child that shares its parent's memory (vfork, posix_spawn) finds its
    /// parent's PID.
    pub pid: AtomicI32,
    /// The engine. Null until a call has needed it.
    pub engine: AtomicPtr<Engine>,
    /// The process's timers. Null until it has made any.
    pub timing: AtomicPtr<Timing>,
    /// Held while an engine or timers are made, and while the timers' thread is started or ended.
    pub making: SpinLock,
    /// How many calls that change threads' credentials are under way. The timers' thread is not started meanwhile.
    /// Guarded by `making`.
    pub holds: AtomicU32,
    /// Held while a signal's action changes.
    pub actions: SpinLock,
    /// Whether the report has been written.
    pub reported: AtomicBool,
    /// Held while the heap is used.
    pub heap_lock: SpinLock,
    /// Whether `heap` is initialised. Guarded by `heap_lock`.
    pub heap_is_there: UnsafeCell<bool>,
    /// Guarded by `heap_lock`.
    pub heap: UnsafeCell<MaybeUninit<dlmalloc::Dlmalloc>>,
    /// The words on which threads sleep.
    pub seats: seat::Seats,
    /// Calls of handlers that are made later.
    pub late: late::Places,
    /// When the process began, in nanoseconds of CLOCK_MONOTONIC. 0 in the child of a fork.
    pub began_ns: AtomicU64,
    /// The CPU time that it had spent by then, in nanoseconds: in user mode and in the kernel.
    pub spent_ns: [AtomicU64; 2],
    /// Counts the words that calls named.
    pub hot: hot::Hot,
    /// The number of calls, by kind.
    pub calls: [AtomicU64; calls::KINDS],
    /// How many of the calls left to the kernel were waits, wakes and requeues of words that processes may share.
    pub shared_calls: AtomicU64,
    /// How many threads sleep in a wait, and the greatest number at a time.
    pub waiting: [AtomicU64; 2],
    /// The greatest number of threads at a time, as far as they were made by pthread_create(3). 0 if none was made.
    pub threads_most: AtomicU64,
    /// The records of waits for `ufutex locks`.
    pub profile: profile::Profile,
    /// Counts of timers, by [`timers::Count`].
    pub timer_counts: [AtomicU64; timers::COUNTS],
}

// Otherwise the kernel may give it a huge page, which takes long to clear when the program starts.
const _: () = assert!(size_of::<Process>() < 2 << 20);

static PROCESS: AtomicPtr<Process> = AtomicPtr::new(ptr::null_mut());

/// The state of the process. `None` before [`map`].
#[inline(always)]
pub fn process() -> Option<&'static Process> {
    // Relaxed: it is set once, when the process has only one thread.
    // SAFETY: null, or a mapping that is never unmapped.
    unsafe { PROCESS.load(Ordering::Relaxed).as_ref() }
}

/// Makes the mapping, before the program begins, when the process has only one thread.
pub fn map() {
    let len = size_of::<Process>() as u64;
    let Some(address) = raw::map(size_of::<Process>()) else {
        raw::die(&["no memory for the library that `ufutex run` loads"]);
    };
    // SAFETY: our own mapping, of that length.
    if unsafe { raw::own(libc::SYS_madvise, [address, len, libc::MADV_WIPEONFORK as u64]) } != 0 {
        raw::die(&["this kernel has no MADV_WIPEONFORK, which Linux has since 4.14"]);
    }
    PROCESS.store(ptr::with_exposed_provenance_mut(address as usize), Ordering::Relaxed);
}

impl Process {
    /// Whether the calling process only borrows this memory from its parent, until it executes a program. It must not
    /// change state that the parent relies on.
    pub fn is_borrowed(&self) -> bool {
        let pid = raw::pid();
        match self.pid.load(Ordering::Relaxed) {
            // Forked by a system call, where [`own`](Self::own) does not run, or a vfork child of such a process that
            // has not been here.
            0 if shares_with_parent(pid) => true,
            0 => {
                self.own();
                false
            }
            owner => owner != pid,
        }
    }

    /// Notes that the calling process owns this memory. Called when a process begins, and in the child of a fork.
    pub fn own(&self) {
        self.pid.store(raw::pid(), Ordering::Relaxed);
    }
}

/// Whether the process shares its parent's memory. `false` if the kernel does not answer.
fn shares_with_parent(pid: i32) -> bool {
    const KCMP_VM: u64 = 1;
    // SAFETY: both calls only ask. The second compares two processes.
    unsafe {
        let parent = raw::own(libc::SYS_getppid, []);
        raw::own(libc::SYS_kcmp, [pid as u64, parent as u64, KCMP_VM, 0, 0]) == 0
    }
}

/// The number of threads of the process, our own included. `None` if the kernel does not say.
pub fn threads() -> Option<usize> {
    let mut stat = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: a string, and room for the result.
    let told = unsafe { raw::own(libc::SYS_stat, [c"/proc/self/task".as_ptr() as u64, stat.as_mut_ptr() as u64]) };
    // SAFETY: filled in if the call succeeded. Two links of a directory are not subdirectories.
    (told == 0).then(|| unsafe { stat.assume_init() }.st_nlink.saturating_sub(2) as usize)
}

/// A lock that is held for a few instructions. A thread that holds it must not be interrupted by a handler that takes
/// it too: so wherever it is used, signals are blocked or deferred.
#[repr(transparent)]
pub struct SpinLock(AtomicU32);

/// Unlocks when dropped.
pub struct Locked<'a>(&'a SpinLock);

impl SpinLock {
    pub const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Takes the lock, after waiting for it.
    #[inline]
    pub fn lock(&self) -> Locked<'_> {
        let mut spins = 0u32;
        // [Pb]: Acquire pairs with the Release of `drop`.
        while self.0.swap(1, Ordering::Acquire) != 0 {
            spins += 1;
            match spins {
                0..100 => core::hint::spin_loop(),
                // SAFETY: takes no arguments and changes no memory.
                100..120 => drop(unsafe { raw::own(libc::SYS_sched_yield, []) }),
                _ => self.rest(),
            }
        }
        Locked(self)
    }

    /// Takes the lock if it is free.
    pub fn try_lock(&self) -> Option<Locked<'_>> {
        (self.0.swap(1, Ordering::Acquire) == 0).then(|| Locked(self)) // [Pb]
    }

    /// Sleeps a little. A thread with a real-time priority never yields to one without, which may hold the lock and
    /// wait for this very CPU. It sleeps with futex(2) and not with nanosleep(2), which a program's own filter may
    /// forbid.
    #[cold]
    fn rest(&self) {
        const WAIT: u64 = (libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG) as u64;
        let time = libc::timespec { tv_sec: 0, tv_nsec: 50_000 };
        let args = [self.0.as_ptr() as u64, WAIT, 1, (&raw const time) as u64, raw::COOKIE, 0];
        // SAFETY: reads the lock and the time. No thread wakes it: it ends after the time, or at once if the lock is
        // free.
        unsafe { raw::syscall6(libc::SYS_futex, args) };
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.0.0.store(0, Ordering::Release); // [Pb]
    }
}
