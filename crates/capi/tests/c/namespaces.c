// PID namespaces: a TID in a guest's memory names a task of that guest's namespace.
#include "guest.h"

#define LOCK (GUEST + 64)
#define WORD (GUEST + 128)
#define FLAGS (UFUTEX_U32 | UFUTEX_SHARED)

static struct guest memory_of_all;
static uint32_t lent[8][8]; // by namespace and TID, as reported to the scheduler

static void set_priority_in(void *context, uint64_t pid_namespace, uint32_t tid, uint32_t priority)
{
    CHECK(context == lent, true);
    lent[pid_namespace][tid] = priority;
}

static void set_priority(void *context, uint32_t tid, uint32_t priority)
{
    (void)context, (void)tid, (void)priority;
    abort(); // set_priority_in must be called instead
}

static void ignore(void *context) { (void)context; }

static ufutex_waiter *wait_for_lock(ufutex_domain *domain, ufutex_task *task)
{
    ufutex_waiter *waiter = NULL;
    CHECK(ufutex_prepare_lock_pi(domain, task, LOCK, FLAGS, NULL, ignore, NULL, &waiter), -EINPROGRESS);
    return waiter;
}

int main(void)
{
    ufutex_config config = UFUTEX_CONFIG_INIT;
    config.set_priority = set_priority;
    config.set_priority_in = set_priority_in;
    config.context = lent;
    ufutex_system *a_system;
    CHECK(ufutex_system_new(&config, &a_system), 0);

    // Two processes of one guest, a process of another guest, and a domain without a namespace. All map one object.
    CHECK(ufutex_object_new(a_system, &memory_of_all.object), 0);
    CHECK(ufutex_object_new(a_system, NULL), -EINVAL);
    ufutex_memory memory = guest_memory(&memory_of_all);
    ufutex_options options = UFUTEX_OPTIONS_INIT, apart = UFUTEX_OPTIONS_INIT;
    options.memory = apart.memory = &memory;
    apart.flags = UFUTEX_NEW_PID_NAMESPACE;
    ufutex_domain *plain = new_domain(a_system, &options), *parent = new_domain(a_system, &apart), *child, *stranger;
    CHECK(ufutex_domain_new_beside(parent, &options, &child), 0);
    CHECK(ufutex_domain_new_beside(parent, &apart, &stranger), 0);
    CHECK(ufutex_domain_pid_namespace(plain), 0);
    long ours = ufutex_domain_pid_namespace(parent), theirs = ufutex_domain_pid_namespace(stranger);
    CHECK(ours > 0 && theirs > 0 && ours != theirs, true);
    CHECK(ufutex_domain_pid_namespace(child), ours);

    // Each namespace has a task 1 of its own, and only one of each TID.
    ufutex_task *init = new_task(parent, 1), *namesake = new_task(stranger, 1), *of_plain = new_task(plain, 1), *taken;
    CHECK(ufutex_task_new(parent, 1, 0, &taken), -EBUSY);
    CHECK(ufutex_task_new(child, 1, 0, &taken), -EBUSY);
    CHECK(ufutex_task_new(stranger, 1, 0, &taken), -EBUSY);
    ufutex_task *heir = new_task(child, 2), *other = new_task(stranger, 3);
    CHECK(ufutex_task_set_priority(other, 50), 0);
    CHECK(lent[theirs][3], 50);

    // A word that holds 2 names the task of the other process to one guest, and no task to the other guest.
    atomic_store(&memory_of_all.present[0], true);
    guest_store32(&memory_of_all, 64, 2);
    CHECK(ufutex_lock_pi(stranger, other, LOCK, FLAGS, NULL), -ESRCH);
    CHECK(ufutex_task_priority(heir), 0);
    CHECK(ufutex_task_set_priority(init, 20), 0);
    ufutex_waiter *waiter = wait_for_lock(parent, init);
    CHECK(ufutex_task_priority(heir), 20);
    CHECK(lent[ours][2], 20);
    CHECK(lent[ours][1], 20);
    CHECK(lent[theirs][1], 0);

    // While a task of one guest waits for the lock, tasks of the other guest cannot lock it.
    CHECK(ufutex_lock_pi(stranger, other, LOCK, FLAGS, NULL), -EINVAL);
    CHECK(ufutex_trylock_pi(stranger, other, LOCK, FLAGS), -EINVAL);
    CHECK(ufutex_unlock_pi(stranger, other, LOCK, FLAGS), -EPERM);
    CHECK(ufutex_task_priority(heir), 20);
    CHECK(ufutex_unlock_pi(child, heir, LOCK, FLAGS), 0);
    CHECK(ufutex_waiter_finish(waiter), 0);
    CHECK(guest_load32(&memory_of_all, 64) & ~0x80000000u, 1);
    CHECK(ufutex_unlock_pi(parent, init, LOCK, FLAGS), 0);
    CHECK(ufutex_lock_pi(stranger, other, LOCK, FLAGS, NULL), 0);
    CHECK(ufutex_unlock_pi(stranger, other, LOCK, FLAGS), 0);

    // All meet at the object's words. Of an object with a number of the program's own, only those of one guest do.
    ufutex_domain *all[] = {child, parent, stranger, plain};
    uint64_t shared = memory_of_all.object;
    for (int i = 0; i < 8; i++) {
        memory_of_all.object = i < 4 ? shared : 7;
        CHECK(ufutex_prepare_wait(parent, WORD, 0, FLAGS, NULL, ignore, NULL, &waiter), -EINPROGRESS);
        ufutex_waited_word who;
        CHECK(ufutex_system_who_waits(a_system, &who, sizeof who, 1), i < 4);
        CHECK(ufutex_domain_objects_who_wait(child, &who, sizeof who, 1), i >= 4);
        CHECK(ufutex_domain_objects_who_wait(stranger, &who, sizeof who, 1), 0);
        CHECK(who.object, memory_of_all.object);
        CHECK(ufutex_wake(all[i % 4], WORD, 1, UINT32_MAX, FLAGS), i < 4 || i % 4 < 2);
        CHECK(ufutex_waiter_end(waiter, UFUTEX_TIMED_OUT), i < 6 ? 0 : -ETIMEDOUT);
    }
    CHECK(ufutex_object_free(a_system, 7), -EINVAL);
    CHECK(ufutex_object_free(a_system, shared), 0);
    CHECK(ufutex_object_free(a_system, shared), -EINVAL);

    // A namespace outlives the domain with which it was made.
    CHECK(ufutex_task_free(init), 0);
    CHECK(ufutex_domain_free(parent), 0);
    init = new_task(child, 1);
    ufutex_task *tasks[] = {init, namesake, of_plain, heir, other};
    for (size_t i = 0; i < sizeof tasks / sizeof tasks[0]; i++)
        CHECK(ufutex_task_free(tasks[i]), 0);
    ufutex_domain *domains[] = {plain, child, stranger};
    for (size_t i = 0; i < sizeof domains / sizeof domains[0]; i++)
        CHECK(ufutex_domain_free(domains[i]), 0);
    CHECK(ufutex_system_free(a_system), 0);
    return 0;
}
