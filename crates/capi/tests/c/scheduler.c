// Waiters without threads, as in an embedder's scheduler: prepared, notified by a callback, and finished.
#include "guest.h"

static ufutex_system *a_system;
static ufutex_domain *domain;
static uint32_t word;

static void told(void *context)
{
    (*(_Atomic int *)context)++;
}

static void wake_calls_back_and_is_received(void)
{
    _Atomic int calls = 0;
    ufutex_waiter *waiter = (ufutex_waiter *)&calls;
    uint32_t clock;
    uint64_t deadline;
    CHECK(ufutex_prepare_wait(domain, AT(&word), 1, UFUTEX_U32, NULL, told, &calls, &waiter), -EAGAIN);
    CHECK(waiter == NULL, true);
    CHECK(ufutex_prepare_wait(domain, AT(&word), 0, UFUTEX_U32, NULL, told, &calls, &waiter), -EINPROGRESS);
    CHECK(ufutex_waiter_finish(waiter), -EINPROGRESS);
    CHECK(ufutex_waiter_deadline(waiter, &clock, &deadline), 0);
    CHECK(deadline == UFUTEX_NO_DEADLINE, true);
    CHECK(calls, 0);
    CHECK(ufutex_wake(domain, AT(&word), 1, 1, UFUTEX_U32), 1);
    CHECK(calls, 1);
    CHECK(ufutex_waiter_finish(waiter), 0);
    CHECK(ufutex_waiter_finish(waiter), -EBADF);
    CHECK(calls, 1);
}

static void end_and_free_take_back_or_pass_on(void)
{
    _Atomic int calls[2] = {0, 0};
    ufutex_waiter *waiters[2];
    ufutex_wait_options options = UFUTEX_WAIT_OPTIONS_INIT;
    uint32_t clock;
    uint64_t deadline;
    options.timeout = UFUTEX_UNTIL_REALTIME;
    options.nanoseconds = 77;
    CHECK(ufutex_prepare_wait(domain, AT(&word), 0, UFUTEX_U32, &options, told, &calls[0], &waiters[0]), -EINPROGRESS);
    CHECK(ufutex_waiter_deadline(waiters[0], &clock, &deadline), 0);
    CHECK(clock, UFUTEX_REALTIME);
    CHECK(deadline, 77);
    CHECK(ufutex_waiter_end(waiters[0], UFUTEX_TIMED_OUT), -ETIMEDOUT);
    CHECK(ufutex_wake(domain, AT(&word), 1, 1, UFUTEX_U32), 0);
    options.timeout = UFUTEX_AFTER;
    for (int i = 0; i < 2; i++)
        CHECK(ufutex_prepare_wait(domain, AT(&word), 0, UFUTEX_U32, &options, told, &calls[i], &waiters[i]), -EINPROGRESS);
    uint64_t before = now(CLOCK_MONOTONIC);
    CHECK(ufutex_waiter_deadline(waiters[0], &clock, &deadline), 0);
    CHECK(clock, UFUTEX_MONOTONIC);
    CHECK(deadline <= before + 77, true);
    CHECK(ufutex_wake(domain, AT(&word), 1, 1, UFUTEX_U32), 1);
    CHECK(calls[0] == 1 && calls[1] == 0, true);
    CHECK(ufutex_waiter_free(waiters[0]), 0); // passes its wake to the next waiter
    CHECK(calls[1], 1);
    CHECK(ufutex_waiter_end(waiters[1], UFUTEX_TIMED_OUT), 0); // woken before it ended
    CHECK(waiting(domain), 0);
}

