//! Wakes, and `FUTEX_WAKE_OP`.

use core::ffi::c_int;
use core::num::NonZeroU32;

use engine::{Access, Address, Compare, Modify, WakeOp};

use super::count as many;
use crate::errno::{Errno, int};
use crate::objects::DomainObject;
use crate::registry::Held;
use crate::types::{
    UFUTEX_CMP_EQ, UFUTEX_CMP_GE, UFUTEX_CMP_GT, UFUTEX_CMP_LE, UFUTEX_CMP_LT, UFUTEX_CMP_NE, UFUTEX_OP_ADD,
    UFUTEX_OP_ANDN, UFUTEX_OP_OR, UFUTEX_OP_SET, UFUTEX_OP_XOR, ufutex_domain, ufutex_operation,
};
use crate::word::{Word, is_own};

/// Wakes up to count waiters of the word at an address whose bitset has a bit of bitset: FUTEX_WAKE, FUTEX_WAKE_BITSET.
/// Waiters with a greater real-time priority are woken first, and otherwise in the order in which they came. A count of
/// INT_MAX or more means all. Change the word before this call, by a relaxed store, or by one that releases if
/// a thread that reads the new value has to see what was done before. A private word is not accessed, and may have been
/// freed. flags: as for ufutex_wait().
///
/// Returns how many waiters were woken. -EINVAL: a bitset of 0, unknown flags, no such node, or one of the
/// waiters waits for a lock with priority inheritance (those before it have been woken); -EFAULT: an address that no
/// program has, or a shared word for which memory's scope fails.
///
/// Callbacks of waiters and unpark are called by this thread.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_wake(
    domain: *mut ufutex_domain,
    address: u64,
    count: u32,
    bitset: u32,
    flags: u32,
) -> c_int {
    int(|| {
        let held = Held::<DomainObject>::new(domain)?;
        let bitset = NonZeroU32::new(bitset).ok_or(Errno::INVALID)?;
        if is_own(&held, address, flags) {
            return Ok(held.domain.try_wake_bitset(Address::at(address), many(count), bitset)?);
        }
        let word = Word::new(&held, address, flags, Access::Read)?;
        Ok(held.domain.try_wake_bitset(word, many(count), bitset)?)
    })
}

/// Changes the word of 32 bits at second, wakes up to count waiters of first, and, if the comparison holds for the old
/// value of second, up to second_count waiters of second: FUTEX_WAKE_OP, in one step. flags: of both words.
///
/// Returns how many waiters were woken in all. -EINVAL: second does not have 32 bits, an unknown operation, comparison
/// or flag, or one of the waiters waits for a lock (earlier effects stay); -EFAULT: second cannot be read and
/// written.
///
/// Callbacks of waiters and unpark are called by this thread.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_wake_op(
    domain: *mut ufutex_domain,
    first: u64,
    count: u32,
    second: u64,
    second_count: u32,
    operation: *const ufutex_operation,
    flags: u32,
) -> c_int {
    int(|| {
        let held = Held::<DomainObject>::new(domain)?;
        if operation.is_null() || !operation.is_aligned() {
            return Err(Errno::INVALID);
        }
        // SAFETY: the program guarantees that it is valid for a read.
        let op = decoded(unsafe { operation.read() })?;
        let first = Word::new(&held, first, flags, Access::Read)?;
        let second = Word::new(&held, second, flags, Access::Write)?;
        Ok(held.domain.wake_op(first, many(count), second, op, many(second_count))?)
    })
}

fn decoded(said: ufutex_operation) -> Result<WakeOp, Errno> {
    let modify = match said.modify {
        UFUTEX_OP_SET => Modify::Set,
        UFUTEX_OP_ADD => Modify::Add,
        UFUTEX_OP_OR => Modify::Or,
        UFUTEX_OP_ANDN => Modify::AndNot,
        UFUTEX_OP_XOR => Modify::Xor,
        _ => return Err(Errno::INVALID),
    };
    let compare = match said.compare {
        UFUTEX_CMP_EQ => Compare::Eq,
        UFUTEX_CMP_NE => Compare::Ne,
        UFUTEX_CMP_LT => Compare::Lt,
        UFUTEX_CMP_LE => Compare::Le,
        UFUTEX_CMP_GT => Compare::Gt,
        UFUTEX_CMP_GE => Compare::Ge,
        _ => return Err(Errno::INVALID),
    };
    Ok(WakeOp { modify: modify(said.argument), compare: compare(said.operand) })
}
