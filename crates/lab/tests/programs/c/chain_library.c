// A library that is preloaded beside the library of `ufutex run`, for chained.c: it replaces functions that the other
// library may replace too, and passes each call on to the next library, as OpenJDK's libjsig and sanitizers do. It counts
// the calls, and puts a handler of its own before each handler of the program.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <unistd.h>

int chain_actions, chain_signals, chain_calls, chain_exits, chain_handled;
static struct sigaction program[65];

#define NEXT(name, type) ((type)dlsym(RTLD_NEXT, name))

static void handler(int signal, siginfo_t *info, void *context) {
    chain_handled++;
    if (program[signal].sa_flags & SA_SIGINFO)
        program[signal].sa_sigaction(signal, info, context);
    else
        program[signal].sa_handler(signal);
}

int sigaction(int signal, const struct sigaction *new, struct sigaction *old) {
    chain_actions++;
    struct sigaction before = program[signal], mine;
    if (new) {
        mine = *new;
        program[signal] = *new;
        if (new->sa_handler != SIG_DFL && new->sa_handler != SIG_IGN) {
            mine.sa_sigaction = handler;
            mine.sa_flags |= SA_SIGINFO;
        }
        new = &mine;
    }
    int result = NEXT("sigaction", int (*)(int, const struct sigaction *, struct sigaction *))(signal, new, old);
    // ThreadSanitizer looks for its own handler so.
    if (result == 0 && old && old->sa_sigaction == handler) *old = before;
    return result;
}

__sighandler_t signal(int signal, __sighandler_t to) {
    chain_signals++;
    return NEXT("signal", __sighandler_t (*)(int, __sighandler_t))(signal, to);
}

long syscall(long number, ...) {
    long a[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++) a[i] = va_arg(list, long);
    va_end(list);
    chain_calls++;
    return NEXT("syscall", long (*)(long, ...))(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

_Noreturn void _exit(int status) {
    NEXT("_exit", void (*)(int))(status + ++chain_exits);
    __builtin_unreachable();
}

// Without a version, where glibc's has two.
_Noreturn void quick_exit(int status) {
    NEXT("quick_exit", void (*)(int))(status + ++chain_exits);
    __builtin_unreachable();
}

_Noreturn void _Exit(int status) {
    NEXT("_Exit", void (*)(int))(status + ++chain_exits);
    __builtin_unreachable();
}
