// Threads are cancelled in waits while other signals arrive for them. An unwinder that starts in a handler which has
// interrupted another handler must unwind both handlers' frames. Otherwise the clean-ups of the function that they have
// interrupted do not run. Compiled with -fexceptions, as C++ is.
#include "check.h"
#include <gnu/libc-version.h>
#include <semaphore.h>

enum { THREADS = 200 };

static atomic_int cleaned, waiting;
static sem_t semaphore;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;

static void counts(int *unused) {
    (void)unused;
    cleaned++;
}

static void unlocks(pthread_mutex_t **locked) { CHECK_EQ(pthread_mutex_unlock(*locked), 0); }

static void *waits_for_a_post(void *unused) {
    int here __attribute__((cleanup(counts))) = 0;
    waiting = 1;
    for (;;) sem_wait(&semaphore);
    return unused;
}

static void *waits_for_a_condition(void *unused) {
    int here __attribute__((cleanup(counts))) = 0;
    CHECK_EQ(pthread_mutex_lock(&mutex), 0);
    pthread_mutex_t *locked __attribute__((cleanup(unlocks))) = &mutex;
    waiting = 1;
    for (;;) pthread_cond_wait(&condition, &mutex);
    return unused;
}

static void *waits_and_is_cancelled_anywhere(void *unused) {
    int here __attribute__((cleanup(counts))) = 0;
    CHECK_EQ(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL), 0);
    waiting = 1;
    for (;;) {
        struct timespec soon = in_ms(CLOCK_REALTIME, 1);
        sem_timedwait(&semaphore, &soon);
    }
    return unused;
}

static void nothing(int signal) { (void)signal; }

static void cancels(void *(*body)(void *)) {
    // glibc from 2.41 on forgets a cancellation whose signal interrupts another handler, if the wait is then restarted.
    int restarts = strverscmp(gnu_get_libc_version(), "2.41") < 0 ? SA_RESTART : 0;
    struct sigaction action = {.sa_handler = nothing, .sa_flags = restarts};
    CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
    CHECK_EQ(sigaction(SIGUSR2, &action, NULL), 0);
    cleaned = 0;
    for (int i = 0; i < THREADS; i++) {
        waiting = 0;
        pthread_t thread = start(body, NULL);
        while (!waiting) sched_yield();
        if (i % 2) nap_us(100 + i * 37 % 200);
        pthread_kill(thread, SIGUSR1);
        CHECK_EQ(pthread_cancel(thread), 0);
        pthread_kill(thread, SIGUSR2);
        CHECK(join(thread) == PTHREAD_CANCELED);
    }
    CHECK_EQ(cleaned, THREADS);
}

static void in_a_semaphore(void) { cancels(waits_for_a_post); }
static void in_a_condition(void) { cancels(waits_for_a_condition); }
static void anywhere(void) { cancels(waits_and_is_cancelled_anywhere); }

int main(int argc, char **argv) {
    CHECK_EQ(sem_init(&semaphore, 0, 0), 0);
    static const Case cases[] = {CASE(in_a_semaphore), CASE(in_a_condition), CASE(anywhere)};
    return run_cases(cases, sizeof cases / sizeof *cases, argc, argv);
}
