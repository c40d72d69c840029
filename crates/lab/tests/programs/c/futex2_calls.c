// The newer system calls, futex_waitv, futex_wake, futex_wait and futex_requeue, with valid and invalid arguments.
#include "futex.h"
#include <sys/mman.h>

struct waiter {
    uint64_t value, address;
    uint32_t flags, reserved;
};

static _Atomic uint32_t *word;

static void present(void) {
    word = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(word != MAP_FAILED);
    errno = 0;
    if (sys(SYS_futex2_wake, ARGUMENT(word), 1, 1, FUTEX2_U32, 0, 0) == -1 && errno == ENOSYS)
        skip("this kernel has no futex_wake(2)");
}

static const uint32_t all_flags[] = {0, 1, 2, 3, 4, 64, 128, 128 | 2, 128 | 3, 256, 1u << 31};
#define FLAGS (int)(sizeof all_flags / sizeof *all_flags)
static const struct timespec zero, past = {1, 0}, broken = {0, -1};
static const struct timespec *const limits[] = {&past, &zero, &broken, (void *)-4096L};

static void waitv(void) {
    for (int f = 0; f < FLAGS; f++)
        for (int reserved = 0; reserved < 2; reserved++)
            for (uint64_t value = 0; value < 2; value++)
                for (int t = 0; t < 4; t++)
                    for (int clock = 0; clock < 3; clock++) {
                        struct waiter one = {value, (uint64_t)word, all_flags[f], reserved};
                        show(sys(SYS_futex_waitv, ARGUMENT(&one), 1, 0, ARGUMENT(limits[t]), clock, 0),
                             "waitv flags %x reserved %d value %d timeout %d clock %d", all_flags[f], reserved,
                             (int)value, t, clock);
                    }
    struct waiter many[130];
    for (int i = 0; i < 130; i++) many[i] = (struct waiter){0, (uint64_t)(word + i), FUTEX2_U32 | FUTEX2_PRIV, 0};
    static const int counts[] = {0, 1, 128, 129, -1};
    for (int c = 0; c < 5; c++) {
        show(sys(SYS_futex_waitv, ARGUMENT(many), counts[c], 0, ARGUMENT(&past), CLOCK_MONOTONIC, 0), "waitv of %d",
             counts[c]);
        show(sys(SYS_futex_waitv, ARGUMENT(many), counts[c], 1, ARGUMENT(&past), CLOCK_MONOTONIC, 0),
             "waitv of %d with a flag", counts[c]);
    }
    show(sys(SYS_futex_waitv, 0, 1, 0, 0, 0, 0), "waitv of null");
    show(sys(SYS_futex_waitv, -4096, 1, 0, 0, 0, 0), "waitv of the kernel's");
    many[1].value = 1;
    show(sys(SYS_futex_waitv, ARGUMENT(many), 3, 0, 0, 0, 0), "waitv, the second differs");
    many[1].value = 1ULL << 32;
    show(sys(SYS_futex_waitv, ARGUMENT(many), 3, 0, 0, 0, 0), "waitv, more than 32 bits");
    many[1].value = 0, many[1].address++;
    show(sys(SYS_futex_waitv, ARGUMENT(many), 3, 0, 0, 0, 0), "waitv, misaligned");
    many[1].address = 0;
    show(sys(SYS_futex_waitv, ARGUMENT(many), 3, 0, 0, 0, 0), "waitv, null word");
    many[1] = many[0]; // the same word twice
    show(sys(SYS_futex_waitv, ARGUMENT(many), 3, 0, ARGUMENT(&past), CLOCK_REALTIME, 0), "waitv, one word twice");
}

static void wakes(void) {
    static const int counts[] = {0, 1, -1, INT_MAX};
    static const uint64_t masks[] = {0, 1, 0xffffffff, 0x100000000};
    for (int f = 0; f < FLAGS; f++)
        for (int c = 0; c < 4; c++)
            for (int m = 0; m < 4; m++)
                show(sys(SYS_futex2_wake, ARGUMENT(word), masks[m], counts[c], all_flags[f], 0, 0),
                     "wake flags %x count %d mask %lx", all_flags[f], counts[c], (long)masks[m]);
    show(sys(SYS_futex2_wake, 1, 1, 1, FUTEX2_U32 | FUTEX2_PRIV, 0, 0), "wake, misaligned");
    show(sys(SYS_futex2_wake, 0, 1, 1, FUTEX2_U32 | FUTEX2_PRIV, 0, 0), "wake, null and private");
    show(sys(SYS_futex2_wake, 0, 1, 1, FUTEX2_U32, 0, 0), "wake, null and shared");
}

static void waits(void) {
    static const uint64_t masks[] = {0, 1, 0xffffffff, 0x100000000};
    for (int f = 0; f < FLAGS; f++)
        for (uint64_t value = 0; value < 2; value++)
            for (int m = 0; m < 4; m++)
                for (int t = 0; t < 4; t++)
                    for (int clock = 0; clock < 3; clock++)
                        show(sys(SYS_futex2_wait, ARGUMENT(word), value, masks[m], all_flags[f], ARGUMENT(limits[t]), clock),
                             "wait flags %x value %d mask %lx timeout %d clock %d", all_flags[f], (int)value,
                             (long)masks[m], t, clock);
    show(sys(SYS_futex2_wait, ARGUMENT(word), 1ULL << 32, 1, FUTEX2_U32 | FUTEX2_PRIV, 0, 0), "wait, 33 bits");
}

static void requeues(void) {
    for (int f = 0; f < FLAGS; f++)
        for (int wakes = -1; wakes < 2; wakes++)
            for (int moves = -1; moves < 2; moves++)
                for (uint64_t value = 0; value < 2; value++) {
                    struct waiter pair[2] = {{value, (uint64_t)word, all_flags[f], 0},
                                             {0, (uint64_t)(word + 1), all_flags[f], 0}};
                    show(sys(SYS_futex2_requeue, ARGUMENT(pair), 0, wakes, moves, 0, 0),
                         "requeue flags %x wakes %d moves %d value %d", all_flags[f], wakes, moves, (int)value);
                }
    struct waiter pair[2] = {{0, (uint64_t)word, FUTEX2_U32, 0}, {0, (uint64_t)(word + 1), FUTEX2_U32 | FUTEX2_PRIV, 0}};
    show(sys(SYS_futex2_requeue, ARGUMENT(pair), 0, 1, 1, 0, 0), "requeue, flags differ");
    show(sys(SYS_futex2_requeue, ARGUMENT(pair), 1, 1, 1, 0, 0), "requeue, with a flag");
    show(sys(SYS_futex2_requeue, 0, 0, 1, 1, 0, 0), "requeue of null");
}

MAIN(CASE(present), CASE(waitv), CASE(wakes), CASE(waits), CASE(requeues))
