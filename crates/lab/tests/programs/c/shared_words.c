// Futexes in shared memory: two mappings, two processes. Private futexes stay private to each process.
#include "futex.h"
#include <sys/mman.h>

static int file;

static _Atomic uint32_t *map(int kind) {
    void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, kind, kind & MAP_ANONYMOUS ? -1 : file, 0);
    CHECK(memory != MAP_FAILED);
    return memory;
}

static long wait_shared(_Atomic uint32_t *word, uint32_t value) { return futex(word, FUTEX_WAIT, value, NULL, NULL, 0); }
static long wake_shared(_Atomic uint32_t *word, int count) { return futex(word, FUTEX_WAKE, count, NULL, NULL, 0); }

static void take_turns(_Atomic uint32_t *word, uint32_t first) {
    for (uint32_t i = first; i < 4000; i += 2) {
        uint32_t seen;
        while ((seen = *word) != i) {
            long result = wait_shared(word, seen);
            CHECK(result == 0 || errno == EAGAIN);
        }
        *word = i + 1;
        wake_shared(word, 1);
    }
}

static void between_processes(_Atomic uint32_t *ours, _Atomic uint32_t *theirs) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (!child) {
        take_turns(theirs, 1);
        _exit(0);
    }
    take_turns(ours, 0);
    reap(child, 0);
    CHECK_EQ(*ours, 4000);
}

static void anonymous_memory(void) {
    _Atomic uint32_t *word = map(MAP_SHARED | MAP_ANONYMOUS);
    between_processes(word, word);
}

static void two_mappings_of_a_file(void) {
    file = memfd_create("words", 0);
    CHECK(file >= 0);
    CHECK_EQ(ftruncate(file, 4096), 0);
    between_processes(map(MAP_SHARED), map(MAP_SHARED));
}

static void *waits_shared(void *word) { return (void *)wait_shared(word, 7); }
static void *waits_private(void *word) { return (void *)wait_on(word, 7); }

// Shared and private waits at the same word do not share wakes.
static void shared_and_private_do_not_meet(void) {
    _Atomic uint32_t *one = map(MAP_SHARED), *other = map(MAP_SHARED);
    *one = 7;
    pthread_t shared = start(waits_shared, (void *)one), private = start(waits_private, (void *)one);
    until_waiters(one, 1);
    while (futex(one, FUTEX_REQUEUE, 0, (void *)(long)INT_MAX, one, 0) != 1) nap_us(200);
    show(wake((void *)other, 1), "private, by another mapping");
    show(wake_shared(other, INT_MAX), "shared, by another mapping");
    show((long)join(shared), "shared waiter");
    show(wake((void *)one, INT_MAX), "private");
    show((long)join(private), "private waiter");
}

// A shared call on private memory is keyed by the address space, so the child has a key of its own.
static void shared_calls_on_private_memory(void) {
    static _Atomic uint32_t word = 7;
    pthread_t waiter = start(waits_shared, &word);
    while (futex(&word, FUTEX_REQUEUE, 0, (void *)(long)INT_MAX, &word, 0) != 1) nap_us(200);
    pid_t child = fork();
    CHECK(child >= 0);
    if (!child) _exit(wake_shared(&word, INT_MAX) == 0 ? 0 : 1);
    reap(child, 0);
    show(wake_shared(&word, INT_MAX), "wakes its own");
    show((long)join(waiter), "waiter");
}

// Private futexes in shared memory belong to each process alone.
static void private_calls_on_shared_memory(void) {
    _Atomic uint32_t *word = map(MAP_SHARED | MAP_ANONYMOUS);
    *word = 7;
    pthread_t waiter = start(waits_private, (void *)word);
    until_waiters(word, 1);
    pid_t child = fork();
    CHECK(child >= 0);
    if (!child) _exit(wake((void *)word, INT_MAX) == 0 ? 0 : 1);
    reap(child, 0);
    show(wake((void *)word, INT_MAX), "wakes its own");
    show((long)join(waiter), "waiter");
}

MAIN(CASE(anonymous_memory), CASE(two_mappings_of_a_file), CASE(shared_and_private_do_not_meet),
     CASE(shared_calls_on_private_memory), CASE(private_calls_on_shared_memory))
