// ufutex: Linux's futex subsystem as an embeddable library.
//
// Made by cbindgen from crates/capi/src. To change it, change that, and run
//     UFUTEX_WRITE_HEADER=1 cargo test -p ufutex-capi --test header
//
// Results. A function returns a number from 0 up (0 if its comment names none), or -errno. The value of errno afterwards is
// unspecified. A function's comment names its errors but those that any function may return: those of handles and of a
// struct's size (below), and -EINVAL for a pointer that is misaligned, or NULL where its comment does not allow it, or for
// an address that is no multiple of the word's size.
//
// Handles. A function returns -EINVAL if it is passed NULL in place of a handle, and -EBADF if it is passed a handle
// that was freed, a handle of another kind, or a number that never was a handle. It never reads freed memory. An object
// in which a thread or task waits, or which another thread is using, is not freed: -EBUSY. Rarely, a function that is
// called in a signal handler returns -EBUSY too, if the interrupted code is freeing the handle.
//
// Addresses are numbers: in the program's own memory (uintptr_t)pointer. Such a word must be readable, and writable for
// functions that write it, when the function is called and as long as a waiter waits for it: the library cannot check
// that. Other pointers must be valid for what is read and written there.
//
// Structs that begin with their size must be zeroed, and their size set to sizeof. The bitset of a wait's options must
// be set too: 0 is an error. Fields that an older library does not know must be 0 (-E2BIG), and fields that an older
// program lacks are taken as 0. A size that is too small is -EINVAL, and one above 4096 -E2BIG. Each such struct has a
// macro UFUTEX_..._INIT.
//
// Units. Memory is in bytes, times are in nanoseconds, tables in slots: a slot is a bucket of 64 bytes. Limits and
// counters are numbers of what they name. A limit of 0 means the default; the least limit that can be set is 1.
//
// Threads. Any thread may call any function at any time, also within a callback unless its comment says otherwise. A
// function is async-signal-safe only if its comment says so. A thread that a function blocks must not be cancelled, and
// must not leave the function by longjmp(). A scheduler must not switch a green thread away inside a function of the
// library, except in park of its ufutex_parker. The library starts one thread for a system with timers by the host's clocks,
// and no other. A child of fork() calls ufutex_after_fork_child before it uses the library; after exec() all is new. The
// library must not be unloaded.
//
// Functions of the program that the library calls must return: they must neither throw nor longjmp(), and their thread
// must not be cancelled. They must return on the host thread that called them, and that thread must not run another
// coroutine of the program before they return. Only park of ufutex_parker may return on another thread.
// If an invariant of the library is broken, it aborts the process.


#ifndef UFUTEX_H
#define UFUTEX_H

#include <stddef.h>
#include <stdint.h>

// Flags of a word: it has 8 bits. Exactly one of the four sizes must be given.
#define UFUTEX_U8 1

// The word has 16 bits.
#define UFUTEX_U16 2

// The word has 32 bits, as all futex words of Linux have.
#define UFUTEX_U32 4

// The word has 64 bits.
#define UFUTEX_U64 8

// Other domains may map the word: futex(2) without FUTEX_PRIVATE_FLAG. The operation does not meet operations without
// this flag.
#define UFUTEX_SHARED 16

// The word's node is in the 32 bits behind the word, which has 32 bits itself: FUTEX2_NUMA. The address is a multiple
// of 8. If the node is -1, a near one is stored there. Operations on a private word meet only if they name the same
// node, or if none of them names one. Operations on a shared word should all name its node. Operations on locks take
// neither this flag nor the next two.
#define UFUTEX_NUMA 32

// The word, which has 32 bits, is looked up on the node that memory's policy_node says: FUTEX2_MPOL. With UFUTEX_NUMA
// it does so only if the node behind the word is -1.
#define UFUTEX_MPOL 64

// UFUTEX_ON_NODE(node) is a flag that names the node itself, which must exist: one more than its number, shifted by
// this number of bits.
#define UFUTEX_NODE_SHIFT 16

// Timeouts: none.
#define UFUTEX_FOREVER 0

// This number of nanoseconds from now on, by the monotonic clock.
#define UFUTEX_AFTER 1

// Until the monotonic clock shows this number of nanoseconds.
#define UFUTEX_UNTIL_MONOTONIC 2

// Until the real-time clock shows this number of nanoseconds since 1970.
#define UFUTEX_UNTIL_REALTIME 3

// Clocks, numbered as for clock_gettime(2): real time, since 1970.
#define UFUTEX_REALTIME 0

// Monotonic time.
#define UFUTEX_MONOTONIC 1

// Time that goes on while the machine sleeps. This clock and the next are for timers only.
#define UFUTEX_BOOTTIME 7

// Real time without leap seconds.
#define UFUTEX_TAI 11

// A deadline that never comes.
#define UFUTEX_NO_DEADLINE 18446744073709551615ull

// All bits: every wake of the word wakes the waiter.
#define UFUTEX_BITSET_ANY 4294967295

// Size policies: grow under load. The default.
#define UFUTEX_POLICY_LOAD 0

// The kernel's rule: by the number of threads, see ufutex_domain_note_threads().
#define UFUTEX_POLICY_THREADS 1

// A fixed number of slots.
#define UFUTEX_POLICY_FIXED 2

// Flags of ufutex_options: count operations, which takes about ten nanoseconds for each.
#define UFUTEX_COUNT_OPERATIONS 1

// A wait locks its bucket even if a first check finds another value in the word, as in the kernel.
#define UFUTEX_NO_EARLY_RETURN 2

// The TIDs of the domain's tasks are in a PID namespace of its own, as after clone(2) with CLONE_NEWPID.
#define UFUTEX_NEW_PID_NAMESPACE 4

// Flag of ufutex_config: hash_seed is set.
#define UFUTEX_HASH_SEED 1

// Flag of ufutex_task_new(): a thread of the kernel itself. No task may wait for its locks (EPERM).
#define UFUTEX_KERNEL_TASK 1

// Kinds of access: reading.
#define UFUTEX_READ 0

// Writing.
#define UFUTEX_WRITE 1

// Sharing of a word: by the threads of one domain.
#define UFUTEX_SCOPE_PRIVATE 0

// By the threads of one domain, for operations with UFUTEX_SHARED on memory that only this domain maps.
#define UFUTEX_SCOPE_ADDRESS_SPACE 1

// By all domains of a PID namespace that map the object, or of the system if it is one of ufutex_object_new().
#define UFUTEX_SCOPE_OBJECT 2

// Modifications of a word by ufutex_wake_op(): store the argument.
#define UFUTEX_OP_SET 0

// Add the argument; the sum wraps.
#define UFUTEX_OP_ADD 1

// Set the bits of the argument.
#define UFUTEX_OP_OR 2

// Clear the bits of the argument.
#define UFUTEX_OP_ANDN 3

// Flip the bits of the argument.
#define UFUTEX_OP_XOR 4

// Comparisons of ufutex_wake_op(). The waiters of the second word are woken if its old value, as a signed number, is
// equal to the operand.
#define UFUTEX_CMP_EQ 0

// If it is not equal.
#define UFUTEX_CMP_NE 1

// If it is less.
#define UFUTEX_CMP_LT 2

// If it is less or equal.
#define UFUTEX_CMP_LE 3

// If it is greater.
#define UFUTEX_CMP_GT 4

// If it is greater or equal.
#define UFUTEX_CMP_GE 5

// Reasons for ufutex_waiter_end(): the wait was interrupted or cancelled.
#define UFUTEX_INTERRUPTED 0

// The wait has timed out.
#define UFUTEX_TIMED_OUT 1

// Added to a system call's number if the number is that of aarch64, riscv64 or loongarch64, and not of x86-64.
#define UFUTEX_GENERIC_NUMBER 4294967296

// Added to a system call's number if the number is that of i386: a call of a 32-bit program, also on x86-64. Only the
// lower 32 bits of each argument count. The structs that they point to are those of 32-bit programs: pointers have 32
// bits. The times of futex have two fields of 32 bits, and those of futex_time64 and later calls two of 64 bits.
#define UFUTEX_I386_NUMBER 8589934592

// The same for 32-bit Arm (EABI), also on aarch64.
#define UFUTEX_ARM_NUMBER 12884901888

// The same for 32-bit RISC-V, which has no calls with 32-bit times.
#define UFUTEX_RISCV32_NUMBER 17179869184

// Deliveries of expired timers: they stand in a line until ufutex_timers_receive() takes them. The default.
#define UFUTEX_DELIVER_LINE 0

// The options' function expired is called for each.
#define UFUTEX_DELIVER_CALL 1

// The number of expiries is added to an eventfd, including intervals that passed unnoticed.
#define UFUTEX_DELIVER_EVENTFD 2

// Each sends its signal to this process or one of its threads, as the kernel's timers do. The signal counts as
// delivered when it is sent.
#define UFUTEX_DELIVER_SIGNALS 3

