// Each function refuses invalid arguments, and no freed object is used.
#include "check.h"

#define GARBAGE(type) ((type *)(uintptr_t)0xdeadbeefcafe1230ull)
#define SMALL(type) ((type *)(uintptr_t)42)

static ufutex_system *a_system;
static ufutex_domain *domain;
static ufutex_task *task;
static uint32_t word;

static void ignore(void *context) { (void)context; }

// Makes a call with each kind of bad handle.
#define BAD_HANDLES(type, handle, call)                                     \
    do {                                                                    \
        type *handle = NULL;                                                \
        CHECK(call, -EINVAL);                                               \
        type *const others[] = {GARBAGE(type), SMALL(type), (type *)&word, freed_##type, other_##type}; \
        for (size_t bad = 0; bad < sizeof others / sizeof others[0]; bad++) { \
            handle = others[bad];                                           \
            CHECK(call, -EBADF);                                            \
        }                                                                   \
    } while (0)

static ufutex_system *freed_ufutex_system, *other_ufutex_system;
static ufutex_domain *freed_ufutex_domain, *other_ufutex_domain;
static ufutex_task *freed_ufutex_task, *other_ufutex_task;
static ufutex_waiter *freed_ufutex_waiter, *other_ufutex_waiter;
static ufutex_timers *freed_ufutex_timers, *other_ufutex_timers;

static void make_bad_handles(void)
{
    freed_ufutex_system = new_system();
    freed_ufutex_domain = new_domain(freed_ufutex_system, NULL);
    freed_ufutex_task = new_task(freed_ufutex_domain, 5);
    CHECK(ufutex_prepare_wait(freed_ufutex_domain, AT(&word), 0, UFUTEX_U32, NULL, ignore, NULL, &freed_ufutex_waiter), -EINPROGRESS);
    CHECK(ufutex_waiter_free(freed_ufutex_waiter), 0);
    CHECK(ufutex_timers_new(freed_ufutex_system, NULL, &freed_ufutex_timers), 0);
    CHECK(ufutex_timers_free(freed_ufutex_timers), 0);
    CHECK(ufutex_task_free(freed_ufutex_task), 0);
    CHECK(ufutex_domain_free(freed_ufutex_domain), 0);
    CHECK(ufutex_system_free(freed_ufutex_system), 0);
    // Alive, but of another kind.
    other_ufutex_system = (ufutex_system *)domain;
    other_ufutex_domain = (ufutex_domain *)task;
    other_ufutex_task = (ufutex_task *)a_system;
    other_ufutex_waiter = (ufutex_waiter *)domain;
    other_ufutex_timers = (ufutex_timers *)a_system;
}

static void handles_that_are_none_are_told(void)
{
    ufutex_domain *made_domain = NULL;
    ufutex_task *made_task = NULL;
    ufutex_waiter *made_waiter = NULL;
    ufutex_counters counters = UFUTEX_COUNTERS_INIT;
    ufutex_system_counters system_counters = UFUTEX_SYSTEM_COUNTERS_INIT;
    ufutex_waited_word who;
    ufutex_waitv_word words = {0, AT(&word), UFUTEX_U32, 0};
    ufutex_operation operation = {0, 0, 0, 0};
    uint64_t args[6] = {0}, deadline;
    uint32_t clock;

    BAD_HANDLES(ufutex_system, h, ufutex_system_free(h));
    BAD_HANDLES(ufutex_system, h, ufutex_system_get_counters(h, &system_counters));
    BAD_HANDLES(ufutex_system, h, ufutex_system_who_waits(h, &who, sizeof who, 1));
    BAD_HANDLES(ufutex_system, h, ufutex_system_nodes(h));
    BAD_HANDLES(ufutex_system, h, ufutex_system_has_node(h, 0));
    BAD_HANDLES(ufutex_system, h, ufutex_system_current_node(h));
    BAD_HANDLES(ufutex_system, h, ufutex_domain_new(h, NULL, &made_domain));

    BAD_HANDLES(ufutex_domain, h, ufutex_domain_new_beside(h, NULL, &made_domain));
    BAD_HANDLES(ufutex_domain, h, ufutex_domain_pid_namespace(h));
    BAD_HANDLES(ufutex_domain, h, ufutex_domain_free(h));
    BAD_HANDLES(ufutex_domain, h, ufutex_domain_set_slots(h, 16));
    BAD_HANDLES(ufutex_domain, h, ufutex_domain_slots(h));
    BAD_HANDLES(ufutex_domain, h, ufutex_domain_note_threads(h, 1));
    BAD_HANDLES(ufutex_domain, h, ufutex_prctl_futex_hash(h, 2, 0, 0));
    BAD_HANDLES(ufutex_domain, h, ufutex_domain_get_counters(h, &counters));
    BAD_HANDLES(ufutex_domain, h, ufutex_domain_who_waits(h, &who, sizeof who, 1));
    BAD_HANDLES(ufutex_domain, h, ufutex_task_new(h, 77, 0, &made_task));
    BAD_HANDLES(ufutex_domain, h, ufutex_task_exit(h, task, NULL));
    BAD_HANDLES(ufutex_domain, h, ufutex_wait(h, AT(&word), 0, UFUTEX_U32, NULL));
    BAD_HANDLES(ufutex_domain, h, ufutex_waitv(h, &words, 1, NULL));
    BAD_HANDLES(ufutex_domain, h, ufutex_wake(h, AT(&word), 1, 1, UFUTEX_U32));
    BAD_HANDLES(ufutex_domain, h, ufutex_wake_op(h, AT(&word), 1, AT(&word), 1, &operation, UFUTEX_U32));
    BAD_HANDLES(ufutex_domain, h, ufutex_requeue(h, AT(&word), AT(args), 1, 1, UFUTEX_U32, NULL));
    BAD_HANDLES(ufutex_domain, h, ufutex_cmp_requeue(h, AT(&word), 0, AT(args), 1, 1, UFUTEX_U32, NULL));
    BAD_HANDLES(ufutex_domain, h, ufutex_lock_pi(h, task, AT(&word), UFUTEX_U32, NULL));
    BAD_HANDLES(ufutex_domain, h, ufutex_trylock_pi(h, task, AT(&word), UFUTEX_U32));
    BAD_HANDLES(ufutex_domain, h, ufutex_unlock_pi(h, task, AT(&word), UFUTEX_U32));
    BAD_HANDLES(ufutex_domain, h, ufutex_wait_requeue_pi(h, task, AT(&word), 0, AT(args), UFUTEX_U32, NULL));
    BAD_HANDLES(ufutex_domain, h, ufutex_cmp_requeue_pi(h, AT(&word), 0, AT(args), 1, UFUTEX_U32));
    BAD_HANDLES(ufutex_domain, h, ufutex_syscall(h, task, NULL, 202, args));
    BAD_HANDLES(ufutex_domain, h, ufutex_prepare_wait(h, AT(&word), 0, UFUTEX_U32, NULL, ignore, NULL, &made_waiter));
    BAD_HANDLES(ufutex_domain, h, ufutex_prepare_waitv(h, &words, 1, NULL, ignore, NULL, &made_waiter));
    BAD_HANDLES(ufutex_domain, h, ufutex_prepare_lock_pi(h, task, AT(&word), UFUTEX_U32, NULL, ignore, NULL, &made_waiter));
    BAD_HANDLES(ufutex_domain, h, ufutex_prepare_wait_requeue_pi(h, task, AT(&word), 0, AT(args), UFUTEX_U32, NULL, ignore, NULL, &made_waiter));
    BAD_HANDLES(ufutex_domain, h, ufutex_prepare_syscall(h, task, NULL, 202, args, ignore, NULL, &made_waiter));

    BAD_HANDLES(ufutex_task, h, ufutex_task_free(h));
    BAD_HANDLES(ufutex_task, h, ufutex_task_exit(domain, h, NULL));
    BAD_HANDLES(ufutex_task, h, ufutex_task_set_robust_list(h, 8, 0, 24));
    BAD_HANDLES(ufutex_task, h, ufutex_task_set_priority(h, 1));
    BAD_HANDLES(ufutex_task, h, ufutex_task_priority(h));
    BAD_HANDLES(ufutex_task, h, ufutex_task_interrupt(h));
    BAD_HANDLES(ufutex_task, h, ufutex_task_clear_interrupt(h));
    BAD_HANDLES(ufutex_task, h, ufutex_task_forget_restart(h));
    ufutex_restart restart = UFUTEX_RESTART_INIT;
    BAD_HANDLES(ufutex_task, h, ufutex_task_restart(h, &restart));
    BAD_HANDLES(ufutex_task, h, ufutex_task_set_restart(h, NULL));
    BAD_HANDLES(ufutex_task, h, ufutex_lock_pi(domain, h, AT(&word), UFUTEX_U32, NULL));
    BAD_HANDLES(ufutex_task, h, ufutex_trylock_pi(domain, h, AT(&word), UFUTEX_U32));
    BAD_HANDLES(ufutex_task, h, ufutex_unlock_pi(domain, h, AT(&word), UFUTEX_U32));
    BAD_HANDLES(ufutex_task, h, ufutex_wait_requeue_pi(domain, h, AT(&word), 0, AT(args), UFUTEX_U32, NULL));
    BAD_HANDLES(ufutex_task, h, ufutex_syscall(domain, h, NULL, 202, args));
    // Calls that do not use the task refuse a bad handle too.
    uint64_t wake[6] = {AT(&word), 129, 1}, differs[6] = {AT(&word), 128, 1}, blocks[6] = {AT(&word), 128, 0};
    uint64_t futex_wake[6] = {AT(&word), 1, 1, 130}, differs_at_all[6] = {AT(&word), 137, 1, 0, 0, 1};
    BAD_HANDLES(ufutex_task, h, ufutex_syscall(domain, h, NULL, 202, wake));
    BAD_HANDLES(ufutex_task, h, ufutex_syscall(domain, h, NULL, 202, differs));
    BAD_HANDLES(ufutex_task, h, ufutex_syscall(domain, h, NULL, 202, differs_at_all));
    BAD_HANDLES(ufutex_task, h, ufutex_syscall(domain, h, NULL, 202, blocks));
    BAD_HANDLES(ufutex_task, h, ufutex_syscall(domain, h, NULL, 454, futex_wake));
    BAD_HANDLES(ufutex_task, h, ufutex_prepare_syscall(domain, h, NULL, 202, blocks, ignore, NULL, &made_waiter));
    BAD_HANDLES(ufutex_domain, h, ufutex_syscall(h, task, NULL, 202, wake));
    BAD_HANDLES(ufutex_task, h, ufutex_prepare_lock_pi(domain, h, AT(&word), UFUTEX_U32, NULL, ignore, NULL, &made_waiter));
    BAD_HANDLES(ufutex_task, h, ufutex_prepare_wait_requeue_pi(domain, h, AT(&word), 0, AT(args), UFUTEX_U32, NULL, ignore, NULL, &made_waiter));
    BAD_HANDLES(ufutex_task, h, ufutex_prepare_syscall(domain, h, NULL, 202, args, ignore, NULL, &made_waiter));
    ufutex_wait_options options = UFUTEX_WAIT_OPTIONS_INIT;
    options.task = freed_ufutex_task;
    CHECK(ufutex_wait(domain, AT(&word), 0, UFUTEX_U32, &options), -EBADF);
    CHECK(ufutex_waitv(domain, &words, 1, &options), -EBADF);
    CHECK(ufutex_prepare_wait(domain, AT(&word), 0, UFUTEX_U32, &options, ignore, NULL, &made_waiter), -EBADF);

    BAD_HANDLES(ufutex_waiter, h, ufutex_waiter_free(h));
    BAD_HANDLES(ufutex_waiter, h, ufutex_waiter_finish(h));
    BAD_HANDLES(ufutex_waiter, h, ufutex_waiter_end(h, UFUTEX_TIMED_OUT));
    BAD_HANDLES(ufutex_waiter, h, ufutex_waiter_deadline(h, &clock, &deadline));

    ufutex_timers *made_timers = NULL;
    ufutex_itimerspec setting = {{0, 0}, {0, 0}};
    ufutex_expired expired;
    ufutex_notice notice = {0};
    int32_t id;
    uint64_t at;
    BAD_HANDLES(ufutex_system, h, ufutex_timers_new(h, NULL, &made_timers));
    BAD_HANDLES(ufutex_domain, h, ufutex_timers_new_beside(h, NULL, &made_timers));
    BAD_HANDLES(ufutex_system, h, ufutex_object_new(h, &at));
    BAD_HANDLES(ufutex_system, h, ufutex_object_free(h, UINT64_C(1) << 61));
    BAD_HANDLES(ufutex_system, h, ufutex_driver_start(h));
    BAD_HANDLES(ufutex_system, h, ufutex_driver_next(h, UFUTEX_MONOTONIC, &at));
    BAD_HANDLES(ufutex_system, h, ufutex_driver_turn(h));
    BAD_HANDLES(ufutex_system, h, ufutex_driver_clock_was_set(h));
    BAD_HANDLES(ufutex_timers, h, ufutex_timers_free(h));
    BAD_HANDLES(ufutex_timers, h, ufutex_timers_create(h, 1, NULL, &id));
    BAD_HANDLES(ufutex_timers, h, ufutex_timers_create_as(h, 1, 1, NULL));
    BAD_HANDLES(ufutex_timers, h, ufutex_timers_settime(h, 0, 0, &setting, NULL));
    BAD_HANDLES(ufutex_timers, h, ufutex_timers_gettime(h, 0, &setting));
    BAD_HANDLES(ufutex_timers, h, ufutex_timers_getoverrun(h, 0));
    BAD_HANDLES(ufutex_timers, h, ufutex_timers_delete(h, 0));
    BAD_HANDLES(ufutex_timers, h, ufutex_timers_clear(h));
    BAD_HANDLES(ufutex_timers, h, ufutex_timers_count(h));
    BAD_HANDLES(ufutex_timers, h, ufutex_timers_bytes(h));
    BAD_HANDLES(ufutex_timers, h, ufutex_timers_receive(h, UFUTEX_FOREVER, 0, &expired));
    BAD_HANDLES(ufutex_timers, h, ufutex_timers_take(h, &notice, &expired));
    BAD_HANDLES(ufutex_timers, h, ufutex_timers_syscall(h, 1, 1, NULL, 226, args));
    CHECK(made_domain == NULL && made_task == NULL && made_waiter == NULL && made_timers == NULL, true);
}

// Makes a call with each invalid pointer for its result: NULL, and a misaligned one.
#define BAD_PLACES(type, place, call)                        \
    do {                                                     \
        type *place = NULL;                                  \
        CHECK(call, -EINVAL);                                \
        place = (type *)(uintptr_t)(AT(&room) + 1);          \
        CHECK(call, -EINVAL);                                \
    } while (0)

static void answers_need_a_place(void)
{
    uint64_t room[32] = {0}, deadline, args[6] = {0};
    uint32_t clock;
    ufutex_waitv_word words = {0, AT(&word), UFUTEX_U32, 0};
    ufutex_waiter *waiter;
    BAD_PLACES(ufutex_system *, p, ufutex_system_new(NULL, p));
    BAD_PLACES(ufutex_domain *, p, ufutex_domain_new(a_system, NULL, p));
    BAD_PLACES(ufutex_domain *, p, ufutex_domain_new_beside(domain, NULL, p));
    BAD_PLACES(ufutex_task *, p, ufutex_task_new(domain, 77, 0, p));
    BAD_PLACES(ufutex_counters, p, ufutex_domain_get_counters(domain, p));
    BAD_PLACES(ufutex_system_counters, p, ufutex_system_get_counters(a_system, p));
    BAD_PLACES(ufutex_waited_word, p, ufutex_domain_who_waits(domain, p, sizeof *p, 1));
    BAD_PLACES(ufutex_waited_word, p, ufutex_system_who_waits(a_system, p, sizeof *p, 1));
    BAD_PLACES(ufutex_waited_word, p, ufutex_domain_objects_who_wait(domain, p, sizeof *p, 1));
    BAD_PLACES(ufutex_timers *, p, ufutex_timers_new_beside(domain, NULL, p));
    BAD_PLACES(uint64_t, p, ufutex_object_new(a_system, p));
    BAD_PLACES(ufutex_waiter *, p, ufutex_prepare_wait(domain, AT(&word), 0, UFUTEX_U32, NULL, ignore, NULL, p));
    BAD_PLACES(ufutex_waiter *, p, ufutex_prepare_waitv(domain, &words, 1, NULL, ignore, NULL, p));
    BAD_PLACES(ufutex_waiter *, p, ufutex_prepare_lock_pi(domain, task, AT(&word), UFUTEX_U32, NULL, ignore, NULL, p));
    BAD_PLACES(ufutex_waiter *, p, ufutex_prepare_wait_requeue_pi(domain, task, AT(&word), 0, AT(room), UFUTEX_U32, NULL, ignore, NULL, p));
    BAD_PLACES(ufutex_waiter *, p, ufutex_prepare_syscall(domain, task, NULL, 202, args, ignore, NULL, p));
    BAD_PLACES(long, p, ufutex_resume(0, UFUTEX_NO_HANDLER, p));
    BAD_PLACES(const uint64_t, p, ufutex_syscall(domain, task, NULL, 202, p));
    BAD_PLACES(const uint64_t, p, ufutex_prepare_syscall(domain, task, NULL, 202, p, ignore, NULL, &waiter));
    BAD_PLACES(const ufutex_waitv_word, p, ufutex_waitv(domain, p, 1, NULL));
    BAD_PLACES(const ufutex_waitv_word, p, ufutex_prepare_waitv(domain, p, 1, NULL, ignore, NULL, &waiter));
    BAD_PLACES(const ufutex_operation, p, ufutex_wake_op(domain, AT(&word), 1, AT(&word), 1, p, UFUTEX_U32));
    BAD_PLACES(uint32_t, p, ufutex_waiter_deadline(freed_ufutex_waiter, p, &deadline));
    BAD_PLACES(uint64_t, p, ufutex_waiter_deadline(freed_ufutex_waiter, &clock, p));
    CHECK(ufutex_requeue(domain, AT(&word), AT(room), 1, 1, UFUTEX_U32, (uint32_t *)(uintptr_t)(AT(room) + 1)), -EINVAL);
    CHECK(ufutex_cmp_requeue(domain, AT(&word), 0, AT(room), 1, 1, UFUTEX_U32, (uint32_t *)(uintptr_t)(AT(room) + 1)), -EINVAL);
    for (int i = 0; i < 32; i++)
        CHECK(room[i], 0);
}

// Makes a call with structs of a wrong size, or with unknown fields that are not 0. first_size is the struct's size in
// the first version, which is still accepted.
#define BAD_SIZES(type, value, call) BAD_SIZES_BELOW(type, sizeof(type), value, call)
#define BAD_SIZES_BELOW(type, first_size, value, call)                  \
    do {                                                                \
        struct { type value; uint64_t beyond[2]; } padded;              \
        memset(&padded, 0, sizeof padded);                              \
        type *value = &padded.value;                                    \
        *value = initial;                                               \
        value->size = 0;                                                \
        CHECK(call, -EINVAL);                                           \
        value->size = first_size - 1;                                   \
        CHECK(call, -EINVAL);                                           \
        value->size = SIZE_MAX;                                         \
        CHECK(call, -E2BIG);                                            \
    } while (0)
#define UNKNOWN_FIELDS(type, value, call)                               \
    do {                                                                \
        struct { type value; uint64_t beyond[2]; } padded;              \
        memset(&padded, 0, sizeof padded);                              \
        type *value = &padded.value;                                    \
        *value = initial;                                               \
        value->size = sizeof *value + 16;                               \
        padded.beyond[1] = 1;                                           \
        CHECK(call, -E2BIG);                                            \
    } while (0)

static int load(void *context, uint64_t address, uint32_t bytes, uint64_t *value)
{
    (void)context, (void)address, (void)bytes;
    *value = 0;
    return 0;
}

static uint32_t first_node(void *context) { return (void)context, 0; }
static int no_node(void *context, uint32_t node) { return (void)context, (void)node, 0; }
static void free_on_node(void *context, void *memory, size_t bytes) { (void)context, (void)memory, (void)bytes; }

static void structs_are_looked_at(void)
{
    ufutex_system *made_system;
    ufutex_domain *made;
    {
        ufutex_config initial = UFUTEX_CONFIG_INIT;
        BAD_SIZES_BELOW(ufutex_config, offsetof(ufutex_config, max_table_bytes), c, ufutex_system_new(c, &made_system));
        UNKNOWN_FIELDS(ufutex_config, c, ufutex_system_new(c, &made_system));
        ufutex_config config;
        REFUSED(config, config.flags = 2, ufutex_system_new(&config, &made_system));
        REFUSED(config, config.reserved = 1, ufutex_system_new(&config, &made_system));
        REFUSED(config, config.global_slots = 3, ufutex_system_new(&config, &made_system));
        CHECK(ufutex_system_new((ufutex_config *)(uintptr_t)(AT(&config) + 1), &made_system), -EINVAL);
    }
    {
        ufutex_topology initial = UFUTEX_TOPOLOGY_INIT;
        ufutex_config config = UFUTEX_CONFIG_INIT;
        initial.nodes = 2, initial.current_node = first_node;
        BAD_SIZES(ufutex_topology, t, (config.topology = t, ufutex_system_new(&config, &made_system)));
        UNKNOWN_FIELDS(ufutex_topology, t, (config.topology = t, ufutex_system_new(&config, &made_system)));
        ufutex_topology topology = initial;
        config.topology = &topology;
        topology.current_node = NULL;
        CHECK(ufutex_system_new(&config, &made_system), -EINVAL);
        REFUSED(topology, topology.nodes = 0, ufutex_system_new(&config, &made_system));
        REFUSED(topology, topology.nodes = 1025, ufutex_system_new(&config, &made_system));
        REFUSED(topology, topology.nodes = UINT32_MAX, ufutex_system_new(&config, &made_system));
        REFUSED(topology, topology.reserved = 1, ufutex_system_new(&config, &made_system));
        REFUSED(topology, topology.free = free_on_node, ufutex_system_new(&config, &made_system)); // without allocate
        REFUSED(topology, topology.has_node = no_node, ufutex_system_new(&config, &made_system));
        REFUSED(topology, config.global_slots = 1 << 23, ufutex_system_new(&config, &made_system)); // too many for two nodes
    }
    {
        ufutex_options initial = UFUTEX_OPTIONS_INIT;
        BAD_SIZES_BELOW(ufutex_options, offsetof(ufutex_options, max_table_bytes), o, ufutex_domain_new(a_system, o, &made));
        UNKNOWN_FIELDS(ufutex_options, o, ufutex_domain_new(a_system, o, &made));
        UNKNOWN_FIELDS(ufutex_options, o, ufutex_domain_new_beside(domain, o, &made));
        ufutex_options options;
        REFUSED(options, options.policy = 3, ufutex_domain_new(a_system, &options, &made));
        REFUSED(options, options.flags = 8, ufutex_domain_new(a_system, &options, &made));
        REFUSED(options, options.slots = 16, ufutex_domain_new(a_system, &options, &made)); // slots need UFUTEX_POLICY_FIXED
    }
    {
        ufutex_memory initial = UFUTEX_MEMORY_INIT;
        ufutex_options options = UFUTEX_OPTIONS_INIT;
        uint64_t args[6] = {0};
        BAD_SIZES_BELOW(ufutex_memory, offsetof(ufutex_memory, write), m, (options.memory = m, ufutex_domain_new(a_system, &options, &made)));
        UNKNOWN_FIELDS(ufutex_memory, m, (options.memory = m, ufutex_domain_new(a_system, &options, &made)));
        UNKNOWN_FIELDS(ufutex_memory, m, ufutex_syscall(domain, task, m, 202, args));
        UNKNOWN_FIELDS(ufutex_memory, m, ufutex_task_exit(domain, task, m));
        ufutex_memory memory = initial;
        memory.load = load; // load needs the other two functions
        options.memory = &memory;
        CHECK(ufutex_domain_new(a_system, &options, &made), -EINVAL);
        CHECK(ufutex_syscall(domain, task, &memory, 202, args), -EINVAL);
        CHECK(ufutex_task_exit(domain, task, &memory), -EINVAL);
    }
    {
        ufutex_clock initial = UFUTEX_CLOCK_INIT;
        ufutex_options options = UFUTEX_OPTIONS_INIT;
        BAD_SIZES(ufutex_clock, c, (options.clock = c, ufutex_domain_new(a_system, &options, &made)));
        options.clock = &initial; // now is missing
        CHECK(ufutex_domain_new(a_system, &options, &made), -EINVAL);
    }
    {
        ufutex_parker initial = UFUTEX_PARKER_INIT;
        ufutex_options options = UFUTEX_OPTIONS_INIT;
        BAD_SIZES(ufutex_parker, p, (options.parker = p, ufutex_domain_new(a_system, &options, &made)));
        options.parker = &initial; // the functions are missing
        CHECK(ufutex_domain_new(a_system, &options, &made), -EINVAL);
    }
    {
        ufutex_wait_options initial = UFUTEX_WAIT_OPTIONS_INIT;
        BAD_SIZES(ufutex_wait_options, o, ufutex_wait(domain, AT(&word), 0, UFUTEX_U32, o));
        UNKNOWN_FIELDS(ufutex_wait_options, o, ufutex_wait(domain, AT(&word), 0, UFUTEX_U32, o));
        UNKNOWN_FIELDS(ufutex_wait_options, o, ufutex_lock_pi(domain, task, AT(&word), UFUTEX_U32, o));
        UNKNOWN_FIELDS(ufutex_wait_options, o, ufutex_wait_requeue_pi(domain, task, AT(&word), 0, 0, UFUTEX_U32, o));
        ufutex_wait_options options;
        REFUSED(options, options.bitset = 0, ufutex_wait(domain, AT(&word), 0, UFUTEX_U32, &options));
        REFUSED(options, options.priority = 100, ufutex_wait(domain, AT(&word), 0, UFUTEX_U32, &options));
        REFUSED(options, options.timeout = 4, ufutex_wait(domain, AT(&word), 0, UFUTEX_U32, &options));
        REFUSED(options, options.reserved = 1, ufutex_wait(domain, AT(&word), 0, UFUTEX_U32, &options));
    }
    {
        ufutex_counters initial = UFUTEX_COUNTERS_INIT;
        BAD_SIZES_BELOW(ufutex_counters, offsetof(ufutex_counters, refused_tables), c, ufutex_domain_get_counters(domain, c));
        ufutex_system_counters counters = UFUTEX_SYSTEM_COUNTERS_INIT;
        counters.size = 8;
        CHECK(ufutex_system_get_counters(a_system, &counters), -EINVAL);
        ufutex_waited_word who;
        CHECK(ufutex_domain_who_waits(domain, &who, sizeof who - 8, 1), -EINVAL);
        CHECK(ufutex_domain_who_waits(domain, &who, 0, 1), -EINVAL);
        CHECK(ufutex_domain_who_waits(domain, &who, sizeof who + 1, 1), -EINVAL);
    }
}

static void words_flags_and_numbers_are_looked_at(void)
{
    static const uint32_t flags[] = {0, 3, UFUTEX_SHARED, UFUTEX_U32 | 128, UFUTEX_U32 | 1u << 27, UFUTEX_U32 | UFUTEX_ON_NODE(2000), UFUTEX_NUMA, UFUTEX_U8 | UFUTEX_U16, UINT32_MAX};
    uint64_t other = 0, args[6] = {0};
    uint64_t misaligned = AT(&other) + 2;
    ufutex_waiter *waiter;
    ufutex_operation operation = {0, 0, 0, 0};
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        ufutex_waitv_word words = {0, AT(&word), flags[i], 0};
        CHECK(ufutex_wait(domain, AT(&word), 0, flags[i], NULL), -EINVAL);
        CHECK(ufutex_waitv(domain, &words, 1, NULL), -EINVAL);
        CHECK(ufutex_wake(domain, AT(&word), 1, 1, flags[i]), -EINVAL);
        CHECK(ufutex_wake_op(domain, AT(&word), 1, AT(&other), 1, &operation, flags[i]), -EINVAL);
        CHECK(ufutex_requeue(domain, AT(&word), AT(&other), 1, 1, flags[i], NULL), -EINVAL);
        CHECK(ufutex_cmp_requeue(domain, AT(&word), 0, AT(&other), 1, 1, flags[i], NULL), -EINVAL);
        CHECK(ufutex_lock_pi(domain, task, AT(&word), flags[i], NULL), -EINVAL);
        CHECK(ufutex_trylock_pi(domain, task, AT(&word), flags[i]), -EINVAL);
        CHECK(ufutex_unlock_pi(domain, task, AT(&word), flags[i]), -EINVAL);
        CHECK(ufutex_wait_requeue_pi(domain, task, AT(&word), 0, AT(&other), flags[i], NULL), -EINVAL);
        CHECK(ufutex_cmp_requeue_pi(domain, AT(&word), 0, AT(&other), 1, flags[i]), -EINVAL);
        CHECK(ufutex_prepare_wait(domain, AT(&word), 0, flags[i], NULL, ignore, NULL, &waiter), -EINVAL);
    }
    CHECK(ufutex_wait(domain, misaligned, 0, UFUTEX_U32, NULL), -EINVAL);
    CHECK(ufutex_wait(domain, misaligned, 0, UFUTEX_U32 | UFUTEX_SHARED, NULL), -EINVAL);
    CHECK(ufutex_wake(domain, misaligned, 1, 1, UFUTEX_U32), -EINVAL);
    CHECK(ufutex_wake(domain, misaligned, 1, 1, UFUTEX_U64), -EINVAL);
    CHECK(ufutex_wake_op(domain, AT(&word), 1, misaligned, 1, &operation, UFUTEX_U32), -EINVAL);
    CHECK(ufutex_requeue(domain, AT(&word), misaligned, 1, 1, UFUTEX_U32, NULL), -EINVAL);
    CHECK(ufutex_lock_pi(domain, task, misaligned, UFUTEX_U32, NULL), -EINVAL);
    CHECK(ufutex_lock_pi(domain, task, AT(&other), UFUTEX_U64, NULL), -EINVAL);
    CHECK(ufutex_trylock_pi(domain, task, AT(&other), UFUTEX_U16), -EINVAL);
    CHECK(ufutex_wait_requeue_pi(domain, task, AT(&word), 0, AT(&word), UFUTEX_U32, NULL), -EINVAL);
    CHECK(ufutex_cmp_requeue_pi(domain, AT(&word), 0, AT(&word), 1, UFUTEX_U32), -EINVAL);
    CHECK(ufutex_wait(domain, 0, 0, UFUTEX_U32, NULL), -EFAULT);
    CHECK(ufutex_wait(domain, 0, 0, UFUTEX_U8, NULL), -EFAULT);
    CHECK(ufutex_wake(domain, 0, 1, 1, UFUTEX_U32), -EFAULT);
    CHECK(ufutex_wake(domain, 1ull << 63, 1, 1, UFUTEX_U64), -EFAULT);
    CHECK(ufutex_wait(domain, AT(&word), 1ull << 32, UFUTEX_U32, NULL), -EINVAL);
    CHECK(ufutex_cmp_requeue(domain, AT(&word), 1ull << 32, AT(&other), 1, 1, UFUTEX_U32, NULL), -EINVAL);
    CHECK(ufutex_wake(domain, AT(&word), 1, 0, UFUTEX_U32), -EINVAL);
    operation.modify = 5;
    CHECK(ufutex_wake_op(domain, AT(&word), 1, AT(&other), 1, &operation, UFUTEX_U32), -EINVAL);
    operation.modify = 0, operation.compare = 6;
    CHECK(ufutex_wake_op(domain, AT(&word), 1, AT(&other), 1, &operation, UFUTEX_U32), -EINVAL);
    operation.compare = 0;
    CHECK(ufutex_wake_op(domain, AT(&word), 1, AT(&other), 1, &operation, UFUTEX_U64), -EINVAL);
    ufutex_waitv_word words = {0, AT(&word), UFUTEX_U32, 1};
    CHECK(ufutex_waitv(domain, &words, 1, NULL), -EINVAL);
    CHECK(ufutex_waitv(domain, &words, 0, NULL), -EINVAL);
    ufutex_task *made;
    CHECK(ufutex_task_new(domain, 0, 0, &made), -EINVAL);
    CHECK(ufutex_task_new(domain, 1u << 30, 0, &made), -EINVAL);
    CHECK(ufutex_task_new(domain, 77, 2, &made), -EINVAL);
    CHECK(ufutex_task_new(domain, 1, 0, &made), -EBUSY);
    CHECK(ufutex_task_set_priority(task, 100), -EINVAL);
    CHECK(ufutex_task_set_robust_list(task, 5, 0, 15), -EINVAL);
    CHECK(ufutex_task_set_robust_list(task, 8, 0, 12), -EINVAL);
    CHECK(ufutex_syscall(domain, task, NULL, 0, args), -ENOSYS);
    CHECK(ufutex_syscall(domain, task, NULL, UINT64_MAX, args), -ENOSYS);
    CHECK(ufutex_syscall(domain, task, NULL, 98, args), -ENOSYS);
    CHECK(ufutex_syscall(domain, task, NULL, 98 + UFUTEX_GENERIC_NUMBER, args), -EFAULT);
    CHECK(ufutex_resume(0, 3, (long[]){0}), -EINVAL);
    CHECK(ufutex_prepare_wait(domain, AT(&word), 0, UFUTEX_U32, NULL, NULL, NULL, &waiter), -EINVAL);
    CHECK(ufutex_prepare_lock_pi(domain, task, AT(&word), UFUTEX_U32, NULL, NULL, NULL, &waiter), -EINVAL);
    CHECK(ufutex_prepare_waitv(domain, &words, 1, NULL, NULL, NULL, &waiter), -EINVAL);
    CHECK(ufutex_prepare_wait_requeue_pi(domain, task, AT(&word), 0, AT(&other), UFUTEX_U32, NULL, NULL, NULL, &waiter), -EINVAL);
    CHECK(ufutex_prepare_syscall(domain, task, NULL, 202, args, NULL, NULL, &waiter), -EINVAL);
    ufutex_wait_options bad = UFUTEX_WAIT_OPTIONS_INIT;
    bad.timeout = 99;
#define PREPARES_NOTHING(prepare)           \
    do {                                    \
        waiter = (ufutex_waiter *)8;        \
        CHECK(prepare, -EINVAL);            \
        CHECK(waiter == NULL, 1);           \
    } while (0)
    PREPARES_NOTHING(ufutex_prepare_wait(domain, AT(&word), 0, UFUTEX_U32, &bad, ignore, NULL, &waiter));
    PREPARES_NOTHING(ufutex_prepare_waitv(domain, &words, 1, &bad, ignore, NULL, &waiter));
    PREPARES_NOTHING(ufutex_prepare_lock_pi(domain, task, AT(&word), UFUTEX_U32, &bad, ignore, NULL, &waiter));
    PREPARES_NOTHING(ufutex_prepare_wait_requeue_pi(domain, task, AT(&word), 0, AT(&other), UFUTEX_U32, &bad, ignore, NULL, &waiter));
    ufutex_domain *elsewhere = new_domain(a_system, NULL);
    CHECK(ufutex_lock_pi(elsewhere, task, AT(&word), UFUTEX_U32, NULL), -EINVAL);
    CHECK(ufutex_task_exit(elsewhere, task, NULL), -EINVAL);
    CHECK(ufutex_domain_free(elsewhere), 0);
    CHECK(word, 0);
}

