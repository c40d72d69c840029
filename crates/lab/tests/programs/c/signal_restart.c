// A signal finds a thread asleep in a futex call. Whether the call continues or ends with EINTR follows the kernel's
// rule: by the handler's SA_RESTART, the call, and whether it has a timeout.
#include "futex.h"
#include <semaphore.h>
#include <sys/mman.h>

static _Atomic uint32_t words[2];
static atomic_int handled, finished;
static long result;
static int error;
static int op, timed, realtime;

static void handler(int signal) {
    (void)signal;
    atomic_fetch_add(&handled, 1);
}

static void handle(int flags) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
}

struct waiter {
    uint64_t value, address;
    uint32_t flags, reserved;
};

static long call(void) {
    struct timespec length = {600, 0}, deadline = in_ms(realtime ? CLOCK_REALTIME : CLOCK_MONOTONIC, 600000);
    int private = op & FUTEX_PRIVATE_FLAG ? FUTEX2_PRIV : 0;
    switch (op & FUTEX_CMD_MASK) {
    case FUTEX_WAIT: return futex(&words[0], op, 0, timed ? &length : NULL, NULL, 0);
    case FUTEX_WAIT_BITSET: return futex(&words[0], op, 0, timed ? &deadline : NULL, NULL, 1);
    case 100: {
        struct waiter two[2] = {{0, (uint64_t)&words[1], FUTEX2_U32 | private, 0}, {0, (uint64_t)&words[0], FUTEX2_U32 | private, 0}};
        return sys(SYS_futex_waitv, ARGUMENT(two), 2, 0, ARGUMENT(timed ? &deadline : NULL), CLOCK_MONOTONIC, 0);
    }
    default:
        return sys(SYS_futex2_wait, ARGUMENT(&words[0]), 0, 1, FUTEX2_U32 | private, ARGUMENT(timed ? &deadline : NULL),
                   CLOCK_MONOTONIC);
    }
}

static void *sleeps(void *unused) {
    result = call();
    error = errno;
    finished = 1;
    return unused;
}

static long asleep(void) {
    return futex(&words[0], FUTEX_REQUEUE | (op & FUTEX_PRIVATE_FLAG), 0, (void *)(long)INT_MAX, &words[0], 0);
}

static void interrupt(const char *name, int flags) {
    handle(flags);
    handled = finished = 0;
    pthread_t thread = start(sleeps, NULL);
    while (asleep() != 1 && !finished) nap_us(100);
    for (int i = 0; i < 3 && !finished; i++) {
        int before = handled;
        CHECK_EQ(pthread_kill(thread, SIGUSR1), 0);
        while (handled == before) nap_us(100);
        while (asleep() != 1 && !finished) nap_us(100); // the call continues or has ended
    }
    int by_itself = finished;
    while (!finished) {
        if (futex(&words[0], FUTEX_WAKE | (op & FUTEX_PRIVATE_FLAG), 1, NULL, NULL, 0) != 1) nap_us(100);
    }
    join(thread);
    printf("%s%s%s%s%s: ", name, op & FUTEX_PRIVATE_FLAG ? " private" : "", timed ? " timed" : "",
           realtime ? " realtime" : "", flags & SA_RESTART ? " SA_RESTART" : "");
    if (result == -1)
        printf("%s after %d\n", strerrorname_np(error), handled);
    else
        printf("%ld%s after %d\n", result, by_itself ? " though nobody woke it" : "", handled);
}

static void calls(int first, int last) {
    static const struct {
        const char *name;
        int op;
    } kinds[] = {{"wait", FUTEX_WAIT}, {"wait_bitset", FUTEX_WAIT_BITSET}, {"waitv", 100}, {"futex_wait", 101}};
    for (int k = first; k <= last; k++)
        for (int private = 0; private < 2; private++)
            for (timed = 0; timed < 2; timed++)
                for (int restart = 0; restart < 2; restart++) {
                    op = kinds[k].op | (private ? FUTEX_PRIVATE_FLAG : 0);
                    interrupt(kinds[k].name, restart ? SA_RESTART : 0);
                    if (kinds[k].op == FUTEX_WAIT_BITSET && timed) {
                        op |= FUTEX_CLOCK_REALTIME;
                        realtime = 1;
                        interrupt(kinds[k].name, restart ? SA_RESTART : 0);
                        realtime = 0;
                    }
                }
}

