// A user-mode kernel in small: a guest with memory, threads and time of its own, whose futex calls libufutex answers.
//
// The guest's threads are green threads, its memory is an array of pages, its clock runs when all threads sleep. Its code
// is below under "the guest": it knows nothing but guest addresses and system calls.
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "green.h"
#include "memory.h"

// ---- the kernel ----

static struct ufutex_system *a_system;
static struct ufutex_domain *domain; // of the one process that there is

// A thread of the guest.
struct thread {
    struct ufutex_task *task;
    void (*code)(struct thread *self);
};

static void must(int result, const char *what)
{
    if (result < 0) {
        fprintf(stderr, "%s: error %d\n", what, -result);
        exit(1);
    }
}

// What the guest's instruction `syscall` comes to.
static long system_call(struct thread *self, uint64_t number, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f)
{
    const uint64_t args[6] = {a, b, c, d, e, f};
    return ufutex_syscall(domain, self->task, NULL, number, args);
}

static void thread_entry(void *argument)
{
    struct thread *self = argument;
    self->code(self);
    // As exit(2) does for the locks of a thread that ends.
    must(ufutex_task_exit(domain, self->task, NULL), "exit");
    must(ufutex_task_free(self->task), "task_free");
    free(self);
}

static struct ufutex_task *make_thread(const char *name, uint32_t tid, void (*code)(struct thread *))
{
    struct thread *thread = malloc(sizeof *thread);
    if (!thread)
        must(-ENOMEM, name);
    thread->code = code;
    must(ufutex_task_new(domain, tid, 0, &thread->task), "task_new");
    green_spawn(name, thread_entry, thread);
    return thread->task;
}

static void say(const char *what)
{
    printf("%6llu us  %-9s %s\n", (unsigned long long)(green_now() / 1000), green_name(green_self()), what);
}

// ---- the guest ----

enum { SYS_FUTEX = 202, FUTEX_WAIT = 128, FUTEX_WAKE = 129, FUTEX_CMP_REQUEUE = 132, FUTEX_LOCK_PI = 134, FUTEX_UNLOCK_PI = 135 };

// Where its variables are.
enum { MUTEX = GUEST_BASE, COUNTER = GUEST_BASE + 64, CONDITION = GUEST_BASE + 128, PI_LOCK = GUEST_BASE + 192,
       TIME = GUEST_BASE + 4096, DONE = GUEST_BASE + 4160 };

static long futex(struct thread *self, uint64_t word, uint64_t op, uint64_t value, uint64_t timeout, uint64_t other, uint64_t value3)
{
    return system_call(self, SYS_FUTEX, word, op, value, timeout, other, value3);
}

// A mutex of three states: 0 free, 1 locked, 2 locked and somebody may wait.
static void lock(struct thread *self, uint64_t mutex)
{
    uint32_t free = 0;
    if (atomic_compare_exchange_strong(guest_word(mutex), &free, 1))
        return;
    while (atomic_exchange(guest_word(mutex), 2) != 0)
        futex(self, mutex, FUTEX_WAIT, 2, 0, 0, 0);
}

static void unlock(struct thread *self, uint64_t mutex)
{
    if (atomic_exchange(guest_word(mutex), 0) == 2)
        futex(self, mutex, FUTEX_WAKE, 1, 0, 0, 0);
}

// Counts under the mutex, and gives up the processor in the middle of it.
static void counter(struct thread *self)
{
    for (int i = 0; i < 1000; i++) {
        lock(self, MUTEX);
        uint32_t seen = *guest_word(COUNTER);
        green_yield();
        *guest_word(COUNTER) = seen + 1;
        unlock(self, MUTEX);
    }
    if (atomic_fetch_add(guest_word(DONE), 1) == 2) {
        say("the last of three counters is done");
        atomic_store(guest_word(CONDITION), 1);
        // One of the waiters wakes, the others queue behind it.
        long moved = futex(self, CONDITION, FUTEX_CMP_REQUEUE, 1, INT32_MAX, MUTEX, 1);
        printf("           woken or moved to the mutex: %ld\n", moved);
    }
}

