//! Functions on systems and shared objects, and the settings of a system.

use core::ffi::{c_int, c_long, c_void};

use engine::{
    Callbacks, ObjectId, Scope, SharedObject, System, SystemConfig,
    observe::WhoWaits,
    pi::{Priority, Scheduler},
};

use crate::abi;
use crate::driver::{TimerClocks, read_thread};
use crate::errno::{Errno, done, int, long};
use crate::nodes::Nodes;
use crate::objects::SystemObject;
use crate::registry::{Held, boxed, insert, remove};
use crate::types::{
    UFUTEX_HASH_SEED, UFUTEX_SCOPE_ADDRESS_SPACE, UFUTEX_SCOPE_OBJECT, UFUTEX_SCOPE_PRIVATE, ufutex_config,
    ufutex_system, ufutex_system_counters, ufutex_waited_word,
};

/// The embedder's scheduler.
struct Told {
    function: Function,
    context: *mut c_void,
}

/// The function, with or without the number of the PID namespace.
enum Function {
    OfTid(unsafe extern "C" fn(*mut c_void, u32, u32)),
    OfNamespace(unsafe extern "C" fn(*mut c_void, u64, u32, u32)),
}

// SAFETY: the program promises that any thread may call the functions, and several at the same time.
unsafe impl Send for Told {}
// SAFETY: as above.
unsafe impl Sync for Told {}

impl Scheduler for Told {
    fn set_priority(&self, tid: u32, priority: Priority) {
        self.set_priority_in(0, tid, priority);
    }

    fn set_priority_in(&self, namespace: u64, tid: u32, priority: Priority) {
        let priority = priority.as_realtime().into();
        // SAFETY: a function of the program, with the context that was given with it.
        unsafe {
            match self.function {
                Function::OfTid(function) => function(self.context, tid, priority),
                Function::OfNamespace(function) => function(self.context, namespace, tid, priority),
            }
        }
    }
}

/// The scheduler that a program has given. `None` if both functions are null.
fn scheduler_of(said: &ufutex_config) -> Result<Option<Callbacks<Told>>, Errno> {
    let of_namespace = said.set_priority_in.map(Function::OfNamespace);
    let Some(function) = of_namespace.or(said.set_priority.map(Function::OfTid)) else { return Ok(None) };
    Ok(Some(Callbacks::try_new(Told { function, context: said.context })?))
}

/// Makes a system. config: NULL for all defaults.
///
/// Stores the handle in *system and returns 0. -EINVAL: a number of slots that is not a power of two from 2 to 2^24,
/// unknown flags, a size that is too small, a function that is missing from topology or timer_clocks, no node or more
/// than 1024, a setting of driver_thread that no thread has; -ENOMEM, also if topology has no memory for a global
/// table.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_system_new(config: *const ufutex_config, system: *mut *mut ufutex_system) -> c_int {
    done(|| {
        abi::check_out(system)?;
        // SAFETY: the program passes null, or a config that is as large as it says.
        let said = unsafe { abi::read(config)? };
        let made = match said {
            None => System::with_config(SystemConfig::new())?,
            Some(said) => {
                // SAFETY: the same holds for the structs that it points to.
                let config = unsafe { config_of(&said)? };
                match scheduler_of(&said)? {
                    None => System::with_config(config)?,
                    Some(scheduler) => System::with_scheduler(config, scheduler)?,
                }
            }
        };
        let handle = insert(boxed(SystemObject(made))?)?;
        // SAFETY: checked above; the program guarantees that it is valid for a write.
        unsafe { abi::store(system, handle) }
    })
}

/// # Safety
/// The structs that `said` points to are as large as they say. Their functions do what `ufutex.h` requires.
unsafe fn config_of(said: &ufutex_config) -> Result<SystemConfig, Errno> {
    if said.flags & !UFUTEX_HASH_SEED != 0 || said.reserved != 0 {
        return Err(Errno::INVALID);
    }
    let mut config = SystemConfig::new();
    // SAFETY: the caller guarantees it.
    if let Some(nodes) = unsafe { Nodes::read(said.topology)? } {
        config = config.topology(nodes);
    }
    // SAFETY: as above.
    if let Some(clocks) = unsafe { TimerClocks::read(said.timer_clocks)? } {
        config = config.clocks(clocks);
    }
    // SAFETY: as above.
    if let Some(thread) = unsafe { read_thread(said.driver_thread)? } {
        config = config.driver_thread(thread);
    }
    if said.flags & UFUTEX_HASH_SEED != 0 {
        config = config.hash_seed(said.hash_seed);
    }
    type Setter = fn(SystemConfig, usize) -> SystemConfig;
    let settings: [(usize, Setter); 9] = [
        (said.cpus, SystemConfig::cpus),
        (said.global_slots, SystemConfig::global_slots),
        (said.default_slots, SystemConfig::default_slots),
        (said.max_slots, SystemConfig::max_slots),
        (said.max_waitv, SystemConfig::max_waitv),
        (said.max_robust, SystemConfig::max_robust),
        (said.max_pi_depth, SystemConfig::max_pi_depth),
        (said.max_table_bytes, SystemConfig::max_table_bytes),
        (said.max_domain_table_bytes, SystemConfig::max_domain_table_bytes),
    ];
    Ok(settings.into_iter().fold(config, |config, (value, set)| if value == 0 { config } else { set(config, value) }))
}

