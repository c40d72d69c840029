//! Which of a program's system calls the engine makes: operations on futexes that the program marks as private
//! (`FUTEX_PRIVATE_FLAG`). Operations on words that processes may share, locks with priority inheritance and robust
//! unlocks stay with the kernel, because only the kernel knows the other processes, their priorities and their deaths.

use core::ffi::c_int;
use core::sync::atomic::Ordering;

use ufutex::observe::Observer;
use ufutex::syscall::Number;
use ufutex::{Address, At, Key, Requeued};

use crate::process::{Process, process};
use crate::settings;
use crate::{memory, profile};

/// The operation of prctl(2).
pub const PR_FUTEX_HASH: u64 = 78;

pub const SYS_FUTEX_WAITV: i64 = 449;
pub const SYS_FUTEX_WAKE: i64 = 454;
pub const SYS_FUTEX_WAIT: i64 = 455;
pub const SYS_FUTEX_REQUEUE: i64 = 456;

const PRIVATE_FLAG: u64 = libc::FUTEX_PRIVATE_FLAG as u64;
const FUTEX2_PRIVATE: u32 = 128;
const CLOCK_REALTIME: u64 = libc::FUTEX_CLOCK_REALTIME as u64;

/// The operations of futex(2) that the engine makes if they are private.
pub const OURS: [i32; 7] = [
    libc::FUTEX_WAIT,
    libc::FUTEX_WAKE,
    libc::FUTEX_REQUEUE,
    libc::FUTEX_CMP_REQUEUE,
    libc::FUTEX_WAKE_OP,
    libc::FUTEX_WAIT_BITSET,
    libc::FUTEX_WAKE_BITSET,
];

/// The operations of locks with priority inheritance in which a thread waits for another, or wakes it. They are the kernel's.
pub const PI: [i32; 3] = [libc::FUTEX_LOCK_PI, libc::FUTEX_UNLOCK_PI, LOCK_PI2];
pub const LOCK_PI2: i32 = 13;

/// `OURS`, one bit for each.
pub const OURS_BITS: u32 = bits(&OURS) as u32;

/// A word with a bit for each number of the list.
pub const fn bits(numbers: &[c_int]) -> u64 {
    let (mut bits, mut i) = (0, 0);
    while i < numbers.len() {
        bits |= 1 << numbers[i];
        i += 1;
    }
    bits
}

/// The number of kinds that are counted separately: futex(2)'s sixteen operations, then the calls of futex2, then the
/// calls left to the kernel.
pub const KINDS: usize = 21;
/// The names of the kinds, as in their man pages.
pub const NAMES: [&str; KINDS] = [
    "FUTEX_WAIT",
    "FUTEX_WAKE",
    "FUTEX_FD",
    "FUTEX_REQUEUE",
    "FUTEX_CMP_REQUEUE",
    "FUTEX_WAKE_OP",
    "FUTEX_LOCK_PI",
    "FUTEX_UNLOCK_PI",
    "FUTEX_TRYLOCK_PI",
    "FUTEX_WAIT_BITSET",
    "FUTEX_WAKE_BITSET",
    "FUTEX_WAIT_REQUEUE_PI",
    "FUTEX_CMP_REQUEUE_PI",
    "FUTEX_LOCK_PI2",
    "unknown",
    "unknown",
    "futex_waitv",
    "futex_wake",
    "futex_wait",
    "futex_requeue",
    "kernel",
];
/// The kind of calls that are left to the kernel, as far as this library sees them.
pub const KERNEL: usize = 20;

/// Which side makes a call.
pub enum Route {
    /// The engine. The kind under which the call is counted, and whether it may sleep.
    Ours(Number, usize, bool),
    /// The kernel.
    Kernel,
    /// Both: futex_waitv(2) on private and shared words, see `mixed.rs`.
    Mixed,
    /// Neither: futex_requeue(2) between a private and a shared word, whose waiters sleep in different places.
    Refused,
}

/// Which side makes the futex call with this number.
#[inline(always)]
pub fn route_of(number: i64, args: &[u64; 6]) -> Route {
    if number != libc::SYS_futex {
        return route_of_futex2(number, args);
    }
    let op = args[1] & 0xffff_ffff;
    let command = op & !(PRIVATE_FLAG | CLOCK_REALTIME);
    // Every other bit of `op` makes `command` larger.
    if op & PRIVATE_FLAG != 0 && command < 16 && OURS_BITS >> command & 1 != 0 {
        let may_sleep = command == 0 || command == libc::FUTEX_WAIT_BITSET as u64;
        Route::Ours(Number::Futex, command as usize, may_sleep)
    } else {
        Route::Kernel
    }
}

/// `struct futex_waitv`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Waitv {
    pub val: u64,
    pub uaddr: u64,
    pub flags: u32,
    pub reserved: u32,
}

impl Waitv {
    /// Whether the program marks the word as private.
    pub fn is_private(&self) -> bool {
        self.flags & FUTEX2_PRIVATE != 0
    }
}