static void futex_waits(void) { calls(0, 1); }
static void futex2_waits(void) {
    if (sys(SYS_futex2_wake, ARGUMENT(&words[0]), 1, 1, FUTEX2_U32, 0, 0) == -1 && errno == ENOSYS)
        skip("this kernel has no futex_wake(2)");
    calls(2, 3);
}

static sem_t semaphore;
static atomic_int waiting;

static void *waits_for_a_post(void *timed_too) {
    struct timespec deadline = in_ms(CLOCK_REALTIME, 600000);
    waiting = 1;
    result = timed_too ? sem_timedwait(&semaphore, &deadline) : sem_wait(&semaphore);
    error = errno;
    finished = 1;
    return NULL;
}

static void semaphores(void) {
    for (long timed_too = 0; timed_too < 2; timed_too++)
        for (int restart = 0; restart < 2; restart++) {
            handle(restart ? SA_RESTART : 0);
            CHECK_EQ(sem_init(&semaphore, 0, 0), 0);
            handled = finished = waiting = 0;
            pthread_t thread = start(waits_for_a_post, (void *)timed_too);
            while (!waiting) nap_us(100);
            for (int i = 0; i < 50 && !finished; i++) {
                CHECK_EQ(pthread_kill(thread, SIGUSR1), 0);
                nap_us(1000);
            }
            if (!finished) CHECK_EQ(sem_post(&semaphore), 0);
            join(thread);
            errno = error;
            show(result, "sem_%swait%s", timed_too ? "timed" : "", restart ? " SA_RESTART" : "");
        }
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int permitted;

static void *waits_patiently(void *unused) {
    CHECK_EQ(pthread_mutex_lock(&mutex), 0);
    while (!permitted) CHECK_EQ(pthread_cond_wait(&condition, &mutex), 0);
    CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
    return unused;
}

static void mutexes_and_conditions_never_say_EINTR(void) {
    handle(0);
    handled = 0;
    CHECK_EQ(pthread_mutex_lock(&mutex), 0);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) threads[i] = start(waits_patiently, NULL);
    for (int i = 0; i < 200; i++) {
        CHECK_EQ(pthread_kill(threads[i % 4], SIGUSR1), 0);
        nap_us(100);
        if (i == 100) CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
    }
    CHECK_EQ(pthread_mutex_lock(&mutex), 0);
    permitted = 1;
    CHECK_EQ(pthread_cond_broadcast(&condition), 0);
    CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
    for (int i = 0; i < 4; i++) join(threads[i]);
    CHECK(handled > 4);
}

static atomic_int over;

static void *signals_all_the_time(void *to) {
    for (; !over; nap_us(20)) CHECK_EQ(pthread_kill(*(pthread_t *)to, SIGUSR1), 0);
    return NULL;
}

static void *locks_and_unlocks(void *unused) {
    for (int i = 0; i < 300; i++) {
        long locked = futex(&words[0], op, 0, NULL, NULL, 0);
        if (locked) return (void *)(long)errno;
        nap_us(10);
        if (futex(&words[0], FUTEX_UNLOCK_PI | (op & FUTEX_PRIVATE_FLAG), 0, NULL, NULL, 0)) return (void *)(long)errno;
    }
    return unused;
}

// A lock with priority inheritance goes on waiting whatever the handler, and neither unlocking nor a wake is interrupted.
static void locks_and_wakes_are_not_interrupted(void) {
    handle(0);
    for (int private = 0; private < 2; private++) {
        handled = over = 0;
        op = FUTEX_LOCK_PI | (private ? FUTEX_PRIVATE_FLAG : 0);
        words[0] = 0;
        pthread_t self = pthread_self(), one = start(locks_and_unlocks, NULL), two = start(locks_and_unlocks, NULL);
        pthread_t signals[2] = {start(signals_all_the_time, &one), start(signals_all_the_time, &self)};
        for (int i = 0; i < 3000; i++) CHECK_EQ(futex(&words[1], FUTEX_WAKE | (private ? FUTEX_PRIVATE_FLAG : 0), 1, NULL, NULL, 0), 0);
        show((long)join(two), "the other one%s", private ? " private" : "");
        over = 1;
        for (int i = 0; i < 2; i++) join(signals[i]);
        show((long)join(one), "interrupted%s", private ? " private" : "");
        CHECK(handled > 0);
    }
}

MAIN(CASE(locks_and_wakes_are_not_interrupted), CASE(futex_waits), CASE(futex2_waits), CASE(semaphores), CASE(mutexes_and_conditions_never_say_EINTR))
