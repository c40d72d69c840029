// Robust lists of 32-bit pointers, by set_robust_list(2). The lists are of the guest's own making.
#include "guest.h"

struct entry { uint32_t next, word; };
struct head { uint32_t first; int32_t offset; uint32_t pending; };
_Static_assert(sizeof(struct head) == 12, "three pointers");

static void heads(void) {
    struct head *own = in_region(sizeof *own);
    uint32_t head[2] = {9, 9}, length[2] = {9, 9}, c_library;
    RESULT(CALL(GET_ROBUST_LIST, 0, head, length));
    MUST((c_library = head[0]) != 0);
    RESULT(head[1] == 9);
    for (int i = 0; i < 2; i++) RESULT(length[i]);
    static const long bad[] = {0, 8, 16, 24, -1};
    for (int i = 0; i < 5; i++) RESULT(CALL(SET_ROBUST_LIST, own, bad[i]));
    RESULT(CALL(GET_ROBUST_LIST, 0, head, length) == 0 && head[0] == c_library);
    RESULT(CALL(SET_ROBUST_LIST, own, 12));
    RESULT(CALL(GET_ROBUST_LIST, 0, head, length) == 0 && head[0] == (uintptr_t)own);
    RESULT(CALL(GET_ROBUST_LIST, gettid(), head, length) == 0 && head[0] == (uintptr_t)own);
    length[0] = 9;
    RESULT(CALL(GET_ROBUST_LIST, 0, 8, length));
    RESULT(length[0]);
    RESULT(CALL(GET_ROBUST_LIST, 0, head, 8));
    RESULT(CALL(GET_ROBUST_LIST, 0x3ffffff0, head, length));
    RESULT(CALL(SET_ROBUST_LIST, 0, 12));
    RESULT(CALL(GET_ROBUST_LIST, 0, head, length) == 0 && head[0] == 0);
    RESULT(CALL(SET_ROBUST_LIST, c_library, 12));
}

// An entry with a word on either side, one of which is the lock.
struct place { uint32_t before, next, after; };
// What a thread leaves behind.
struct estate { struct head head; struct place places[5]; uint32_t gate; int offset; };

static uint32_t *word_of(struct estate *estate, int i) {
    return estate->offset < 0 ? &estate->places[i].before : &estate->places[i].after;
}

// Place 0: owned, with a waiter. 1: another thread's. 2: a lock with inheritance. 3: an entry that leads to itself.
// 4: pending, not listed.
static void *leaves_an_estate(void *of) {
    struct estate *estate = of;
    uint32_t own = gettid(), entries[5];
    for (int i = 0; i < 5; i++) {
        entries[i] = (uintptr_t)&estate->places[i].next;
        store(word_of(estate, i), i == 1 ? own + 1 : i % 2 ? own : own | WAITERS);
    }
    for (int i = 0; i < 3; i++) estate->places[i].next = entries[i + 1] | (i == 1);
    estate->places[3].next = entries[3];
    estate->head = (struct head){entries[0], estate->offset, entries[4]};
    // The waiter that has been moved to the word sleeps there.
    UNTIL(CALL(FUTEX, &estate->gate, REQUEUE, 0, 1, word_of(estate, 0)) == 1);
    MUST(CALL(SET_ROBUST_LIST, &estate->head, 12) == 0);
    return NULL;
}

static void estates(int offset) {
    struct estate *estate = in_region(sizeof *estate);
    struct caller waiter;
    estate->offset = offset;
    CASE("offset %d", offset);
    begin(&waiter, FUTEX, (long)&estate->gate, WAIT, 0, 0, 0, 0);
    join(thread(leaves_an_estate, estate));
    RESULT(end(&waiter));
    for (int i = 0; i < 5; i++) {
        uint32_t word = load(word_of(estate, i));
        CASE("%d: %x, %d", i, word & FLAGS, (word & ~FLAGS) == 0);
    }
}

// The thread dies while it unlocks: the word is 0 and the wake is still to come.
static void *dies_before_the_wake(void *of) {
    struct estate *estate = of;
    uint32_t head = (uintptr_t)&estate->head;
    estate->head = (struct head){head, 4, (uintptr_t)&estate->places[0].next};
    UNTIL(CALL(FUTEX, &estate->gate, REQUEUE, 0, 1, &estate->places[0].after) == 1);
    MUST(CALL(SET_ROBUST_LIST, head, 12) == 0);
    return NULL;
}

static void unfinished_unlock(void) {
    struct estate *estate = in_region(sizeof *estate);
    struct caller waiter;
    begin(&waiter, FUTEX_TIME64, (long)&estate->gate, WAIT, 0, 0, 0, 0);
    join(thread(dies_before_the_wake, estate));
    RESULT(end(&waiter));
    RESULT(load(&estate->places[0].after));
}

void robust_lists_by_system_call(void) {
    heads();
    if (is_interrupted) return;
    estates(4);
    estates(-4);
    unfinished_unlock();
}
