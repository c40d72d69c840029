// Robust mutexes of the C library whose owner ends, and mutexes with priority inheritance. Where a thread has to wait
// first, the bit of waiters in the mutex shows it: the lock's word is the mutex's first field.
#include "guest.h"

enum { THREADS = 4, ROUNDS = 150 };

static pthread_mutex_t *make_mutex(int shared, int robust, int protocol) {
    pthread_mutex_t *mutex = in_region(sizeof *mutex);
    pthread_mutexattr_t attributes;
    MUST(pthread_mutexattr_init(&attributes) == 0);
    MUST(pthread_mutexattr_setpshared(&attributes, shared) == 0);
    MUST(pthread_mutexattr_setrobust(&attributes, robust) == 0);
    MUST(pthread_mutexattr_setprotocol(&attributes, protocol) == 0);
    MUST(pthread_mutex_init(mutex, &attributes) == 0);
    return mutex;
}

struct death { pthread_mutex_t *mutexes[2]; uint32_t owned; int is_awaited; };

static void *dies_as_the_owner(void *of) {
    struct death *death = of;
    for (int i = 0; i < 2; i++) MUST(pthread_mutex_lock(death->mutexes[i]) == 0);
    store(&death->owned, 1);
    if (death->is_awaited) UNTIL(load((uint32_t *)death->mutexes[0]) & WAITERS);
    return NULL;
}

static void deaths(int shared, int protocol, int is_awaited) {
    struct death death = {{make_mutex(shared, PTHREAD_MUTEX_ROBUST, protocol)}, 0, is_awaited};
    death.mutexes[1] = make_mutex(shared, PTHREAD_MUTEX_ROBUST, protocol);
    CASE("shared %d, protocol %d, awaited %d", shared, protocol, is_awaited);
    pthread_t owner = thread(dies_as_the_owner, &death);
    if (is_awaited) {
        UNTIL(load(&death.owned));
    } else {
        join(owner);
    }
    RESULT(pthread_mutex_lock(death.mutexes[0]));
    RESULT(pthread_mutex_consistent(death.mutexes[0]));
    RESULT(pthread_mutex_unlock(death.mutexes[0]));
    RESULT(pthread_mutex_lock(death.mutexes[0]));
    RESULT(pthread_mutex_unlock(death.mutexes[0]));
    if (is_awaited) join(owner);
    // The second is not repaired.
    RESULT(pthread_mutex_lock(death.mutexes[1]));
    RESULT(pthread_mutex_unlock(death.mutexes[1]));
    RESULT(pthread_mutex_lock(death.mutexes[1]));
}

struct count { pthread_mutex_t *mutex; long counted; };

static void *counts(void *of) {
    struct count *count = of;
    for (int round = 0; round < ROUNDS; round++) {
        MUST(pthread_mutex_lock(count->mutex) == 0);
        long counted = count->counted;
        sched_yield();
        count->counted = counted + 1;
        MUST(pthread_mutex_unlock(count->mutex) == 0);
    }
    return NULL;
}

static void contention(int shared, int robust) {
    struct count count = {make_mutex(shared, robust, PTHREAD_PRIO_INHERIT), 0};
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) threads[i] = thread(counts, &count);
    for (int i = 0; i < THREADS; i++) join(threads[i]);
    CASE("shared %d, robust %d: %ld", shared, robust, count.counted);
    RESULT(load((uint32_t *)count.mutex));
}

static void *locks_in_vain(void *of) {
    struct timespec past = {1, 0};
    RESULT(pthread_mutex_trylock(of));
    RESULT(pthread_mutex_timedlock(of, &past));
    RESULT(pthread_mutex_clocklock(of, CLOCK_MONOTONIC, &past));
    return NULL;
}

static void held(int shared) {
    pthread_mutex_t *mutex = make_mutex(shared, PTHREAD_MUTEX_STALLED, PTHREAD_PRIO_INHERIT);
    RESULT(pthread_mutex_lock(mutex));
    join(thread(locks_in_vain, mutex));
    RESULT(pthread_mutex_unlock(mutex));
}

void mutexes_whose_owner_ends(void) {
    for (int i = 0; i < 8; i++) deaths(i & 1, i & 2 ? PTHREAD_PRIO_INHERIT : PTHREAD_PRIO_NONE, i & 4);
}

void mutexes_with_inheritance(void) {
    for (int i = 0; i < 4; i++) contention(i & 1, i & 2 ? PTHREAD_MUTEX_ROBUST : PTHREAD_MUTEX_STALLED);
    for (int shared = 0; shared < 2; shared++) held(shared);
}
