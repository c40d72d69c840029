// Mutexes of every kind exclude other threads, report misuse, and lose no wake under load.
#include "check.h"
#include <sys/mman.h>

#define THREADS 4

static pthread_mutex_t mutex;
static long counter;
static int rounds;

static void make(int type, int protocol, int shared, int robust) {
    pthread_mutexattr_t attributes;
    CHECK_EQ(pthread_mutexattr_init(&attributes), 0);
    CHECK_EQ(pthread_mutexattr_settype(&attributes, type), 0);
    CHECK_EQ(pthread_mutexattr_setprotocol(&attributes, protocol), 0);
    CHECK_EQ(pthread_mutexattr_setpshared(&attributes, shared), 0);
    CHECK_EQ(pthread_mutexattr_setrobust(&attributes, robust), 0);
    CHECK_EQ(pthread_mutex_init(&mutex, &attributes), 0);
    CHECK_EQ(pthread_mutexattr_destroy(&attributes), 0);
}

static void *increments(void *number) {
    (void)number;
    for (int i = 0; i < rounds; i++) {
        CHECK_EQ(pthread_mutex_lock(&mutex), 0);
        long seen = counter;
        if (i % 64 == 0) sched_yield(); // so that other threads have to wait
        counter = seen + 1;
        CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
    }
    return NULL;
}

// Increments a plain number under the lock. The sum is wrong if exclusion fails once.
static void stress(int each) {
    counter = 0, rounds = each;
    on_threads(THREADS, increments);
    CHECK_EQ(counter, (long)THREADS * each);
    CHECK_EQ(pthread_mutex_destroy(&mutex), 0);
}

static void normal(void) {
    make(PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_NONE, PTHREAD_PROCESS_PRIVATE, PTHREAD_MUTEX_STALLED);
    CHECK_EQ(pthread_mutex_lock(&mutex), 0);
    CHECK_EQ(pthread_mutex_trylock(&mutex), EBUSY);
    CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
    stress(20000);
}

static void adaptive(void) {
    make(PTHREAD_MUTEX_ADAPTIVE_NP, PTHREAD_PRIO_NONE, PTHREAD_PROCESS_PRIVATE, PTHREAD_MUTEX_STALLED);
    stress(20000);
}

static void recursive(void) {
    make(PTHREAD_MUTEX_RECURSIVE, PTHREAD_PRIO_NONE, PTHREAD_PROCESS_PRIVATE, PTHREAD_MUTEX_STALLED);
    for (int i = 0; i < 3; i++) CHECK_EQ(pthread_mutex_lock(&mutex), 0);
    for (int i = 0; i < 3; i++) CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
    CHECK_EQ(pthread_mutex_unlock(&mutex), EPERM);
    stress(10000);
}

static void errorcheck(void) {
    make(PTHREAD_MUTEX_ERRORCHECK, PTHREAD_PRIO_NONE, PTHREAD_PROCESS_PRIVATE, PTHREAD_MUTEX_STALLED);
    CHECK_EQ(pthread_mutex_lock(&mutex), 0);
    CHECK_EQ(pthread_mutex_lock(&mutex), EDEADLK);
    CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
    CHECK_EQ(pthread_mutex_unlock(&mutex), EPERM);
    stress(10000);
}

static void *times_out(void *unused) {
    (void)unused;
    struct timespec deadline = in_ms(CLOCK_REALTIME, 15);
    CHECK_EQ(pthread_mutex_timedlock(&mutex, &deadline), ETIMEDOUT);
    CHECK(passed(CLOCK_REALTIME, &deadline));
    deadline = in_ms(CLOCK_MONOTONIC, 15);
    CHECK_EQ(pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &deadline), ETIMEDOUT);
#if !defined(__GLIBC__) || __GLIBC_PREREQ(2, 32) // before, it took the deadline for one of CLOCK_REALTIME
    CHECK(passed(CLOCK_MONOTONIC, &deadline));
#endif
    deadline = in_ms(CLOCK_MONOTONIC, -5);
    CHECK_EQ(pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &deadline), ETIMEDOUT);
    deadline.tv_nsec = 1000000000;
    CHECK_EQ(pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &deadline), EINVAL);
    return NULL;
}

static void *increments_timed(void *number) {
    for (int i = 0; i < 2000;) {
        struct timespec deadline = in_ms(CLOCK_MONOTONIC, (i + (long)number) % 2);
        int error = pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &deadline);
        if (error == ETIMEDOUT) continue;
        CHECK_EQ(error, 0);
        long seen = counter;
        if (i % 16 == 0) sched_yield();
        counter = seen + 1;
        CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
        i++;
    }
    return NULL;
}

