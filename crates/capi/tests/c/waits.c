// Waits and wakes of threads: widths, timeouts, bitsets, requeues, wake_op, several words, counters, list of waiters.
#include "check.h"

static ufutex_system *a_system;
static ufutex_domain *domain;

struct wait {
    uint64_t address, expected;
    uint32_t flags;
    const ufutex_wait_options *options;
};

static void *wait_thread(void *argument)
{
    struct wait *wait = argument;
    return (void *)(intptr_t)ufutex_wait(domain, wait->address, wait->expected, wait->flags, wait->options);
}

static void words_of_every_width_are_waited_for(void)
{
    static const uint32_t widths[] = {UFUTEX_U8, UFUTEX_U16, UFUTEX_U32, UFUTEX_U64};
    for (int i = 0; i < 4; i++) {
        for (uint32_t shared = 0; shared <= UFUTEX_SHARED; shared += UFUTEX_SHARED) {
            uint64_t word = ~0ull; // all bytes are equal, so the byte order does not matter
            uint64_t value = i == 3 ? ~0ull : (1ull << (8u << i)) - 1;
            uint32_t flags = widths[i] | shared;
            CHECK(ufutex_wait(domain, AT(&word), value - 1, flags, NULL), -EAGAIN);
            if (i < 3)
                CHECK(ufutex_wait(domain, AT(&word), value + 1, flags, NULL), -EINVAL);
            if (i > 0)
                CHECK(ufutex_wait(domain, AT(&word) + (1u << i) / 2, value, flags, NULL), -EINVAL);
        }
    }
}

static void wake_wakes_as_many_as_it_says(void)
{
    static const uint32_t widths[] = {UFUTEX_U8, UFUTEX_U16, UFUTEX_U32, UFUTEX_U64};
    for (int i = 0; i < 8; i++) {
        uint64_t word = 0;
        uint32_t flags = widths[i % 4] | (i < 4 ? 0 : UFUTEX_SHARED);
        struct wait wait = {AT(&word), 0, flags, NULL};
        pthread_t threads[3];
        for (int t = 0; t < 3; t++) {
            threads[t] = start(wait_thread, &wait);
            until_waiting(domain, (uint64_t)t + 1);
        }
        CHECK(ufutex_wake(domain, AT(&word), 1, UFUTEX_BITSET_ANY, flags ^ UFUTEX_SHARED), 0);
        CHECK(ufutex_wake(domain, AT(&word), 1, UFUTEX_BITSET_ANY, flags), 1);
        CHECK(result_of(threads[0]), 0);
        CHECK(ufutex_wake(domain, AT(&word), INT32_MAX, UFUTEX_BITSET_ANY, flags), 2);
        CHECK(result_of(threads[1]), 0);
        CHECK(result_of(threads[2]), 0);
        CHECK(ufutex_wake(domain, AT(&word), UINT32_MAX, UFUTEX_BITSET_ANY, flags), 0);
    }
}

static void timeouts_are_not_early(void)
{
    uint32_t word = 0;
    for (uint32_t shared = 0; shared <= UFUTEX_SHARED; shared += UFUTEX_SHARED) {
        ufutex_wait_options options = UFUTEX_WAIT_OPTIONS_INIT;
        const uint64_t length = 5 * MS;
        options.timeout = UFUTEX_AFTER;
        options.nanoseconds = length;
        uint64_t before = now(CLOCK_MONOTONIC);
        CHECK(ufutex_wait(domain, AT(&word), 0, UFUTEX_U32 | shared, &options), -ETIMEDOUT);
        CHECK(now(CLOCK_MONOTONIC) - before >= length, true);
        options.timeout = UFUTEX_UNTIL_MONOTONIC;
        options.nanoseconds = now(CLOCK_MONOTONIC) + length;
        CHECK(ufutex_wait(domain, AT(&word), 0, UFUTEX_U32 | shared, &options), -ETIMEDOUT);
        CHECK(now(CLOCK_MONOTONIC) >= options.nanoseconds, true);
        options.timeout = UFUTEX_UNTIL_REALTIME;
        options.nanoseconds = now(CLOCK_REALTIME) + length;
        CHECK(ufutex_wait(domain, AT(&word), 0, UFUTEX_U32 | shared, &options), -ETIMEDOUT);
        CHECK(now(CLOCK_REALTIME) >= options.nanoseconds, true);
        ufutex_waitv_word words[2] = {{0, AT(&word), UFUTEX_U32, 0}, {0, AT(&word), UFUTEX_U8, 0}};
        CHECK(ufutex_waitv(domain, words, 2, &options), -ETIMEDOUT);
    }
    CHECK(waiting(domain), 0);
}