// For flags of ufutex_timers_options: the numbers of processes and threads in ufutex_timers_syscall() are the host's
// own, so clocks of CPU time are the host's too. Without it, and without timer_clocks, timer_create(2) on a clock of
// CPU time is -EINVAL, because the number could be that of any process of the host, whose CPU time a guest could read.
#define UFUTEX_HOST_PIDS 1

// What an expired timer does, as in a struct sigevent: nothing.
#define UFUTEX_NOTIFY_NONE 1

// It sends a signal to the process.
#define UFUTEX_NOTIFY_SIGNAL 0

// It sends a signal to one thread.
#define UFUTEX_NOTIFY_THREAD 4

// Flag of ufutex_timers_settime(): the value is a time of the timer's clock, and no length of time. TIMER_ABSTIME.
#define UFUTEX_TIMER_ABSTIME 1

// Flag of ufutex_driver_thread: it runs on the CPUs of the thread that starts it, and not on those of the process's
// main thread.
#define UFUTEX_STARTERS_CPUS 1

// Results of ufutex_syscall() after an interrupt, with a minus sign, for ufutex_resume(). They are the kernel's own
// errno values for calls to be restarted, and no program sees them. This one: made again if no handler runs, or one
// with SA_RESTART.
#define UFUTEX_ERESTARTSYS 512

// Made again, whatever handler runs.
#define UFUTEX_ERESTARTNOINTR 513

// Continued by restart_syscall if no handler runs.
#define UFUTEX_ERESTART_RESTARTBLOCK 516

// Results of ufutex_resume(): the program gets the result of the system call.
#define UFUTEX_RESUME_RETURN 0

// The system call is made again, after the handler if one runs.
#define UFUTEX_RESUME_AGAIN 1

// restart_syscall is made in its place, unless a handler runs.
#define UFUTEX_RESUME_CONTINUE 2

// Handlers for ufutex_resume(): no signal handler runs.
#define UFUTEX_NO_HANDLER 0

// A handler runs that was installed without SA_RESTART.
#define UFUTEX_HANDLER 1

// A handler runs that was installed with SA_RESTART.
#define UFUTEX_HANDLER_RESTART 2

// The futexes of one process (or guest, or program). A handle, not an address.
typedef struct ufutex_domain ufutex_domain;

// The state that a kernel has once: global tables, a hash secret, limits. A handle, not an address.
typedef struct ufutex_system ufutex_system;

// A thread of a guest, or of this program. It owns and waits for locks with priority inheritance, makes system calls,
// and can be interrupted. A handle, not an address.
typedef struct ufutex_task ufutex_task;

// The POSIX timers of one process: see ufutex_timers_new(). A handle, not an address.
typedef struct ufutex_timers ufutex_timers;

// A wait in progress in which no thread sleeps, for schedulers: see ufutex_prepare_wait(). A handle, not an address.
typedef struct ufutex_waiter ufutex_waiter;

// The nodes of a machine, or of the machine that a guest believes it runs on: see ufutex_config. A system has a global
// table on each node.
//
// has_node is called when a system is made. The other functions are called by any thread, and several threads may call
// them at the same time, while a system is made, a table is made or freed, and a word without a node is looked up.
// They return on the thread that called them, and must not call this library. They are used as long as the system or a
// domain of it exists.
typedef struct ufutex_topology {
    // sizeof(struct ufutex_topology).
    size_t size;
    // Passed to each function. For each different context that comes with allocate, the library keeps some 50 bytes
    // until the program ends.
    void *context;
    // One more than the number of the last node, from 1 to 1024.
    uint32_t nodes;
    // Must be 0.
    uint32_t reserved;
    // Whether there is a node with this number: 1 or 0. NULL: no number below nodes is left out.
    int (*has_node)(void *context, uint32_t node);
    // The node that the calling thread runs on. If there is none with this number, the first node stands for it. Must
    // be set.
    uint32_t (*current_node)(void *context);
    // Zeroed memory for a table, on a node or as near to it as possible, at a multiple of alignment. NULL means that
    // there is none. Set together with free. If both are NULL, the tables are in malloc's memory.
    void *(*allocate)(void *context, size_t bytes, size_t alignment, uint32_t node);
    // Takes back what allocate returned for this number of bytes.
    void (*free)(void *context, void *memory, size_t bytes);
} ufutex_topology;

// The embedder's clocks for timers. With them the library has no thread: the embedder calls ufutex_driver_turn().
//
// now and cpu_time may be called with locks held. They must not block, and must not call this library. Any thread
// calls the functions, and several threads may call them at the same time. They are used as long as the system, a
// domain or timers of it exist.
typedef struct ufutex_timer_clocks {
    // sizeof(struct ufutex_timer_clocks).
    size_t size;
    // Passed to each function.
    void *context;
    // The time of UFUTEX_REALTIME, UFUTEX_MONOTONIC, UFUTEX_BOOTTIME or UFUTEX_TAI in nanoseconds. Must be set.
    uint64_t (*now)(void *context, uint32_t clock);
    // Stores the CPU time that a thread has used, or all threads of a process, and returns 0. Another result means
    // that there is no such thread or process. A timer that has got such a result never expires, even if a later
    // thread or process gets the number. So delete the timers that name a thread, or set them, before its number is
    // used again. NULL: there is none.
    int (*cpu_time)(void *context, int is_thread, int32_t number, uint64_t *nanoseconds);
    // Called when ufutex_driver_next() may have become earlier, with no lock held, by the thread that has armed a
    // timer. It may call this library. It may be called more often than needed. NULL: the embedder asks often enough.
    void (*changed)(void *context);
    // How many CPUs the threads of one process can use at the same time, and so how many times faster than a clock its
    // CPU time may go. 0 means 1.
    uint32_t cpus;
    // Must be 0.
    uint32_t reserved;
} ufutex_timer_clocks;

// How the thread is scheduled that expires timers by the host's clocks. What the host does not permit is left out.
typedef struct ufutex_driver_thread {
    // sizeof(struct ufutex_driver_thread).
    size_t size;
    // UFUTEX_STARTERS_CPUS, or 0.
    uint32_t flags;
    // Its priority under SCHED_FIFO, from 1 to 99. 0: SCHED_OTHER.
    uint32_t realtime;
    // Its nice value under SCHED_OTHER, from -20 to 19.
    int32_t nice;
    // Must be 0.
    uint32_t reserved;
    // The numbers of the CPUs that it may run on, below 8192. The array is copied. NULL: those of the process's main
    // thread.
    const uint32_t *cpus;
    // How many numbers there are in cpus.
    size_t cpu_count;
} ufutex_driver_thread;

// Settings of a system. 0 means the default of each.
typedef struct ufutex_config {
    // sizeof(struct ufutex_config).
    size_t size;
    // UFUTEX_HASH_SEED, or 0.
    uint32_t flags;
    // Must be 0.
    uint32_t reserved;
    // The secret of the hash function. Random without UFUTEX_HASH_SEED.
    uint64_t hash_seed;
    // How many CPUs run at the same time. Default: the host's CPUs.
    size_t cpus;
    // Slots of the global table of each node, a power of two; at most 2^22 if there are several nodes. Default: 256
    // for each CPU, divided among the nodes.
    size_t global_slots;
    // Slots of a domain's first table, a power of two. Default: 16.
    size_t default_slots;
    // The greatest number of slots for growth by a policy, and for PR_FUTEX_HASH, a power of two. Default: 2^20.
    size_t max_slots;
    // The greatest number of words in one wait. Default: 128.
    size_t max_waitv;
    // How many entries of a robust list are walked. Default: 2048.
    size_t max_robust;
    // The longest chain of lock owners that wait for one another. Default: 1024.
    size_t max_pi_depth;
    // Called when waiters for a task's locks change the real-time priority that the task runs with: from 1 to 99, or 0
    // for none. Any thread calls it, and several threads may call it at the same time. The last call for a task
    // reports its current priority. It must not wait. May be NULL.
    void (*set_priority)(void *context, uint32_t tid, uint32_t priority);
    // Passed to set_priority and set_priority_in, which are used as long as the system or a domain of it exists.
    void *context;
    // The greatest total size of all domains' tables in bytes, 64 for each slot. The global table is not counted.
    // Neither are 16 slots of each domain, so that no domain can keep another one from having them. Default: 2^30.
    size_t max_table_bytes;
    // The greatest total size of one domain's tables in bytes, unless the domain's options set another. A domain whose
    // first table does not fit begins with 16 slots, 1024 bytes. If these do not fit either, it uses the global table.
    // Default: 2^27.
    size_t max_domain_table_bytes;
    // Called in place of set_priority, with the number of the task's PID namespace in addition: if there are several
    // namespaces, a TID alone does not identify a task. May be NULL.
    void (*set_priority_in)(void *context, uint64_t pid_namespace, uint32_t tid, uint32_t priority);
    // The nodes of the machine. The struct is copied. NULL: the host's nodes.
    const struct ufutex_topology *topology;
    // The clocks of timers. The struct is copied. NULL: the host's clocks, and a thread that the first timer starts.
    const struct ufutex_timer_clocks *timer_clocks;
    // How that thread is scheduled. The struct is copied. NULL: SCHED_OTHER, nice 0.
    const struct ufutex_driver_thread *driver_thread;
} ufutex_config;

