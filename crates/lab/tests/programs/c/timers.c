// Timers of all kinds, and their signals as received by handlers, sigwait(3) and signalfd(2).
#include "timers.h"
#include <poll.h>
#include <semaphore.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/utsname.h>

static atomic_int came, wrong;
static atomic_long overruns;
static volatile long expected_value;
static _Atomic pid_t on_thread;
static timer_t current;

static void counts(int signal, siginfo_t *info, void *context) {
    (void)context;
    if (info->si_signo != signal || info->si_code != SI_TIMER || info->si_errno || info->si_overrun < 0) wrong++;
    if ((long)info->si_value.sival_ptr != expected_value || !IS_ID_OF(current, info->si_timerid)) wrong++;
    overruns += info->si_overrun;
    on_thread = gettid();
    came++;
}

static void expect(int signal, long value) {
    came = wrong = 0;
    overruns = 0;
    expected_value = value;
    handle(signal, counts, 0);
}

static void until(int times) {
    while (came < times) nap_us(200000);
}

static void handler_with_intervals(void) {
    expect(SIGRTMIN, 0x123456789abcL);
    current = signalling(CLOCK_MONOTONIC, SIGRTMIN, 0x123456789abcL);
    long begin = ms_of(CLOCK_MONOTONIC);
    set_us(current, 4000, 4000);
    until(30);
    long elapsed = ms_of(CLOCK_MONOTONIC) - begin;
    CHECK_EQ(wrong, 0);
    CHECK(elapsed >= 119);
    CHECK(came + overruns <= elapsed / 4 + 1);
    CHECK(came + overruns >= 30);
    CHECK_EQ(take_away(current), 0);
    int at_the_end = came;
    nap_us(20000);
    CHECK_EQ(came, at_the_end);
}

static void each_clock(void) {
    const clockid_t clocks[] = {CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_BOOTTIME, CLOCK_TAI};
    expect(SIGUSR2, 5);
    for (int i = 0; i < 4; i++) {
        came = 0;
        current = signalling(clocks[i], SIGUSR2, 5);
        set_us(current, 3000, 0);
        until(1);
        struct timespec soon = in_ms(clocks[i], 5), now;
        struct itimerspec at = {.it_value = soon};
        CHECK_EQ(set(current, TIMER_ABSTIME, &at, NULL), 0);
        until(2);
        CHECK_EQ(clock_gettime(clocks[i], &now), 0);
        CHECK(now.tv_sec > soon.tv_sec || (now.tv_sec == soon.tv_sec && now.tv_nsec >= soon.tv_nsec));
        at.it_value = (struct timespec){1, 0}; // in the past
        CHECK_EQ(set(current, TIMER_ABSTIME, &at, NULL), 0);
        until(3);
        CHECK_EQ(take_away(current), 0);
    }
    CHECK_EQ(wrong, 0);
}

static void waited_for(void) {
    sigset_t signals = blocked(SIGALRM);
    siginfo_t info;
    current = signalling(CLOCK_MONOTONIC, SIGALRM, 77);
    set_us(current, 3000, 0);
    CHECK_EQ(wait_for(&signals, &info, NULL), SIGALRM);
    printf("code %d value %d overrun %d id %d\n", info.si_code, info.si_value.sival_int, info.si_overrun,
           IS_ID_OF(current, info.si_timerid));
    CHECK_EQ(get_overrun(current), 0);
    struct itimerspec left;
    CHECK_EQ(get(current, &left), 0);
    CHECK(!left.it_value.tv_sec && !left.it_value.tv_nsec);
    struct timespec briefly = {0, 20000000};
    CHECK_ERRNO(wait_for(&signals, &info, &briefly), EAGAIN);
    CHECK_EQ(take_away(current), 0);
}

#if !defined(BY_INSTRUCTION) && !defined(BY_SYSCALL)
static void *cancelled(void *unused) {
    sigset_t signals = only(SIGALRM);
    int signal;
    for (;;) CHECK_EQ(sigwait(&signals, &signal), 0);
    return unused;
}

