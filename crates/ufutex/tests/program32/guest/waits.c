// Waits of a second thread. A wake or a move is repeated until it has found the waiters, so the results depend on no
// timing.
#include "guest.h"

enum { ANY = INT_MAX };

// The timeouts are long: a wait that was interrupted continues with its own.
static const struct narrow narrow_hour = {3600, 0};
static const struct padded padded_hour = {3600, 0, 0xdeadbeef};

static void begin_wait(struct caller *waiter, long number, uint32_t *word, int flag) {
    switch (number) {
    case FUTEX: begin(waiter, FUTEX, (long)word, WAIT | flag, 0, (long)&narrow_hour, 0, 0); break;
    case FUTEX_TIME64: begin(waiter, FUTEX_TIME64, (long)word, WAIT | flag, 0, (long)&padded_hour, 0, 0); break;
    default: begin(waiter, FUTEX_WAIT, (long)word, 0, -1, U32 | flag, 0, 0);
    }
}

static long wake(long number, uint32_t *word, int flag, int count) {
    if (number == FUTEX_WAIT) return CALL(FUTEX_WAKE, word, -1, count, U32 | flag);
    return CALL(number, word, WAKE | flag, count);
}

// A wait by each number, woken by each.
static void pairs(int flag) {
    static const long numbers[] = {FUTEX, FUTEX_TIME64, FUTEX_WAIT};
    for (int i = 0; i < 9; i++) {
        struct caller waiter;
        uint32_t *word = in_region(4);
        begin_wait(&waiter, numbers[i / 3], word, flag);
        UNTIL(wake(numbers[i % 3], word, flag, 1) == 1);
        CASE("flag %d, pair %d: %ld", flag, i, end(&waiter));
    }
}

static void move(long number, int flag) {
    struct caller waiters[3];
    uint32_t *word = in_region(8);
    for (int i = 0; i < 3; i++) begin_wait(waiters + i, FUTEX, word, flag);
    for (int moved = 0; moved < 3;) {
        moved += CALL(number, word, CMP_REQUEUE | flag, 0, 1, word + 1, 0);
        usleep(100);
    }
    CASE("number %ld, flag %d", number, flag);
    RESULT(wake(number, word, flag, ANY));
    // One is woken and one is moved back.
    RESULT(CALL(number, word + 1, CMP_REQUEUE | flag, 1, 1, word, 0));
    RESULT(wake(number, word, flag, ANY));
    RESULT(wake(number, word + 1, flag, ANY));
    for (int i = 0; i < 3; i++) RESULT(end(waiters + i));
}

static void move_by_array(int flag) {
    struct caller waiter;
    uint32_t *word = in_region(8);
    struct waitv both[] = {{0, (uintptr_t)word, U32 | flag, 0}, {0, (uintptr_t)(word + 1), U32 | flag, 0}};
    begin_wait(&waiter, FUTEX_WAIT, word, flag);
    UNTIL(CALL(FUTEX_REQUEUE, both, 0, 0, 1) == 1);
    RESULT(wake(FUTEX_WAIT, word + 1, flag, ANY));
    RESULT(end(&waiter));
}

static void wake_two_words(long number, int flag) {
    struct caller waiters[2];
    uint32_t *word = in_region(8);
    for (int i = 0; i < 2; i++) begin_wait(waiters + i, FUTEX, word + i, flag);
    // Stores 0, compares the former value with 0: equal.
    for (int woken = 0; woken < 2;) {
        woken += CALL(number, word, WAKE_OP | flag, 1, 1, word + 1, 0);
        usleep(100);
    }
    for (int i = 0; i < 2; i++) RESULT(end(waiters + i));
}

static void bitsets(long number, int flag) {
    struct caller waiters[2];
    uint32_t *word = in_region(4);
    for (int i = 0; i < 2; i++) begin(waiters + i, number, (long)word, WAIT_BITSET | flag, 0, 0, 0, 1 << i);
    UNTIL(CALL(number, word, WAKE_BITSET | flag, ANY, 0, 0, 2) == 1);
    RESULT(end(waiters + 1));
    RESULT(CALL(number, word, WAKE_BITSET | flag, ANY, 0, 0, 6));
    UNTIL(CALL(number, word, WAKE_BITSET | flag, ANY, 0, 0, 1) == 1);
    RESULT(end(waiters));
}

static void wait_for_many(int flag) {
    struct caller waiter;
    uint32_t *words = in_region(16);
    struct waitv array[4];
    for (int i = 0; i < 4; i++) array[i] = (struct waitv){0, (uintptr_t)(words + i), U32 | flag, 0};
    for (int i = 0; i < 4; i++) {
        begin(&waiter, FUTEX_WAITV, (long)array, 4, 0, 0, 1, 0);
        UNTIL(wake(FUTEX, words + i, flag, 1) == 1);
        RESULT(end(&waiter));
    }
}

// Times that pass while the thread sleeps.
static void times_that_pass(int flag) {
    struct caller waiters[2];
    uint32_t *word = in_region(4);
    struct narrow narrow = {0, 30000000};
    struct padded padded = {0, 30000000, 0xdeadbeef};
    begin(waiters, FUTEX, (long)word, WAIT | flag, 0, (long)&narrow, 0, 0);
    begin(waiters + 1, FUTEX_TIME64, (long)word, WAIT | flag, 0, (long)&padded, 0, 0);
    for (int i = 0; i < 2; i++) RESULT(end(waiters + i));
}

void waits_and_wakes(void) {
    for (int flag = 0; flag <= PRIVATE; flag += PRIVATE) {
        pairs(flag);
        if (!is_interrupted) {
            move(FUTEX, flag);
            move(FUTEX_TIME64, flag);
            move_by_array(flag);
        }
        wake_two_words(FUTEX, flag);
        wake_two_words(FUTEX_TIME64, flag);
        bitsets(FUTEX, flag);
        bitsets(FUTEX_TIME64, flag);
        wait_for_many(flag);
        times_that_pass(flag);
    }
}
