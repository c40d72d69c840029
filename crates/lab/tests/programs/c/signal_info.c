// A handler's siginfo, stack and mask are those that the kernel gives, also if the signal interrupted a futex call.
#include "futex.h"
#include <semaphore.h>
#include <sys/mman.h>
#include <ucontext.h>

static volatile siginfo_t told;
static volatile sig_atomic_t times;
static volatile uintptr_t stack_at;
static volatile sigset_t within, before;
static sem_t handled;

static void handler(int signal, siginfo_t *info, void *context) {
    (void)signal;
    times++;
    memcpy((void *)&told, info, sizeof told);
    stack_at = (uintptr_t)&info;
    CHECK_EQ(pthread_sigmask(SIG_BLOCK, NULL, (sigset_t *)&within), 0);
    memcpy((void *)&before, &((ucontext_t *)context)->uc_sigmask, sizeof(uint64_t));
    CHECK_EQ(sem_post(&handled), 0);
}

static void install(int signal, int flags, const sigset_t *mask) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags};
    if (mask) action.sa_mask = *mask;
    CHECK_EQ(sigaction(signal, &action, NULL), 0);
    CHECK_EQ(sem_init(&handled, 0, 0), 0);
    times = 0;
}

static void until_handled(void) {
    while (sem_wait(&handled)) CHECK_EQ(errno, EINTR);
}

// Without SIGSYS: a trap works by it and keeps it unblocked.
static void print_set(const char *name, const volatile sigset_t *set) {
    printf("%s:", name);
    for (int i = 1; i < 32; i++)
        if (i != SIGSYS && sigismember((const sigset_t *)set, i) == 1) printf(" %d", i);
    printf("\n");
}

static void contents(void) {
    install(SIGRTMIN, 0, NULL);
    union sigval value = {.sival_int = 4711};
    CHECK_EQ(sigqueue(getpid(), SIGRTMIN, value), 0);
    until_handled();
    printf("sigqueue: code %d value %d pid %d uid %d\n", told.si_code, told.si_value.sival_int, told.si_pid == getpid(),
           told.si_uid == getuid());
    CHECK_EQ(kill(getpid(), SIGRTMIN), 0);
    until_handled();
    printf("kill: code %d pid %d\n", told.si_code, told.si_pid == getpid());
    CHECK_EQ(pthread_kill(pthread_self(), SIGRTMIN), 0);
    until_handled();
    printf("pthread_kill: code %d\n", told.si_code);
    CHECK_EQ(raise(SIGRTMIN), 0);
    until_handled();
    printf("raise: code %d\n", told.si_code);
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN, .sigev_value.sival_int = 99};
    CHECK_EQ(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
    struct itimerspec soon = {.it_value.tv_nsec = 1000000};
    CHECK_EQ(timer_settime(timer, 0, &soon, NULL), 0);
    until_handled();
    printf("timer: code %d value %d\n", told.si_code, told.si_value.sival_int);
    install(SIGCHLD, SA_NOCLDSTOP, NULL);
    pid_t child = fork();
    if (!child) _exit(3);
    until_handled();
    printf("child: code %d status %d pid %d\n", told.si_code, told.si_status, told.si_pid == child);
    reap(child, 3);
    struct sigaction plain = {.sa_handler = SIG_DFL};
    CHECK_EQ(sigaction(SIGCHLD, &plain, NULL), 0);
}

static _Atomic uint32_t word;

static void *sleeps(void *unused) {
    while (wait_on(&word, 0)) CHECK_EQ(errno, EINTR);
    return unused;
}

static void while_asleep_in_a_futex_call(void) {
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR2);
    install(SIGUSR1, SA_RESTART, &mask);
    pthread_t thread = start(sleeps, NULL);
    until_waiters(&word, 1);
    union sigval value = {.sival_int = 12};
    CHECK_EQ(pthread_sigqueue(thread, SIGUSR1, value), 0);
    until_handled();
    printf("code %d value %d pid %d\n", told.si_code, told.si_value.sival_int, told.si_pid == getpid());
    print_set("mask within", &within);
    print_set("mask to come back to", &before);
    until_waiters(&word, 1);
    CHECK_EQ(wake(&word, 1), 1);
    join(thread);
}

