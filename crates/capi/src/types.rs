//! The types and numbers of the interface, as ufutex.h has them.

use core::ffi::{c_int, c_void};
use core::mem::offset_of;

use crate::abi::Versioned;

/// What a kernel has once: global tables, a hash secret, limits. A handle: not the address of anything.
pub struct ufutex_system {
    _opaque: (),
}

/// The futexes of one process (or guest, or program). A handle: not the address of anything.
pub struct ufutex_domain {
    _opaque: (),
}

/// A thread of a guest, or of this program: who owns and waits for locks with priority inheritance, makes system calls, and
/// can be interrupted. A handle: not the address of anything.
pub struct ufutex_task {
    _opaque: (),
}

/// A wait under way that no thread sleeps in, for schedulers: see ufutex_prepare_wait(). A handle: not the address of
/// anything.
pub struct ufutex_waiter {
    _opaque: (),
}

/// Flags of a word: it has 8 bits. One of the four sizes has to be there.
pub const UFUTEX_U8: u32 = 1;
/// It has 16 bits.
pub const UFUTEX_U16: u32 = 2;
/// It has 32 bits, as all of Linux's have.
pub const UFUTEX_U32: u32 = 4;
/// It has 64 bits.
pub const UFUTEX_U64: u32 = 8;
/// Others may map it: futex(2) without FUTEX_PRIVATE_FLAG. It does not meet operations without this flag.
pub const UFUTEX_SHARED: u32 = 16;

/// Timeouts: none.
pub const UFUTEX_FOREVER: u32 = 0;
/// So many nanoseconds from now on, by the monotonic clock.
pub const UFUTEX_AFTER: u32 = 1;
/// Until the monotonic clock shows so many nanoseconds.
pub const UFUTEX_UNTIL_MONOTONIC: u32 = 2;
/// Until the real-time clock shows so many nanoseconds since 1970.
pub const UFUTEX_UNTIL_REALTIME: u32 = 3;

/// Clocks, numbered as for clock_gettime(2): real time, since 1970.
pub const UFUTEX_REALTIME: u32 = 0;
/// Monotonic time.
pub const UFUTEX_MONOTONIC: u32 = 1;
/// A deadline that never comes.
pub const UFUTEX_NO_DEADLINE: u64 = 0xffff_ffff_ffff_ffff;

/// All bits: whatever wakes the word wakes the waiter.
pub const UFUTEX_BITSET_ANY: u32 = 0xffff_ffff;

/// Size policies: grow under load. The default.
pub const UFUTEX_POLICY_LOAD: u32 = 0;
/// The kernel's rule, by the number of threads: ufutex_domain_note_threads().
pub const UFUTEX_POLICY_THREADS: u32 = 1;
/// A fixed number of slots.
pub const UFUTEX_POLICY_FIXED: u32 = 2;

/// Flags of ufutex_options: count what operations do, about ten nanoseconds each.
pub const UFUTEX_COUNT_OPERATIONS: u32 = 1;
/// A wait goes through its bucket even if the word differs at first sight, as in the kernel.
pub const UFUTEX_NO_EARLY_RETURN: u32 = 2;

/// The domain's tasks have their TIDs in a PID namespace of its own, as after clone(2) with CLONE_NEWPID.
pub const UFUTEX_NEW_PID_NAMESPACE: u32 = 4;

/// Flag of ufutex_config: hash_seed is set.
pub const UFUTEX_HASH_SEED: u32 = 1;

/// Flag of ufutex_task_new(): a thread of the kernel itself, for whose locks nobody may wait (EPERM).
pub const UFUTEX_KERNEL_TASK: u32 = 1;

/// What an access is for: to read.
pub const UFUTEX_READ: u32 = 0;
/// To write.
pub const UFUTEX_WRITE: u32 = 1;

