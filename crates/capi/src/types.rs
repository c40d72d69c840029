//! The types and numbers of the interface, as in ufutex.h.

use core::ffi::{c_int, c_void};
use core::mem::offset_of;

use crate::abi::Versioned;

/// The state that a kernel has once: global tables, a hash secret, limits. A handle, not an address.
pub struct ufutex_system(());

/// The futexes of one process (or guest, or program). A handle, not an address.
pub struct ufutex_domain(());

/// A thread of a guest, or of this program. It owns and waits for locks with priority inheritance, makes system calls,
/// and can be interrupted. A handle, not an address.
pub struct ufutex_task(());

/// A wait in progress in which no thread sleeps, for schedulers: see ufutex_prepare_wait(). A handle, not an address.
pub struct ufutex_waiter(());

/// The POSIX timers of one process: see ufutex_timers_new(). A handle, not an address.
pub struct ufutex_timers(());

/// Flags of a word: it has 8 bits. Exactly one of the four sizes must be given.
pub const UFUTEX_U8: u32 = 1;
/// The word has 16 bits.
pub const UFUTEX_U16: u32 = 2;
/// The word has 32 bits, as all futex words of Linux have.
pub const UFUTEX_U32: u32 = 4;
/// The word has 64 bits.
pub const UFUTEX_U64: u32 = 8;
/// Other domains may map the word: futex(2) without FUTEX_PRIVATE_FLAG. The operation does not meet operations without
/// this flag.
pub const UFUTEX_SHARED: u32 = 16;
/// The word's node is in the 32 bits behind the word, which has 32 bits itself: FUTEX2_NUMA. The address is a multiple
/// of 8. If the node is -1, a near one is stored there. Operations on a private word meet only if they name the same
/// node, or if none of them names one. Operations on a shared word should all name its node. Operations on locks take
/// neither this flag nor the next two.
pub const UFUTEX_NUMA: u32 = 32;
/// The word, which has 32 bits, is looked up on the node that memory's policy_node says: FUTEX2_MPOL. With UFUTEX_NUMA
/// it does so only if the node behind the word is -1.
pub const UFUTEX_MPOL: u32 = 64;
/// UFUTEX_ON_NODE(node) is a flag that names the node itself, which must exist: one more than its number, shifted by
/// this number of bits.
pub const UFUTEX_NODE_SHIFT: u32 = 16;

/// Timeouts: none.
pub const UFUTEX_FOREVER: u32 = 0;
/// This number of nanoseconds from now on, by the monotonic clock.
pub const UFUTEX_AFTER: u32 = 1;
/// Until the monotonic clock shows this number of nanoseconds.
pub const UFUTEX_UNTIL_MONOTONIC: u32 = 2;
/// Until the real-time clock shows this number of nanoseconds since 1970.
pub const UFUTEX_UNTIL_REALTIME: u32 = 3;

/// Clocks, numbered as for clock_gettime(2): real time, since 1970.
pub const UFUTEX_REALTIME: u32 = 0;
/// Monotonic time.
pub const UFUTEX_MONOTONIC: u32 = 1;
/// Time that goes on while the machine sleeps. This clock and the next are for timers only.
pub const UFUTEX_BOOTTIME: u32 = 7;
/// Real time without leap seconds.
pub const UFUTEX_TAI: u32 = 11;
/// A deadline that never comes.
pub const UFUTEX_NO_DEADLINE: u64 = 0xffff_ffff_ffff_ffff;

/// All bits: every wake of the word wakes the waiter.
pub const UFUTEX_BITSET_ANY: u32 = 0xffff_ffff;

/// Size policies: grow under load. The default.
pub const UFUTEX_POLICY_LOAD: u32 = 0;
/// The kernel's rule: by the number of threads, see ufutex_domain_note_threads().
pub const UFUTEX_POLICY_THREADS: u32 = 1;
/// A fixed number of slots.
pub const UFUTEX_POLICY_FIXED: u32 = 2;

/// Flags of ufutex_options: count operations, which takes about ten nanoseconds for each.
pub const UFUTEX_COUNT_OPERATIONS: u32 = 1;
/// A wait locks its bucket even if a first check finds another value in the word, as in the kernel.
pub const UFUTEX_NO_EARLY_RETURN: u32 = 2;