static void sigwait_and_sigwaitinfo(void) {
    sigset_t signals = blocked(SIGALRM);
    int signal = 0;
    current = signalling(CLOCK_MONOTONIC, SIGALRM, 77);
    for (int i = 0; i < 20; i++) {
        set_us(current, 1000, 0);
        CHECK_EQ(sigwait(&signals, &signal), 0);
        CHECK_EQ(signal, SIGALRM);
        set_us(current, 1000, 0);
        siginfo_t info;
        CHECK_EQ(i % 2 ? sigwaitinfo(&signals, &info) : sigwaitinfo(&signals, NULL), SIGALRM);
        if (i % 2) CHECK_EQ(info.si_value.sival_int, 77);
    }
    CHECK_EQ(take_away(current), 0);
    pthread_t thread = start(cancelled, NULL);
    nap_us(5000);
    CHECK_EQ(pthread_cancel(thread), 0);
    CHECK(join(thread) == PTHREAD_CANCELED);
}
#endif

static void blocked_for_a_while(void) {
    sigset_t signals = blocked(SIGRTMIN + 1);
    siginfo_t info;
    current = signalling(CLOCK_MONOTONIC, SIGRTMIN + 1, 1);
    for (int i = 0; i < 3; i++) {
        long begin = ms_of(CLOCK_MONOTONIC);
        set_us(current, 2000, 2000);
        CHECK_EQ(get_overrun(current), 0);
        nap_us(21000);
        long taken = ms_of(CLOCK_MONOTONIC);
        CHECK_EQ(wait_for(&signals, &info, NULL), SIGRTMIN + 1);
        CHECK(info.si_overrun >= 9 && info.si_overrun <= (ms_of(CLOCK_MONOTONIC) - begin) / 2);
        CHECK_EQ(get_overrun(current), info.si_overrun);
        CHECK_EQ(wait_for(&signals, &info, NULL), SIGRTMIN + 1); // the timer continues
        CHECK_EQ(get_overrun(current), info.si_overrun);
        CHECK(info.si_overrun <= (ms_of(CLOCK_MONOTONIC) - taken + 1) / 2); // counted from there on
    }
    CHECK_EQ(take_away(current), 0);
}

// Whether the kernel drops signals of timers that were set again or deleted, as since Linux 6.13.
static int drops_what_is_void(void) {
    struct utsname name;
    int major = 0, minor = 0;
    uname(&name);
    sscanf(name.release, "%d.%d", &major, &minor);
    return major > 6 || (major == 6 && minor >= 13);
}

static void void_while_pending(void) {
    if (!drops_what_is_void()) return;
    const struct timespec no_time = {0, 0}, long_time = {10, 0};
    siginfo_t info;
    for (int signal = SIGALRM; signal; signal = signal == SIGALRM ? SIGRTMIN + 1 : 0) {
        sigset_t signals = blocked(signal);
        current = signalling(CLOCK_MONOTONIC, signal, 6);
        set_us(current, 1000, 1000);
        nap_us(5000);
        set_us(current, 0, 0);
        CHECK_ERRNO(wait_for(&signals, &info, &no_time), EAGAIN);
        set_us(current, 1000, 0);
        nap_us(5000);
        set_us(current, 1000, 0); // expires again
        nap_us(5000);
        CHECK_EQ(wait_for(&signals, &info, &long_time), signal);
        CHECK_EQ(info.si_overrun, 0);
        CHECK_ERRNO(wait_for(&signals, &info, &no_time), EAGAIN);
        set_us(current, 1000, 1000);
        nap_us(5000);
        CHECK_EQ(take_away(current), 0);
        sigset_t pending;
        CHECK_EQ(sigpending(&pending), 0);
        printf("pending %d\n", wait_for(&signals, &info, &no_time));
        CHECK_EQ(pthread_sigmask(SIG_UNBLOCK, &signals, NULL), 0); // the default action would end the process
    }
}

static sem_t ready;
static pid_t target;

