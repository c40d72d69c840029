// Timers expire continually, whatever the program does: futex calls, calls on timers, handlers, forks, ends of threads.
#include "timers.h"
#include <fcntl.h>
#include <semaphore.h>
#include <setjmp.h>

static atomic_int came, stop;
static timer_t other;

static void calls_timers(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info, (void)context;
    int before = errno;
    struct itimerspec setting = in_us(3000000, 1000), old;
    CHECK_EQ(get(other, &old), 0);
    CHECK(get_overrun(other) >= 0);
    CHECK_EQ(set(other, 0, &setting, &old), 0);
    CHECK(old.it_interval.tv_nsec == 1000000 || !old.it_interval.tv_nsec);
    came++;
    errno = before;
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int turn;

static void *takes_turns(void *number) {
    long mine = (long)number;
    while (!stop) {
        CHECK_EQ(pthread_mutex_lock(&mutex), 0);
        struct timespec soon = in_ms(CLOCK_REALTIME, 2);
        if (turn % 4 != mine) pthread_cond_timedwait(&condition, &mutex, &soon);
        turn++;
        CHECK_EQ(pthread_cond_broadcast(&condition), 0);
        CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
        uint32_t word = 0;
        struct timespec briefly = {0, 100000};
        futex(&word, FUTEX_WAIT_PRIVATE, 0, &briefly, NULL, 0);
    }
    return NULL;
}

static void in_futex_calls(void) {
    pthread_t threads[4];
    handle(SIGRTMIN, calls_timers, SA_RESTART);
    handle(SIGUSR1, calls_timers, 0);
    handle(SIGRTMIN + 1, calls_timers, SA_RESTART);
    other = signalling(CLOCK_MONOTONIC, SIGRTMIN + 1, 0);
    timer_t timers[2] = {signalling(CLOCK_MONOTONIC, SIGRTMIN, 0), signalling(CLOCK_REALTIME, SIGUSR1, 0)};
    stop = 0;
    for (long i = 0; i < 4; i++) threads[i] = start(takes_turns, (void *)i);
    set_us(timers[0], 300, 300);
    set_us(timers[1], 300, 700);
    for (int i = 0; i < 100; i++) nap_us(3000);
    stop = 1;
    for (int i = 0; i < 4; i++) join(threads[i]);
    CHECK(came > 100);
    for (int i = 0; i < 2; i++) CHECK_EQ(take_away(timers[i]), 0);
    CHECK_EQ(take_away(other), 0);
}

static sigjmp_buf back;
static volatile sig_atomic_t may_jump;
static volatile timer_t jumper, busy; // not on the stack, where a jump may lose their values

static void jumps(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info, (void)context;
    came++;
    if (may_jump) siglongjmp(back, 1);
}

static void out_of_handlers(void) {
    handle(SIGRTMIN + 2, jumps, 0);
    jumper = signalling(CLOCK_MONOTONIC, SIGRTMIN + 2, 0);
    busy = signalling(CLOCK_MONOTONIC, SIGRTMIN + 3, 0);
    volatile int jumped = 0;
    came = 0;
    if (sigsetjmp(back, 1)) jumped++;
    while (jumped < 300) {
        struct itimerspec setting = in_us(1000000, 0), now;
        set_us(jumper, 50 + jumped % 100, 0);
        may_jump = 1;
        for (int i = 0; i < 100000; i++) {
            CHECK_EQ(set(busy, 0, &setting, &now), 0);
            CHECK_EQ(get(busy, &now), 0);
            CHECK(now.it_value.tv_sec || now.it_value.tv_nsec);
        }
        may_jump = 0;
    }
    may_jump = 0;
    CHECK_EQ(take_away(jumper), 0);
    CHECK_EQ(take_away(busy), 0);
}

static void counts(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info, (void)context;
    came++;
}

static void while_forking(void) {
    handle(SIGRTMIN + 4, counts, SA_RESTART);
    timer_t timer = signalling(CLOCK_MONOTONIC, SIGRTMIN + 4, 0);
    set_us(timer, 200, 200);
    for (int i = 0; i < 100; i++) {
        pid_t child = fork();
        if (!child) {
            CHECK_ERRNO(take_away(timer), EINVAL);
            came = 0;
            timer_t own = signalling(CLOCK_MONOTONIC, SIGRTMIN + 4, 0);
            set_us(own, 100, 0);
            while (i % 2 && !came) nap_us(100000);
            _exit(i);
        }
        reap(child, i);
    }
    CHECK(came > 0);
    CHECK_EQ(take_away(timer), 0);
}

static void *makes_and_deletes(void *number) {
    for (int i = 0; i < 400; i++) {
        timer_t timers[8];
        for (int j = 0; j < 8; j++) {
            struct sigevent event = {.sigev_notify = j % 2 ? SIGEV_SIGNAL : SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN + 4 + j % 3};
            event._sigev_un._tid = gettid();
            event.sigev_value.sival_ptr = number;
            timers[j] = 0;
            CHECK_EQ(make(j % 3 ? CLOCK_MONOTONIC : CLOCK_REALTIME, &event, &timers[j]), 0);
            set_us(timers[j], 1 + (i * 7 + j) % 60, j % 4 ? 1000 : 0);
        }
        if (i % 3 == 0) nap_us(50);
        for (int j = 0; j < 8; j++) CHECK_EQ(take_away(timers[j]), 0);
    }
    return NULL;
}

static void made_and_deleted_by_many(void) {
    for (int i = 4; i < 7; i++) handle(SIGRTMIN + i, counts, SA_RESTART);
    on_threads(4, makes_and_deletes);
}

static void *leaves_some_behind(void *unused) {
    for (int i = 0; i < 3; i++) {
        struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN + 5};
        event._sigev_un._tid = gettid();
        timer_t timer = 0;
        CHECK_EQ(make(CLOCK_MONOTONIC, &event, &timer), 0);
        set_us(timer, 100 + 100 * i, 300);
    }
    return unused;
}

