// Waits and wakes of a thread with a small stack, while signals arrive for it.
#include "futex.h"

enum { STACK = 24 << 10 };

static _Atomic uint32_t word;
static atomic_int over, seen;
static pthread_t receiver;

static void handler(int signal) {
    (void)signal;
    seen++;
}

static void *waits_and_wakes(void *unused) {
    const struct timespec soon = {0, 20000};
    while (seen < 5000) {
        CHECK_EQ(futex(&word, FUTEX_WAIT_PRIVATE, 0, &soon, NULL, 0), -1);
        CHECK_EQ(wake(&word, 1), 0);
        CHECK_ERRNO(futex(&word, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0), EAGAIN);
    }
    over = 1;
    return unused;
}

int main(void) {
    CHECK(signal(SIGUSR1, handler) != SIG_ERR);
    pthread_attr_t attributes;
    CHECK_EQ(pthread_attr_init(&attributes), 0);
    CHECK_EQ(pthread_attr_setstacksize(&attributes, STACK), 0);
    CHECK_EQ(pthread_create(&receiver, &attributes, waits_and_wakes, NULL), 0);
    for (unsigned i = 0; !over; i++) {
        pthread_kill(receiver, SIGUSR1);
        for (volatile unsigned pause = 0; pause < i % 3000; pause++) {}
    }
    join(receiver);
    printf("ok\n");
    return 0;
}
