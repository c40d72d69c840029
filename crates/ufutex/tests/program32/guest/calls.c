// Calls that find no waiters: their arguments, in the kernel's order of errors.
#include "guest.h"

static const long numbers[] = {FUTEX, FUTEX_TIME64};

static void words(long number, int flag) {
    uint32_t *word = in_region(8);
    store(word, 7);
    CASE("number %ld, flag %d", number, flag);
    RESULT(CALL(number, word, WAIT | flag, 8));
    RESULT(CALL(number, word, WAKE | flag, 1));
    RESULT(CALL(number, (char *)word + 1, WAIT | flag, 7));
    RESULT(CALL(number, (char *)word + 2, WAKE | flag, 1));
    RESULT(CALL(number, word, 99 | flag, 1));
    RESULT(CALL(number, word, 2 | flag, 1));
    RESULT(CALL(number, word, WAKE | REALTIME | flag, 1));
    RESULT(CALL(number, word, WAIT_BITSET | flag, 7));
    RESULT(CALL(number, word, WAKE_BITSET | flag, 1));
    RESULT(CALL(number, word, REQUEUE | flag, 1, 1, word + 1));
    RESULT(CALL(number, word, CMP_REQUEUE | flag, 1, 1, word + 1, 8));
    RESULT(CALL(number, word, CMP_REQUEUE | flag, 1, 1, word + 1, 7));
    RESULT(CALL(number, word, CMP_REQUEUE | flag, -1, 1, word + 1, 7));
    RESULT(CALL(number, word, CMP_REQUEUE | flag, 1, -1, word + 1, 7));
    RESULT(CALL(number, word, CMP_REQUEUE_PI | flag, 2, 1, word + 1, 7));
    RESULT(CALL(number, word, CMP_REQUEUE_PI | flag, 1, 1, word, 7));
}

// Each operation of FUTEX_WAKE_OP, with arguments of 12 bits and of a bit's number.
static void wake_operations(long number) {
    uint32_t *word = in_region(8);
    for (uint32_t op = 0; op < 16; op++) {
        for (uint32_t compare = 0; compare < 7; compare++) {
            store(word + 1, 5);
            long result = CALL(number, word, WAKE_OP, 1, 1, word + 1, op << 28 | compare << 24 | 0xffe << 12 | 4);
            CASE("number %ld, operation %u, comparison %u: %ld, %u", number, op, compare, result, load(word + 1));
        }
    }
}

// 32-bit fields. What lies behind the eight bytes is rubbish, as times of 64 bits would show.
static void narrow_times(void) {
    uint32_t *word = in_region(4);
    struct { struct narrow time; int32_t rubbish[2]; } past = {{1, 0}, {-1, -1}}, soon = {{0, 1000000}, {0, -1}};
    RESULT(CALL(FUTEX, word, WAIT_BITSET, 0, &past, 0, 1));
    RESULT(CALL(FUTEX, word, WAIT_BITSET | REALTIME, 0, &past, 0, 1));
    static const struct narrow bad[] = {{-1, 0}, {0, -1}, {0, 1000000000}, {INT_MIN, 5}, {-1, 1000000000}};
    for (int i = 0; i < 5; i++) RESULT(CALL(FUTEX, word, WAIT, 0, bad + i));
    RESULT(CALL(FUTEX, word, WAIT, 0, &soon));
    RESULT(CALL(FUTEX, word, WAIT, 0, 8));
    RESULT(CALL(FUTEX, word, WAIT, 0, -4));
    RESULT(CALL(FUTEX, word, WAIT | REALTIME, 0, &soon));
}

