// Memory, clock and parker of an embedder.
#include "guest.h"

static ufutex_system *a_system;
static ufutex_domain *domain;

// A parker made of pthreads, which stand for green threads.
struct parked {
    pthread_mutex_t mutex;
    pthread_cond_t condition;
    bool may_run, is_parked;
    int answer; // if not 0, park returns this at once
};

static _Thread_local struct parked *running;
static _Atomic int parks, unparks;
static _Atomic uint64_t clock_ns = 1000;
static _Atomic int clock_queries;

static void *current(void *context)
{
    CHECK(context == &parks, true);
    return running;
}

static int park(void *context, void *thread, uint32_t clock, uint64_t deadline)
{
    struct parked *me = thread;
    CHECK(context == &parks && me == running, true);
    CHECK(clock, UFUTEX_MONOTONIC);
    parks++;
    if (me->answer)
        return me->answer;
    pthread_mutex_lock(&me->mutex);
    me->is_parked = true;
    while (!me->may_run && clock_ns < deadline) {
        struct timespec time;
        clock_gettime(CLOCK_REALTIME, &time);
        time.tv_nsec += 1000000; // wake up to read the clock again
        if (time.tv_nsec >= 1000000000)
            time.tv_sec++, time.tv_nsec -= 1000000000;
        pthread_cond_timedwait(&me->condition, &me->mutex, &time);
    }
    me->may_run = me->is_parked = false;
    pthread_mutex_unlock(&me->mutex);
    return 0;
}

static void unpark(void *context, void *thread)
{
    struct parked *other = thread;
    CHECK(context == &parks, true);
    unparks++;
    pthread_mutex_lock(&other->mutex);
    other->may_run = true;
    pthread_cond_signal(&other->condition);
    pthread_mutex_unlock(&other->mutex);
}

static uint64_t show(void *context, uint32_t clock)
{
    CHECK(context == &clock_ns, true);
    clock_queries++;
    return clock == UFUTEX_MONOTONIC ? clock_ns : clock_ns + 5000;
}

static ufutex_clock a_clock(void)
{
    ufutex_clock clock = UFUTEX_CLOCK_INIT;
    clock.context = (void *)&clock_ns;
    clock.now = show;
    return clock;
}

static ufutex_parker a_parker(void)
{
    ufutex_parker parker = UFUTEX_PARKER_INIT;
    parker.context = (void *)&parks;
    parker.current = current;
    parker.park = park;
    parker.unpark = unpark;
    return parker;
}

#define PARKED {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false, false, 0}

static void guest_memory_is_faulted_in_without_locks(void)
{
    static struct guest guest;
    ufutex_memory memory = guest_memory(&guest);
    ufutex_options options = UFUTEX_OPTIONS_INIT;
    options.memory = &memory;
    ufutex_domain *own = new_domain(a_system, &options);
    memory.load = NULL; // the library has copied the struct
    guest_store32(&guest, 0, 5);
    CHECK(ufutex_wait(own, GUEST, 4, UFUTEX_U32, NULL), -EAGAIN);
    CHECK(guest.faults, 1);
    CHECK(ufutex_wait(own, GUEST, 1ull << 32, UFUTEX_U32, NULL), -EINVAL);
    CHECK(ufutex_wait(own, GUEST - 8, 0, UFUTEX_U32, NULL), -EFAULT);
    CHECK(ufutex_wait(own, 1ull << 63, 0, UFUTEX_U32, NULL), -EFAULT);
    CHECK(ufutex_wake(own, GUEST - 8, 1, 1, UFUTEX_U32), 0); // a wake does not access the word
    ufutex_operation add = {UFUTEX_OP_ADD, 2, UFUTEX_CMP_EQ, 5};
    CHECK(ufutex_wake_op(own, GUEST + 64, 1, GUEST, 1, &add, UFUTEX_U32), 0);
    CHECK(guest_load32(&guest, 0), 7);
    CHECK(ufutex_wake_op(own, GUEST + 64, 1, GUEST + PAGE, 1, &add, UFUTEX_U32), -EFAULT); // the page is read-only
    ufutex_task *task = new_task(own, 3);
    CHECK(ufutex_lock_pi(own, task, GUEST + PAGE, UFUTEX_U32, NULL), -EFAULT);
    CHECK(ufutex_lock_pi(own, task, GUEST + 128, UFUTEX_U32, NULL), 0);
    CHECK(guest_load32(&guest, 128), 3);
    // Each width.
    guest_store64(&guest, 256, 0x1122334455667788ull);
    CHECK(ufutex_wait(own, GUEST + 256, 1, UFUTEX_U8, NULL), -EAGAIN);
    CHECK(ufutex_wait(own, GUEST + 256, 0x100, UFUTEX_U8, NULL), -EINVAL);
    CHECK(ufutex_wait(own, GUEST + 256, 1, UFUTEX_U64, NULL), -EAGAIN);
    CHECK(ufutex_task_free(task), 0);
    CHECK(ufutex_domain_free(own), 0);
}

