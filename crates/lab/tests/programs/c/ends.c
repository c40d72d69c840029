// The ways in which a program ends while threads sleep in futexes or hammer them. The exit status is the program's.
#include "futex.h"
#include <sys/mman.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static _Atomic uint32_t word;
static pthread_t main_thread;
static volatile int *volatile nowhere;

static void *sleeps(void *unused) {
    for (;;) wait_on(&word, 0);
    return unused;
}

static void *hammers(void *unused) {
    for (;;) {
        pthread_mutex_lock(&mutex);
        pthread_mutex_unlock(&mutex);
        wake(&word, 1);
    }
    return unused;
}

static void *aborts(void *unused) {
    abort();
    return unused;
}

static void *exits(void *unused) {
    exit(9);
    return unused;
}

static void *outlives_main(void *unused) {
    CHECK_EQ(pthread_join(main_thread, NULL), 0);
    CHECK_EQ(pthread_mutex_lock(&mutex), 0);
    printf("main is gone\n");
    CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
    return unused;
}

static void at_exit(void) {
    CHECK_EQ(pthread_mutex_lock(&mutex), 0);
    printf("at exit\n");
    CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
}

static void at_quick_exit_(void) { printf("at quick exit\n"); }

static void exits_in_handler(int signal) {
    (void)signal;
    _exit(11);
}

static volatile long depth_max = LONG_MAX;
static int __attribute__((noinline)) deep(long depth) {
    volatile char here[4096];
    here[0] = 1;
    return depth < depth_max ? deep(depth + 1) + here[0] : 0;
}

int main(int argc, char **argv) {
    CHECK_EQ(argc, 2);
    const char *way = argv[1];
    setvbuf(stdout, NULL, _IOLBF, 0);
    main_thread = pthread_self();
    if (strcmp(way, "pthread_exit") && strcmp(way, "last_thread")) {
        atexit(at_exit);
        at_quick_exit(at_quick_exit_);
        start(sleeps, NULL);
        until_waiters(&word, 1);
        start(hammers, NULL);
        start(hammers, NULL);
        nap_us(2000);
    }
    printf("%s\n", way);
    if (!strcmp(way, "return")) return 5;
    if (!strcmp(way, "exit")) exit(6);
    if (!strcmp(way, "_exit")) _exit(7);
    if (!strcmp(way, "instruction")) instruction(SYS_exit_group, 8, 0, 0, 0, 0, 0);
    if (!strcmp(way, "quick_exit")) quick_exit(10);
    if (!strcmp(way, "thread_exits")) start(exits, NULL);
    if (!strcmp(way, "handler")) {
        signal(SIGUSR1, exits_in_handler);
        kill(getpid(), SIGUSR1);
    }
    if (!strcmp(way, "abort")) abort();
    if (!strcmp(way, "thread_aborts")) start(aborts, NULL);
    if (!strcmp(way, "fault")) *nowhere = 1;
    if (!strcmp(way, "trap")) __builtin_trap();
    if (!strcmp(way, "overflow")) return deep(0);
    if (!strcmp(way, "SIGTERM")) kill(getpid(), SIGTERM);
    if (!strcmp(way, "SIGKILL")) kill(getpid(), SIGKILL);
    if (!strcmp(way, "SIGSYS")) kill(getpid(), SIGSYS);
    if (!strcmp(way, "SIGPIPE")) {
        int ends[2];
        CHECK_EQ(pipe(ends), 0);
        close(ends[0]);
        write(ends[1], "", 1);
    }
    if (!strcmp(way, "SIGALRM")) alarm(1);
    if (!strcmp(way, "pthread_exit")) {
        start(outlives_main, NULL);
        pthread_exit(NULL);
    }
    if (!strcmp(way, "last_thread")) { // by the system call alone: no thread runs exit()
        start(outlives_main, NULL);
        nap_us(2000);
        syscall(SYS_exit, 12);
    }
    for (;;) pause();
}
