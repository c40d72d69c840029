// timer_create(2) and its family as programs call them: by libc's functions, with BY_SYSCALL by libc's syscall(), or
// with BY_INSTRUCTION by the instruction itself, which only a trap intercepts.
#pragma once
#include "futex.h"

#if defined(BY_INSTRUCTION) || defined(BY_SYSCALL)
static inline int make(clockid_t clock, struct sigevent *event, timer_t *timer) {
    int id = (int)(long)*timer;
    long result = sys(SYS_timer_create, clock, ARGUMENT(event), ARGUMENT(&id), 0, 0, 0);
    if (!result) *timer = (timer_t)(long)id;
    return (int)result;
}
static inline int set(timer_t timer, int flags, const struct itimerspec *new, struct itimerspec *old) {
    return (int)sys(SYS_timer_settime, (long)timer, flags, ARGUMENT(new), ARGUMENT(old), 0, 0);
}
static inline int get(timer_t timer, struct itimerspec *now) {
    return (int)sys(SYS_timer_gettime, (long)timer, ARGUMENT(now), 0, 0, 0, 0);
}
static inline int get_overrun(timer_t timer) { return (int)sys(SYS_timer_getoverrun, (long)timer, 0, 0, 0, 0, 0); }
static inline int take_away(timer_t timer) { return (int)sys(SYS_timer_delete, (long)timer, 0, 0, 0, 0, 0); }
static inline int wait_for(const sigset_t *set, siginfo_t *info, const struct timespec *timeout) {
    return (int)sys(SYS_rt_sigtimedwait, ARGUMENT(set), ARGUMENT(info), ARGUMENT(timeout), 8, 0, 0);
}
#else
#define make timer_create
#define set timer_settime
#define get timer_gettime
#define get_overrun timer_getoverrun
#define take_away timer_delete
#define wait_for sigtimedwait
#endif

// glibc's own functions took a pointer before 2.33.
#if defined(BY_INSTRUCTION) || defined(BY_SYSCALL) || !defined(__GLIBC__) || __GLIBC_PREREQ(2, 33)
#define TIMER_T_IS_ID 1
#else
#define TIMER_T_IS_ID 0
#endif
#define IS_ID_OF(timer, id) (!TIMER_T_IS_ID || (int)(id) == (int)(long)(timer))

static inline struct itimerspec in_us(long value, long interval) {
    return (struct itimerspec){.it_value = {value / 1000000, value % 1000000 * 1000},
                               .it_interval = {interval / 1000000, interval % 1000000 * 1000}};
}

static inline timer_t signalling(clockid_t clock, int signal, long value) {
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = signal, .sigev_value.sival_ptr = (void *)value};
    timer_t timer = 0;
    CHECK_EQ(make(clock, &event, &timer), 0);
    return timer;
}

static inline void set_us(timer_t timer, long value, long interval) {
    struct itimerspec setting = in_us(value, interval);
    CHECK_EQ(set(timer, 0, &setting, NULL), 0);
}

static inline sigset_t only(int signal) {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, signal);
    return signals;
}

static inline sigset_t blocked(int signal) {
    sigset_t signals = only(signal);
    CHECK_EQ(pthread_sigmask(SIG_BLOCK, &signals, NULL), 0);
    return signals;
}

static inline void handle(int signal, void (*handler)(int, siginfo_t *, void *), int flags) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags};
    CHECK_EQ(sigaction(signal, &action, NULL), 0);
}

static inline long ms_of(clockid_t clock) {
    struct timespec time;
    CHECK_EQ(clock_gettime(clock, &time), 0);
    return time.tv_sec * 1000 + time.tv_nsec / 1000000;
}
