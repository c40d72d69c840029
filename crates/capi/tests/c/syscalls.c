// System calls by number, in the program's own memory and in a guest's, from threads that block.
#include <signal.h>

#include "guest.h"

static ufutex_system *a_system;
static ufutex_domain *domain;

struct call {
    ufutex_task *task;
    uint64_t number;
    uint64_t args[6];
};

static void *call_thread(void *argument)
{
    struct call *call = argument;
    return (void *)(intptr_t)ufutex_syscall(domain, call->task, NULL, call->number, call->args);
}

#define CALL(task, number, ...) ufutex_syscall(domain, task, NULL, number, (uint64_t[6]){__VA_ARGS__})
enum { FUTEX = 202, SET_ROBUST_LIST = 273, GET_ROBUST_LIST = 274, FUTEX_WAITV = 449, FUTEX_WAKE = 454, FUTEX_WAIT = 455, FUTEX_REQUEUE = 456 };
enum { WAKE_BITSET = 138, WAIT = 128, WAKE = 129, LOCK_PI = 134, UNLOCK_PI = 135, WAIT_BITSET = 137 };

static void results_are_the_kernels(ufutex_task *task, ufutex_task *other)
{
    uint32_t word = 5, lock = 0;
    uint64_t past[2] = {0, 1}, bad[2] = {0, 1000000000};
    CHECK(CALL(task, FUTEX, AT(&word), WAIT, 4, 0, 0, 0), -EAGAIN);
    CHECK(CALL(task, FUTEX, AT(&word), WAIT, 5, AT(past), 0, 0), -ETIMEDOUT);
    CHECK(CALL(task, FUTEX, AT(&word), WAIT_BITSET, 5, AT(past), 0, 1), -ETIMEDOUT);
    CHECK(CALL(task, FUTEX, AT(&word), WAIT, 5, AT(bad), 0, 0), -EINVAL);
    CHECK(CALL(task, FUTEX, AT(&word), WAIT, 5, 8, 0, 0), -EFAULT);
    CHECK(CALL(task, FUTEX, AT(&word) + 1, WAIT, 5, 0, 0, 0), -EINVAL);
    CHECK(CALL(task, FUTEX, 0, WAIT, 5, 0, 0, 0), -EFAULT);
    CHECK(CALL(task, FUTEX, AT(&word), 99, 5, 0, 0, 0), -ENOSYS);
    CHECK(CALL(task, FUTEX, AT(&word), WAKE, 1, 0, 0, 0), 0);
    CHECK(CALL(task, FUTEX_WAKE, AT(&word), 1, 1, 128 | 2, 0, 0), 0);
    CHECK(CALL(task, FUTEX_WAIT, AT(&word), 4, 1, 128 | 2, 0, 0), -EAGAIN);
    CHECK(CALL(task, FUTEX, AT(&lock), LOCK_PI, 0, 0, 0, 0), 0);
    CHECK(lock, 1);
    CHECK(CALL(other, FUTEX, AT(&lock), UNLOCK_PI, 0, 0, 0, 0), -EPERM);
    CHECK(CALL(task, FUTEX, AT(&lock), UNLOCK_PI, 0, 0, 0, 0), 0);
    uint64_t head[3] = {AT(head), 0, 0}, got = 0, length = 0;
    CHECK(CALL(task, SET_ROBUST_LIST, AT(head), 24, 0, 0, 0, 0), 0);
    CHECK(CALL(task, SET_ROBUST_LIST, AT(head), 23, 0, 0, 0, 0), -EINVAL);
    CHECK(CALL(other, GET_ROBUST_LIST, 1, AT(&got), AT(&length), 0, 0, 0), 0);
    CHECK(got == AT(head), true);
    CHECK(length, 24);
    struct { uint64_t val, uaddr; uint32_t flags, reserved; } waiters[2] = {{5, AT(&word), 128 | 2, 0}, {0, AT(&lock), 128 | 2, 0}};
    CHECK(CALL(task, FUTEX_REQUEUE, AT(waiters), 0, 1, 1, 0, 0), 0);
    waiters[0].val = 4;
    CHECK(CALL(task, FUTEX_WAITV, AT(waiters), 2, 0, 0, 0, 0), -EAGAIN);
    CHECK(CALL(task, FUTEX + UFUTEX_GENERIC_NUMBER - 104, AT(&word), WAIT, 4, 0, 0, 0), -EAGAIN); // futex is 98
}

