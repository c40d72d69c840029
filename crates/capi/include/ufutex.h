// ufutex: Linux's futex subsystem as an embeddable library.
//
// Made by cbindgen from crates/capi/src. To change it, change that, and run
//     UFUTEX_WRITE_HEADER=1 cargo test -p ufutex-capi --test header
//
// Answers. A function answers a number from 0 up, or -errno; what errno holds then says nothing.
//
// Handles. What has NULL or a handle that was freed, that is of another kind or that never was one given to it answers
// -EINVAL for NULL and -EBADF for the others, and reads nothing of what was freed. An object that somebody waits in, or that
// another thread is using, is not freed: -EBUSY. The same is the answer, rarely, where a signal handler uses a handle that the
// code below it is freeing.
//
// Addresses are numbers: in the program's own memory (uintptr_t)pointer. Such a word must be readable, and writable for
// functions that write it, when the function is called and as long as it waits: that cannot be told. Other pointers must
// be valid for what is read and written there. Misaligned ones answer -EINVAL.
//
// Structs that begin with their size are to be set to 0 and then given sizeof: what this library does not know of a newer
// one has to be 0 (-E2BIG), what an older one lacks is 0. Each has a macro UFUTEX_..._INIT.
//
// Units. Memory is in bytes, times are in nanoseconds, tables in slots: one is a bucket of 64 bytes. Limits and counters are
// numbers of what they name. A limit of 0 is the default, whatever that is; 1 is the least that can be asked for.
//
// Threads. Any thread may call any function at any time, also from within a callback unless it is said there. The library
// starts none of its own. Functions are async-signal-safe where they say so. After fork() in a process with several threads
// the child may not use this library, as its locks may be held; after exec() all is new. The library is not to be unloaded.
//
// Functions of the program that are called must return: they neither throw nor longjmp(), and no thread is cancelled in one.
// Should the library itself fail in a way that it cannot answer for, the process is aborted.


#ifndef UFUTEX_H
#define UFUTEX_H

#include <stddef.h>
#include <stdint.h>

// Flags of a word: it has 8 bits. One of the four sizes has to be there.
#define UFUTEX_U8 1

// It has 16 bits.
#define UFUTEX_U16 2

// It has 32 bits, as all of Linux's have.
#define UFUTEX_U32 4

// It has 64 bits.
#define UFUTEX_U64 8

// Others may map it: futex(2) without FUTEX_PRIVATE_FLAG. It does not meet operations without this flag.
#define UFUTEX_SHARED 16

// Timeouts: none.
#define UFUTEX_FOREVER 0

// So many nanoseconds from now on, by the monotonic clock.
#define UFUTEX_AFTER 1

// Until the monotonic clock shows so many nanoseconds.
#define UFUTEX_UNTIL_MONOTONIC 2

// Until the real-time clock shows so many nanoseconds since 1970.
#define UFUTEX_UNTIL_REALTIME 3

// Clocks, numbered as for clock_gettime(2): real time, since 1970.
#define UFUTEX_REALTIME 0

// Monotonic time.
#define UFUTEX_MONOTONIC 1

// A deadline that never comes.
#define UFUTEX_NO_DEADLINE 18446744073709551615ull

// All bits: whatever wakes the word wakes the waiter.
#define UFUTEX_BITSET_ANY 4294967295

// Size policies: grow under load. The default.
#define UFUTEX_POLICY_LOAD 0

// The kernel's rule, by the number of threads: ufutex_domain_note_threads().
#define UFUTEX_POLICY_THREADS 1

// A fixed number of slots.
#define UFUTEX_POLICY_FIXED 2

// Flags of ufutex_options: count what operations do, about ten nanoseconds each.
#define UFUTEX_COUNT_OPERATIONS 1

// A wait goes through its bucket even if the word differs at first sight, as in the kernel.
#define UFUTEX_NO_EARLY_RETURN 2

// The domain's tasks have their TIDs in a PID namespace of its own, as after clone(2) with CLONE_NEWPID.
#define UFUTEX_NEW_PID_NAMESPACE 4

// Flag of ufutex_config: hash_seed is set.
#define UFUTEX_HASH_SEED 1

// Flag of ufutex_task_new(): a thread of the kernel itself, for whose locks nobody may wait (EPERM).
#define UFUTEX_KERNEL_TASK 1

// What an access is for: to read.
#define UFUTEX_READ 0

// To write.
#define UFUTEX_WRITE 1

// Who shares a word: the threads of one domain.
#define UFUTEX_SCOPE_PRIVATE 0

// The same, by operations with UFUTEX_SHARED on memory that nobody else maps.
#define UFUTEX_SCOPE_ADDRESS_SPACE 1

// Whoever maps the object.
#define UFUTEX_SCOPE_OBJECT 2

// What ufutex_wake_op() does to a word: this.
#define UFUTEX_OP_SET 0

// Add this; it wraps.
#define UFUTEX_OP_ADD 1

// Its bits and these.
#define UFUTEX_OP_OR 2

// Its bits without these.
#define UFUTEX_OP_ANDN 3

// Its bits, those of these turned over.
#define UFUTEX_OP_XOR 4

// What the word must have held for its waiters to be woken, as a signed number: equal to this.
#define UFUTEX_CMP_EQ 0

// Anything else.
#define UFUTEX_CMP_NE 1

// Less.
#define UFUTEX_CMP_LT 2

// Less or equal.
#define UFUTEX_CMP_LE 3

// Greater.
#define UFUTEX_CMP_GT 4

// Greater or equal.
#define UFUTEX_CMP_GE 5

