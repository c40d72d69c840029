// The C library's objects, private and shared. It makes the system calls.
#include "guest.h"

enum { THREADS = 4, ROUNDS = 100, ELEMENTS = 500 };

// Four threads that meet at a barrier, count under a mutex, read under a lock for readers, and pass semaphores on.
struct meeting {
    pthread_mutex_t mutex;
    pthread_barrier_t barrier;
    pthread_rwlock_t rwlock;
    sem_t semaphores[THREADS];
    long counted, written, last;
};
struct visitor { struct meeting *meeting; int index; };

static void *visits(void *of) {
    struct visitor *visitor = of;
    struct meeting *meeting = visitor->meeting;
    for (int round = 0; round < ROUNDS; round++) {
        int met = pthread_barrier_wait(&meeting->barrier);
        MUST(pthread_mutex_lock(&meeting->mutex) == 0);
        meeting->last += met == PTHREAD_BARRIER_SERIAL_THREAD;
        long counted = meeting->counted;
        sched_yield();
        meeting->counted = counted + 1;
        MUST(pthread_mutex_unlock(&meeting->mutex) == 0);
        if (round % THREADS == visitor->index) {
            MUST(pthread_rwlock_wrlock(&meeting->rwlock) == 0);
            meeting->written++;
            sched_yield();
        } else {
            MUST(pthread_rwlock_rdlock(&meeting->rwlock) == 0);
        }
        MUST(pthread_rwlock_unlock(&meeting->rwlock) == 0);
        MUST(sem_wait(&meeting->semaphores[visitor->index]) == 0);
        MUST(sem_post(&meeting->semaphores[(visitor->index + 1) % THREADS]) == 0);
    }
    return NULL;
}

static pthread_mutexattr_t mutex_kind(int shared) {
    pthread_mutexattr_t attributes;
    MUST(pthread_mutexattr_init(&attributes) == 0);
    MUST(pthread_mutexattr_setpshared(&attributes, shared) == 0);
    return attributes;
}

static void meetings(int shared) {
    struct meeting *meeting = in_region(sizeof *meeting);
    struct visitor visitors[THREADS];
    pthread_t threads[THREADS];
    pthread_mutexattr_t mutex = mutex_kind(shared);
    pthread_barrierattr_t barrier;
    pthread_rwlockattr_t rwlock;
    MUST(pthread_mutex_init(&meeting->mutex, &mutex) == 0);
    pthread_barrierattr_init(&barrier);
    pthread_barrierattr_setpshared(&barrier, shared);
    MUST(pthread_barrier_init(&meeting->barrier, &barrier, THREADS) == 0);
    pthread_rwlockattr_init(&rwlock);
    pthread_rwlockattr_setpshared(&rwlock, shared);
    MUST(pthread_rwlock_init(&meeting->rwlock, &rwlock) == 0);
    for (int i = 0; i < THREADS; i++) MUST(sem_init(&meeting->semaphores[i], shared, i == 0) == 0);
    for (int i = 0; i < THREADS; i++) {
        visitors[i] = (struct visitor){meeting, i};
        threads[i] = thread(visits, visitors + i);
    }
    for (int i = 0; i < THREADS; i++) join(threads[i]);
    CASE("shared %d: %ld, %ld, %ld", shared, meeting->counted, meeting->written, meeting->last);
}

// A queue of one element between two threads.
struct queue { pthread_mutex_t mutex; pthread_cond_t changed; int element; };

static void make_queue(struct queue *queue, int shared) {
    pthread_mutexattr_t mutex = mutex_kind(shared);
    pthread_condattr_t condition;
    pthread_condattr_init(&condition);
    pthread_condattr_setpshared(&condition, shared);
    pthread_condattr_setclock(&condition, CLOCK_MONOTONIC);
    MUST(pthread_mutex_init(&queue->mutex, &mutex) == 0);
    MUST(pthread_cond_init(&queue->changed, &condition) == 0);
}

static void *produces(void *of) {
    struct queue *queue = of;
    for (int i = 1; i <= ELEMENTS; i++) {
        MUST(pthread_mutex_lock(&queue->mutex) == 0);
        while (queue->element) MUST(pthread_cond_wait(&queue->changed, &queue->mutex) == 0);
        queue->element = i;
        MUST(pthread_cond_signal(&queue->changed) == 0);
        MUST(pthread_mutex_unlock(&queue->mutex) == 0);
    }
    return NULL;
}

// If the program's times have 64 bits, the deadline is beyond what 32 bits hold. Then the C library calls futex_time64.
static const struct timespec far = {sizeof(time_t) == 8 ? (time_t)4102444800 : INT_MAX, 0};

static void queues(int shared) {
    struct queue *queue = in_region(sizeof *queue);
    make_queue(queue, shared);
    pthread_t producer = thread(produces, queue);
    long sum = 0;
    for (int i = 1; i <= ELEMENTS; i++) {
        MUST(pthread_mutex_lock(&queue->mutex) == 0);
        while (!queue->element) MUST(pthread_cond_timedwait(&queue->changed, &queue->mutex, &far) == 0);
        sum += queue->element;
        queue->element = 0;
        MUST(pthread_cond_signal(&queue->changed) == 0);
        MUST(pthread_mutex_unlock(&queue->mutex) == 0);
    }
    join(producer);
    CASE("shared %d: %ld", shared, sum);
}

static struct timespec soon(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    time.tv_nsec += 20000000;
    time.tv_sec += time.tv_nsec / 1000000000;
    time.tv_nsec %= 1000000000;
    return time;
}

static void *locks_in_time(void *of) {
    struct timespec realtime = soon(CLOCK_REALTIME);
    return (void *)(long)pthread_mutex_timedlock(of, &realtime);
}

static void timeouts(int shared) {
    struct queue *queue = in_region(sizeof *queue);
    sem_t *semaphore = in_region(sizeof *semaphore);
    struct timespec monotonic = soon(CLOCK_MONOTONIC), past = {1, 0}, bad = {1, -1}, realtime;
    void *result;
    make_queue(queue, shared);
    MUST(sem_init(semaphore, shared, 0) == 0);
    MUST(pthread_mutex_lock(&queue->mutex) == 0);
    RESULT(pthread_cond_timedwait(&queue->changed, &queue->mutex, &monotonic));
    RESULT(pthread_cond_timedwait(&queue->changed, &queue->mutex, &past));
    RESULT(pthread_cond_timedwait(&queue->changed, &queue->mutex, &bad));
    MUST(pthread_join(thread(locks_in_time, &queue->mutex), &result) == 0);
    RESULT((long)result);
    MUST(pthread_mutex_unlock(&queue->mutex) == 0);
    realtime = soon(CLOCK_REALTIME);
    RESULT(sem_timedwait(semaphore, &realtime) == -1 && errno == ETIMEDOUT);
}

void objects_of_the_c_library(void) {
    for (int shared = 0; shared < 2; shared++) {
        meetings(shared);
        queues(shared);
        timeouts(shared);
    }
}