// Waits without a timeout and wakes take a shorter way. Their results, and the order of their errors, are the kernel's.
static void plain_calls_have_the_kernels_results(ufutex_task *task)
{
    uint32_t word = 5;
    CHECK(CALL(task, FUTEX, AT(&word), WAIT, 4, 0, 0, 0), -EAGAIN);
    CHECK(CALL(task, FUTEX, AT(&word), WAIT_BITSET, 4, 0, 0, 1), -EAGAIN);
    CHECK(CALL(task, FUTEX, AT(&word), WAIT_BITSET | 256, 4, 0, 0, 1), -EAGAIN);
    CHECK(CALL(task, FUTEX, AT(&word), WAIT_BITSET, 4, 0, 0, 0), -EINVAL);
    CHECK(CALL(task, FUTEX, AT(&word), WAIT_BITSET | 256, 4, 0, 0, 1ull << 32), -EINVAL);
    CHECK(CALL(task, FUTEX, AT(&word), WAIT | 256, 4, 0, 0, 0), -ENOSYS);
    CHECK(CALL(task, FUTEX, AT(&word), WAIT, 4, 8, 0, 0), -EFAULT); // the timeout is read before the word
    CHECK(CALL(task, FUTEX, AT(&word), WAIT_BITSET, 4, 8, 0, 1), -EFAULT);
    CHECK(CALL(task, FUTEX, AT(&word), 1ull << 32 | WAIT, 1ull << 32 | 4, 0, 0, 0), -EAGAIN); // the upper halves do not count
    CHECK(CALL(task, FUTEX, AT(&word) + 2, WAIT, 4, 0, 0, 0), -EINVAL);
    CHECK(CALL(task, FUTEX, AT(&word) + 2, WAKE, 1, 0, 0, 0), -EINVAL);
    CHECK(CALL(task, FUTEX, 0, WAIT, 4, 0, 0, 0), -EFAULT);
    CHECK(CALL(task, FUTEX, 0, WAKE, 1, 0, 0, 0), 0); // a wake reads no word
    CHECK(CALL(task, FUTEX, 1ull << 63, WAIT, 4, 0, 0, 0), -EFAULT);
    CHECK(CALL(task, FUTEX, 1ull << 63, WAKE, 1, 0, 0, 0), -EFAULT);
    CHECK(CALL(task, FUTEX, AT(&word), WAKE | 256, 1, 0, 0, 0), -ENOSYS);
    CHECK(CALL(task, FUTEX, AT(&word), WAKE_BITSET, 1, 0, 0, 0), -EINVAL);
    CHECK(CALL(task, FUTEX_WAIT, AT(&word), 4, 1ull << 32, 128 | 2, 0, 0), -EINVAL);
    CHECK(CALL(task, FUTEX_WAIT, AT(&word), 1ull << 32 | 5, 1, 128 | 2, 0, 0), -EINVAL);
    CHECK(CALL(task, FUTEX_WAKE, AT(&word), 1, 0, 128 | 2, 0, 0), 0);
    CHECK(CALL(task, FUTEX_WAKE, AT(&word), 0, 1, 128 | 2, 0, 0), -EINVAL);
}

// A wake of a negative number, or of none, wakes one. futex_wake is different.
static void counts_of_plain_wakes(ufutex_task *task, ufutex_task *other)
{
    uint32_t word = 5;
    struct call call = {other, FUTEX, {AT(&word), WAIT_BITSET, 5, 0, 0, 2}};
    static const uint64_t counts[] = {0, 1, UINT32_MAX, INT32_MAX};
    for (int i = 0; i < 4; i++) {
        pthread_t thread = start(call_thread, &call);
        until_waiting(domain, 1);
        CHECK(CALL(task, FUTEX, AT(&word), WAKE_BITSET, 1, 0, 0, 1), 0);
        CHECK(CALL(task, FUTEX_WAKE, AT(&word), 2, 0, 128 | 2, 0, 0), 0);
        CHECK(CALL(task, FUTEX_WAKE, AT(&word), 1, 1, 128 | 2, 0, 0), 0);
        CHECK(CALL(task, FUTEX, AT(&word), WAKE, counts[i], 0, 0, 0), 1);
        CHECK(result_of(thread), 0);
    }
}