// Why a wait is ended by ufutex_waiter_end(): a signal, a kill, a change of mind.
#define UFUTEX_INTERRUPTED 0

// The time is up.
#define UFUTEX_TIMED_OUT 1

// To be added to a system call's number that is one of aarch64, riscv64 or loongarch64 rather than x86-64.
#define UFUTEX_GENERIC_NUMBER 4294967296

// What ufutex_resume() says of a system call: the program gets this result.
#define UFUTEX_RESUME_RETURN 0

// The same call is made again, after the handler if one runs.
#define UFUTEX_RESUME_AGAIN 1

// restart_syscall is called in place of it, unless a handler runs.
#define UFUTEX_RESUME_CONTINUE 2

// Handlers of ufutex_resume(): no signal handler runs.
#define UFUTEX_NO_HANDLER 0

// One runs that was installed without SA_RESTART.
#define UFUTEX_HANDLER 1

// One runs that was installed with SA_RESTART.
#define UFUTEX_HANDLER_RESTART 2

// The futexes of one process (or guest, or program). A handle: not the address of anything.
typedef struct ufutex_domain ufutex_domain;

// What a kernel has once: global tables, a hash secret, limits. A handle: not the address of anything.
typedef struct ufutex_system ufutex_system;

// A thread of a guest, or of this program: who owns and waits for locks with priority inheritance, makes system calls, and
// can be interrupted. A handle: not the address of anything.
typedef struct ufutex_task ufutex_task;

// A wait under way that no thread sleeps in, for schedulers: see ufutex_prepare_wait(). A handle: not the address of
// anything.
typedef struct ufutex_waiter ufutex_waiter;

// What holds for a system. 0 is the default of each.
typedef struct ufutex_config {
    // sizeof(struct ufutex_config).
    size_t size;
    // UFUTEX_HASH_SEED, or 0.
    uint32_t flags;
    // Has to be 0.
    uint32_t reserved;
    // The secret of the hash function; random without UFUTEX_HASH_SEED.
    uint64_t hash_seed;
    // How many CPUs run at the same time. Default: those of the host.
    size_t cpus;
    // Slots of the global table, a power of two. Default: 256 for each CPU.
    size_t global_slots;
    // Slots of a domain's first table, a power of two. Default: 16.
    size_t default_slots;
    // Slots that a policy may grow a table to, and that PR_FUTEX_HASH may ask for, a power of two. Default: 2^20.
    size_t max_slots;
    // Words of one wait. Default: 128.
    size_t max_waitv;
    // Entries of a robust list that are walked. Default: 2048.
    size_t max_robust;
    // Owners that wait for one another. Default: 1024.
    size_t max_pi_depth;
    // Called with the real-time priority, from 1 to 99 and 0 for none, that a task runs with from now on, because others
    // wait for its locks. By any thread, several at a time; the last call for a task holds. It must not wait. May be NULL.
    void (*set_priority)(void *context, uint32_t tid, uint32_t priority);
    // Handed to set_priority and set_priority_in. They are used as long as the system or a domain of it.
    void *context;
    // Bytes that the tables of all domains may take together, 64 for each slot. The global table is not counted, nor 16
    // slots of each domain, which none can keep another from having. Default: 2^30.
    size_t max_table_bytes;
    // Bytes that the tables of one domain may take together, unless its options say otherwise. A domain whose first table
    // does not fit begins with 16 slots, 1024 bytes; if these do not fit either it uses the global table. Default: 2^27.
    size_t max_domain_table_bytes;
    // Called in place of set_priority, with the number of the task's PID namespace besides: where there are several, a TID
    // alone does not say which task it is. May be NULL.
    void (*set_priority_in)(void *context, uint64_t pid_namespace, uint32_t tid, uint32_t priority);
} ufutex_config;

// What a system has counted.
typedef struct ufutex_system_counters {
    // sizeof(struct ufutex_system_counters), set by the caller.
    size_t size;
    // Slots of the global table.
    uint64_t global_slots;
    // Robust lists that were longer than max_robust.
    uint64_t robust_lists_cut;
    // Waits for a lock refused by max_pi_depth.
    uint64_t pi_chains_refused;
    // The memory of all tables of its domains, in bytes: at most max_table_bytes and 1024 for each domain.
    uint64_t table_bytes;
} ufutex_system_counters;

// A word that somebody waits for.
typedef struct ufutex_waited_word {
    // Its address; of a word in an object, its offset there.
    uint64_t address;
    // UFUTEX_SCOPE_OBJECT: which object.
    uint64_t object;
    // UFUTEX_SCOPE_...
    uint32_t scope;
    // The bits that any waiter's bitset has.
    uint32_t bitset;
    // How many threads of the host wait to be woken.
    uint64_t threads;
    // How many others: waiters of ufutex_prepare_wait() and its like, and whom a parker lets sleep.
    uint64_t tasks;
    // How many wait for a lock with priority inheritance.
    uint64_t for_lock;
} ufutex_waited_word;