/// The most words of one wait: the kernel's `FUTEX_WAITV_MAX`.
pub const WAITV_MAX: usize = 128;

/// Whether the list contains private words, and whether it contains shared ones. Only the part that can be read counts.
/// A list that is too long for the kernel counts as empty.
fn kinds(list: u64, len: usize) -> (bool, bool) {
    let (mut private, mut shared) = (false, false);
    for i in 0..if len <= WAITV_MAX { len as u64 } else { 0 } {
        match memory::read::<Waitv>(list.wrapping_add(i * size_of::<Waitv>() as u64)) {
            Ok(word) if word.is_private() => private = true,
            Ok(_) => shared = true,
            Err(_) => break,
        }
    }
    (private, shared)
}

#[cold]
fn route_of_futex2(number: i64, args: &[u64; 6]) -> Route {
    let is_private = |flags: u64| flags as u32 & FUTEX2_PRIVATE != 0;
    match number {
        SYS_FUTEX_WAITV => match kinds(args[0], args[1] as u32 as usize) {
            (true, false) => Route::Ours(Number::FutexWaitv, 16, true),
            (true, true) => Route::Mixed,
            _ => Route::Kernel,
        },
        SYS_FUTEX_WAKE if is_private(args[3]) => Route::Ours(Number::FutexWake, 17, false),
        SYS_FUTEX_WAIT if is_private(args[3]) => Route::Ours(Number::FutexWait, 18, true),
        SYS_FUTEX_REQUEUE => match kinds(args[0], 2) {
            (true, false) => Route::Ours(Number::FutexRequeue, 19, false),
            (true, true) => Route::Refused,
            _ => Route::Kernel,
        },
        _ => Route::Kernel,
    }
}

/// Counts a call that is left to the kernel.
#[inline(always)]
pub fn count_kernel(number: i64, args: &[u64; 6]) {
    if let Some(process) = counted() {
        process.calls[KERNEL].fetch_add(1, Ordering::Relaxed);
        let is_shared = number != libc::SYS_futex || is_shared(args[1]);
        process.shared_calls.fetch_add(is_shared.into(), Ordering::Relaxed);
    }
}

/// Whether futex(2)'s `op` is one that the engine makes for private words.
fn is_shared(op: u64) -> bool {
    let command = (op & 0xffff_ffff & !CLOCK_REALTIME) as i32;
    OURS.contains(&command)
}

/// Runs `sleep`, in which the calling thread waits. Counts the thread only if a report was asked for. If the thread is
/// cancelled in `sleep`, it stays counted.
pub fn while_waiting<R>(sleep: impl FnOnce() -> R) -> R {
    let Some(process) = counted() else { return sleep() };
    let [now, most] = &process.waiting;
    let waiting = now.fetch_add(1, Ordering::Relaxed) + 1;
    most.fetch_max(waiting, Ordering::Relaxed);
    let result = sleep();
    now.fetch_sub(1, Ordering::Relaxed);
    result
}

/// Notes the current number of threads.
pub fn note_threads(threads: usize) {
    if let Some(process) = counted() {
        process.threads_most.fetch_max(threads as u64, Ordering::Relaxed);
    }
}

/// Kinds whose calls name a list of words, not one word.
const LISTS: [usize; 2] = [16, 19];

/// Counts a call that the engine makes, and the first word that it names.
#[inline(always)]
pub fn count_word(kind: usize, address: u64) {
    if settings::get().stats.is_some() {
        count_in_report(kind, address);
    }
}

#[cold]
fn count_in_report(kind: usize, address: u64) {
    let Some(process) = process() else { return };
    process.calls[kind].fetch_add(1, Ordering::Relaxed);
    if !LISTS.contains(&kind) {
        process.hot.count(address);
    }
}

/// Notes that a wait begins to sleep, and returns the time. `None` if no report was asked for. futex_waitv(2) names no single word, and
/// is left out.
pub fn sleeps(number: Number, address: u64) -> Option<u64> {
    let process = counted().filter(|_| number != Number::FutexWaitv)?;
    let now = profile::now();
    process.hot.sleeps(address, now);
    Some(now)
}

/// Adds the time since `since`, which [`sleeps`] returned, to the word.
pub fn slept(address: u64, since: u64) {
    if let Some(process) = process() {
        process.hot.slept(address, since, profile::now());
    }
}

/// Counts what wakes and requeues do to each word, and notes requeues for `ufutex locks`.
#[derive(Debug)]
pub struct Observed;

impl Observer for Observed {
    fn woke(&self, word: At<Address>, woken: usize) {
        if let Some(process) = counted() {
            process.hot.changed(word.address(), woken as u64, 0);
        }
    }

    fn requeued(&self, from: At<Address>, _: At<Address>, done: Requeued) {
        if let Some(process) = counted() {
            process.hot.changed(from.address(), done.woken as u64, done.requeued as u64);
        }
        profile::requeued(from.address(), done.requeued as u64);
    }
}

/// The process's counters, if a report was asked for.
#[inline(always)]
fn counted() -> Option<&'static Process> {
    settings::get().stats.and_then(|_| process())
}
