// Threads are cancelled in each kind of wait: the clean-up handlers run once, a condition's mutex is owned again, and
// the object that they waited for still works for other threads.
#include "futex.h"
#include <poll.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/select.h>

static pthread_mutex_t mutex, plain = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static sem_t semaphore, ready;
static _Atomic uint32_t word;
static atomic_int cleaned, waiting;

static void unlocks(void *unused) {
    (void)unused;
    atomic_fetch_add(&cleaned, 1);
    CHECK_EQ(pthread_mutex_unlock(&mutex), 0); // error-checking mutex: EPERM if this thread did not own it
}

static void counts(void *unused) {
    (void)unused;
    atomic_fetch_add(&cleaned, 1);
}

static void *waits_for_a_condition(void *timed) {
    CHECK_EQ(pthread_mutex_lock(&mutex), 0);
    pthread_cleanup_push(unlocks, NULL);
    waiting = 1;
    struct timespec late = in_ms(CLOCK_REALTIME, 600000);
    for (;;) {
        if (timed)
            pthread_cond_timedwait(&condition, &mutex, &late);
        else
            pthread_cond_wait(&condition, &mutex);
    }
    pthread_cleanup_pop(1);
    return NULL;
}

static void *waits_for_a_post(void *timed) {
    pthread_cleanup_push(counts, NULL);
    waiting = 1;
    struct timespec late = in_ms(CLOCK_REALTIME, 600000);
    for (;;) {
        if (timed)
            sem_timedwait(&semaphore, &late);
        else
            sem_wait(&semaphore);
    }
    pthread_cleanup_pop(1);
    return NULL;
}

static void *waits_for_a_lock(void *unused) {
    pthread_cleanup_push(counts, NULL);
    waiting = 1;
    CHECK_EQ(pthread_mutex_lock(&plain), 0); // not a cancellation point: it gets the lock first
    CHECK_EQ(pthread_mutex_unlock(&plain), 0);
    for (;;) pthread_testcancel();
    pthread_cleanup_pop(1);
    return unused;
}

static void *sleeps_asynchronously(void *unused) {
    CHECK_EQ(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL), 0);
    pthread_cleanup_push(counts, NULL);
    waiting = 1;
    for (;;) wait_on(&word, 0);
    pthread_cleanup_pop(1);
    return unused;
}

static void *calls_asynchronously(void *unused) {
    struct timespec soon = {0, 20000};
    CHECK_EQ(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL), 0);
    pthread_cleanup_push(counts, NULL);
    waiting = 1;
    for (;;) {
        wake(&word, 1);
        wait_on(&word, 1);
        futex(&word, FUTEX_WAIT_PRIVATE, 0, &soon, NULL, 0);
        futex(&word, FUTEX_CMP_REQUEUE_PRIVATE, 0, (void *)1, &waiting, 0);
    }
    pthread_cleanup_pop(1);
    return unused;
}

// Starts and cancels such a thread `times` times, sooner or later after it has begun to wait.
static void cancels(void *(*body)(void *), void *argument, int times) {
    cleaned = 0;
    for (int i = 0; i < times; i++) {
        waiting = 0;
        pthread_t thread = start(body, argument);
        while (!waiting) sched_yield();
        if (i % 4 == 1) nap_us(100);
        if (i % 4 == 2) sched_yield();
        CHECK_EQ(pthread_cancel(thread), 0);
        CHECK(join(thread) == PTHREAD_CANCELED);
    }
    CHECK_EQ(cleaned, times);
}

static void in_a_condition(void) {
    pthread_mutexattr_t attributes;
    CHECK_EQ(pthread_mutexattr_init(&attributes), 0);
    CHECK_EQ(pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK), 0);
    CHECK_EQ(pthread_mutex_init(&mutex, &attributes), 0);
    cancels(waits_for_a_condition, NULL, 1000);
    cancels(waits_for_a_condition, &cleaned, 500);
    CHECK_EQ(pthread_mutex_lock(&mutex), 0);
    CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
}

static void in_a_semaphore(void) {
    CHECK_EQ(sem_init(&semaphore, 0, 0), 0);
    cancels(waits_for_a_post, NULL, 1000);
    cancels(waits_for_a_post, &cleaned, 500);
    CHECK_EQ(sem_post(&semaphore), 0);
    CHECK_EQ(sem_trywait(&semaphore), 0);
    CHECK_ERRNO(sem_trywait(&semaphore), EAGAIN);
}

static void *posts_and_waits(void *unused) {
    pthread_cleanup_push(counts, NULL);
    CHECK_EQ(sem_post(&ready), 0);
    while (sem_wait(&semaphore)) CHECK_EQ(errno, EINTR);
    pthread_cleanup_pop(1);
    return unused;
}

// The thread is cancelled anywhere between its post and its sleep.
static void around_a_call(void) {
    CHECK_EQ(sem_init(&semaphore, 0, 0), 0);
    CHECK_EQ(sem_init(&ready, 0, 0), 0);
    cleaned = 0;
    for (int i = 0; i < 10000; i++) {
        pthread_t thread = start(posts_and_waits, NULL);
        CHECK_EQ(sem_wait(&ready), 0);
        CHECK_EQ(pthread_cancel(thread), 0);
        CHECK(join(thread) == PTHREAD_CANCELED);
    }
    CHECK_EQ(cleaned, 10000);
}