// The memory that a domain's words lie in. Functions answer 0, and anything else for a fault, unless it says otherwise.
//
// They are called by any thread, several at a time, return on the thread that called them, and call nothing of this library.
// load, compare_exchange and fault_in are given together, or none of them, for the program's own memory.
typedef struct ufutex_memory {
    // sizeof(struct ufutex_memory).
    size_t size;
    // Handed to each function.
    void *context;
    // Reads the word of so many bytes in one piece, with acquire ordering or stronger. Never blocks: where the page is not
    // there it is a fault.
    int (*load)(void *context, uint64_t address, uint32_t bytes, uint64_t *value);
    // Replaces the word by desired if it holds *current, in one piece, with acquire and release ordering or stronger, and
    // answers 0; else stores in *current what it holds, and answers 1. Negative for a fault. Never blocks.
    int (*compare_exchange)(void *context,
                            uint64_t address,
                            uint32_t bytes,
                            uint64_t *current,
                            uint64_t desired);
    // Makes an address accessible that was not, for UFUTEX_READ or UFUTEX_WRITE; called without any lock held, and may
    // block. A fault means that the access is not allowed at all: the operation ends with EFAULT.
    int (*fault_in)(void *context, uint64_t address, uint32_t access);
    // Copies memory, faulting it in where necessary; may block. NULL: byte after byte by load.
    int (*read)(void *context, uint64_t address, void *into, size_t bytes);
    // Who shares the word at an address, for operations on shared words: UFUTEX_SCOPE_ADDRESS_SPACE, or
    // UFUTEX_SCOPE_OBJECT with the object's number, below 2^61, and the word's offset in it. Anything else is a fault.
    // NULL: nobody maps what this domain maps.
    int (*scope)(void *context, uint64_t address, uint32_t access, uint64_t *object, uint64_t *offset);
    // Whether a program may name these addresses at all: 1 or 0. NULL: the lower half of an address space of x86-64.
    int (*access_ok)(void *context, uint64_t address, uint64_t bytes);
} ufutex_memory;

// A clock of the embedder's own.
typedef struct ufutex_clock {
    // sizeof(struct ufutex_clock).
    size_t size;
    // Handed to the function.
    void *context;
    // What UFUTEX_MONOTONIC or UFUTEX_REALTIME shows, in nanoseconds. Called by any thread, with no lock held.
    uint64_t (*now)(void *context, uint32_t clock);
} ufutex_clock;

// How threads of the embedder's own sleep: green threads, virtual processors. All three functions are given. They are
// called with no lock held, and call nothing of this library.
typedef struct ufutex_parker {
    // sizeof(struct ufutex_parker).
    size_t size;
    // Handed to each function.
    void *context;
    // The embedder's thread that is running. NULL where there is none: such a thread of the host sleeps as others do.
    void *(*current)(void *context);
    // Lets the running thread sleep until it is unparked or has been since it parked last, or until the clock shows so
    // many nanoseconds; UFUTEX_NO_DEADLINE for never. It may return sooner, and on another thread of the host. -ETIMEDOUT
    // ends the wait because its time is up, -EINTR as a signal does; after anything else the wait goes on if it has to.
    int (*park)(void *context, void *thread, uint32_t clock, uint64_t deadline);
    // Ends the sleep of a thread, or the next one. Called by any thread, and returns on it without switching to another one.
    // Not called any more when the thread's operation has returned.
    void (*unpark)(void *context, void *thread);
} ufutex_parker;

// What holds for a domain. 0 and NULL are the defaults.
typedef struct ufutex_options {
    // sizeof(struct ufutex_options).
    size_t size;
    // UFUTEX_POLICY_...: what decides the size of the table.
    uint32_t policy;
    // UFUTEX_COUNT_OPERATIONS, UFUTEX_NO_EARLY_RETURN, UFUTEX_NEW_PID_NAMESPACE.
    uint32_t flags;
    // Of UFUTEX_POLICY_FIXED: slots, rounded up to a power of two; 0 for the global table. Else 0.
    size_t slots;
    // How many may wait through the domain at a time. Default: 2^24; at most 2^28.
    size_t max_waiters;
    // Where words are: copied. NULL: in this program's own memory.
    const struct ufutex_memory *memory;
    // What deadlines are measured by: copied. NULL: the host's clocks.
    const struct ufutex_clock *clock;
    // How those wait that ufutex_wait() and its like block: copied. NULL: as threads of the host.
    const struct ufutex_parker *parker;
    // Bytes that the tables of the domain may take together, 64 for each slot. Default: max_domain_table_bytes of the
    // system, which says what becomes of a domain whose first table does not fit.
    size_t max_table_bytes;
} ufutex_options;

// What a domain has counted since it was made. What operations do is counted with UFUTEX_COUNT_OPERATIONS, and 0 without.
typedef struct ufutex_counters {
    // sizeof(struct ufutex_counters), set by the caller.
    size_t size;
    // How many wait now: queued, or woken and not yet aware of it. Not a count of operations.
    uint64_t waiting;
    // Operations: waits that were queued, however they ended.
    uint64_t waits;
    // Operations: waits that found another value.
    uint64_t mismatches;
    // Operations: wakes that woke somebody.
    uint64_t wakes;
    // Operations: waiters that wakes and requeues woke.
    uint64_t woken;
    // Operations: wakes that woke nobody.
    uint64_t empty_wakes;
    // Operations: requeues that woke or moved somebody.
    uint64_t requeues;
    // Operations: waiters that those moved.
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
    // The memory of all tables the domain has had, in bytes.
    uint64_t table_bytes;
    // Always: tables refused by max_table_bytes of the system or the domain. ufutex_domain_set_slots() and PR_FUTEX_HASH
    // answer that (ENOMEM); where a policy asked, the domain keeps its table, or begins with 16 slots.
    uint64_t refused_tables;
} ufutex_counters;

