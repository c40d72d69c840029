// Results of all futex operations that do not sleep for long: each operation and flag, with valid and invalid words,
// timeouts, bitsets and counts. It prints the results, and the kernel's are the expected ones.
#include "futex.h"
#include <sys/mman.h>

typedef struct {
    const char *name;
    const void *at;
} Address;

static _Atomic uint32_t *word, *word2;
static Address words[8], timeouts[8];
static int word_count, timeout_count;

static char *page(int protection) {
    char *page = mmap(NULL, 4096, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    return page;
}

static void addresses(void) {
    word = (void *)page(PROT_READ | PROT_WRITE);
    word2 = word + 16;
    char *unmapped = page(PROT_NONE);
    CHECK_EQ(munmap(unmapped, 4096), 0);
    words[word_count++] = (Address){"word", word};
    words[word_count++] = (Address){"misaligned", (char *)word + 2};
    words[word_count++] = (Address){"null", NULL};
    words[word_count++] = (Address){"unmapped", unmapped};
    words[word_count++] = (Address){"inaccessible", page(PROT_NONE)};
    words[word_count++] = (Address){"read-only", page(PROT_READ)};
    words[word_count++] = (Address){"kernel's", (void *)-4096L};

    static const struct timespec zero, past = {1, 0}, negative = {-1, 0}, no_ns = {0, 1000000000}, short_ns = {0, -1};
    timeouts[timeout_count++] = (Address){"zero", &zero};
    timeouts[timeout_count++] = (Address){"negative", &negative};
    timeouts[timeout_count++] = (Address){"ns too large", &no_ns};
    timeouts[timeout_count++] = (Address){"ns negative", &short_ns};
    timeouts[timeout_count++] = (Address){"unmapped", unmapped};
    timeouts[timeout_count++] = (Address){"past", &past}; // only for absolute timeouts
}

static const char *const names[] = {"WAIT",         "WAKE",       "FD",          "REQUEUE",     "CMP_REQUEUE",
                                    "WAKE_OP",      "LOCK_PI",    "UNLOCK_PI",   "TRYLOCK_PI",  "WAIT_BITSET",
                                    "WAKE_BITSET",  "WAIT_REQUEUE_PI", "CMP_REQUEUE_PI", "LOCK_PI2", "14", "15", "127"};
static const int flags[] = {0, FUTEX_PRIVATE_FLAG, FUTEX_CLOCK_REALTIME, FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME};

static void one(int op, int flag, const Address *at, uint32_t value, const Address *timeout, const void *other,
                uint32_t value3) {
    *word = 0;
    *word2 = 0;
    long result = futex(at->at, op | flag, value, timeout->at, other, value3);
    show(result, "%s%s%s %s value %u timeout %s value3 %x", names[op < 15 ? op : 15 + (op == 127)],
         flag & FUTEX_PRIVATE_FLAG ? " private" : "", flag & FUTEX_CLOCK_REALTIME ? " realtime" : "", at->name, value,
         timeout->name, value3);
    // A lock operation writes the caller's TID, which differs between runs.
    if (*word || *word2) printf("  words: %s %x\n", *word == (uint32_t)gettid() ? "ours" : "another", *word2);
}

static int relative(int op) { return op == FUTEX_WAIT; }

static void waits(void) {
    static const int ops[] = {FUTEX_WAIT, FUTEX_WAIT_BITSET, FUTEX_WAIT_REQUEUE_PI};
    static const uint32_t bitsets[] = {0, 1, 0x80000000, FUTEX_BITSET_MATCH_ANY};
    static const Address forever = {"none", NULL};
    for (int o = 0; o < 3; o++)
        for (int f = 0; f < 4; f++)
            for (int a = 0; a < word_count; a++)
                for (int b = 0; b < 4; b++) {
                    // A wait without a timeout must not find the value that it expects: no word here holds 7.
                    one(ops[o], flags[f], &words[a], 7, &forever, word2, bitsets[b]);
                    for (int t = 0; t < timeout_count; t++)
                        for (uint32_t value = 0; value < 2; value++) {
                            if (relative(ops[o]) && !strcmp(timeouts[t].name, "past")) continue;
                            one(ops[o], flags[f], &words[a], value, &timeouts[t], word2, bitsets[b]);
                        }
                }
}

static void wakes(void) {
    static const int counts[] = {1, 0, -1, INT_MIN, INT_MAX};
    static const uint32_t bitsets[] = {0, 1, FUTEX_BITSET_MATCH_ANY};
    static const Address none = {"none", NULL};
    for (int op = FUTEX_WAKE; op <= FUTEX_WAKE_BITSET; op += FUTEX_WAKE_BITSET - FUTEX_WAKE)
        for (int f = 0; f < 4; f++)
            for (int a = 0; a < word_count; a++)
                for (int c = 0; c < 5; c++)
                    for (int b = 0; b < 3; b++) one(op, flags[f], &words[a], counts[c], &none, word2, bitsets[b]);
}

static void requeues(void) {
    static const int ops[] = {FUTEX_REQUEUE, FUTEX_CMP_REQUEUE, FUTEX_CMP_REQUEUE_PI};
    static const Address counts[] = {{"0", NULL}, {"1", (void *)1}, {"-1", (void *)-1L}, {"max", (void *)0x7fffffffL}};
    for (int o = 0; o < 3; o++)
        for (int f = 0; f < 4; f++)
            for (int a = 0; a < word_count; a++)
                for (int other = 0; other < word_count; other++)
                    for (int c = 0; c < 4; c++)
                        for (int count = -1; count < 3; count++)
                            one(ops[o], flags[f], &words[a], count, &counts[c],
                                other ? words[other].at : word2, c == 1 ? 7 : 0);
    one(FUTEX_REQUEUE, FUTEX_PRIVATE_FLAG, &words[0], 1, &counts[1], word, 0);
    one(FUTEX_CMP_REQUEUE_PI, FUTEX_PRIVATE_FLAG, &words[0], 1, &counts[1], word, 0);
}

static void wake_ops(void) {
    static const Address one_more = {"1", (void *)1};
    for (int f = 0; f < 4; f++)
        for (int a = 0; a < word_count; a++)
            for (int other = 0; other < word_count; other++)
                for (int op = 0; op < 16; op++)
                    for (int comparison = 0; comparison < 8; comparison++) {
                        *word = 0;
    *word2 = 0;
                        const void *second = other ? words[other].at : word2;
                        long result = futex(words[a].at, FUTEX_WAKE_OP | flags[f], 1, one_more.at, second,
                                            (uint32_t)FUTEX_OP(op, 5, comparison, 1));
                        show(result, "WAKE_OP flags %x %s %s op %d comparison %d word2 %x", flags[f], words[a].name,
                             words[other].name, op, comparison, *word2);
                    }
}

static void locks(void) {
    static const Address none = {"none", NULL};
    for (int op = FUTEX_LOCK_PI; op <= FUTEX_TRYLOCK_PI; op++)
        for (int f = 0; f < 4; f++)
            for (int a = 0; a < word_count; a++) {
                one(op, flags[f], &words[a], 0, &none, word2, 0);
                for (int t = 0; t < timeout_count; t++) one(op, flags[f], &words[a], 0, &timeouts[t], word2, 0);
            }
    for (int f = 0; f < 4; f++)
        for (int a = 0; a < word_count; a++)
            for (int t = 0; t < timeout_count; t++) one(FUTEX_LOCK_PI2, flags[f], &words[a], 0, &timeouts[t], word2, 0);
    // Locks that this thread owns, or a thread that does not exist.
    static const int ops[] = {FUTEX_LOCK_PI, FUTEX_TRYLOCK_PI, FUTEX_UNLOCK_PI, FUTEX_LOCK_PI2};
    for (int o = 0; o < 4; o++)
        for (int f = 0; f < 2; f++) {
            *word = gettid();
            show(futex(word, ops[o] | flags[f], 0, NULL, NULL, 0), "%s %d of our own", names[ops[o]], f);
            *word = FUTEX_TID_MASK; // larger than any TID
            show(futex(word, ops[o] | flags[f], 0, NULL, NULL, 0), "%s %d of nobody", names[ops[o]], f);
            printf("  word %x\n", *word);
        }
}

static void unknown(void) {
    static const Address none = {"none", NULL};
    static const int ops[] = {2, 14, 15, 127};
    for (int o = 0; o < 4; o++)
        for (int f = 0; f < 4; f++)
            for (int a = 0; a < word_count; a++) one(ops[o], flags[f], &words[a], 0, &none, word2, 0);
}

// Relative and absolute timeouts on both clocks do not end early.
static void clocks(void) {
    static const struct {
        int op;
        clockid_t clock;
    } absolute[] = {{FUTEX_WAIT_BITSET_PRIVATE, CLOCK_MONOTONIC},
                    {FUTEX_WAIT_BITSET_PRIVATE | FUTEX_CLOCK_REALTIME, CLOCK_REALTIME},
                    {FUTEX_WAIT_BITSET, CLOCK_MONOTONIC}};
    for (int i = 0; i < 3; i++) {
        struct timespec deadline = in_ms(absolute[i].clock, 12);
        show(futex(word, absolute[i].op, *word, &deadline, NULL, FUTEX_BITSET_MATCH_ANY), "absolute %d", i);
        CHECK(passed(absolute[i].clock, &deadline));
    }
    struct timespec deadline = in_ms(CLOCK_MONOTONIC, 12), length = {0, 12000000};
    show(futex(word, FUTEX_WAIT_PRIVATE, *word, &length, NULL, 0), "relative");
    CHECK(passed(CLOCK_MONOTONIC, &deadline));
}

static void prepare(void) { addresses(); }

MAIN(CASE(prepare), CASE(waits), CASE(wakes), CASE(requeues), CASE(wake_ops), CASE(locks), CASE(unknown), CASE(clocks))
