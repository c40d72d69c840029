// Three threads that pass a token thousands of times, each by another number.
#include "guest.h"

enum { THREADS = 3, ROUNDS = 1000 };

struct ring { uint32_t *word; int flag; };
struct member { struct ring *ring; uint32_t index; pthread_t thread; };

static long wait_for_change(struct ring *ring, uint32_t index, uint32_t seen) {
    switch (index) {
    case 0: return CALL(FUTEX, ring->word, WAIT | ring->flag, seen);
    case 1: return CALL(FUTEX_TIME64, ring->word, WAIT | ring->flag, seen);
    default: return CALL(FUTEX_WAIT, ring->word, seen, -1, U32 | ring->flag);
    }
}

static long wake_all(struct ring *ring, uint32_t index) {
    switch (index) {
    case 0: return CALL(FUTEX, ring->word, WAKE | ring->flag, INT_MAX);
    case 1: return CALL(FUTEX_TIME64, ring->word, WAKE | ring->flag, INT_MAX);
    default: return CALL(FUTEX_WAKE, ring->word, -1, INT_MAX, U32 | ring->flag);
    }
}

static void *passes(void *of) {
    struct member *member = of;
    struct ring *ring = member->ring;
    for (int round = 0; round < ROUNDS; round++) {
        uint32_t seen;
        while ((seen = load(ring->word)) % THREADS != member->index) {
            long result = wait_for_change(ring, member->index, seen);
            MUST(result == 0 || result == -EAGAIN);
        }
        store(ring->word, seen + 1);
        MUST(wake_all(ring, member->index) < THREADS);
    }
    return NULL;
}

void tokens(void) {
    for (int flag = 0; flag <= PRIVATE; flag += PRIVATE) {
        struct ring ring = {in_region(4), flag};
        struct member members[THREADS];
        for (uint32_t i = 0; i < THREADS; i++) {
            members[i] = (struct member){&ring, i, 0};
            members[i].thread = thread(passes, members + i);
        }
        for (int i = 0; i < THREADS; i++) join(members[i].thread);
        RESULT(load(ring.word));
    }
}