// How to wait. UFUTEX_WAIT_OPTIONS_INIT has the defaults: a bitset of 0 is none.
typedef struct ufutex_wait_options {
    // sizeof(struct ufutex_wait_options).
    size_t size;
    // UFUTEX_FOREVER, UFUTEX_AFTER, UFUTEX_UNTIL_...
    uint32_t timeout;
    // Be woken only by wakes that have one of these bits. Not 0.
    uint32_t bitset;
    // Of the timeout.
    uint64_t nanoseconds;
    // Be woken before waiters of less: a real-time priority from 1 to 99, 0 for none.
    uint32_t priority;
    // Has to be 0.
    uint32_t reserved;
    // Whose interrupt ends the wait; NULL for nobody's. One wait at a time. Waits for locks have a task in any case, and
    // ignore this one, and bitset and priority.
    struct ufutex_task *task;
} ufutex_wait_options;

// One of the words of ufutex_waitv(): Linux's struct futex_waitv, with our flags.
typedef struct ufutex_waitv_word {
    // What it should hold.
    uint64_t expected;
    // Where it is.
    uint64_t address;
    // UFUTEX_U8 to UFUTEX_U64, UFUTEX_SHARED.
    uint32_t flags;
    // Has to be 0.
    uint32_t reserved;
} ufutex_waitv_word;

// What ufutex_wake_op() does.
typedef struct ufutex_operation {
    // UFUTEX_OP_...
    uint32_t modify;
    // What with.
    uint32_t argument;
    // UFUTEX_CMP_...
    uint32_t compare;
    // What with.
    int32_t operand;
} ufutex_operation;

// What a waiter calls when there is something to look at: the number is the context that came with it.
typedef void (*ufutex_callback)(void *context);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The version of the library that runs, as "0.1.0".
//
// Any thread; async-signal-safe.
const char *ufutex_version(void);

// The same as a number: major << 16 | minor << 8 | patch.
//
// Any thread; async-signal-safe.
uint32_t ufutex_version_number(void);

// Makes a system. config: NULL for all defaults.
//
// Stores the handle in *system and answers 0. -EINVAL: a number of slots that is no power of two from 2 to 2^24, unknown
// flags, a size that is too small, system is NULL or misaligned; -E2BIG: config sets what this library does not know;
// -ENOMEM.
//
// Any thread; not async-signal-safe.
int ufutex_system_new(const struct ufutex_config *config,
                      struct ufutex_system **system);

// Frees a handle of a system. The system itself lives on as long as its domains and tasks.
//
// Answers 0. -EINVAL: NULL; -EBADF: no handle of a system, or freed before; -EBUSY: another thread is using it.
//
// Any thread; not async-signal-safe.
int ufutex_system_free(struct ufutex_system *system);

// Fills in counters, whose size the caller has set.
//
// Answers 0. -EINVAL: NULL, misaligned, a size that is too small; -E2BIG: a size above 4096; -EBADF: no handle of a
// system.
//
// Any thread; not async-signal-safe.
int ufutex_system_get_counters(struct ufutex_system *system,
                               struct ufutex_system_counters *counters);

// Who waits for words of shared objects, in all domains of a system: as ufutex_domain_who_waits().
//
// Any thread; not async-signal-safe.
long ufutex_system_who_waits(struct ufutex_system *system,
                             struct ufutex_waited_word *words,
                             size_t word_size,
                             size_t capacity);

// Makes a domain of a system. options: NULL for all defaults; what they point to is copied.
//
// Its tasks have their TIDs in the system's own PID namespace, or with UFUTEX_NEW_PID_NAMESPACE in one of its own. Tasks of
// different namespaces do not exist for each other: a TID in a lock's word is looked up among those of the caller's, and
// operations on a lock answer -EINVAL where a task of another one waits. Guests that do not trust each other get one each.
//
// Stores the handle in *domain and answers 0. No table is allocated before somebody waits. -EINVAL: NULL or misaligned, an
// unknown policy or flag, a size that is too small, a function that is missing from memory, clock or parker; -E2BIG: a
// struct sets what this library does not know; -EBADF: no handle of a system; -ENOMEM.
//
// Any thread; not async-signal-safe.
int ufutex_domain_new(struct ufutex_system *system,
                      const struct ufutex_options *options,
                      struct ufutex_domain **domain);

// Makes a domain in the PID namespace of another one, and in its system: another process of that guest, as after fork(2).
// With UFUTEX_NEW_PID_NAMESPACE in the system alone.
//
// As ufutex_domain_new(). -EBADF: other is no handle of a domain.
//
// Any thread; not async-signal-safe.
int ufutex_domain_new_beside(struct ufutex_domain *other,
                             const struct ufutex_options *options,
                             struct ufutex_domain **domain);

// The number of a domain's PID namespace, as set_priority_in is told it: 0 for the system's own.
//
// -EINVAL: NULL; -EBADF: no handle of a domain.
//
// Any thread; not async-signal-safe.
long ufutex_domain_pid_namespace(struct ufutex_domain *domain);

// Frees a domain and its tables.
//
// Answers 0. -EBUSY: somebody waits in it, or another thread is using it: it stays as it is. -EINVAL: NULL; -EBADF: no
// handle of a domain, or freed before.
//
// Any thread; not async-signal-safe.
int ufutex_domain_free(struct ufutex_domain *domain);

// Sets the number of slots (buckets) of a domain's table, a power of two from 2 to 2^24; 0 for the system's global table.
// In effect on return, with every waiter moved; no policy decides any more.
//
// Answers 0. -EINVAL: another number; -ENOMEM, also where max_table_bytes forbids it; -EBUSY: the table was made immutable;
// -EBADF: no handle of a domain.
//
// Any thread; not async-signal-safe.
int ufutex_domain_set_slots(struct ufutex_domain *domain,
                            size_t slots);