static void several_words_and_interrupts(void)
{
    _Atomic int calls = 0;
    uint32_t other = 0;
    ufutex_waitv_word words[2] = {{0, AT(&word), UFUTEX_U32, 0}, {0, AT(&other), UFUTEX_U32, 0}};
    ufutex_task *task = new_task(domain, 1);
    ufutex_wait_options options = UFUTEX_WAIT_OPTIONS_INIT;
    ufutex_waiter *waiter, *second;
    options.task = task;
    CHECK(ufutex_prepare_waitv(domain, words, 2, &options, told, &calls, &waiter), -EINPROGRESS);
    CHECK(ufutex_prepare_wait(domain, AT(&word), 0, UFUTEX_U32, &options, told, &calls, &second), -EBUSY);
    CHECK(ufutex_wake(domain, AT(&other), 1, 1, UFUTEX_U32), 1);
    CHECK(ufutex_wake(domain, AT(&word), 1, 1, UFUTEX_U32), 1);
    CHECK(calls, 1); // one call, until the waiter is finished
    CHECK(ufutex_waiter_finish(waiter), 1);
    CHECK(ufutex_prepare_wait(domain, AT(&word), 0, UFUTEX_U32, &options, told, &calls, &waiter), -EINPROGRESS);
    CHECK(ufutex_task_interrupt(task), 0);
    CHECK(calls, 2);
    CHECK(ufutex_waiter_finish(waiter), -EINTR);
    CHECK(ufutex_prepare_wait(domain, AT(&word), 0, UFUTEX_U32, &options, told, &calls, &waiter), -EINTR);
    CHECK(ufutex_task_clear_interrupt(task), 0);
    // The interrupt is cleared before the waiter is checked: the wait ends, and the next one does not.
    CHECK(ufutex_prepare_wait(domain, AT(&word), 0, UFUTEX_U32, &options, told, &calls, &waiter), -EINPROGRESS);
    CHECK(ufutex_task_interrupt(task), 0);
    CHECK(ufutex_task_clear_interrupt(task), 0);
    CHECK(calls, 3);
    CHECK(ufutex_waiter_finish(waiter), -EINTR);
    CHECK(ufutex_prepare_wait(domain, AT(&word), 0, UFUTEX_U32, &options, told, &calls, &waiter), -EINPROGRESS);
    CHECK(ufutex_waiter_finish(waiter), -EINPROGRESS);
    CHECK(ufutex_wake(domain, AT(&word), 1, 1, UFUTEX_U32), 1);
    CHECK(calls, 4);
    CHECK(ufutex_waiter_finish(waiter), 0);
    CHECK(ufutex_task_free(task), 0);
}

static void locks_and_conditions(void)
{
    _Atomic int calls = 0;
    uint32_t lock = 0, from = 0;
    ufutex_task *owner = new_task(domain, 1), *task = new_task(domain, 2);
    ufutex_waiter *waiter;
    CHECK(ufutex_prepare_lock_pi(domain, owner, AT(&lock), UFUTEX_U32, NULL, told, &calls, &waiter), 0);
    CHECK(ufutex_prepare_lock_pi(domain, task, AT(&lock), UFUTEX_U32, NULL, told, &calls, &waiter), -EINPROGRESS);
    CHECK(ufutex_unlock_pi(domain, owner, AT(&lock), UFUTEX_U32), 0);
    CHECK(calls, 1);
    CHECK(ufutex_waiter_free(waiter), 0); // unlocks the lock that it was handed
    CHECK(lock, 0);
    CHECK(ufutex_prepare_wait_requeue_pi(domain, task, AT(&from), 0, AT(&lock), UFUTEX_U32, NULL, told, &calls, &waiter), -EINPROGRESS);
    CHECK(ufutex_cmp_requeue_pi(domain, AT(&from), 0, AT(&lock), 1, UFUTEX_U32), 1);
    CHECK(calls, 2);
    CHECK(ufutex_waiter_finish(waiter), 0);
    CHECK(ufutex_unlock_pi(domain, task, AT(&lock), UFUTEX_U32), 0);
    CHECK(ufutex_prepare_lock_pi(domain, NULL, AT(&lock), UFUTEX_U32, NULL, told, &calls, &waiter), -EINVAL);
    CHECK(ufutex_task_free(owner), 0);
    CHECK(ufutex_task_free(task), 0);
}

