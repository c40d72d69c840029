// A handler leaves by siglongjmp from the code that it interrupted, futex calls included. The call has ended then: the
// thread is not queued, no wake is spent on it, and it can call again.
#include "futex.h"
#include <semaphore.h>
#include <setjmp.h>

#define THREADS 3

static _Thread_local sigjmp_buf back;
static _Thread_local volatile sig_atomic_t armed, jumps;
static _Atomic uint32_t word, done;
static atomic_long jumped;
static sem_t semaphore;

static void handler(int signal) {
    (void)signal;
    if (!armed) return;
    armed = 0;
    jumps++;
    siglongjmp(back, 1);
}

static void install(int flags) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
}

static void *sleeps_and_is_thrown_out(void *unused) {
    for (volatile int i = 0; i < 400; i++) {
        if (sigsetjmp(back, 1) == 0) {
            armed = 1;
            wait_on(&word, 0);
            struct timespec soon = {0, 50000};
            futex(&word, FUTEX_WAIT_PRIVATE, 0, &soon, NULL, 0);
            wake(&word, 1);
            armed = 0;
        }
    }
    jumped += jumps;
    atomic_fetch_add(&done, 1);
    return unused;
}

static void torment(pthread_t *threads) {
    while (atomic_load(&done) != THREADS)
        for (int i = 0; i < THREADS; i++) {
            int error = pthread_kill(threads[i], SIGUSR1);
#if defined(__GLIBC__) && !__GLIBC_PREREQ(2, 34) // it says when the thread has ended
            if (error == ESRCH) continue;
#endif
            CHECK_EQ(error, 0);
            if (i == 0) sched_yield();
        }
    for (int i = 0; i < THREADS; i++) join(threads[i]);
    CHECK(jumped > 100);
    done = 0;
    jumped = 0;
}

static void *answers(void *unused) {
    CHECK_EQ(wait_on(&word, 0), 0);
    return unused;
}

static void out_of_a_futex_call(void) {
    install(0);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) threads[i] = start(sleeps_and_is_thrown_out, NULL);
    torment(threads);
    CHECK_EQ(waiters(&word), 0);
    CHECK_EQ(wake(&word, INT_MAX), 0);
    pthread_t thread = start(answers, NULL);
    until_waiters(&word, 1);
    CHECK_EQ(wake(&word, INT_MAX), 1);
    join(thread);
}

static void *takes_and_is_thrown_out(void *unused) {
    for (volatile int i = 0; i < 400; i++) {
        if (sigsetjmp(back, 1) == 0) {
            armed = 1;
            sem_wait(&semaphore);
            armed = 0;
        }
    }
    jumped += jumps;
    atomic_fetch_add(&done, 1);
    return unused;
}

static void out_of_sem_wait(void) {
    install(SA_RESTART);
    CHECK_EQ(sem_init(&semaphore, 0, 0), 0);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) threads[i] = start(takes_and_is_thrown_out, NULL);
    torment(threads);
    CHECK_EQ(sem_post(&semaphore), 0);
    CHECK_EQ(sem_wait(&semaphore), 0);
}

static pthread_t asleep;
static volatile sig_atomic_t returned;

static void *sleeps_once(void *unused) {
    if (sigsetjmp(back, 1) == 0) {
        armed = 1;
        wait_on(&word, 0);
        returned = 1;
    }
    CHECK_EQ(waiters(&word), 0); // without any other thread's help
    sigset_t set;
    CHECK_EQ(pthread_sigmask(SIG_BLOCK, NULL, &set), 0);
    CHECK_EQ(sigismember(&set, SIGUSR1), 0);
    while (!done) {
        CHECK_EQ(pthread_mutex_lock((pthread_mutex_t *)unused), 0);
        CHECK_EQ(pthread_mutex_unlock((pthread_mutex_t *)unused), 0);
        sched_yield();
    }
    return NULL;
}

// The thread is asleep when the signal comes.
static void out_of_sleep(void) {
    install(0);
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    for (int i = 0; i < 100; i++) {
        done = 0;
        asleep = start(sleeps_once, &mutex);
        until_waiters(&word, 1);
        CHECK_EQ(pthread_kill(asleep, SIGUSR1), 0);
        while (waiters(&word)) nap_us(50);
        CHECK_EQ(wake(&word, 1), 0);
        CHECK_EQ(pthread_mutex_lock(&mutex), 0);
        nap_us(200);
        CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
        done = 1;
        join(asleep);
        CHECK_EQ(returned, 0);
    }
}

MAIN(CASE(out_of_a_futex_call), CASE(out_of_sem_wait), CASE(out_of_sleep))
