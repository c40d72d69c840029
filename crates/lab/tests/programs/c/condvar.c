// Condition variables: no signal is lost, a broadcast reaches all waiters, timeouts do not come too early.
#include "check.h"
#include <sys/mman.h>

#define THREADS 4

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t full = PTHREAD_COND_INITIALIZER, empty = PTHREAD_COND_INITIALIZER;
static int queue[4], queued;
static long taken, sum;
#define ITEMS 8000

static void *produces(void *number) {
    for (int i = 0; i < ITEMS; i++) {
        CHECK_EQ(pthread_mutex_lock(&mutex), 0);
        while (queued == 4) CHECK_EQ(pthread_cond_wait(&full, &mutex), 0);
        queue[queued++] = i;
        CHECK_EQ(pthread_cond_signal(&empty), 0);
        CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
    }
    return number;
}

static void *consumes(void *number) {
    for (;;) {
        CHECK_EQ(pthread_mutex_lock(&mutex), 0);
        while (!queued && taken < 2 * ITEMS) CHECK_EQ(pthread_cond_wait(&empty, &mutex), 0);
        if (taken == 2 * ITEMS) break;
        sum += queue[--queued];
        if (++taken == 2 * ITEMS) CHECK_EQ(pthread_cond_broadcast(&empty), 0);
        CHECK_EQ(pthread_cond_signal(&full), 0);
        CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
    }
    CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
    return number;
}

static void *works(void *number) { return (long)number % 2 ? produces(number) : consumes(number); }

static void bounded_queue(void) {
    on_threads(4, works);
    CHECK_EQ(sum, (long)ITEMS * (ITEMS - 1));
    CHECK_EQ(queued, 0);
}

static pthread_cond_t turned = PTHREAD_COND_INITIALIZER;
static long turn;

static void *takes_turns(void *number) {
    for (long i = (long)number; i < 20000; i += 2) {
        CHECK_EQ(pthread_mutex_lock(&mutex), 0);
        while (turn != i) CHECK_EQ(pthread_cond_wait(&turned, &mutex), 0);
        turn++;
        CHECK_EQ(pthread_cond_signal(&turned), 0);
        CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
    }
    return NULL;
}

static void ping_pong(void) {
    on_threads(2, takes_turns);
    CHECK_EQ(turn, 20000);
}

static long generation, arrived;

static void *meets(void *unused) {
    for (int i = 0; i < 1000; i++) {
        CHECK_EQ(pthread_mutex_lock(&mutex), 0);
        long mine = generation;
        if (++arrived == THREADS) {
            arrived = 0;
            generation++;
            CHECK_EQ(pthread_cond_broadcast(&turned), 0);
        }
        while (generation == mine) CHECK_EQ(pthread_cond_wait(&turned, &mutex), 0);
        CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
    }
    return unused;
}

static void broadcast(void) {
    on_threads(THREADS, meets);
    CHECK_EQ(generation, 1000);
}

static void timeouts_of(clockid_t clock) {
    pthread_condattr_t attributes;
    pthread_cond_t never;
    CHECK_EQ(pthread_condattr_init(&attributes), 0);
    CHECK_EQ(pthread_condattr_setclock(&attributes, clock), 0);
    CHECK_EQ(pthread_cond_init(&never, &attributes), 0);
    CHECK_EQ(pthread_mutex_lock(&mutex), 0);
    struct timespec deadline = in_ms(clock, 15);
    CHECK_EQ(pthread_cond_timedwait(&never, &mutex, &deadline), ETIMEDOUT);
    CHECK(passed(clock, &deadline));
    deadline = in_ms(clock, -15);
    CHECK_EQ(pthread_cond_timedwait(&never, &mutex, &deadline), ETIMEDOUT);
    clockid_t other = clock == CLOCK_REALTIME ? CLOCK_MONOTONIC : CLOCK_REALTIME;
    deadline = in_ms(other, 15);
    CHECK_EQ(pthread_cond_clockwait(&never, &mutex, other, &deadline), ETIMEDOUT);
    CHECK(passed(other, &deadline));
    CHECK_EQ(pthread_mutex_trylock(&mutex), EBUSY); // this thread owns the mutex again
    CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
    CHECK_EQ(pthread_cond_destroy(&never), 0);
}

