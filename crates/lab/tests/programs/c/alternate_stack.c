// Futex calls in a handler on the alternate stack, while other signals come whose handlers want that stack too.
#include "futex.h"

#define ROUNDS 3000

static _Atomic uint32_t word, never;
static atomic_int over, storms;

// Takes as much of the stack as it can be expected to, and leaves something there.
static void on_storm(int signal) {
    volatile char used[2048];
    memset((char *)used, 0x5a, sizeof used);
    storms += signal == SIGUSR1;
}

static void on_work(int signal) {
    CHECK_EQ(signal, SIGUSR2);
    volatile uint64_t canary[16];
    for (int i = 0; i < 16; i++) canary[i] = 0xabcd0000 + i;
    for (int i = 0; i < ROUNDS; i++) {
        word++;
        wake(&word, 1);
        struct timespec soon = {0, 20000};
        int result = futex(&never, FUTEX_WAIT_PRIVATE, 0, &soon, NULL, 0);
        CHECK(result == -1 && (errno == ETIMEDOUT || errno == EINTR));
    }
    for (int i = 0; i < 16; i++) CHECK_EQ(canary[i], 0xabcd0000 + i);
}

static void *sleeps(void *unused) {
    while (!over) {
        uint32_t now = word;
        if (!over) wait_on(&word, now);
    }
    return unused;
}

static void *storms_at(void *thread) {
    while (!over) {
        CHECK_EQ(pthread_kill(*(pthread_t *)thread, SIGUSR1), 0);
        for (volatile int i = 0; i < 200; i++) continue;
    }
    return NULL;
}

static void handle(int signal, void (*handler)(int)) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    CHECK_EQ(sigaction(signal, &action, NULL), 0);
}

static void calls_under_a_storm(void) {
    stack_t stack = {.ss_sp = malloc(1 << 17), .ss_size = 1 << 17};
    CHECK_EQ(sigaltstack(&stack, NULL), 0);
    handle(SIGUSR1, on_storm);
    handle(SIGUSR2, on_work);
    pthread_t self = pthread_self(), sleeper = start(sleeps, NULL), storm = start(storms_at, &self);
    CHECK_EQ(raise(SIGUSR2), 0);
    over = 1;
    word++;
    wake(&word, 1);
    join(storm);
    join(sleeper);
    CHECK(storms > 0);
}

MAIN(CASE(calls_under_a_storm))
