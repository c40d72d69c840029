// Locks with priority inheritance, by futex(2).
#include "guest.h"

static uint32_t tid(void) { return gettid(); }

static void alone(long number, int flag) {
    uint32_t *word = in_region(4);
    CASE("number %ld, flag %d", number, flag);
    RESULT(CALL(number, word, UNLOCK_PI | flag));
    RESULT(CALL(number, word, LOCK_PI | flag));
    RESULT(load(word) == tid());
    RESULT(CALL(number, word, LOCK_PI | flag));
    RESULT(CALL(number, word, TRYLOCK_PI | flag));
    RESULT(CALL(number, word, UNLOCK_PI | flag));
    RESULT(load(word));
    RESULT(CALL(number, word, TRYLOCK_PI | flag));
    RESULT(CALL(number, word, UNLOCK_PI | flag));
    RESULT(CALL(number, word, LOCK_PI2 | flag));
    RESULT(CALL(number, word, UNLOCK_PI | flag));
    // No task has this TID.
    store(word, 0x3ffffff0);
    RESULT(CALL(number, word, LOCK_PI | flag));
    RESULT(load(word) & FLAGS);
    store(word, 0);
}

// A lock that the main thread holds, and what a second thread does with it.
struct contest { long number; int flag; uint32_t *word; long results[6]; uint32_t took, may_unlock; };

static void *contends(void *of) {
    struct contest *contest = of;
    long number = contest->number, flag = contest->flag;
    uint32_t *word = contest->word;
    struct narrow narrow = {1, 0};
    struct padded padded = {1, 0, 0xdeadbeef};
    void *past = number == FUTEX ? (void *)&narrow : (void *)&padded;
    contest->results[0] = CALL(number, word, TRYLOCK_PI | flag);
    contest->results[1] = CALL(number, word, UNLOCK_PI | flag);
    contest->results[2] = CALL(number, word, LOCK_PI | flag, 0, past);
    contest->results[3] = CALL(number, word, LOCK_PI2 | flag, 0, past);
    // The two have left the bit behind. The main thread waits for it to be set again.
    __atomic_and_fetch(word, ~WAITERS, __ATOMIC_SEQ_CST);
    store(&contest->took, 1);
    contest->results[4] = CALL(number, word, LOCK_PI | flag);
    store(&contest->took, 2 + ((load(word) & ~FLAGS) == tid()));
    UNTIL(load(&contest->may_unlock));
    contest->results[5] = CALL(number, word, UNLOCK_PI | flag);
    return NULL;
}

static void contended(long number, int flag) {
    struct contest contest = {number, flag, in_region(4), {0}, 0, 0};
    CASE("number %ld, flag %d", number, flag);
    RESULT(CALL(number, contest.word, LOCK_PI | flag));
    pthread_t second = thread(contends, &contest);
    UNTIL(load(&contest.took) == 1 && (load(contest.word) & WAITERS));
    RESULT(CALL(number, contest.word, UNLOCK_PI | flag));
    UNTIL(load(&contest.took) > 1);
    RESULT(contest.took == 3);
    RESULT(CALL(number, contest.word, TRYLOCK_PI | flag));
    RESULT(CALL(number, contest.word, UNLOCK_PI | flag));
    store(&contest.may_unlock, 1);
    join(second);
    for (int i = 0; i < 6; i++) RESULT(contest.results[i]);
    RESULT(load(contest.word));
}

// A thread that waits for a lock by way of another word, and unlocks it.
struct moved { long number; int flag; uint32_t *word; long results[2]; };

static void *waits_to_be_moved(void *of) {
    struct moved *moved = of;
    long number = moved->number, flag = moved->flag;
    moved->results[0] = CALL(number, moved->word, WAIT_REQUEUE_PI | flag, 0, 0, moved->word + 1);
    moved->results[1] = CALL(number, moved->word + 1, UNLOCK_PI | flag);
    return NULL;
}

static void moved_to_a_lock(long number, int flag) {
    struct moved moved = {number, flag, in_region(8), {0}};
    struct padded past = {1, 0, 0};
    CASE("number %ld, flag %d", number, flag);
    RESULT(CALL(FUTEX_TIME64, moved.word, WAIT_REQUEUE_PI | flag, 0, &past, moved.word + 1));
    RESULT(CALL(number, moved.word, WAIT_REQUEUE_PI | flag, 1, 0, moved.word + 1));
    pthread_t second = thread(waits_to_be_moved, &moved);
    UNTIL(CALL(number, moved.word, CMP_REQUEUE_PI | flag, 1, 0, moved.word + 1, 0) == 1);
    join(second);
    for (int i = 0; i < 2; i++) RESULT(moved.results[i]);
    RESULT(load(moved.word + 1));
}

void locks_by_system_call(void) {
    static const long numbers[] = {FUTEX, FUTEX_TIME64};
    for (int i = 0; i < 4; i++) {
        alone(numbers[i % 2], i / 2 * PRIVATE);
        contended(numbers[i % 2], i / 2 * PRIVATE);
        moved_to_a_lock(numbers[i % 2], i / 2 * PRIVATE);
    }
}
