// Functions that pass an address on to the kernel are EFAULT if it is bad, as the kernel's calls are.
#include "check.h"
#include <sys/resource.h>

#define BAD ((void *)8)

static const struct timespec at_once;
static sigset_t signals;

static void waits_for_signals(void) {
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR1);
    CHECK_EQ(sigprocmask(SIG_BLOCK, &signals, NULL), 0);
    CHECK_EQ(raise(SIGUSR1), 0);
    CHECK_ERRNO(sigtimedwait(&signals, BAD, &at_once), EFAULT);
    CHECK_ERRNO(sigtimedwait(&signals, NULL, &at_once), EAGAIN); // it was taken
    CHECK_EQ(raise(SIGUSR1), 0);
    CHECK_ERRNO(sigwaitinfo(&signals, BAD), EFAULT);
    CHECK_ERRNO(sigtimedwait(BAD, NULL, &at_once), EFAULT);
    CHECK_ERRNO(sigtimedwait(&signals, NULL, BAD), EFAULT);
    siginfo_t info;
    CHECK_EQ(raise(SIGUSR1), 0);
    CHECK_EQ(sigtimedwait(&signals, &info, &at_once), SIGUSR1);
    CHECK_EQ(info.si_signo, SIGUSR1);
}

static pid_t child_that_ends(void) {
    pid_t child = fork();
    if (!child) _exit(3);
    siginfo_t info;
    CHECK_EQ(waitid(P_PID, child, &info, WEXITED | WNOWAIT), 0);
    return child;
}

static void waits_for_children(void) {
    CHECK_ERRNO(waitpid(child_that_ends(), BAD, 0), EFAULT);
    CHECK_ERRNO(wait4(child_that_ends(), BAD, 0, NULL), EFAULT);
    CHECK_ERRNO(wait4(child_that_ends(), NULL, 0, BAD), EFAULT);
    child_that_ends();
    CHECK_ERRNO(wait(BAD), EFAULT);
    CHECK_ERRNO(waitid(P_PID, child_that_ends(), BAD, WEXITED), EFAULT);
    CHECK_ERRNO(wait(NULL), ECHILD); // all were taken
}

MAIN(CASE(waits_for_signals), CASE(waits_for_children))
