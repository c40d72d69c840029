// Operations with priority inheritance on a private word at which threads wait plainly. The kernel refuses these
// operations. They must be refused too if the waiters are the engine's.
#include "futex.h"

static _Atomic uint32_t word, lock;
static _Atomic pid_t waiter;

static void *waits(void *unused) {
    waiter = gettid();
    long result = futex((void *)&word, FUTEX_WAIT_PRIVATE, 5, NULL, NULL, 0);
    CHECK(result == 0 || errno == EAGAIN);
    return unused;
}

static int sleeps(pid_t thread) {
    char path[64], state = 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", thread);
    FILE *file = fopen(path, "r");
    CHECK(file);
    CHECK_EQ(fscanf(file, "%*d %*s %c", &state), 1);
    fclose(file);
    return state == 'S';
}

static long operation(int op, uint32_t value, uint32_t value3) {
    // The second value of a requeue is the number of waiters to move.
    return futex((void *)&word, op, value, (void *)1L, (void *)&lock, value3);
}

static pthread_t asleep(void) {
    word = 5;
    lock = 0;
    waiter = 0;
    pthread_t thread = start(waits, NULL);
    while (!waiter || !sleeps(waiter)) nap_us(1000);
    nap_us(5000);
    while (!sleeps(waiter)) nap_us(1000);
    return thread;
}

static void requeue_to_a_lock(void) {
    show(operation(FUTEX_CMP_REQUEUE_PI_PRIVATE, 1, 0), "nobody, another value");
    show(operation(FUTEX_CMP_REQUEUE_PI_PRIVATE, 1, word), "nobody");
    pthread_t thread = asleep();
    show(operation(FUTEX_CMP_REQUEUE_PI_PRIVATE, 1, 6), "a waiter, another value");
    show(operation(FUTEX_CMP_REQUEUE_PI_PRIVATE, 1, 5), "a waiter");
    show(operation(FUTEX_CMP_REQUEUE_PI_PRIVATE, 2, 5), "a waiter, two to be woken");
    CHECK_EQ(lock, 0);
    CHECK_EQ(sleeps(waiter), 1);
    show(futex((void *)&word, FUTEX_WAKE_PRIVATE, 9, NULL, NULL, 0), "woken");
    join(thread);
    show(operation(FUTEX_CMP_REQUEUE_PI_PRIVATE, 1, 5), "it has gone");
}

#ifndef BY_INSTRUCTION
// By the instruction these calls go to the kernel alone, because glibc's locks make them.
static void locks(void) {
    static const int LOCKS[] = {FUTEX_LOCK_PI_PRIVATE, FUTEX_TRYLOCK_PI_PRIVATE, FUTEX_LOCK_PI2 | FUTEX_PRIVATE_FLAG};
    struct timespec at_once = {0, 1};
    for (int i = 0; i < 3; i++) {
        pthread_t thread = asleep();
        show(futex((void *)&word, LOCKS[i], 0, &at_once, NULL, 0), "%d of a word with a waiter", i);
        show(futex((void *)&word, FUTEX_UNLOCK_PI_PRIVATE, 0, NULL, NULL, 0), "unlocked by another");
        word = (uint32_t)gettid();
        show(futex((void *)&word, LOCKS[i], 0, &at_once, NULL, 0), "%d of one's own lock", i);
        show(futex((void *)&word, FUTEX_UNLOCK_PI_PRIVATE, 0, NULL, NULL, 0), "unlocked");
        CHECK_EQ(word, gettid());
        show(futex((void *)&word, FUTEX_WAKE_PRIVATE, 9, NULL, NULL, 0), "woken");
        join(thread);
        show(futex((void *)&word, FUTEX_UNLOCK_PI_PRIVATE, 0, NULL, NULL, 0), "unlocked");
        CHECK_EQ(word, 0);
        show(futex((void *)&word, LOCKS[i], 0, NULL, NULL, 0), "%d of a free word", i);
        show(futex((void *)&word, FUTEX_UNLOCK_PI_PRIVATE, 0, NULL, NULL, 0), "unlocked");
    }
}