static void timed(void) {
    make(PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_NONE, PTHREAD_PROCESS_PRIVATE, PTHREAD_MUTEX_STALLED);
    CHECK_EQ(pthread_mutex_lock(&mutex), 0);
    on_threads(3, times_out);
    CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
    counter = 0;
    on_threads(THREADS, increments_timed);
    CHECK_EQ(counter, THREADS * 2000);
}

static void *dies_with_it(void *unused) {
    (void)unused;
    CHECK_EQ(pthread_mutex_lock(&mutex), 0);
    return NULL;
}

static void *inherits(void *unused) {
    (void)unused;
    int error = pthread_mutex_lock(&mutex);
    if (error == EOWNERDEAD) CHECK_EQ(pthread_mutex_consistent(&mutex), 0);
    CHECK(error == 0 || error == EOWNERDEAD);
    counter += error == EOWNERDEAD;
    CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
    return NULL;
}

static void *dies_while_others_wait(void *unused) {
    (void)unused;
    CHECK_EQ(pthread_mutex_lock(&mutex), 0);
    nap_us(2000);
    return NULL;
}

static void owner_dies(int protocol, int shared) {
    make(PTHREAD_MUTEX_NORMAL, protocol, shared, PTHREAD_MUTEX_ROBUST);
    stress(5000);
    make(PTHREAD_MUTEX_NORMAL, protocol, shared, PTHREAD_MUTEX_ROBUST);
    join(start(dies_with_it, NULL));
    CHECK_EQ(pthread_mutex_lock(&mutex), EOWNERDEAD);
    CHECK_EQ(pthread_mutex_consistent(&mutex), 0);
    CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
    for (int i = 0; i < 20; i++) { // the threads sleep when the owner dies
        counter = 0;
        pthread_t owner = start(dies_while_others_wait, NULL);
        nap_us(500);
        on_threads(3, inherits);
        join(owner);
        if (counter == 0) inherits(NULL); // the owner was last
        CHECK_EQ(counter, 1);
    }
    join(start(dies_with_it, NULL));
    CHECK_EQ(pthread_mutex_lock(&mutex), EOWNERDEAD);
    CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
    CHECK_EQ(pthread_mutex_lock(&mutex), ENOTRECOVERABLE);
    CHECK_EQ(pthread_mutex_destroy(&mutex), 0);
}

static void robust(void) { owner_dies(PTHREAD_PRIO_NONE, PTHREAD_PROCESS_PRIVATE); }
static void robust_shared(void) { owner_dies(PTHREAD_PRIO_NONE, PTHREAD_PROCESS_SHARED); }
static void robust_pi(void) { owner_dies(PTHREAD_PRIO_INHERIT, PTHREAD_PROCESS_PRIVATE); }

static void pi(void) {
    make(PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_INHERIT, PTHREAD_PROCESS_PRIVATE, PTHREAD_MUTEX_STALLED);
    CHECK_EQ(pthread_mutex_lock(&mutex), 0);
    on_threads(2, times_out);
    CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
    stress(5000);
}

typedef struct {
    pthread_mutex_t mutex;
    long counter;
} Shared;

// Processes share a mutex in shared memory. One of them dies as its owner.
static void process_shared(void) {
    Shared *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    make(PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_NONE, PTHREAD_PROCESS_SHARED, PTHREAD_MUTEX_ROBUST);
    shared->mutex = mutex;
    pid_t children[3];
    for (int c = 0; c < 3; c++) {
        children[c] = fork();
        CHECK(children[c] >= 0);
        if (children[c]) continue;
        for (int i = 0; i < 5000; i++) {
            CHECK_EQ(pthread_mutex_lock(&shared->mutex), 0);
            long seen = shared->counter;
            if (i % 64 == 0) sched_yield();
            shared->counter = seen + 1;
            CHECK_EQ(pthread_mutex_unlock(&shared->mutex), 0);
        }
        _exit(0);
    }
    for (int c = 0; c < 3; c++) reap(children[c], 0);
    CHECK_EQ(shared->counter, 15000);
    pid_t dying = fork();
    if (!dying) {
        CHECK_EQ(pthread_mutex_lock(&shared->mutex), 0);
        kill(getpid(), SIGKILL);
    }
    int status;
    CHECK_EQ(waitpid(dying, &status, 0), dying);
    CHECK_EQ(WTERMSIG(status), SIGKILL);
    CHECK_EQ(pthread_mutex_lock(&shared->mutex), EOWNERDEAD);
}

MAIN(CASE(normal), CASE(adaptive), CASE(recursive), CASE(errorcheck), CASE(timed), CASE(robust), CASE(robust_shared),
     CASE(robust_pi), CASE(pi), CASE(process_shared))