/// The TIDs of the domain's tasks are in a PID namespace of its own, as after clone(2) with CLONE_NEWPID.
pub const UFUTEX_NEW_PID_NAMESPACE: u32 = 4;

/// Flag of ufutex_config: hash_seed is set.
pub const UFUTEX_HASH_SEED: u32 = 1;

/// Flag of ufutex_task_new(): a thread of the kernel itself. No task may wait for its locks (EPERM).
pub const UFUTEX_KERNEL_TASK: u32 = 1;

/// Kinds of access: reading.
pub const UFUTEX_READ: u32 = 0;
/// Writing.
pub const UFUTEX_WRITE: u32 = 1;

/// Sharing of a word: by the threads of one domain.
pub const UFUTEX_SCOPE_PRIVATE: u32 = 0;
/// By the threads of one domain, for operations with UFUTEX_SHARED on memory that only this domain maps.
pub const UFUTEX_SCOPE_ADDRESS_SPACE: u32 = 1;
/// By all domains of a PID namespace that map the object, or of the system if it is one of ufutex_object_new().
pub const UFUTEX_SCOPE_OBJECT: u32 = 2;

/// Modifications of a word by ufutex_wake_op(): store the argument.
pub const UFUTEX_OP_SET: u32 = 0;
/// Add the argument; the sum wraps.
pub const UFUTEX_OP_ADD: u32 = 1;
/// Set the bits of the argument.
pub const UFUTEX_OP_OR: u32 = 2;
/// Clear the bits of the argument.
pub const UFUTEX_OP_ANDN: u32 = 3;
/// Flip the bits of the argument.
pub const UFUTEX_OP_XOR: u32 = 4;
/// Comparisons of ufutex_wake_op(). The waiters of the second word are woken if its old value, as a signed number, is
/// equal to the operand.
pub const UFUTEX_CMP_EQ: u32 = 0;
/// If it is not equal.
pub const UFUTEX_CMP_NE: u32 = 1;
/// If it is less.
pub const UFUTEX_CMP_LT: u32 = 2;
/// If it is less or equal.
pub const UFUTEX_CMP_LE: u32 = 3;
/// If it is greater.
pub const UFUTEX_CMP_GT: u32 = 4;
/// If it is greater or equal.
pub const UFUTEX_CMP_GE: u32 = 5;

/// Reasons for ufutex_waiter_end(): the wait was interrupted or cancelled.
pub const UFUTEX_INTERRUPTED: u32 = 0;
/// The wait has timed out.
pub const UFUTEX_TIMED_OUT: u32 = 1;

/// Added to a system call's number if the number is that of aarch64, riscv64 or loongarch64, and not of x86-64.
pub const UFUTEX_GENERIC_NUMBER: u64 = 0x1_0000_0000;
/// Added to a system call's number if the number is that of i386: a call of a 32-bit program, also on x86-64. Only the
/// lower 32 bits of each argument count. The structs that they point to are those of 32-bit programs: pointers have 32
/// bits. The times of futex have two fields of 32 bits, and those of futex_time64 and later calls two of 64 bits.
pub const UFUTEX_I386_NUMBER: u64 = 0x2_0000_0000;
/// The same for 32-bit Arm (EABI), also on aarch64.
pub const UFUTEX_ARM_NUMBER: u64 = 0x3_0000_0000;
/// The same for 32-bit RISC-V, which has no calls with 32-bit times.
pub const UFUTEX_RISCV32_NUMBER: u64 = 0x4_0000_0000;

/// Deliveries of expired timers: they stand in a line until ufutex_timers_receive() takes them. The default.
pub const UFUTEX_DELIVER_LINE: u32 = 0;
/// The options' function expired is called for each.
pub const UFUTEX_DELIVER_CALL: u32 = 1;
/// The number of expiries is added to an eventfd, including intervals that passed unnoticed.
pub const UFUTEX_DELIVER_EVENTFD: u32 = 2;
/// Each sends its signal to this process or one of its threads, as the kernel's timers do. The signal counts as
/// delivered when it is sent.
pub const UFUTEX_DELIVER_SIGNALS: u32 = 3;
/// For flags of ufutex_timers_options: the numbers of processes and threads in ufutex_timers_syscall() are the host's
/// own, so clocks of CPU time are the host's too. Without it, and without timer_clocks, timer_create(2) on a clock of
/// CPU time is -EINVAL, because the number could be that of any process of the host, whose CPU time a guest could read.
pub const UFUTEX_HOST_PIDS: u32 = 1;