static void bitsets_and_priorities_choose_who_is_woken(void)
{
    uint32_t word = 0;
    ufutex_wait_options options[3] = {UFUTEX_WAIT_OPTIONS_INIT, UFUTEX_WAIT_OPTIONS_INIT, UFUTEX_WAIT_OPTIONS_INIT};
    struct wait waits[3];
    pthread_t threads[3];
    options[0].bitset = 1;
    options[1].bitset = 2;
    options[2].bitset = 2;
    options[2].priority = 50;
    for (int i = 0; i < 3; i++) {
        waits[i] = (struct wait){AT(&word), 0, UFUTEX_U32, &options[i]};
        threads[i] = start(wait_thread, &waits[i]);
        until_waiting(domain, (uint64_t)i + 1);
    }
    ufutex_waited_word who;
    CHECK(ufutex_domain_who_waits(domain, &who, sizeof who, 1), 1);
    CHECK(who.address == AT(&word), true);
    CHECK(who.threads, 3);
    CHECK(who.bitset, 3);
    CHECK(who.scope, UFUTEX_SCOPE_PRIVATE);
    CHECK(ufutex_domain_who_waits(domain, NULL, sizeof who, 0), 1);
    CHECK(ufutex_wake(domain, AT(&word), 3, 4, UFUTEX_U32), 0);
    CHECK(ufutex_wake(domain, AT(&word), 1, 2, UFUTEX_U32), 1);
    CHECK(result_of(threads[2]), 0);
    CHECK(ufutex_wake(domain, AT(&word), 3, 2, UFUTEX_U32), 1);
    CHECK(result_of(threads[1]), 0);
    CHECK(ufutex_wake(domain, AT(&word), 3, 1, UFUTEX_U32), 1);
    CHECK(result_of(threads[0]), 0);
}

static void requeued_waiters_are_woken_where_they_are(void)
{
    uint32_t from = 7, to = 0, requeued = 99;
    struct wait wait = {AT(&from), 7, UFUTEX_U32, NULL};
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        threads[i] = start(wait_thread, &wait);
        until_waiting(domain, (uint64_t)i + 1);
    }
    CHECK(ufutex_cmp_requeue(domain, AT(&from), 8, AT(&to), 1, 9, UFUTEX_U32, &requeued), -EAGAIN);
    CHECK(requeued, 99);
    CHECK(ufutex_cmp_requeue(domain, AT(&from), 7, AT(&to), 1, 1, UFUTEX_U32, &requeued), 2);
    CHECK(requeued, 1);
    CHECK(ufutex_requeue(domain, AT(&from), AT(&to), 0, INT32_MAX, UFUTEX_U32, NULL), 2);
    CHECK(ufutex_wake(domain, AT(&from), 9, UFUTEX_BITSET_ANY, UFUTEX_U32), 0);
    CHECK(ufutex_wake(domain, AT(&to), 9, UFUTEX_BITSET_ANY, UFUTEX_U32), 3);
    for (int i = 0; i < 4; i++)
        CHECK(result_of(threads[i]), 0);
}