static void *is_told(void *unused) {
    target = gettid();
    CHECK_EQ(sem_post(&ready), 0);
    while (came < 10) nap_us(200000);
    return unused;
}

static void to_a_thread(void) {
    sem_init(&ready, 0, 0);
    expect(SIGRTMIN + 2, 8);
    pthread_t thread = start(is_told, NULL);
    while (sem_wait(&ready)) CHECK_EQ(errno, EINTR);
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN + 2, .sigev_value.sival_int = 8};
    event._sigev_un._tid = target;
    current = 0;
    CHECK_EQ(make(CLOCK_MONOTONIC, &event, &current), 0);
    set_us(current, 1000, 1000);
    while (came < 10) {
        nap_us(2000);
        CHECK(!came || on_thread == target);
    }
    join(thread);
    CHECK_EQ(wrong, 0);
    nap_us(5000); // the thread that the timer names has ended
    struct itimerspec left;
    CHECK_EQ(get(current, &left), 0);
    CHECK_EQ(left.it_interval.tv_nsec, 1000000);
    CHECK_EQ(take_away(current), 0);
}

static void nobody_is_told(void) {
    struct sigevent event = {.sigev_notify = SIGEV_NONE};
    struct itimerspec left, old;
    current = 0;
    CHECK_EQ(make(CLOCK_MONOTONIC, &event, &current), 0);
    set_us(current, 50000, 0);
    CHECK_EQ(get(current, &left), 0);
    CHECK(!left.it_value.tv_sec && left.it_value.tv_nsec > 0 && left.it_value.tv_nsec <= 50000000);
    struct itimerspec next = in_us(10000000, 3000000);
    CHECK_EQ(set(current, 0, &next, &old), 0);
    CHECK(!old.it_value.tv_sec && old.it_value.tv_nsec > 0 && old.it_value.tv_nsec <= 50000000);
    set_us(current, 1000, 0);
    nap_us(3000);
    CHECK_EQ(get(current, &left), 0);
    CHECK(!left.it_value.tv_sec && !left.it_value.tv_nsec);
    CHECK_EQ(get_overrun(current), 0);
    CHECK_EQ(take_away(current), 0);
}

static void read_from_a_signalfd(void) {
    sigset_t signals = blocked(SIGRTMIN + 3);
    int fd = signalfd(-1, &signals, SFD_CLOEXEC);
    CHECK(fd >= 0);
    current = signalling(CLOCK_MONOTONIC, SIGRTMIN + 3, 31);
    long begin = ms_of(CLOCK_MONOTONIC);
    set_us(current, 10000, 10000);
    for (int i = 0; i < 10; i++) {
        struct signalfd_siginfo info;
        CHECK_EQ(read(fd, &info, sizeof info), sizeof info);
        CHECK_EQ(info.ssi_code, SI_TIMER);
        CHECK_EQ(info.ssi_int, 31);
        CHECK(IS_ID_OF(current, info.ssi_tid));
    }
    CHECK(ms_of(CLOCK_MONOTONIC) - begin >= 98);
    CHECK_EQ(take_away(current), 0);
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    int more = poll(&polled, 1, 0);
    CHECK(more == 0 || !drops_what_is_void());
    close(fd);
}

static void ignored_for_a_while(void) {
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    CHECK_EQ(sigaction(SIGRTMIN + 4, &ignore, NULL), 0);
    current = signalling(CLOCK_MONOTONIC, SIGRTMIN + 4, 2);
    set_us(current, 2000, 2000);
    nap_us(15000);
    expect(SIGRTMIN + 4, 2);
    until(5);
    CHECK_EQ(wrong, 0);
    CHECK_EQ(take_away(current), 0);
}

