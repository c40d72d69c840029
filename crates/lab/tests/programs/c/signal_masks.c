// Masks are read back as they were set and block their signals. Calls that wait with a mask of their own work. A thread
// that has blocked all signals can still use locks.
#include "futex.h"
#include <poll.h>
#include <semaphore.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <sys/epoll.h>
#include <ucontext.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static sem_t semaphore, given;
static long counter;
static atomic_int handled;

static void handler(int signal) {
    (void)signal;
    atomic_fetch_add(&handled, 1);
    CHECK_EQ(sem_post(&given), 0);
}

// Without SIGSYS: a trap works by it and keeps it unblocked.
static void print_mask(const char *name) {
    sigset_t set;
    CHECK_EQ(pthread_sigmask(SIG_BLOCK, NULL, &set), 0);
    printf("%s:", name);
    for (int i = 1; i <= SIGRTMAX; i++)
        if (i != SIGSYS && sigismember(&set, i) == 1) printf(" %d", i);
    printf("\n");
}

static void round_trips(void) {
    sigset_t all, none, some, old;
    sigfillset(&all), sigemptyset(&none), sigemptyset(&some);
    sigaddset(&some, SIGTERM), sigaddset(&some, SIGUSR1);
    print_mask("at first");
    CHECK_EQ(pthread_sigmask(SIG_SETMASK, &all, &old), 0);
    print_mask("all");
    CHECK_EQ(sigprocmask(SIG_UNBLOCK, &some, &old), 0);
    printf("of the old: SIGTERM %d\n", sigismember(&old, SIGTERM));
    print_mask("all but some");
    CHECK_EQ(sigprocmask(SIG_SETMASK, &none, &old), 0);
    print_mask("none");
    CHECK_EQ(sigprocmask(SIG_BLOCK, &some, &old), 0);
    print_mask("some");
    pid_t child = fork();
    if (!child) {
        print_mask("some, in a child");
        _exit(0);
    }
    reap(child, 0);
    CHECK_EQ(sigprocmask(SIG_SETMASK, &old, NULL), 0);
    print_mask("at last");
    errno = pthread_sigmask(17, &all, NULL);
    show(errno ? -1 : 0, "no such request");
    errno = 0;
    show(syscall(SYS_rt_sigprocmask, SIG_BLOCK, &some, NULL, 4), "a set of another size");
}

static void *works_with_all_blocked(void *unused) {
    sigset_t all;
    sigfillset(&all);
    CHECK_EQ(pthread_sigmask(SIG_SETMASK, &all, NULL), 0);
    for (int i = 0; i < 3000; i++) {
        CHECK_EQ(pthread_mutex_lock(&mutex), 0);
        long seen = counter;
        if (i % 16 == 0) sched_yield();
        counter = seen + 1;
        CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
        CHECK_EQ(sem_wait(&semaphore), 0);
        CHECK_EQ(sem_post(&semaphore), 0);
    }
    // A new thread inherits the mask.
    if (unused) join(start(works_with_all_blocked, NULL));
    CHECK_EQ(pthread_sigmask(SIG_SETMASK, NULL, &all), 0);
    CHECK_EQ(sigismember(&all, SIGTERM), 1);
    return unused;
}

static void locks_with_all_blocked(void) {
    CHECK_EQ(sem_init(&semaphore, 0, 1), 0);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) threads[i] = start(works_with_all_blocked, &counter);
    for (int i = 0; i < 4; i++) join(threads[i]);
    CHECK_EQ(counter, 8 * 3000);
}

static void *blocks_all_by_syscall(void *unused) {
    uint64_t all = ~0ull;
    CHECK_EQ(syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, NULL, 8), 0);
    return works_with_all_blocked(unused);
}

static void locks_with_all_blocked_by_syscall(void) {
    counter = 0;
    on_threads(3, blocks_all_by_syscall);
    CHECK_EQ(counter, 4 * 3000 + 3000); // one of the threads has the number 0 and starts no second one
}

#define SIGNALS 3

// Sends each signal after the one before was handled.
static void *sends(void *thread) {
    for (int i = 0; i < SIGNALS; i++) {
        while (atomic_load(&handled) != i) nap_us(100);
        nap_us(500);
        CHECK_EQ(pthread_kill(*(pthread_t *)thread, SIGUSR1), 0);
    }
    return NULL;
}

static int epoll;

static long wait_with(int kind, const sigset_t *mask) {
    struct epoll_event event;
    switch (kind) {
    case 0: return sigsuspend(mask);
    case 1: return ppoll(NULL, 0, NULL, mask);
    case 2: return pselect(0, NULL, NULL, NULL, NULL, mask);
    default: return epoll_pwait(epoll, &event, 1, -1, mask);
    }
}

