// Locks with priority inheritance: owners, priority boosts, deadlocks, condition variables, ends of tasks.
#include "check.h"

#define WAITERS 0x80000000u
#define OWNER_DIED 0x40000000u

static ufutex_system *a_system;
static ufutex_domain *domain;
static _Atomic uint32_t lent[16]; // by TID, as reported to the scheduler

static void set_priority(void *context, uint32_t tid, uint32_t priority)
{
    CHECK(context == lent, true);
    lent[tid] = priority;
}

struct lock {
    ufutex_task *task;
    uint64_t address;
    ufutex_wait_options *options;
};

static void *lock_thread(void *argument)
{
    struct lock *lock = argument;
    return (void *)(intptr_t)ufutex_lock_pi(domain, lock->task, lock->address, UFUTEX_U32, lock->options);
}

static void lock_is_handed_over_and_lends_priority(void)
{
    uint32_t word = 0;
    ufutex_task *owner = new_task(domain, 1), *waiter = new_task(domain, 2);
    CHECK(ufutex_task_set_priority(waiter, 40), 0);
    CHECK(lent[2], 40);
    CHECK(ufutex_task_priority(waiter), 40);
    CHECK(ufutex_lock_pi(domain, owner, AT(&word), UFUTEX_U32, NULL), 0);
    CHECK(word, 1);
    CHECK(ufutex_lock_pi(domain, owner, AT(&word), UFUTEX_U32, NULL), -EDEADLK);
    CHECK(ufutex_trylock_pi(domain, waiter, AT(&word), UFUTEX_U32), -EAGAIN);
    CHECK(ufutex_unlock_pi(domain, waiter, AT(&word), UFUTEX_U32), -EPERM);
    struct lock lock = {waiter, AT(&word), NULL};
    pthread_t thread = start(lock_thread, &lock);
    until_waiting(domain, 1);
    while (lent[1] != 40)
        sched_yield();
    CHECK(ufutex_task_priority(owner), 40);
    CHECK(ufutex_task_exit(domain, waiter, NULL), -EBUSY);
    ufutex_waited_word who;
    CHECK(ufutex_domain_who_waits(domain, &who, sizeof who, 1), 1);
    CHECK(who.for_lock, 1);
    CHECK(ufutex_wake(domain, AT(&word), 1, 1, UFUTEX_U32), -EINVAL);
    CHECK(ufutex_unlock_pi(domain, owner, AT(&word), UFUTEX_U32), 0);
    CHECK(result_of(thread), 0);
    CHECK(lent[1], 0);
    CHECK(word & ~WAITERS, 2);
    CHECK(ufutex_unlock_pi(domain, waiter, AT(&word), UFUTEX_U32), 0);
    CHECK(word, 0);
    CHECK(ufutex_trylock_pi(domain, waiter, AT(&word), UFUTEX_U32), 0);
    CHECK(ufutex_unlock_pi(domain, waiter, AT(&word), UFUTEX_U32), 0);
    CHECK(ufutex_task_free(owner), 0);
    CHECK(ufutex_task_free(waiter), 0);
}

static void waits_for_locks_end_by_time_interrupt_and_death(void)
{
    uint32_t word = 0;
    ufutex_task *owner = new_task(domain, 1), *waiter = new_task(domain, 2);
    ufutex_wait_options options = UFUTEX_WAIT_OPTIONS_INIT;
    options.timeout = UFUTEX_AFTER;
    options.nanoseconds = MS;
    CHECK(ufutex_lock_pi(domain, owner, AT(&word), UFUTEX_U32, NULL), 0);
    CHECK(ufutex_lock_pi(domain, waiter, AT(&word), UFUTEX_U32, &options), -ETIMEDOUT);
    struct lock lock = {waiter, AT(&word), NULL};
    pthread_t thread = start(lock_thread, &lock);
    until_waiting(domain, 1);
    CHECK(ufutex_task_interrupt(waiter), 0);
    CHECK(result_of(thread), -EINTR);
    CHECK(ufutex_task_clear_interrupt(waiter), 0);
    thread = start(lock_thread, &lock);
    until_waiting(domain, 1);
    CHECK(ufutex_task_free(owner), 0); // it dies with the lock
    CHECK(result_of(thread), 0);
    CHECK(word, 2 | WAITERS | OWNER_DIED);
    CHECK(ufutex_task_exit(domain, waiter, NULL), 0);
    CHECK(ufutex_task_exit(domain, waiter, NULL), -EINVAL);
    CHECK(ufutex_lock_pi(domain, waiter, AT(&word), UFUTEX_U32, NULL), -EINVAL);
    CHECK(ufutex_task_free(waiter), 0);
    word = 3;
    ufutex_task *other = new_task(domain, 4), *kernel;
    CHECK(ufutex_lock_pi(domain, other, AT(&word), UFUTEX_U32, NULL), -ESRCH);
    CHECK(ufutex_task_new(domain, 3, UFUTEX_KERNEL_TASK, &kernel), 0);
    CHECK(ufutex_lock_pi(domain, other, AT(&word), UFUTEX_U32, NULL), -EPERM);
    CHECK(ufutex_task_free(kernel), 0);
    CHECK(ufutex_task_free(other), 0);
}