static void note(void *context) { ++*(_Atomic int *)context; }

static ufutex_waiter *prepare_call(ufutex_task *task, uint32_t *word, _Atomic int *notes)
{
    uint64_t args[6] = {AT(word), WAIT, *word, 0, 0, 0};
    ufutex_waiter *waiter = NULL;
    CHECK(ufutex_prepare_syscall(domain, task, NULL, FUTEX, args, note, (void *)notes, &waiter), -EINPROGRESS);
    return waiter;
}

static uint64_t host_now(void *context, uint32_t clock)
{
    (void)context;
    return now(clock == UFUTEX_REALTIME ? CLOCK_REALTIME : CLOCK_MONOTONIC);
}

// However a plain wait is driven, an interrupt ends it with -UFUTEX_ERESTARTSYS, and a task waits with its own priority.
static void plain_waits_of_tasks(ufutex_task *task, ufutex_task *other)
{
    static uint32_t word = 5;
    _Atomic int notes = 0, other_notes = 0;
    ufutex_waiter *waiter = prepare_call(task, &word, &notes);
    CHECK(ufutex_task_interrupt(task), 0);
    CHECK(notes, 1);
    CHECK(ufutex_waiter_finish(waiter), -UFUTEX_ERESTARTSYS);
    CHECK(ufutex_task_clear_interrupt(task), 0);
    CHECK(ufutex_waiter_end(prepare_call(task, &word, &notes), UFUTEX_INTERRUPTED), -UFUTEX_ERESTARTSYS);
    CHECK(ufutex_waiter_end(prepare_call(task, &word, &notes), UFUTEX_TIMED_OUT), -ETIMEDOUT);
    // The second waiter is woken first.
    CHECK(ufutex_task_set_priority(other, 5), 0);
    waiter = prepare_call(task, &word, &notes);
    ufutex_waiter *urgent = prepare_call(other, &word, &other_notes);
    CHECK(ufutex_wake(domain, AT(&word), 1, UFUTEX_BITSET_ANY, UFUTEX_U32), 1);
    CHECK(other_notes, 1);
    CHECK(ufutex_waiter_finish(urgent), 0);
    CHECK(ufutex_waiter_end(waiter, UFUTEX_INTERRUPTED), -UFUTEX_ERESTARTSYS);
    struct call low = {task, FUTEX, {AT(&word), WAIT, 5, 0, 0, 0}}, high = {other, FUTEX, {AT(&word), WAIT, 5, 0, 0, 0}};
    pthread_t first = start(call_thread, &low);
    until_waiting(domain, 1);
    pthread_t second = start(call_thread, &high);
    until_waiting(domain, 2);
    CHECK(ufutex_wake(domain, AT(&word), 1, UFUTEX_BITSET_ANY, UFUTEX_U32), 1);
    CHECK(result_of(second), 0);
    CHECK(ufutex_wake(domain, AT(&word), 1, UFUTEX_BITSET_ANY, UFUTEX_U32), 1);
    CHECK(result_of(first), 0);
    CHECK(ufutex_task_set_priority(other, 0), 0);
    // By a clock of the embedder's, the library itself puts the thread to sleep.
    ufutex_clock clock = UFUTEX_CLOCK_INIT;
    ufutex_options options = UFUTEX_OPTIONS_INIT;
    clock.now = host_now;
    options.clock = &clock;
    ufutex_domain *usual = domain;
    domain = new_domain(a_system, &options);
    struct call call = {new_task(domain, 4), FUTEX, {AT(&word), WAIT, 5, 0, 0, 0}};
    first = start(call_thread, &call);
    until_waiting(domain, 1);
    CHECK(ufutex_task_interrupt(call.task), 0);
    CHECK(result_of(first), -UFUTEX_ERESTARTSYS);
    CHECK(CALL(call.task, FUTEX, AT(&word), WAIT, 4, 0, 0, 0), -EAGAIN);
    CHECK(ufutex_task_free(call.task), 0);
    CHECK(ufutex_domain_free(domain), 0);
    domain = usual;
}

