// The action that sigaction() returns can be installed again by rt_sigaction(2): flags and restorer are returned as
// they are without the library.
#include "check.h"

#define RESTORER 0x04000000ul

typedef struct {
    void (*handler)(int);
    unsigned long flags;
    void (*restorer)(void);
    unsigned long mask;
} Kernels;

static volatile sig_atomic_t times;

static void handler(int signal) {
    (void)signal;
    times++;
}

// By libc's function or by the instruction, which only a trap intercepts.
static long rt_sigaction(int by_function, int signal, const Kernels *new, Kernels *old) {
    if (by_function) return syscall(SYS_rt_sigaction, signal, new, old, 8);
    long result;
    register long size __asm__("r10") = 8;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(SYS_rt_sigaction), "D"(signal), "S"(new), "d"(old), "r"(size)
                     : "rcx", "r11", "memory");
    return result;
}

static void passed_on(void) {
    for (int by_function = 0; by_function < 2; by_function++) {
        struct sigaction action = {.sa_handler = handler}, told;
        CHECK_EQ(sigaction(SIGUSR2, &action, NULL), 0);
        CHECK_EQ(sigaction(SIGUSR2, NULL, &told), 0);
        Kernels same = {.handler = told.sa_handler, .flags = (unsigned)told.sa_flags, .restorer = told.sa_restorer};
        CHECK_EQ(rt_sigaction(by_function, SIGUSR2, &same, NULL), 0);
        CHECK_EQ(rt_sigaction(by_function, SIGRTMIN + 3, &same, NULL), 0);
        times = 0;
        CHECK_EQ(raise(SIGUSR2), 0);
        CHECK_EQ(raise(SIGRTMIN + 3), 0);
        CHECK_EQ(times, 2);
        CHECK_EQ(sigaction(SIGRTMIN + 3, NULL, &told), 0);
        CHECK_EQ(told.sa_handler == handler, 1);
    }
}

static void print(int signal, const char *when) {
    struct sigaction told;
    CHECK_EQ(sigaction(signal, NULL, &told), 0);
    printf("%s %s: handler %ld flags %x restorer %d\n", sigabbrev_np(signal), when,
           told.sa_handler == handler ? 99 : (long)told.sa_handler, told.sa_flags, told.sa_restorer != NULL);
}

static void flags(void) {
    static const int signals[] = {SIGUSR1, SIGUSR2, SIGSEGV, SIGBUS, SIGTERM, SIGSYS};
    static const int sets[] = {0, SA_RESTART, SA_SIGINFO | SA_ONSTACK, SA_NODEFER | SA_RESETHAND, SA_NOCLDSTOP};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        print(signals[i], "at first");
        for (size_t j = 0; j < sizeof sets / sizeof *sets; j++) {
            struct sigaction action = {.sa_handler = handler, .sa_flags = sets[j]};
            CHECK_EQ(sigaction(signals[i], &action, NULL), 0);
            print(signals[i], "handled");
        }
        for (int none = 0; none < 2; none++) {
            struct sigaction action = {.sa_handler = none ? SIG_IGN : SIG_DFL, .sa_flags = SA_RESTART};
            CHECK_EQ(sigaction(signals[i], &action, NULL), 0);
            print(signals[i], none ? "ignored" : "default");
        }
        CHECK(signal(signals[i], handler) == SIG_IGN);
        print(signals[i], "by signal()");
        CHECK(signal(signals[i], SIG_DFL) == handler);
    }
}

// An action without a restorer is returned without one.
static void without(void) {
    for (int by_function = 0; by_function < 2; by_function++) {
        Kernels action = {.handler = handler, .flags = SA_RESTART}, told;
        CHECK_EQ(rt_sigaction(by_function, SIGUSR1, &action, NULL), 0);
        CHECK_EQ(rt_sigaction(by_function, SIGUSR1, NULL, &told), 0);
        CHECK_EQ(told.flags, SA_RESTART);
        CHECK(told.restorer == NULL);
        print(SIGUSR1, "without");
        CHECK(signal(SIGUSR1, SIG_DFL) == handler);
    }
}

MAIN(CASE(passed_on), CASE(flags), CASE(without))