/// What an expired timer does, as in a struct sigevent: nothing.
pub const UFUTEX_NOTIFY_NONE: u32 = 1;
/// It sends a signal to the process.
pub const UFUTEX_NOTIFY_SIGNAL: u32 = 0;
/// It sends a signal to one thread.
pub const UFUTEX_NOTIFY_THREAD: u32 = 4;

/// Flag of ufutex_timers_settime(): the value is a time of the timer's clock, and no length of time. TIMER_ABSTIME.
pub const UFUTEX_TIMER_ABSTIME: u32 = 1;

/// Flag of ufutex_driver_thread: it runs on the CPUs of the thread that starts it, and not on those of the process's
/// main thread.
pub const UFUTEX_STARTERS_CPUS: u32 = 1;

/// Results of ufutex_syscall() after an interrupt, with a minus sign, for ufutex_resume(). They are the kernel's own
/// errno values for calls to be restarted, and no program sees them. This one: made again if no handler runs, or one
/// with SA_RESTART.
pub const UFUTEX_ERESTARTSYS: c_int = 512;
/// Made again, whatever handler runs.
pub const UFUTEX_ERESTARTNOINTR: c_int = 513;
/// Continued by restart_syscall if no handler runs.
pub const UFUTEX_ERESTART_RESTARTBLOCK: c_int = 516;

/// Results of ufutex_resume(): the program gets the result of the system call.
pub const UFUTEX_RESUME_RETURN: c_int = 0;
/// The system call is made again, after the handler if one runs.
pub const UFUTEX_RESUME_AGAIN: c_int = 1;
/// restart_syscall is made in its place, unless a handler runs.
pub const UFUTEX_RESUME_CONTINUE: c_int = 2;

/// Handlers for ufutex_resume(): no signal handler runs.
pub const UFUTEX_NO_HANDLER: u32 = 0;
/// A handler runs that was installed without SA_RESTART.
pub const UFUTEX_HANDLER: u32 = 1;
/// A handler runs that was installed with SA_RESTART.
pub const UFUTEX_HANDLER_RESTART: u32 = 2;

/// The memory of a domain's words. The functions return 0 if they succeed and any other number for a fault, unless
/// their comments say otherwise.
///
/// They are called on the thread that makes the operation, for addresses that the operation names or finds in a robust
/// list. Several threads may call them at the same time. They return on the thread that called them, and must not call
/// this library. If other threads may unmap memory, a function that has found a page must keep it mapped until its
/// access is over. It cannot rely on a handler of SIGSEGV that leaves the function by longjmp(): this library's locks
/// would stay held.
///
/// load, compare_exchange and fault_in must be set together. If all three are NULL, the words are in the program's own
/// memory.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ufutex_memory {
    /// sizeof(struct ufutex_memory).
    pub size: usize,
    /// Passed to each function.
    pub context: *mut c_void,
    /// Reads a word of this number of bytes atomically, with acquire ordering or stronger. The functions on words ask
    /// for the size that the word's flags give: 1, 2, 4 or 8 bytes. System calls ask for 1, 4 or 8, here or in
    /// compare_exchange. The value has the host's byte order. Must not block: if the page is not present, it returns a
    /// fault. It may take a lock that no thread holds while it calls this library.
    pub load: Option<unsafe extern "C" fn(context: *mut c_void, address: u64, bytes: u32, value: *mut u64) -> c_int>,
    /// Atomically replaces the word with desired if it holds *current, with acquire and release ordering or stronger,
    /// and returns 0. Otherwise it stores the word's value in *current and returns 1. A negative result is a fault.
    /// Must not block.
    pub compare_exchange: Option<
        unsafe extern "C" fn(context: *mut c_void, address: u64, bytes: u32, current: *mut u64, desired: u64) -> c_int,
    >,
    /// Makes an address accessible for UFUTEX_READ or UFUTEX_WRITE after a fault. Called with no lock held, and may
    /// block. A fault means that the access is not allowed at all: the operation ends with EFAULT.
    pub fault_in: Option<unsafe extern "C" fn(context: *mut c_void, address: u64, access: u32) -> c_int>,
    /// Copies from memory, and faults it in where necessary. May block. If it is NULL, load reads byte after byte.
    pub read:
        Option<unsafe extern "C" fn(context: *mut c_void, address: u64, into: *mut c_void, bytes: usize) -> c_int>,
    /// Which domains share the word at an address, for operations on shared words: UFUTEX_SCOPE_ADDRESS_SPACE, or
    /// UFUTEX_SCOPE_OBJECT with the object's number and the word's offset in it. A number below 2^61 is one of the program's
    /// own, for an object that domains of one PID namespace map. Domains of several share an object of ufutex_object_new(),
    /// by its number. Any other result is a fault. NULL: only this domain maps its memory.
    pub scope: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            address: u64,
            access: u32,
            object: *mut u64,
            offset: *mut u64,
        ) -> c_int,
    >,
    /// Whether a program may name these addresses at all: 1 or 0. NULL: if load is set, addresses in the lower half of
    /// x86-64's address space (below 2^47) are allowed. If it is not, all that a program on this processor can have.
    pub access_ok: Option<unsafe extern "C" fn(context: *mut c_void, address: u64, bytes: u64) -> c_int>,
    /// Copies the results of system calls to memory, and faults it in where necessary. May block. If it is NULL,
    /// compare_exchange stores 8 bytes or one at a time.
    pub write:
        Option<unsafe extern "C" fn(context: *mut c_void, address: u64, from: *const c_void, bytes: usize) -> c_int>,
    /// The node that the memory policy of an address prefers, for UFUTEX_MPOL, or a negative number for none. NULL: no
    /// address has a policy.
    pub policy_node: Option<unsafe extern "C" fn(context: *mut c_void, address: u64) -> c_int>,
}

