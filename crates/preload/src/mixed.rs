//! Calls that need both the kernel and the engine.
//!
//! **futex_waitv(2)** on several words: some may be private, for which the engine has the waiters, and some shared, for
//! which the kernel has them. The thread sleeps in the kernel's futex_waitv on the shared words and on the word of its
//! seat. The engine wakes it through the seat.
//!
//! **Priority inheritance** on a private word is the kernel's, and plain waits for that word are the engine's. The
//! kernel returns EINVAL if an operation with priority inheritance finds a plain waiter. It does not see the engine's
//! waiters, so the engine is asked first. It also returns EINVAL if a plain wake or requeue finds a waiter for a lock, so
//! the kernel is asked about those once the program has made a lock by libc's `syscall()`.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::vec::Vec;

use ufutex::{Cause, Compare, syscall::Number};

use crate::calls::{self, LOCK_PI2, SYS_FUTEX_WAITV, WAITV_MAX, Waitv};
use crate::engine::{self, Inside};
use crate::gate::{self, Gate, Sleep};
use crate::raw::{self, COOKIE};
use crate::{mark, memory, profile, settings};

/// `FUTEX2_SIZE_U32 | FUTEX2_PRIVATE`: the flags of a seat's word in the kernel's list.
const SEAT: u32 = 2 | 128;

/// Whether a call that is left to the kernel has to go through [`kernel`], which records it for `ufutex locks`.
pub fn is_noted(number: i64, args: &[u64; 6]) -> bool {
    let is_one = || match number {
        libc::SYS_futex => {
            let has_one_word = [libc::FUTEX_WAIT, libc::FUTEX_WAKE, libc::FUTEX_WAIT_BITSET, libc::FUTEX_WAKE_BITSET];
            has_one_word.contains(&command(args[1])) || calls::PI.contains(&command(args[1]))
        }
        number => number == SYS_FUTEX_WAITV,
    };
    settings::get().profile.is_some() && is_one()
}

/// Makes a call on futexes that is left to the kernel, with a mark that passes the filter.
pub fn kernel(number: i64, args: [u64; 6], inside: &Inside) -> isize {
    let mut marked = args;
    mark::put(number, &mut marked);
    let (is_futex, command) = (number == libc::SYS_futex, command(args[1]));
    if is_futex && is_private_pi(args[1]) && finds_plain_waiter(&args, inside) {
        return -(libc::EINVAL as isize);
    }
    let is_lock = is_futex && (command == LOCK_PI || command == LOCK_PI2);
    let is_wait = is_futex && (command == libc::FUTEX_WAIT || command == libc::FUTEX_WAIT_BITSET);
    if !is_lock && !is_wait && number != SYS_FUTEX_WAITV {
        let asked = is_futex.then(|| if command == UNLOCK_PI { 1 } else { args[2] as u32 });
        asked.inspect(|most| profile::wakes_in_kernel(args[0], *most));
        // SAFETY: the program's own call, which does not sleep.
        let result = unsafe { raw::syscall6(number, marked) };
        if asked.is_some() && command != UNLOCK_PI && result <= 0 {
            profile::woke_none_in_kernel(args[0]);
        }
        return result;
    }
    let number_for = if is_futex { Number::Futex } else { Number::FutexWaitv };
    let asleep = profile::sleeps_in_kernel(number_for, &args);
    let mut result = kernel_call(number, marked, inside);
    if result == -ufutex::syscall::ERESTARTSYS {
        if is_lock {
            result = -ufutex::syscall::ERESTARTNOINTR;
        } else if is_wait && args[3] != 0 {
            // As the kernel does: after a restart the time that has passed would be lost.
            result = -(libc::EINTR as isize);
        }
    }
    if let Some(asleep) = asleep {
        asleep.ended(result);
    }
    result
}