// 64-bit fields. The upper half of the nanoseconds is padding, which the kernel ignores.
static void padded_times(void) {
    uint32_t *word = in_region(4);
    struct padded past = {1, 0, 0xdeadbeef}, soon = {0, 1000000, 0xdeadbeef};
    static const struct padded bad[] = {{1, 1000000000, 0}, {1, -1, -1}, {-1, 0, 0}, {INT64_MIN | 1, 0, 0}};
    for (int i = 0; i < 4; i++) RESULT(CALL(FUTEX_TIME64, word, WAIT_BITSET, 0, bad + i, 0, 1));
    RESULT(CALL(FUTEX_TIME64, word, WAIT_BITSET, 0, &past, 0, 1));
    RESULT(CALL(FUTEX_TIME64, word, WAIT_BITSET | REALTIME, 0, &past, 0, 1));
    RESULT(CALL(FUTEX_TIME64, word, WAIT, 0, &soon));
    RESULT(CALL(FUTEX_TIME64, word, WAIT, 0, 8));
    RESULT(CALL(FUTEX_WAIT, word, 0, 1, U32, bad, 1));
    RESULT(CALL(FUTEX_WAIT, word, 0, 1, U32, &past, 1));
    RESULT(CALL(FUTEX_WAIT, word, 0, 1, PRIVATE_U32, &past, 0));
    RESULT(CALL(FUTEX_WAIT, word, 0, 1, U32, &past, 2));
}

static void newer_calls(uint32_t flags) {
    uint32_t *word = in_region(8);
    store(word, 7);
    CASE("flags %u", flags);
    RESULT(CALL(FUTEX_WAIT, word, 8, -1, flags));
    RESULT(CALL(FUTEX_WAIT, word, 7, 0, flags));
    RESULT(CALL(FUTEX_WAIT, word, 8, 1, flags - 1));
    RESULT(CALL(FUTEX_WAIT, (char *)word + 1, 7, 1, flags));
    RESULT(CALL(FUTEX_WAKE, word, -1, 1, flags));
    RESULT(CALL(FUTEX_WAKE, word, 0, 1, flags));
    RESULT(CALL(FUTEX_WAKE, word, 1, 1, flags | 16));
}

// Arrays on the stack, whose addresses are fields of 64 bits.
static void arrays(uint32_t flags) {
    uint32_t *word = in_region(8);
    struct padded past = {1, 0, 0xdeadbeef};
    struct waitv both[] = {{0, (uintptr_t)word, flags, 0}, {9, (uintptr_t)(word + 1), flags, 0}};
    CASE("flags %u", flags);
    RESULT(CALL(FUTEX_WAITV, both, 2, 0, 0, 1));
    RESULT(CALL(FUTEX_WAITV, both, 1, 0, &past, 1));
    RESULT(CALL(FUTEX_WAITV, both, 1, 0, &past, 2));
    RESULT(CALL(FUTEX_WAITV, both, 0, 0, 0, 1));
    RESULT(CALL(FUTEX_WAITV, both, 129, 0, 0, 1));
    RESULT(CALL(FUTEX_WAITV, both, 1, 1, 0, 1));
    RESULT(CALL(FUTEX_WAITV, 0, 1, 0, 0, 1));
    RESULT(CALL(FUTEX_WAITV, 8, 1, 0, 0, 1));
    RESULT(CALL(FUTEX_REQUEUE, both, 0, 1, 1));
    RESULT(CALL(FUTEX_REQUEUE, both, 1, 1, 1));
    RESULT(CALL(FUTEX_REQUEUE, both, 0, -1, 1));
    RESULT(CALL(FUTEX_REQUEUE, 0, 0, 1, 1));
    store(word, 3);
    RESULT(CALL(FUTEX_REQUEUE, both, 0, 1, 1));
    both[0].reserved = 1;
    RESULT(CALL(FUTEX_WAITV, both, 2, 0, 0, 1));
    RESULT(CALL(FUTEX_REQUEUE, both, 0, 1, 1));
}

void calls_without_waiters(void) {
    for (int i = 0; i < 2; i++) {
        words(numbers[i], 0);
        words(numbers[i], PRIVATE);
        wake_operations(numbers[i]);
    }
    narrow_times();
    padded_times();
    newer_calls(U32);
    newer_calls(PRIVATE_U32);
    arrays(U32);
    arrays(PRIVATE_U32);
}
