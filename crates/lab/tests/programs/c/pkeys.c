// Futexes in memory with protection keys, and calls on a stack with one: pkeys(7).
#include "futex.h"
#include <sys/mman.h>
#include <ucontext.h>

#define PAGE 4096

static _Atomic uint32_t *words;
static int key;

static void begin(void) {
    if (words) return;
    key = pkey_alloc(0, 0);
    if (key < 0) {
        dprintf(2, "no protection keys here: %s\n", strerrorname_np(errno));
        _exit(SKIPPED);
    }
    words = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(words != MAP_FAILED);
    CHECK_EQ(pkey_mprotect((void *)words, PAGE, PROT_READ | PROT_WRITE, key), 0);
}

static void calls(const char *what) {
    struct timespec soon = {0, 1000000};
    show(futex(words, FUTEX_WAIT_PRIVATE, 1, &soon, NULL, 0), "%s: another value", what);
    show(futex(words, FUTEX_WAIT_PRIVATE, 0, &soon, NULL, 0), "%s: until a time", what);
    show(futex(words, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0), "%s: a wake", what);
    show(futex(words + 1, FUTEX_WAKE_OP_PRIVATE, 1, (void *)1L, (void *)words, FUTEX_OP(FUTEX_OP_OR, 0, FUTEX_OP_CMP_EQ, 0)),
         "%s: a wake that changes a word", what);
}

static void words_with_a_key(void) {
    const unsigned rights[] = {0, PKEY_DISABLE_WRITE, PKEY_DISABLE_ACCESS};
    const char *const names[] = {"all", "read", "none"};
    begin();
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(pkey_set(key, rights[i]), 0);
        calls(names[i]);
        CHECK_EQ(pkey_get(key), rights[i]);
    }
    CHECK_EQ(pkey_set(key, 0), 0);
}

static void *waits(void *unused) {
    CHECK_EQ(pkey_set(key, 0), 0);
    while (!words[2]) futex(words + 2, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
    CHECK_EQ(pkey_get(key), 0);
    return unused;
}

static void woken_there(void) {
    begin();
    words[2] = 0;
    pthread_t thread = start(waits, NULL);
    nap_us(1000); // mostly long enough for it to sleep
    words[2] = 1;
    while (futex(words + 2, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0) < 0) continue;
    join(thread);
}

static ucontext_t caller, coroutine;
static void on_that_stack(void) {
    calls("its own stack");
    CHECK_EQ(pkey_get(key), 0);
}

static void stack_with_a_key(void) {
    begin();
    char *stack = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(stack != MAP_FAILED);
    CHECK_EQ(pkey_mprotect(stack, 1 << 20, PROT_READ | PROT_WRITE, key), 0);
    CHECK_EQ(getcontext(&coroutine), 0);
    coroutine.uc_stack.ss_sp = stack;
    coroutine.uc_stack.ss_size = 1 << 20;
    coroutine.uc_link = &caller;
    makecontext(&coroutine, on_that_stack, 0);
    CHECK_EQ(swapcontext(&caller, &coroutine), 0);
    CHECK_EQ(munmap(stack, 1 << 20), 0);
}

static atomic_int rights_there;
static void notes(int signal) {
    (void)signal;
    rights_there = pkey_get(key);
}

// A handler begins with the rights of a new process, and the thread gets its own back.
static void own_handlers(void) {
    begin();
    struct sigaction action = {.sa_handler = notes};
    const int signals[] = {SIGSYS, SIGUSR1};
    for (int i = 0; i < 2; i++) {
        rights_there = -1;
        CHECK_EQ(sigaction(signals[i], &action, NULL), 0);
        CHECK_EQ(raise(signals[i]), 0);
        printf("signal %d: %d, and then %d\n", signals[i], rights_there, pkey_get(key));
    }
}

MAIN(CASE(words_with_a_key), CASE(woken_there), CASE(stack_with_a_key), CASE(own_handlers))
