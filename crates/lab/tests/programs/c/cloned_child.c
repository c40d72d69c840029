// A process that clone(2) makes, whose function returns: libc ends its thread by exit(2). The process ends with the
// function's result, since it has no other thread.
#include "check.h"
#include <sched.h>

static char stack[1 << 16] __attribute__((aligned(16)));

static int uses_a_timer(void *result) {
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_NONE};
    CHECK_EQ(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
    struct itimerspec soon = {{0, 0}, {0, 1000000}};
    CHECK_EQ(timer_settime(timer, 0, &soon, NULL), 0);
    return *(int *)result;
}

static pid_t ids[2];
static int looks_at_its_arguments(void *result) {
    return ids[1] == getpid() ? *(int *)result : 99;
}

static void timers(void) {
    int result = 7;
    pid_t child = clone(uses_a_timer, stack + sizeof stack, SIGCHLD, &result);
    CHECK(child > 0);
    reap(child, 7);
}

static void arguments(void) {
    int result = 8;
    pid_t child = clone(looks_at_its_arguments, stack + sizeof stack, SIGCHLD | CLONE_CHILD_SETTID | CLONE_PARENT_SETTID,
                        &result, &ids[0], NULL, &ids[1]);
    CHECK(child > 0);
    CHECK_EQ(ids[0], child);
    reap(child, 8);
    CHECK_ERRNO(clone(NULL, stack + sizeof stack, SIGCHLD, &result), EINVAL);
    CHECK_ERRNO(clone(uses_a_timer, NULL, SIGCHLD, &result), EINVAL);
}

static void exit_of_the_last_thread(void) {
    pid_t child = fork();
    if (child == 0) {
        int result = 9;
        uses_a_timer(&result);
        syscall(SYS_exit, 9);
    }
    reap(child, 9);
}

static void *ends_later(void *unused) {
    nap_us(100000);
    syscall(SYS_exit, 10);
    return unused;
}

// The kernel lists the first thread until the last one has ended.
static void exit_of_the_first_thread(void) {
    pid_t child = fork();
    if (child == 0) {
        int result = 10;
        uses_a_timer(&result);
        start(ends_later, NULL);
        syscall(SYS_exit, 10);
    }
    reap(child, 10);
}

MAIN(CASE(timers), CASE(arguments), CASE(exit_of_the_last_thread), CASE(exit_of_the_first_thread))
