// prctl(PR_FUTEX_HASH): a program that requests a table of its own, or none, gets it, and wakes find their waiters.
#include "futex.h"
#include <sys/prctl.h>

#ifndef PR_FUTEX_HASH
#define PR_FUTEX_HASH 78
#define PR_FUTEX_HASH_SET_SLOTS 1
#define PR_FUTEX_HASH_GET_SLOTS 2
#endif

static void present(void) {
    if (prctl(PR_FUTEX_HASH, PR_FUTEX_HASH_GET_SLOTS, 0, 0, 0) == -1) {
        fprintf(stderr, "this kernel has no prctl(PR_FUTEX_HASH): %s\n", strerrorname_np(errno));
        exit(SKIPPED);
    }
}

static void one_thread(void) { show(prctl(PR_FUTEX_HASH, PR_FUTEX_HASH_GET_SLOTS, 0, 0, 0), "slots before any thread"); }

static void misuse(void) {
    show(prctl(PR_FUTEX_HASH, 0, 0, 0, 0), "no such request");
    show(prctl(PR_FUTEX_HASH, 9, 0, 0, 0), "no such request");
    show(prctl(PR_FUTEX_HASH, PR_FUTEX_HASH_SET_SLOTS, 3, 0, 0), "no power of two");
    show(prctl(PR_FUTEX_HASH, PR_FUTEX_HASH_SET_SLOTS, 1, 0, 0), "one");
    show(prctl(PR_FUTEX_HASH, PR_FUTEX_HASH_SET_SLOTS, 16, 8, 0), "a flag that nobody knows");
}

static _Atomic uint32_t words[64];

static void *sleeps(void *number) {
    CHECK_EQ(wait_on(&words[(long)number], 0), 0);
    return NULL;
}

static void resized_under_waiters(void) {
    enum { MANY = 64 };
    static const int slots[] = {2, 1024, 16, 64};
    pthread_t threads[MANY];
    for (long i = 0; i < MANY; i++) threads[i] = start(sleeps, (void *)i);
    for (int i = 0; i < MANY; i++) until_waiters(&words[i], 1);
    for (int i = 0; i < 4; i++) {
        show(prctl(PR_FUTEX_HASH, PR_FUTEX_HASH_SET_SLOTS, slots[i], 0, 0), "set %d", slots[i]);
        show(prctl(PR_FUTEX_HASH, PR_FUTEX_HASH_GET_SLOTS, 0, 0, 0), "slots");
    }
    for (int i = 0; i < MANY / 2; i++) CHECK_EQ(wake(&words[i], 1), 1);
    show(prctl(PR_FUTEX_HASH, PR_FUTEX_HASH_SET_SLOTS, 0, 0, 0), "the global table");
    show(prctl(PR_FUTEX_HASH, PR_FUTEX_HASH_GET_SLOTS, 0, 0, 0), "slots");
    for (int i = MANY / 2; i < MANY; i++) CHECK_EQ(wake(&words[i], 1), 1);
    for (int i = 0; i < MANY; i++) join(threads[i]);
    show(prctl(PR_FUTEX_HASH, PR_FUTEX_HASH_SET_SLOTS, 16, 0, 0), "back again");
}

MAIN(CASE(present), CASE(one_thread), CASE(misuse), CASE(resized_under_waiters))
