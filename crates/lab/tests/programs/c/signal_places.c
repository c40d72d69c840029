// Signals that arrive around system calls find their thread at the call, never in the library of `ufutex run`: the handler's
// context is the program's, and so is its mask. Handlers that unwind, and libc's own of pthread_cancel, depend on that.
#include "futex.h"
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/ucontext.h>

static uintptr_t begins, ends; // of the library, if it is there
static _Atomic uint32_t word, sent, seen;
static atomic_int over, calling, inside, other_mask;
static pthread_t receiver;

static void find_library(void) {
    FILE *maps = fopen("/proc/self/maps", "r");
    CHECK(maps != NULL);
    char line[5000];
    while (fgets(line, sizeof line, maps)) {
        unsigned long first, end;
        if (!strstr(line, "/libufutex_preload.so") || sscanf(line, "%lx-%lx", &first, &end) != 2) continue;
        if (!begins) begins = first;
        ends = end;
    }
    fclose(maps);
}

static void handler(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    ucontext_t *at = context;
    uintptr_t rip = (uintptr_t)at->uc_mcontext.gregs[REG_RIP];
    inside += calling && rip >= begins && rip < ends;
    other_mask += sigismember(&at->uc_sigmask, SIGUSR2) != 1 || sigismember(&at->uc_sigmask, SIGUSR1) != 0;
    seen++;
}

static void *sends(void *unused) {
    while (!over) {
        while (seen != sent && !over) {}
        sent++;
        CHECK_EQ(pthread_kill(receiver, SIGUSR1), 0);
        for (volatile unsigned i = 0; i < sent % 2000; i++) {} // a little later each time
    }
    return unused;
}

// Runs `call` under such signals, for as many of them.
static void under_signals(const char *name, void (*call)(void)) {
    over = inside = other_mask = 0;
    sent = seen = 0;
    pthread_t sender = start(sends, NULL);
    calling = 1; // not a function that the library replaces
    while (seen < 3000) call();
    calling = 0;
    over = 1;
    join(sender);
    CHECK_EQ(inside, 0);
    CHECK_EQ(other_mask, 0);
    printf("%s\n", name);
}

static const struct timespec soon = {0, 20000};
static sigset_t none;

static void differs(void) { CHECK_ERRNO(futex(&word, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0), EAGAIN); }
static void wakes(void) { CHECK_EQ(wake(&word, 1), 0); }
static void waits(void) {
    CHECK_EQ(futex(&word, FUTEX_WAIT_PRIVATE, 0, &soon, NULL, 0), -1);
    CHECK(errno == ETIMEDOUT || errno == EINTR);
}
static void masks(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    CHECK_EQ(sys(SYS_rt_sigprocmask, SIG_SETMASK, ARGUMENT(&set), 0, 8, 0, 0), 0);
}
static void polls(void) {
    long result = sys(SYS_ppoll, 0, 0, ARGUMENT(&soon), ARGUMENT(&none), 8, 0);
    if (result) CHECK_ERRNO(result, EINTR);
}
static void selects(void) {
    struct timespec time = soon;
    long masked[2] = {ARGUMENT(&none), 8};
    long result = sys(SYS_pselect6, 0, 0, 0, 0, ARGUMENT(&time), ARGUMENT(masked));
    if (result) CHECK_ERRNO(result, EINTR);
}
static void suspends(void) { CHECK_ERRNO(sys(SYS_rt_sigsuspend, ARGUMENT(&none), 8, 0, 0, 0, 0), EINTR); }

int main(void) {
    find_library();
    receiver = pthread_self();
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
    masks();
    sigemptyset(&none);
    under_signals("waits for another value", differs);
    under_signals("wakes", wakes);
    under_signals("waits", waits);
    under_signals("sets the mask", masks);
    under_signals("polls", polls);
    under_signals("selects", selects);
    under_signals("suspends", suspends);
    return 0;
}