/// A clock of the embedder's own.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ufutex_clock {
    /// sizeof(struct ufutex_clock).
    pub size: usize,
    /// Passed to the function.
    pub context: *mut c_void,
    /// The time of UFUTEX_MONOTONIC or UFUTEX_REALTIME in nanoseconds. Called by any thread, with no lock held.
    pub now: Option<unsafe extern "C" fn(context: *mut c_void, clock: u32) -> u64>,
}

/// How the embedder's own threads sleep: green threads, virtual processors. All three functions must be set. They are
/// called with no lock held, and must not call this library.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ufutex_parker {
    /// sizeof(struct ufutex_parker).
    pub size: usize,
    /// Passed to each function.
    pub context: *mut c_void,
    /// The running thread of the embedder. NULL means that there is none: then the thread of the host sleeps in the
    /// usual way.
    pub current: Option<unsafe extern "C" fn(context: *mut c_void) -> *mut c_void>,
    /// Puts the running thread to sleep until it is unparked, or until the clock shows this number of nanoseconds;
    /// UFUTEX_NO_DEADLINE means without limit. It returns at once if the thread was unparked since it last parked. It
    /// may return early, and on another thread of the host. -ETIMEDOUT ends the wait as timed out, and -EINTR ends it
    /// as a signal does. After any other result the wait goes on if it has to.
    pub park:
        Option<unsafe extern "C" fn(context: *mut c_void, thread: *mut c_void, clock: u32, deadline: u64) -> c_int>,
    /// Ends the sleep of a thread, or its next one. Called by any thread, and returns on it without switching to
    /// another one. Not called any more when the thread's operation has returned.
    pub unpark: Option<unsafe extern "C" fn(context: *mut c_void, thread: *mut c_void)>,
}

/// The nodes of a machine, or of the machine that a guest believes it runs on: see ufutex_config. A system has a global
/// table on each node.
///
/// has_node is called when a system is made. The other functions are called by any thread, and several threads may call
/// them at the same time, while a system is made, a table is made or freed, and a word without a node is looked up.
/// They return on the thread that called them, and must not call this library. They are used as long as the system or a
/// domain of it exists.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ufutex_topology {
    /// sizeof(struct ufutex_topology).
    pub size: usize,
    /// Passed to each function. For each different context that comes with allocate, the library keeps some 50 bytes
    /// until the program ends.
    pub context: *mut c_void,
    /// One more than the number of the last node, from 1 to 1024.
    pub nodes: u32,
    /// Must be 0.
    pub reserved: u32,
    /// Whether there is a node with this number: 1 or 0. NULL: no number below nodes is left out.
    pub has_node: Option<unsafe extern "C" fn(context: *mut c_void, node: u32) -> c_int>,
    /// The node that the calling thread runs on. If there is none with this number, the first node stands for it. Must
    /// be set.
    pub current_node: Option<unsafe extern "C" fn(context: *mut c_void) -> u32>,
    /// Zeroed memory for a table, on a node or as near to it as possible, at a multiple of alignment. NULL means that
    /// there is none. Set together with free. If both are NULL, the tables are in malloc's memory.
    pub allocate:
        Option<unsafe extern "C" fn(context: *mut c_void, bytes: usize, alignment: usize, node: u32) -> *mut c_void>,
    /// Takes back what allocate returned for this number of bytes.
    pub free: Option<unsafe extern "C" fn(context: *mut c_void, memory: *mut c_void, bytes: usize)>,
}

