// SIGEV_THREAD: the function is called for each expiry, on a thread of its own, which may do what other threads do.
#include "timers.h"

static atomic_int called, other_values, joinable, masked, small;
static pthread_key_t key;
static atomic_int destroyed;

static void destroys(void *unused) {
    (void)unused;
    destroyed++;
}

static void is_called(union sigval value) {
    if (value.sival_int != 42) other_values++;
    pthread_attr_t attributes;
    int state;
    size_t size;
    CHECK_EQ(pthread_getattr_np(pthread_self(), &attributes), 0);
    CHECK_EQ(pthread_attr_getdetachstate(&attributes, &state), 0);
    CHECK_EQ(pthread_attr_getstacksize(&attributes, &size), 0);
    if (state != PTHREAD_CREATE_DETACHED) joinable++;
    if (size < 1 << 20) small++;
    pthread_attr_destroy(&attributes);
    sigset_t mask;
    CHECK_EQ(pthread_sigmask(SIG_SETMASK, NULL, &mask), 0);
    for (int i = 1; i < 64; i++)
        if (i != SIGSYS && sigismember(&mask, i) == 1) masked++; // a trap never blocks SIGSYS
    CHECK_EQ(pthread_setspecific(key, &key), 0);
    called++;
}

static timer_t calling(void (*function)(union sigval), pthread_attr_t *attributes, int value) {
    struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_value.sival_int = value};
    event.sigev_notify_function = function;
    event.sigev_notify_attributes = attributes;
    timer_t timer;
    CHECK_EQ(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
    return timer;
}

static void until_called(int times) {
    for (int i = 0; called < times && i < 5000; i++) nap_us(1000);
    CHECK(called >= times);
}

static void with_intervals(void) {
    CHECK_EQ(pthread_key_create(&key, destroys), 0);
    timer_t timer = calling(is_called, NULL, 42);
    struct itimerspec left;
    set_us(timer, 2000, 2000);
    until_called(20);
    CHECK_EQ(timer_gettime(timer, &left), 0);
    CHECK_EQ(left.it_interval.tv_nsec, 2000000);
    CHECK(timer_getoverrun(timer) >= 0);
    set_us(timer, 0, 0);
    nap_us(20000);
    int now = called;
    nap_us(10000);
    CHECK_EQ(called, now);
    CHECK_EQ(destroyed, now);
    CHECK_EQ(timer_delete(timer), 0);
    CHECK_EQ(other_values + joinable, 0);
    printf("signals blocked: %d\n", masked / now);
    CHECK_EQ(small, 0);
}

static void with_attributes(void) {
    pthread_attr_t attributes;
    CHECK_EQ(pthread_attr_init(&attributes), 0);
    CHECK_EQ(pthread_attr_setstacksize(&attributes, 1 << 18), 0);
    called = small = 0;
    timer_t timer = calling(is_called, &attributes, 42);
    CHECK_EQ(pthread_attr_destroy(&attributes), 0);
    set_us(timer, 1000, 0);
    until_called(1);
    nap_us(5000);
    CHECK_EQ(called, 1);
    CHECK_EQ(small, 1);
    CHECK_EQ(timer_delete(timer), 0);
}

static void exits(union sigval value) {
    (void)value;
    CHECK_EQ(pthread_setspecific(key, &key), 0);
    called++;
    pthread_exit(NULL);
}

static void cancels_itself(union sigval value) {
    (void)value;
    CHECK_EQ(pthread_setspecific(key, &key), 0);
    called++;
    pthread_cancel(pthread_self());
    for (;;) nap_us(1000);
}

static void that_end_as_they_like(void) {
    called = destroyed = 0;
    timer_t one = calling(exits, NULL, 1), other = calling(cancels_itself, NULL, 2);
    for (int i = 0; i < 10; i++) {
        set_us(one, 1000, 0);
        set_us(other, 1000, 0);
        until_called(2 * i + 2);
    }
    for (int i = 0; i < 1000 && destroyed < 20; i++) nap_us(1000);
    CHECK_EQ(destroyed, 20);
    CHECK_EQ(timer_delete(one), 0);
    CHECK_EQ(timer_delete(other), 0);
}

static void of_many_timers(void) {
    timer_t timers[100];
    called = other_values = 0;
    for (int i = 0; i < 100; i++) timers[i] = calling(is_called, NULL, 42);
    for (int i = 0; i < 100; i++) set_us(timers[i], 20000, 0);
    until_called(100);
    nap_us(5000);
    CHECK_EQ(called, 100);
    CHECK_EQ(other_values, 0);
    for (int i = 0; i < 100; i++) CHECK_EQ(timer_delete(timers[i]), 0);
    CHECK_ERRNO(timer_create(12345, &(struct sigevent){.sigev_notify = SIGEV_THREAD}, timers), EINVAL);
}

static void in_a_forked_child(void) {
    timer_t timer = calling(is_called, NULL, 42);
    pid_t child = fork();
    if (!child) {
        called = 0;
        timer_t own = calling(is_called, NULL, 42);
        set_us(own, 1000, 1000);
        until_called(5);
        _exit(6);
    }
    reap(child, 6);
    called = 0;
    set_us(timer, 1000, 0);
    until_called(1);
    CHECK_EQ(timer_delete(timer), 0);
}

MAIN(CASE(with_intervals), CASE(with_attributes), CASE(that_end_as_they_like), CASE(of_many_timers), CASE(in_a_forked_child))
