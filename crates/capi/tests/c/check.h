// Shared by the tests: checks that print the values on failure, and waiting until threads sleep.
#ifndef CHECK_H
#define CHECK_H

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ufutex.h>

#define CHECK(what, expected)                                                                                   \
    do {                                                                                                        \
        long check_found = (long)(what), check_expected = (long)(expected);                                     \
        if (check_found != check_expected) {                                                                    \
            fprintf(stderr, "%s:%d: %s is %ld, not %ld\n", __FILE__, __LINE__, #what, check_found, check_expected); \
            abort();                                                                                            \
        }                                                                                                       \
    } while (0)

// A struct that was `initial` and is changed in this way is refused.
#define REFUSED(value, change, call) \
    do {                             \
        value = initial;             \
        change;                      \
        CHECK(call, -EINVAL);        \
    } while (0)

#define AT(pointer) ((uint64_t)(uintptr_t)(pointer))
#define MS 1000000ull

static inline ufutex_system *new_system(void)
{
    ufutex_system *system = NULL;
    CHECK(ufutex_system_new(NULL, &system), 0);
    return system;
}

static inline ufutex_domain *new_domain(ufutex_system *system, const ufutex_options *options)
{
    ufutex_domain *domain = NULL;
    CHECK(ufutex_domain_new(system, options, &domain), 0);
    return domain;
}

static inline ufutex_task *new_task(ufutex_domain *domain, uint32_t tid)
{
    ufutex_task *task = NULL;
    CHECK(ufutex_task_new(domain, tid, 0, &task), 0);
    return task;
}

// Returns when this process has a single thread. The library may not have left a thread.
static inline void until_alone(void)
{
    int threads;
    do {
        DIR *tasks = opendir("/proc/self/task");
        CHECK(tasks != NULL, true);
        threads = 0;
        for (struct dirent *task; (task = readdir(tasks)) != NULL;)
            threads += task->d_name[0] != '.';
        closedir(tasks);
    } while (threads != 1);
}

// Number of waiters in a domain.
static inline uint64_t waiting(ufutex_domain *domain)
{
    ufutex_counters counters = UFUTEX_COUNTERS_INIT;
    CHECK(ufutex_domain_get_counters(domain, &counters), 0);
    return counters.waiting;
}

static inline void until_waiting(ufutex_domain *domain, uint64_t count)
{
    while (waiting(domain) != count)
        sched_yield();
}

static inline uint64_t now(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (uint64_t)time.tv_sec * 1000000000ull + (uint64_t)time.tv_nsec;
}

static inline pthread_t start(void *(*function)(void *), void *argument)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, function, argument), 0);
    return thread;
}

static inline long result_of(pthread_t thread)
{
    void *result;
    CHECK(pthread_join(thread, &result), 0);
    return (long)(intptr_t)result;
}

#endif
