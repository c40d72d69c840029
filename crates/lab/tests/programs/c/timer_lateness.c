// For figures: sets a timer, forks, and sleeps by nanosleep(2) for as long, several times. Prints the median and the
// 99th percentile of the signal's lateness in microseconds, and the percentage of signals that came after the sleep.
#include "check.h"

static const long LENGTH_NS = 3000000;
static volatile long arrived_ns;

static long now_ns(void) {
    struct timespec now;
    CHECK_EQ(clock_gettime(CLOCK_MONOTONIC, &now), 0);
    return now.tv_sec * 1000000000 + now.tv_nsec;
}

static void arrives(int signal) {
    (void)signal;
    arrived_ns = now_ns();
}

static int compare(const void *a, const void *b) {
    long x = *(const long *)a, y = *(const long *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    long times = argc > 1 ? atol(argv[1]) : 1000, after = 0;
    long *late = calloc(times, sizeof *late);
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
    struct sigaction action = {.sa_handler = arrives};
    timer_t timer;
    CHECK(late != NULL);
    CHECK_EQ(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
    CHECK_EQ(sigaction(SIGALRM, &action, NULL), 0);
    for (long i = 0; i < times; i++) {
        long due = now_ns() + LENGTH_NS;
        struct itimerspec when = {.it_value = {due / 1000000000, due % 1000000000}};
        struct timespec length = {0, LENGTH_NS};
        arrived_ns = 0;
        CHECK_EQ(timer_settime(timer, TIMER_ABSTIME, &when, NULL), 0);
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) _exit(0);
        // The signal ends the sleep, unless it is late.
        after += nanosleep(&length, NULL) == 0 && !arrived_ns;
        while (!arrived_ns) usleep(10);
        late[i] = arrived_ns - due;
        while (waitpid(child, NULL, 0) < 0) CHECK_EQ(errno, EINTR);
    }
    qsort(late, times, sizeof *late, compare);
    printf("%.1f %.1f %.2f\n", late[times / 2] / 1e3, late[times * 99 / 100] / 1e3, after * 100.0 / times);
}
