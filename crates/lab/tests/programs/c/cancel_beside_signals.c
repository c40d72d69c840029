// Threads are cancelled in waits while other signals arrive for them. An unwinder that starts in a handler which has
// interrupted another handler must unwind both handlers' frames. Otherwise the clean-ups of the function that they have
// interrupted do not run. Compiled with -fexceptions, as C++ is.
#include "check.h"
#include <gnu/libc-version.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/user.h>

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

static void waits(void) {
    waiting = 1;
    for (;;) {
        struct timespec soon = in_ms(CLOCK_REALTIME, 1);
        sem_timedwait(&semaphore, &soon);
    }
}

// Not static: gcc 16 warns of a static variable that nobody reads, also of a volatile one.
volatile unsigned computed;

static void computes(void) {
    waiting = 1;
    for (;;) computed++;
}

// What a thread does that is cancelled anywhere in it. Wherever that is, its caller is at a call, whose clean-ups are known. The
// compiler must not see that it cannot throw.
static void (*volatile works)(void);
static atomic_int thread_id;

static void *is_cancelled_anywhere(void *unused) {
    int here __attribute__((cleanup(counts))) = 0;
    thread_id = (int)syscall(SYS_gettid);
    CHECK_EQ(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL), 0);
    works();
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
static void anywhere(void) {
    works = waits;
    cancels(is_cancelled_anywhere);
}

// What the test and the process that stops the thread tell each other.
static struct {
    // How many instructions the thread executes of what runs when a signal has arrived.
    atomic_int steps;
    enum { NOTHING, TRACES, MAY_NOT_TRACE, IS_THERE, IS_IN_HANDLER } _Atomic state;
} *tracing;

static void until_it_stops_with(int signal, int thread) {
    int status;
    CHECK_EQ(waitpid(thread, &status, __WALL), thread);
    CHECK(WIFSTOPPED(status));
    CHECK_EQ(WSTOPSIG(status), signal);
}

// The other process.
static void steps_through_delivery(int thread) {
    if (ptrace(PTRACE_SEIZE, thread, NULL, NULL) != 0) {
        tracing->state = MAY_NOT_TRACE;
        return;
    }
    tracing->state = TRACES;
    until_it_stops_with(SIGUSR1, thread);
    struct user_regs_struct registers = {0};
    for (int i = 0; i < tracing->steps && registers.rip != (unsigned long)nothing; i++) {
        CHECK_EQ(ptrace(PTRACE_SINGLESTEP, thread, NULL, i == 0 ? (long)SIGUSR1 : 0L), 0);
        until_it_stops_with(SIGTRAP, thread);
        CHECK_EQ(ptrace(PTRACE_GETREGS, thread, NULL, &registers), 0);
    }
    tracing->state = registers.rip == (unsigned long)nothing ? IS_IN_HANDLER : IS_THERE;
    while (tracing->state != NOTHING) sched_yield();
    CHECK_EQ(ptrace(PTRACE_DETACH, thread, NULL, NULL), 0);
}

// Cancels a thread so many instructions behind the arrival of another signal. Whether they are not those of its handler.
static int is_cancelled_after(int steps) {
    waiting = cleaned = 0;
    pthread_t thread = start(is_cancelled_anywhere, NULL);
    while (!waiting) sched_yield();
    tracing->steps = steps;
    tracing->state = NOTHING;
    pid_t tracer = fork();
    if (tracer == 0) {
        steps_through_delivery(thread_id);
        _exit(0);
    }
    while (tracing->state == NOTHING) sched_yield();
    if (tracing->state == MAY_NOT_TRACE) skip("a process may not trace its parent here");
    pthread_kill(thread, SIGUSR1);
    while (tracing->state == TRACES) sched_yield();
    int is_before_handler = tracing->state == IS_THERE;
    CHECK_EQ(pthread_cancel(thread), 0);
    tracing->state = NOTHING;
    int status;
    CHECK_EQ(waitpid(tracer, &status, 0), tracer);
    CHECK_EQ(status, 0);
    CHECK(join(thread) == PTHREAD_CANCELED);
    CHECK_EQ(cleaned, 1);
    return is_before_handler;
}

static void at_each_place_of_a_delivery(void) {
    struct sigaction action = {.sa_handler = nothing};
    CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
    tracing = mmap(NULL, sizeof *tracing, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(tracing != MAP_FAILED);
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY); // fails where all may trace
    works = computes;
    for (int steps = 1; is_cancelled_after(steps); steps++) {}
}

static sem_t answer;

static void *answers(void *unused) {
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ(sem_wait(&semaphore), 0);
        CHECK_EQ(sem_post(&answer), 0);
    }
    return unused;
}

// The semaphore that threads have been cancelled in still wakes one.
static void not_at_all(void) {
    CHECK_EQ(sem_init(&answer, 0, 0), 0);
    pthread_t thread = start(answers, NULL);
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ(sem_post(&semaphore), 0);
        CHECK_EQ(sem_wait(&answer), 0);
    }
    join(thread);
}

int main(int argc, char **argv) {
    CHECK_EQ(sem_init(&semaphore, 0, 0), 0);
    static const Case cases[] = {CASE(in_a_semaphore), CASE(in_a_condition), CASE(anywhere),
                                 CASE(at_each_place_of_a_delivery), CASE(not_at_all)};
    return run_cases(cases, sizeof cases / sizeof *cases, argc, argv);
}