// Counts of a system.
typedef struct ufutex_system_counters {
    // sizeof(struct ufutex_system_counters), set by the caller.
    size_t size;
    // Slots of the global table.
    uint64_t global_slots;
    // Robust lists that were longer than max_robust.
    uint64_t robust_lists_cut;
    // Waits for a lock refused by max_pi_depth.
    uint64_t pi_chains_refused;
    // The size of all tables of its domains, in bytes: at most max_table_bytes, and 1024 for each domain in addition.
    uint64_t table_bytes;
} ufutex_system_counters;

// A word with waiters.
typedef struct ufutex_waited_word {
    // The word's address. For a word in an object, its offset in the object.
    uint64_t address;
    // The object's number, for UFUTEX_SCOPE_OBJECT.
    uint64_t object;
    // UFUTEX_SCOPE_...
    uint32_t scope;
    // The bits of all waiters' bitsets.
    uint32_t bitset;
    // How many threads of the host wait to be woken.
    uint64_t threads;
    // How many others wait: waiters of ufutex_prepare_wait() and its like, and threads that sleep with a parker.
    uint64_t tasks;
    // How many wait for a lock with priority inheritance.
    uint64_t for_lock;
} ufutex_waited_word;

// The memory of a domain's words. The functions return 0 if they succeed and any other number for a fault, unless
// their comments say otherwise.
//
// They are called on the thread that makes the operation, for addresses that the operation names or finds in a robust
// list. Several threads may call them at the same time. They return on the thread that called them, and must not call
// this library. If other threads may unmap memory, a function that has found a page must keep it mapped until its
// access is over. It cannot rely on a handler of SIGSEGV that leaves the function by longjmp(): this library's locks
// would stay held.
//
// load, compare_exchange and fault_in must be set together. If all three are NULL, the words are in the program's own
// memory.
typedef struct ufutex_memory {
    // sizeof(struct ufutex_memory).
    size_t size;
    // Passed to each function.
    void *context;
    // Reads a word of this number of bytes atomically, with acquire ordering or stronger. The functions on words ask
    // for the size that the word's flags give: 1, 2, 4 or 8 bytes. System calls ask for 1, 4 or 8, here or in
    // compare_exchange. The value has the host's byte order. Must not block: if the page is not present, it returns a
    // fault. It may take a lock that no thread holds while it calls this library.
    int (*load)(void *context, uint64_t address, uint32_t bytes, uint64_t *value);
    // Atomically replaces the word with desired if it holds *current, with acquire and release ordering or stronger,
    // and returns 0. Otherwise it stores the word's value in *current and returns 1. A negative result is a fault.
    // Must not block.
    int (*compare_exchange)(void *context,
                            uint64_t address,
                            uint32_t bytes,
                            uint64_t *current,
                            uint64_t desired);
    // Makes an address accessible for UFUTEX_READ or UFUTEX_WRITE after a fault. Called with no lock held, and may
    // block. A fault means that the access is not allowed at all: the operation ends with EFAULT.
    int (*fault_in)(void *context, uint64_t address, uint32_t access);
    // Copies from memory, and faults it in where necessary. May block. If it is NULL, load reads byte after byte.
    int (*read)(void *context, uint64_t address, void *into, size_t bytes);
    // Which domains share the word at an address, for operations on shared words: UFUTEX_SCOPE_ADDRESS_SPACE, or
    // UFUTEX_SCOPE_OBJECT with the object's number and the word's offset in it. A number below 2^61 is one of the program's
    // own, for an object that domains of one PID namespace map. Domains of several share an object of ufutex_object_new(),
    // by its number. Any other result is a fault. NULL: only this domain maps its memory.
    int (*scope)(void *context, uint64_t address, uint32_t access, uint64_t *object, uint64_t *offset);
    // Whether a program may name these addresses at all: 1 or 0. NULL: if load is set, addresses in the lower half of
    // x86-64's address space (below 2^47) are allowed. If it is not, all that a program on this processor can have.
    int (*access_ok)(void *context, uint64_t address, uint64_t bytes);
    // Copies the results of system calls to memory, and faults it in where necessary. May block. If it is NULL,
    // compare_exchange stores 8 bytes or one at a time.
    int (*write)(void *context, uint64_t address, const void *from, size_t bytes);
    // The node that the memory policy of an address prefers, for UFUTEX_MPOL, or a negative number for none. NULL: no
    // address has a policy.
    int (*policy_node)(void *context, uint64_t address);
} ufutex_memory;

// A clock of the embedder's own.
typedef struct ufutex_clock {
    // sizeof(struct ufutex_clock).
    size_t size;
    // Passed to the function.
    void *context;
    // The time of UFUTEX_MONOTONIC or UFUTEX_REALTIME in nanoseconds. Called by any thread, with no lock held.
    uint64_t (*now)(void *context, uint32_t clock);
} ufutex_clock;

// How the embedder's own threads sleep: green threads, virtual processors. All three functions must be set. They are
// called with no lock held, and must not call this library.
typedef struct ufutex_parker {
    // sizeof(struct ufutex_parker).
    size_t size;
    // Passed to each function.
    void *context;
    // The running thread of the embedder. NULL means that there is none: then the thread of the host sleeps in the
    // usual way.
    void *(*current)(void *context);
    // Puts the running thread to sleep until it is unparked, or until the clock shows this number of nanoseconds;
    // UFUTEX_NO_DEADLINE means without limit. It returns at once if the thread was unparked since it last parked. It
    // may return early, and on another thread of the host. -ETIMEDOUT ends the wait as timed out, and -EINTR ends it
    // as a signal does. After any other result the wait goes on if it has to.
    int (*park)(void *context, void *thread, uint32_t clock, uint64_t deadline);
    // Ends the sleep of a thread, or its next one. Called by any thread, and returns on it without switching to
    // another one. Not called any more when the thread's operation has returned.
    void (*unpark)(void *context, void *thread);
} ufutex_parker;

// Settings of a domain. 0 and NULL mean the defaults.
typedef struct ufutex_options {
    // sizeof(struct ufutex_options).
    size_t size;
    // UFUTEX_POLICY_...: what decides the size of the table.
    uint32_t policy;
    // UFUTEX_COUNT_OPERATIONS, UFUTEX_NO_EARLY_RETURN, UFUTEX_NEW_PID_NAMESPACE.
    uint32_t flags;
    // For UFUTEX_POLICY_FIXED: the number of slots, rounded up to a power of two; 0 means the global table. Must be 0
    // for other policies.
    size_t slots;
    // How many threads and tasks may wait in the domain at a time. Default: 2^24; at most 2^28.
    size_t max_waiters;
    // The memory of the domain's words. The struct is copied. NULL: this program's own memory.
    const struct ufutex_memory *memory;
    // The clocks of deadlines. The struct is copied. NULL: the host's clocks.
    const struct ufutex_clock *clock;
    // How ufutex_wait() and the other blocking functions wait. The struct is copied. NULL: as threads of the host.
    const struct ufutex_parker *parker;
    // The greatest total size of the domain's tables in bytes, 64 for each slot. Default: max_domain_table_bytes of
    // the system, whose comment says what happens if the first table does not fit.
    size_t max_table_bytes;
    // How many nanoseconds a waiting thread may spin before it sleeps; the engine learns whether that pays. Default: 0, it
    // sleeps at once, but for the first waiter of ufutex_lock_pi(), which may spin for 30000. 200000 is a good value where CPU
    // time costs nothing; more than 2^32 - 1 counts as that. No effect with a parker, and on one CPU.
    uint64_t spin;
} ufutex_options;

// Counts of a domain since it was made. Fields marked "Operations" are 0 without UFUTEX_COUNT_OPERATIONS.
typedef struct ufutex_counters {
    // sizeof(struct ufutex_counters), set by the caller.
    size_t size;
    // How many wait now: queued, or woken and not yet running. Not a count of operations.
    uint64_t waiting;
    // Operations: waits that were queued, however they ended.
    uint64_t waits;
    // Operations: waits that found another value.
    uint64_t mismatches;
    // Operations: wakes that woke a waiter.
    uint64_t wakes;
    // Operations: waiters that were woken by wakes and requeues.
    uint64_t woken;
    // Operations: wakes that found no waiter.
    uint64_t empty_wakes;
    // Operations: requeues that woke or moved a waiter.
    uint64_t requeues;
    // Operations: waiters that were moved by requeues.
    uint64_t requeued;
    // Always: moves of all waiters to a table of another size.
    uint64_t resizes;
    // Always: operations that found their bucket locked.
    uint64_t contended_locks;
    // Always: the most words in one bucket.
    uint64_t longest_chain;
    // Always: waits refused by max_waiters (ENOMEM).
    uint64_t refused_waiters;
    // Always: PR_FUTEX_HASH refused by max_slots (ENOMEM).
    uint64_t refused_slots;
    // Always: waits refused by max_waitv (EINVAL).
    uint64_t refused_waitv;
    // The size of all tables that the domain has had, in bytes.
    uint64_t table_bytes;
    // Always: tables refused by max_table_bytes of the system or the domain. ufutex_domain_set_slots() and
    // PR_FUTEX_HASH then fail (ENOMEM). If a policy asked for the table, the domain keeps its table, or begins with 16
    // slots.
    uint64_t refused_tables;
} ufutex_counters;

