// A timer interrupts each thread thousands of times a second. Its handler posts semaphores and makes futex calls, and
// the thread does the same: nothing hangs and no post is lost.
#include "futex.h"
#include <semaphore.h>
#include <sys/time.h>

#define THREADS 3
#define MS 300

static sem_t posted, traded;
static atomic_long posts, hits;
static _Atomic uint32_t busy, rung;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static long under_lock;
static struct timespec end;
static atomic_int over;
static int period_us = 400;

static void handler(int signal) {
    int error = errno;
    (void)signal;
    CHECK_EQ(sem_post(&posted), 0);
    atomic_fetch_add(&posts, 1);
    CHECK(wake(&rung, 1) >= 0);
    CHECK_ERRNO(wait_on(&busy, 1), EAGAIN);
    struct timespec short_time = {0, 1};
    CHECK_EQ(futex(&busy, FUTEX_WAIT_PRIVATE, 0, &short_time, NULL, 0), -1);
    CHECK(errno == ETIMEDOUT || errno == EINTR);
    CHECK(futex(&rung, FUTEX_CMP_REQUEUE_PRIVATE, 0, (void *)1, &rung, rung) >= 0 || errno == EAGAIN);
    errno = error;
}

static timer_t interrupt_this_thread(int us) {
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN};
    event._sigev_un._tid = gettid();
    CHECK_EQ(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
    struct itimerspec every = {{0, us * 1000}, {0, us * 1000}};
    CHECK_EQ(timer_settime(timer, 0, &every, NULL), 0);
    return timer;
}

static void *works(void *number) {
    timer_t timer = interrupt_this_thread(period_us * (4 + 3 * (long)number) / 4);
    while (!passed(CLOCK_MONOTONIC, &end) || !posts || !hits) {
        CHECK_EQ(pthread_mutex_lock(&mutex), 0);
        long seen = under_lock;
        under_lock = seen + 1;
        if (seen % 4 == 0) {
            struct timespec soon = in_ms(CLOCK_MONOTONIC, 1);
            int error = pthread_cond_clockwait(&condition, &mutex, CLOCK_MONOTONIC, &soon);
            CHECK(error == 0 || error == ETIMEDOUT);
        }
        CHECK_EQ(pthread_cond_signal(&condition), 0);
        CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
        while (sem_wait(&traded)) CHECK_EQ(errno, EINTR);
        CHECK_EQ(sem_post(&traded), 0);
        struct timespec soon = {0, 100000};
        long result = futex(&rung, FUTEX_WAIT_PRIVATE, 0, &soon, NULL, 0);
        CHECK(result == 0 || errno == ETIMEDOUT || errno == EINTR);
        atomic_fetch_add(&hits, 1);
    }
    CHECK_EQ(timer_delete(timer), 0);
    sigset_t signals;
    sigemptyset(&signals), sigaddset(&signals, SIGRTMIN);
    CHECK_EQ(pthread_sigmask(SIG_BLOCK, &signals, NULL), 0);
    return NULL;
}

static void storm(int flags, int full_mask) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    if (full_mask) sigfillset(&action.sa_mask);
    CHECK_EQ(sigaction(SIGRTMIN, &action, NULL), 0);
    CHECK_EQ(sem_init(&posted, 0, 0), 0);
    CHECK_EQ(sem_init(&traded, 0, 1), 0);
    posts = hits = under_lock = 0;
    end = in_ms(CLOCK_MONOTONIC, MS);
    on_threads(THREADS, works);
    int value;
    CHECK_EQ(sem_getvalue(&posted, &value), 0);
    CHECK_EQ(value, posts);
    CHECK_EQ(sem_getvalue(&traded, &value), 0);
    CHECK_EQ(value, 1);
    CHECK(posts > 0);
    CHECK_EQ(waiters(&rung), 0);
}

static void interrupting(void) { storm(0, 0); }
static void restarting(void) { storm(SA_RESTART, 0); }
static void with_all_blocked(void) { storm(SA_RESTART, 1); }
// A handler may be interrupted by the next signal, rarely enough for the stack.
static void nested(void) {
    period_us = 1500;
    storm(SA_NODEFER, 0);
}

static sem_t wanted;
static atomic_long given;

static void gives(int signal) {
    (void)signal;
    CHECK_EQ(sem_post(&wanted), 0);
    atomic_fetch_add(&given, 1);
}

// All posts come from handlers, in whichever thread the process's timer interrupts. Each post lets one waiter continue.
static void *wants(void *unused) {
    for (int i = 0; i < 60; i++)
        while (sem_wait(&wanted)) CHECK_EQ(errno, EINTR);
    return unused;
}

static void posts_of_setitimer(void) {
    CHECK_EQ(sem_init(&wanted, 0, 0), 0);
    struct sigaction action = {.sa_handler = gives};
    CHECK_EQ(sigaction(SIGALRM, &action, NULL), 0);
    struct itimerval every = {{0, 500}, {0, 500}}, never = {0};
    CHECK_EQ(setitimer(ITIMER_REAL, &every, NULL), 0);
    on_threads(4, wants);
    CHECK_EQ(setitimer(ITIMER_REAL, &never, NULL), 0);
    int value;
    CHECK_EQ(sem_getvalue(&wanted, &value), 0);
    CHECK_EQ(value, given - 240);
}

static pthread_t targets[THREADS];

static void *rings(void *unused) {
    while (!over) {
        long result = wait_on(&rung, 0);
        CHECK(result == 0 || errno == EINTR || errno == EAGAIN);
        atomic_fetch_add(&hits, 1);
    }
    return unused;
}

// Signals are sent as fast as possible to threads that sleep and are woken as fast.
static void signals_against_wakes(void) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
    hits = posts = 0;
    CHECK_EQ(sem_init(&posted, 0, 0), 0);
    for (int i = 0; i < THREADS; i++) targets[i] = start(rings, NULL);
    end = in_ms(CLOCK_MONOTONIC, MS);
    while (!passed(CLOCK_MONOTONIC, &end))
        for (int i = 0; i < THREADS; i++) {
            CHECK_EQ(pthread_kill(targets[i], SIGUSR1), 0);
            wake(&rung, 1);
        }
    over = 1;
    atomic_store(&rung, 1);
    for (int i = 0; i < THREADS; i++) {
        while (pthread_tryjoin_np(targets[i], NULL) == EBUSY) {
            wake(&rung, INT_MAX);
            nap_us(200);
        }
    }
    int value;
    CHECK_EQ(sem_getvalue(&posted, &value), 0);
    CHECK_EQ(value, posts);
    rung = 0;
}

MAIN(CASE(interrupting), CASE(restarting), CASE(with_all_blocked), CASE(nested), CASE(posts_of_setitimer),
     CASE(signals_against_wakes))