static void of_threads_that_end(void) {
    handle(SIGRTMIN + 5, counts, SA_RESTART);
    for (int i = 0; i < 100; i++) join(start(leaves_some_behind, NULL));
    nap_us(20000);
}

static void *ends_late(void *unused) {
    nap_us(20000);
    return unused;
}

// The process ends with the program's last thread. The library's thread for timers does not keep it alive.
static void the_last_thread_ends(void) {
    pid_t child = fork();
    if (!child) {
        timer_t timer = signalling(CLOCK_MONOTONIC, SIGRTMIN + 5, 0);
        set_us(timer, 3600000000, 0);
        start(ends_late, NULL);
        pthread_exit(NULL);
    }
    reap(child, 0);
}

// Timers do not change the numbers of the program's descriptors. The program may close any descriptor.
static void files_are_the_programs(void) {
    int before = dup(1);
    close(before);
    sigset_t signals = blocked(SIGRTMIN + 6);
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN + 6};
    event._sigev_un._tid = gettid();
    timer_t timer = 0;
    CHECK_EQ(make(CLOCK_MONOTONIC, &event, &timer), 0);
    int ends[2];
    CHECK_EQ(pipe(ends), 0);
    CHECK_EQ(ends[0], before);
    set_us(timer, 100, 500); // blocked, so that the library has to check whether it is still pending
    close(ends[1]);
    char byte;
    CHECK_EQ(read(ends[0], &byte, 1), 0); // no other thread has a copy of the write end
    close(ends[0]);
    for (int i = before; i < 1024; i++) close(i);
    for (int i = 0; i < 2000; i++) {
        int file = open("/dev/null", O_RDONLY);
        CHECK_EQ(file, before);
        close(file);
        if (i % 100 == 0) nap_us(700);
    }
    CHECK_EQ(sigwaitinfo(&signals, NULL), SIGRTMIN + 6);
    CHECK_EQ(take_away(timer), 0);
}

static atomic_int ended;
static void *waits(void *unused) {
    sigset_t signals = only(SIGRTMIN + 7);
    siginfo_t info;
    struct timespec while_ = {0, 300000000};
    while (wait_for(&signals, &info, &while_) == SIGRTMIN + 7) came++;
    ended++;
    return unused;
}

// Several threads wait for the signals of several timers. Each signal goes to one of them.
static void many_who_wait(void) {
    enum { TIMERS = 20, TIMES = 50 };
    blocked(SIGRTMIN + 7);
    timer_t timers[TIMERS];
    pthread_t threads[3];
    came = 0;
    for (int i = 0; i < 3; i++) threads[i] = start(waits, NULL);
    for (int i = 0; i < TIMERS; i++) timers[i] = signalling(CLOCK_MONOTONIC, SIGRTMIN + 7, i);
    for (int j = 0; j < TIMES; j++) {
        for (int i = 0; i < TIMERS; i++) set_us(timers[i], 100 + i % 5, 0);
        for (int k = 0; k < 3000 && came < TIMERS * (j + 1); k++) nap_us(100);
        CHECK_EQ(came, TIMERS * (j + 1));
    }
    for (int i = 0; i < 3; i++) join(threads[i]);
    for (int i = 0; i < TIMERS; i++) CHECK_EQ(take_away(timers[i]), 0);
}

MAIN(CASE(in_futex_calls), CASE(out_of_handlers), CASE(while_forking), CASE(made_and_deleted_by_many),
     CASE(of_threads_that_end), CASE(the_last_thread_ends), CASE(files_are_the_programs), CASE(many_who_wait))
