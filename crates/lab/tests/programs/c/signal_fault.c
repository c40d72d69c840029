// A program handles its own faults, by a jump or by mapping the page, while its threads use futexes. Futex calls on bad
// memory return EFAULT and do not run that handler.
#include "futex.h"
#include <fcntl.h>
#include <semaphore.h>
#include <setjmp.h>
#include <sys/mman.h>

static _Thread_local sigjmp_buf back;
static _Thread_local volatile sig_atomic_t faults;
static _Thread_local void *volatile fault_at;
static _Thread_local volatile int code;
static volatile sig_atomic_t mend;

static void handler(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    faults++;
    fault_at = info->si_addr;
    code = info->si_code;
    if (!mend) siglongjmp(back, 1);
    CHECK_EQ(mprotect((void *)((uintptr_t)info->si_addr & -4096ul), 4096, PROT_READ | PROT_WRITE), 0);
}

static void install(int flags) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags};
    CHECK_EQ(sigaction(SIGSEGV, &action, NULL), 0);
    CHECK_EQ(sigaction(SIGBUS, &action, NULL), 0);
}

static char *page(int protection) {
    char *page = mmap(NULL, 4096, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    return page;
}

static sem_t semaphore;

static void *faults_between_locks(void *unused) {
    char *hole = page(PROT_NONE);
    for (volatile int i = 0; i < 500; i++) {
        CHECK_EQ(sem_wait(&semaphore), 0);
        if (mend) {
            *(volatile char *)hole = 1;
            CHECK_EQ(mprotect(hole, 4096, PROT_NONE), 0);
        } else if (sigsetjmp(back, 1) == 0) {
            *(volatile char *)hole = 1;
            CHECK(0);
        }
        CHECK_EQ(sem_post(&semaphore), 0);
        CHECK(fault_at == hole);
    }
    CHECK_EQ(faults, 500);
    CHECK_EQ(munmap(hole, 4096), 0);
    return unused;
}

static void by_jump(void) {
    install(0);
    mend = 0;
    CHECK_EQ(sem_init(&semaphore, 0, 2), 0);
    on_threads(4, faults_between_locks);
}

static void by_mending(void) {
    install(0);
    mend = 1;
    CHECK_EQ(sem_init(&semaphore, 0, 2), 0);
    on_threads(4, faults_between_locks);
}

static atomic_int over;

static void *unmaps_and_maps(void *at) {
    while (!over) {
        CHECK_EQ(mprotect(at, 4096, PROT_NONE), 0);
        sched_yield();
        CHECK_EQ(mprotect(at, 4096, PROT_READ | PROT_WRITE), 0);
        sched_yield();
    }
    return NULL;
}

// The page is unmapped and mapped during the calls: each call returns what it would with the page or without.
static void words_that_come_and_go(void) {
    install(0);
    mend = 0;
    faults = 0;
    char *shaky = page(PROT_READ | PROT_WRITE);
    over = 0;
    pthread_t thread = start(unmaps_and_maps, shaky);
    struct timespec short_time = {0, 1000};
    int good = 0, bad = 0;
    for (int i = 0; i < 3000 || !good || !bad; i++) {
        long result = futex(shaky + 8 * (i % 64), FUTEX_WAIT_PRIVATE, i % 2, &short_time, NULL, 0);
        CHECK_EQ(result, -1);
        CHECK(errno == EFAULT || errno == (i % 2 ? EAGAIN : ETIMEDOUT));
        errno == EFAULT ? bad++ : good++;
        result = futex(&semaphore, FUTEX_WAKE_OP_PRIVATE, 1, (void *)1, shaky + 8 * (i % 64), FUTEX_OP(FUTEX_OP_OR, 0, 0, 1));
        CHECK(result == 0 || (result == -1 && errno == EFAULT));
    }
    over = 1;
    join(thread);
    CHECK_EQ(faults, 0);
    CHECK_EQ(munmap(shaky, 4096), 0);
}

static void words_of_bad_memory(void) {
    install(0);
    faults = 0;
    char *hole = page(PROT_NONE), *fixed = page(PROT_READ);
    int file = memfd_create("short", 0);
    char *beyond = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CHECK(beyond != MAP_FAILED);
    show(wait_on(hole, 0), "inaccessible");
    show(wait_on(fixed, 1), "read-only");
    show(wait_on(beyond, 0), "beyond the end of its file");
    show(wait_on(NULL, 0), "null");
    show(wait_on((void *)(1ul << 47), 0), "beyond what a program may have");
    show(wait_on((void *)0x8000000000000000ul, 0), "not canonical");
    show(futex(fixed, FUTEX_WAKE_OP_PRIVATE, 1, (void *)1, fixed, FUTEX_OP(FUTEX_OP_SET, 1, 0, 0)), "wake_op, read-only");
    show(futex(fixed, FUTEX_CMP_REQUEUE_PRIVATE, 1, (void *)1, hole, 0), "cmp_requeue to what is inaccessible");
    show(futex(hole, FUTEX_CMP_REQUEUE_PRIVATE, 1, (void *)1, fixed, 0), "cmp_requeue from what is inaccessible");
    CHECK_EQ(faults, 0);
    if (sigsetjmp(back, 1) == 0) *(volatile char *)beyond = 1;
    printf("a fault of the program's own: %d, code %d\n", faults, code);
    if (sigsetjmp(back, 1) == 0) *(volatile char *)hole = 1;
    printf("a fault of the program's own: %d, code %d\n", faults, code);
}

static volatile long depth_max = LONG_MAX;

static int __attribute__((noinline)) deep(long depth) {
    volatile char here[512];
    here[0] = 1;
    return depth < depth_max ? deep(depth + 1) + here[0] : 0;
}

static void *overflows(void *unused) {
    char stack[32768];
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    // The alternate stack is in a frame of the same stack that the overflow does not reach.
    CHECK_EQ(sigaltstack(&alternate, NULL), 0);
    faults = 0;
    if (sigsetjmp(back, 1) == 0) deep(0);
    alternate.ss_flags = SS_DISABLE;
    CHECK_EQ(sigaltstack(&alternate, NULL), 0);
    CHECK_EQ(faults, 1);
    CHECK_EQ(sem_wait(&semaphore), 0);
    CHECK_EQ(sem_post(&semaphore), 0);
    return unused;
}

static void overflowing_stack(void) {
    install(SA_ONSTACK);
    mend = 0;
    CHECK_EQ(sem_init(&semaphore, 0, 1), 0);
    for (int i = 0; i < 20; i++) join(start(overflows, NULL));
}

MAIN(CASE(by_jump), CASE(by_mending), CASE(words_that_come_and_go), CASE(words_of_bad_memory), CASE(overflowing_stack))
