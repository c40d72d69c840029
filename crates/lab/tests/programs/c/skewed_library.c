// Shows clocks that are a day ahead, as libfaketime does. The kernel's sleeps stay as they are.
#include "futex.h"
#include <sys/time.h>

int clock_gettime(clockid_t clock, struct timespec *time) {
    long result = instruction(SYS_clock_gettime, clock, ARGUMENT(time), 0, 0, 0, 0);
    if (!result && (clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC || clock == CLOCK_BOOTTIME)) time->tv_sec += 86400;
    return (int)result;
}

int gettimeofday(struct timeval *time, void *zone) {
    (void)zone;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    time->tv_sec = now.tv_sec;
    time->tv_usec = now.tv_nsec / 1000;
    return 0;
}