// The number of slots (buckets) of a domain's own table: 0 before the first wait, and with the global table.
//
// -EBADF: no handle of a domain.
//
// Any thread; not async-signal-safe.
long ufutex_domain_slots(struct ufutex_domain *domain);

// Says how many threads a process has now: UFUTEX_POLICY_THREADS grows the table by it.
//
// Answers 0. -EBADF: no handle of a domain.
//
// Any thread; not async-signal-safe.
int ufutex_domain_note_threads(struct ufutex_domain *domain, size_t threads);

// prctl(PR_FUTEX_HASH, op, slots, flags) for a domain, with the kernel's numbers and answers: 1 sets slots (0 for the
// global table, for good), 2 asks for them, 3 asks whether they are immutable, as flag 1 makes them.
//
// -EINVAL, -EBUSY, -ENOMEM as the kernel; -EBADF: no handle of a domain.
//
// Any thread; not async-signal-safe.
long ufutex_prctl_futex_hash(struct ufutex_domain *domain,
                             uint64_t op,
                             uint64_t slots,
                             uint64_t flags);

// Fills in counters, whose size the caller has set. They are read one after another, while others go on counting.
//
// Answers 0. -EINVAL: NULL, misaligned, a size that is too small; -E2BIG: a size above 4096; -EBADF: no handle of a
// domain.
//
// Any thread; not async-signal-safe.
int ufutex_domain_get_counters(struct ufutex_domain *domain,
                               struct ufutex_counters *counters);

// Who waits where in a domain: fills in up to capacity words, each of word_size bytes, sizeof(struct ufutex_waited_word).
// Nobody is stopped: a waiter that waits all the while is reported, once.
//
// Answers how many words somebody waits for, which may be more than there was room for. -EINVAL: words is NULL or
// misaligned, word_size is too small; -EBADF: no handle of a domain.
//
// Any thread; not async-signal-safe.
long ufutex_domain_who_waits(struct ufutex_domain *domain,
                             struct ufutex_waited_word *words,
                             size_t word_size,
                             size_t capacity);

// Makes a task of a domain, with a TID from 1 to 2^30 - 1 that no other task of the domain's PID namespace has. flags: 0, or
// UFUTEX_KERNEL_TASK.
//
// Stores the handle in *task and answers 0. -EINVAL: another TID, unknown flags, task is NULL or misaligned; -EBUSY: the TID
// is taken; -ENOMEM; -EBADF: no handle of a domain.
//
// Any thread; not async-signal-safe.
int ufutex_task_new(struct ufutex_domain *domain,
                    uint32_t tid,
                    uint32_t flags,
                    struct ufutex_task **task);

// Frees a task. It has ended: locks that it owned and others wait for go to them, with FUTEX_OWNER_DIED in the word. Its
// robust lists are not walked: ufutex_task_exit() does that.
//
// Answers 0. -EBUSY: it waits, or another thread is using it; -EINVAL: NULL; -EBADF: no handle of a task, or freed before.
//
// Any thread; not async-signal-safe.
int ufutex_task_free(struct ufutex_task *task);

// The end of a task, as of a thread in the kernel: its robust lists are walked, each lock on them that names the task is
// marked with FUTEX_OWNER_DIED and one of its waiters is woken; then as for ufutex_task_free(), but the handle is still to
// be freed. memory: NULL for the domain's.
//
// Answers 0. -EBUSY: it waits; -EINVAL: a task of another domain, or one that has ended, NULL, or a function that is
// missing from memory; -E2BIG: memory sets what this library does not know; -EBADF: no handle of a domain or of a task.
//
// Any thread; not async-signal-safe.
int ufutex_task_exit(struct ufutex_domain *domain,
                     struct ufutex_task *task,
                     const struct ufutex_memory *memory);

// Sets where a robust list begins: set_robust_list(2). pointer_bytes: 8 for a list of 64-bit code, 4 for one of 32-bit
// code. head: its address in the domain's memory, 0 for none. length: the size of a head in bytes, 3 * pointer_bytes.
//
// Answers 0. -EINVAL: another length or pointer_bytes, NULL; -EBADF: no handle of a task.
//
// Any thread; not async-signal-safe.
int ufutex_task_set_robust_list(struct ufutex_task *task,
                                uint32_t pointer_bytes,
                                uint64_t head,
                                uint64_t length);

// Sets a task's own priority: a real-time priority from 1 to 99, or 0 for none. It decides the order in which the task
// gets locks and is woken from its system calls, and is lent to the owners of locks that it waits for.
//
// Answers 0. -EINVAL: above 99, NULL; -EBADF: no handle of a task.
//
// Any thread; not async-signal-safe. Calls the system's set_priority or set_priority_in.
int ufutex_task_set_priority(struct ufutex_task *task,
                             uint32_t priority);

// The real-time priority that a task runs with, from 1 to 99, or 0 for none: the best of its own and of those that wait for
// its locks.
//
// -EINVAL: NULL; -EBADF: no handle of a task.
//
// Any thread; not async-signal-safe.
int ufutex_task_priority(struct ufutex_task *task);

// Interrupts a task, as a signal does: its wait, or its next one, ends with -EINTR, and every one after it until
// ufutex_task_clear_interrupt(). A waiter of ufutex_prepare_wait() and its like has its callback called.
//
// Answers 0. -EINVAL: NULL; -EBADF: no handle of a task; -EBUSY: in a signal handler that has interrupted
// ufutex_task_free() of this task.
//
// Any thread; async-signal-safe if what it calls is: the callback of the task's waiter or the parker's unpark, if any.
int ufutex_task_interrupt(struct ufutex_task *task);