// A condition variable. Its waiters are requeued to the lock.
struct condition {
    ufutex_task *task;
    uint32_t *from, *lock;
};

static void *condition_thread(void *argument)
{
    struct condition *c = argument;
    long result = ufutex_wait_requeue_pi(domain, c->task, AT(c->from), 0, AT(c->lock), UFUTEX_U32, NULL);
    if (result == 0)
        CHECK(ufutex_unlock_pi(domain, c->task, AT(c->lock), UFUTEX_U32), 0);
    return (void *)(intptr_t)result;
}

static void conditions_requeue_to_a_lock(void)
{
    uint32_t from = 0, lock = 0;
    ufutex_task *waker = new_task(domain, 1);
    struct condition conditions[3];
    pthread_t threads[3];
    CHECK(ufutex_lock_pi(domain, waker, AT(&lock), UFUTEX_U32, NULL), 0);
    for (uint32_t i = 0; i < 3; i++) {
        conditions[i] = (struct condition){new_task(domain, 2 + i), &from, &lock};
        threads[i] = start(condition_thread, &conditions[i]);
        until_waiting(domain, i + 1);
    }
    CHECK(ufutex_cmp_requeue_pi(domain, AT(&from), 1, AT(&lock), 9, UFUTEX_U32), -EAGAIN);
    CHECK(ufutex_cmp_requeue_pi(domain, AT(&from), 0, AT(&lock), INT32_MAX, UFUTEX_U32), 3);
    CHECK(ufutex_unlock_pi(domain, waker, AT(&lock), UFUTEX_U32), 0);
    for (int i = 0; i < 3; i++) {
        CHECK(result_of(threads[i]), 0);
        CHECK(ufutex_task_free(conditions[i].task), 0);
    }
    CHECK(lock, 0);
    CHECK(ufutex_wait_requeue_pi(domain, waker, AT(&from), 1, AT(&lock), UFUTEX_U32, NULL), -EAGAIN);
    CHECK(ufutex_task_free(waker), 0);
}

static void robust_list_is_walked_at_the_end(void)
{
    // struct robust_list_head: the list, the offset from an entry to its word, the pending operation.
    struct { uint64_t next, lock; } entry;
    uint64_t head[3] = {AT(&entry), 8, 0};
    ufutex_task *task = new_task(domain, 7);
    entry.next = AT(head);
    entry.lock = 7;
    CHECK(ufutex_task_set_robust_list(task, 8, AT(head), sizeof head), 0);
    CHECK(ufutex_task_exit(domain, task, NULL), 0);
    CHECK(entry.lock, OWNER_DIED);
    CHECK(ufutex_task_free(task), 0);
    task = new_task(domain, 7); // the TID is free again
    CHECK(ufutex_task_free(task), 0);
}

// Threads that increment a number with the lock held.
enum { THREADS = 4, ROUNDS = 2000 };
static uint32_t mutex;
static long counted;

static void *count_thread(void *argument)
{
    ufutex_task *task = new_task(domain, (uint32_t)(intptr_t)argument);
    for (int i = 0; i < ROUNDS; i++) {
        CHECK(ufutex_lock_pi(domain, task, AT(&mutex), UFUTEX_U32, NULL), 0);
        counted++;
        CHECK(ufutex_unlock_pi(domain, task, AT(&mutex), UFUTEX_U32), 0);
    }
    CHECK(ufutex_task_free(task), 0);
    return NULL;
}

int main(void)
{
    ufutex_config config = UFUTEX_CONFIG_INIT;
    config.set_priority = set_priority;
    config.context = (void *)lent;
    CHECK(ufutex_system_new(&config, &a_system), 0);
    domain = new_domain(a_system, NULL);
    lock_is_handed_over_and_lends_priority();
    waits_for_locks_end_by_time_interrupt_and_death();
    conditions_requeue_to_a_lock();
    robust_list_is_walked_at_the_end();
    pthread_t threads[THREADS];
    for (intptr_t i = 0; i < THREADS; i++)
        threads[i] = start(count_thread, (void *)(i + 1));
    for (int i = 0; i < THREADS; i++)
        result_of(threads[i]);
    CHECK(counted, THREADS * ROUNDS);
    CHECK(ufutex_domain_free(domain), 0);
    CHECK(ufutex_system_free(a_system), 0);
    return 0;
}