static void reset_and_not_deferred(void) {
    struct sigaction now;
    install(SIGUSR1, SA_RESETHAND, NULL);
    raise(SIGUSR1);
    CHECK_EQ(sigaction(SIGUSR1, NULL, &now), 0);
    printf("after SA_RESETHAND: %d %d\n", times, now.sa_handler == SIG_DFL);
    install(SIGUSR1, SA_NODEFER, NULL);
    raise(SIGUSR1);
    print_set("mask with SA_NODEFER", &within);
    install(SIGUSR1, 0, NULL);
    raise(SIGUSR1);
    print_set("mask without", &within);
    sigset_t all;
    sigfillset(&all);
    install(SIGUSR1, 0, &all);
    raise(SIGUSR1);
    print_set("mask with a full sa_mask", &within);
    print_set("and after", &before);
}

static void what_was_set_reads_back(void) {
    sigset_t all;
    sigfillset(&all);
    for (int i = 1; i < 32; i++) {
        if (i == SIGKILL || i == SIGSTOP) continue;
        struct sigaction old, now;
        install(i, SA_ONSTACK | SA_NODEFER, &all);
        CHECK_EQ(sigaction(i, NULL, &now), 0);
        printf("%d: handler %d flags %x", i, now.sa_sigaction == handler, now.sa_flags & ~0x04000000);
        print_set(" mask", &now.sa_mask);
        struct sigaction ignore = {.sa_handler = SIG_IGN};
        CHECK_EQ(sigaction(i, &ignore, &old), 0);
        CHECK(old.sa_sigaction == handler);
        CHECK(signal(i, SIG_DFL) == SIG_IGN);
        CHECK(signal(i, SIG_DFL) == SIG_DFL);
    }
    struct sigaction action = {.sa_handler = SIG_IGN};
    CHECK_ERRNO(sigaction(SIGKILL, &action, NULL), EINVAL);
    CHECK_ERRNO(sigaction(0, &action, NULL), EINVAL);
    CHECK_ERRNO(sigaction(65, &action, NULL), EINVAL);
    CHECK_ERRNO(sigaction(32, &action, NULL), EINVAL); // used by glibc itself
}

static void *on_its_own_stack(void *unused) {
    size_t size = 64 << 10;
    char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    stack_t stack = {.ss_sp = memory, .ss_size = size}, read;
    CHECK_EQ(sigaltstack(&stack, NULL), 0);
    CHECK_EQ(sigaltstack(NULL, &read), 0);
    CHECK(read.ss_sp == memory && read.ss_size == size && read.ss_flags == 0);
    install(SIGUSR1, SA_ONSTACK, NULL);
    raise(SIGUSR1);
    CHECK(stack_at >= (uintptr_t)memory && stack_at < (uintptr_t)memory + size);
    install(SIGUSR1, 0, NULL);
    raise(SIGUSR1);
    CHECK(!(stack_at >= (uintptr_t)memory && stack_at < (uintptr_t)memory + size));
    CHECK_EQ(times, 1);
    stack.ss_flags = SS_DISABLE;
    CHECK_EQ(sigaltstack(&stack, NULL), 0);
    return unused;
}

static void alternate_stack(void) { join(start(on_its_own_stack, NULL)); }

// A program that uses SIGSYS itself gets it like any other signal.
static void sigsys_of_the_programs_own(void) {
    install(SIGSYS, 0, NULL);
    CHECK_EQ(kill(getpid(), SIGSYS), 0);
    until_handled();
    printf("SIGSYS: code %d times %d\n", told.si_code, times);
    union sigval value = {.sival_int = 5};
    CHECK_EQ(sigqueue(getpid(), SIGSYS, value), 0);
    until_handled();
    printf("SIGSYS: code %d value %d\n", told.si_code, told.si_value.sival_int);
    signal(SIGSYS, SIG_IGN);
    raise(SIGSYS);
    printf("ignored: %d\n", times);
    pthread_t thread = start(sleeps, NULL); // futexes still work
    until_waiters(&word, 1);
    CHECK_EQ(wake(&word, 1), 1);
    join(thread);
    signal(SIGSYS, SIG_DFL);
    pid_t child = fork();
    if (!child) {
        raise(SIGSYS);
        _exit(0);
    }
    reap(child, -SIGSYS);
}

MAIN(CASE(contents), CASE(while_asleep_in_a_futex_call), CASE(reset_and_not_deferred), CASE(what_was_set_reads_back),
     CASE(alternate_stack), CASE(sigsys_of_the_programs_own))