static void wake_op_changes_a_word_and_wakes_by_what_it_held(void)
{
    static const struct { uint32_t modify, argument, result; } changes[] = {
        {UFUTEX_OP_SET, 5, 5}, {UFUTEX_OP_ADD, 5, 17}, {UFUTEX_OP_OR, 3, 15}, {UFUTEX_OP_ANDN, 4, 8}, {UFUTEX_OP_XOR, 10, 6},
    };
    static const struct { uint32_t compare; int32_t operand; int holds; } comparisons[] = {
        {UFUTEX_CMP_EQ, 12, 1}, {UFUTEX_CMP_NE, 12, 0}, {UFUTEX_CMP_LT, 12, 0},
        {UFUTEX_CMP_LE, 12, 1}, {UFUTEX_CMP_GT, -1, 1}, {UFUTEX_CMP_GE, 13, 0},
    };
    for (size_t i = 0; i < sizeof comparisons / sizeof comparisons[0]; i++) {
        uint32_t first = 0, second = 12;
        struct wait waits[2] = {{AT(&first), 0, UFUTEX_U32, NULL}, {AT(&second), 12, UFUTEX_U32, NULL}};
        pthread_t threads[2] = {start(wait_thread, &waits[0]), start(wait_thread, &waits[1])};
        until_waiting(domain, 2);
        ufutex_operation operation = {changes[i % 5].modify, changes[i % 5].argument, comparisons[i].compare, comparisons[i].operand};
        CHECK(ufutex_wake_op(domain, AT(&first), 1, AT(&second), 1, &operation, UFUTEX_U32), 1 + comparisons[i].holds);
        CHECK(second, changes[i % 5].result);
        CHECK(ufutex_wake(domain, AT(&second), 1, UFUTEX_BITSET_ANY, UFUTEX_U32), 1 - comparisons[i].holds);
        CHECK(result_of(threads[0]), 0);
        CHECK(result_of(threads[1]), 0);
    }
}

struct waitv {
    ufutex_waitv_word words[3];
    ufutex_wait_options *options;
};

static void *waitv_thread(void *argument)
{
    struct waitv *wait = argument;
    return (void *)(intptr_t)ufutex_waitv(domain, wait->words, 3, wait->options);
}

// An interrupt that is cleared at once ends the wait that is under way, which waits for this number of words.
static void cleared_interrupts_end_waits(ufutex_task *task, void *(*waits)(void *), void *wait, uint64_t words)
{
    for (int round = 0; round < 100; round++) {
        pthread_t thread = start(waits, wait);
        until_waiting(domain, words);
        CHECK(ufutex_task_interrupt(task), 0);
        CHECK(ufutex_task_clear_interrupt(task), 0);
        CHECK(result_of(thread), -EINTR);
    }
}

static void wait_for_several_says_which_was_woken(void)
{
    uint8_t a = 1;
    uint32_t b = 2;
    uint64_t c = 3;
    ufutex_task *task = new_task(domain, 9);
    ufutex_wait_options options = UFUTEX_WAIT_OPTIONS_INIT;
    options.task = task;
    struct waitv wait = {{{1, AT(&a), UFUTEX_U8, 0}, {2, AT(&b), UFUTEX_U32 | UFUTEX_SHARED, 0}, {3, AT(&c), UFUTEX_U64, 0}}, NULL};
    for (int with_task = 0; with_task < 2; with_task++) {
        wait.options = with_task ? &options : NULL;
        for (int i = 0; i < 3; i++) {
            pthread_t thread = start(waitv_thread, &wait);
            until_waiting(domain, 3);
            CHECK(ufutex_wake(domain, wait.words[i].address, 1, UFUTEX_BITSET_ANY, wait.words[i].flags), 1);
            CHECK(result_of(thread), i);
        }
    }
    // An interrupt ends this wait too, unlike the native interface's.
    pthread_t thread = start(waitv_thread, &wait);
    until_waiting(domain, 3);
    CHECK(ufutex_waitv(domain, wait.words, 3, &options), -EBUSY);
    CHECK(ufutex_task_free(task), -EBUSY);
    CHECK(ufutex_task_interrupt(task), 0);
    CHECK(result_of(thread), -EINTR);
    CHECK(ufutex_waitv(domain, wait.words, 3, &options), -EINTR);
    CHECK(ufutex_task_clear_interrupt(task), 0);
    cleared_interrupts_end_waits(task, waitv_thread, &wait, 3);
    options.timeout = UFUTEX_AFTER;
    options.nanoseconds = 1;
    CHECK(ufutex_waitv(domain, wait.words, 3, &options), -ETIMEDOUT);
    CHECK(ufutex_task_free(task), 0);
}

