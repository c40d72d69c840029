// Which waiters a call wakes or requeues: bitsets, counts, requeues, wake_op's second word, and the order of arrival.
#include "futex.h"

#define OP(op) ((op) | FUTEX_PRIVATE_FLAG)

static _Atomic uint32_t a, b;
static atomic_int order[8], woken;

typedef struct {
    _Atomic uint32_t *word;
    uint32_t bitset;
    int number;
} Sleeper;

static void *sleeps(void *argument) {
    Sleeper *sleeper = argument;
    CHECK_EQ(futex(sleeper->word, OP(FUTEX_WAIT_BITSET), 0, NULL, NULL, sleeper->bitset), 0);
    order[atomic_fetch_add(&woken, 1)] = sleeper->number;
    return NULL;
}

static pthread_t threads[8];
static Sleeper sleepers[8];

// Starts `count` sleepers at the first word, one after another. The bitset of each is the bit of its number.
static void asleep(int count) {
    a = 0;
    b = 0;
    woken = 0;
    for (int i = 0; i < count; i++) {
        sleepers[i] = (Sleeper){&a, 1u << i, i};
        threads[i] = start(sleeps, &sleepers[i]);
        until_waiters(&a, i + 1);
    }
}

static void until_woken(int count) {
    while (atomic_load(&woken) != count) nap_us(200);
}

static void all_awake(int count) {
    for (int i = 0; i < count; i++) join(threads[i]);
    CHECK_EQ(woken, count);
    CHECK_EQ(waiters(&a), 0);
    CHECK_EQ(waiters(&b), 0);
}

static void first_come_first_woken(void) {
    asleep(5);
    for (int i = 0; i < 5; i++) {
        show(wake(&a, 1), "wake");
        until_woken(i + 1);
        printf("woken: %d\n", order[i]);
    }
    all_awake(5);
    show(wake(&a, 1), "wake, nobody");
}

static void counts(void) {
    static const int several[] = {0, -1, INT_MIN, 2, INT_MAX};
    asleep(8);
    for (int i = 0; i < 5; i++) show(wake(&a, several[i]), "wake %d", several[i]);
    all_awake(8);
}

static void bitsets(void) {
    asleep(6);
    show(futex(&a, OP(FUTEX_WAKE_BITSET), INT_MAX, NULL, NULL, 1u << 7), "nobody's bit");
    show(futex(&a, OP(FUTEX_WAKE_BITSET), INT_MAX, NULL, NULL, 1u << 3), "one bit");
    until_woken(1);
    printf("woken: %d\n", order[0]);
    show(futex(&a, OP(FUTEX_WAKE_BITSET), 1, NULL, NULL, 0x30), "two bits, one wake");
    until_woken(2);
    printf("woken: %d\n", order[1]);
    show(futex(&a, OP(FUTEX_WAKE_BITSET), INT_MAX, NULL, NULL, 0x30), "two bits");
    show(futex(&a, OP(FUTEX_WAKE_BITSET), INT_MAX, NULL, NULL, FUTEX_BITSET_MATCH_ANY), "any");
    all_awake(6);
}

static void requeue(void) {
    asleep(6);
    show(futex(&a, OP(FUTEX_REQUEUE), 1, (void *)2, &b, 0), "wakes 1, moves 2");
    until_woken(1);
    show(waiters(&a), "left");
    show(waiters(&b), "moved");
    a = 1;
    show(futex(&a, OP(FUTEX_CMP_REQUEUE), 0, (void *)(long)INT_MAX, &b, 0), "differs");
    show(futex(&a, OP(FUTEX_CMP_REQUEUE), 0, (void *)(long)INT_MAX, &b, 1), "moves all");
    show(wake(&a, INT_MAX), "nobody left");
    for (int i = 1; i < 6; i++) {
        show(wake(&b, 1), "moved ones");
        until_woken(i + 1);
        printf("woken: %d\n", order[i]);
    }
    all_awake(6);
}

static void *sleeps_briefly(void *word) {
    struct timespec time = {0, 30000000};
    show(futex(word, OP(FUTEX_WAIT), 0, &time, NULL, 0), "its time passed where it was moved to");
    return NULL;
}

static void times_out_after_a_requeue(void) {
    a = b = 0;
    pthread_t thread = start(sleeps_briefly, &a);
    // If this CPU is so slow that the timeout passes first, nothing is requeued, and the result is the same.
    while (waiters(&a) != 1 && pthread_tryjoin_np(thread, NULL) == EBUSY) {}
    futex(&a, OP(FUTEX_REQUEUE), 0, (void *)1, &b, 0);
    pthread_join(thread, NULL);
    show(wake(&b, 1), "nobody");
}

static void wake_op(void) {
    asleep(4);
    b = 5;
    futex(&a, OP(FUTEX_REQUEUE), 0, (void *)2, &b, 0);
    show(futex(&a, OP(FUTEX_WAKE_OP), 1, (void *)1, &b, FUTEX_OP(FUTEX_OP_ADD, 3, FUTEX_OP_CMP_GT, 5)), "5 is not above 5");
    printf("word2: %u\n", b);
    show(futex(&a, OP(FUTEX_WAKE_OP), 1, (void *)2, &b, FUTEX_OP(FUTEX_OP_XOR, 3, FUTEX_OP_CMP_GE, 8)), "8 is 8");
    printf("word2: %u\n", b);
    all_awake(4);
}

struct waiter {
    uint64_t value, address;
    uint32_t flags, reserved;
};
static _Atomic uint32_t many[128];

static void *sleeps_on_many(void *count) {
    struct waiter list[128];
    for (long i = 0; i < (long)count; i++) list[i] = (struct waiter){0, (uint64_t)&many[i], FUTEX2_U32 | FUTEX2_PRIV, 0};
    return (void *)sys(SYS_futex_waitv, ARGUMENT(list), (long)count, 0, 0, 0, 0);
}

static void waitv(void) {
    static const int which[] = {0, 7, 63, 127};
    for (int i = 0; i < 4; i++) {
        pthread_t thread = start(sleeps_on_many, (void *)128);
        until_waiters(&many[127], 1);
        show(wake(&many[which[i]], 1), "wakes the one who waits for many");
        show((long)join(thread), "index");
        show(wake(&many[0], 1), "nobody");
    }
}

MAIN(CASE(first_come_first_woken), CASE(counts), CASE(bitsets), CASE(requeue), CASE(times_out_after_a_requeue),
     CASE(wake_op), CASE(waitv))
