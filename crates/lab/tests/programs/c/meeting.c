// Read-write locks, barriers, once, spin locks, and joins: the kernel clears a thread's word and wakes the joiner.
#include "check.h"

#define THREADS 4

static pthread_rwlock_t lock;
static long pair[2];

static void *reads_and_writes(void *number) {
    for (int i = 0; i < 8000; i++) {
        if ((i + (long)number) % 8 == 0) {
            CHECK_EQ(pthread_rwlock_wrlock(&lock), 0);
            pair[0]++;
            if (i % 64 == 0) sched_yield();
            pair[1]++;
        } else {
            CHECK_EQ(pthread_rwlock_rdlock(&lock), 0);
            CHECK_EQ(pair[0], pair[1]);
        }
        CHECK_EQ(pthread_rwlock_unlock(&lock), 0);
    }
    return NULL;
}

static void *finds_it_written(void *unused) {
    CHECK_EQ(pthread_rwlock_tryrdlock(&lock), EBUSY);
    struct timespec deadline = in_ms(CLOCK_REALTIME, 10);
    CHECK_EQ(pthread_rwlock_timedrdlock(&lock, &deadline), ETIMEDOUT);
    CHECK(passed(CLOCK_REALTIME, &deadline));
    deadline = in_ms(CLOCK_MONOTONIC, 10);
    CHECK_EQ(pthread_rwlock_clockwrlock(&lock, CLOCK_MONOTONIC, &deadline), ETIMEDOUT);
    CHECK(passed(CLOCK_MONOTONIC, &deadline));
    return unused;
}

static void rwlock_of(int kind) {
    pthread_rwlockattr_t attributes;
    CHECK_EQ(pthread_rwlockattr_init(&attributes), 0);
    CHECK_EQ(pthread_rwlockattr_setkind_np(&attributes, kind), 0);
    CHECK_EQ(pthread_rwlock_init(&lock, &attributes), 0);
    pair[0] = pair[1] = 0;
    on_threads(THREADS, reads_and_writes);
    CHECK_EQ(pair[0], THREADS * 1000);
    CHECK_EQ(pthread_rwlock_wrlock(&lock), 0);
    CHECK_EQ(pthread_rwlock_wrlock(&lock), EDEADLK);
    on_threads(2, finds_it_written);
    CHECK_EQ(pthread_rwlock_unlock(&lock), 0);
}

