// A machine of the embedder's: its nodes, its memory on them, and words that are looked up on a node.
#include "guest.h"

// Nodes 0 and 2; number 1 is left out.
enum { NODES = 3 };

struct machine {
    _Atomic long bytes[NODES]; // that the library has of each node
    _Atomic int tables;
    int limit;     // how many tables there is memory for
    bool misplaces; // returns memory at an odd address
    _Atomic int given_back;
};

static _Thread_local uint32_t own_node;

static int has_node(void *context, uint32_t node)
{
    (void)context;
    CHECK(node < NODES, true);
    return node != 1;
}

static uint32_t current_node(void *context) { return (void)context, own_node; }

// The node is kept before the memory.
enum { HEAD = 4096 };

static void *allocate(void *context, size_t bytes, size_t alignment, uint32_t node)
{
    struct machine *machine = context;
    char *memory = NULL;
    CHECK(node < NODES && node != 1, true);
    CHECK(alignment <= HEAD && bytes % alignment == 0 && bytes != 0, true);
    if (machine->tables == machine->limit)
        return NULL;
    machine->tables++;
    CHECK(posix_memalign((void **)&memory, HEAD, HEAD + bytes), 0);
    memset(memory, 0, HEAD + bytes);
    *(uint32_t *)(void *)memory = node;
    machine->bytes[node] += (long)bytes;
    return memory + HEAD + (machine->misplaces ? 1 : 0);
}

static void give_back(void *context, void *memory, size_t bytes)
{
    struct machine *machine = context;
    char *begin = (char *)memory - HEAD - (machine->misplaces ? 1 : 0);
    machine->bytes[*(uint32_t *)(void *)begin] -= (long)bytes;
    machine->given_back++;
    free(begin);
}

static ufutex_topology topology_of(struct machine *machine)
{
    ufutex_topology topology = UFUTEX_TOPOLOGY_INIT;
    topology.context = machine;
    topology.nodes = NODES;
    topology.has_node = has_node;
    topology.current_node = current_node;
    topology.allocate = allocate;
    topology.free = give_back;
    return topology;
}

static int new_system_on(struct machine *machine, ufutex_system **made)
{
    ufutex_topology topology = topology_of(machine);
    ufutex_config config = UFUTEX_CONFIG_INIT;
    config.global_slots = 64;
    config.topology = &topology;
    return ufutex_system_new(&config, made);
}

static ufutex_domain *domain;

struct wait {
    uint64_t address;
    uint64_t expected;
    uint32_t flags;
    uint32_t node; // that the thread runs on
};

static void *wait_thread(void *argument)
{
    struct wait *wait = argument;
    own_node = wait->node;
    return (void *)(intptr_t)ufutex_wait(domain, wait->address, wait->expected, wait->flags, NULL);
}

static long wake(void *word, uint32_t flags) { return ufutex_wake(domain, AT(word), 10, UFUTEX_BITSET_ANY, flags); }

static void tables_are_on_their_nodes(ufutex_system *system, struct machine *machine)
{
    CHECK(ufutex_system_nodes(system), NODES);
    CHECK(ufutex_system_has_node(system, 0), 1);
    CHECK(ufutex_system_has_node(system, 1), 0);
    CHECK(ufutex_system_has_node(system, 2), 1);
    CHECK(ufutex_system_has_node(system, 3), 0);
    CHECK(ufutex_system_has_node(system, UINT32_MAX), 0);
    CHECK(machine->bytes[0], 64 * 64);
    CHECK(machine->bytes[2], 64 * 64);
    own_node = 2;
    CHECK(ufutex_system_current_node(system), 2);
    static const uint32_t none[] = {1, 3, 1024, UINT32_MAX};
    for (int i = 0; i < 4; i++) { // the first node stands for it
        own_node = none[i];
        CHECK(ufutex_system_current_node(system), 0);
        ufutex_domain *made = new_domain(system, NULL);
        CHECK(ufutex_domain_set_slots(made, 16), 0);
        CHECK(machine->bytes[0], 64 * 64 + 16 * 64);
        CHECK(ufutex_domain_free(made), 0);
    }
    // A domain's table is on the node of the thread that makes it.
    own_node = 2;
    CHECK(ufutex_domain_set_slots(domain, 16), 0);
    CHECK(machine->bytes[2], 64 * 64 + 16 * 64);
    own_node = 0;
    CHECK(ufutex_domain_set_slots(domain, 32), 0);
    CHECK(machine->bytes[0], 64 * 64 + 32 * 64);
}