static void a_fork_has_none(void) {
    sigset_t signals = blocked(SIGRTMIN + 5);
    siginfo_t info;
    current = signalling(CLOCK_MONOTONIC, SIGRTMIN + 5, 1);
    set_us(current, 5000, 5000);
    pid_t child = fork();
    if (!child) {
        struct itimerspec left;
        const struct timespec briefly = {0, 30000000};
        CHECK_ERRNO(get(current, &left), EINVAL);
        CHECK_ERRNO(set(current, 0, &left, NULL), EINVAL);
        CHECK_ERRNO(get_overrun(current), EINVAL);
        CHECK_ERRNO(take_away(current), EINVAL);
        CHECK_ERRNO(wait_for(&signals, &info, &briefly), EAGAIN);
        timer_t own = signalling(CLOCK_MONOTONIC, SIGRTMIN + 5, 2);
        if (TIMER_T_IS_ID) printf("its first one is %ld\n", (long)own);
        set_us(own, 1000, 1000);
        for (int i = 0; i < 5; i++) {
            CHECK_EQ(wait_for(&signals, &info, NULL), SIGRTMIN + 5);
            CHECK_EQ(info.si_value.sival_int, 2);
        }
        pid_t grandchild = fork();
        if (!grandchild) {
            CHECK_ERRNO(take_away(own), EINVAL);
            _exit(4);
        }
        reap(grandchild, 4);
        fflush(stdout);
        _exit(3);
    }
    reap(child, 3);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(wait_for(&signals, &info, NULL), SIGRTMIN + 5);
        CHECK_EQ(info.si_value.sival_int, 1);
    }
    CHECK_EQ(take_away(current), 0);
}

static void gone_after_exec(void) {
    const struct timespec briefly = {0, 20000000};
    sigset_t signals = blocked(SIGRTMIN + 6);
    siginfo_t info;
    CHECK_ERRNO(wait_for(&signals, &info, &briefly), EAGAIN);
    for (long id = 0; id < 100 * TIMER_T_IS_ID; id++) CHECK_ERRNO(get_overrun((timer_t)id), EINVAL);
    current = signalling(CLOCK_MONOTONIC, SIGRTMIN + 6, 3);
    set_us(current, 1000, 0);
    CHECK_EQ(wait_for(&signals, &info, NULL), SIGRTMIN + 6);
}

static void an_exec_has_none(void) {
    pid_t child = fork();
    if (!child) {
        current = signalling(CLOCK_MONOTONIC, SIGRTMIN + 6, 1);
        blocked(SIGRTMIN + 6);
        set_us(current, 10000, 5000);
        execl("/proc/self/exe", "timers", "gone_after_exec", NULL);
        _exit(9);
    }
    reap(child, 0);
}

static void a_vfork_is_somebody_else(void) {
    expect(SIGRTMIN + 7, 4);
    current = signalling(CLOCK_MONOTONIC, SIGRTMIN + 7, 4);
    set_us(current, 1000, 1000);
    volatile int made = -1;
    pid_t child = vfork();
    if (!child) {
        struct sigevent event = {.sigev_notify = SIGEV_NONE};
        timer_t own = 0;
        made = make(CLOCK_MONOTONIC, &event, &own);
        _exit(made ? 1 : take_away(own) ? 2 : 0);
    }
    reap(child, 0);
    CHECK_EQ(made, 0);
    until(came + 5);
    pid_t spawned;
    char *arguments[] = {"true", NULL};
    CHECK_EQ(posix_spawn(&spawned, "/bin/true", NULL, NULL, arguments, environ), 0);
    reap(spawned, 0);
    until(came + 5);
    CHECK_EQ(wrong, 0);
    CHECK_EQ(take_away(current), 0);
}

enum { MANY = 5000 };
static atomic_uchar arrived[MANY];

static void marks(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    arrived[info->si_value.sival_int]++;
    came++;
}

