// Which thread gets a timer's signal to the process, and overruns of signals that no handler receives.
#include "timers.h"

// A pending signal that is dropped when it is unblocked: its overruns are counted at once.
static void dropped(int signal, const char *name) {
    sigset_t signals = blocked(signal);
    timer_t timer = signalling(CLOCK_MONOTONIC, signal, 0);
    long begin = ms_of(CLOCK_MONOTONIC);
    set_us(timer, 5000, 5000);
    nap_us(42000);
    CHECK_EQ(pthread_sigmask(SIG_UNBLOCK, &signals, NULL), 0);
    int overrun = get_overrun(timer);
    long elapsed = ms_of(CLOCK_MONOTONIC) - begin;
    if (overrun < 6 || overrun > elapsed / 5) fail(__FILE__, __LINE__, name, overrun, elapsed);
    // The timer continues.
    CHECK_EQ(pthread_sigmask(SIG_BLOCK, &signals, NULL), 0);
    nap_us(12000);
    siginfo_t info;
    struct timespec soon = {10, 0};
    CHECK_EQ(wait_for(&signals, &info, &soon), signal);
    CHECK_EQ(info.si_overrun, get_overrun(timer));
    CHECK_EQ(take_away(timer), 0);
    struct timespec none = {0, 0};
    while (wait_for(&signals, NULL, &none) == signal) {}
    CHECK_EQ(pthread_sigmask(SIG_UNBLOCK, &signals, NULL), 0);
    printf("%s has overruns\n", name);
}

static void overruns_of_dropped_signals(void) {
    CHECK(signal(SIGUSR1, SIG_IGN) != SIG_ERR);
    CHECK(signal(SIGRTMIN + 1, SIG_IGN) != SIG_ERR);
    dropped(SIGUSR1, "an ignored signal");
    dropped(SIGRTMIN + 1, "an ignored real-time signal");
    dropped(SIGURG, "a signal that is ignored by default");
}

static void overruns_of_a_short_interval(void) {
    CHECK(signal(SIGUSR1, SIG_IGN) != SIG_ERR);
    sigset_t signals = blocked(SIGUSR1);
    timer_t timer = signalling(CLOCK_MONOTONIC, SIGUSR1, 0);
    struct itimerspec fast = {.it_value = {0, 1}, .it_interval = {0, 1}};
    CHECK_EQ(set(timer, 0, &fast, NULL), 0);
    nap_us(30000);
    CHECK_EQ(pthread_sigmask(SIG_UNBLOCK, &signals, NULL), 0);
    CHECK(get_overrun(timer) > 10000000);
    CHECK_EQ(take_away(timer), 0);
}

static _Atomic pid_t worker;
static atomic_int on_worker, on_main, on_others, done;
static void counts(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info, (void)context;
    pid_t thread = gettid();
    if (thread == worker)
        on_worker++;
    else if (thread == getpid())
        on_main++;
    else
        on_others++;
}

static void *runs(void *unused) {
    struct timespec end = in_ms(CLOCK_MONOTONIC, 30000);
    worker = gettid();
    while (on_worker < 10 && !passed(CLOCK_MONOTONIC, &end)) {}
    return unused;
}

// The kernel prefers the thread that the timer's interrupt interrupts, and the interrupt comes on the CPU where the
// timer was set. An interval timer is set again where its signal is taken, so it stays with a thread. So the thread
// that should get the signals stays on one CPU, and sets the timer there each time.
static void *sets_and_runs(void *timer) {
    struct timespec end = in_ms(CLOCK_MONOTONIC, 30000);
    cpu_set_t here;
    CPU_ZERO(&here);
    CPU_SET(sched_getcpu(), &here);
    CHECK_EQ(pthread_setaffinity_np(pthread_self(), sizeof here, &here), 0);
    worker = gettid();
    while (on_worker < 10 && !passed(CLOCK_MONOTONIC, &end)) {
        int before = on_worker + on_main + on_others;
        struct timespec soon = in_ms(CLOCK_MONOTONIC, 100);
        set_us(timer, 2000, 0);
        while (on_worker + on_main + on_others == before && !passed(CLOCK_MONOTONIC, &soon)) {}
    }
    return NULL;
}

static void *sleeps(void *unused) {
    while (!done) nap_us(50000);
    return unused;
}

// The first thread sleeps, and could take the signal too.
static void a_thread_that_runs_gets_it(void) {
    on_worker = on_main = on_others = 0;
    handle(SIGRTMIN, counts, SA_RESTART);
    timer_t timer = signalling(CLOCK_MONOTONIC, SIGRTMIN, 0);
    join(start(sets_and_runs, timer));
    CHECK_EQ(take_away(timer), 0);
    CHECK(on_worker >= 10);
}

static void the_first_thread_gets_it_where_none_runs(void) {
    worker = 0;
    pthread_t threads[3];
    handle(SIGRTMIN, counts, SA_RESTART);
    for (int i = 0; i < 3; i++) threads[i] = start(sleeps, NULL);
    nap_us(20000);
    on_main = on_others = 0;
    timer_t timer = signalling(CLOCK_MONOTONIC, SIGRTMIN, 0);
    struct timespec end = in_ms(CLOCK_MONOTONIC, 20000);
    while (on_main < 10 && !passed(CLOCK_MONOTONIC, &end)) {
        set_us(timer, 3000, 0);
        nap_us(20000);
    }
    CHECK(on_main >= 10);
    CHECK_EQ(take_away(timer), 0);
    done = 1;
    for (int i = 0; i < 3; i++) join(threads[i]);
}

static void *takes(void *unused) {
    sigset_t signals = only(SIGRTMIN);
    worker = gettid();
    CHECK_EQ(pthread_sigmask(SIG_UNBLOCK, &signals, NULL), 0);
    return runs(unused);
}

// The signal is not sent to threads that run and block it.
static void a_thread_that_does_not_block_it_gets_it(void) {
    on_worker = on_main = on_others = 0;
    handle(SIGRTMIN, counts, SA_RESTART);
    sigset_t signals = blocked(SIGRTMIN);
    timer_t timer = signalling(CLOCK_MONOTONIC, SIGRTMIN, 0);
    set_us(timer, 2000, 2000);
    pthread_t taker = start(takes, NULL);
    struct timespec end = in_ms(CLOCK_MONOTONIC, 30000);
    while (on_worker < 10 && !passed(CLOCK_MONOTONIC, &end)) {}
    CHECK(on_worker >= 10);
    CHECK_EQ(on_main + on_others, 0);
    join(taker);
    CHECK_EQ(take_away(timer), 0);
    struct timespec none = {0, 0};
    while (wait_for(&signals, NULL, &none) == SIGRTMIN) {}
    CHECK_EQ(pthread_sigmask(SIG_UNBLOCK, &signals, NULL), 0);
}

MAIN(CASE(overruns_of_dropped_signals), CASE(overruns_of_a_short_interval), CASE(a_thread_that_runs_gets_it),
     CASE(the_first_thread_gets_it_where_none_runs), CASE(a_thread_that_does_not_block_it_gets_it))