static void operations_that_name_one_node_meet(void)
{
    static const uint32_t names[] = {UFUTEX_U32 | UFUTEX_ON_NODE(0), UFUTEX_U32 | UFUTEX_ON_NODE(2), UFUTEX_U32};
    static uint32_t word;
    for (int i = 0; i < 3; i++) {
        struct wait wait = {AT(&word), 0, names[i], 0};
        pthread_t thread = start(wait_thread, &wait);
        until_waiting(domain, 1);
        for (int j = 0; j < 3; j++)
            if (j != i)
                CHECK(wake(&word, names[j]), 0);
        CHECK(wake(&word, names[i]), 1);
        CHECK(result_of(thread), 0);
    }
    static uint64_t wide;
    struct wait wait = {AT(&wide), 0, UFUTEX_U64 | UFUTEX_ON_NODE(2), 0};
    pthread_t thread = start(wait_thread, &wait);
    until_waiting(domain, 1);
    CHECK(wake(&wide, UFUTEX_U64 | UFUTEX_ON_NODE(2)), 1);
    CHECK(result_of(thread), 0);
    // Of several words, each has its node. A requeue moves waiters on one node.
    ufutex_waitv_word words[2] = {{0, AT(&word), UFUTEX_U32 | UFUTEX_ON_NODE(0), 0}, {0, AT(&wide), UFUTEX_U64 | UFUTEX_ON_NODE(2), 0}};
    ufutex_wait_options soon = UFUTEX_WAIT_OPTIONS_INIT;
    soon.timeout = UFUTEX_AFTER, soon.nanoseconds = MS;
    CHECK(ufutex_waitv(domain, words, 2, &soon), -ETIMEDOUT);
    static uint32_t other;
    uint32_t moved = 0;
    wait = (struct wait){AT(&word), 0, UFUTEX_U32 | UFUTEX_ON_NODE(2), 0};
    thread = start(wait_thread, &wait);
    until_waiting(domain, 1);
    CHECK(ufutex_requeue(domain, AT(&word), AT(&other), 0, 1, UFUTEX_U32 | UFUTEX_ON_NODE(0), &moved), 0);
    CHECK(ufutex_requeue(domain, AT(&word), AT(&other), 0, 1, UFUTEX_U32 | UFUTEX_ON_NODE(2), &moved), 1);
    CHECK(moved, 1);
    CHECK(wake(&other, UFUTEX_U32 | UFUTEX_ON_NODE(2)), 1);
    CHECK(result_of(thread), 0);
}

// FUTEX2_NUMA: the node is behind the word.
struct numa_word {
    _Alignas(8) uint32_t value;
    _Atomic uint32_t node;
};

static void nodes_behind_words(ufutex_task *task)
{
    static struct numa_word word = {0, 2};
    struct wait wait = {AT(&word), 0, UFUTEX_U32 | UFUTEX_NUMA, 0};
    pthread_t thread = start(wait_thread, &wait);
    until_waiting(domain, 1);
    CHECK(wake(&word, UFUTEX_U32), 0);
    CHECK(wake(&word, UFUTEX_U32 | UFUTEX_ON_NODE(0)), 0);
    CHECK(wake(&word, UFUTEX_U32 | UFUTEX_ON_NODE(2)), 1);
    CHECK(result_of(thread), 0);
    // -1 becomes the node of the thread that comes first, and stays.
    word.node = UINT32_MAX;
    wait.node = 2;
    thread = start(wait_thread, &wait);
    until_waiting(domain, 1);
    CHECK(word.node, 2);
    own_node = 0;
    CHECK(wake(&word, UFUTEX_U32 | UFUTEX_NUMA), 1);
    CHECK(result_of(thread), 0);
    // A system call names the same word.
    thread = start(wait_thread, &wait);
    until_waiting(domain, 1);
    uint64_t futex_wake[6] = {AT(&word), 1, 1, 2 | 4 | 128, 0, 0};
    CHECK(ufutex_syscall(domain, task, NULL, 454, futex_wake), 1);
    CHECK(result_of(thread), 0);
    word.node = 1; // there is none
    CHECK(wake(&word, UFUTEX_U32 | UFUTEX_NUMA), -EINVAL);
    word.node = 7;
    CHECK(wake(&word, UFUTEX_U32 | UFUTEX_NUMA), -EINVAL);
    word.node = 0;
    CHECK(ufutex_wake(domain, AT(&word) + 4, 1, 1, UFUTEX_U32 | UFUTEX_NUMA), -EINVAL); // not a multiple of 8
    CHECK(ufutex_wake(domain, 0, 1, 1, UFUTEX_U32 | UFUTEX_NUMA), -EFAULT);
}