/// The embedder's clocks for timers. With them the library has no thread: the embedder calls ufutex_driver_turn().
///
/// now and cpu_time may be called with locks held. They must not block, and must not call this library. Any thread
/// calls the functions, and several threads may call them at the same time. They are used as long as the system, a
/// domain or timers of it exist.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ufutex_timer_clocks {
    /// sizeof(struct ufutex_timer_clocks).
    pub size: usize,
    /// Passed to each function.
    pub context: *mut c_void,
    /// The time of UFUTEX_REALTIME, UFUTEX_MONOTONIC, UFUTEX_BOOTTIME or UFUTEX_TAI in nanoseconds. Must be set.
    pub now: Option<unsafe extern "C" fn(context: *mut c_void, clock: u32) -> u64>,
    /// Stores the CPU time that a thread has used, or all threads of a process, and returns 0. Another result means
    /// that there is no such thread or process. A timer that has got such a result never expires, even if a later
    /// thread or process gets the number. So delete the timers that name a thread, or set them, before its number is
    /// used again. NULL: there is none.
    pub cpu_time: Option<
        unsafe extern "C" fn(context: *mut c_void, is_thread: c_int, number: i32, nanoseconds: *mut u64) -> c_int,
    >,
    /// Called when ufutex_driver_next() may have become earlier, with no lock held, by the thread that has armed a
    /// timer. It may call this library. It may be called more often than needed. NULL: the embedder asks often enough.
    pub changed: Option<unsafe extern "C" fn(context: *mut c_void)>,
    /// How many CPUs the threads of one process can use at the same time, and so how many times faster than a clock its
    /// CPU time may go. 0 means 1.
    pub cpus: u32,
    /// Must be 0.
    pub reserved: u32,
}

/// How the thread is scheduled that expires timers by the host's clocks. What the host does not permit is left out.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ufutex_driver_thread {
    /// sizeof(struct ufutex_driver_thread).
    pub size: usize,
    /// UFUTEX_STARTERS_CPUS, or 0.
    pub flags: u32,
    /// Its priority under SCHED_FIFO, from 1 to 99. 0: SCHED_OTHER.
    pub realtime: u32,
    /// Its nice value under SCHED_OTHER, from -20 to 19.
    pub nice: i32,
    /// Must be 0.
    pub reserved: u32,
    /// The numbers of the CPUs that it may run on, below 8192. The array is copied. NULL: those of the process's main
    /// thread.
    pub cpus: *const u32,
    /// How many numbers there are in cpus.
    pub cpu_count: usize,
}