// Plain operations that meet a thread that waits for a lock.
static atomic_int unlocks;
static _Atomic uint32_t holds;
static void *holder(void *unused) {
    CHECK_EQ(futex((void *)&lock, FUTEX_LOCK_PI_PRIVATE, 0, NULL, NULL, 0), 0);
    holds = 1;
    while (!unlocks) nap_us(200);
    CHECK_EQ(futex((void *)&lock, FUTEX_UNLOCK_PI_PRIVATE, 0, NULL, NULL, 0), 0);
    return unused;
}
static void *takes(void *unused) {
    waiter = gettid();
    CHECK_EQ(futex((void *)&lock, FUTEX_LOCK_PI_PRIVATE, 0, NULL, NULL, 0), 0);
    CHECK_EQ(futex((void *)&lock, FUTEX_UNLOCK_PI_PRIVATE, 0, NULL, NULL, 0), 0);
    return unused;
}
static void plain(const char *name, int op, uint32_t value, long value2, _Atomic uint32_t *second, uint32_t value3) {
    show(futex((void *)&lock, op, value, (void *)value2, (void *)second, value3), "%s, %d and %ld", name, (int)value, value2);
}
static void plain_operations_at_a_lock(void) {
    lock = word = 0;
    waiter = 0;
    pthread_t one = start(holder, NULL);
    while (!holds) nap_us(200);
    pthread_t other = start(takes, NULL);
    while (!waiter || !sleeps(waiter) || !(lock & FUTEX_WAITERS)) nap_us(1000);
    uint32_t value = lock;
    for (int count = 0; count < 2; count++) {
        plain("wake", FUTEX_WAKE_PRIVATE, count, 0, NULL, 0);
        plain("wake by bits", FUTEX_WAKE_BITSET_PRIVATE, count, 0, NULL, 1);
        for (int moved = 0; moved < 2; moved++) {
            plain("requeue", FUTEX_REQUEUE_PRIVATE, count, moved, &word, 0);
            plain("requeue to itself", FUTEX_REQUEUE_PRIVATE, count, moved, &lock, 0);
            plain("requeue, compared", FUTEX_CMP_REQUEUE_PRIVATE, count, moved, &word, value);
            plain("requeue, another value", FUTEX_CMP_REQUEUE_PRIVATE, count, moved, &word, value + 1);
        }
    }
    plain("wake at the first word", FUTEX_WAKE_OP_PRIVATE, 1, 1, &word, FUTEX_OP(FUTEX_OP_SET, 7, FUTEX_OP_CMP_EQ, 1));
    printf("the second word holds %u\n", word);
    static const uint32_t COMPARED[] = {
        FUTEX_OP(FUTEX_OP_OR, 0, FUTEX_OP_CMP_NE, 0), FUTEX_OP(FUTEX_OP_OR, 0, FUTEX_OP_CMP_EQ, 0),
        FUTEX_OP(FUTEX_OP_OR, 0, FUTEX_OP_CMP_LT, -5), FUTEX_OP(FUTEX_OP_OR, 0, FUTEX_OP_CMP_GE, 0),
        FUTEX_OP(FUTEX_OP_OR, 0, FUTEX_OP_CMP_LE, 5), FUTEX_OP(FUTEX_OP_OR, 0, FUTEX_OP_CMP_GT, 5),
    };
    for (int i = 0; i < 6; i++)
        show(futex((void *)&word, FUTEX_WAKE_OP_PRIVATE, 1, (void *)1L, (void *)&lock, COMPARED[i]), "wake at the second, %d", i);
    CHECK_EQ(lock, value);
    unlocks = 1;
    join(one);
    join(other);
    plain("wake, no waiter", FUTEX_WAKE_PRIVATE, 1, 0, NULL, 0);
}

MAIN(CASE(requeue_to_a_lock), CASE(locks), CASE(plain_operations_at_a_lock))
#else
MAIN(CASE(requeue_to_a_lock))
#endif