static void flags_that_do_not_fit(ufutex_task *task)
{
    static struct numa_word word, lock;
    static const uint32_t none[] = {
        UFUTEX_U32 | UFUTEX_ON_NODE(1),     UFUTEX_U32 | UFUTEX_ON_NODE(3),
        UFUTEX_U32 | UFUTEX_ON_NODE(1023),  UFUTEX_U32 | UFUTEX_ON_NODE(1024),
        UFUTEX_U32 | UFUTEX_ON_NODE(65535), UFUTEX_U32 | UFUTEX_ON_NODE(UINT32_MAX),
        UFUTEX_U8 | UFUTEX_NUMA,            UFUTEX_U64 | UFUTEX_NUMA,
        UFUTEX_U16 | UFUTEX_MPOL,           UFUTEX_U32 | UFUTEX_NUMA | UFUTEX_ON_NODE(0),
        UFUTEX_U32 | UFUTEX_MPOL | UFUTEX_ON_NODE(0), UFUTEX_ON_NODE(0),
    };
    uint32_t moved;
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        ufutex_waitv_word words = {1, AT(&word), none[i], 0};
        CHECK(ufutex_wait(domain, AT(&word), 1, none[i], NULL), -EINVAL);
        CHECK(ufutex_waitv(domain, &words, 1, NULL), -EINVAL);
        CHECK(wake(&word, none[i]), -EINVAL);
        CHECK(ufutex_requeue(domain, AT(&word), AT(&lock), 1, 1, none[i], &moved), -EINVAL);
    }
    // Locks have no nodes.
    static const uint32_t names[] = {UFUTEX_U32 | UFUTEX_ON_NODE(0), UFUTEX_U32 | UFUTEX_NUMA, UFUTEX_U32 | UFUTEX_MPOL};
    for (int i = 0; i < 3; i++) {
        CHECK(ufutex_lock_pi(domain, task, AT(&lock), names[i], NULL), -EINVAL);
        CHECK(ufutex_trylock_pi(domain, task, AT(&lock), names[i]), -EINVAL);
        CHECK(ufutex_unlock_pi(domain, task, AT(&lock), names[i]), -EINVAL);
        CHECK(ufutex_wait_requeue_pi(domain, task, AT(&word), 1, AT(&lock), names[i], NULL), -EINVAL);
        CHECK(ufutex_cmp_requeue_pi(domain, AT(&word), 0, AT(&lock), 1, names[i]), -EINVAL);
    }
    CHECK(word.value == 0 && word.node == 0 && lock.value == 0 && lock.node == 0, true);
}

// FUTEX2_MPOL: the first page of a guest prefers node 2, and its second page has no policy.
static int policy_node(void *context, uint64_t address)
{
    (void)context;
    return address < GUEST + PAGE ? 2 : -1;
}

static int writes;

static int guest_write(void *context, uint64_t address, const void *from, size_t bytes)
{
    void *to;
    writes++;
    if (!guest_page(context, address, (uint32_t)bytes, true, &to))
        return -1;
    memcpy(to, from, bytes);
    return 0;
}