static void many(int signal, int count) {
    static timer_t timers[MANY];
    memset(arrived, 0, sizeof arrived);
    came = 0;
    handle(signal, marks, 0);
    for (int i = 0; i < count; i++) timers[i] = signalling(CLOCK_MONOTONIC, signal, i);
    struct timespec soon = in_ms(CLOCK_MONOTONIC, 50);
    for (int i = 0; i < count; i++) {
        struct itimerspec at = {.it_value = soon};
        at.it_value.tv_nsec = (soon.tv_nsec + i % 7 * 1000) % 1000000000;
        CHECK_EQ(set(timers[i], TIMER_ABSTIME, &at, NULL), 0);
    }
    long begin = ms_of(CLOCK_MONOTONIC);
    while (came < count && ms_of(CLOCK_MONOTONIC) < begin + 15000) nap_us(20000);
    for (int i = 0; i < count; i++) CHECK_EQ(arrived[i], 1);
    nap_us(20000);
    CHECK_EQ(came, count);
    for (int i = 0; i < count; i++) CHECK_EQ(take_away(timers[i]), 0);
}

static void many_at_once(void) { many(SIGRTMIN + 8, MANY); }

// Two pending signals of one number below SIGRTMIN are merged, but not those of different timers.
static void many_with_a_standard_signal(void) { many(SIGUSR1, 300); }

static atomic_int killed, ticked;

static void tells_apart(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    if (info->si_code == SI_TIMER)
        ticked++;
    else
        killed++;
}

static void beside_others_of_that_number(void) {
    handle(SIGUSR1, tells_apart, 0);
    current = signalling(CLOCK_MONOTONIC, SIGUSR1, 0);
    for (int i = 0; i < 20; i++) {
        sigset_t signals = blocked(SIGUSR1);
        set_us(current, i % 2 ? 500 : 1500, 0);
        nap_us(1000);
        CHECK_EQ(kill(getpid(), SIGUSR1), 0);
        nap_us(1500);
        CHECK_EQ(pthread_sigmask(SIG_UNBLOCK, &signals, NULL), 0);
        for (int j = 0; j < 500 && ticked <= i; j++) nap_us(1000);
        CHECK_EQ(ticked, i + 1);
    }
    CHECK_EQ(take_away(current), 0);
}

// With no room in RLIMIT_SIGPENDING for queued signals.
static void when_nothing_may_be_pending(void) {
    const int signals[] = {SIGUSR2, SIGRTMIN + 8};
    for (int i = 0; i < 2; i++) {
        struct rlimit limit, none;
        expect(signals[i], 15);
        current = signalling(CLOCK_MONOTONIC, signals[i], 15);
        CHECK_EQ(getrlimit(RLIMIT_SIGPENDING, &limit), 0);
        none = limit;
        none.rlim_cur = 0;
        CHECK_EQ(setrlimit(RLIMIT_SIGPENDING, &none), 0);
        CHECK_ERRNO(sigqueue(getpid(), SIGRTMIN + 9, (union sigval){0}), EAGAIN);
        set_us(current, 1000, 0);
        if (i == 0) until(1);
        nap_us(3000);
        CHECK_EQ(setrlimit(RLIMIT_SIGPENDING, &limit), 0);
        until(1);
        nap_us(3000);
        CHECK_EQ(came, 1);
        CHECK_EQ(wrong, 0);
        CHECK_EQ(take_away(current), 0);
    }
}

static void makes(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info, (void)context;
    timer_t timer = signalling(CLOCK_MONOTONIC, SIGRTMIN + 9, 11);
    current = timer;
    set_us(timer, 1000, 0);
}

static void made_in_a_handler(void) {
    for (int i = 0; i < 20; i++) {
        expect(SIGRTMIN + 9, 11);
        handle(SIGUSR2, makes, 0);
        CHECK_EQ(raise(SIGUSR2), 0);
        until(1);
        CHECK_EQ(take_away(current), 0);
    }
    CHECK_EQ(wrong, 0);
}

// The handler ends the futex call of a sleeping thread.
static void wakes_who_waits(void) {
    sem_t never;
    sem_init(&never, 0, 0);
    expect(SIGRTMIN + 10, 1);
    current = signalling(CLOCK_MONOTONIC, SIGRTMIN + 10, 1);
    // With an interval: the first signal may come before the thread sleeps.
    for (int i = 0; i < 20; i++) {
        int before = came;
        set_us(current, 1000, 1000);
        CHECK_ERRNO(sem_wait(&never), EINTR);
        CHECK(came > before);
    }
    uint32_t word = 0;
    for (int i = 0; i < 20; i++) {
        set_us(current, 1000, 1000);
        CHECK_ERRNO(futex(&word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0), EINTR);
    }
    CHECK_EQ(wrong, 0);
    CHECK_EQ(take_away(current), 0);
}

