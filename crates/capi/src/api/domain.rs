//! Functions on domains: makes and frees one, sets its slots, reads its counters and waiters.

use core::ffi::{c_int, c_long};
use core::time::Duration;

use engine::{Domain, DomainOptions, PidNamespace, Policy};

use super::system::store_words;
use crate::abi;
use crate::errno::{Errno, done, long};
use crate::objects::{DomainObject, SystemObject};
use crate::platform::{Memory, Parker, Time};
use crate::registry::{Held, boxed, insert, remove};
use crate::types::{
    UFUTEX_COUNT_OPERATIONS, UFUTEX_NEW_PID_NAMESPACE, UFUTEX_NO_EARLY_RETURN, UFUTEX_POLICY_FIXED, UFUTEX_POLICY_LOAD,
    UFUTEX_POLICY_THREADS, ufutex_counters, ufutex_domain, ufutex_options, ufutex_system, ufutex_waited_word,
};

/// Makes a domain of a system. options: NULL for all defaults. The structs that it points to are copied.
///
/// The TIDs of its tasks are in the system's own PID namespace, or in a namespace of its own with
/// UFUTEX_NEW_PID_NAMESPACE. Tasks of different namespaces do not exist for each other: a TID in a lock's word is
/// looked up in the caller's namespace, and operations on a lock fail with -EINVAL if a task of another namespace waits
/// for it. Give guests that do not trust each other a namespace each.
///
/// Stores the handle in *domain and returns 0. No table is allocated before the first wait. -EINVAL: an unknown policy
/// or flag, a size that is too small, a function that is missing from memory, clock or parker; -ENOMEM.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_domain_new(
    system: *mut ufutex_system,
    options: *const ufutex_options,
    domain: *mut *mut ufutex_domain,
) -> c_int {
    let namespace = || Ok(Held::<SystemObject>::new(system)?.0.pid_namespace());
    // SAFETY: the program guarantees what `make` requires.
    unsafe { make(namespace, options, domain) }
}

/// Makes a domain in the PID namespace and the system of another one: another process of the same guest, as after
/// fork(2). With UFUTEX_NEW_PID_NAMESPACE the domain is in the same system, in a new namespace.
///
/// Errors as for ufutex_domain_new(). -EBADF: other is not a handle of a domain.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_domain_new_beside(
    other: *mut ufutex_domain,
    options: *const ufutex_options,
    domain: *mut *mut ufutex_domain,
) -> c_int {
    let namespace = || Ok(Held::<DomainObject>::new(other)?.domain.pid_namespace());
    // SAFETY: the program guarantees what `make` requires.
    unsafe { make(namespace, options, domain) }
}

/// The number of a domain's PID namespace, as it is passed to set_priority_in. 0 means the system's own namespace.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_domain_pid_namespace(domain: *mut ufutex_domain) -> c_long {
    long(|| Ok(Held::<DomainObject>::new(domain)?.domain.pid_namespace().number() as usize))
}

/// Makes a domain in a namespace, or in a new one of the same system.
///
/// # Safety
/// `options` is null or as large as its first field says, and so are the structs that it points to. Their functions do
/// what `ufutex.h` requires. `domain` is null, or valid for a write.
unsafe fn make(
    namespace: impl FnOnce() -> Result<PidNamespace, Errno>,
    options: *const ufutex_options,
    domain: *mut *mut ufutex_domain,
) -> c_int {
    done(|| {
        abi::check_out(domain)?;
        let mut namespace = namespace()?;
        // SAFETY: the program passes null, or options that are as large as they say.
        let said = unsafe { abi::read(options)? };
        let null = (core::ptr::null(), core::ptr::null(), core::ptr::null());
        let (memory, clock, parker) = said.map_or(null, |said| (said.memory, said.clock, said.parker));
        // SAFETY: the same holds for the structs that they point to, and their functions do what `ufutex.h` requires.
        let (memory, time, parker) = unsafe { (Memory::read(memory)?, Time::read(clock)?, Parker::read(parker)?) };
        let options = said.map_or(Ok(DomainOptions::new()), |said| options_of(&said))?;
        let flags = said.map_or(0, |said| said.flags);
        if flags & UFUTEX_NEW_PID_NAMESPACE != 0 {
            namespace = PidNamespace::new(namespace.system())?;
        }
        let blocks_natively = time.is_native() && parker.is_none();
        let object = DomainObject {
            domain: Domain::in_namespace(&namespace, options),
            system: namespace.system().clone(),
            memory,
            time,
            parker,
            blocks_natively,
            is_plain: blocks_natively && memory.is_native(),
            looks_first: flags & (UFUTEX_COUNT_OPERATIONS | UFUTEX_NO_EARLY_RETURN) == 0,
        };
        let handle = insert(boxed(object)?)?;
        // SAFETY: checked above; the program guarantees that it is valid for a write.
        unsafe { abi::store(domain, handle) }
    })
}

