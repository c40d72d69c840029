use core::ffi::{c_int, c_long};

use engine::{Domain, Options, PidNamespace, Policy};

use super::export;
use super::system::store_words;
use crate::abi;
use crate::errno::{Answer, Errno};
use crate::objects::{DomainObject, SystemObject};
use crate::platform::{Memory, Parker, Time};
use crate::registry::{Held, boxed, insert, remove};
use crate::types::{
    UFUTEX_COUNT_OPERATIONS, UFUTEX_NEW_PID_NAMESPACE, UFUTEX_NO_EARLY_RETURN, UFUTEX_POLICY_FIXED, UFUTEX_POLICY_LOAD,
    UFUTEX_POLICY_THREADS, ufutex_counters, ufutex_domain, ufutex_options, ufutex_system, ufutex_waited_word,
};

/// Makes a domain of a system. options: NULL for all defaults; what they point to is copied.
///
/// Its tasks have their TIDs in the system's own PID namespace, or with UFUTEX_NEW_PID_NAMESPACE in one of its own. Tasks of
/// different namespaces do not exist for each other: a TID in a lock's word is looked up among those of the caller's, and
/// operations on a lock answer -EINVAL where a task of another one waits. Guests that do not trust each other get one each.
///
/// Stores the handle in *domain and answers 0. No table is allocated before somebody waits. -EINVAL: NULL or misaligned, an
/// unknown policy or flag, a size that is too small, a function that is missing from memory, clock or parker; -E2BIG: a
/// struct sets what this library does not know; -EBADF: no handle of a system; -ENOMEM.
///
/// Any thread; not async-signal-safe.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_domain_new(
    system: *mut ufutex_system,
    options: *const ufutex_options,
    domain: *mut *mut ufutex_domain,
) -> c_int {
    let namespace = || Ok(Held::<SystemObject>::new(system)?.0.pid_namespace());
    // SAFETY: the program promises us what is asked for there.
    unsafe { make(namespace, options, domain) }
}

/// Makes a domain in the PID namespace of another one, and in its system: another process of that guest, as after fork(2).
/// With UFUTEX_NEW_PID_NAMESPACE in the system alone.
///
/// As ufutex_domain_new(). -EBADF: other is no handle of a domain.
///
/// Any thread; not async-signal-safe.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_domain_new_beside(
    other: *mut ufutex_domain,
    options: *const ufutex_options,
    domain: *mut *mut ufutex_domain,
) -> c_int {
    let namespace = || Ok(Held::<DomainObject>::new(other)?.domain.pid_namespace());
    // SAFETY: the program promises us what is asked for there.
    unsafe { make(namespace, options, domain) }
}

/// The number of a domain's PID namespace, as set_priority_in is told it: 0 for the system's own.
///
/// -EINVAL: NULL; -EBADF: no handle of a domain.
///
/// Any thread; not async-signal-safe.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_domain_pid_namespace(domain: *mut ufutex_domain) -> c_long {
    Held::<DomainObject>::new(domain).map(|held| held.domain.pid_namespace().number() as usize).long()
}

/// Makes a domain in a namespace, or beside it.
///
/// # Safety
/// `options` is null or as large as it says, and what it points to is null or as large as that says, with functions that are
/// what the types say. `domain` is null, or valid for a write.
unsafe fn make(
    namespace: impl FnOnce() -> Result<PidNamespace, Errno>,
    options: *const ufutex_options,
    domain: *mut *mut ufutex_domain,
) -> c_int {
    let make = || {
        abi::check_out(domain)?;
        let mut namespace = namespace()?;
        // SAFETY: the program gives null or options that are as large as they say.
        let said = unsafe { abi::read(options)? };
        let null = (core::ptr::null(), core::ptr::null(), core::ptr::null());
        let (memory, clock, parker) = said.map_or(null, |said| (said.memory, said.clock, said.parker));
        // SAFETY: the same for what they point to, and the functions are what the types say.
        let (memory, time, parker) = unsafe { (Memory::read(memory)?, Time::read(clock)?, Parker::read(parker)?) };
        let options = said.map_or(Ok(Options::new()), |said| options_of(&said))?;
        let flags = said.map_or(0, |said| said.flags);
        if flags & UFUTEX_NEW_PID_NAMESPACE != 0 {
            namespace = PidNamespace::new(namespace.system())?;
        }
        let blocks_natively = time.is_native() && parker.is_none();
        let object = DomainObject {
            domain: Domain::in_namespace(&namespace, options),
            memory,
            time,
            parker,
            blocks_natively,
            is_plain: blocks_natively && memory.is_native(),
            looks_first: flags & (UFUTEX_COUNT_OPERATIONS | UFUTEX_NO_EARLY_RETURN) == 0,
        };
        let handle = insert(boxed(object)?)?;
        // SAFETY: checked above, and valid for a write.
        unsafe { abi::store(domain, handle) }
    };
    make().map(|()| 0).int()
}

fn options_of(said: &ufutex_options) -> Result<Options, Errno> {
    let policy = match said.policy {
        UFUTEX_POLICY_FIXED => Policy::Fixed(said.slots),
        _ if said.slots != 0 => return Err(Errno::INVALID),
        UFUTEX_POLICY_LOAD => Policy::Load,
        UFUTEX_POLICY_THREADS => Policy::Threads,
        _ => return Err(Errno::INVALID),
    };
    if said.flags & !(UFUTEX_COUNT_OPERATIONS | UFUTEX_NO_EARLY_RETURN | UFUTEX_NEW_PID_NAMESPACE) != 0 {
        return Err(Errno::INVALID);
    }
    let mut options = Options::new()
        .policy(policy)
        .counters(said.flags & UFUTEX_COUNT_OPERATIONS != 0)
        .early_return(said.flags & UFUTEX_NO_EARLY_RETURN == 0);
    if said.max_waiters != 0 {
        options = options.max_waiters(said.max_waiters);
    }
    if said.max_table_bytes != 0 {
        options = options.max_table_bytes(said.max_table_bytes);
    }
    Ok(options)
}

