use core::ffi::{c_int, c_long};

use engine::Access;

use super::{HowToWait, count, export, to_block_as, to_block_in};
use crate::errno::{Answer, Errno};
use crate::objects::{DomainObject, TaskObject};
use crate::operation::{Operation, block_on};
use crate::registry::Held;
use crate::types::{ufutex_domain, ufutex_task, ufutex_wait_options};
use crate::word::Word;

/// Locks the word of 32 bits at an address for a task, and blocks the caller until that is done: FUTEX_LOCK_PI2. A free lock
/// holds 0, another one its owner's TID. Who owns it runs with the priority of who waits. flags: UFUTEX_U32, UFUTEX_SHARED.
/// options: the timeout; NULL for none.
///
/// Answers 0. -EDEADLK: the task owns it, or would wait for itself; -ESRCH: no such owner; -EPERM: the kernel's; -ETIMEDOUT;
/// -EINTR: the task was interrupted, or the parker says so; -EFAULT: the word cannot be read and written; -EINVAL: the word
/// and its waiters do not belong together, or it has not 32 bits, misaligned, unknown flags, a task of another domain, NULL;
/// -EBUSY: the task waits elsewhere; -ENOMEM; -E2BIG; -EBADF: no handle of a domain or of a task.
///
/// Any thread; not async-signal-safe. The thread must not be cancelled meanwhile, nor leave by longjmp().
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_lock_pi(
    domain: *mut ufutex_domain,
    task: *mut ufutex_task,
    address: u64,
    flags: u32,
    options: *const ufutex_wait_options,
) -> c_int {
    let lock = || {
        // SAFETY: the program gives null or options that are as large as they say.
        let how = unsafe { HowToWait::read(options)? };
        let domain = to_block_in(domain)?;
        let task = to_block_as(task, &domain)?;
        let word = Word::new(&domain.memory, address, flags, Access::Write)?;
        if domain.blocks_natively {
            return Ok(domain.domain.lock_pi(word, &task.task, how.timeout).map(|()| 0)?);
        }
        let deadline = how.timeout.map(|timeout| domain.time.begin(timeout));
        block_on(&domain, Some(&task), Operation::LockPi(domain.domain.lock_pi_async(word, &task.task)), deadline)
    };
    lock().int()
}

/// Locks the word at an address for a task if that needs no waiting: FUTEX_TRYLOCK_PI.
///
/// Answers 0. -EAGAIN: it is locked; then FUTEX_WAITERS is set in the word, as in the kernel. Else as for
/// ufutex_lock_pi().
///
/// Any thread; not async-signal-safe.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_trylock_pi(
    domain: *mut ufutex_domain,
    task: *mut ufutex_task,
    address: u64,
    flags: u32,
) -> c_int {
    let lock = || {
        let domain = Held::<DomainObject>::new(domain)?;
        let task = Held::<TaskObject>::new(task)?;
        let word = Word::new(&domain.memory, address, flags, Access::Write)?;
        Ok(domain.domain.try_lock_pi(word, &task.task)?)
    };
    lock().map(|()| 0).int()
}

/// Unlocks the word at an address, and hands it to the first waiter: FUTEX_UNLOCK_PI.
///
/// Answers 0. -EPERM: the word does not name the task; -EAGAIN: the word changes meanwhile; -EFAULT, -EINVAL, -EBADF as for
/// ufutex_lock_pi().
///
/// Any thread; not async-signal-safe. Callbacks of waiters, unpark and set_priority are called by this thread.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_unlock_pi(
    domain: *mut ufutex_domain,
    task: *mut ufutex_task,
    address: u64,
    flags: u32,
) -> c_int {
    let unlock = || {
        let domain = Held::<DomainObject>::new(domain)?;
        let task = Held::<TaskObject>::new(task)?;
        let word = Word::new(&domain.memory, address, flags, Access::Write)?;
        Ok(domain.domain.unlock_pi(word, &task.task)?)
    };
    unlock().map(|()| 0).int()
}

/// Blocks the caller while the word at from holds what is expected, until somebody requeues it to the lock at lock and it has
/// that: FUTEX_WAIT_REQUEUE_PI. flags: of both words. options: the timeout; NULL for none.
///
/// Answers 0: the task owns the lock. -EAGAIN: the word differs, or the task was interrupted after it was requeued; -EINTR:
/// before that; else as for ufutex_lock_pi().
///
/// Any thread; not async-signal-safe. The thread must not be cancelled meanwhile, nor leave by longjmp().
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_wait_requeue_pi(
    domain: *mut ufutex_domain,
    task: *mut ufutex_task,
    from: u64,
    expected: u64,
    lock: u64,
    flags: u32,
    options: *const ufutex_wait_options,
) -> c_int {
    let wait = || {
        // SAFETY: the program gives null or options that are as large as they say.
        let how = unsafe { HowToWait::read(options)? };
        let domain = to_block_in(domain)?;
        let task = to_block_as(task, &domain)?;
        let from = Word::new(&domain.memory, from, flags, Access::Read)?;
        let lock = Word::new(&domain.memory, lock, flags, Access::Write)?;
        if domain.blocks_natively {
            return Ok(domain.domain.wait_requeue_pi(from, expected, lock, &task.task, how.timeout).map(|()| 0)?);
        }
        let deadline = how.timeout.map(|timeout| domain.time.begin(timeout));
        let operation = domain.domain.wait_requeue_pi_async(from, expected, lock, &task.task);
        block_on(&domain, Some(&task), Operation::WaitRequeuePi(operation), deadline)
    };
    wait().int()
}

/// If the word at from holds what is expected, gives the lock at lock to the first waiter of from, if it is free, and has up
/// to requeue of the others wait for it: FUTEX_CMP_REQUEUE_PI, which always wakes one. flags: of both words.
///
/// Answers how many have the lock or wait for it now. -EAGAIN: the word differs; -EDEADLK: one of them would wait for
/// itself; -EINVAL: both are the same word, or a waiter of from is not one to be requeued to lock; else as for
/// ufutex_lock_pi().
///
/// Any thread; not async-signal-safe. Callbacks of waiters, unpark and set_priority are called by this thread.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_cmp_requeue_pi(
    domain: *mut ufutex_domain,
    from: u64,
    expected: u64,
    lock: u64,
    requeue: u32,
    flags: u32,
) -> c_int {
    let run = || {
        let domain = Held::<DomainObject>::new(domain)?;
        let from = Word::new(&domain.memory, from, flags, Access::Read)?;
        let lock = Word::new(&domain.memory, lock, flags, Access::Write)?;
        Ok::<c_long, Errno>(domain.domain.cmp_requeue_pi(from, expected, lock, count(requeue))? as c_long)
    };
    run().int()
}

export!(ufutex_lock_pi, ufutex_trylock_pi, ufutex_unlock_pi, ufutex_wait_requeue_pi, ufutex_cmp_requeue_pi,);