/// Who shares a word: the threads of one domain.
pub const UFUTEX_SCOPE_PRIVATE: u32 = 0;
/// The same, by operations with UFUTEX_SHARED on memory that nobody else maps.
pub const UFUTEX_SCOPE_ADDRESS_SPACE: u32 = 1;
/// Whoever maps the object.
pub const UFUTEX_SCOPE_OBJECT: u32 = 2;

/// What ufutex_wake_op() does to a word: this.
pub const UFUTEX_OP_SET: u32 = 0;
/// Add this; it wraps.
pub const UFUTEX_OP_ADD: u32 = 1;
/// Its bits and these.
pub const UFUTEX_OP_OR: u32 = 2;
/// Its bits without these.
pub const UFUTEX_OP_ANDN: u32 = 3;
/// Its bits, those of these turned over.
pub const UFUTEX_OP_XOR: u32 = 4;
/// What the word must have held for its waiters to be woken, as a signed number: equal to this.
pub const UFUTEX_CMP_EQ: u32 = 0;
/// Anything else.
pub const UFUTEX_CMP_NE: u32 = 1;
/// Less.
pub const UFUTEX_CMP_LT: u32 = 2;
/// Less or equal.
pub const UFUTEX_CMP_LE: u32 = 3;
/// Greater.
pub const UFUTEX_CMP_GT: u32 = 4;
/// Greater or equal.
pub const UFUTEX_CMP_GE: u32 = 5;

/// Why a wait is ended by ufutex_waiter_end(): a signal, a kill, a change of mind.
pub const UFUTEX_INTERRUPTED: u32 = 0;
/// The time is up.
pub const UFUTEX_TIMED_OUT: u32 = 1;

/// To be added to a system call's number that is one of aarch64, riscv64 or loongarch64 rather than x86-64.
pub const UFUTEX_GENERIC_NUMBER: u64 = 0x1_0000_0000;

/// What ufutex_resume() says of a system call: the program gets this result.
pub const UFUTEX_RESUME_RETURN: c_int = 0;
/// The same call is made again, after the handler if one runs.
pub const UFUTEX_RESUME_AGAIN: c_int = 1;
/// restart_syscall is called in place of it, unless a handler runs.
pub const UFUTEX_RESUME_CONTINUE: c_int = 2;

/// Handlers of ufutex_resume(): no signal handler runs.
pub const UFUTEX_NO_HANDLER: u32 = 0;
/// One runs that was installed without SA_RESTART.
pub const UFUTEX_HANDLER: u32 = 1;
/// One runs that was installed with SA_RESTART.
pub const UFUTEX_HANDLER_RESTART: u32 = 2;

/// The memory that a domain's words lie in. Functions answer 0, and anything else for a fault, unless it says otherwise.
///
/// They are called by any thread, several at a time, return on the thread that called them, and call nothing of this library.
/// load, compare_exchange and fault_in are given together, or none of them, for the program's own memory.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ufutex_memory {
    /// sizeof(struct ufutex_memory).
    pub size: usize,
    /// Handed to each function.
    pub context: *mut c_void,
    /// Reads the word of so many bytes in one piece, with acquire ordering or stronger. Never blocks: where the page is not
    /// there it is a fault.
    pub load: Option<unsafe extern "C" fn(context: *mut c_void, address: u64, bytes: u32, value: *mut u64) -> c_int>,
    /// Replaces the word by desired if it holds *current, in one piece, with acquire and release ordering or stronger, and
    /// answers 0; else stores in *current what it holds, and answers 1. Negative for a fault. Never blocks.
    pub compare_exchange: Option<
        unsafe extern "C" fn(context: *mut c_void, address: u64, bytes: u32, current: *mut u64, desired: u64) -> c_int,
    >,
    /// Makes an address accessible that was not, for UFUTEX_READ or UFUTEX_WRITE; called without any lock held, and may
    /// block. A fault means that the access is not allowed at all: the operation ends with EFAULT.
    pub fault_in: Option<unsafe extern "C" fn(context: *mut c_void, address: u64, access: u32) -> c_int>,
    /// Copies memory, faulting it in where necessary; may block. NULL: byte after byte by load.
    pub read:
        Option<unsafe extern "C" fn(context: *mut c_void, address: u64, into: *mut c_void, bytes: usize) -> c_int>,
    /// Who shares the word at an address, for operations on shared words: UFUTEX_SCOPE_ADDRESS_SPACE, or
    /// UFUTEX_SCOPE_OBJECT with the object's number, below 2^61, and the word's offset in it. Anything else is a fault.
    /// NULL: nobody maps what this domain maps.
    pub scope: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            address: u64,
            access: u32,
            object: *mut u64,
            offset: *mut u64,
        ) -> c_int,
    >,
    /// Whether a program may name these addresses at all: 1 or 0. NULL: the lower half of an address space of x86-64.
    pub access_ok: Option<unsafe extern "C" fn(context: *mut c_void, address: u64, bytes: u64) -> c_int>,
}
// SAFETY: `repr(C)`, begins with its size; integers and pointers.
unsafe impl Versioned for ufutex_memory {}