/// Frees a domain and its tables.
///
/// Answers 0. -EBUSY: somebody waits in it, or another thread is using it: it stays as it is. -EINVAL: NULL; -EBADF: no
/// handle of a domain, or freed before.
///
/// Any thread; not async-signal-safe.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_domain_free(domain: *mut ufutex_domain) -> c_int {
    remove::<DomainObject>(domain).map(|_| 0).int()
}

/// Sets the number of slots (buckets) of a domain's table, a power of two from 2 to 2^24; 0 for the system's global table.
/// In effect on return, with every waiter moved; no policy decides any more.
///
/// Answers 0. -EINVAL: another number; -ENOMEM, also where max_table_bytes forbids it; -EBUSY: the table was made immutable;
/// -EBADF: no handle of a domain.
///
/// Any thread; not async-signal-safe.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_domain_set_slots(domain: *mut ufutex_domain, slots: usize) -> c_int {
    let set = || Ok(Held::<DomainObject>::new(domain)?.domain.set_slots(slots)?);
    set().map(|()| 0).int()
}

/// The number of slots (buckets) of a domain's own table: 0 before the first wait, and with the global table.
///
/// -EBADF: no handle of a domain.
///
/// Any thread; not async-signal-safe.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_domain_slots(domain: *mut ufutex_domain) -> c_long {
    Held::<DomainObject>::new(domain).map(|held| held.domain.slots()).long()
}

/// Says how many threads a process has now: UFUTEX_POLICY_THREADS grows the table by it.
///
/// Answers 0. -EBADF: no handle of a domain.
///
/// Any thread; not async-signal-safe.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_domain_note_threads(domain: *mut ufutex_domain, threads: usize) -> c_int {
    Held::<DomainObject>::new(domain).map(|held| held.domain.note_threads(threads)).map(|()| 0).int()
}

/// prctl(PR_FUTEX_HASH, op, slots, flags) for a domain, with the kernel's numbers and answers: 1 sets slots (0 for the
/// global table, for good), 2 asks for them, 3 asks whether they are immutable, as flag 1 makes them.
///
/// -EINVAL, -EBUSY, -ENOMEM as the kernel; -EBADF: no handle of a domain.
///
/// Any thread; not async-signal-safe.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_prctl_futex_hash(
    domain: *mut ufutex_domain,
    op: u64,
    slots: u64,
    flags: u64,
) -> c_long {
    match Held::<DomainObject>::new(domain) {
        Ok(held) => held.domain.prctl_futex_hash(op, slots, flags) as c_long,
        Err(errno) => Err::<c_long, _>(errno).long(),
    }
}

/// Fills in counters, whose size the caller has set. They are read one after another, while others go on counting.
///
/// Answers 0. -EINVAL: NULL, misaligned, a size that is too small; -E2BIG: a size above 4096; -EBADF: no handle of a
/// domain.
///
/// Any thread; not async-signal-safe.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_domain_get_counters(
    domain: *mut ufutex_domain,
    counters: *mut ufutex_counters,
) -> c_int {
    let get = || {
        let held = Held::<DomainObject>::new(domain)?;
        let counted = held.domain.counters();
        let counted = ufutex_counters {
            size: size_of::<ufutex_counters>(),
            waiting: held.domain.waiting() as u64,
            waits: counted.waits,
            mismatches: counted.mismatches,
            wakes: counted.wakes,
            woken: counted.woken,
            empty_wakes: counted.empty_wakes,
            requeues: counted.requeues,
            requeued: counted.requeued,
            resizes: counted.resizes,
            contended_locks: counted.contended_locks,
            longest_chain: counted.longest_chain,
            refused_waiters: counted.refused_waiters,
            refused_slots: counted.refused_slots,
            refused_waitv: counted.refused_waitv,
            table_bytes: held.domain.table_bytes() as u64,
            refused_tables: counted.refused_tables,
        };
        // SAFETY: the program gives null or counters that are as large as they say.
        unsafe { abi::write(counters, &counted) }
    };
    get().map(|()| 0).int()
}

/// Who waits where in a domain: fills in up to capacity words, each of word_size bytes, sizeof(struct ufutex_waited_word).
/// Nobody is stopped: a waiter that waits all the while is reported, once.
///
/// Answers how many words somebody waits for, which may be more than there was room for. -EINVAL: words is NULL or
/// misaligned, word_size is too small; -EBADF: no handle of a domain.
///
/// Any thread; not async-signal-safe.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_domain_who_waits(
    domain: *mut ufutex_domain,
    words: *mut ufutex_waited_word,
    word_size: usize,
    capacity: usize,
) -> c_long {
    let look = || {
        let held = Held::<DomainObject>::new(domain)?;
        // SAFETY: the program gives room for so many words of that size.
        unsafe { store_words(words, word_size, capacity, |most| held.domain.who_waits(most)) }
    };
    look().long()
}

export!(
    ufutex_domain_new,
    ufutex_domain_new_beside,
    ufutex_domain_pid_namespace,
    ufutex_domain_free,
    ufutex_domain_set_slots,
    ufutex_domain_slots,
    ufutex_domain_note_threads,
    ufutex_prctl_futex_hash,
    ufutex_domain_get_counters,
    ufutex_domain_who_waits,
);