static void plain_calls_are_counted(void)
{
    uint32_t word = 5;
    ufutex_options options = UFUTEX_OPTIONS_INIT;
    ufutex_counters counters = UFUTEX_COUNTERS_INIT;
    options.flags = UFUTEX_COUNT_OPERATIONS;
    ufutex_domain *usual = domain;
    domain = new_domain(a_system, &options);
    ufutex_task *task = new_task(domain, 4);
    CHECK(CALL(task, FUTEX, AT(&word), WAIT, 4, 0, 0, 0), -EAGAIN);
    CHECK(CALL(task, FUTEX_WAIT, AT(&word), 4, 1, 128 | 2, 0, 0), -EAGAIN);
    CHECK(CALL(task, FUTEX, AT(&word), WAKE, 1, 0, 0, 0), 0);
    CHECK(CALL(task, FUTEX_WAKE, AT(&word), 1, 1, 128 | 2, 0, 0), 0);
    CHECK(ufutex_domain_get_counters(domain, &counters), 0);
    CHECK(counters.mismatches, 2);
    CHECK(counters.empty_wakes, 2);
    CHECK(ufutex_task_free(task), 0);
    CHECK(ufutex_domain_free(domain), 0);
    domain = usual;
}

enum { I386_FUTEX = 240, ARM_FUTEX = 240, FUTEX_TIME64 = 422, I386_SET_ROBUST_LIST = 311, I386_GET_ROBUST_LIST = 312 };

// Calls of a 32-bit guest: of each argument the lower half counts, and structs have fields of 32 bits.
static void narrow_guests(ufutex_task *task, ufutex_task *other)
{
    static struct guest guest;
    ufutex_memory memory = guest_memory(&guest);
    memory.access_ok = NULL;
    guest.present[0] = true;
#define GUEST32 0x20001000ull
    // The guest's addresses have 32 bits.
    guest.first = GUEST32;
#define NARROW(task, number, ...) ufutex_syscall(domain, task, &memory, number, (uint64_t[6]){__VA_ARGS__})
    guest_store32(&guest, 0, 5);
    uint64_t junk = 0xdeadbeefull << 32;
    CHECK(NARROW(task, UFUTEX_I386_NUMBER + I386_FUTEX, junk | GUEST32, junk | WAIT, junk | 4, junk, junk, 0), -EAGAIN);
    CHECK(NARROW(task, UFUTEX_ARM_NUMBER + ARM_FUTEX, junk | GUEST32, junk | WAIT, junk | 4, junk, junk, 0), -EAGAIN);
    CHECK(NARROW(task, UFUTEX_I386_NUMBER + FUTEX_TIME64, junk | GUEST32, junk | WAKE, junk | 1, 0, 0, 0), 0);
    CHECK(NARROW(task, FUTEX, junk | GUEST32, WAIT, 4, 0, 0, 0), -EFAULT); // a call of 64-bit code
    // A timespec of two fields of 32 bits, and one of two of 64 whose upper nanoseconds do not count.
    guest_store32(&guest, 64, 0);
    guest_store32(&guest, 68, 1);
    guest_store32(&guest, 72, 0x7fffffff); // not a part of it
    CHECK(NARROW(task, UFUTEX_I386_NUMBER + I386_FUTEX, GUEST32, WAIT, 5, GUEST32 + 64, 0, 0), -ETIMEDOUT);
    guest_store32(&guest, 68, 1000000000);
    CHECK(NARROW(task, UFUTEX_I386_NUMBER + I386_FUTEX, GUEST32, WAIT, 5, GUEST32 + 64, 0, 0), -EINVAL);
    guest_store64(&guest, 80, 0);
    guest_store64(&guest, 88, junk | 1);
    CHECK(NARROW(task, UFUTEX_ARM_NUMBER + FUTEX_TIME64, GUEST32, WAIT, 5, GUEST32 + 80, 0, 0), -ETIMEDOUT);
    // Robust lists of 32-bit pointers.
    CHECK(NARROW(task, UFUTEX_I386_NUMBER + I386_SET_ROBUST_LIST, GUEST32 + 128, 12, 0, 0, 0, 0), 0);
    CHECK(NARROW(task, UFUTEX_I386_NUMBER + I386_SET_ROBUST_LIST, GUEST32 + 128, 24, 0, 0, 0, 0), -EINVAL);
    CHECK(NARROW(other, UFUTEX_I386_NUMBER + I386_GET_ROBUST_LIST, 3, GUEST32 + 256, GUEST32 + 260, 0, 0, 0), 0);
    CHECK(guest_load32(&guest, 256), GUEST32 + 128);
    CHECK(guest_load32(&guest, 260), 12);
    CHECK(NARROW(task, UFUTEX_ARM_NUMBER + 338, GUEST32 + 128, 12, 0, 0, 0, 0), 0);
    CHECK(NARROW(task, UFUTEX_ARM_NUMBER + I386_SET_ROBUST_LIST, GUEST32 + 128, 12, 0, 0, 0, 0), -ENOSYS);
    CHECK(NARROW(task, UFUTEX_I386_NUMBER + FUTEX, GUEST32, WAIT, 4, 0, 0, 0), -ENOSYS);
    CHECK(NARROW(task, UFUTEX_RISCV32_NUMBER + FUTEX_TIME64, junk | GUEST32, junk | WAIT, junk | 4, junk, junk, 0), -EAGAIN);
    CHECK(NARROW(task, UFUTEX_RISCV32_NUMBER + 99, GUEST32 + 128, 12, 0, 0, 0, 0), 0);
    CHECK(NARROW(task, UFUTEX_RISCV32_NUMBER + ARM_FUTEX, GUEST32, WAIT, 4, 0, 0, 0), -ENOSYS);
    CHECK(NARROW(task, UFUTEX_RISCV32_NUMBER + UFUTEX_GENERIC_NUMBER + FUTEX_TIME64, GUEST32, WAIT, 4, 0, 0, 0), -ENOSYS);
    CHECK(ufutex_task_set_robust_list(task, 4, 0, 12), 0);
}

