// Another preloaded library shows shifted clocks (skewed_library.c). Waits and timers go by the kernel's: relative ones last
// as long as they say, and absolute ones end at the kernel's time.
#include "beside.h"
#include "timers.h"

static _Atomic uint32_t word;

static struct timespec of_the_kernel(clockid_t clock) {
    struct timespec time;
    CHECK_EQ(instruction(SYS_clock_gettime, clock, ARGUMENT(&time), 0, 0, 0, 0), 0);
    return time;
}
static int64_t now_ns(clockid_t clock) {
    struct timespec time = of_the_kernel(clock);
    return time.tv_sec * 1000000000ll + time.tv_nsec;
}
static struct timespec span(int64_t ns) { return (struct timespec){ns / 1000000000, ns % 1000000000}; }

// Prints a name if no more than 30 s and no less than 60 ms have passed.
static void lasted(const char *name, int64_t begin) {
    int64_t ns = now_ns(CLOCK_MONOTONIC) - begin;
    CHECK(ns >= 60000000 && ns < 30000000000);
    printf("%s\n", name);
}

static void waits(const char *name, int op, const struct timespec *timeout) {
    int64_t begin = now_ns(CLOCK_MONOTONIC);
    CHECK_ERRNO(futex(&word, op | FUTEX_PRIVATE_FLAG, 0, timeout, NULL, FUTEX_BITSET_MATCH_ANY), ETIMEDOUT);
    lasted(name, begin);
}

static void expires(clockid_t clock, int flags) {
    sigset_t signals = blocked(SIGUSR1);
    timer_t timer = signalling(clock, SIGUSR1, 0);
    int64_t begin = now_ns(CLOCK_MONOTONIC);
    struct itimerspec setting = {.it_value = span(60000000 + (flags ? now_ns(clock) : 0))};
    CHECK_EQ(set(timer, flags, &setting, NULL), 0);
    CHECK_EQ(wait_for(&signals, NULL, NULL), SIGUSR1);
    lasted(flags ? "absolute timer" : "relative timer", begin);
    CHECK_EQ(take_away(timer), 0);
}

int main(int argc, char **argv) {
    (void)argc;
    beside(argv);
    struct timespec shown;
    CHECK_EQ(clock_gettime(CLOCK_MONOTONIC, &shown), 0);
    CHECK(shown.tv_sec - of_the_kernel(CLOCK_MONOTONIC).tv_sec > 80000);
    struct timespec relative = span(60000000);
    waits("relative", FUTEX_WAIT, &relative);
    struct timespec monotonic = span(now_ns(CLOCK_MONOTONIC) + 60000000);
    waits("absolute", FUTEX_WAIT_BITSET, &monotonic);
    struct timespec real = span(now_ns(CLOCK_REALTIME) + 60000000);
    waits("absolute, real time", FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME, &real);
    expires(CLOCK_MONOTONIC, 0);
    expires(CLOCK_MONOTONIC, TIMER_ABSTIME);
    expires(CLOCK_REALTIME, 0);
    expires(CLOCK_REALTIME, TIMER_ABSTIME);
    printf("ok\n");
    return 0;
}