static void system_calls(void)
{
    static struct guest guest;
    _Atomic int calls = 0;
    ufutex_task *task = new_task(domain, 1);
    ufutex_waiter *waiter;
    long value;
    ufutex_memory memory = guest_memory(&guest);
    guest_store64(&guest, 64, 3); // three seconds
    uint64_t args[6] = {GUEST, 128, 0, GUEST + 64, 0, 0}; // FUTEX_WAIT_PRIVATE
    CHECK(ufutex_prepare_syscall(domain, task, &memory, 202, args, told, &calls, &waiter), -EINPROGRESS);
    memset(&memory, 0, sizeof memory); // the library has copied the struct
    memset(args, 0, sizeof args);
    uint32_t clock;
    uint64_t deadline, left;
    CHECK(ufutex_waiter_deadline(waiter, &clock, &deadline), 0);
    left = deadline - now(CLOCK_MONOTONIC);
    CHECK(left > 2000 * MS && left <= 3000 * MS, true);
    CHECK(ufutex_waiter_end(waiter, UFUTEX_INTERRUPTED), -UFUTEX_ERESTART_RESTARTBLOCK);
    CHECK(ufutex_resume(-UFUTEX_ERESTART_RESTARTBLOCK, UFUTEX_NO_HANDLER, &value), UFUTEX_RESUME_CONTINUE);
    CHECK(ufutex_resume(-UFUTEX_ERESTART_RESTARTBLOCK, UFUTEX_HANDLER_RESTART, &value), UFUTEX_RESUME_RETURN);
    CHECK(value, -EINTR);
    CHECK(ufutex_resume(-UFUTEX_ERESTARTSYS, UFUTEX_HANDLER_RESTART, &value), UFUTEX_RESUME_AGAIN);
    CHECK(ufutex_resume(-UFUTEX_ERESTARTNOINTR, UFUTEX_HANDLER, &value), UFUTEX_RESUME_AGAIN);
    CHECK(ufutex_resume(7, UFUTEX_HANDLER, &value), UFUTEX_RESUME_RETURN);
    CHECK(value, 7);
    memory = guest_memory(&guest);
    CHECK(ufutex_prepare_syscall(domain, task, &memory, 219, args, told, &calls, &waiter), -EINPROGRESS);
    uint64_t again;
    CHECK(ufutex_waiter_deadline(waiter, &clock, &again), 0);
    CHECK(again == deadline, true);
    uint64_t wake[6] = {GUEST, 129, 1, 0, 0, 0};
    ufutex_task *other = new_task(domain, 2);
    CHECK(ufutex_syscall(domain, other, &memory, 202, wake), 1);
    CHECK(calls, 1);
    CHECK(ufutex_waiter_finish(waiter), 0);
    CHECK(ufutex_prepare_syscall(domain, task, &memory, 219, args, told, &calls, &waiter), -EINTR); // only one restart
    uint64_t again_args[6] = {GUEST, 128, 0, GUEST + 64, 0, 0};
    CHECK(ufutex_prepare_syscall(domain, task, &memory, 202, again_args, told, &calls, &waiter), -EINPROGRESS);
    CHECK(ufutex_waiter_end(waiter, UFUTEX_INTERRUPTED), -UFUTEX_ERESTART_RESTARTBLOCK);
    // A checkpoint saves what restart_syscall would continue, and restores it.
    ufutex_restart saved = UFUTEX_RESTART_INIT;
    CHECK(ufutex_task_restart(task, &saved), 0);
    CHECK(saved.address == GUEST && saved.expected == 0 && saved.bitset == UFUTEX_BITSET_ANY && saved.is_private == 1, true);
    CHECK(saved.timeout == UFUTEX_UNTIL_MONOTONIC && saved.nanoseconds > 0, true);
    CHECK(ufutex_task_forget_restart(task), 0);
    CHECK(ufutex_prepare_syscall(domain, task, &memory, 219, args, told, &calls, &waiter), -EINTR);
    ufutex_restart none = UFUTEX_RESTART_INIT;
    CHECK(ufutex_task_restart(task, &none), 0);
    CHECK(none.timeout == UFUTEX_FOREVER && none.address == 0, true);
    CHECK(ufutex_task_set_restart(task, &saved), 0);
    CHECK(ufutex_prepare_syscall(domain, task, &memory, 219, args, told, &calls, &waiter), -EINPROGRESS);
    CHECK(ufutex_waiter_deadline(waiter, &clock, &again), 0);
    CHECK(again == saved.nanoseconds, true);
    CHECK(ufutex_waiter_end(waiter, UFUTEX_INTERRUPTED), -UFUTEX_ERESTART_RESTARTBLOCK);
    CHECK(ufutex_task_set_restart(task, &none), 0);
    CHECK(ufutex_prepare_syscall(domain, task, &memory, 219, args, told, &calls, &waiter), -EINTR);
    ufutex_restart bad = saved;
    bad.timeout = UFUTEX_AFTER;
    CHECK(ufutex_task_set_restart(task, &bad), -EINVAL);
    bad = saved;
    bad.bitset = 0;
    CHECK(ufutex_task_set_restart(task, &bad), -EINVAL);
    bad = saved;
    bad.is_private = 2;
    CHECK(ufutex_task_set_restart(task, &bad), -EINVAL);
    CHECK(ufutex_task_restart(task, NULL), -EINVAL);
    CHECK(ufutex_task_free(other), 0);
    CHECK(ufutex_task_free(task), 0);
}