static void *has_its_own(void *number) {
    sigset_t signals = blocked(SIGRTMIN + 11);
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN + 11, .sigev_value.sival_ptr = number};
    event._sigev_un._tid = gettid();
    timer_t timer = 0;
    CHECK_EQ(make(CLOCK_MONOTONIC, &event, &timer), 0);
    set_us(timer, 1000, 1000);
    for (int i = 0; i < 50; i++) {
        siginfo_t info;
        CHECK_EQ(wait_for(&signals, &info, NULL), SIGRTMIN + 11);
        CHECK(info.si_value.sival_ptr == number);
        CHECK_EQ(get_overrun(timer), info.si_overrun);
    }
    CHECK_EQ(take_away(timer), 0);
    return NULL;
}

static void each_thread_its_own(void) { on_threads(6, has_its_own); }

static void *spins(void *stop) {
    while (!*(volatile atomic_int *)stop) continue;
    return NULL;
}

static void by_cpu_time(void) {
    expect(SIGRTMIN + 12, 3);
    current = signalling(CLOCK_PROCESS_CPUTIME_ID, SIGRTMIN + 12, 3);
    long before = ms_of(CLOCK_PROCESS_CPUTIME_ID);
    set_us(current, 30000, 0);
    atomic_int stop = 0;
    pthread_t thread = start(spins, &stop);
    while (!came) continue;
    stop = 1;
    join(thread);
    CHECK(ms_of(CLOCK_PROCESS_CPUTIME_ID) - before >= 29);
    CHECK_EQ(take_away(current), 0);
    came = 0;
    current = signalling(CLOCK_THREAD_CPUTIME_ID, SIGRTMIN + 12, 3);
    before = ms_of(CLOCK_THREAD_CPUTIME_ID);
    set_us(current, 10000, 10000);
    while (came < 3) continue;
    CHECK(ms_of(CLOCK_THREAD_CPUTIME_ID) - before >= 29);
    CHECK_EQ(wrong, 0);
    CHECK_EQ(take_away(current), 0);
}

static void errors(void) {
    const clockid_t clocks[] = {CLOCK_MONOTONIC_RAW, CLOCK_REALTIME_COARSE, CLOCK_MONOTONIC_COARSE, 10, 12, 16, 1000};
    struct sigevent event = {.sigev_notify = SIGEV_NONE};
    timer_t timer = 0;
    for (unsigned i = 0; i < sizeof clocks / sizeof *clocks; i++) show(make(clocks[i], &event, &timer), "clock %d", clocks[i]);
    const int notes[] = {3, 5, 6, -1};
    for (int i = 0; i < 4; i++) {
        event.sigev_notify = notes[i];
        show(make(CLOCK_MONOTONIC, &event, &timer), "notify %d", notes[i]);
    }
    const int signals[] = {0, 65, -1};
    for (int i = 0; i < 3; i++) {
        event = (struct sigevent){.sigev_notify = SIGEV_SIGNAL, .sigev_signo = signals[i]};
        show(make(CLOCK_MONOTONIC, &event, &timer), "signal %d", signals[i]);
    }
    event = (struct sigevent){.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1};
    event._sigev_un._tid = 1;
    show(make(CLOCK_MONOTONIC, &event, &timer), "another process's thread");
    const int threads[] = {0, -1, INT_MAX, INT_MIN, INT_MIN + 1};
    for (unsigned i = 0; i < sizeof threads / sizeof *threads; i++) {
        event._sigev_un._tid = threads[i];
        show(make(CLOCK_MONOTONIC, &event, &timer), "thread %d", threads[i]);
    }
    struct itimerspec setting = in_us(1, 0);
    if (TIMER_T_IS_ID) {
        show(set((timer_t)12345, 0, &setting, NULL), "no such timer");
        show(get((timer_t)12345, &setting), "no such timer");
        show(get_overrun((timer_t)12345), "no such timer");
        show(take_away((timer_t)12345), "no such timer");
    }
    CHECK_EQ(make(CLOCK_MONOTONIC, NULL, &timer), 0);
    show(set(timer, 0, NULL, NULL), "NULL");
    setting.it_value.tv_nsec = 1000000000;
    show(set(timer, 0, &setting, NULL), "a billion nanoseconds");
    setting.it_value = (struct timespec){-1, 0};
    show(set(timer, 0, &setting, NULL), "a negative time");
    show(take_away(timer), "once");
    if (TIMER_T_IS_ID) show(take_away(timer), "twice");
}