// The signal is blocked except in these waits. The handler posts, with all signals blocked or not.
static void waits_with_masks(void) {
    sigset_t all, only, none;
    sigfillset(&all), sigfillset(&only), sigemptyset(&none);
    sigdelset(&only, SIGUSR1);
    CHECK_EQ(sem_init(&given, 0, 0), 0);
    epoll = epoll_create1(0);
    for (int full = 0; full < 2; full++) {
        struct sigaction action = {.sa_handler = handler, .sa_mask = full ? all : none};
        CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
        CHECK_EQ(pthread_sigmask(SIG_SETMASK, &all, NULL), 0);
        pthread_t self = pthread_self();
        for (int kind = 0; kind < 5; kind++) {
            handled = 0;
            pthread_t sender = start(sends, &self);
            for (int i = 0; kind < 4 && i < SIGNALS; i++) show(wait_with(kind, &only), "kind %d", kind);
            if (kind == 4) CHECK_EQ(pthread_sigmask(SIG_SETMASK, &only, NULL), 0);
            for (int i = 0; i < SIGNALS; i++)
                while (sem_wait(&given)) CHECK_EQ(errno, EINTR);
            CHECK_EQ(pthread_sigmask(SIG_SETMASK, &all, NULL), 0);
            join(sender);
            CHECK_EQ(handled, SIGNALS);
        }
    }
    print_mask("after all of them");
    CHECK_EQ(pthread_sigmask(SIG_SETMASK, &none, NULL), 0);
}

static void blocks_another(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    sigaddset(&((ucontext_t *)context)->uc_sigmask, SIGUSR2);
}

// The handler that ends a wait changes the mask that the thread has afterwards.
static void masks_changed_by_handlers(void) {
    sigset_t blocked, none;
    sigemptyset(&none), sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    struct sigaction action = {.sa_sigaction = blocks_another, .sa_flags = SA_SIGINFO};
    CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
    for (int kind = 0; kind < 4; kind++) {
        CHECK_EQ(pthread_sigmask(SIG_SETMASK, &blocked, NULL), 0);
        CHECK_EQ(raise(SIGUSR1), 0);
        show(wait_with(kind, &none), "kind %d", kind);
        print_mask("after it");
    }
    CHECK_EQ(pthread_sigmask(SIG_SETMASK, &none, NULL), 0);
}

static void taken_without_a_handler(void) {
    sigset_t all, old;
    sigfillset(&all);
    CHECK_EQ(pthread_sigmask(SIG_SETMASK, &all, &old), 0);
    int got;
    CHECK_EQ(kill(getpid(), SIGUSR2), 0);
    CHECK_EQ(sigwait(&all, &got), 0);
    printf("sigwait: %d\n", got);
    siginfo_t info;
    CHECK_EQ(kill(getpid(), SIGTERM), 0);
    show(sigwaitinfo(&all, &info), "sigwaitinfo");
    struct timespec soon = {0, 3000000};
    show(sigtimedwait(&all, &info, &soon), "sigtimedwait");
    int descriptor = signalfd(-1, &all, 0);
    CHECK(descriptor >= 0);
    CHECK_EQ(kill(getpid(), SIGHUP), 0);
    struct signalfd_siginfo read_info;
    CHECK_EQ(read(descriptor, &read_info, sizeof read_info), (long)sizeof read_info);
    printf("signalfd: %u\n", read_info.ssi_signo);
    sigset_t pending;
    CHECK_EQ(kill(getpid(), SIGUSR1), 0);
    CHECK_EQ(sigpending(&pending), 0);
    printf("pending: %d\n", sigismember(&pending, SIGUSR1));
    CHECK_EQ(sigwait(&all, &got), 0);
    CHECK_EQ(pthread_sigmask(SIG_SETMASK, &old, NULL), 0);
}

static pthread_t main_thread;

static void *interrupts(void *unused) {
    nap_us(30000);
    CHECK_EQ(pthread_kill(main_thread, SIGUSR1), 0);
    return unused;
}

// By default the signal ends the process: it must not be unblocked for a moment.
static void pending_trap_stays_pending(void) {
    sigset_t trap, old;
    sigemptyset(&trap), sigaddset(&trap, SIGTRAP);
    CHECK_EQ(pthread_sigmask(SIG_BLOCK, &trap, &old), 0);
    CHECK_EQ(kill(getpid(), SIGTRAP), 0);
    struct sigaction action = {.sa_handler = handler};
    CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
    CHECK_EQ(sem_init(&given, 0, 0), 0);
    main_thread = pthread_self();
    // A signal is put off, and its handler runs.
    uint32_t word = 0;
    struct timespec second = {1, 0};
    for (int i = 0; i < 2; i++) {
        pthread_t thread = start(interrupts, NULL);
        errno = 0;
        long result = i ? sem_clockwait(&semaphore, CLOCK_REALTIME, &(struct timespec){INT_MAX, 0})
                        : futex(&word, FUTEX_WAIT_PRIVATE, 0, &second, NULL, 0);
        show(result, i ? "sem_clockwait" : "futex");
        join(thread);
    }
    siginfo_t info;
    show(sigtimedwait(&trap, &info, &second), "sigtimedwait");
    CHECK_EQ(pthread_sigmask(SIG_SETMASK, &old, NULL), 0);
}

MAIN(CASE(round_trips), CASE(locks_with_all_blocked), CASE(locks_with_all_blocked_by_syscall), CASE(waits_with_masks),
     CASE(masks_changed_by_handlers), CASE(taken_without_a_handler), CASE(pending_trap_stays_pending))
