// A second preloaded library replaces the functions that the library of `ufutex run` replaces (chain_library.c, whose path
// is the first argument). Each of the program's calls reaches both, whichever comes first in LD_PRELOAD.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#include "futex.h"
#include <dlfcn.h>

static atomic_int handled;
static void handler(int signal) { handled += signal == SIGUSR1; }

static int *counter(const char *name) {
    int *at = dlsym(RTLD_DEFAULT, name);
    CHECK(at);
    return at;
}

static const char *name_of(void (*function)(int)) {
    return function == handler ? "the handler" : function == SIG_ERR ? "an error" : function ? "another" : "none";
}

static void installed(const char *how, struct sigaction *was) {
    int *theirs = counter("chain_handled"), before = *theirs, ours = handled;
    raise(SIGUSR1);
    printf("%s: handled %d, by the library before %d", how, handled - ours, *theirs - before);
    struct sigaction now;
    CHECK_EQ(sigaction(SIGUSR1, NULL, &now), 0);
    printf(", now %s, flags %x", name_of(now.sa_handler),
           now.sa_flags & ~SA_SIGINFO & ~0x04000000);
    if (was) printf(", before %s", name_of(was->sa_handler));
    printf("\n");
}

static void actions(void) {
    int *actions = counter("chain_actions"), *signals = counter("chain_signals"), before = *actions;
    struct sigaction new = {.sa_handler = handler, .sa_flags = SA_RESTART}, was;
    CHECK_EQ(sigaction(SIGUSR1, &new, &was), 0);
    CHECK(*actions > before);
    installed("sigaction", &was);
    CHECK_EQ(sigaction(SIGUSR1, &new, &was), 0);
    installed("again", &was);
    before = *signals;
    printf("signal: before %s\n", name_of(signal(SIGUSR1, handler)));
    CHECK_EQ(*signals, before + 1);
    raise(SIGUSR1);
    printf("signal again: before %s\n", name_of(signal(SIGUSR1, SIG_DFL)));
    // libc's own functions call libc's sigaction.
    printf("sigset: before %s\n", name_of(sigset(SIGUSR1, handler)));
    CHECK_EQ(siginterrupt(SIGUSR1, 1), 0);
    printf("sysv_signal: before %s\n", name_of(sysv_signal(SIGUSR1, handler)));
    raise(SIGUSR1);
    CHECK_EQ(sigaction(SIGUSR1, NULL, &was), 0);
    printf("after it: %s, flags %x\n", name_of(was.sa_handler), was.sa_flags & ~0x04000000);
}

// A handler that the library has put before the program's may make futex calls, too.
static _Atomic uint32_t word;
static void wakes(int signal) {
    (void)signal;
    wake(&word, 1);
}
static void *waits(void *thread) {
    struct timespec soon = {0, 1000};
    for (int i = 0; i < 20000; i++) {
        if (i % 100 == 0) pthread_kill(*(pthread_t *)thread, SIGUSR1);
        futex(&word, FUTEX_WAIT_PRIVATE, 0, &soon, NULL, 0);
        wake(&word, 1);
    }
    return NULL;
}
static void handlers_that_wake(void) {
    struct sigaction new = {.sa_handler = wakes, .sa_flags = SA_RESTART};
    CHECK_EQ(sigaction(SIGUSR1, &new, NULL), 0);
    pthread_t me = pthread_self();
    pthread_t thread = start(waits, &me);
    join(thread);
}

static void calls(void) {
    int *calls = counter("chain_calls"), before = *calls;
    CHECK_EQ(syscall(SYS_getpid), getpid());
    CHECK_EQ(*calls, before + 1);
}

static void ends(void) {
    void (*ways[])(int) = {_exit, _Exit, quick_exit};
    for (int way = 0; way < 3; way++) {
        pid_t child = fork();
        if (child == 0) ways[way](40);
        reap(child, 41);
    }
}

int main(int argc, char **argv) {
    static const Case cases[] = {CASE(actions), CASE(handlers_that_wake), CASE(calls), CASE(ends)};
    CHECK_EQ(argc, 3);
    char *preload = getenv("LD_PRELOAD");
    if (!preload || !strstr(preload, argv[1])) {
        char both[8192];
        int first = !strcmp(argv[2], "first");
        const char *one = first ? argv[1] : preload, *two = first ? preload : argv[1];
        snprintf(both, sizeof both, "%s%s%s", one ? one : "", preload ? ":" : "", two ? two : "");
        CHECK_EQ(setenv("LD_PRELOAD", both, 1), 0);
        execv("/proc/self/exe", argv);
        fail(__FILE__, __LINE__, "execv", 0, 0);
    }
    return run_cases(cases, sizeof cases / sizeof *cases, 1, argv);
}