/// A clock of the embedder's own.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ufutex_clock {
    /// sizeof(struct ufutex_clock).
    pub size: usize,
    /// Handed to the function.
    pub context: *mut c_void,
    /// What UFUTEX_MONOTONIC or UFUTEX_REALTIME shows, in nanoseconds. Called by any thread, with no lock held.
    pub now: Option<unsafe extern "C" fn(context: *mut c_void, clock: u32) -> u64>,
}
// SAFETY: as above.
unsafe impl Versioned for ufutex_clock {}

/// How threads of the embedder's own sleep: green threads, virtual processors. All three functions are given. They are
/// called with no lock held, and call nothing of this library.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ufutex_parker {
    /// sizeof(struct ufutex_parker).
    pub size: usize,
    /// Handed to each function.
    pub context: *mut c_void,
    /// The embedder's thread that is running. NULL where there is none: such a thread of the host sleeps as others do.
    pub current: Option<unsafe extern "C" fn(context: *mut c_void) -> *mut c_void>,
    /// Lets the running thread sleep until it is unparked or has been since it parked last, or until the clock shows so
    /// many nanoseconds; UFUTEX_NO_DEADLINE for never. It may return sooner, and on another thread of the host. -ETIMEDOUT
    /// ends the wait because its time is up, -EINTR as a signal does; after anything else the wait goes on if it has to.
    pub park:
        Option<unsafe extern "C" fn(context: *mut c_void, thread: *mut c_void, clock: u32, deadline: u64) -> c_int>,
    /// Ends the sleep of a thread, or the next one. Called by any thread, and returns on it without switching to another one.
    /// Not called any more when the thread's operation has returned.
    pub unpark: Option<unsafe extern "C" fn(context: *mut c_void, thread: *mut c_void)>,
}
// SAFETY: as above.
unsafe impl Versioned for ufutex_parker {}