// Takes an interrupt back: the task's waits sleep again.
//
// Answers 0. -EINVAL: NULL; -EBADF: no handle of a task.
//
// Any thread; async-signal-safe.
int ufutex_task_clear_interrupt(struct ufutex_task *task);

// A signal handler of the guest runs: a system call that was interrupted before it is not continued after it.
//
// Answers 0. -EINVAL: NULL; -EBADF: no handle of a task.
//
// Any thread; not async-signal-safe.
int ufutex_task_forget_restart(struct ufutex_task *task);

// Blocks the caller while the word at an address holds what is expected: FUTEX_WAIT, FUTEX_WAIT_BITSET. flags:
// UFUTEX_U8 to UFUTEX_U64, UFUTEX_SHARED. options: NULL for no timeout and any wake; times are in nanoseconds.
//
// Answers 0 for a wake: there are no spurious ones. -EAGAIN: the word differs; -ETIMEDOUT; -EINTR: the task of the options
// was interrupted, or the parker says so (a signal does not end the wait); -EFAULT: the word cannot be read; -EINVAL:
// misaligned, unknown flags, a word that cannot hold what is expected, a bitset of 0, a priority above 99, NULL for the
// domain; -ENOMEM: max_waiters wait, or no memory for a wait by a parker; -EBUSY: the task waits elsewhere; -E2BIG; -EBADF:
// no handle of a domain or of a task.
//
// Any thread; not async-signal-safe. The thread must not be cancelled meanwhile, nor leave by longjmp().
int ufutex_wait(struct ufutex_domain *domain,
                uint64_t address,
                uint64_t expected,
                uint32_t flags,
                const struct ufutex_wait_options *options);

// Blocks the caller while each of several words holds what is expected of it, until one is woken: futex_waitv(2). options:
// as for ufutex_wait().
//
// Answers the number of the word that was woken, from 0 up; of several the last. -EINVAL: no word at all, or more than
// max_waitv; else as for ufutex_wait().
//
// Any thread; not async-signal-safe. The thread must not be cancelled meanwhile, nor leave by longjmp().
int ufutex_waitv(struct ufutex_domain *domain,
                 const struct ufutex_waitv_word *words,
                 uint32_t count,
                 const struct ufutex_wait_options *options);

// Wakes up to count waiters of the word at an address whose bitset has a bit of bitset, real-time priorities first, then in
// the order they came: FUTEX_WAKE, FUTEX_WAKE_BITSET. INT_MAX or more: all. Change the word first. A private word is not
// touched, and may be gone. flags: as for ufutex_wait().
//
// Answers how many were woken. -EINVAL: a bitset of 0, misaligned, unknown flags, NULL, or a waiter for a lock with priority
// inheritance is in the way (those before it have been woken); -EFAULT: no address of a program, or a shared word that
// memory says nothing of; -EBADF: no handle of a domain.
//
// Any thread; not async-signal-safe. Callbacks of waiters and unpark are called by this thread.
int ufutex_wake(struct ufutex_domain *domain,
                uint64_t address,
                uint32_t count,
                uint32_t bitset,
                uint32_t flags);

// Changes the word of 32 bits at second, wakes up to count waiters of first, and, if the comparison holds for what second
// held before, up to second_count of second: FUTEX_WAKE_OP, in one step. flags: of both words.
//
// Answers how many were woken in all. -EINVAL: second has not 32 bits, an unknown operation, comparison or flag,
// misaligned, NULL, or a waiter for a lock is in the way (what was done before stays done); -EFAULT: second cannot be read
// and written; -EBADF: no handle of a domain.
//
// Any thread; not async-signal-safe. Callbacks of waiters and unpark are called by this thread.
int ufutex_wake_op(struct ufutex_domain *domain,
                   uint64_t first,
                   uint32_t count,
                   uint64_t second,
                   uint32_t second_count,
                   const struct ufutex_operation *operation,
                   uint32_t flags);

// Wakes up to wake waiters of the word at from, and has up to requeue of the rest wait for the word at to: FUTEX_REQUEUE.
// flags: of both words. INT_MAX or more: all. Prefer ufutex_cmp_requeue(), which does not miss a change of the word.
//
// Answers how many were woken or moved; *requeued, unless that is NULL, how many were moved. -EINVAL: misaligned, unknown
// flags, NULL, or a waiter for a lock is in the way (what was done before stays done); -EFAULT: no address of a program, or
// a shared word that memory says nothing of; -EBADF: no handle of a domain.
//
// Any thread; not async-signal-safe. Callbacks of waiters and unpark are called by this thread.
int ufutex_requeue(struct ufutex_domain *domain,
                   uint64_t from,
                   uint64_t to,
                   uint32_t wake,
                   uint32_t requeue,
                   uint32_t flags,
                   uint32_t *requeued);

// The same, if the word at from holds what is expected: FUTEX_CMP_REQUEUE, in one step.
//
// As for ufutex_requeue(); -EAGAIN: the word differs; -EFAULT: it cannot be read; -EINVAL: it cannot hold what is expected.
//
// Any thread; not async-signal-safe. Callbacks of waiters and unpark are called by this thread.
int ufutex_cmp_requeue(struct ufutex_domain *domain,
                       uint64_t from,
                       uint64_t expected,
                       uint64_t to,
                       uint32_t wake,
                       uint32_t requeue,
                       uint32_t flags,
                       uint32_t *requeued);