// A wait with a timeout that a signal has interrupted, and that restart_syscall continues: what a checkpoint saves of a task.
typedef struct ufutex_restart {
    // sizeof(struct ufutex_restart), set by the caller.
    size_t size;
    // The address of the word.
    uint64_t address;
    // The value that the word has to hold.
    uint32_t expected;
    // The wait's bitset.
    uint32_t bitset;
    // UFUTEX_UNTIL_..., or UFUTEX_FOREVER: there is no such wait.
    uint32_t timeout;
    // Whether the call had FUTEX_PRIVATE_FLAG: 0 or 1.
    uint32_t is_private;
    // The time for timeout.
    uint64_t nanoseconds;
} ufutex_restart;

// Options of a wait. UFUTEX_WAIT_OPTIONS_INIT sets the defaults. A bitset of 0 is an error.
typedef struct ufutex_wait_options {
    // sizeof(struct ufutex_wait_options).
    size_t size;
    // UFUTEX_FOREVER, UFUTEX_AFTER, UFUTEX_UNTIL_...
    uint32_t timeout;
    // The waiter is woken only by wakes that have one of these bits. Not 0.
    uint32_t bitset;
    // The time for timeout.
    uint64_t nanoseconds;
    // A real-time priority from 1 to 99, or 0 for none. Waiters with a greater one are woken first.
    uint32_t priority;
    // Must be 0.
    uint32_t reserved;
    // The task whose interrupt ends the wait, or NULL. A task can be in one wait at a time. Waits for locks always
    // have a task of their own, and ignore this field, bitset and priority.
    struct ufutex_task *task;
} ufutex_wait_options;

// A word of ufutex_waitv(): Linux's struct futex_waitv, with the flags of this library.
typedef struct ufutex_waitv_word {
    // The expected value.
    uint64_t expected;
    // The word's address.
    uint64_t address;
    // UFUTEX_U8 to UFUTEX_U64, UFUTEX_SHARED, UFUTEX_NUMA, UFUTEX_MPOL, UFUTEX_ON_NODE().
    uint32_t flags;
    // Must be 0.
    uint32_t reserved;
} ufutex_waitv_word;

// The operation of ufutex_wake_op().
typedef struct ufutex_operation {
    // UFUTEX_OP_...
    uint32_t modify;
    // The argument of modify.
    uint32_t argument;
    // UFUTEX_CMP_...
    uint32_t compare;
    // The operand of compare.
    int32_t operand;
} ufutex_operation;

// A waiter's callback, called when the waiter should be checked. context is the pointer that was given with it.
typedef void (*ufutex_callback)(void *context);

// What a timer does when it expires: a struct sigevent without its padding.
typedef struct ufutex_notify {
    // UFUTEX_NOTIFY_...
    uint32_t kind;
    // The signal's number, from 1 to 64, unless kind is UFUTEX_NOTIFY_NONE.
    int32_t signal;
    // The value that the signal carries.
    uint64_t value;
    // The thread's number, for UFUTEX_NOTIFY_THREAD.
    int32_t thread;
    // Must be 0.
    uint32_t reserved;
} ufutex_notify;

// Says that a timer has expired. A kernel keeps it with a queued signal, and calls ufutex_timers_take() when the
// signal is delivered.
typedef struct ufutex_notice {
    // The timer's ID.
    int32_t id;
    // Is 0.
    uint32_t reserved;
    // What the timer does.
    struct ufutex_notify notify;
    // Tells this notice from others of the timer. To be kept as it is.
    uint64_t ticket[2];
} ufutex_notice;

// Settings of a process's timers. 0 and NULL mean the defaults.
//
// The functions are called with no lock held. They may call this library, except that they must not wait for a thread
// that frees these timers. When ufutex_timers_free() has returned, expired is not called any more.
typedef struct ufutex_timers_options {
    // sizeof(struct ufutex_timers_options).
    size_t size;
    // UFUTEX_DELIVER_...
    uint32_t delivery;
    // For UFUTEX_DELIVER_EVENTFD: the file, which is duplicated. A full one blocks the thread that turns the driver,
    // unless it is nonblocking.
    int eventfd;
    // How many timers there may be (EAGAIN). Default: 65,536.
    size_t max_timers;
    // The highest ID, one less than a power of two. Default: 2^31 - 1.
    int32_t max_id;
    // UFUTEX_HOST_PIDS, or 0.
    uint32_t flags;
    // Passed to each function.
    void *context;
    // For UFUTEX_DELIVER_CALL: a timer has expired. Called by the thread that turns the driver, which serves all
    // processes, so it should be short. The notice is the library's, and can be copied.
    void (*expired)(void *context, struct ufutex_timers *timers, const struct ufutex_notice *notice);
    // For UFUTEX_DELIVER_CALL: makes room for the notices of this number of timers, and returns 0. Another result
    // means that there is no memory (EAGAIN). Called before a timer is made. Each timer has at most one notice that is
    // not void. May be NULL.
    int (*reserve)(void *context, size_t timers);
    // For UFUTEX_DELIVER_CALL: whether the process has a thread with this number: 1 or 0. NULL: it has any.
    int (*has_thread)(void *context, int32_t thread);
} ufutex_timers_options;

// A length or a point of time: the kernel's struct __kernel_timespec, whatever time_t the C library has.
typedef struct ufutex_timespec {
    // Not negative.
    int64_t seconds;
    // From 0 to 999,999,999.
    int64_t nanoseconds;
} ufutex_timespec;

// When a timer expires: the kernel's struct __kernel_itimerspec.
typedef struct ufutex_itimerspec {
    // The time from each expiry to the next. 0: the timer expires once.
    struct ufutex_timespec interval;
    // The time until the first expiry, or, with UFUTEX_TIMER_ABSTIME, the time of the timer's clock. 0: never.
    struct ufutex_timespec value;
} ufutex_itimerspec;

// An expiry that was delivered.
typedef struct ufutex_expired {
    // The timer's ID.
    int32_t id;
    // How many intervals have passed since the expiry: si_overrun. -1 if the clock was set back to before it.
    int32_t overrun;
    // What the timer does.
    struct ufutex_notify notify;
} ufutex_expired;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The version of the running library, as "0.1.0".
//
// Async-signal-safe.
const char *ufutex_version(void);

// The version of the running library as a number: major << 16 | minor << 8 | patch.
//
// Async-signal-safe.
uint32_t ufutex_version_number(void);

// Forgets everything that was made before. Call it in a child of fork() before anything else. The child goes on with
// objects that it makes itself.
//
// The child has only the thread that called fork(). In its copy of the library's memory, locks may be held and objects
// be in use by threads that it does not have. So no handle of the parent can be used in the child: a function that is
// passed one returns -EBADF from now on. What was behind the handles is leaked, and timers among it do not expire
// here. The parent is not affected.
//
// Without this call the child must not use the library. A child that only calls exec() or _exit() needs no such call.
// The calling thread must be the only one, and in no function of this library, and so in no callback of it.
//
// Async-signal-safe.
void ufutex_after_fork_child(void);

// Makes a system. config: NULL for all defaults.
//
// Stores the handle in *system and returns 0. -EINVAL: a number of slots that is not a power of two from 2 to 2^24,
// unknown flags, a size that is too small, a function that is missing from topology or timer_clocks, no node or more
// than 1024, a setting of driver_thread that no thread has; -ENOMEM, also if topology has no memory for a global
// table.
int ufutex_system_new(const struct ufutex_config *config,
                      struct ufutex_system **system);

// Frees a handle of a system. The system itself lives as long as its domains and tasks. Timers keep only its driver.
//
// Returns 0. -EBUSY: another thread is using it.
int ufutex_system_free(struct ufutex_system *system);

// Fills in counters, whose size the caller has set.
//
// Returns 0. -EINVAL: a size that is too small; -E2BIG: a size above 4096.
int ufutex_system_get_counters(struct ufutex_system *system, struct ufutex_system_counters *counters);

// One more than the number of the machine's last node.
int ufutex_system_nodes(struct ufutex_system *system);

// Whether the machine has a node with this number: 1 or 0.
int ufutex_system_has_node(struct ufutex_system *system, uint32_t node);

// The node that the calling thread runs on: the node that is stored behind a word with UFUTEX_NUMA in place of -1.
int ufutex_system_current_node(struct ufutex_system *system);

// Lists the waiters for words of objects of ufutex_object_new(), in all domains of a system, and for words of other
// objects in the domains of the system's own PID namespace. Otherwise as ufutex_domain_who_waits().
long ufutex_system_who_waits(struct ufutex_system *system,
                             struct ufutex_waited_word *words,
                             size_t word_size,
                             size_t capacity);

