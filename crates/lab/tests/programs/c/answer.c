// A minimal threaded program, for tests of how programs are started. It prints a line and exits with status 3.
#include "check.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int stage;

static void *answers(void *unused) {
    CHECK_EQ(pthread_mutex_lock(&mutex), 0);
    while (stage != 1) CHECK_EQ(pthread_cond_wait(&condition, &mutex), 0);
    stage = 2;
    CHECK_EQ(pthread_cond_signal(&condition), 0);
    CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
    return unused;
}

int main(int argc, char **argv) {
    pthread_t thread = start(answers, NULL);
    CHECK_EQ(pthread_mutex_lock(&mutex), 0);
    stage = 1;
    CHECK_EQ(pthread_cond_signal(&condition), 0);
    while (stage != 2) CHECK_EQ(pthread_cond_wait(&condition, &mutex), 0);
    CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
    join(thread);
    printf("answered%s%s\n", argc > 1 ? " " : "", argc > 1 ? argv[1] : "");
    return 3;
}