static void policies_of_memory(ufutex_system *system, ufutex_task *task)
{
    static struct guest guest;
    ufutex_memory memory = guest_memory(&guest);
    memory.policy_node = policy_node;
    memory.write = guest_write;
    guest.present[0] = guest.present[1] = true;
    ufutex_options options = UFUTEX_OPTIONS_INIT;
    options.memory = &memory;
    ufutex_domain *program = domain;
    domain = new_domain(system, &options);
    struct wait wait = {GUEST, 0, UFUTEX_U32 | UFUTEX_MPOL, 0};
    pthread_t thread = start(wait_thread, &wait);
    until_waiting(domain, 1);
    CHECK(ufutex_wake(domain, GUEST, 1, 1, UFUTEX_U32), 0);
    CHECK(ufutex_wake(domain, GUEST, 1, 1, UFUTEX_U32 | UFUTEX_ON_NODE(2)), 1);
    CHECK(result_of(thread), 0);
    wait.address = GUEST + PAGE;
    thread = start(wait_thread, &wait);
    until_waiting(domain, 1);
    CHECK(ufutex_wake(domain, GUEST + PAGE, 1, 1, UFUTEX_U32), 1);
    CHECK(result_of(thread), 0);
    // The policy says which node is stored behind a word. The second page cannot be written.
    guest_store32(&guest, 12, UINT32_MAX);
    guest_store32(&guest, PAGE + 4, UINT32_MAX);
    CHECK(ufutex_wake(domain, GUEST + 8, 1, 1, UFUTEX_U32 | UFUTEX_NUMA | UFUTEX_MPOL), 0);
    CHECK(guest_load32(&guest, 12), 2);
    CHECK(ufutex_wake(domain, GUEST + PAGE, 1, 1, UFUTEX_U32 | UFUTEX_NUMA | UFUTEX_MPOL), -EFAULT);
    // Results of system calls are written by the guest's own function.
    uint64_t args[6] = {0, GUEST + 64, GUEST + 72, 0, 0, 0};
    CHECK(ufutex_task_set_robust_list(task, 8, 0x1234, 24), 0);
    CHECK(ufutex_syscall(program, task, &memory, 274, args), 0);
    CHECK(writes, 2);
    CHECK(guest_load32(&guest, 64), 0x1234);
    CHECK(guest_load32(&guest, 72), 24);
    args[1] = GUEST + PAGE;
    CHECK(ufutex_syscall(program, task, &memory, 274, args), -EFAULT);
    CHECK(ufutex_domain_free(domain), 0);
    domain = program;
}

static void memory_that_is_refused(void)
{
    ufutex_system *system = NULL;
    struct machine full = {.limit = 1}, odd = {.limit = 10, .misplaces = true};
    CHECK(new_system_on(&full, &system), -ENOMEM);
    CHECK(full.given_back, 1);
    CHECK(full.bytes[0] + full.bytes[2], 0);
    CHECK(new_system_on(&odd, &system), -ENOMEM);
    CHECK(odd.given_back, 1);
    CHECK(odd.bytes[0] + odd.bytes[2], 0);
    CHECK(system == NULL, true);
}

// Without functions of its own for memory.
static void nodes_in_mallocs_memory(void)
{
    struct machine none = {0};
    ufutex_topology topology = topology_of(&none);
    ufutex_config config = UFUTEX_CONFIG_INIT;
    ufutex_system *system;
    topology.allocate = NULL, topology.free = NULL, topology.has_node = NULL;
    topology.nodes = 1024;
    config.topology = &topology;
    CHECK(ufutex_system_new(&config, &system), 0);
    CHECK(ufutex_system_nodes(system), 1024);
    CHECK(ufutex_system_has_node(system, 1), 1);
    ufutex_domain *elsewhere = new_domain(system, NULL);
    uint32_t word = 0;
    CHECK(ufutex_wake(elsewhere, AT(&word), 1, 1, UFUTEX_U32 | UFUTEX_ON_NODE(1023)), 0);
    CHECK(ufutex_domain_free(elsewhere), 0);
    CHECK(ufutex_system_free(system), 0);
}

int main(void)
{
    static struct machine machine = {.limit = 100};
    ufutex_system *system;
    CHECK(new_system_on(&machine, &system), 0);
    domain = new_domain(system, NULL);
    ufutex_task *task = new_task(domain, 1);
    tables_are_on_their_nodes(system, &machine);
    operations_that_name_one_node_meet();
    nodes_behind_words(task);
    flags_that_do_not_fit(task);
    policies_of_memory(system, task);
    memory_that_is_refused();
    nodes_in_mallocs_memory();
    CHECK(ufutex_task_free(task), 0);
    CHECK(ufutex_system_free(system), 0);
    CHECK(machine.bytes[0] > 0, true); // the domain has the tables still
    CHECK(ufutex_domain_free(domain), 0);
    CHECK(machine.bytes[0], 0);
    CHECK(machine.bytes[2], 0);
    return 0;
}