static void calls_block_are_woken_and_interrupted(ufutex_task *task, ufutex_task *other)
{
    uint32_t word = 5;
    uint64_t time[2] = {1000, 0};
    struct call call = {task, FUTEX, {AT(&word), WAIT, 5, 0, 0, 0}};
    pthread_t thread = start(call_thread, &call);
    until_waiting(domain, 1);
    CHECK(CALL(other, FUTEX, AT(&word), WAKE, 1, 0, 0, 0), 1);
    CHECK(result_of(thread), 0);
    thread = start(call_thread, &call);
    until_waiting(domain, 1);
    CHECK(ufutex_task_interrupt(task), 0);
    CHECK(result_of(thread), -UFUTEX_ERESTARTSYS);
    CHECK(ufutex_task_clear_interrupt(task), 0);
    call.args[3] = AT(time);
    thread = start(call_thread, &call);
    until_waiting(domain, 1);
    CHECK(ufutex_task_interrupt(task), 0);
    CHECK(result_of(thread), -UFUTEX_ERESTART_RESTARTBLOCK);
    CHECK(ufutex_task_clear_interrupt(task), 0);
    call.number = 219;
    thread = start(call_thread, &call);
    until_waiting(domain, 1);
    CHECK(CALL(other, FUTEX, AT(&word), WAKE, 1, 0, 0, 0), 1);
    CHECK(result_of(thread), 0);
    struct { uint64_t val, uaddr; uint32_t flags, reserved; } waiters[2] = {{9, AT(&word), 128 | 2, 0}, {5, AT(&word), 128 | 2, 0}};
    waiters[0].val = 5;
    call = (struct call){task, FUTEX_WAITV, {AT(waiters), 2, 0, 0, 0, 0}};
    thread = start(call_thread, &call);
    until_waiting(domain, 2);
    CHECK(CALL(other, FUTEX, AT(&word), WAKE, 1, 0, 0, 0), 1);
    CHECK(result_of(thread), 0);
}