// Makes an object that domains of several PID namespaces map, and stores its number in *object, for the scope of a
// memory. Guests that share it meet at its words. An object with a number below 2^61, which the program chooses, is one of
// the caller's namespace: domains of another namespace that use the number mean another object.
//
// Make it before any domain uses the object, if a second namespace may map it later. It takes 1 KiB.
//
// Returns 0. -ENOMEM, also if there are 2^24 objects.
int ufutex_object_new(struct ufutex_system *system,
                      uint64_t *object);

// Frees an object of ufutex_object_new(). Waiters that are still queued for its words can be woken by its number.
//
// Returns 0. -EINVAL: not an object of ufutex_object_new(), or freed before.
int ufutex_object_free(struct ufutex_system *system,
                       uint64_t object);

// Makes a domain of a system. options: NULL for all defaults. The structs that it points to are copied.
//
// The TIDs of its tasks are in the system's own PID namespace, or in a namespace of its own with
// UFUTEX_NEW_PID_NAMESPACE. Tasks of different namespaces do not exist for each other: a TID in a lock's word is
// looked up in the caller's namespace, and operations on a lock fail with -EINVAL if a task of another namespace waits
// for it. Give guests that do not trust each other a namespace each.
//
// Stores the handle in *domain and returns 0. No table is allocated before the first wait. -EINVAL: an unknown policy
// or flag, a size that is too small, a function that is missing from memory, clock or parker; -ENOMEM.
int ufutex_domain_new(struct ufutex_system *system,
                      const struct ufutex_options *options,
                      struct ufutex_domain **domain);

// Makes a domain in the PID namespace and the system of another one: another process of the same guest, as after
// fork(2). With UFUTEX_NEW_PID_NAMESPACE the domain is in the same system, in a new namespace.
//
// Errors as for ufutex_domain_new(). -EBADF: other is not a handle of a domain.
int ufutex_domain_new_beside(struct ufutex_domain *other,
                             const struct ufutex_options *options,
                             struct ufutex_domain **domain);

// The number of a domain's PID namespace, as it is passed to set_priority_in. 0 means the system's own namespace.
long ufutex_domain_pid_namespace(struct ufutex_domain *domain);

// Frees a domain and its tables. End its tasks first: a task may outlive its domain, but ufutex_task_exit() needs the
// domain, and the task's robust lists are not walked any more.
//
// Returns 0. -EBUSY: a thread or task waits in it, or another thread is using it, and it stays as it is.
int ufutex_domain_free(struct ufutex_domain *domain);

// Sets the number of slots (buckets) of a domain's table, a power of two from 2 to 2^24, or 0 for its namespace's global
// table. On return the table has this size and all waiters have been moved. From then on no policy changes the size.
//
// Returns 0. -EINVAL: another number; -ENOMEM, also if max_table_bytes forbids it; -EBUSY: the table was made
// immutable.
int ufutex_domain_set_slots(struct ufutex_domain *domain,
                            size_t slots);

// The number of slots (buckets) of a domain's own table. 0 before the first wait, and with the global table.
long ufutex_domain_slots(struct ufutex_domain *domain);

// Sets the present number of a process's threads. UFUTEX_POLICY_THREADS grows the table accordingly.
int ufutex_domain_note_threads(struct ufutex_domain *domain, size_t threads);

// Makes the call prctl(PR_FUTEX_HASH, op, slots, flags) for a domain, with the kernel's numbers. op: 1 sets the slots (0
// for the global table, for good), 2 returns their number, 3 returns whether they are immutable. Flag 1 makes them
// immutable.
//
// Returns the kernel's result. -EINVAL, -EBUSY, -ENOMEM as in the kernel.
long ufutex_prctl_futex_hash(struct ufutex_domain *domain,
                             uint64_t op,
                             uint64_t slots,
                             uint64_t flags);

// Fills in counters, whose size the caller has set. The counts are read one after another, while other threads go on
// counting.
//
// Returns 0. -EINVAL: a size that is too small; -E2BIG: a size above 4096.
int ufutex_domain_get_counters(struct ufutex_domain *domain,
                               struct ufutex_counters *counters);

// Lists the waiters of a domain: fills in up to capacity words, each of word_size bytes, which is sizeof(struct
// ufutex_waited_word). No thread is stopped. A waiter that waits during the whole call is counted exactly once.
//
// Returns the number of words with waiters, which may be greater than capacity. -EINVAL: words is NULL or misaligned,
// word_size is too small.
long ufutex_domain_who_waits(struct ufutex_domain *domain,
                             struct ufutex_waited_word *words,
                             size_t word_size,
                             size_t capacity);

// Lists the waiters for words of objects in all domains of a domain's PID namespace, except those of ufutex_object_new(),
// which ufutex_system_who_waits() lists. Otherwise as ufutex_domain_who_waits().
long ufutex_domain_objects_who_wait(struct ufutex_domain *domain,
                                    struct ufutex_waited_word *words,
                                    size_t word_size,
                                    size_t capacity);

// Makes a task of a domain, with a TID from 1 to 2^30 - 1 that no other task of the domain's PID namespace has. flags:
// 0, or UFUTEX_KERNEL_TASK.
//
// Stores the handle in *task and returns 0. -EINVAL: another TID, unknown flags; -EBUSY: the TID is taken; -ENOMEM.
int ufutex_task_new(struct ufutex_domain *domain,
                    uint32_t tid,
                    uint32_t flags,
                    struct ufutex_task **task);

// Frees a task, which has ended. Each lock that it owned and that has waiters goes to the first waiter, with
// FUTEX_OWNER_DIED in the word. The task's robust lists are not walked: ufutex_task_exit() does that.
//
// Returns 0. -EBUSY: it waits, or another thread is using it.
int ufutex_task_free(struct ufutex_task *task);

// Ends a task, as the kernel ends a thread. Its robust lists are walked: each lock on them that names the task is
// marked with FUTEX_OWNER_DIED, and one of its waiters is woken. Then the task's locks go to their waiters as in
// ufutex_task_free(), but the handle must still be freed.
//
// memory: the memory that contains the robust lists, or NULL for the domain's memory. The functions of that memory are
// called on this thread, also fault_in, which may block.
//
// Then it stores 0 in the word of set_tid_address(2), if the task has made that call, and wakes one waiter of it:
// pthread_join(). For a clone(2) with CLONE_CHILD_CLEARTID make the call for the new task. These wakes are, as in Linux, without
// FUTEX_PRIVATE_FLAG, and so are those of robust lists. A task that has ended takes no lock any more: that is -EINVAL.
//
// Returns 0. -EBUSY: it waits; -EINVAL: a task of another domain, or one that has ended, NULL, or a function that is
// missing from memory.
int ufutex_task_exit(struct ufutex_domain *domain,
                     struct ufutex_task *task,
                     const struct ufutex_memory *memory);

// Sets the head of a robust list: set_robust_list(2). pointer_bytes: 8 for a list of 64-bit code, 4 for a list of
// 32-bit code. head: its address in the domain's memory, 0 for none. length: the size of a head in bytes, 3 *
// pointer_bytes.
//
// Returns 0. -EINVAL: another length or pointer_bytes.
int ufutex_task_set_robust_list(struct ufutex_task *task,
                                uint32_t pointer_bytes,
                                uint64_t head,
                                uint64_t length);

// Sets a task's own priority: a real-time priority from 1 to 99, or 0 for none. It decides the order in which the task
// gets locks and is woken from its system calls, and the owners of locks that it waits for are boosted to it.
//
// Returns 0. -EINVAL: above 99.
//
// Calls the system's set_priority or set_priority_in.
int ufutex_task_set_priority(struct ufutex_task *task,
                             uint32_t priority);

// The real-time priority that a task runs with, from 1 to 99, or 0 for none: the best of its own and those of the
// waiters for its locks.
int ufutex_task_priority(struct ufutex_task *task);

// Interrupts a task, as a signal does: its wait ends with -EINTR, or its next one if it does not wait, and each later
// one until ufutex_task_clear_interrupt(). A wait that is under way ends even if the interrupt is cleared at once. A
// wait that ends with -EINTR sees all that this thread did before the call. For a waiter of ufutex_prepare_wait() and
// its like the callback is called, unless it has been called and ufutex_waiter_finish() has not been since. If another
// call of this function for the task is in progress, this call returns at once, and the other call checks once more
// whether the callback has to be called.
//
// Returns 0. -EBUSY: called in a signal handler that has interrupted ufutex_task_free() of this task.
//
// Async-signal-safe, with one condition. If the task waits by ufutex_prepare_wait() or its like, or in a domain with a
// parker, this function calls the waiter's callback or the parker's unpark, which must then be async-signal-safe.
int ufutex_task_interrupt(struct ufutex_task *task);

// Clears a task's interrupt: waits that begin from now on sleep. It is not taken back from a wait that is under way.
//
// Async-signal-safe.
int ufutex_task_clear_interrupt(struct ufutex_task *task);

// Call this when a signal handler of the guest runs. A system call that was interrupted before is then not continued
// by restart_syscall.
int ufutex_task_forget_restart(struct ufutex_task *task);