struct guest_wait {
    ufutex_domain *domain;
    uint64_t address;
    uint32_t flags;
};

static void *guest_wait_thread(void *argument)
{
    struct guest_wait *wait = argument;
    return (void *)(intptr_t)ufutex_wait(wait->domain, wait->address, 0, wait->flags, NULL);
}

static void shared_objects_meet_across_domains(void)
{
    static struct guest guests[2];
    ufutex_domain *domains[2];
    for (int i = 0; i < 2; i++) {
        guests[i].object = 99;
        ufutex_memory memory = guest_memory(&guests[i]);
        ufutex_options options = UFUTEX_OPTIONS_INIT;
        options.memory = &memory;
        domains[i] = new_domain(a_system, &options);
    }
    struct guest_wait wait = {domains[0], GUEST + 8, UFUTEX_U32 | UFUTEX_SHARED};
    pthread_t thread = start(guest_wait_thread, &wait);
    until_waiting(domains[0], 1);
    ufutex_waited_word who;
    CHECK(ufutex_domain_who_waits(domains[0], &who, sizeof who, 1), 0);
    CHECK(ufutex_system_who_waits(a_system, &who, sizeof who, 1), 1);
    CHECK(who.scope, UFUTEX_SCOPE_OBJECT);
    CHECK(who.object, 99);
    CHECK(who.address, 8);
    CHECK(ufutex_wake(domains[1], GUEST + 8, 1, 1, UFUTEX_U32), 0);
    CHECK(ufutex_wake(domains[1], GUEST + 8, 1, 1, UFUTEX_U32 | UFUTEX_SHARED), 1);
    CHECK(result_of(thread), 0);
    guests[0].object = 1ull << 62; // too large for an object
    CHECK(ufutex_wake(domains[0], GUEST + 8, 1, 1, UFUTEX_U32 | UFUTEX_SHARED), -EFAULT);
    CHECK(ufutex_domain_free(domains[0]), 0);
    CHECK(ufutex_domain_free(domains[1]), 0);
}

static uint32_t word;

struct green {
    struct parked parked;
    ufutex_wait_options *options;
    ufutex_task *task;
};

static void *green_wait(void *argument)
{
    struct green *green = argument;
    running = &green->parked;
    return (void *)(intptr_t)ufutex_wait(domain, AT(&word), 0, UFUTEX_U32, green->options);
}

static void *green_lock(void *argument)
{
    struct green *green = argument;
    running = &green->parked;
    return (void *)(intptr_t)ufutex_lock_pi(domain, green->task, AT(&word), UFUTEX_U32, green->options);
}

static void *green_syscall(void *argument)
{
    struct green *green = argument;
    uint64_t time[2] = {0, 500}; // 500 ns on the embedder's clock
    uint64_t args[6] = {AT(&word), 128, 0, AT(time), 0, 0};
    running = &green->parked;
    return (void *)(intptr_t)ufutex_syscall(domain, green->task, NULL, 202, args);
}