// Locks the word of 32 bits at an address for a task, and blocks the caller until that is done: FUTEX_LOCK_PI2. A free lock
// holds 0, another one its owner's TID. Who owns it runs with the priority of who waits. flags: UFUTEX_U32, UFUTEX_SHARED.
// options: the timeout; NULL for none.
//
// Answers 0. -EDEADLK: the task owns it, or would wait for itself; -ESRCH: no such owner; -EPERM: the kernel's; -ETIMEDOUT;
// -EINTR: the task was interrupted, or the parker says so; -EFAULT: the word cannot be read and written; -EINVAL: the word
// and its waiters do not belong together, or it has not 32 bits, misaligned, unknown flags, a task of another domain, NULL;
// -EBUSY: the task waits elsewhere; -ENOMEM; -E2BIG; -EBADF: no handle of a domain or of a task.
//
// Any thread; not async-signal-safe. The thread must not be cancelled meanwhile, nor leave by longjmp().
int ufutex_lock_pi(struct ufutex_domain *domain,
                   struct ufutex_task *task,
                   uint64_t address,
                   uint32_t flags,
                   const struct ufutex_wait_options *options);

// Locks the word at an address for a task if that needs no waiting: FUTEX_TRYLOCK_PI.
//
// Answers 0. -EAGAIN: it is locked; then FUTEX_WAITERS is set in the word, as in the kernel. Else as for
// ufutex_lock_pi().
//
// Any thread; not async-signal-safe.
int ufutex_trylock_pi(struct ufutex_domain *domain,
                      struct ufutex_task *task,
                      uint64_t address,
                      uint32_t flags);

// Unlocks the word at an address, and hands it to the first waiter: FUTEX_UNLOCK_PI.
//
// Answers 0. -EPERM: the word does not name the task; -EAGAIN: the word changes meanwhile; -EFAULT, -EINVAL, -EBADF as for
// ufutex_lock_pi().
//
// Any thread; not async-signal-safe. Callbacks of waiters, unpark and set_priority are called by this thread.
int ufutex_unlock_pi(struct ufutex_domain *domain,
                     struct ufutex_task *task,
                     uint64_t address,
                     uint32_t flags);

// Blocks the caller while the word at from holds what is expected, until somebody requeues it to the lock at lock and it has
// that: FUTEX_WAIT_REQUEUE_PI. flags: of both words. options: the timeout; NULL for none.
//
// Answers 0: the task owns the lock. -EAGAIN: the word differs, or the task was interrupted after it was requeued; -EINTR:
// before that; else as for ufutex_lock_pi().
//
// Any thread; not async-signal-safe. The thread must not be cancelled meanwhile, nor leave by longjmp().
int ufutex_wait_requeue_pi(struct ufutex_domain *domain,
                           struct ufutex_task *task,
                           uint64_t from,
                           uint64_t expected,
                           uint64_t lock,
                           uint32_t flags,
                           const struct ufutex_wait_options *options);

// If the word at from holds what is expected, gives the lock at lock to the first waiter of from, if it is free, and has up
// to requeue of the others wait for it: FUTEX_CMP_REQUEUE_PI, which always wakes one. flags: of both words.
//
// Answers how many have the lock or wait for it now. -EAGAIN: the word differs; -EDEADLK: one of them would wait for
// itself; -EINVAL: both are the same word, or a waiter of from is not one to be requeued to lock; else as for
// ufutex_lock_pi().
//
// Any thread; not async-signal-safe. Callbacks of waiters, unpark and set_priority are called by this thread.
int ufutex_cmp_requeue_pi(struct ufutex_domain *domain,
                          uint64_t from,
                          uint64_t expected,
                          uint64_t lock,
                          uint32_t requeue,
                          uint32_t flags);

// A system call of a task, by its number on x86-64 (or, with UFUTEX_GENERIC_NUMBER added, on aarch64): futex, futex_waitv,
// futex_wake, futex_wait, futex_requeue, set_robust_list, get_robust_list, restart_syscall. args: its six arguments.
// memory: where they point to; NULL for the domain's. Blocks when the call does.
//
// Answers what the kernel would, from 0 up or -errno, with its order of errors. A call that the task's interrupt has ended
// answers -512, -513 or -516: ufutex_resume() says what becomes of it. Besides, -ENOSYS: another number; -EINVAL: NULL or
// misaligned args, NULL for the domain or the task, a function that is missing from memory; -E2BIG; -EBADF: no handle of a
// domain or of a task.
//
// Any thread; not async-signal-safe. The thread must not be cancelled meanwhile, nor leave by longjmp().
long ufutex_syscall(struct ufutex_domain *domain,
                    struct ufutex_task *task,
                    const struct ufutex_memory *memory,
                    uint64_t number,
                    const uint64_t *args);

// What becomes of the result of a system call for the program. handler: UFUTEX_NO_HANDLER, UFUTEX_HANDLER or
// UFUTEX_HANDLER_RESTART, whichever signal handler of the guest runs before the program goes on; if one runs, call
// ufutex_task_forget_restart() too.
//
// Answers UFUTEX_RESUME_RETURN and stores in *value what the program gets; UFUTEX_RESUME_AGAIN; or UFUTEX_RESUME_CONTINUE.
// -EINVAL: another handler, value is NULL or misaligned.
//
// Any thread; async-signal-safe.
int ufutex_resume(long result,
                  uint32_t handler,
                  long *value);

