// The first timer is armed by a thread with the lowest scheduling priority. The thread that expires timers must not
// inherit that: no other thread of the process may be SCHED_IDLE or bound to one CPU. If the program has a real-time
// policy and no right to a higher priority, that thread must have no worse policy.
#include "timers.h"
#include <dirent.h>
#include <sched.h>

static timer_t timer;

// The thread starts as this one, and may have no right to another policy.
static void *leaves_idle(void *unused) {
    struct sched_param param = {0};
    CHECK_EQ(sched_setscheduler(0, SCHED_IDLE, &param), 0);
    return sched_setscheduler(0, SCHED_OTHER, &param) ? "refused" : unused;
}

static void *arms(void *unused) {
    cpu_set_t all, one;
    struct sched_param param = {0};
    CHECK_EQ(sched_getaffinity(0, sizeof all, &all), 0);
    CPU_ZERO(&one);
    for (int i = 0; !CPU_COUNT(&one); i++)
        if (CPU_ISSET(i, &all)) CPU_SET(i, &one);
    CHECK_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    CHECK_EQ(sched_setscheduler(0, SCHED_IDLE, &param), 0);
    struct itimerspec when = in_us(1000, 0);
    timer = signalling(CLOCK_MONOTONIC, SIGUSR1, 1);
    CHECK_EQ(set(timer, 0, &when, NULL), 0);
    sigset_t usr1;
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    // Waits for the signal, so that the thread that sends it has started.
    CHECK_EQ(wait_for(&usr1, NULL, NULL), SIGUSR1);
    return unused;
}

static void is_its_own(void) {
    cpu_set_t all, its;
    sigset_t usr1;
    int threads = 0;
    if (join(start(leaves_idle, NULL))) skip("a thread may not leave SCHED_IDLE here (CAP_SYS_NICE or RLIMIT_NICE)");
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    CHECK_EQ(pthread_sigmask(SIG_BLOCK, &usr1, NULL), 0);
    CHECK_EQ(sched_getaffinity(0, sizeof all, &all), 0);
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, arms, NULL), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    DIR *tasks = opendir("/proc/self/task");
    CHECK(tasks != NULL);
    for (struct dirent *task; (task = readdir(tasks));) {
        int tid = atoi(task->d_name);
        int policy = tid ? sched_getscheduler(tid) : -1;
        // The joined thread may still be listed.
        if (policy < 0 || sched_getaffinity(tid, sizeof its, &its)) continue;
        char name[32] = "", path[64];
        snprintf(path, sizeof path, "/proc/self/task/%d/comm", tid);
        FILE *comm = fopen(path, "r");
        if (comm && fgets(name, sizeof name, comm) && !strcmp(name, "ufutex-timers\n")) {
            threads++;
            CHECK(policy != SCHED_IDLE);
            CHECK(CPU_EQUAL(&its, &all));
        }
        if (comm) fclose(comm);
    }
    closedir(tasks);
    const char *settings = getenv("UFUTEX_RUN");
    CHECK_EQ(threads, settings && strstr(settings, "timers") ? 1 : 0);
    CHECK_EQ(take_away(timer), 0);
}

// In a child, which has no timers yet.
static void keeps_what_the_program_has(void) {
    pid_t child = fork();
    if (!child) {
        struct sched_param param = {.sched_priority = 10};
        // Root may do this, and then gives up the right to more.
        if (sched_setscheduler(0, SCHED_FIFO, &param) || (!getuid() && setresuid(65534, 65534, 65534))) _exit(SKIPPED);
        struct itimerspec when = in_us(1000, 0);
        sigset_t usr1;
        sigemptyset(&usr1);
        sigaddset(&usr1, SIGUSR1);
        CHECK_EQ(pthread_sigmask(SIG_BLOCK, &usr1, NULL), 0);
        timer = signalling(CLOCK_MONOTONIC, SIGUSR1, 1);
        CHECK_EQ(set(timer, 0, &when, NULL), 0);
        CHECK_EQ(wait_for(&usr1, NULL, NULL), SIGUSR1);
        DIR *tasks = opendir("/proc/self/task");
        CHECK(tasks != NULL);
        for (struct dirent *task; (task = readdir(tasks));) {
            int tid = atoi(task->d_name);
            if (!tid) continue;
            CHECK_EQ(sched_getscheduler(tid), SCHED_FIFO);
            CHECK_EQ(sched_getparam(tid, &param), 0);
            CHECK_EQ(param.sched_priority, 10);
        }
        _exit(0);
    }
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED)
        skip("no right to real-time priorities here (CAP_SYS_NICE or RLIMIT_RTPRIO)");
    CHECK_EQ(status, 0);
}

MAIN(CASE(is_its_own), CASE(keeps_what_the_program_has))