// Stores the wait that restart_syscall would continue for this task, with its deadline, in *restart. A checkpoint saves
// it. If there is none, its timeout is UFUTEX_FOREVER.
int ufutex_task_restart(struct ufutex_task *task,
                        struct ufutex_restart *restart);

// Sets what ufutex_task_restart() stores, as when a checkpoint is restored. restart: NULL, or UFUTEX_FOREVER for
// timeout, for none.
//
// Returns 0. -EINVAL: an unknown timeout, or UFUTEX_AFTER; a bitset of 0; is_private above 1.
int ufutex_task_set_restart(struct ufutex_task *task,
                            const struct ufutex_restart *restart);

// Blocks the caller until a wake, if the word at an address holds expected: FUTEX_WAIT, FUTEX_WAIT_BITSET. flags:
// UFUTEX_U8 to UFUTEX_U64, UFUTEX_SHARED, and for its node UFUTEX_NUMA, UFUTEX_MPOL, UFUTEX_ON_NODE(). options: NULL for
// no timeout and any wake; times are in nanoseconds.
//
// Call it in a loop that checks the word. A relative timeout begins anew with each call.
//
// Returns 0 for a wake of the word. -EAGAIN: the word differs; -ETIMEDOUT; -EINTR: the task of the options was
// interrupted, or the parker returned -EINTR (a signal does not end the wait); -EFAULT: the word cannot be read;
// -EINVAL: unknown flags, no such node, a word that cannot hold expected, a bitset of 0, a priority above 99; -ENOMEM:
// max_waiters already wait, or no memory for a wait with a parker; -EBUSY: the task already waits.
int ufutex_wait(struct ufutex_domain *domain,
                uint64_t address,
                uint64_t expected,
                uint32_t flags,
                const struct ufutex_wait_options *options);

// Blocks the caller until one of several words is woken, if each holds its expected value: futex_waitv(2).
// options: as for ufutex_wait().
//
// Returns the index of the word that was woken, from 0 up; if several were, the last of them. Errors as for
// ufutex_wait(). -EINVAL: also if count is 0, or greater than max_waitv.
int ufutex_waitv(struct ufutex_domain *domain,
                 const struct ufutex_waitv_word *words,
                 uint32_t count,
                 const struct ufutex_wait_options *options);

// Wakes up to count waiters of the word at an address whose bitset has a bit of bitset: FUTEX_WAKE, FUTEX_WAKE_BITSET.
// Waiters with a greater real-time priority are woken first, and otherwise in the order in which they came. A count of
// INT_MAX or more means all. Change the word before this call, by a relaxed store, or by one that releases if
// a thread that reads the new value has to see what was done before. A private word is not accessed, and may have been
// freed. flags: as for ufutex_wait().
//
// Returns how many waiters were woken. -EINVAL: a bitset of 0, unknown flags, no such node, or one of the
// waiters waits for a lock with priority inheritance (those before it have been woken); -EFAULT: an address that no
// program has, or a shared word for which memory's scope fails.
//
// Callbacks of waiters and unpark are called by this thread.
int ufutex_wake(struct ufutex_domain *domain,
                uint64_t address,
                uint32_t count,
                uint32_t bitset,
                uint32_t flags);

// Changes the word of 32 bits at second, wakes up to count waiters of first, and, if the comparison holds for the old
// value of second, up to second_count waiters of second: FUTEX_WAKE_OP, in one step. flags: of both words.
//
// Returns how many waiters were woken in all. -EINVAL: second does not have 32 bits, an unknown operation, comparison
// or flag, or one of the waiters waits for a lock (earlier effects stay); -EFAULT: second cannot be read and
// written.
//
// Callbacks of waiters and unpark are called by this thread.
int ufutex_wake_op(struct ufutex_domain *domain,
                   uint64_t first,
                   uint32_t count,
                   uint64_t second,
                   uint32_t second_count,
                   const struct ufutex_operation *operation,
                   uint32_t flags);

// Wakes up to wake waiters of the word at from, and makes up to requeue of its other waiters wait for the word at to:
// FUTEX_REQUEUE. flags: of both words. A count of INT_MAX or more means all. Prefer ufutex_cmp_requeue(), which does
// not miss a change of the word.
//
// Returns how many waiters were woken or moved, and stores the number of moved ones in *requeued, unless that is NULL.
// -EINVAL: unknown flags, or one of the waiters waits for a lock (earlier effects stay); -EFAULT: an address
// that no program has, or a shared word for which memory's scope fails.
//
// Callbacks of waiters and unpark are called by this thread.
int ufutex_requeue(struct ufutex_domain *domain,
                   uint64_t from,
                   uint64_t to,
                   uint32_t wake,
                   uint32_t requeue,
                   uint32_t flags,
                   uint32_t *requeued);

// Like ufutex_requeue(), if the word at from holds expected: FUTEX_CMP_REQUEUE, in one step.
//
// Errors as for ufutex_requeue(). -EAGAIN: the word differs; -EFAULT: it cannot be read; -EINVAL: it cannot hold
// expected.
//
// Callbacks of waiters and unpark are called by this thread.
int ufutex_cmp_requeue(struct ufutex_domain *domain,
                       uint64_t from,
                       uint64_t expected,
                       uint64_t to,
                       uint32_t wake,
                       uint32_t requeue,
                       uint32_t flags,
                       uint32_t *requeued);

// Locks the word of 32 bits at an address for a task, and blocks the caller until the task has the lock:
// FUTEX_LOCK_PI2. The word holds 0 while the lock is free, and its owner's TID otherwise. The owner runs with the best
// priority of its waiters. flags: UFUTEX_U32, UFUTEX_SHARED. options: the timeout; NULL for none.
//
// Returns 0. -EDEADLK: the task owns the lock, or would wait for itself; -ESRCH: no task has the owner's TID; -EPERM:
// the owner is a thread of the kernel; -ETIMEDOUT; -EINTR: the task was interrupted, or the parker returned -EINTR;
// -EFAULT: the word cannot be read and written; -EINVAL: the word and its waiters do not belong together, or it does
// not have 32 bits, unknown flags, a task of another domain; -EBUSY: the task already waits; -ENOMEM.
int ufutex_lock_pi(struct ufutex_domain *domain,
                   struct ufutex_task *task,
                   uint64_t address,
                   uint32_t flags,
                   const struct ufutex_wait_options *options);

// Locks the word at an address for a task if that needs no waiting: FUTEX_TRYLOCK_PI.
//
// Returns 0. Errors as for ufutex_lock_pi(). -EAGAIN: the word is locked; then FUTEX_WAITERS is set in it, as in the
// kernel.
int ufutex_trylock_pi(struct ufutex_domain *domain,
                      struct ufutex_task *task,
                      uint64_t address,
                      uint32_t flags);

// Unlocks the word at an address, and hands the lock to the first waiter: FUTEX_UNLOCK_PI.
//
// Returns 0. -EPERM: the word does not name the task; -EAGAIN: the word changed meanwhile; -EFAULT, -EINVAL, -EBADF as
// for ufutex_lock_pi().
//
// Callbacks of waiters, unpark and set_priority are called by this thread.
int ufutex_unlock_pi(struct ufutex_domain *domain,
                     struct ufutex_task *task,
                     uint64_t address,
                     uint32_t flags);

// Blocks the caller while the word at from holds expected, until it has been requeued to the lock at lock and handed
// the lock: FUTEX_WAIT_REQUEUE_PI. flags: of both words. options: the timeout; NULL for none.
//
// Returns 0 when the task owns the lock. Errors as for ufutex_lock_pi(). -EAGAIN: the word differs, or the task was
// interrupted after it was requeued; -EINTR: it was interrupted before.
int ufutex_wait_requeue_pi(struct ufutex_domain *domain,
                           struct ufutex_task *task,
                           uint64_t from,
                           uint64_t expected,
                           uint64_t lock,
                           uint32_t flags,
                           const struct ufutex_wait_options *options);

// If the word at from holds expected, gives the lock at lock to the first waiter of from if the lock is free, and
// makes up to requeue more waiters wait for it: FUTEX_CMP_REQUEUE_PI with a wake count of 1, the only one that it
// accepts. flags: of both words.
//
// Returns how many waiters now have the lock or wait for it. Errors as for ufutex_lock_pi(). -EAGAIN: the word differs;
// -EDEADLK: a waiter would wait for itself; -EINVAL: also if from and lock are one word, or a waiter of from does not
// wait to be requeued to lock.
//
// Callbacks of waiters, unpark and set_priority are called by this thread.
int ufutex_cmp_requeue_pi(struct ufutex_domain *domain,
                          uint64_t from,
                          uint64_t expected,
                          uint64_t lock,
                          uint32_t requeue,
                          uint32_t flags);