static void interrupt_ends_a_wait_and_the_next(void)
{
    uint32_t word = 0;
    ufutex_task *task = new_task(domain, 1);
    ufutex_wait_options options = UFUTEX_WAIT_OPTIONS_INIT;
    options.task = task;
    struct wait wait = {AT(&word), 0, UFUTEX_U32, &options};
    pthread_t thread = start(wait_thread, &wait);
    until_waiting(domain, 1);
    CHECK(ufutex_domain_free(domain), -EBUSY);
    CHECK(ufutex_task_free(task), -EBUSY);
    CHECK(ufutex_task_interrupt(task), 0);
    CHECK(result_of(thread), -EINTR);
    CHECK(ufutex_wait(domain, AT(&word), 0, UFUTEX_U32, &options), -EINTR);
    CHECK(ufutex_task_clear_interrupt(task), 0);
    cleared_interrupts_end_waits(task, wait_thread, &wait, 1);
    options.timeout = UFUTEX_AFTER;
    options.nanoseconds = 1;
    CHECK(ufutex_wait(domain, AT(&word), 0, UFUTEX_U32, &options), -ETIMEDOUT);
    CHECK(ufutex_task_free(task), 0);
}

static void slots_policies_and_counters(void)
{
    ufutex_options options = UFUTEX_OPTIONS_INIT;
    options.flags = UFUTEX_COUNT_OPERATIONS | UFUTEX_NO_EARLY_RETURN;
    options.max_waiters = 1;
    ufutex_domain *own = new_domain(a_system, &options);
    CHECK(ufutex_domain_slots(own), 0);
    CHECK(ufutex_domain_set_slots(own, 64), 0);
    CHECK(ufutex_domain_slots(own), 64);
    CHECK(ufutex_domain_set_slots(own, 3), -EINVAL);
    CHECK(ufutex_domain_set_slots(own, (size_t)1 << 40), -ENOMEM);
    CHECK(ufutex_prctl_futex_hash(own, 2, 0, 0), 64);
    CHECK(ufutex_prctl_futex_hash(own, 1, 128, 0), 0);
    CHECK(ufutex_prctl_futex_hash(own, 1, 3, 0), -EINVAL);
    CHECK(ufutex_prctl_futex_hash(own, 1, 1 << 22, 0), -ENOMEM);
    CHECK(ufutex_prctl_futex_hash(own, 1, 0, 0), 0);
    CHECK(ufutex_prctl_futex_hash(own, 1, 16, 0), -EBUSY);
    uint32_t word = 0;
    ufutex_waitv_word two[2] = {{0, AT(&word), UFUTEX_U32, 0}, {0, AT(&word), UFUTEX_U32, 0}};
    CHECK(ufutex_wait(own, AT(&word), 1, UFUTEX_U32, NULL), -EAGAIN);
    CHECK(ufutex_waitv(own, two, 2, NULL), -ENOMEM);
    CHECK(ufutex_wake(own, AT(&word), 1, 1, UFUTEX_U32), 0);
    ufutex_counters counters = UFUTEX_COUNTERS_INIT;
    CHECK(ufutex_domain_get_counters(own, &counters), 0);
    CHECK(counters.mismatches, 1);
    CHECK(counters.waits, 1);
    CHECK(counters.empty_wakes, 1);
    CHECK(counters.refused_waiters, 1);
    CHECK(counters.refused_slots, 1);
    CHECK(counters.table_bytes >= 128 * 64, true);
    CHECK(ufutex_domain_free(own), 0);

    options = (ufutex_options)UFUTEX_OPTIONS_INIT;
    options.policy = UFUTEX_POLICY_FIXED;
    options.slots = 32;
    own = new_domain(a_system, &options);
    ufutex_wait_options soon = UFUTEX_WAIT_OPTIONS_INIT;
    soon.timeout = UFUTEX_AFTER;
    CHECK(ufutex_wait(own, AT(&word), 0, UFUTEX_U32, &soon), -ETIMEDOUT);
    CHECK(ufutex_domain_slots(own), 32);
    CHECK(ufutex_domain_free(own), 0);

    ufutex_config config = UFUTEX_CONFIG_INIT;
    config.flags = UFUTEX_HASH_SEED;
    config.cpus = 64;
    config.global_slots = 1024;
    config.max_waitv = 1;
    ufutex_system *system;
    CHECK(ufutex_system_new(&config, &system), 0);
    ufutex_system_counters system_counters = UFUTEX_SYSTEM_COUNTERS_INIT;
    CHECK(ufutex_system_get_counters(system, &system_counters), 0);
    CHECK(system_counters.global_slots, 1024);
    options.policy = UFUTEX_POLICY_THREADS;
    options.slots = 0;
    own = new_domain(system, &options);
    CHECK(ufutex_system_free(system), 0); // the system lives as long as its domain
    CHECK(ufutex_waitv(own, two, 2, NULL), -EINVAL);
    CHECK(ufutex_wait(own, AT(&word), 0, UFUTEX_U32, &soon), -ETIMEDOUT);
    CHECK(ufutex_domain_slots(own), 16);
    CHECK(ufutex_domain_note_threads(own, 16), 0);
    CHECK(ufutex_domain_slots(own), 64);
    CHECK(ufutex_domain_free(own), 0);
}