// A callback that wakes the next waiter of a chain, whose callback does the same.
static uint32_t chain[20];
static ufutex_waiter *chained[20];
static int links;

static void wake_next(void *context)
{
    size_t i = (size_t)(uintptr_t)context;
    links++;
    if (i + 1 < 20)
        CHECK(ufutex_wake(domain, AT(&chain[i + 1]), 1, 1, UFUTEX_U32), 1);
}

static void callbacks_may_wake_others(void)
{
    for (size_t i = 0; i < 20; i++)
        CHECK(ufutex_prepare_wait(domain, AT(&chain[i]), 0, UFUTEX_U32, NULL, wake_next, (void *)(uintptr_t)i, &chained[i]), -EINPROGRESS);
    CHECK(ufutex_wake(domain, AT(&chain[0]), 1, 1, UFUTEX_U32), 1);
    CHECK(links, 20);
    for (size_t i = 0; i < 20; i++)
        CHECK(ufutex_waiter_finish(chained[i]), 0);
}

// Wakes race ends of waits. Each wake is received once, and no callback runs after its waiter's end.
enum { WAITERS = 64, SECONDS_MS = 200 };
static _Atomic long wakes, received;
static _Atomic bool over;
static uint32_t crowd;

struct record {
    _Atomic int is_alive;
};

static void still_alive(void *context)
{
    CHECK(((struct record *)context)->is_alive, 1);
}

static void *end_waits(void *unused)
{
    struct record records[WAITERS];
    ufutex_waiter *waiters[WAITERS];
    uint32_t random = (uint32_t)AT(&records) | 1;
    (void)unused;
    while (!over) {
        int count = 0;
        for (; count < WAITERS; count++) {
            records[count].is_alive = 1;
            CHECK(ufutex_prepare_wait(domain, AT(&crowd), 0, UFUTEX_U32, NULL, still_alive, &records[count], &waiters[count]), -EINPROGRESS);
        }
        while (count-- > 0) {
            random = random * 1664525 + 1013904223;
            long result = random >> 30 == 0 ? (long)ufutex_waiter_free(waiters[count]) - EINPROGRESS
                                            : ufutex_waiter_end(waiters[count], UFUTEX_TIMED_OUT);
            if (result == 0)
                received++;
            else if (result != -EINPROGRESS)
                CHECK(result, -ETIMEDOUT);
            records[count].is_alive = 0;
        }
    }
    return NULL;
}

static void *wake_crowd(void *unused)
{
    (void)unused;
    while (!over)
        wakes += ufutex_wake(domain, AT(&crowd), 3, 1, UFUTEX_U32);
    return NULL;
}

static void nothing_is_called_after_the_end(void)
{
    pthread_t threads[4] = {start(end_waits, NULL), start(end_waits, NULL), start(wake_crowd, NULL), start(wake_crowd, NULL)};
    struct timespec moment = {0, SECONDS_MS * 1000000};
    nanosleep(&moment, NULL);
    over = true;
    for (int i = 0; i < 4; i++)
        result_of(threads[i]);
    CHECK(waiting(domain), 0);
    CHECK(wakes > 0 && received > 0 && received <= wakes, true);
}

int main(void)
{
    a_system = new_system();
    domain = new_domain(a_system, NULL);
    wake_calls_back_and_is_received();
    end_and_free_take_back_or_pass_on();
    several_words_and_interrupts();
    locks_and_conditions();
    system_calls();
    callbacks_may_wake_others();
    nothing_is_called_after_the_end();
    until_alone(); // while the system exists
    CHECK(ufutex_domain_free(domain), 0);
    CHECK(ufutex_system_free(a_system), 0);
    return 0;
}