// As ufutex_wait(), without a thread that sleeps: for schedulers. Queues a waiter if the word holds what is expected.
//
// Answers -EINPROGRESS and stores the waiter's handle in *waiter; else what ufutex_wait() would, and stores NULL.
// callback(context) is called once when there is something to look at, by whichever thread has caused that, perhaps before
// this function returns; then call ufutex_waiter_finish(). The callback must not wait, and leaves this waiter alone: it
// tells a scheduler. It is not called any more when a function that has ended or freed the waiter has returned; that
// waits for a call that is under way, so do not hold what the callback waits for.
//
// A timeout is the caller's to watch: ufutex_waiter_deadline(), ufutex_waiter_end(). Besides -EINVAL: callback or waiter is
// NULL.
//
// Any thread; not async-signal-safe.
long ufutex_prepare_wait(struct ufutex_domain *domain,
                         uint64_t address,
                         uint64_t expected,
                         uint32_t flags,
                         const struct ufutex_wait_options *options,
                         ufutex_callback callback,
                         void *context,
                         struct ufutex_waiter **waiter);

// As ufutex_waitv(), without a thread that sleeps: see ufutex_prepare_wait(). The array is not used after the return.
//
// Any thread; not async-signal-safe.
long ufutex_prepare_waitv(struct ufutex_domain *domain,
                          const struct ufutex_waitv_word *words,
                          uint32_t count,
                          const struct ufutex_wait_options *options,
                          ufutex_callback callback,
                          void *context,
                          struct ufutex_waiter **waiter);

// As ufutex_lock_pi(), without a thread that sleeps: see ufutex_prepare_wait().
//
// Any thread; not async-signal-safe.
long ufutex_prepare_lock_pi(struct ufutex_domain *domain,
                            struct ufutex_task *task,
                            uint64_t address,
                            uint32_t flags,
                            const struct ufutex_wait_options *options,
                            ufutex_callback callback,
                            void *context,
                            struct ufutex_waiter **waiter);

// As ufutex_wait_requeue_pi(), without a thread that sleeps: see ufutex_prepare_wait().
//
// Any thread; not async-signal-safe.
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

// As ufutex_syscall(), without a thread that sleeps: see ufutex_prepare_wait(). A call that does not wait is done on return.
// The structs of memory and args are not used after the return; the functions of memory are, as long as the waiter.
//
// Any thread; not async-signal-safe.
long ufutex_prepare_syscall(struct ufutex_domain *domain,
                            struct ufutex_task *task,
                            const struct ufutex_memory *memory,
                            uint64_t number,
                            const uint64_t *args,
                            ufutex_callback callback,
                            void *context,
                            struct ufutex_waiter **waiter);

// When a waiter's time is up: stores UFUTEX_MONOTONIC or UFUTEX_REALTIME in *clock and what the domain's clock shows then, in
// nanoseconds, in *deadline; UFUTEX_NO_DEADLINE for never. Call ufutex_waiter_end() then.
//
// Answers 0. -EINVAL: NULL or misaligned; -EBADF: no handle of a waiter, or it has ended; -EBUSY: another thread is using
// it.
//
// Any thread; not async-signal-safe.
int ufutex_waiter_deadline(struct ufutex_waiter *waiter,
                           uint32_t *clock,
                           uint64_t *deadline);

// Looks whether a waiter's wait has ended: after its callback was called, or at any time.
//
// Answers what the function would have answered that blocks; the handle is freed then. -EINPROGRESS: it has not ended, and
// the callback will be called. -EINVAL: NULL; -EBADF: no handle of a waiter, or it has ended; -EBUSY: another thread is
// using it.
//
// Any thread; not async-signal-safe. The callback may be called by this thread before it returns -EINPROGRESS.
long ufutex_waiter_finish(struct ufutex_waiter *waiter);

// Ends a waiter's wait: cause is UFUTEX_TIMED_OUT or UFUTEX_INTERRUPTED. Unless what it waits for has come by then: that is
// the answer then.
//
// Answers what the function would have answered that blocks: -ETIMEDOUT or -EINTR, or what a system call has for it. The
// handle is freed. -EINVAL: NULL or another cause; -EBADF: no handle of a waiter, or it has ended; -EBUSY: another thread is
// using it.
//
// Any thread; not async-signal-safe.
long ufutex_waiter_end(struct ufutex_waiter *waiter,
                       uint32_t cause);

// Frees a waiter without an answer. A wake that has come for it goes to the next waiter; a lock that it was given is
// unlocked.
//
// Answers 0. -EINVAL: NULL; -EBADF: no handle of a waiter, or it has ended; -EBUSY: another thread is using it.
//
// Any thread; not async-signal-safe.
int ufutex_waiter_free(struct ufutex_waiter *waiter);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* UFUTEX_H */

// What sets all there is to its default: struct ufutex_options options = UFUTEX_OPTIONS_INIT;
#define UFUTEX_MEMORY_INIT { sizeof(struct ufutex_memory), NULL, NULL, NULL, NULL, NULL, NULL, NULL }
#define UFUTEX_CLOCK_INIT { sizeof(struct ufutex_clock), NULL, NULL }
#define UFUTEX_PARKER_INIT { sizeof(struct ufutex_parker), NULL, NULL, NULL, NULL }
#define UFUTEX_CONFIG_INIT { sizeof(struct ufutex_config), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, 0, 0, NULL }
#define UFUTEX_OPTIONS_INIT { sizeof(struct ufutex_options), 0, 0, 0, 0, NULL, NULL, NULL, 0 }
#define UFUTEX_WAIT_OPTIONS_INIT { sizeof(struct ufutex_wait_options), 0, UFUTEX_BITSET_ANY, 0, 0, 0, NULL }
#define UFUTEX_COUNTERS_INIT { sizeof(struct ufutex_counters), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
#define UFUTEX_SYSTEM_COUNTERS_INIT { sizeof(struct ufutex_system_counters), 0, 0, 0, 0 }
