// Threads made by clone(2) directly: some share the thread pointer of their creator, some have a block that glibc does
// not know. They use futexes like other threads, and the kernel clears their word and wakes at their end.
#include "futex.h"
#include <sched.h>
#include <sys/mman.h>

#define THREADS 3
#define EACH 4000
#define STACK (256 * 1024)
#define FLAGS (CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_CHILD_CLEARTID | CLONE_PARENT_SETTID)

static _Atomic uint32_t state, alive[THREADS], word;
static long sum;
static atomic_int ended;

// Does not read errno, which several threads may share. Only whether a result is 0 matters.
static void locked_addition(int i) {
    uint32_t seen = 0;
    if (!atomic_compare_exchange_strong(&state, &seen, 1))
        while (atomic_exchange(&state, 2)) wait_on(&state, 2);
    long now = sum;
    if (i % 32 == 0) sched_yield();
    sum = now + 1;
    if (atomic_exchange(&state, 0) == 2) wake(&state, 1);
}

static int adds(void *unused) {
    (void)unused;
    for (int i = 0; i < EACH; i++) locked_addition(i);
    // Sleeps, together with the other threads.
    while (!atomic_load(&word)) wait_on(&word, 0);
    atomic_fetch_add(&ended, 1);
    instruction(SYS_exit, 0, 0, 0, 0, 0, 0);
    return 0;
}

static char *memory(size_t size) {
    char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    CHECK(memory != MAP_FAILED);
    return memory;
}

// The x86-64 psABI: the thread pointer points to itself, and thread-local variables are below it. Compiled code expects
// only the stack protector's guard word besides.
static void *private_block(void) {
#if defined(__x86_64__)
    char *pointer = memory(16384) + 8192;
    uintptr_t guard;
    __asm__("mov %%fs:0x28, %0" : "=r"(guard));
    *(void **)pointer = pointer;
    *(uintptr_t *)(pointer + 0x28) = guard;
    return pointer;
#else
    return memory(16384) + 8192;
#endif
}

static void threads(int with_block) {
    char *stacks[THREADS];
    sum = 0;
    word = 0;
    ended = 0;
    for (int i = 0; i < THREADS; i++) {
        stacks[i] = memory(STACK);
        alive[i] = 1;
        int tid = clone(adds, stacks[i] + STACK, FLAGS | (with_block ? CLONE_SETTLS : 0), NULL, (pid_t *)&alive[i],
                        with_block ? private_block() : NULL, (pid_t *)&alive[i]);
        CHECK(tid > 0);
    }
    for (int i = 0; i < EACH; i++) locked_addition(i);
    while (waiters(&word) != THREADS) sched_yield();
    atomic_store(&word, 1);
    CHECK_EQ(wake(&word, INT_MAX), THREADS);
    for (int i = 0; i < THREADS; i++) {
        uint32_t tid;
        while ((tid = atomic_load(&alive[i]))) futex(&alive[i], FUTEX_WAIT, tid, NULL, NULL, 0);
        CHECK_EQ(munmap(stacks[i], STACK), 0);
    }
    CHECK_EQ(ended, THREADS);
    CHECK_EQ(sum, (THREADS + 1) * EACH);
}

static void sharing_a_thread_pointer(void) { threads(0); }
static void with_a_block_of_their_own(void) { threads(1); }

static int answers(void *unused) {
    (void)unused;
    while (!atomic_load(&word)) wait_on(&word, 0);
    atomic_store(&word, 2);
    wake(&word, 1);
    instruction(SYS_exit, 0, 0, 0, 0, 0, 0);
    return 0;
}

// A process that shares only the memory, as vfork's child would if the parent continued.
static void a_process_that_shares_memory(void) {
    char *stack = memory(STACK);
    word = 0;
    int child = clone(answers, stack + STACK, CLONE_VM | SIGCHLD, NULL);
    CHECK(child > 0);
    atomic_store(&word, 1);
    wake(&word, 1);
    while (atomic_load(&word) != 2) wait_on(&word, 1);
    reap(child, 0);
}

MAIN(CASE(sharing_a_thread_pointer), CASE(with_a_block_of_their_own), CASE(a_process_that_shares_memory))