static void timeouts(void) {
    timeouts_of(CLOCK_REALTIME);
    timeouts_of(CLOCK_MONOTONIC);
}

static long tokens, spent;

// Signals and timeouts race: no signalled token is lost.
static void *spends(void *number) {
    while (1) {
        CHECK_EQ(pthread_mutex_lock(&mutex), 0);
        while (!tokens && spent < 4000) {
            struct timespec soon = in_ms(CLOCK_MONOTONIC, (long)number % 2);
            int error = pthread_cond_clockwait(&empty, &mutex, CLOCK_MONOTONIC, &soon);
            CHECK(error == 0 || error == ETIMEDOUT);
        }
        int over = spent == 4000;
        if (!over) tokens--, spent++;
        CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
        if (over) return NULL;
    }
}

static void signals_race_with_timeouts(void) {
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++) threads[i] = start(spends, (void *)i);
    for (int i = 0; i < 4000; i++) {
        CHECK_EQ(pthread_mutex_lock(&mutex), 0);
        tokens++;
        CHECK_EQ(pthread_cond_signal(&empty), 0);
        CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
        if (i % 32 == 0) sched_yield();
    }
    for (int i = 0; i < THREADS; i++) join(threads[i]);
    CHECK_EQ(spent, 4000);
    CHECK_EQ(tokens, 0);
}

typedef struct {
    pthread_mutex_t mutex;
    pthread_cond_t turned;
    long turn;
} Shared;

static void shared_turns(Shared *shared, long first) {
    for (long i = first; i < 4000; i += 2) {
        CHECK_EQ(pthread_mutex_lock(&shared->mutex), 0);
        while (shared->turn != i) CHECK_EQ(pthread_cond_wait(&shared->turned, &shared->mutex), 0);
        shared->turn++;
        CHECK_EQ(pthread_cond_broadcast(&shared->turned), 0);
        CHECK_EQ(pthread_mutex_unlock(&shared->mutex), 0);
    }
}

static void process_shared(void) {
    Shared *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    pthread_mutexattr_t of_mutex;
    pthread_condattr_t of_condition;
    CHECK_EQ(pthread_mutexattr_init(&of_mutex), 0);
    CHECK_EQ(pthread_mutexattr_setpshared(&of_mutex, PTHREAD_PROCESS_SHARED), 0);
    CHECK_EQ(pthread_mutex_init(&shared->mutex, &of_mutex), 0);
    CHECK_EQ(pthread_condattr_init(&of_condition), 0);
    CHECK_EQ(pthread_condattr_setpshared(&of_condition, PTHREAD_PROCESS_SHARED), 0);
    CHECK_EQ(pthread_cond_init(&shared->turned, &of_condition), 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (!child) {
        shared_turns(shared, 1);
        _exit(0);
    }
    shared_turns(shared, 0);
    reap(child, 0);
    CHECK_EQ(shared->turn, 4000);
}

static void *signals_once(void *condition) {
    CHECK_EQ(pthread_mutex_lock(&mutex), 0);
    turn = -1;
    CHECK_EQ(pthread_cond_signal(condition), 0);
    CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
    return NULL;
}

// A condition variable is destroyed and its memory reused as soon as no thread waits, as POSIX allows.
static void destroyed_at_once(void) {
    for (int i = 0; i < 500; i++) {
        pthread_cond_t *condition = malloc(sizeof *condition);
        CHECK_EQ(pthread_cond_init(condition, NULL), 0);
        turn = 0;
        CHECK_EQ(pthread_mutex_lock(&mutex), 0);
        pthread_t signaller = start(signals_once, condition);
        while (turn != -1) CHECK_EQ(pthread_cond_wait(condition, &mutex), 0);
        CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
        CHECK_EQ(pthread_cond_destroy(condition), 0);
        memset(condition, 0xff, sizeof *condition);
        free(condition);
        join(signaller);
    }
}

MAIN(CASE(bounded_queue), CASE(ping_pong), CASE(broadcast), CASE(timeouts), CASE(signals_race_with_timeouts),
     CASE(process_shared), CASE(destroyed_at_once))
