//! Functions that move waiters from one word to another.

use core::ffi::c_int;

use engine::{Access, Requeue, Requeued};

use super::count;
use crate::abi;
use crate::errno::{Errno, int};
use crate::objects::DomainObject;
use crate::registry::Held;
use crate::types::ufutex_domain;
use crate::word::Word;

/// Wakes up to wake waiters of the word at from, and makes up to requeue of its other waiters wait for the word at to:
/// FUTEX_REQUEUE. flags: of both words. A count of INT_MAX or more means all. Prefer ufutex_cmp_requeue(), which does
/// not miss a change of the word.
///
/// Returns how many waiters were woken or moved, and stores the number of moved ones in *requeued, unless that is NULL.
/// -EINVAL: unknown flags, or one of the waiters waits for a lock (earlier effects stay); -EFAULT: an address
/// that no program has, or a shared word for which memory's scope fails.
///
/// Callbacks of waiters and unpark are called by this thread.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_requeue(
    domain: *mut ufutex_domain,
    from: u64,
    to: u64,
    wake: u32,
    requeue: u32,
    flags: u32,
    requeued: *mut u32,
) -> c_int {
    int(|| {
        // SAFETY: the same arguments.
        unsafe { requeue_if(domain, from, None, to, [wake, requeue], flags, requeued) }
    })
}

/// Like ufutex_requeue(), if the word at from holds expected: FUTEX_CMP_REQUEUE, in one step.
///
/// Errors as for ufutex_requeue(). -EAGAIN: the word differs; -EFAULT: it cannot be read; -EINVAL: it cannot hold
/// expected.
///
/// Callbacks of waiters and unpark are called by this thread.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_cmp_requeue(
    domain: *mut ufutex_domain,
    from: u64,
    expected: u64,
    to: u64,
    wake: u32,
    requeue: u32,
    flags: u32,
    requeued: *mut u32,
) -> c_int {
    int(|| {
        // SAFETY: the same arguments.
        unsafe { requeue_if(domain, from, Some(expected), to, [wake, requeue], flags, requeued) }
    })
}

/// # Safety
/// As for the two functions above.
unsafe fn requeue_if(
    domain: *mut ufutex_domain,
    from: u64,
    expected: Option<u64>,
    to: u64,
    [wake, requeue]: [u32; 2],
    flags: u32,
    requeued: *mut u32,
) -> Result<usize, Errno> {
    if !requeued.is_null() {
        abi::check_out(requeued)?;
    }
    let held = Held::<DomainObject>::new(domain)?;
    let from = Word::new(&held, from, flags, Access::Read)?;
    let to = Word::new(&held, to, flags, Access::Read)?;
    let Requeued { woken, requeued: moved } = match expected {
        Some(expected) => {
            held.domain.cmp_requeue(from, expected, to, Requeue { wake: count(wake), requeue: count(requeue) })?
        }
        None => held.domain.requeue(from, to, Requeue { wake: count(wake), requeue: count(requeue) })?,
    };
    if !requeued.is_null() {
        // SAFETY: checked above; the program guarantees that it is valid for a write.
        unsafe { abi::store(requeued, u32::try_from(moved).unwrap_or(u32::MAX))? };
    }
    Ok(woken + moved)
}