static void by_default_an_alarm(void) {
    timer_t timer = 0;
    sigset_t signals = blocked(SIGALRM);
    siginfo_t info;
    CHECK_EQ(make(CLOCK_MONOTONIC, NULL, &timer), 0);
    set_us(timer, 1000, 0);
    CHECK_EQ(wait_for(&signals, &info, NULL), SIGALRM);
#if defined(BY_INSTRUCTION) || defined(BY_SYSCALL)
    CHECK_EQ(info.si_value.sival_int, (int)(long)timer);
#endif
    CHECK_EQ(info.si_code, SI_TIMER);
    CHECK_EQ(take_away(timer), 0);
    pid_t child = fork();
    if (!child) {
        CHECK_EQ(pthread_sigmask(SIG_UNBLOCK, &signals, NULL), 0);
        CHECK_EQ(make(CLOCK_MONOTONIC, NULL, &timer), 0);
        set_us(timer, 1000, 0);
        for (;;) pause();
    }
    reap(child, -SIGALRM);
}

#if defined(BY_INSTRUCTION) || defined(BY_SYSCALL)
static void restored(void) {
    struct sigevent event = {.sigev_notify = SIGEV_NONE};
    timer_t timer = (timer_t)4711L, next = 0;
    if (sys(SYS_prctl, 77, 2, 0, 0, 0, 0) < 0) return; // before 6.15
    CHECK_EQ(sys(SYS_prctl, 77, 1, 0, 0, 0, 0), 0);
    CHECK_EQ(sys(SYS_prctl, 77, 2, 0, 0, 0, 0), 1);
    CHECK_EQ(make(CLOCK_MONOTONIC, &event, &timer), 0);
    CHECK_EQ((long)timer, 4711);
    show(make(CLOCK_MONOTONIC, &event, &timer), "again");
    CHECK_EQ(sys(SYS_prctl, 77, 0, 0, 0, 0, 0), 0);
    CHECK_EQ(make(CLOCK_MONOTONIC, &event, &next), 0);
    printf("the next is %ld\n", (long)next);
    show(sys(SYS_prctl, 77, 5, 0, 0, 0, 0), "an unknown argument");
    CHECK_EQ(take_away(timer), 0);
    CHECK_EQ(take_away(next), 0);
}
#endif

MAIN(CASE(handler_with_intervals), CASE(each_clock), CASE(waited_for), CASE(blocked_for_a_while), CASE(void_while_pending),
     CASE(to_a_thread), CASE(nobody_is_told), CASE(read_from_a_signalfd), CASE(ignored_for_a_while), CASE(a_fork_has_none),
     CASE(an_exec_has_none), CASE(a_vfork_is_somebody_else), CASE(many_at_once), CASE(many_with_a_standard_signal),
     CASE(beside_others_of_that_number), CASE(when_nothing_may_be_pending), CASE(made_in_a_handler), CASE(wakes_who_waits), CASE(each_thread_its_own),
     CASE(by_cpu_time), CASE(errors), CASE(by_default_an_alarm),
#if defined(BY_INSTRUCTION) || defined(BY_SYSCALL)
     CASE(restored),
#else
     CASE(sigwait_and_sigwaitinfo),
#endif
     {"gone_after_exec", gone_after_exec})