/// What holds for a system. 0 is the default of each.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ufutex_config {
    /// sizeof(struct ufutex_config).
    pub size: usize,
    /// UFUTEX_HASH_SEED, or 0.
    pub flags: u32,
    /// Has to be 0.
    pub reserved: u32,
    /// The secret of the hash function; random without UFUTEX_HASH_SEED.
    pub hash_seed: u64,
    /// How many CPUs run at the same time. Default: those of the host.
    pub cpus: usize,
    /// Slots of the global table, a power of two. Default: 256 for each CPU.
    pub global_slots: usize,
    /// Slots of a domain's first table, a power of two. Default: 16.
    pub default_slots: usize,
    /// Slots that a policy may grow a table to, and that PR_FUTEX_HASH may ask for, a power of two. Default: 2^20.
    pub max_slots: usize,
    /// Words of one wait. Default: 128.
    pub max_waitv: usize,
    /// Entries of a robust list that are walked. Default: 2048.
    pub max_robust: usize,
    /// Owners that wait for one another. Default: 1024.
    pub max_pi_depth: usize,
    /// Called with the real-time priority, from 1 to 99 and 0 for none, that a task runs with from now on, because others
    /// wait for its locks. By any thread, several at a time; the last call for a task holds. It must not wait. May be NULL.
    pub set_priority: Option<unsafe extern "C" fn(context: *mut c_void, tid: u32, priority: u32)>,
    /// Handed to set_priority and set_priority_in. They are used as long as the system or a domain of it.
    pub context: *mut c_void,
    /// Bytes that the tables of all domains may take together, 64 for each slot. The global table is not counted, nor 16
    /// slots of each domain, which none can keep another from having. Default: 2^30.
    pub max_table_bytes: usize,
    /// Bytes that the tables of one domain may take together, unless its options say otherwise. A domain whose first table
    /// does not fit begins with 16 slots, 1024 bytes; if these do not fit either it uses the global table. Default: 2^27.
    pub max_domain_table_bytes: usize,
    /// Called in place of set_priority, with the number of the task's PID namespace besides: where there are several, a TID
    /// alone does not say which task it is. May be NULL.
    pub set_priority_in:
        Option<unsafe extern "C" fn(context: *mut c_void, pid_namespace: u64, tid: u32, priority: u32)>,
}
// SAFETY: as above.
unsafe impl Versioned for ufutex_config {
    const FIRST_SIZE: usize = offset_of!(Self, max_table_bytes);
}

/// What holds for a domain. 0 and NULL are the defaults.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ufutex_options {
    /// sizeof(struct ufutex_options).
    pub size: usize,
    /// UFUTEX_POLICY_...: what decides the size of the table.
    pub policy: u32,
    /// UFUTEX_COUNT_OPERATIONS, UFUTEX_NO_EARLY_RETURN, UFUTEX_NEW_PID_NAMESPACE.
    pub flags: u32,
    /// Of UFUTEX_POLICY_FIXED: slots, rounded up to a power of two; 0 for the global table. Else 0.
    pub slots: usize,
    /// How many may wait through the domain at a time. Default: 2^24; at most 2^28.
    pub max_waiters: usize,
    /// Where words are: copied. NULL: in this program's own memory.
    pub memory: *const ufutex_memory,
    /// What deadlines are measured by: copied. NULL: the host's clocks.
    pub clock: *const ufutex_clock,
    /// How those wait that ufutex_wait() and its like block: copied. NULL: as threads of the host.
    pub parker: *const ufutex_parker,
    /// Bytes that the tables of the domain may take together, 64 for each slot. Default: max_domain_table_bytes of the
    /// system, which says what becomes of a domain whose first table does not fit.
    pub max_table_bytes: usize,
}
// SAFETY: as above.
unsafe impl Versioned for ufutex_options {
    const FIRST_SIZE: usize = offset_of!(Self, max_table_bytes);
}

/// How to wait. UFUTEX_WAIT_OPTIONS_INIT has the defaults: a bitset of 0 is none.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ufutex_wait_options {
    /// sizeof(struct ufutex_wait_options).
    pub size: usize,
    /// UFUTEX_FOREVER, UFUTEX_AFTER, UFUTEX_UNTIL_...
    pub timeout: u32,
    /// Be woken only by wakes that have one of these bits. Not 0.
    pub bitset: u32,
    /// Of the timeout.
    pub nanoseconds: u64,
    /// Be woken before waiters of less: a real-time priority from 1 to 99, 0 for none.
    pub priority: u32,
    /// Has to be 0.
    pub reserved: u32,
    /// Whose interrupt ends the wait; NULL for nobody's. One wait at a time. Waits for locks have a task in any case, and
    /// ignore this one, and bitset and priority.
    pub task: *mut ufutex_task,
}
// SAFETY: as above.
unsafe impl Versioned for ufutex_wait_options {}