static int queue;

static void *sleeps_with_a_mask(void *which) {
    sigset_t none;
    sigemptyset(&none);
    fd_set files;
    FD_ZERO(&files);
    pthread_cleanup_push(counts, NULL);
    waiting = 1;
    for (;;) switch ((long)which % 4) {
        case 0: ppoll(NULL, 0, NULL, &none); break;
        case 1: pselect(0, &files, NULL, NULL, NULL, &none); break;
        case 2: epoll_pwait(queue, (struct epoll_event[1]){}, 1, -1, &none); break;
        default: sigsuspend(&none);
        }
    pthread_cleanup_pop(1);
    return NULL;
}

static void in_a_sleep_with_a_mask(void) {
    queue = epoll_create1(0);
    CHECK(queue >= 0);
    for (long which = 0; which < 4; which++) cancels(sleeps_with_a_mask, (void *)which, 200);
}

static void in_a_lock(void) {
    for (int i = 0; i < 100; i++) {
        cleaned = 0;
        waiting = 0;
        CHECK_EQ(pthread_mutex_lock(&plain), 0);
        pthread_t thread = start(waits_for_a_lock, NULL);
        while (!waiting) sched_yield();
        if (i % 2) nap_us(100);
        CHECK_EQ(pthread_cancel(thread), 0);
        sched_yield();
        CHECK_EQ(cleaned, 0);
        CHECK_EQ(pthread_mutex_unlock(&plain), 0);
        CHECK(join(thread) == PTHREAD_CANCELED);
        CHECK_EQ(cleaned, 1);
    }
}

// The cancelled call has ended or was never made: no thread is queued afterwards, and no lock of a table stays locked.
static void asynchronously_in_a_futex_call(void) {
    cancels(sleeps_asynchronously, NULL, 500);
    CHECK_EQ(waiters(&word), 0);
    cancels(calls_asynchronously, NULL, 1000);
    CHECK_EQ(waiters(&word), 0);
    CHECK_EQ(wake(&word, 1), 0);
    CHECK_EQ(waiters((_Atomic uint32_t *)&waiting), 0);
}

static atomic_int right;

static void *takes_one(void *unused) {
    pthread_cleanup_push(counts, NULL);
    while (sem_wait(&semaphore)) CHECK_EQ(errno, EINTR);
    atomic_fetch_add(&right, 1);
    pthread_cleanup_pop(0);
    return unused;
}

// Each post is taken by a thread that was not cancelled, or is left in the semaphore. No post is lost.
static void posts_against_cancels(void) {
    CHECK_EQ(sem_init(&semaphore, 0, 0), 0);
    int posted = 0;
    right = 0;
    for (int i = 0; i < 500; i++) {
        pthread_t one = start(takes_one, NULL), other = start(takes_one, NULL);
        if (i % 2) sched_yield();
        CHECK_EQ(sem_post(&semaphore), 0);
        posted++;
        pthread_cancel(one);
        pthread_cancel(other);
        join(one);
        join(other);
    }
    int left;
    CHECK_EQ(sem_getvalue(&semaphore, &left), 0);
    CHECK_EQ(right + left, posted);
}

static pthread_key_t key;

static void destroys(void *value) {
    (void)value;
    CHECK_EQ(pthread_mutex_lock(&plain), 0);
    atomic_fetch_add(&cleaned, 1);
    CHECK_EQ(pthread_mutex_unlock(&plain), 0);
    CHECK_EQ(sem_post(&ready), 0);
}

static void *exits_deep(void *how) {
    CHECK_EQ(pthread_setspecific(key, &key), 0);
    pthread_cleanup_push(counts, NULL);
    if (how) pthread_exit(how);
    for (;;) pause();
    pthread_cleanup_pop(1);
}

static void with_data_of_threads(void) {
    CHECK_EQ(pthread_key_create(&key, destroys), 0);
    CHECK_EQ(sem_init(&ready, 0, 0), 0);
    cleaned = 0;
    for (int i = 0; i < 200; i++) {
        pthread_t thread = start(exits_deep, i % 2 ? &key : NULL);
        if (i % 4 < 2) CHECK_EQ(pthread_detach(thread), 0);
        if (i % 2 == 0) CHECK_EQ(pthread_cancel(thread), 0);
        if (i % 4 >= 2) CHECK(join(thread) == (i % 2 ? (void *)&key : PTHREAD_CANCELED));
    }
    for (int i = 0; i < 200; i++)
        while (sem_wait(&ready)) CHECK_EQ(errno, EINTR);
    CHECK_EQ(cleaned, 400); // the clean-up handler and the thread-specific data of each thread
}

MAIN(CASE(in_a_condition), CASE(in_a_semaphore), CASE(around_a_call), CASE(in_a_sleep_with_a_mask), CASE(in_a_lock),
     CASE(asynchronously_in_a_futex_call), CASE(posts_against_cancels), CASE(with_data_of_threads))