// Makes a system call for a task, by its number. number: that on x86-64, or that of another architecture with
// UFUTEX_GENERIC_NUMBER, UFUTEX_I386_NUMBER, UFUTEX_ARM_NUMBER or UFUTEX_RISCV32_NUMBER added: futex, futex_time64,
// futex_waitv, futex_wake, futex_wait, futex_requeue, set_robust_list, get_robust_list, set_tid_address,
// restart_syscall. args: its six arguments. memory: the memory that they point to; NULL for the domain's. Blocks if the
// call does. Calls on timers are made with ufutex_timers_syscall().
//
// Returns the kernel's result, from 0 up or -errno, with the kernel's order of errors. A call that the task's
// interrupt has ended returns -UFUTEX_ERESTARTSYS, -UFUTEX_ERESTARTNOINTR or -UFUTEX_ERESTART_RESTARTBLOCK: pass that
// to ufutex_resume(). This function adds the errors that follow. -ENOSYS: another number; -EINVAL: a function is
// missing from memory.
long ufutex_syscall(struct ufutex_domain *domain,
                    struct ufutex_task *task,
                    const struct ufutex_memory *memory,
                    uint64_t number,
                    const uint64_t *args);

// Decides how the program continues after a system call with this result. handler: whether a signal handler of the
// guest runs before the program continues, UFUTEX_NO_HANDLER, UFUTEX_HANDLER or UFUTEX_HANDLER_RESTART. If one runs,
// call ufutex_task_forget_restart() too.
//
// Returns UFUTEX_RESUME_RETURN, and stores the program's result in *value; UFUTEX_RESUME_AGAIN; or
// UFUTEX_RESUME_CONTINUE. -EINVAL: another handler.
//
// Async-signal-safe.
int ufutex_resume(long result,
                  uint32_t handler,
                  long *value);

// Like ufutex_wait(), but no thread sleeps: for schedulers. Queues a waiter if the word holds expected.
//
// When the waiter should be checked, callback(context) is called: by any thread, perhaps before this function returns,
// and at most once until the next ufutex_waiter_finish(). Call that afterwards, but not in the callback. The callback
// must not wait and must not use this waiter: it only notifies a scheduler. When a function that has ended or freed the
// waiter has returned, the callback is not called any more. That function waits for a call in progress, so do not hold
// a lock that the callback takes. The caller has to watch the timeout: see ufutex_waiter_deadline(),
// ufutex_waiter_end().
//
// Returns -EINPROGRESS and stores the waiter's handle in *waiter. If the wait does not begin, returns the result of
// ufutex_wait() and stores NULL.
//
// Errors as for ufutex_wait(). -EINVAL: also if callback or waiter is NULL; -ENOMEM: also without memory for the waiter.
long ufutex_prepare_wait(struct ufutex_domain *domain,
                         uint64_t address,
                         uint64_t expected,
                         uint32_t flags,
                         const struct ufutex_wait_options *options,
                         ufutex_callback callback,
                         void *context,
                         struct ufutex_waiter **waiter);

// Like ufutex_waitv(), but no thread sleeps: see ufutex_prepare_wait(). The array is not used after the return.
//
// Returns as ufutex_prepare_wait().
long ufutex_prepare_waitv(struct ufutex_domain *domain,
                          const struct ufutex_waitv_word *words,
                          uint32_t count,
                          const struct ufutex_wait_options *options,
                          ufutex_callback callback,
                          void *context,
                          struct ufutex_waiter **waiter);

// Like ufutex_lock_pi(), but no thread sleeps: see ufutex_prepare_wait().
//
// Returns as ufutex_prepare_wait().
long ufutex_prepare_lock_pi(struct ufutex_domain *domain,
                            struct ufutex_task *task,
                            uint64_t address,
                            uint32_t flags,
                            const struct ufutex_wait_options *options,
                            ufutex_callback callback,
                            void *context,
                            struct ufutex_waiter **waiter);

// Like ufutex_wait_requeue_pi(), but no thread sleeps: see ufutex_prepare_wait().
//
// Returns as ufutex_prepare_wait().
long ufutex_prepare_wait_requeue_pi(struct ufutex_domain *domain,
                                    struct ufutex_task *task,
                                    uint64_t from,
                                    uint64_t expected,
                                    uint64_t lock,
                                    uint32_t flags,
                                    const struct ufutex_wait_options *options,
                                    ufutex_callback callback,
                                    void *context,
                                    struct ufutex_waiter **waiter);

// Like ufutex_syscall(), but no thread sleeps: see ufutex_prepare_wait(). A call that does not wait has been made on
// return. The structs memory and args are not used after the return. The functions of memory are used as long as the
// waiter exists.
//
// Returns as ufutex_prepare_wait().
long ufutex_prepare_syscall(struct ufutex_domain *domain,
                            struct ufutex_task *task,
                            const struct ufutex_memory *memory,
                            uint64_t number,
                            const uint64_t *args,
                            ufutex_callback callback,
                            void *context,
                            struct ufutex_waiter **waiter);

// The deadline of a waiter: stores UFUTEX_MONOTONIC or UFUTEX_REALTIME in *clock, and in *deadline the time in
// nanoseconds by that clock of the domain, or UFUTEX_NO_DEADLINE for none. Call ufutex_waiter_end() at that time.
int ufutex_waiter_deadline(struct ufutex_waiter *waiter,
                           uint32_t *clock,
                           uint64_t *deadline);

// Checks whether a waiter's wait has ended. Call it after the callback was called, or at any time.
//
// Returns the result that the blocking function would have returned, and frees the handle. -EINPROGRESS: the wait has
// not ended, and the callback will be called; -EBUSY: another thread is in this function, or is ending or freeing the
// waiter. Do not repeat the call: that thread notices each callback made before it.
//
// The callback may be called by this thread before it returns -EINPROGRESS.
long ufutex_waiter_finish(struct ufutex_waiter *waiter);

// Ends a waiter's wait. cause: UFUTEX_TIMED_OUT or UFUTEX_INTERRUPTED. If the wait has completed meanwhile, its own
// result is returned.
//
// Returns the result that the blocking function would have returned: -ETIMEDOUT or -EINTR, or a system call's result
// for them. Frees the handle. -EINVAL: another cause; -EBUSY: another thread is using it. If that thread gets
// -EINPROGRESS from ufutex_waiter_finish(), call this again.
long ufutex_waiter_end(struct ufutex_waiter *waiter,
                       uint32_t cause);

// Frees a waiter without a result. A wake that it has received goes to the next waiter. A lock that it has been handed
// is unlocked.
//
// Returns 0. -EBUSY: another thread is using it. If that thread gets -EINPROGRESS from ufutex_waiter_finish(), call
// this again.
int ufutex_waiter_free(struct ufutex_waiter *waiter);

// Makes an empty table of POSIX timers for one process. options: NULL for all defaults: expired timers stand in a line
// for ufutex_timers_receive().
//
// By the host's clocks the first timer of a system starts a thread, which ends with the system and its timers. By the
// embedder's clocks (timer_clocks of ufutex_config) timers expire in ufutex_driver_turn().
//
// ```c
// ufutex_timers *timers;
// ufutex_itimerspec soon = {{0, 0}, {0, 1000000}}; // once, in 1 ms
// ufutex_expired expired;
// int32_t id;
// ufutex_timers_new(system, NULL, &timers);
// ufutex_timers_create(timers, UFUTEX_MONOTONIC, NULL, &id);
// ufutex_timers_settime(timers, id, 0, &soon, NULL);
// ufutex_timers_receive(timers, UFUTEX_FOREVER, 0, &expired);
// ```
//
// Stores the handle in *timers and returns 0. -EINVAL: an unknown delivery, max_id is not one less than a power of
// two, expired is missing, a size that is too small; -EBADF: eventfd is not an open file; -EMFILE; -ENOMEM.
int ufutex_timers_new(struct ufutex_system *system,
                      const struct ufutex_timers_options *options,
                      struct ufutex_timers **timers);

// As ufutex_timers_new(), for a process of the guest that a domain belongs to. By the host's clocks each PID namespace has
// a thread of its own for timers and timeouts, so no guest makes another guest's timers late.
//
// Errors as for ufutex_timers_new().
int ufutex_timers_new_beside(struct ufutex_domain *domain,
                             const struct ufutex_timers_options *options,
                             struct ufutex_timers **timers);

// Frees timers, armed or not. When it has returned, expired is not called any more. It waits for a call in progress in
// another thread, so do not hold a lock that expired takes. expired itself may call it.
//
// Returns 0. -EBUSY: a thread is in another function with these timers.
int ufutex_timers_free(struct ufutex_timers *timers);

// Makes a timer, which is not set yet: timer_create(2). clock: UFUTEX_REALTIME, UFUTEX_MONOTONIC, UFUTEX_BOOTTIME,
// UFUTEX_TAI, UFUTEX_PROCESS_CPU(pid) or UFUTEX_THREAD_CPU(tid). notify: what it does when it expires; NULL: SIGALRM,
// with the ID as the value.
//
// Stores the ID in *id, from 0 up, and returns 0. -EAGAIN: as many timers as there may be, no free ID, no memory, or
// no thread for the driver; -EINVAL: another clock, no such process or thread, a signal that is not from 1 to 64, an
// unknown kind; -EOPNOTSUPP: a clock that timers cannot run by.
int ufutex_timers_create(struct ufutex_timers *timers,
                         int32_t clock,
                         const struct ufutex_notify *notify,
                         int32_t *id);