/// The result is -512 if a signal came.
fn kernel_call(number: i64, args: [u64; 6], inside: &Inside) -> isize {
    // SAFETY: the mask is null or valid as long as `inside`.
    let sleep = unsafe { Sleep::new(inside.gate, inside.mask, number, args) };
    // SAFETY: the program's own call, or one on lists of ours; our own gate and mask.
    match unsafe { (gate::sleep(&sleep), Gate::has_deferred(inside.gate)) } {
        (result, true) if result == -(libc::EINTR as isize) => -ufutex::syscall::ERESTARTSYS,
        (result, _) => result,
    }
}

/// futex_waitv(2) on words of both kinds.
pub fn waitv([list, len, flags, timeout, clock, _]: [u64; 6], inside: &Inside) -> isize {
    let len = len as u32 as usize;
    debug_assert!(len <= WAITV_MAX);
    // The words, and each word's index in the program's list.
    let (mut ours, mut kernels) = ((Vec::new(), Vec::new()), (Vec::new(), Vec::new()));
    for index in 0..len {
        let Ok(word) = memory::read::<Waitv>(list + (index * size_of::<Waitv>()) as u64) else {
            return -(libc::EFAULT as isize);
        };
        let (words, indices) = if word.is_private() { &mut ours } else { &mut kernels };
        words.push(word);
        indices.push(index as isize);
    }
    // The seat comes first: of several words that were woken the kernel returns the last, and a seat may be notified
    // without a cause.
    kernels.0.insert(0, Waitv { val: 0, uaddr: 0, flags: SEAT, reserved: 0 });
    kernels.1.insert(0, -1);

    let mut kernel_result = None;
    let call = [ours.0.as_ptr() as u64, ours.0.len() as u64, flags, timeout, clock, 0];
    let result = engine::waitv(call, inside, &mut |seat| {
        kernels.0[0].uaddr = seat.address();
        if seat.was_notified() {
            return Ok(());
        }
        let args = [kernels.0.as_ptr() as u64, kernels.0.len() as u64, flags, timeout, clock, COOKIE];
        let result = kernel_call(SYS_FUTEX_WAITV, args, inside);
        if seat.was_notified() && result < 0 || result == 0 {
            return Ok(());
        }
        kernel_result = Some(result);
        Err(Cause::Interrupted)
    });
    match kernel_result {
        // The engine's word came first, or at the same time.
        _ if result >= 0 => ours.1[result as usize],
        Some(result) if result >= 0 => kernels.1[result as usize],
        Some(result) => result,
        None => result,
    }
}

const REALTIME: u64 = libc::FUTEX_CLOCK_REALTIME as u64;
const PRIVATE: u64 = libc::FUTEX_PRIVATE_FLAG as u64;

/// Whether `op` of futex(2) is a private operation with priority inheritance that checks the word's waiters.
pub fn is_private_pi(op: u64) -> bool {
    let has_clock = op & REALTIME == 0 || command(op) == LOCK_PI2;
    op & PRIVATE != 0
        && has_clock
        && matches!(command(op), LOCK_PI | UNLOCK_PI | TRYLOCK_PI | CMP_REQUEUE_PI | LOCK_PI2)
}

const LOCK_PI: i32 = libc::FUTEX_LOCK_PI;
const UNLOCK_PI: i32 = libc::FUTEX_UNLOCK_PI;
const TRYLOCK_PI: i32 = libc::FUTEX_TRYLOCK_PI;
const CMP_REQUEUE_PI: i32 = libc::FUTEX_CMP_REQUEUE_PI;

/// Whether the program may have a private lock with priority inheritance that it uses by more than glibc's locks.
static HAS_LOCKS: AtomicBool = AtomicBool::new(false);

/// Notes that the program makes an operation of [`is_private_pi`].
pub fn note_lock() {
    HAS_LOCKS.store(true, Ordering::Relaxed);
}

/// Makes a call of the engine. It is EINVAL, as in the kernel, if it wakes or requeues and meets a waiter for a lock.
#[inline(always)]
pub fn call(number: Number, args: [u64; 6], may_sleep: bool, inside: &Inside) -> isize {
    if !may_sleep && HAS_LOCKS.load(Ordering::Relaxed) {
        return beside_locks(number, args, inside);
    }
    engine::call(number, args, may_sleep, inside)
}