/// Settings of a system. 0 means the default of each.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ufutex_config {
    /// sizeof(struct ufutex_config).
    pub size: usize,
    /// UFUTEX_HASH_SEED, or 0.
    pub flags: u32,
    /// Must be 0.
    pub reserved: u32,
    /// The secret of the hash function. Random without UFUTEX_HASH_SEED.
    pub hash_seed: u64,
    /// How many CPUs run at the same time. Default: the host's CPUs.
    pub cpus: usize,
    /// Slots of the global table of each node, a power of two; at most 2^22 if there are several nodes. Default: 256
    /// for each CPU, divided among the nodes.
    pub global_slots: usize,
    /// Slots of a domain's first table, a power of two. Default: 16.
    pub default_slots: usize,
    /// The greatest number of slots for growth by a policy, and for PR_FUTEX_HASH, a power of two. Default: 2^20.
    pub max_slots: usize,
    /// The greatest number of words in one wait. Default: 128.
    pub max_waitv: usize,
    /// How many entries of a robust list are walked. Default: 2048.
    pub max_robust: usize,
    /// The longest chain of lock owners that wait for one another. Default: 1024.
    pub max_pi_depth: usize,
    /// Called when waiters for a task's locks change the real-time priority that the task runs with: from 1 to 99, or 0
    /// for none. Any thread calls it, and several threads may call it at the same time. The last call for a task
    /// reports its current priority. It must not wait. May be NULL.
    pub set_priority: Option<unsafe extern "C" fn(context: *mut c_void, tid: u32, priority: u32)>,
    /// Passed to set_priority and set_priority_in, which are used as long as the system or a domain of it exists.
    pub context: *mut c_void,
    /// The greatest total size of all domains' tables in bytes, 64 for each slot. The global table is not counted.
    /// Neither are 16 slots of each domain, so that no domain can keep another one from having them. Default: 2^30.
    pub max_table_bytes: usize,
    /// The greatest total size of one domain's tables in bytes, unless the domain's options set another. A domain whose
    /// first table does not fit begins with 16 slots, 1024 bytes. If these do not fit either, it uses the global table.
    /// Default: 2^27.
    pub max_domain_table_bytes: usize,
    /// Called in place of set_priority, with the number of the task's PID namespace in addition: if there are several
    /// namespaces, a TID alone does not identify a task. May be NULL.
    pub set_priority_in:
        Option<unsafe extern "C" fn(context: *mut c_void, pid_namespace: u64, tid: u32, priority: u32)>,
    /// The nodes of the machine. The struct is copied. NULL: the host's nodes.
    pub topology: *const ufutex_topology,
    /// The clocks of timers. The struct is copied. NULL: the host's clocks, and a thread that the first timer starts.
    pub timer_clocks: *const ufutex_timer_clocks,
    /// How that thread is scheduled. The struct is copied. NULL: SCHED_OTHER, nice 0.
    pub driver_thread: *const ufutex_driver_thread,
}

/// Settings of a domain. 0 and NULL mean the defaults.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ufutex_options {
    /// sizeof(struct ufutex_options).
    pub size: usize,
    /// UFUTEX_POLICY_...: what decides the size of the table.
    pub policy: u32,
    /// UFUTEX_COUNT_OPERATIONS, UFUTEX_NO_EARLY_RETURN, UFUTEX_NEW_PID_NAMESPACE.
    pub flags: u32,
    /// For UFUTEX_POLICY_FIXED: the number of slots, rounded up to a power of two; 0 means the global table. Must be 0
    /// for other policies.
    pub slots: usize,
    /// How many threads and tasks may wait in the domain at a time. Default: 2^24; at most 2^28.
    pub max_waiters: usize,
    /// The memory of the domain's words. The struct is copied. NULL: this program's own memory.
    pub memory: *const ufutex_memory,
    /// The clocks of deadlines. The struct is copied. NULL: the host's clocks.
    pub clock: *const ufutex_clock,
    /// How ufutex_wait() and the other blocking functions wait. The struct is copied. NULL: as threads of the host.
    pub parker: *const ufutex_parker,
    /// The greatest total size of the domain's tables in bytes, 64 for each slot. Default: max_domain_table_bytes of
    /// the system, whose comment says what happens if the first table does not fit.
    pub max_table_bytes: usize,
    /// How many nanoseconds a waiting thread may spin before it sleeps; the engine learns whether that pays. Default: 0, it
    /// sleeps at once, but for the first waiter of ufutex_lock_pi(), which may spin for 30000. 200000 is a good value where CPU
    /// time costs nothing; more than 2^32 - 1 counts as that. No effect with a parker, and on one CPU.
    pub spin: u64,
}

/// Options of a wait. UFUTEX_WAIT_OPTIONS_INIT sets the defaults. A bitset of 0 is an error.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ufutex_wait_options {
    /// sizeof(struct ufutex_wait_options).
    pub size: usize,
    /// UFUTEX_FOREVER, UFUTEX_AFTER, UFUTEX_UNTIL_...
    pub timeout: u32,
    /// The waiter is woken only by wakes that have one of these bits. Not 0.
    pub bitset: u32,
    /// The time for timeout.
    pub nanoseconds: u64,
    /// A real-time priority from 1 to 99, or 0 for none. Waiters with a greater one are woken first.
    pub priority: u32,
    /// Must be 0.
    pub reserved: u32,
    /// The task whose interrupt ends the wait, or NULL. A task can be in one wait at a time. Waits for locks always
    /// have a task of their own, and ignore this field, bitset and priority.
    pub task: *mut ufutex_task,
}