// As ufutex_timers_create(), with a given ID, as when a checkpoint is restored. IDs that are handed out later follow
// it.
//
// Returns 0. Errors as for ufutex_timers_create(). -EBUSY: the ID is in use; -EINVAL: it is negative or above max_id.
int ufutex_timers_create_as(struct ufutex_timers *timers,
                            int32_t id,
                            int32_t clock,
                            const struct ufutex_notify *notify);

// Arms a timer, or disarms it if new's value is 0: timer_settime(2). flags: UFUTEX_TIMER_ABSTIME, or 0. An expiry that
// was not taken becomes void. old: the setting before, as by ufutex_timers_gettime(), or NULL.
//
// Returns 0. -EINVAL: no such timer, a time that is negative or has a second of nanoseconds or more, unknown flags;
// -ESRCH: the thread or process whose CPU time the timer counts has ended.
//
// Calls changed of ufutex_timer_clocks.
int ufutex_timers_settime(struct ufutex_timers *timers,
                          int32_t id,
                          uint32_t flags,
                          const struct ufutex_itimerspec *new_,
                          struct ufutex_itimerspec *old);

// Stores a timer's setting in *setting: the interval, and the time that is left until it expires, 0 if it is not
// armed: timer_gettime(2).
//
// Returns 0. -EINVAL: no such timer.
int ufutex_timers_gettime(struct ufutex_timers *timers,
                          int32_t id,
                          struct ufutex_itimerspec *setting);

// How many intervals of a timer had passed unnoticed when its last expiry was taken: timer_getoverrun(2). Takes no lock.
//
// Returns that number, at most INT_MAX, or -1 if the clock was set back to before that expiry. -EINVAL: no such timer.
int ufutex_timers_getoverrun(struct ufutex_timers *timers,
                             int32_t id);

// Deletes a timer: timer_delete(2). An expiry that was not taken becomes void.
//
// Returns 0. -EINVAL: no such timer.
int ufutex_timers_delete(struct ufutex_timers *timers, int32_t id);

// Deletes all timers: exec(2). A process that fork(2) makes gets timers of its own, which are empty.
int ufutex_timers_clear(struct ufutex_timers *timers);

// The number of timers.
long ufutex_timers_count(struct ufutex_timers *timers);

// The memory of all timers of this process, in bytes.
long ufutex_timers_bytes(struct ufutex_timers *timers);

// Takes the next expired timer out of the line, and blocks the caller until there is one. timeout: UFUTEX_FOREVER,
// UFUTEX_AFTER, UFUTEX_UNTIL_..., by the host's clocks. UFUTEX_AFTER with 0 nanoseconds does not block. An interval
// timer stands in the line once. Its overrun is counted until it is taken, and then it is armed again. While a thread is
// in this function, the timers are not freed: to have it return, arm a timer that it knows.
//
// Stores the expiry in *expired and returns 0. -ETIMEDOUT; -EINVAL: the delivery is not UFUTEX_DELIVER_LINE, an
// unknown timeout.
int ufutex_timers_receive(struct ufutex_timers *timers,
                          uint32_t timeout,
                          uint64_t nanoseconds,
                          struct ufutex_expired *expired);

// Takes a notice that expired was called with, when its signal is delivered. Only now is the overrun known, and an
// interval timer is armed again. Any numbers may be passed as a notice.
//
// Stores the expiry in *taken and returns 1. Returns 0 if the notice is void, because the timer was set again or
// deleted, or it has been taken: nothing is to be delivered. -EINVAL: an unknown kind.
//
// Calls changed of ufutex_timer_clocks.
int ufutex_timers_take(struct ufutex_timers *timers,
                       const struct ufutex_notice *notice,
                       struct ufutex_expired *taken);

// Makes a system call on timers for a guest, by its number. number: that on x86-64, or that of another architecture
// with UFUTEX_GENERIC_NUMBER, UFUTEX_I386_NUMBER, UFUTEX_ARM_NUMBER or UFUTEX_RISCV32_NUMBER added: timer_create,
// timer_settime, timer_settime64, timer_gettime, timer_gettime64, timer_getoverrun, timer_delete, and prctl for
// PR_TIMER_CREATE_RESTORE_IDS. process, thread: the caller's PID and TID. args: its six arguments. memory: the memory
// that they point to; NULL for this program's own. No call blocks.
//
// Returns the kernel's result, from 0 up or -errno, with the kernel's order of errors. This function adds the errors
// that follow. -ENOSYS: another number; -EINVAL: a function is missing from memory.
//
// Calls changed of ufutex_timer_clocks.
long ufutex_timers_syscall(struct ufutex_timers *timers,
                           int32_t process,
                           int32_t thread,
                           const struct ufutex_memory *memory,
                           uint64_t number,
                           const uint64_t *args);

// Starts the thread that expires timers and timeouts of the system's own PID namespace by the host's clocks, which the first
// of them would start otherwise. Each further namespace has a thread of its own. Does
// nothing if it runs already, or if the system has the embedder's clocks. The thread inherits what the caller may do:
// to raise its priority later it needs a privilege.
//
// Returns 0. -ENOMEM: the host refuses a thread or its file descriptors.
int ufutex_driver_start(struct ufutex_system *system);

// When ufutex_driver_turn() is needed next: stores in *nanoseconds a time of UFUTEX_REALTIME, UFUTEX_MONOTONIC,
// UFUTEX_BOOTTIME or UFUTEX_TAI that is not later than the earliest deadline by that clock, or UFUTEX_NO_DEADLINE if
// there is none. It may be earlier than the deadline.
//
// Returns 0. -EINVAL: another clock.
int ufutex_driver_next(struct ufutex_system *system,
                       uint32_t clock,
                       uint64_t *nanoseconds);

// Expires the timers of all processes that are due, and delivers them. With the embedder's clocks the embedder calls
// this at the time that ufutex_driver_next() says. Timers that become due meanwhile may be left for the next turn.
//
// Returns the number of deadlines that have passed.
//
// Several threads may turn at the same time. Functions of ufutex_timers_options are called by this thread.
long ufutex_driver_turn(struct ufutex_system *system);

// Call this when the embedder's UFUTEX_REALTIME has been set, and UFUTEX_TAI with it. The next turn expires what is
// due by the new time. The host's clocks need no such call.
//
// Calls changed of ufutex_timer_clocks.
int ufutex_driver_clock_was_set(struct ufutex_system *system);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* UFUTEX_H */

// A flag of a word: it is looked up on this node. ufutex_wake() with UFUTEX_U32 | UFUTEX_ON_NODE(1) wakes the waiters
// that wait there.
#define UFUTEX_ON_NODE(node) (((uint32_t)(node) < 1024u ? (uint32_t)(node) + 1u : 0x7ffu) << UFUTEX_NODE_SHIFT)

// Clocks of ufutex_timers_create(): the CPU time of a process or a thread, as clock_getcpuclockid(3) numbers them.
#define UFUTEX_PROCESS_CPU(pid) ((int32_t)(~(uint32_t)(pid) << 3 | 2))
#define UFUTEX_THREAD_CPU(tid) ((int32_t)(~(uint32_t)(tid) << 3 | 6))

// Initialisers that set all fields to their defaults: struct ufutex_options options = UFUTEX_OPTIONS_INIT;
#define UFUTEX_MEMORY_INIT { sizeof(struct ufutex_memory), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL }
#define UFUTEX_CLOCK_INIT { sizeof(struct ufutex_clock), NULL, NULL }
#define UFUTEX_PARKER_INIT { sizeof(struct ufutex_parker), NULL, NULL, NULL, NULL }
#define UFUTEX_TOPOLOGY_INIT { sizeof(struct ufutex_topology), NULL, 0, 0, NULL, NULL, NULL, NULL }
#define UFUTEX_TIMER_CLOCKS_INIT { sizeof(struct ufutex_timer_clocks), NULL, NULL, NULL, NULL, 0, 0 }
#define UFUTEX_DRIVER_THREAD_INIT { sizeof(struct ufutex_driver_thread), 0, 0, 0, 0, NULL, 0 }
#define UFUTEX_TIMERS_OPTIONS_INIT \
    { sizeof(struct ufutex_timers_options), 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL }
#define UFUTEX_CONFIG_INIT \
    { sizeof(struct ufutex_config), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, 0, 0, NULL, NULL, NULL, NULL }
#define UFUTEX_OPTIONS_INIT { sizeof(struct ufutex_options), 0, 0, 0, 0, NULL, NULL, NULL, 0, 0 }
#define UFUTEX_WAIT_OPTIONS_INIT { sizeof(struct ufutex_wait_options), 0, UFUTEX_BITSET_ANY, 0, 0, 0, NULL }
#define UFUTEX_RESTART_INIT { sizeof(struct ufutex_restart), 0, 0, 0, 0, 0, 0 }
#define UFUTEX_COUNTERS_INIT { sizeof(struct ufutex_counters), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
#define UFUTEX_SYSTEM_COUNTERS_INIT { sizeof(struct ufutex_system_counters), 0, 0, 0, 0 }