#[cold]
fn beside_locks(number: Number, args: [u64; 6], inside: &Inside) -> isize {
    let meets = meets_lock_waiter(number, &args);
    // What the kernel does before it meets the waiter stays done, such as the change by FUTEX_WAKE_OP.
    let result = engine::call(number, args, false, inside);
    if meets && result >= 0 { -(libc::EINVAL as isize) } else { result }
}

/// Whether the kernel has a waiter for a lock at a word of which this call wakes or moves waiters.
fn meets_lock_waiter(number: Number, &[first, op, count, second_count, second, change]: &[u64; 6]) -> bool {
    let is_at = |address: u64| {
        let args = [address, libc::FUTEX_WAKE as u64 | PRIVATE, 1, 0, COOKIE, 0];
        // SAFETY: a wake of a private word, of which the kernel has no plain waiters.
        unsafe { raw::syscall6(libc::SYS_futex, args) == -(libc::EINVAL as isize) }
    };
    match number {
        Number::Futex => match command(op) {
            libc::FUTEX_REQUEUE | libc::FUTEX_CMP_REQUEUE => {
                (count as i32 > 0 || second_count as i32 > 0) && is_at(first)
            }
            libc::FUTEX_WAKE_OP => is_at(first) || compares(second, change as u32) && is_at(second),
            _ => is_at(first),
        },
        Number::FutexRequeue => memory::read::<Waitv>(first).is_ok_and(|from| is_at(from.uaddr)),
        _ => is_at(first),
    }
}

/// Whether the comparison of FUTEX_WAKE_OP holds for a word.
fn compares(address: u64, change: u32) -> bool {
    let value = (change << 20).cast_signed() >> 20;
    let compare = match change >> 24 & 15 {
        0 => Compare::Eq(value),
        1 => Compare::Ne(value),
        2 => Compare::Lt(value),
        3 => Compare::Le(value),
        4 => Compare::Gt(value),
        5 => Compare::Ge(value),
        _ => return false,
    };
    memory::read::<u32>(address).is_ok_and(|word| compare.holds(word))
}

fn command(op: u64) -> i32 {
    (op & !PRIVATE & !REALTIME) as i32
}

/// Whether the engine has a waiter because of which the kernel would refuse this operation with EINVAL. Changes
/// nothing.
pub fn finds_plain_waiter(args: &[u64; 6], inside: &Inside) -> bool {
    match command(args[1]) {
        // No waiter in the engine waits to be requeued to a lock. So the operation finds a plain waiter, or none.
        CMP_REQUEUE_PI => is_refused(*args, inside),
        UNLOCK_PI => has_waiter(args[0], inside, true),
        LOCK_PI | LOCK_PI2 if args[3] != 0 && memory::read::<[u64; 2]>(args[3]).is_err() => false,
        _ => has_waiter(args[0], inside, false),
    }
}

fn is_refused(args: [u64; 6], inside: &Inside) -> bool {
    engine::call(Number::Futex, args, false, inside) == -(libc::EINVAL as isize)
}

/// Whether the engine has a waiter of the word. `false` if the kernel would fail for another reason first, with another
/// error than EINVAL.
fn has_waiter(address: u64, inside: &Inside, by_owner: bool) -> bool {
    const REQUEUE: u64 = PRIVATE | CMP_REQUEUE_PI as u64;
    let lock = AtomicU32::new(0);
    if !address.is_multiple_of(4) {
        return false;
    }
    // Repeats only if the word changes meanwhile.
    for _ in 0..100 {
        let Ok(value) = memory::read::<u32>(address) else { return false };
        let is_owner = value & libc::FUTEX_TID_MASK == raw::tid().cast_unsigned();
        if is_owner != by_owner {
            return false;
        }
        let args = [address, REQUEUE, 1, 0, lock.as_ptr() as u64, value.into()];
        let result = engine::call(Number::Futex, args, false, inside);
        if result != -(libc::EAGAIN as isize) {
            return result == -(libc::EINVAL as isize);
        }
    }
    false
}