static uint64_t refused_tables(ufutex_domain *of)
{
    ufutex_counters counters = UFUTEX_COUNTERS_INIT;
    CHECK(ufutex_domain_get_counters(of, &counters), 0);
    return counters.refused_tables;
}

static void table_memory_has_limits(void)
{
    uint32_t word = 0;
    ufutex_wait_options soon = UFUTEX_WAIT_OPTIONS_INIT;
    soon.timeout = UFUTEX_AFTER;
    ufutex_config config = UFUTEX_CONFIG_INIT;
    config.max_table_bytes = 1;
    ufutex_system *system;
    CHECK(ufutex_system_new(&config, &system), 0);

    // Limits of a system: its domains may always have the smallest table, and nothing beyond that here.
    ufutex_domain *own = new_domain(system, NULL);
    CHECK(ufutex_domain_set_slots(own, 64), -ENOMEM);
    CHECK(ufutex_prctl_futex_hash(own, 1, 64, 0), -ENOMEM);
    CHECK(refused_tables(own), 2);
    CHECK(ufutex_wait(own, AT(&word), 0, UFUTEX_U32, &soon), -ETIMEDOUT);
    CHECK(ufutex_domain_slots(own), 16);
    CHECK(refused_tables(own), 2);
    ufutex_system_counters all = UFUTEX_SYSTEM_COUNTERS_INIT;
    CHECK(ufutex_system_get_counters(system, &all), 0);
    CHECK(all.table_bytes, 16 * 64);
    CHECK(ufutex_domain_free(own), 0);
    CHECK(ufutex_system_get_counters(system, &all), 0);
    CHECK(all.table_bytes, 0);

    // Limits of a domain, from its options or its system.
    ufutex_options options = UFUTEX_OPTIONS_INIT;
    options.max_table_bytes = 16 * 64 - 1;
    own = new_domain(system, &options);
    CHECK(ufutex_wait(own, AT(&word), 0, UFUTEX_U32, &soon), -ETIMEDOUT);
    CHECK(ufutex_domain_slots(own), 0);
    CHECK(refused_tables(own), 1);
    CHECK(ufutex_domain_free(own), 0);
    CHECK(ufutex_system_free(system), 0);
    config = (ufutex_config)UFUTEX_CONFIG_INIT;
    config.max_domain_table_bytes = 64 * 64;
    CHECK(ufutex_system_new(&config, &system), 0);
    own = new_domain(system, NULL);
    CHECK(ufutex_domain_set_slots(own, 128), -ENOMEM);
    CHECK(ufutex_domain_set_slots(own, 64), 0);
    CHECK(ufutex_domain_free(own), 0);
    options.max_table_bytes = 128 * 64;
    own = new_domain(system, &options);
    CHECK(ufutex_domain_set_slots(own, 128), 0);
    CHECK(refused_tables(own), 0);
    CHECK(ufutex_domain_free(own), 0);
    CHECK(ufutex_system_free(system), 0);
}

