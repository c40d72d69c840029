// Locks, condition variables and semaphores made of bare futex calls, all at once: sums are exact and all threads end.
#include "futex.h"

#define THREADS 4
#define PRIVATE(op) ((op) | FUTEX_PRIVATE_FLAG)

typedef struct {
    _Atomic uint32_t state; // 0: free, 1: locked, 2: locked, and threads may wait
} Lock;

static void lock(Lock *lock) {
    uint32_t seen = 0;
    if (atomic_compare_exchange_strong(&lock->state, &seen, 1)) return;
    while (atomic_exchange(&lock->state, 2)) {
        long result = wait_on(&lock->state, 2);
        CHECK(result == 0 || errno == EAGAIN);
    }
}

static void unlock(Lock *lock) {
    if (atomic_exchange(&lock->state, 0) == 2) CHECK(wake(&lock->state, 1) <= 1);
}

static Lock locks[8];
static long sums[8];

static void *adds(void *number) {
    for (int i = 0; i < 20000; i++) {
        int which = (i * 7 + (long)number) % 8;
        lock(&locks[which]);
        long seen = sums[which];
        if (i % 32 == 0) sched_yield();
        sums[which] = seen + 1;
        unlock(&locks[which]);
    }
    return NULL;
}

static void mutual_exclusion(void) {
    on_threads(THREADS, adds);
    long total = 0;
    for (int i = 0; i < 8; i++) total += sums[i];
    CHECK_EQ(total, THREADS * 20000);
}

static _Atomic uint32_t baton;

static void *passes_the_baton(void *number) {
    for (uint32_t i = (uint32_t)(long)number; i < 20000; i += 2) {
        uint32_t seen;
        while ((seen = baton) != i) wait_on(&baton, seen);
        baton = i + 1;
        wake(&baton, 1);
    }
    return NULL;
}

static void ping_pong(void) { on_threads(2, passes_the_baton); }

static Lock guard;
static _Atomic uint32_t sequence;
static int stock, over;
static atomic_long sold;

// A condition variable as in older versions of glibc: a broadcast wakes one thread and requeues the others to the lock.
static void *buys(void *unused) {
    lock(&guard);
    for (;;) {
        while (!stock && !over) {
            uint32_t seen = sequence;
            unlock(&guard);
            wait_on(&sequence, seen);
            while (atomic_exchange(&guard.state, 2)) wait_on(&guard.state, 2); // several threads may have been requeued
        }
        if (!stock) break;
        stock--;
        atomic_fetch_add(&sold, 1);
    }
    atomic_exchange(&guard.state, 0);
    wake(&guard.state, 1);
    return unused;
}

static void condition_by_requeue(void) {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) threads[i] = start(buys, NULL);
    for (int i = 0; i <= 3000; i++) {
        lock(&guard);
        if (i < 3000)
            stock += 2;
        else
            over = 1;
        uint32_t now = atomic_fetch_add(&sequence, 1) + 1;
        guard.state = 2;
        long result = futex(&sequence, PRIVATE(FUTEX_CMP_REQUEUE), 1, (void *)(long)INT_MAX, &guard.state, now);
        CHECK(result >= 0);
        unlock(&guard);
        if (i % 16 == 0) sched_yield();
    }
    for (int i = 0; i < THREADS; i++) join(threads[i]);
    CHECK_EQ(sold, 6000);
}

static _Atomic uint32_t here, there;
static atomic_int finished;

static void *is_moved_about(void *unused) {
    struct timespec soon = {0, 300000};
    for (int i = 0; i < 300; i++) {
        long result = futex(i % 2 ? &here : &there, PRIVATE(FUTEX_WAIT), 0, i % 3 ? &soon : NULL, NULL, 0);
        CHECK(result == 0 || errno == ETIMEDOUT);
    }
    atomic_fetch_add(&finished, 1);
    return unused;
}

// Waiters are requeued back and forth while other threads wake them and their timeouts pass.
static void requeue_races_with_wakes_and_timeouts(void) {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) threads[i] = start(is_moved_about, NULL);
    while (finished != THREADS) {
        CHECK(futex(&here, PRIVATE(FUTEX_CMP_REQUEUE), 0, (void *)2, &there, 0) >= 0);
        CHECK(futex(&there, PRIVATE(FUTEX_REQUEUE), 1, (void *)2, &here, 0) >= 0);
        CHECK(futex(&here, PRIVATE(FUTEX_WAKE_OP), 1, (void *)1, &there, FUTEX_OP(FUTEX_OP_ADD, 0, FUTEX_OP_CMP_EQ, 0)) >= 0);
        sched_yield();
    }
    for (int i = 0; i < THREADS; i++) join(threads[i]);
}

static _Atomic uint32_t crowd;

static void *joins_the_crowd(void *unused) {
    CHECK_EQ(wait_on(&crowd, 0), 0);
    return unused;
}

// More threads than the first table has slots wait, and leave again.
static void crowds(void) {
    enum { MANY = 64 };
    pthread_t threads[MANY];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < MANY; i++) threads[i] = start(joins_the_crowd, NULL);
        until_waiters(&crowd, MANY);
        CHECK_EQ(wake(&crowd, MANY / 2), MANY / 2);
        CHECK_EQ(wake(&crowd, INT_MAX), MANY / 2);
        for (int i = 0; i < MANY; i++) join(threads[i]);
    }
}

MAIN(CASE(mutual_exclusion), CASE(ping_pong), CASE(condition_by_requeue), CASE(requeue_races_with_wakes_and_timeouts),
     CASE(crowds))
