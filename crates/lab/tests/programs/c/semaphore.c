// Semaphores: no post is lost. Also timeouts, named and shared semaphores, and destruction as soon as the wait returns.
#include "check.h"
#include <fcntl.h>
#include <semaphore.h>
#include <sys/mman.h>

static sem_t items, places;
static long passing;

static void *passes(void *number) {
    for (int i = 0; i < 20000; i++) {
        if ((long)number % 2) {
            CHECK_EQ(sem_wait(&places), 0);
            CHECK_EQ(sem_post(&items), 0);
        } else {
            CHECK_EQ(sem_wait(&items), 0);
            CHECK_EQ(sem_post(&places), 0);
        }
    }
    return NULL;
}

static int value(sem_t *semaphore) {
    int value;
    CHECK_EQ(sem_getvalue(semaphore, &value), 0);
    return value;
}

static void unnamed(void) {
    CHECK_EQ(sem_init(&items, 0, 0), 0);
    CHECK_EQ(sem_init(&places, 0, 2), 0);
    on_threads(4, passes);
    CHECK_EQ(value(&items), 0);
    CHECK_EQ(value(&places), 2);
    CHECK_ERRNO(sem_trywait(&items), EAGAIN);
}

static void timeouts(void) {
    struct timespec deadline = in_ms(CLOCK_REALTIME, 15);
    CHECK_ERRNO(sem_timedwait(&items, &deadline), ETIMEDOUT);
    CHECK(passed(CLOCK_REALTIME, &deadline));
    deadline = in_ms(CLOCK_MONOTONIC, 15);
    CHECK_ERRNO(sem_clockwait(&items, CLOCK_MONOTONIC, &deadline), ETIMEDOUT);
    CHECK(passed(CLOCK_MONOTONIC, &deadline));
    deadline.tv_nsec = -1;
    CHECK_ERRNO(sem_clockwait(&items, CLOCK_MONOTONIC, &deadline), EINVAL);
}

static void *takes_in_time(void *number) {
    for (int i = 0; i < 3000;) {
        struct timespec deadline = in_ms(CLOCK_MONOTONIC, (long)number % 2);
        if (sem_clockwait(&items, CLOCK_MONOTONIC, &deadline) == 0)
            i++;
        else
            CHECK_EQ(errno, ETIMEDOUT);
    }
    return NULL;
}

static void posts_race_with_timeouts(void) {
    pthread_t threads[3];
    for (long i = 0; i < 3; i++) threads[i] = start(takes_in_time, (void *)i);
    for (int i = 0; i < 9000; i++) CHECK_EQ(sem_post(&items), 0);
    for (int i = 0; i < 3; i++) join(threads[i]);
    CHECK_EQ(value(&items), 0);
}

static void *posts(void *semaphore) {
    CHECK_EQ(sem_post(semaphore), 0);
    return NULL;
}

// The waiter may unmap the semaphore while the poster has not yet returned from sem_post.
static void unmapped_at_once(void) {
    for (int i = 0; i < 300; i++) {
        sem_t *semaphore = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(semaphore != MAP_FAILED);
        CHECK_EQ(sem_init(semaphore, 0, 0), 0);
        pthread_t poster = start(posts, semaphore);
        CHECK_EQ(sem_wait(semaphore), 0);
        CHECK_EQ(munmap(semaphore, 4096), 0);
        join(poster);
    }
}

static void between(sem_t *ours, sem_t *theirs) {
    pid_t child = fork();
    CHECK(child >= 0);
    for (int i = 0; i < 3000; i++) {
        CHECK_EQ(sem_wait(child ? ours : theirs), 0);
        CHECK_EQ(sem_post(child ? theirs : ours), 0);
    }
    if (!child) _exit(0);
    reap(child, 0);
}

static void process_shared(void) {
    sem_t *pair = mmap(NULL, 2 * sizeof *pair, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(pair != MAP_FAILED);
    CHECK_EQ(sem_init(&pair[0], 1, 1), 0);
    CHECK_EQ(sem_init(&pair[1], 1, 0), 0);
    between(&pair[0], &pair[1]);
}

static void named(void) {
    char name[64];
    snprintf(name, sizeof name, "/ufutex-test-%d", getpid());
    sem_t *first = sem_open(name, O_CREAT | O_EXCL, 0600, 1);
    CHECK(first != SEM_FAILED);
    CHECK_EQ(sem_unlink(name), 0);
    sem_t *second = sem_open(name, O_CREAT | O_EXCL, 0600, 0);
    CHECK(second != SEM_FAILED);
    CHECK_EQ(sem_unlink(name), 0);
    between(first, second);
    CHECK_EQ(sem_close(first), 0);
    CHECK_EQ(sem_close(second), 0);
}

static void *crosses(void *unused) {
    for (int i = 0; i < 4000; i++) {
        CHECK_EQ(sem_wait(&places), 0);
        CHECK(__atomic_add_fetch(&passing, 1, __ATOMIC_SEQ_CST) <= 2);
        if (i % 32 == 0) sched_yield();
        __atomic_sub_fetch(&passing, 1, __ATOMIC_SEQ_CST);
        CHECK_EQ(sem_post(&places), 0);
    }
    return unused;
}

static void at_most_two_at_a_time(void) { on_threads(6, crosses); }

MAIN(CASE(unnamed), CASE(timeouts), CASE(posts_race_with_timeouts), CASE(unmapped_at_once), CASE(process_shared),
     CASE(named), CASE(at_most_two_at_a_time))