/// One of the words of ufutex_waitv(): Linux's struct futex_waitv, with our flags.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ufutex_waitv_word {
    /// What it should hold.
    pub expected: u64,
    /// Where it is.
    pub address: u64,
    /// UFUTEX_U8 to UFUTEX_U64, UFUTEX_SHARED.
    pub flags: u32,
    /// Has to be 0.
    pub reserved: u32,
}

/// What ufutex_wake_op() does.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ufutex_operation {
    /// UFUTEX_OP_...
    pub modify: u32,
    /// What with.
    pub argument: u32,
    /// UFUTEX_CMP_...
    pub compare: u32,
    /// What with.
    pub operand: i32,
}

/// What a domain has counted since it was made. What operations do is counted with UFUTEX_COUNT_OPERATIONS, and 0 without.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ufutex_counters {
    /// sizeof(struct ufutex_counters), set by the caller.
    pub size: usize,
    /// How many wait now: queued, or woken and not yet aware of it. Not a count of operations.
    pub waiting: u64,
    /// Operations: waits that were queued, however they ended.
    pub waits: u64,
    /// Operations: waits that found another value.
    pub mismatches: u64,
    /// Operations: wakes that woke somebody.
    pub wakes: u64,
    /// Operations: waiters that wakes and requeues woke.
    pub woken: u64,
    /// Operations: wakes that woke nobody.
    pub empty_wakes: u64,
    /// Operations: requeues that woke or moved somebody.
    pub requeues: u64,
    /// Operations: waiters that those moved.
    pub requeued: u64,
    /// Always: moves of all waiters to a table of another size.
    pub resizes: u64,
    /// Always: operations that found their bucket locked.
    pub contended_locks: u64,
    /// Always: the most words in one bucket.
    pub longest_chain: u64,
    /// Always: waits refused by max_waiters (ENOMEM).
    pub refused_waiters: u64,
    /// Always: PR_FUTEX_HASH refused by max_slots (ENOMEM).
    pub refused_slots: u64,
    /// Always: waits refused by max_waitv (EINVAL).
    pub refused_waitv: u64,
    /// The memory of all tables the domain has had, in bytes.
    pub table_bytes: u64,
    /// Always: tables refused by max_table_bytes of the system or the domain. ufutex_domain_set_slots() and PR_FUTEX_HASH
    /// answer that (ENOMEM); where a policy asked, the domain keeps its table, or begins with 16 slots.
    pub refused_tables: u64,
}
// SAFETY: as above.
unsafe impl Versioned for ufutex_counters {
    const FIRST_SIZE: usize = offset_of!(Self, refused_tables);
}

/// What a system has counted.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ufutex_system_counters {
    /// sizeof(struct ufutex_system_counters), set by the caller.
    pub size: usize,
    /// Slots of the global table.
    pub global_slots: u64,
    /// Robust lists that were longer than max_robust.
    pub robust_lists_cut: u64,
    /// Waits for a lock refused by max_pi_depth.
    pub pi_chains_refused: u64,
    /// The memory of all tables of its domains, in bytes: at most max_table_bytes and 1024 for each domain.
    pub table_bytes: u64,
}
// SAFETY: as above.
unsafe impl Versioned for ufutex_system_counters {
    const FIRST_SIZE: usize = offset_of!(Self, table_bytes);
}

/// A word that somebody waits for.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ufutex_waited_word {
    /// Its address; of a word in an object, its offset there.
    pub address: u64,
    /// UFUTEX_SCOPE_OBJECT: which object.
    pub object: u64,
    /// UFUTEX_SCOPE_...
    pub scope: u32,
    /// The bits that any waiter's bitset has.
    pub bitset: u32,
    /// How many threads of the host wait to be woken.
    pub threads: u64,
    /// How many others: waiters of ufutex_prepare_wait() and its like, and whom a parker lets sleep.
    pub tasks: u64,
    /// How many wait for a lock with priority inheritance.
    pub for_lock: u64,
}