static void *wait_for_word(void *unused)
{
    (void)unused;
    return (void *)(intptr_t)ufutex_wait(domain, AT(&word), 0, UFUTEX_U32, NULL);
}

static void nothing_is_freed_while_somebody_waits(void)
{
    pthread_t thread = start(wait_for_word, NULL);
    until_waiting(domain, 1);
    CHECK(ufutex_domain_free(domain), -EBUSY);
    CHECK(ufutex_wake(domain, AT(&word), 1, 1, UFUTEX_U32), 1);
    CHECK(result_of(thread), 0);

    ufutex_waiter *waiter;
    ufutex_wait_options options = UFUTEX_WAIT_OPTIONS_INIT;
    options.task = task;
    CHECK(ufutex_prepare_wait(domain, AT(&word), 0, UFUTEX_U32, &options, ignore, NULL, &waiter), -EINPROGRESS);
    CHECK(ufutex_domain_free(domain), -EBUSY);
    CHECK(ufutex_task_free(task), -EBUSY);
    CHECK(ufutex_waiter_end(waiter, 2), -EINVAL);
    CHECK(ufutex_waiter_end(waiter, UFUTEX_INTERRUPTED), -EINTR);
    CHECK(ufutex_waiter_end(waiter, UFUTEX_INTERRUPTED), -EBADF);
    CHECK(ufutex_waiter_free(waiter), -EBADF);
    CHECK(ufutex_waiter_finish(waiter), -EBADF);
    CHECK(waiting(domain), 0);
}