static void rwlock(void) {
    rwlock_of(PTHREAD_RWLOCK_PREFER_READER_NP);
    rwlock_of(PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
}

static pthread_barrier_t gate;
static atomic_long inside, serial;

static void *rendezvous(void *unused) {
    for (long i = 0; i < 500; i++) {
        atomic_fetch_add(&inside, 1);
        if (pthread_barrier_wait(&gate) == PTHREAD_BARRIER_SERIAL_THREAD) atomic_fetch_add(&serial, 1);
        CHECK(atomic_load(&inside) >= (i + 1) * THREADS);
        pthread_barrier_wait(&gate);
        CHECK(atomic_load(&inside) <= (i + 2) * THREADS);
    }
    return unused;
}

static void barrier(void) {
    CHECK_EQ(pthread_barrier_init(&gate, NULL, THREADS), 0);
    on_threads(THREADS, rendezvous);
    CHECK_EQ(serial, 500);
    CHECK_EQ(pthread_barrier_destroy(&gate), 0);
}

static pthread_once_t onces[200];
static atomic_int runs;
static void initialise(void) {
    nap_us(50); // so that the other threads have to wait
    atomic_fetch_add(&runs, 1);
}

static void *all_once(void *unused) {
    for (int i = 0; i < 200; i++) {
        CHECK_EQ(pthread_once(&onces[i], initialise), 0);
        CHECK(atomic_load(&runs) > i);
    }
    return unused;
}

static void once(void) {
    memset(onces, 0, sizeof onces);
    on_threads(THREADS, all_once);
    CHECK_EQ(runs, 200);
}

static pthread_spinlock_t spinning;
static long spun;

static void *spins(void *unused) {
    for (int i = 0; i < 2000; i++) {
        CHECK_EQ(pthread_spin_lock(&spinning), 0);
        spun++;
        CHECK_EQ(pthread_spin_unlock(&spinning), 0);
    }
    return unused;
}

static void spin(void) {
    CHECK_EQ(pthread_spin_init(&spinning, PTHREAD_PROCESS_PRIVATE), 0);
    on_threads(THREADS, spins);
    CHECK_EQ(spun, THREADS * 2000);
}

static void *naps(void *us) {
    nap_us((long)us);
    return us;
}

static void joins(void) {
    for (long i = 0; i < 300; i++) CHECK_EQ((long)join(start(naps, (void *)(i % 3 * 100))), i % 3 * 100);
    pthread_t late = start(naps, (void *)60000);
    void *result;
    CHECK_EQ(pthread_tryjoin_np(late, &result), EBUSY);
    struct timespec deadline = in_ms(CLOCK_MONOTONIC, 5);
    CHECK_EQ(pthread_clockjoin_np(late, &result, CLOCK_MONOTONIC, &deadline), ETIMEDOUT);
    CHECK(passed(CLOCK_MONOTONIC, &deadline));
    deadline = in_ms(CLOCK_REALTIME, 600000);
    CHECK_EQ(pthread_timedjoin_np(late, &result, &deadline), 0);
    CHECK_EQ((long)result, 60000);
}

static atomic_int left;

static void *leaves(void *unused) {
    atomic_fetch_sub(&left, 1);
    return unused;
}

// Several threads start and end threads as fast as they can, and contend for glibc's cache of stacks.
static void *comes_and_goes(void *unused) {
    pthread_attr_t smallest;
    CHECK_EQ(pthread_attr_init(&smallest), 0);
    CHECK_EQ(pthread_attr_setstacksize(&smallest, PTHREAD_STACK_MIN), 0);
    for (int i = 0; i < 300; i++) {
        pthread_t thread;
        int error;
        while ((error = pthread_create(&thread, i % 3 ? NULL : &smallest, leaves, NULL)) == EAGAIN) nap_us(1000);
        CHECK_EQ(error, 0);
        if (i % 2)
            CHECK_EQ(pthread_detach(thread), 0);
        else
            join(thread);
    }
    return unused;
}

static void many_threads(void) {
    left = 4 * 300;
    on_threads(4, comes_and_goes);
    while (atomic_load(&left)) nap_us(1000);
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int ready;

static void *waits_on_a_small_stack(void *unused) {
    for (int i = 0; i < 100; i++) {
        struct timespec soon = in_ms(CLOCK_MONOTONIC, 1);
        CHECK_EQ(pthread_mutex_lock(&mutex), 0);
        pthread_cond_clockwait(&condition, &mutex, CLOCK_MONOTONIC, &soon);
        CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
    }
    CHECK_EQ(pthread_mutex_lock(&mutex), 0);
    while (!ready) CHECK_EQ(pthread_cond_wait(&condition, &mutex), 0);
    CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
    pthread_exit(unused);
}

static void smallest_stacks(void) {
    pthread_attr_t smallest;
    CHECK_EQ(pthread_attr_init(&smallest), 0);
    CHECK_EQ(pthread_attr_setstacksize(&smallest, PTHREAD_STACK_MIN), 0);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) CHECK_EQ(pthread_create(&threads[i], &smallest, waits_on_a_small_stack, NULL), 0);
    for (int i = 0; i < 100; i++) {
        nap_us(500);
        CHECK_EQ(pthread_cond_broadcast(&condition), 0);
    }
    CHECK_EQ(pthread_mutex_lock(&mutex), 0);
    ready = 1;
    CHECK_EQ(pthread_cond_broadcast(&condition), 0);
    CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
    for (int i = 0; i < THREADS; i++) join(threads[i]);
}

MAIN(CASE(rwlock), CASE(barrier), CASE(once), CASE(spin), CASE(joins), CASE(many_threads), CASE(smallest_stacks))
