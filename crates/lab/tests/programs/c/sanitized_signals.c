// Signals at threads that allocate, lock and wait. ThreadSanitizer (-fsanitize=thread) replaces sigaction too, and lets no
// handler run in the middle of its own work. It reports no race: this program has none.
#include "futex.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static atomic_int handled, stop;
static int counter;
static _Atomic uint32_t word;

static void handler(int signal) {
    (void)signal;
    int saved = errno;
    handled++;
    wake(&word, 1);
    errno = saved;
}

static void *works(void *unused) {
    while (!stop) {
        char *block = malloc(100 + handled % 1000);
        memset(block, 1, 100);
        pthread_mutex_lock(&mutex);
        counter++;
        pthread_mutex_unlock(&mutex);
        free(block);
        struct timespec soon = {0, 10000};
        futex(&word, FUTEX_WAIT_PRIVATE, 0, &soon, NULL, 0);
    }
    return unused;
}

static void signals(void) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) threads[i] = start(works, NULL);
    for (int i = 0; i < 20000 || handled < 100; i++) {
        pthread_kill(threads[i % 3], SIGUSR1);
        if (i % 16 == 0) nap_us(20);
    }
    stop = 1;
    for (int i = 0; i < 3; i++) join(threads[i]);
    CHECK(counter > 0);
}

MAIN(CASE(signals))