// Domains that are made and freed while other threads use their handles.
enum { LIVES = 100 };
static _Atomic(ufutex_domain *) shared;
static _Atomic int over;

static void *use_shared(void *unused)
{
    (void)unused;
    ufutex_wait_options soon = UFUTEX_WAIT_OPTIONS_INIT;
    soon.timeout = UFUTEX_AFTER;
    soon.nanoseconds = 1000;
    static uint32_t own;
    while (!over) {
        ufutex_domain *used = shared;
        long results[] = {
            ufutex_wait(used, AT(&own), 1, UFUTEX_U32, NULL),
            ufutex_wake(used, AT(&own), 1, 1, UFUTEX_U32),
            ufutex_wait(used, AT(&own), 0, UFUTEX_U32, &soon),
        };
        for (int i = 0; i < 3; i++)
            if (results[i] != -EBADF && results[i] != -EAGAIN && results[i] != -ETIMEDOUT && results[i] < 0)
                CHECK(results[i], 0);
    }
    return NULL;
}

static void freed_handles_are_told_to_threads_that_use_them(void)
{
    shared = new_domain(a_system, NULL);
    pthread_t threads[2] = {start(use_shared, NULL), start(use_shared, NULL)};
    for (int life = 0; life < LIVES; life++) {
        ufutex_domain *old = shared, *made = new_domain(a_system, NULL);
        shared = made;
        int result;
        while ((result = ufutex_domain_free(old)) == -EBUSY)
            sched_yield();
        CHECK(result, 0);
        CHECK(ufutex_domain_free(old), -EBADF);
    }
    over = 1;
    CHECK(result_of(threads[0]), 0);
    CHECK(result_of(threads[1]), 0);
    CHECK(ufutex_domain_free(shared), 0);
}

int main(void)
{
    a_system = new_system();
    domain = new_domain(a_system, NULL);
    task = new_task(domain, 1);
    make_bad_handles();
    handles_that_are_none_are_told();
    answers_need_a_place();
    structs_are_looked_at();
    words_flags_and_numbers_are_looked_at();
    nothing_is_freed_while_somebody_waits();
    freed_handles_are_told_to_threads_that_use_them();
    CHECK(ufutex_task_free(task), 0);
    CHECK(ufutex_task_free(task), -EBADF);
    CHECK(ufutex_domain_free(domain), 0);
    CHECK(ufutex_domain_free(domain), -EBADF);
    CHECK(ufutex_system_free(a_system), 0);
    CHECK(ufutex_system_free(a_system), -EBADF);
    return 0;
}
