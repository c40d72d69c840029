// A child of fork() forgets what it has inherited, and goes on with objects of its own, whatever other threads did.
#include "check.h"

#include <sys/wait.h>
#include <unistd.h>

#define FLAGS (UFUTEX_U32)
#ifdef __SANITIZE_ADDRESS__
#define THREADS 0 // a lock of the sanitizer's allocator would stay held in the child
#else
#define THREADS 3
#endif

static ufutex_system *shared_system;
static ufutex_domain *shared_domain;
static ufutex_timers *shared_timers;
static uint32_t word;
static atomic_bool is_over;
static pthread_barrier_t have_started;

static void use_briefly(ufutex_system *system, ufutex_domain *domain)
{
    ufutex_wait_options soon = UFUTEX_WAIT_OPTIONS_INIT;
    soon.timeout = UFUTEX_AFTER;
    soon.nanoseconds = 50000;
    long result = ufutex_wait(domain, AT(&word), 0, FLAGS, &soon);
    CHECK(result == 0 || result == -ETIMEDOUT, true);
    CHECK(ufutex_wake(domain, AT(&word), 1, UFUTEX_BITSET_ANY, FLAGS) >= 0, true);
    ufutex_domain *another = new_domain(system, NULL);
    CHECK(ufutex_domain_free(another), 0);
}

static void *use(void *argument)
{
    pthread_barrier_wait(&have_started);
    while (!is_over)
        use_briefly(shared_system, shared_domain);
    return argument;
}

static void *use_ten_times(void *domain)
{
    for (int i = 0; i < 10; i++) {
        ufutex_system *own = new_system();
        use_briefly(own, domain);
        CHECK(ufutex_system_free(own), 0);
    }
    return NULL;
}

// A timer that expires every millisecond, by the host's clocks.
static ufutex_timers *armed_timers(ufutex_system *system)
{
    ufutex_timers *timers;
    ufutex_itimerspec often = {{0, MS}, {0, MS}};
    int32_t id;
    CHECK(ufutex_timers_new(system, NULL, &timers), 0);
    CHECK(ufutex_timers_create(timers, UFUTEX_MONOTONIC, NULL, &id), 0);
    CHECK(ufutex_timers_settime(timers, id, 0, &often, NULL), 0);
    return timers;
}

static void receive_twice(ufutex_timers *timers)
{
    ufutex_expired expired;
    for (int i = 0; i < 2; i++)
        CHECK(ufutex_timers_receive(timers, UFUTEX_FOREVER, 0, &expired), 0);
}

static void in_the_child(void)
{
    alarm(30); // a child that hangs must not outlive the test
    ufutex_after_fork_child();
    CHECK(ufutex_wake(shared_domain, AT(&word), 1, UFUTEX_BITSET_ANY, FLAGS), -EBADF);
    CHECK(ufutex_domain_free(shared_domain), -EBADF);
    CHECK(ufutex_system_free(shared_system), -EBADF);
    CHECK(ufutex_timers_count(shared_timers), -EBADF);
    CHECK(ufutex_timers_free(shared_timers), -EBADF);
    ufutex_system *system = new_system();
    ufutex_domain *domain = new_domain(system, NULL);
    CHECK(domain != shared_domain, true);
    pthread_t other = start(use_ten_times, domain);
    use_ten_times(domain);
    CHECK(result_of(other), 0);
    // The child has no thread that expires its parent's timers. Its own timers get one.
    ufutex_timers *timers = armed_timers(system);
    receive_twice(timers);
    CHECK(ufutex_timers_free(timers), 0);
    CHECK(ufutex_domain_free(domain), 0);
    CHECK(ufutex_system_free(system), 0);
    _exit(0);
}

int main(void)
{
    for (int round = 0; round < 30; round++) {
        shared_system = new_system();
        shared_domain = new_domain(shared_system, NULL);
        if (THREADS)
            shared_timers = armed_timers(shared_system);
        else // an armed timer would start a thread
            CHECK(ufutex_timers_new(shared_system, NULL, &shared_timers), 0);
        is_over = false;
        CHECK(pthread_barrier_init(&have_started, NULL, THREADS + 1), 0);
        pthread_t threads[3];
        for (int i = 0; i < THREADS; i++)
            threads[i] = start(use, NULL);
        pthread_barrier_wait(&have_started);
        usleep(100);
        pid_t child = fork();
        CHECK(child >= 0, true);
        if (child == 0)
            in_the_child();
        int status = -1;
        CHECK(waitpid(child, &status, 0), child);
        CHECK(status, 0);
        is_over = true;
        if (THREADS)
            receive_twice(shared_timers);
        for (int i = 0; i < THREADS; i++)
            CHECK(result_of(threads[i]), 0);
        CHECK(pthread_barrier_destroy(&have_started), 0);
        CHECK(ufutex_timers_free(shared_timers), 0);
        CHECK(ufutex_domain_free(shared_domain), 0);
        CHECK(ufutex_system_free(shared_system), 0);
    }
    return 0;
}
