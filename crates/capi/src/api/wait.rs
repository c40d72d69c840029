//! Waits of threads, on one word and on several.

use core::ffi::{c_int, c_long};

use engine::{Access, Domain, GuestWord, UserMemory, Width};

use super::{HowToWait, InUse, in_use, to_block_as, to_block_in};
use crate::errno::{Errno, done, int};
use crate::objects::{DomainObject, TaskObject};
use crate::operation::{Operation, Words, block_on};
use crate::platform::OwnMemory;
use crate::registry::Held;
use crate::types::{
    UFUTEX_U8, UFUTEX_U16, UFUTEX_U32, ufutex_domain, ufutex_task, ufutex_wait_options, ufutex_waitv_word,
};
use crate::word::{Word, is_own};

/// Blocks the caller until a wake, if the word at an address holds expected: FUTEX_WAIT, FUTEX_WAIT_BITSET. flags:
/// UFUTEX_U8 to UFUTEX_U64, UFUTEX_SHARED, and for its node UFUTEX_NUMA, UFUTEX_MPOL, UFUTEX_ON_NODE(). options: NULL for
/// no timeout and any wake; times are in nanoseconds.
///
/// Call it in a loop that checks the word. A relative timeout begins anew with each call.
///
/// Returns 0 for a wake of the word. -EAGAIN: the word differs; -ETIMEDOUT; -EINTR: the task of the options was
/// interrupted, or the parker returned -EINTR (a signal does not end the wait); -EFAULT: the word cannot be read;
/// -EINVAL: unknown flags, no such node, a word that cannot hold expected, a bitset of 0, a priority above 99; -ENOMEM:
/// max_waiters already wait, or no memory for a wait with a parker; -EBUSY: the task already waits.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_wait(
    domain: *mut ufutex_domain,
    address: u64,
    expected: u64,
    flags: u32,
    options: *const ufutex_wait_options,
) -> c_int {
    let held = match Held::<DomainObject>::new(domain) {
        Ok(held) => held,
        Err(errno) => return int(|| Err::<c_int, _>(errno)),
    };
    if options.is_null() && is_own(&held, address, flags) {
        // The usual width is one that the compiler knows.
        return match flags {
            UFUTEX_U32 => wait_own(&held, address, expected, Width::U32),
            _ => wait_own_of(&held, address, expected, flags),
        };
    }
    // SAFETY: the same arguments.
    int(|| unsafe { wait_in(held, address, expected, flags, options) })
}

/// A wait without options, for a private word in the program's own memory.
#[inline(always)]
fn wait_own(held: &DomainObject, address: u64, expected: u64, width: Width) -> c_int {
    // The engine does this first, too. Done here, it needs no stack frame for the rest of a wait.
    if held.looks_first && expected <= width.max() && OwnMemory.load(address, width) != Ok(expected) {
        return -libc::EAGAIN;
    }
    wait_plainly(&held.domain, address, expected, width)
}

/// As `wait_own`, for words of other widths than 32 bits.
#[inline(never)]
fn wait_own_of(held: &DomainObject, address: u64, expected: u64, flags: u32) -> c_int {
    let width = match flags {
        UFUTEX_U8 => Width::U8,
        UFUTEX_U16 => Width::U16,
        _ => Width::U64,
    };
    wait_own(held, address, expected, width)
}

#[inline(never)]
fn wait_plainly(domain: &Domain, address: u64, expected: u64, width: Width) -> c_int {
    done(|| Ok(domain.wait(GuestWord::new(&OwnMemory, address, width)?, expected)?))
}

/// All other waits.
///
/// # Safety
/// As for `ufutex_wait`.
#[inline(never)]
unsafe fn wait_in(
    held: Held<DomainObject>,
    address: u64,
    expected: u64,
    flags: u32,
    options: *const ufutex_wait_options,
) -> Result<c_long, Errno> {
    // SAFETY: the program passes null, or options that are as large as they say.
    let how = unsafe { HowToWait::read(options)? };
    let domain = in_use(held);
    let task = task_of(how.task, &domain)?;
    let word = Word::new(&domain, address, flags, Access::Read)?;
    if domain.blocks_natively {
        let result = match &task {
            None => domain.domain.wait_with(word, expected, &how.with_timeout()),
            Some(task) => domain.domain.wait_interruptible(word, expected, &how.with_timeout(), task.task.interrupt()),
        };
        return Ok(result.map(|()| 0)?);
    }
    let operation = Operation::Wait(domain.domain.wait_async(word, expected, &how.options));
    block_on(&domain, task.as_deref(), operation, how.timeout)
}

/// The task of a wait. `None` if it has none.
fn task_of(task: *mut ufutex_task, domain: &DomainObject) -> Result<Option<InUse<TaskObject>>, Errno> {
    if task.is_null() { Ok(None) } else { to_block_as(task, domain).map(Some) }
}

/// Blocks the caller until one of several words is woken, if each holds its expected value: futex_waitv(2).
/// options: as for ufutex_wait().
///
/// Returns the index of the word that was woken, from 0 up; if several were, the last of them. Errors as for
/// ufutex_wait(). -EINVAL: also if count is 0, or greater than max_waitv.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_waitv(
    domain: *mut ufutex_domain,
    words: *const ufutex_waitv_word,
    count: u32,
    options: *const ufutex_wait_options,
) -> c_int {
    int(|| {
        // SAFETY: the program passes null, or options that are as large as they say.
        let how = unsafe { HowToWait::read(options)? };
        let domain = to_block_in(domain)?;
        let task = task_of(how.task, &domain)?;
        // SAFETY: the program passes `count` words.
        let words = unsafe { read_words(&domain, words, count)? };
        if domain.blocks_natively && task.is_none() {
            return Ok(domain.domain.wait_any(&words, &how.with_timeout())? as c_long);
        }
        let operation = Operation::WaitAny(domain.domain.wait_any_async(words, &how.options));
        block_on(&domain, task.as_deref(), operation, how.timeout)
    })
}

/// Reads the words of a wait for several words.
///
/// # Safety
/// `words` is null or valid for reading `count` of them, if it is aligned.
pub(super) unsafe fn read_words(
    domain: &DomainObject,
    words: *const ufutex_waitv_word,
    count: u32,
) -> Result<Words<'_>, Errno> {
    if words.is_null() || !words.is_aligned() || count == 0 {
        return Err(Errno::INVALID);
    }
    let mut read = Words::new();
    for i in 0..count as usize {
        // SAFETY: the caller guarantees it.
        let word = unsafe { words.add(i).read() };
        if word.reserved != 0 {
            return Err(Errno::INVALID);
        }
        // Read one after another: if the count is a mistake, the first bad word ends this before much memory is
        // allocated.
        read.try_reserve(1).map_err(|_| Errno::NO_MEMORY)?;
        read.push((Word::new(domain, word.address, word.flags, Access::Read)?, word.expected));
    }
    Ok(read)
}