/// Frees a handle of a system. The system itself lives as long as its domains and tasks. Timers keep only its driver.
///
/// Returns 0. -EBUSY: another thread is using it.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_system_free(system: *mut ufutex_system) -> c_int {
    done(|| remove::<SystemObject>(system).map(drop))
}

/// Fills in counters, whose size the caller has set.
///
/// Returns 0. -EINVAL: a size that is too small; -E2BIG: a size above 4096.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_system_get_counters(
    system: *mut ufutex_system,
    counters: *mut ufutex_system_counters,
) -> c_int {
    done(|| {
        let held = Held::<SystemObject>::new(system)?;
        let counted = ufutex_system_counters {
            size: size_of::<ufutex_system_counters>(),
            global_slots: held.0.global_slots() as u64,
            robust_lists_cut: held.0.robust_lists_cut(),
            pi_chains_refused: held.0.pi_chains_refused(),
            table_bytes: held.0.table_bytes() as u64,
        };
        // SAFETY: the program passes null, or counters that are as large as they say.
        unsafe { abi::write(counters, &counted) }
    })
}

/// One more than the number of the machine's last node.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_system_nodes(system: *mut ufutex_system) -> c_int {
    int(|| Ok(Held::<SystemObject>::new(system)?.0.nodes()))
}

/// Whether the machine has a node with this number: 1 or 0.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_system_has_node(system: *mut ufutex_system, node: u32) -> c_int {
    int(|| Ok(Held::<SystemObject>::new(system)?.0.has_node(node)))
}

/// The node that the calling thread runs on: the node that is stored behind a word with UFUTEX_NUMA in place of -1.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_system_current_node(system: *mut ufutex_system) -> c_int {
    int(|| Ok(Held::<SystemObject>::new(system)?.0.current_node()))
}

/// Lists the waiters for words of objects of ufutex_object_new(), in all domains of a system, and for words of other
/// objects in the domains of the system's own PID namespace. Otherwise as ufutex_domain_who_waits().
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_system_who_waits(
    system: *mut ufutex_system,
    words: *mut ufutex_waited_word,
    word_size: usize,
    capacity: usize,
) -> c_long {
    long(|| {
        let held = Held::<SystemObject>::new(system)?;
        // SAFETY: the program passes room for `capacity` words of that size.
        unsafe { store_words(words, word_size, capacity, |most| held.0.who_waits(most)) }
    })
}

/// Makes an object that domains of several PID namespaces map, and stores its number in *object, for the scope of a
/// memory. Guests that share it meet at its words. An object with a number below 2^61, which the program chooses, is one of
/// the caller's namespace: domains of another namespace that use the number mean another object.
///
/// Make it before any domain uses the object, if a second namespace may map it later. It takes 1 KiB.
///
/// Returns 0. -ENOMEM, also if there are 2^24 objects.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_object_new(system: *mut ufutex_system, object: *mut u64) -> c_int {
    done(|| {
        abi::check_out(object)?;
        let made = SharedObject::new(&Held::<SystemObject>::new(system)?.0)?;
        // SAFETY: checked above; the program guarantees that it is valid for a write.
        unsafe { object.write(made.into_id().get()) };
        Ok(())
    })
}

/// Frees an object of ufutex_object_new(). Waiters that are still queued for its words can be woken by its number.
///
/// Returns 0. -EINVAL: not an object of ufutex_object_new(), or freed before.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_object_free(system: *mut ufutex_system, object: u64) -> c_int {
    done(|| {
        let id = ObjectId::new(object).ok_or(Errno::INVALID)?;
        Ok(SharedObject::free(&Held::<SystemObject>::new(system)?.0, id)?)
    })
}

/// Copies the words that `look` finds into a program's array. Returns the number of all words with waiters.
///
/// # Safety
/// `words` has room for `capacity` words, each of `word_size` bytes.
pub(super) unsafe fn store_words(
    words: *mut ufutex_waited_word,
    word_size: usize,
    capacity: usize,
    look: impl FnOnce(usize) -> WhoWaits,
) -> Result<usize, Errno> {
    const SIZE: usize = size_of::<ufutex_waited_word>();
    if !(SIZE..=4096).contains(&word_size) || !word_size.is_multiple_of(8) || !words.is_aligned() {
        return Err(Errno::INVALID);
    }
    if words.is_null() && capacity != 0 {
        return Err(Errno::INVALID);
    }
    let who = look(capacity);
    for (i, word) in who.iter().enumerate() {
        let (scope, object) = match word.scope {
            Scope::Private => (UFUTEX_SCOPE_PRIVATE, 0),
            Scope::AddressSpace => (UFUTEX_SCOPE_ADDRESS_SPACE, 0),
            Scope::Object { id, .. } => (UFUTEX_SCOPE_OBJECT, id.get()),
        };
        let [threads, tasks, for_lock] = [word.threads, word.tasks, word.for_lock].map(|count| count as u64);
        let word =
            ufutex_waited_word { address: word.address, object, scope, bitset: word.bitset, threads, tasks, for_lock };
        // SAFETY: `i` is less than the capacity, and the caller guarantees the room.
        unsafe {
            let at = words.cast::<u8>().add(i * word_size);
            at.cast::<ufutex_waited_word>().write(word);
            at.add(SIZE).write_bytes(0, word_size - SIZE);
        }
    }
    Ok(who.iter().len() + who.omitted())
}