static bool is_parked(struct green *green)
{
    pthread_mutex_lock(&green->parked.mutex);
    bool result = green->parked.is_parked;
    pthread_mutex_unlock(&green->parked.mutex);
    return result;
}

static void until_parked(struct green *green)
{
    while (!is_parked(green))
        sched_yield();
}

static void threads_of_the_embedder_park(void)
{
    struct green green = {PARKED, NULL, NULL};
    pthread_t thread = start(green_wait, &green);
    until_parked(&green);
    CHECK(ufutex_domain_free(domain), -EBUSY);
    ufutex_waited_word who;
    CHECK(ufutex_domain_who_waits(domain, &who, sizeof who, 1), 1);
    CHECK(who.tasks, 1);
    CHECK(ufutex_wake(domain, AT(&word), 1, 1, UFUTEX_U32), 1);
    CHECK(result_of(thread), 0);
    CHECK(unparks, 1);
    // A thread of the host, for which the parker's current returns NULL, sleeps like any other.
    struct guest_wait wait = {domain, AT(&word), UFUTEX_U32};
    int before = parks;
    thread = start(guest_wait_thread, &wait);
    until_waiting(domain, 1);
    CHECK(ufutex_wake(domain, AT(&word), 1, 1, UFUTEX_U32), 1);
    CHECK(result_of(thread), 0);
    CHECK(parks, before);
}

static void time_is_the_embedders(void)
{
    ufutex_wait_options options = UFUTEX_WAIT_OPTIONS_INIT;
    struct green green = {PARKED, &options, NULL};
    options.timeout = UFUTEX_AFTER;
    options.nanoseconds = 500;
    pthread_t thread = start(green_wait, &green);
    until_parked(&green);
    clock_ns += 499;
    struct timespec moment = {0, 20 * 1000000};
    nanosleep(&moment, NULL);
    CHECK(is_parked(&green), true); // only 499 ns have passed
    clock_ns += 1;
    CHECK(result_of(thread), -ETIMEDOUT);
    options.timeout = UFUTEX_UNTIL_REALTIME;
    options.nanoseconds = clock_ns + 5000;
    CHECK(result_of(start(green_wait, &green)), -ETIMEDOUT);
    options.nanoseconds = 0;
    CHECK(result_of(start(green_wait, &green)), -ETIMEDOUT);
    CHECK(clock_queries > 0, true);
    // A guest's relative timeout runs by the embedder's clock too.
    green.task = new_task(domain, 6);
    thread = start(green_syscall, &green);
    until_parked(&green);
    clock_ns += 499;
    nanosleep(&moment, NULL);
    CHECK(is_parked(&green), true);
    clock_ns += 1;
    CHECK(result_of(thread), -ETIMEDOUT);
    CHECK(ufutex_task_free(green.task), 0);
}

static void parker_and_interrupts_end_waits(void)
{
    ufutex_wait_options options = UFUTEX_WAIT_OPTIONS_INIT;
    struct green green = {PARKED, &options, NULL};
    green.parked.answer = -EINTR;
    CHECK(result_of(start(green_wait, &green)), -EINTR);
    green.parked.answer = -ETIMEDOUT;
    CHECK(result_of(start(green_wait, &green)), -ETIMEDOUT);
    green.parked.answer = 0;
    options.task = green.task = new_task(domain, 8);
    pthread_t thread = start(green_wait, &green);
    until_parked(&green);
    CHECK(ufutex_task_interrupt(green.task), 0);
    CHECK(result_of(thread), -EINTR);
    CHECK(result_of(start(green_wait, &green)), -EINTR);
    thread = start(green_syscall, &green);
    CHECK(result_of(thread), -UFUTEX_ERESTART_RESTARTBLOCK);
    CHECK(ufutex_task_clear_interrupt(green.task), 0);
    // An interrupt that is cleared at once ends the wait that is under way.
    for (int round = 0; round < 100; round++) {
        thread = start(round % 2 ? green_wait : green_syscall, &green);
        until_parked(&green);
        CHECK(ufutex_task_interrupt(green.task), 0);
        CHECK(ufutex_task_clear_interrupt(green.task), 0);
        CHECK(result_of(thread), round % 2 ? -EINTR : -UFUTEX_ERESTART_RESTARTBLOCK);
    }
    ufutex_task *owner = new_task(domain, 9);
    CHECK(ufutex_lock_pi(domain, owner, AT(&word), UFUTEX_U32, NULL), 0);
    thread = start(green_lock, &green);
    until_parked(&green);
    CHECK(ufutex_unlock_pi(domain, owner, AT(&word), UFUTEX_U32), 0);
    CHECK(result_of(thread), 0);
    CHECK(ufutex_unlock_pi(domain, green.task, AT(&word), UFUTEX_U32), 0);
    CHECK(word, 0);
    CHECK(ufutex_task_free(green.task), 0);
    CHECK(ufutex_task_free(owner), 0);
}

