//! Functions on locks with priority inheritance.

use core::ffi::{c_int, c_long};

use engine::Access;

use super::{HowToWait, count, to_block_as, to_block_in};
use crate::errno::{done, int};
use crate::objects::{DomainObject, TaskObject};
use crate::operation::{Operation, block_on};
use crate::registry::Held;
use crate::types::{ufutex_domain, ufutex_task, ufutex_wait_options};
use crate::word::Word;

/// Locks the word of 32 bits at an address for a task, and blocks the caller until the task has the lock:
/// FUTEX_LOCK_PI2. The word holds 0 while the lock is free, and its owner's TID otherwise. The owner runs with the best
/// priority of its waiters. flags: UFUTEX_U32, UFUTEX_SHARED. options: the timeout; NULL for none.
///
/// Returns 0. -EDEADLK: the task owns the lock, or would wait for itself; -ESRCH: no task has the owner's TID; -EPERM:
/// the owner is a thread of the kernel; -ETIMEDOUT; -EINTR: the task was interrupted, or the parker returned -EINTR;
/// -EFAULT: the word cannot be read and written; -EINVAL: the word and its waiters do not belong together, or it does
/// not have 32 bits, unknown flags, a task of another domain; -EBUSY: the task already waits; -ENOMEM.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_lock_pi(
    domain: *mut ufutex_domain,
    task: *mut ufutex_task,
    address: u64,
    flags: u32,
    options: *const ufutex_wait_options,
) -> c_int {
    int(|| {
        // SAFETY: the program passes null, or options that are as large as they say.
        let how = unsafe { HowToWait::read(options)? };
        let domain = to_block_in(domain)?;
        let task = to_block_as(task, &domain)?;
        let word = Word::without_node(&domain, address, flags, Access::Write)?;
        if domain.blocks_natively {
            return Ok(domain.domain.lock_pi_with(word, &task.task, &how.with_timeout()).map(|()| 0)?);
        }
        let operation = Operation::LockPi(domain.domain.lock_pi_async(word, &task.task, &how.options));
        block_on(&domain, Some(&task), operation, how.timeout)
    })
}

/// Locks the word at an address for a task if that needs no waiting: FUTEX_TRYLOCK_PI.
///
/// Returns 0. Errors as for ufutex_lock_pi(). -EAGAIN: the word is locked; then FUTEX_WAITERS is set in it, as in the
/// kernel.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_trylock_pi(
    domain: *mut ufutex_domain,
    task: *mut ufutex_task,
    address: u64,
    flags: u32,
) -> c_int {
    done(|| {
        let domain = Held::<DomainObject>::new(domain)?;
        let task = Held::<TaskObject>::new(task)?;
        let word = Word::without_node(&domain, address, flags, Access::Write)?;
        Ok(domain.domain.try_lock_pi(word, &task.task)?)
    })
}

/// Unlocks the word at an address, and hands the lock to the first waiter: FUTEX_UNLOCK_PI.
///
/// Returns 0. -EPERM: the word does not name the task; -EAGAIN: the word changed meanwhile; -EFAULT, -EINVAL, -EBADF as
/// for ufutex_lock_pi().
///
/// Callbacks of waiters, unpark and set_priority are called by this thread.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_unlock_pi(
    domain: *mut ufutex_domain,
    task: *mut ufutex_task,
    address: u64,
    flags: u32,
) -> c_int {
    done(|| {
        let domain = Held::<DomainObject>::new(domain)?;
        let task = Held::<TaskObject>::new(task)?;
        let word = Word::without_node(&domain, address, flags, Access::Write)?;
        Ok(domain.domain.unlock_pi(word, &task.task)?)
    })
}

/// Blocks the caller while the word at from holds expected, until it has been requeued to the lock at lock and handed
/// the lock: FUTEX_WAIT_REQUEUE_PI. flags: of both words. options: the timeout; NULL for none.
///
/// Returns 0 when the task owns the lock. Errors as for ufutex_lock_pi(). -EAGAIN: the word differs, or the task was
/// interrupted after it was requeued; -EINTR: it was interrupted before.
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
    int(|| {
        // SAFETY: the program passes null, or options that are as large as they say.
        let how = unsafe { HowToWait::read(options)? };
        let domain = to_block_in(domain)?;
        let task = to_block_as(task, &domain)?;
        let from = Word::without_node(&domain, from, flags, Access::Read)?;
        let lock = Word::without_node(&domain, lock, flags, Access::Write)?;
        if domain.blocks_natively {
            return Ok(domain
                .domain
                .wait_requeue_pi(from, expected, lock, &task.task, &how.with_timeout())
                .map(|()| 0)?);
        }
        let operation = domain.domain.wait_requeue_pi_async(from, expected, lock, &task.task, &how.options);
        block_on(&domain, Some(&task), Operation::WaitRequeuePi(operation), how.timeout)
    })
}

/// If the word at from holds expected, gives the lock at lock to the first waiter of from if the lock is free, and
/// makes up to requeue more waiters wait for it: FUTEX_CMP_REQUEUE_PI with a wake count of 1, the only one that it
/// accepts. flags: of both words.
///
/// Returns how many waiters now have the lock or wait for it. Errors as for ufutex_lock_pi(). -EAGAIN: the word differs;
/// -EDEADLK: a waiter would wait for itself; -EINVAL: also if from and lock are one word, or a waiter of from does not
/// wait to be requeued to lock.
///
/// Callbacks of waiters, unpark and set_priority are called by this thread.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_cmp_requeue_pi(
    domain: *mut ufutex_domain,
    from: u64,
    expected: u64,
    lock: u64,
    requeue: u32,
    flags: u32,
) -> c_int {
    int(|| {
        let domain = Held::<DomainObject>::new(domain)?;
        let from = Word::without_node(&domain, from, flags, Access::Read)?;
        let lock = Word::without_node(&domain, lock, flags, Access::Write)?;
        Ok(domain.domain.cmp_requeue_pi(from, expected, lock, count(requeue))? as c_long)
    })
}
