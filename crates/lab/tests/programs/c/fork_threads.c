// fork(2) while other threads are anywhere in their futex calls. The child has its locks, starts without waiters and
// makes threads of its own, and the parent continues.
#include "futex.h"
#include <semaphore.h>

#define THREADS 3

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, forking = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static _Atomic uint32_t word;
static atomic_int over;
static atomic_long calls;
static sem_t semaphore;

static void *hammers(void *unused) {
    while (!over) {
        struct timespec soon = {0, 100000};
        futex(&word, FUTEX_WAIT_PRIVATE, 0, &soon, NULL, 0);
        wake(&word, 1);
        CHECK_EQ(pthread_mutex_lock(&mutex), 0);
        CHECK_EQ(pthread_cond_signal(&condition), 0);
        CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
        while (sem_wait(&semaphore)) CHECK_EQ(errno, EINTR);
        CHECK_EQ(sem_post(&semaphore), 0);
        atomic_fetch_add(&calls, 1);
    }
    return unused;
}

static pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t handed_over = PTHREAD_COND_INITIALIZER;
static int stage;

static void *answers(void *unused) {
    CHECK_EQ(pthread_mutex_lock(&own), 0);
    while (stage != 1) CHECK_EQ(pthread_cond_wait(&handed_over, &own), 0);
    stage = 2;
    CHECK_EQ(pthread_cond_signal(&handed_over), 0);
    CHECK_EQ(pthread_mutex_unlock(&own), 0);
    return unused;
}

static void *sleeps(void *unused) {
    CHECK_EQ(wait_on(&word, 0), 0);
    return unused;
}

// Does what a threaded program does. None of the parent's waiters is queued in this child.
static void lives_as_a_program(int with_threads) {
    CHECK_EQ(waiters(&word), 0);
    CHECK_EQ(wake(&word, INT_MAX), 0);
    struct timespec short_time = {0, 1000};
    CHECK_ERRNO(futex(&word, FUTEX_WAIT_PRIVATE, 0, &short_time, NULL, 0), ETIMEDOUT);
    if (with_threads) {
        CHECK_EQ(pthread_mutex_lock(&own), 0);
        pthread_t thread = start(answers, NULL), sleeper = start(sleeps, NULL);
        stage = 1;
        CHECK_EQ(pthread_cond_signal(&handed_over), 0);
        while (stage != 2) CHECK_EQ(pthread_cond_wait(&handed_over, &own), 0);
        CHECK_EQ(pthread_mutex_unlock(&own), 0);
        join(thread);
        until_waiters(&word, 1);
        CHECK_EQ(wake(&word, 1), 1);
        join(sleeper);
    }
}

static void children(int count, int with_threads, int generations) {
    for (int i = 0; i < count; i++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (!child) {
            lives_as_a_program(with_threads && i % 4 == 0);
            if (generations > 1) children(1, 1, generations - 1);
            _exit(21);
        }
        reap(child, 21);
    }
}

static pthread_t threads[THREADS];

static void begin(void) {
    over = 0;
    CHECK_EQ(sem_init(&semaphore, 0, 1), 0);
    for (int i = 0; i < THREADS; i++) threads[i] = start(hammers, NULL);
    while (calls == 0) sched_yield();
}

static void stop(void) {
    over = 1;
    for (int i = 0; i < THREADS; i++) {
        while (pthread_tryjoin_np(threads[i], NULL) == EBUSY) {
            wake(&word, INT_MAX);
            nap_us(100);
        }
    }
    CHECK_EQ(waiters(&word), 0);
}

static void while_others_hammer(void) {
    begin();
    children(400, 1, 1);
    stop();
}

static void of_children(void) {
    begin();
    children(30, 1, 3);
    stop();
}

static void *forks(void *unused) {
    children(100, 1, 1);
    return unused;
}

static void by_several_threads(void) {
    begin();
    on_threads(3, forks);
    stop();
}

static int prepared, in_parent;
static void before(void) {
    CHECK_EQ(pthread_mutex_lock(&forking), 0);
    prepared++;
}
static void after_in_parent(void) {
    in_parent++;
    CHECK_EQ(pthread_mutex_unlock(&forking), 0);
}
static void after_in_child(void) { CHECK_EQ(pthread_mutex_unlock(&forking), 0); }

// Holds a lock over the fork by pthread_atfork, as allocators do.
static void with_handlers(void) {
    CHECK_EQ(pthread_atfork(before, after_in_parent, after_in_child), 0);
    begin();
    for (int i = 0; i < 100; i++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (!child) {
            CHECK_EQ(pthread_mutex_lock(&forking), 0);
            CHECK_EQ(pthread_mutex_unlock(&forking), 0);
            free(malloc(100000));
            _exit(3);
        }
        reap(child, 3);
    }
    stop();
    CHECK_EQ(prepared, 100);
    CHECK_EQ(in_parent, 100);
}

// The kernel's call, without what libc's fork does around it.
static void by_syscall(void) {
    begin();
    for (int i = 0; i < 200; i++) {
        pid_t child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
        CHECK(child >= 0);
        if (!child) {
            CHECK_EQ(wake(&word, INT_MAX), 0);
            CHECK_ERRNO(wait_on(&word, 1), EAGAIN);
            _exit(4);
        }
        reap(child, 4);
    }
    stop();
}

static void daemons(void) {
    begin();
    for (int i = 0; i < 30; i++) {
        int ends[2];
        CHECK_EQ(pipe(ends), 0);
        pid_t child = fork();
        CHECK(child >= 0);
        if (!child) {
            setsid();
            if (fork()) _exit(0);
            lives_as_a_program(1);
            CHECK_EQ(write(ends[1], "d", 1), 1);
            _exit(0);
        }
        reap(child, 0);
        close(ends[1]);
        char answer;
        CHECK_EQ(read(ends[0], &answer, 1), 1);
        close(ends[0]);
    }
    stop();
}

MAIN(CASE(while_others_hammer), CASE(of_children), CASE(by_several_threads), CASE(with_handlers), CASE(by_syscall),
     CASE(daemons))