// A clock without a parker: threads of the host sleep by that clock.
static void *clock_thread(void *argument)
{
    struct guest_wait *wait = argument;
    ufutex_wait_options options = UFUTEX_WAIT_OPTIONS_INIT;
    options.timeout = UFUTEX_AFTER;
    options.nanoseconds = MS;
    return (void *)(intptr_t)ufutex_wait(wait->domain, AT(&word), 0, UFUTEX_U32, &options);
}

static void clock_without_a_parker(void)
{
    ufutex_clock clock = a_clock();
    ufutex_options options = UFUTEX_OPTIONS_INIT;
    options.clock = &clock;
    struct guest_wait wait = {new_domain(a_system, &options), AT(&word), UFUTEX_U32};
    pthread_t thread = start(guest_wait_thread, &wait);
    until_waiting(wait.domain, 1);
    CHECK(ufutex_wake(wait.domain, AT(&word), 1, 1, UFUTEX_U32), 1);
    CHECK(result_of(thread), 0);
    thread = start(clock_thread, &wait);
    until_waiting(wait.domain, 1);
    clock_ns += MS;
    CHECK(result_of(thread), -ETIMEDOUT);
    CHECK(ufutex_domain_free(wait.domain), 0);
}

// Parked threads that pass a token in a circle.
enum { HANDS = 3, ROUNDS = 1000 };
static _Atomic uint32_t turn;

static void *hand(void *argument)
{
    struct green green = {PARKED, NULL, NULL};
    uint32_t me = (uint32_t)(intptr_t)argument;
    running = &green.parked;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint32_t mine = round * HANDS + me, seen;
        while ((seen = turn) != mine)
            ufutex_wait(domain, AT(&turn), seen, UFUTEX_U32, NULL);
        turn = mine + 1;
        ufutex_wake(domain, AT(&turn), INT32_MAX, UFUTEX_BITSET_ANY, UFUTEX_U32);
    }
    running = NULL;
    return NULL;
}

int main(void)
{
    a_system = new_system();
    guest_memory_is_faulted_in_without_locks();
    shared_objects_meet_across_domains();
    ufutex_clock clock = a_clock();
    ufutex_parker parker = a_parker();
    ufutex_options options = UFUTEX_OPTIONS_INIT;
    options.clock = &clock;
    options.parker = &parker;
    domain = new_domain(a_system, &options);
    threads_of_the_embedder_park();
    time_is_the_embedders();
    parker_and_interrupts_end_waits();
    clock_without_a_parker();
    pthread_t threads[HANDS];
    for (intptr_t i = 0; i < HANDS; i++)
        threads[i] = start(hand, (void *)i);
    for (int i = 0; i < HANDS; i++)
        result_of(threads[i]);
    CHECK(turn, HANDS * ROUNDS);
    CHECK(waiting(domain), 0);
    until_alone(); // while the system exists
    CHECK(ufutex_domain_free(domain), 0);
    CHECK(ufutex_system_free(a_system), 0);
    return 0;
}
