// Waits and wakes in two threads until its stdin ends. Meanwhile a debugger attaches and calls functions.
#include "check.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turned = PTHREAD_COND_INITIALIZER;
static long turn;
static int is_over;

// Called by the debugger.
int answers(int what) { return what + 711; }

static void *takes_turns(void *number) {
    CHECK_EQ(pthread_mutex_lock(&mutex), 0);
    while (!is_over) {
        while (turn % 2 != (long)number && !is_over) CHECK_EQ(pthread_cond_wait(&turned, &mutex), 0);
        turn++;
        CHECK_EQ(pthread_cond_broadcast(&turned), 0);
    }
    CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
    return NULL;
}

int main(void) {
    pthread_t threads[2];
    char byte;
    for (long i = 0; i < 2; i++) CHECK_EQ(pthread_create(threads + i, NULL, takes_turns, (void *)i), 0);
    printf("begun\n");
    fflush(stdout);
    // The debugger interrupts the read.
    for (long got = 1; got;) {
        got = read(0, &byte, 1);
        CHECK(got >= 0 || errno == EINTR);
    }
    CHECK_EQ(pthread_mutex_lock(&mutex), 0);
    is_over = 1;
    CHECK_EQ(pthread_cond_broadcast(&turned), 0);
    CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
    for (int i = 0; i < 2; i++) CHECK_EQ(pthread_join(threads[i], NULL), 0);
    printf("ended\n");
    return 0;
}