// Interrupts a task from a signal handler, as an embedder does for a signal to its guest.
static ufutex_task *signalled;

static void handler(int signal)
{
    (void)signal;
    CHECK(ufutex_task_interrupt(signalled), 0);
    CHECK(ufutex_task_interrupt(NULL), -EINVAL);
}

static void signal_handlers_interrupt(ufutex_task *task)
{
    uint32_t word = 0;
    struct sigaction action = {0};
    action.sa_handler = handler;
    signalled = task;
    CHECK(sigaction(SIGUSR1, &action, NULL), 0);
    for (int i = 0; i < 50; i++) {
        struct call call = {task, FUTEX, {AT(&word), WAIT, 0, 0, 0, 0}};
        pthread_t thread = start(call_thread, &call);
        if (i % 2)
            until_waiting(domain, 1);
        CHECK(pthread_kill(thread, SIGUSR1), 0);
        CHECK(result_of(thread), -UFUTEX_ERESTARTSYS);
        CHECK(ufutex_task_clear_interrupt(task), 0);
    }
}

static void memory_of_one_call(ufutex_task *task)
{
    static struct guest guest;
    ufutex_memory memory = guest_memory(&guest);
    uint64_t wait[6] = {GUEST, WAIT, 5, GUEST + 64, 0, 0};
    uint64_t args[6] = {GUEST + PAGE, 5 + 128, 1, 1, GUEST + PAGE, 0}; // FUTEX_WAKE_OP on a read-only page
    guest_store32(&guest, 0, 5);
    guest_store64(&guest, 72, 1000);
    CHECK(ufutex_syscall(domain, task, &memory, FUTEX, wait), -ETIMEDOUT);
    CHECK(guest.faults, 1);
    CHECK(ufutex_syscall(domain, task, &memory, FUTEX, args), -EFAULT);
    // The end of a task whose robust list is in that memory.
    guest_store64(&guest, 512, GUEST + 600); // head
    guest_store64(&guest, 520, 8);
    guest_store64(&guest, 528, 0);
    guest_store64(&guest, 600, GUEST + 512);
    guest_store32(&guest, 608, 0x80000000u | 1);
    CHECK(ufutex_task_set_robust_list(task, 8, GUEST + 512, 24), 0);
    CHECK(ufutex_task_exit(domain, task, &memory), 0);
    CHECK(guest_load32(&guest, 608), 0xc0000000u);
    // A task that has ended takes no lock, and makes all other calls.
    uint64_t lock[6] = {GUEST + 128, LOCK_PI, 0, 0, 0, 0}, differs[6] = {GUEST, WAIT, 6, 0, 0, 0}, wake[6] = {GUEST, 1, 1, 0, 0, 0};
    CHECK(ufutex_syscall(domain, task, &memory, FUTEX, lock), -EINVAL);
    CHECK(ufutex_syscall(domain, task, &memory, FUTEX, differs), -EAGAIN);
    CHECK(ufutex_syscall(domain, task, &memory, FUTEX, wake), 0);
}

int main(void)
{
    a_system = new_system();
    domain = new_domain(a_system, NULL);
    ufutex_task *task = new_task(domain, 1), *other = new_task(domain, 2);
    results_are_the_kernels(task, other);
    plain_calls_have_the_kernels_results(task);
    counts_of_plain_wakes(task, other);
    plain_waits_of_tasks(task, other);
    plain_calls_are_counted();
    ufutex_task *narrow = new_task(domain, 3);
    narrow_guests(narrow, other);
    CHECK(ufutex_task_free(narrow), 0);
    calls_block_are_woken_and_interrupted(task, other);
    signal_handlers_interrupt(task);
    memory_of_one_call(task);
    CHECK(ufutex_task_free(task), 0);
    CHECK(ufutex_task_free(other), 0);
    until_alone(); // while the system exists
    CHECK(ufutex_domain_free(domain), 0);
    CHECK(ufutex_system_free(a_system), 0);
    return 0;
}