// Structs of a program that was built with an older version: the fields behind their size are neither read nor written.
static void structs_of_an_older_program_will_do(void)
{
    ufutex_config config = UFUTEX_CONFIG_INIT;
    config.size = offsetof(ufutex_config, max_table_bytes);
    config.max_table_bytes = config.max_domain_table_bytes = 1;
    ufutex_system *system;
    CHECK(ufutex_system_new(&config, &system), 0);
    ufutex_options options = UFUTEX_OPTIONS_INIT;
    options.size = offsetof(ufutex_options, max_table_bytes);
    options.max_table_bytes = 1;
    ufutex_domain *own = new_domain(system, &options);
    CHECK(ufutex_domain_set_slots(own, 64), 0);
    ufutex_counters counters = UFUTEX_COUNTERS_INIT;
    counters.size = offsetof(ufutex_counters, refused_tables);
    counters.refused_tables = 77;
    CHECK(ufutex_domain_get_counters(own, &counters), 0);
    CHECK(counters.table_bytes, 64 * 64);
    CHECK(counters.refused_tables, 77);
    ufutex_system_counters all = UFUTEX_SYSTEM_COUNTERS_INIT;
    all.size = offsetof(ufutex_system_counters, table_bytes);
    all.table_bytes = 77;
    CHECK(ufutex_system_get_counters(system, &all), 0);
    CHECK(all.table_bytes, 77);
    CHECK(ufutex_domain_free(own), 0);
    CHECK(ufutex_system_free(system), 0);
}

// Threads that pass a token in a circle.
enum { HANDS = 4, ROUNDS = 2000 };
static _Atomic uint32_t turn;

static void *hand(void *argument)
{
    uint32_t me = (uint32_t)(intptr_t)argument;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint32_t mine = round * HANDS + me, seen;
        while ((seen = turn) != mine)
            ufutex_wait(domain, AT(&turn), seen, UFUTEX_U32, NULL);
        turn = mine + 1;
        ufutex_wake(domain, AT(&turn), INT32_MAX, UFUTEX_BITSET_ANY, UFUTEX_U32);
    }
    return NULL;
}

static void no_wake_is_lost_among_threads(void)
{
    pthread_t threads[HANDS];
    for (intptr_t i = 0; i < HANDS; i++)
        threads[i] = start(hand, (void *)i);
    for (int i = 0; i < HANDS; i++)
        result_of(threads[i]);
    CHECK(turn, HANDS * ROUNDS);
}

int main(void)
{
    CHECK(strcmp(ufutex_version(), "0.1.0"), 0);
    CHECK(ufutex_version_number(), 0x000100);
    a_system = new_system();
    domain = new_domain(a_system, NULL);
    words_of_every_width_are_waited_for();
    wake_wakes_as_many_as_it_says();
    timeouts_are_not_early();
    bitsets_and_priorities_choose_who_is_woken();
    requeued_waiters_are_woken_where_they_are();
    wake_op_changes_a_word_and_wakes_by_what_it_held();
    wait_for_several_says_which_was_woken();
    interrupt_ends_a_wait_and_the_next();
    slots_policies_and_counters();
    table_memory_has_limits();
    structs_of_an_older_program_will_do();
    no_wake_is_lost_among_threads();
    CHECK(waiting(domain), 0);
    until_alone(); // while the system exists
    CHECK(ufutex_domain_free(domain), 0);
    CHECK(ufutex_system_free(a_system), 0);
    return 0;
}