/// A wait with a timeout that a signal has interrupted, and that restart_syscall continues: what a checkpoint saves of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct ufutex_restart {
    /// sizeof(struct ufutex_restart), set by the caller.
    pub size: usize,
    /// The address of the word.
    pub address: u64,
    /// The value that the word has to hold.
    pub expected: u32,
    /// The wait's bitset.
    pub bitset: u32,
    /// UFUTEX_UNTIL_..., or UFUTEX_FOREVER: there is no such wait.
    pub timeout: u32,
    /// Whether the call had FUTEX_PRIVATE_FLAG: 0 or 1.
    pub is_private: u32,
    /// The time for timeout.
    pub nanoseconds: u64,
}

/// A length or a point of time: the kernel's struct __kernel_timespec, whatever time_t the C library has.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(C)]
pub struct ufutex_timespec {
    /// Not negative.
    pub seconds: i64,
    /// From 0 to 999,999,999.
    pub nanoseconds: i64,
}

/// When a timer expires: the kernel's struct __kernel_itimerspec.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(C)]
pub struct ufutex_itimerspec {
    /// The time from each expiry to the next. 0: the timer expires once.
    pub interval: ufutex_timespec,
    /// The time until the first expiry, or, with UFUTEX_TIMER_ABSTIME, the time of the timer's clock. 0: never.
    pub value: ufutex_timespec,
}

/// What a timer does when it expires: a struct sigevent without its padding.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(C)]
pub struct ufutex_notify {
    /// UFUTEX_NOTIFY_...
    pub kind: u32,
    /// The signal's number, from 1 to 64, unless kind is UFUTEX_NOTIFY_NONE.
    pub signal: i32,
    /// The value that the signal carries.
    pub value: u64,
    /// The thread's number, for UFUTEX_NOTIFY_THREAD.
    pub thread: i32,
    /// Must be 0.
    pub reserved: u32,
}

/// Says that a timer has expired. A kernel keeps it with a queued signal, and calls ufutex_timers_take() when the
/// signal is delivered.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(C)]
pub struct ufutex_notice {
    /// The timer's ID.
    pub id: i32,
    /// Is 0.
    pub reserved: u32,
    /// What the timer does.
    pub notify: ufutex_notify,
    /// Tells this notice from others of the timer. To be kept as it is.
    pub ticket: [u64; 2],
}

/// An expiry that was delivered.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(C)]
pub struct ufutex_expired {
    /// The timer's ID.
    pub id: i32,
    /// How many intervals have passed since the expiry: si_overrun. -1 if the clock was set back to before it.
    pub overrun: i32,
    /// What the timer does.
    pub notify: ufutex_notify,
}

/// Settings of a process's timers. 0 and NULL mean the defaults.
///
/// The functions are called with no lock held. They may call this library, except that they must not wait for a thread
/// that frees these timers. When ufutex_timers_free() has returned, expired is not called any more.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ufutex_timers_options {
    /// sizeof(struct ufutex_timers_options).
    pub size: usize,
    /// UFUTEX_DELIVER_...
    pub delivery: u32,
    /// For UFUTEX_DELIVER_EVENTFD: the file, which is duplicated. A full one blocks the thread that turns the driver,
    /// unless it is nonblocking.
    pub eventfd: c_int,
    /// How many timers there may be (EAGAIN). Default: 65,536.
    pub max_timers: usize,
    /// The highest ID, one less than a power of two. Default: 2^31 - 1.
    pub max_id: i32,
    /// UFUTEX_HOST_PIDS, or 0.
    pub flags: u32,
    /// Passed to each function.
    pub context: *mut c_void,
    /// For UFUTEX_DELIVER_CALL: a timer has expired. Called by the thread that turns the driver, which serves all
    /// processes, so it should be short. The notice is the library's, and can be copied.
    pub expired:
        Option<unsafe extern "C" fn(context: *mut c_void, timers: *mut ufutex_timers, notice: *const ufutex_notice)>,
    /// For UFUTEX_DELIVER_CALL: makes room for the notices of this number of timers, and returns 0. Another result
    /// means that there is no memory (EAGAIN). Called before a timer is made. Each timer has at most one notice that is
    /// not void. May be NULL.
    pub reserve: Option<unsafe extern "C" fn(context: *mut c_void, timers: usize) -> c_int>,
    /// For UFUTEX_DELIVER_CALL: whether the process has a thread with this number: 1 or 0. NULL: it has any.
    pub has_thread: Option<unsafe extern "C" fn(context: *mut c_void, thread: i32) -> c_int>,
}

