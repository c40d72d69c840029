// For figures: two threads take `turns` turns with a mutex and a condition variable. Prints nanoseconds a turn.
#include "check.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turned = PTHREAD_COND_INITIALIZER;
static long turn, turns;

static void *takes_turns(void *number) {
    for (long i = (long)number; i < turns; i += 2) {
        CHECK_EQ(pthread_mutex_lock(&mutex), 0);
        while (turn != i) CHECK_EQ(pthread_cond_wait(&turned, &mutex), 0);
        turn++;
        CHECK_EQ(pthread_cond_signal(&turned), 0);
        CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
    }
    return NULL;
}

int main(int argc, char **argv) {
    turns = argc > 1 ? atol(argv[1]) : 100000;
    struct timespec begin, end;
    CHECK_EQ(clock_gettime(CLOCK_MONOTONIC, &begin), 0);
    on_threads(2, takes_turns);
    CHECK_EQ(clock_gettime(CLOCK_MONOTONIC, &end), 0);
    printf("%ld\n", ((end.tv_sec - begin.tv_sec) * 1000000000 + end.tv_nsec - begin.tv_nsec) / turns);
}
