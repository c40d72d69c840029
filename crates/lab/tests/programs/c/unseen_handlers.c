// Handlers that are not installed through libc's symbols: by dlsym(3) on libc's handle, or by the instruction. They make
// futex calls, also if they interrupt a futex call of their thread.
#include "futex.h"
#include <dlfcn.h>
#include <semaphore.h>

#define WORDS 4

static _Atomic uint32_t words[WORDS], asked, answered;
static atomic_int stop, ended;
static atomic_long handled;
static pthread_t victim;

static void handler(int signal) {
    (void)signal;
    int saved = errno;
    for (int i = 0; i < WORDS; i++) wake(&words[i], 1);
    handled++;
    errno = saved;
}

static void *makes_calls(void *unused) {
    for (unsigned i = 0; !stop; i++) {
        struct timespec at_once = {0, 1};
        futex(&words[i % WORDS], FUTEX_WAIT_PRIVATE, 0, &at_once, NULL, 0);
        wake(&words[i % WORDS], 1);
        futex(&words[i % WORDS], FUTEX_REQUEUE_PRIVATE, 1, (void *)1, &words[(i + 1) % WORDS], 0);
    }
    return unused;
}

static void storm(void) {
    stop = handled = 0;
    victim = start(makes_calls, NULL);
    while (handled < 2000) {
        pthread_kill(victim, SIGUSR1);
        for (volatile int n = 0; n < 2000; n++) {}
    }
    stop = 1;
    join(victim);
}

// A handler that wakes another thread while its own thread sleeps; that thread then wakes the sleeper.
static void asks(int signal) {
    (void)signal;
    int saved = errno;
    asked++;
    wake(&asked, 1);
    errno = saved;
}
static void *sleeps(void *unused) {
    while (!answered) futex(&answered, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
    return unused;
}
static void *answers(void *unused) {
    while (!asked) futex(&asked, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
    answered = 1;
    wake(&answered, 1);
    return unused;
}
static void woken_while_asleep(void (*install)(void (*)(int), int)) {
    for (int restart = 0; restart < 2; restart++) {
        install(asks, restart ? SA_RESTART : 0);
        asked = answered = 0;
        pthread_t sleeper = start(sleeps, NULL), other = start(answers, NULL);
        until_waiters(&answered, 1);
        until_waiters(&asked, 1);
        pthread_kill(sleeper, SIGUSR1);
        join(sleeper);
        join(other);
    }
}

// As in the kernel, a wait is made again after a handler with SA_RESTART, and is EINTR after another.
static long result;
static int error;
static void does_nothing(int signal) { (void)signal; }
static void *waits(void *word) {
    struct timespec span = {20, 0}, *timeout = stop ? &span : NULL;
    result = futex(word, FUTEX_WAIT_PRIVATE, 0, timeout, NULL, 0);
    error = errno;
    ended = 1;
    return NULL;
}
static void results(void (*install)(void (*)(int), int)) {
    for (int way = 0; way < 4; way++) {
        int restarts = way & 1;
        install(does_nothing, restarts ? SA_RESTART : 0);
        stop = way >> 1;
        ended = 0;
        pthread_t thread = start(waits, &words[0]);
        until_waiters(&words[0], 1);
        pthread_kill(thread, SIGUSR1);
        // A wait that is made again is woken; the others have ended or will.
        for (int i = 0; i < 100 && !ended; i++) nap_us(1000);
        if (restarts && !stop) until_waiters(&words[0], 1);
        while (!ended) wake(&words[0], restarts && !stop), nap_us(200);
        join(thread);
        errno = error;
        show(result, "%s, %s", restarts ? "restarts" : "does not restart", stop ? "with a timeout" : "without");
    }
}

static void by_handle_with(void (*function)(int), int flags) {
    void *libc = dlopen("libc.so.6", RTLD_NOW);
    CHECK(libc);
    int (*install)(int, const struct sigaction *, struct sigaction *) = dlsym(libc, "sigaction");
    struct sigaction action = {.sa_handler = function, .sa_flags = flags}, now;
    CHECK_EQ(install(SIGUSR1, &action, NULL), 0);
    CHECK_EQ(install(SIGUSR1, NULL, &now), 0);
    CHECK(now.sa_handler == function);
}

__asm__(".pushsection .text\nreturns: mov $15, %eax\nsyscall\n.popsection");
extern char returns[];

static void by_instruction_with(void (*function)(int), int flags) {
    struct {
        void (*handler)(int);
        unsigned long flags;
        void *restorer;
        unsigned long mask;
    } action = {function, (unsigned long)flags | 0x04000000, returns, 0};
    CHECK_EQ(instruction(SYS_rt_sigaction, SIGUSR1, ARGUMENT(&action), 0, 8, 0, 0), 0);
}

static void by_handle(void) { by_handle_with(handler, SA_RESTART), storm(); }
static void by_instruction(void) { by_instruction_with(handler, SA_RESTART), storm(); }
static void asleep_by_handle(void) { woken_while_asleep(by_handle_with), results(by_handle_with); }
static void asleep_by_instruction(void) { woken_while_asleep(by_instruction_with), results(by_instruction_with); }

MAIN(CASE(by_handle), CASE(by_instruction), CASE(asleep_by_handle), CASE(asleep_by_instruction))