// Waits for the counters; then each has the mutex in turn.
static void reader(struct thread *self)
{
    while (*guest_word(CONDITION) == 0)
        futex(self, CONDITION, FUTEX_WAIT, 0, 0, 0, 0);
    while (atomic_exchange(guest_word(MUTEX), 2) != 0)
        futex(self, MUTEX, FUTEX_WAIT, 2, 0, 0, 0);
    green_work(10 * 1000);
    say(*guest_word(COUNTER) == 3000 ? "reads 3000" : "reads something else");
    unlock(self, MUTEX);
}

// Sleeps by a timeout: a struct timespec at TIME.
static void sleeper(struct thread *self)
{
    guest_write64(TIME, 0);
    guest_write64(TIME + 8, 250 * 1000 * 1000);
    long result = futex(self, TIME + 32, FUTEX_WAIT, 0, TIME, 0, 0);
    say(result == -ETIMEDOUT ? "has slept for 250 ms" : "was woken by somebody");
}

// Holds a lock with priority inheritance while others wait for it, and dies with it.
static void owner(struct thread *self)
{
    futex(self, PI_LOCK, FUTEX_LOCK_PI, 0, 0, 0, 0);
    while (ufutex_task_priority(self->task) == 0)
        green_work(100 * 1000);
    printf("%6llu us  %-9s runs with priority %d and ends\n", (unsigned long long)(green_now() / 1000),
           green_name(green_self()), ufutex_task_priority(self->task));
}

static void heir(struct thread *self)
{
    green_work(1000);
    long result = futex(self, PI_LOCK, FUTEX_LOCK_PI, 0, 0, 0, 0);
    say(result == 0 && *guest_word(PI_LOCK) & 0x40000000u ? "has the lock of an owner that died" : "has no lock");
    futex(self, PI_LOCK, FUTEX_UNLOCK_PI, 0, 0, 0, 0);
}

// Waits for ever, and is interrupted by the kernel.
static void victim(struct thread *self)
{
    long result = futex(self, GUEST_BASE + 256, FUTEX_WAIT, 0, 0, 0, 0), value = 0;
    int resume = ufutex_resume(result, UFUTEX_HANDLER, &value);
    say(resume == UFUTEX_RESUME_RETURN && value == -EINTR ? "was interrupted: EINTR" : "was not interrupted");
    result = futex(self, 8, FUTEX_WAIT, 0, 0, 0, 0);
    say(result == -EFAULT ? "has no memory there: EFAULT" : "has memory where there is none");
}

int main(void)
{
    struct ufutex_options options = UFUTEX_OPTIONS_INIT;
    options.memory = &guest_memory;
    options.clock = &green_clock;
    options.parker = &green_parker;
    must(ufutex_system_new(NULL, &a_system), "system_new");
    must(ufutex_domain_new(a_system, &options, &domain), "domain_new");

    make_thread("reader 1", 1, reader);
    make_thread("reader 2", 2, reader);
    make_thread("counter 1", 3, counter);
    make_thread("counter 2", 4, counter);
    make_thread("counter 3", 5, counter);
    make_thread("sleeper", 6, sleeper);
    make_thread("owner", 7, owner);
    struct ufutex_task *second = make_thread("heir", 8, heir);
    struct ufutex_task *third = make_thread("victim", 9, victim);
    must(ufutex_task_set_priority(second, 30), "set_priority");

    green_run(); // all but the victim, which sleeps for ever
    must(ufutex_domain_free(domain) == -EBUSY ? 0 : -1, "a domain in which somebody waits is not freed");
    must(ufutex_task_interrupt(third), "interrupt");
    int stuck = green_run();
    printf("%d threads are stuck; the guest has touched %d of %d pages\n", stuck, guest_pages(), GUEST_PAGES);
    must(ufutex_domain_free(domain), "domain_free");
    must(ufutex_system_free(a_system), "system_free");
    return stuck;
}