fn options_of(said: &ufutex_options) -> Result<DomainOptions, Errno> {
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
    let mut options = DomainOptions::new()
        .policy(policy)
        .counters(said.flags & UFUTEX_COUNT_OPERATIONS != 0)
        .early_return(said.flags & UFUTEX_NO_EARLY_RETURN == 0)
        .spin(Duration::from_nanos(said.spin));
    if said.max_waiters != 0 {
        options = options.max_waiters(said.max_waiters);
    }
    if said.max_table_bytes != 0 {
        options = options.max_table_bytes(said.max_table_bytes);
    }
    Ok(options)
}

/// Frees a domain and its tables. End its tasks first: a task may outlive its domain, but ufutex_task_exit() needs the
/// domain, and the task's robust lists are not walked any more.
///
/// Returns 0. -EBUSY: a thread or task waits in it, or another thread is using it, and it stays as it is.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_domain_free(domain: *mut ufutex_domain) -> c_int {
    done(|| remove::<DomainObject>(domain).map(drop))
}

/// Sets the number of slots (buckets) of a domain's table, a power of two from 2 to 2^24, or 0 for its namespace's global
/// table. On return the table has this size and all waiters have been moved. From then on no policy changes the size.
///
/// Returns 0. -EINVAL: another number; -ENOMEM, also if max_table_bytes forbids it; -EBUSY: the table was made
/// immutable.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_domain_set_slots(domain: *mut ufutex_domain, slots: usize) -> c_int {
    done(|| Ok(Held::<DomainObject>::new(domain)?.domain.set_slots(slots)?))
}

/// The number of slots (buckets) of a domain's own table. 0 before the first wait, and with the global table.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_domain_slots(domain: *mut ufutex_domain) -> c_long {
    long(|| Ok(Held::<DomainObject>::new(domain)?.domain.slots()))
}

/// Sets the present number of a process's threads. UFUTEX_POLICY_THREADS grows the table accordingly.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_domain_note_threads(domain: *mut ufutex_domain, threads: usize) -> c_int {
    done(|| Held::<DomainObject>::new(domain).map(|held| held.domain.note_threads(threads)))
}

/// Makes the call prctl(PR_FUTEX_HASH, op, slots, flags) for a domain, with the kernel's numbers. op: 1 sets the slots (0
/// for the global table, for good), 2 returns their number, 3 returns whether they are immutable. Flag 1 makes them
/// immutable.
///
/// Returns the kernel's result. -EINVAL, -EBUSY, -ENOMEM as in the kernel.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_prctl_futex_hash(
    domain: *mut ufutex_domain,
    op: u64,
    slots: u64,
    flags: u64,
) -> c_long {
    match Held::<DomainObject>::new(domain) {
        Ok(held) => held.domain.prctl_futex_hash(op, slots, flags) as c_long,
        Err(errno) => long(|| Err::<c_long, _>(errno)),
    }
}

/// Fills in counters, whose size the caller has set. The counts are read one after another, while other threads go on
/// counting.
///
/// Returns 0. -EINVAL: a size that is too small; -E2BIG: a size above 4096.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_domain_get_counters(
    domain: *mut ufutex_domain,
    counters: *mut ufutex_counters,
) -> c_int {
    done(|| {
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
        // SAFETY: the program passes null, or counters that are as large as they say.
        unsafe { abi::write(counters, &counted) }
    })
}

/// Lists the waiters of a domain: fills in up to capacity words, each of word_size bytes, which is sizeof(struct
/// ufutex_waited_word). No thread is stopped. A waiter that waits during the whole call is counted exactly once.
///
/// Returns the number of words with waiters, which may be greater than capacity. -EINVAL: words is NULL or misaligned,
/// word_size is too small.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_domain_who_waits(
    domain: *mut ufutex_domain,
    words: *mut ufutex_waited_word,
    word_size: usize,
    capacity: usize,
) -> c_long {
    long(|| {
        let held = Held::<DomainObject>::new(domain)?;
        // SAFETY: the program passes room for `capacity` words of that size.
        unsafe { store_words(words, word_size, capacity, |most| held.domain.who_waits(most)) }
    })
}

/// Lists the waiters for words of objects in all domains of a domain's PID namespace, except those of ufutex_object_new(),
/// which ufutex_system_who_waits() lists. Otherwise as ufutex_domain_who_waits().
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_domain_objects_who_wait(
    domain: *mut ufutex_domain,
    words: *mut ufutex_waited_word,
    word_size: usize,
    capacity: usize,
) -> c_long {
    long(|| {
        let held = Held::<DomainObject>::new(domain)?;
        // SAFETY: the program passes room for `capacity` words of that size.
        unsafe { store_words(words, word_size, capacity, |most| held.domain.pid_namespace().who_waits(most)) }
    })
}