/// A word of ufutex_waitv(): Linux's struct futex_waitv, with the flags of this library.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ufutex_waitv_word {
    /// The expected value.
    pub expected: u64,
    /// The word's address.
    pub address: u64,
    /// UFUTEX_U8 to UFUTEX_U64, UFUTEX_SHARED, UFUTEX_NUMA, UFUTEX_MPOL, UFUTEX_ON_NODE().
    pub flags: u32,
    /// Must be 0.
    pub reserved: u32,
}

/// The operation of ufutex_wake_op().
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ufutex_operation {
    /// UFUTEX_OP_...
    pub modify: u32,
    /// The argument of modify.
    pub argument: u32,
    /// UFUTEX_CMP_...
    pub compare: u32,
    /// The operand of compare.
    pub operand: i32,
}

/// Counts of a domain since it was made. Fields marked "Operations" are 0 without UFUTEX_COUNT_OPERATIONS.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ufutex_counters {
    /// sizeof(struct ufutex_counters), set by the caller.
    pub size: usize,
    /// How many wait now: queued, or woken and not yet running. Not a count of operations.
    pub waiting: u64,
    /// Operations: waits that were queued, however they ended.
    pub waits: u64,
    /// Operations: waits that found another value.
    pub mismatches: u64,
    /// Operations: wakes that woke a waiter.
    pub wakes: u64,
    /// Operations: waiters that were woken by wakes and requeues.
    pub woken: u64,
    /// Operations: wakes that found no waiter.
    pub empty_wakes: u64,
    /// Operations: requeues that woke or moved a waiter.
    pub requeues: u64,
    /// Operations: waiters that were moved by requeues.
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
    /// The size of all tables that the domain has had, in bytes.
    pub table_bytes: u64,
    /// Always: tables refused by max_table_bytes of the system or the domain. ufutex_domain_set_slots() and
    /// PR_FUTEX_HASH then fail (ENOMEM). If a policy asked for the table, the domain keeps its table, or begins with 16
    /// slots.
    pub refused_tables: u64,
}

/// Counts of a system.
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
    /// The size of all tables of its domains, in bytes: at most max_table_bytes, and 1024 for each domain in addition.
    pub table_bytes: u64,
}

/// A word with waiters.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ufutex_waited_word {
    /// The word's address. For a word in an object, its offset in the object.
    pub address: u64,
    /// The object's number, for UFUTEX_SCOPE_OBJECT.
    pub object: u64,
    /// UFUTEX_SCOPE_...
    pub scope: u32,
    /// The bits of all waiters' bitsets.
    pub bitset: u32,
    /// How many threads of the host wait to be woken.
    pub threads: u64,
    /// How many others wait: waiters of ufutex_prepare_wait() and its like, and threads that sleep with a parker.
    pub tasks: u64,
    /// How many wait for a lock with priority inheritance.
    pub for_lock: u64,
}

/// Structs that begin with their size. After a colon stands the first field that the first version did not have.
macro_rules! versioned {
    ($($name:ident $(: $added:ident)?,)+) => {$(
        // SAFETY: `repr(C)`, begins with its size, and consists of integers and pointers.
        unsafe impl Versioned for $name {
            $(const FIRST_SIZE: usize = offset_of!(Self, $added);)?
        }
        const _: () = assert!(offset_of!($name, size) == 0);
        impl Default for $name {
            /// Its size, and otherwise zeroes.
            fn default() -> Self {
                // SAFETY: zeroes are a value, as every pattern of bits is.
                Self { size: size_of::<Self>(), ..unsafe { core::mem::zeroed() } }
            }
        }
    )+};
}
versioned!(
    ufutex_memory: write,
    ufutex_clock,
    ufutex_parker,
    ufutex_topology,
    ufutex_timer_clocks,
    ufutex_driver_thread,
    ufutex_config: max_table_bytes,
    ufutex_options: max_table_bytes,
    ufutex_wait_options,
    ufutex_restart,
    ufutex_timers_options,
    ufutex_counters: refused_tables,
    ufutex_system_counters: table_bytes,
);
