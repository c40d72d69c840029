// Shared by all programs: checks that print what failed, cases by name, threads.
//
// A program runs all its cases, or those named in its arguments, and prints a line for each. Its output must be the
// same in every run: the test compares it with the output on the kernel alone. Status 77 means that this kernel lacks
// what the program tests. The program prints the reason on stderr.
#pragma once
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SKIPPED 77

// Other libraries, and glibc before 2.32, do not have the names.
#ifndef __GLIBC__
#define strerrorname_np strerror
#elif !__GLIBC_PREREQ(2, 32)
#define strerrorname_np strerror
#define sigabbrev_np(signal) ((signal) == SIGSYS ? "SYS" : strsignal(signal))
#endif

static inline _Noreturn void fail(const char *file, int line, const char *what, long left, long right) {
    dprintf(2, "%s:%d: %s: %ld, %ld (errno %s)\n", file, line, what, left, right, strerrorname_np(errno));
    _exit(99);
}

static inline _Noreturn void skip(const char *reason) {
    dprintf(2, "%s\n", reason);
    _exit(SKIPPED);
}

#define CHECK(condition) ((condition) ? (void)0 : fail(__FILE__, __LINE__, #condition, 0, 1))
#define CHECK_EQ(left, right)                                                                                          \
    do {                                                                                                               \
        long left_ = (long)(left), right_ = (long)(right);                                                             \
        if (left_ != right_) fail(__FILE__, __LINE__, #left " == " #right, left_, right_);                             \
    } while (0)
// Checks that the call returns -1 with this errno.
#define CHECK_ERRNO(call, error)                                                                                       \
    do {                                                                                                               \
        CHECK_EQ(call, -1);                                                                                            \
        CHECK_EQ(errno, error);                                                                                        \
    } while (0)

// Prints the result of a call, or its errno by name.
static inline void show(long result, const char *format, ...) {
    int error = errno;
    va_list arguments;
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    if (result == -1)
        printf(": %s\n", strerrorname_np(error));
    else
        printf(": %ld\n", result);
}

typedef struct {
    const char *name;
    void (*run)(void);
} Case;

static inline int run_cases(const Case *cases, size_t count, int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (size_t i = 0; i < count; i++) {
        int wanted = argc < 2;
        for (int a = 1; a < argc; a++) wanted |= !strcmp(argv[a], cases[i].name);
        if (!wanted) continue;
        cases[i].run();
        printf("ok %s\n", cases[i].name);
    }
    return 0;
}
#define CASE(name) {#name, name}
#define MAIN(...)                                                                                                      \
    int main(int argc, char **argv) {                                                                                  \
        static const Case cases[] = {__VA_ARGS__};                                                                     \
        return run_cases(cases, sizeof cases / sizeof *cases, argc, argv);                                             \
    }

static inline pthread_t start(void *(*body)(void *), void *argument) {
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, body, argument), 0);
    return thread;
}

static inline void *join(pthread_t thread) {
    void *result;
    CHECK_EQ(pthread_join(thread, &result), 0);
    return result;
}

// Runs a body on `count` threads, each with its number, and joins them.
static inline void on_threads(int count, void *(*body)(void *)) {
    pthread_t threads[count];
    for (long i = 0; i < count; i++) threads[i] = start(body, (void *)i);
    for (int i = 0; i < count; i++) join(threads[i]);
}

// The time `ms` milliseconds from now on a clock.
static inline struct timespec in_ms(clockid_t clock, long ms) {
    struct timespec time;
    CHECK_EQ(clock_gettime(clock, &time), 0);
    long ns = time.tv_nsec + ms * 1000000;
    time.tv_sec += ns / 1000000000 - (ns % 1000000000 < 0);
    time.tv_nsec = (ns % 1000000000 + 1000000000) % 1000000000;
    return time;
}

static inline int passed(clockid_t clock, const struct timespec *deadline) {
    struct timespec now;
    CHECK_EQ(clock_gettime(clock, &now), 0);
    return now.tv_sec > deadline->tv_sec || (now.tv_sec == deadline->tv_sec && now.tv_nsec >= deadline->tv_nsec);
}

static inline void nap_us(long us) {
    struct timespec time = {us / 1000000, us % 1000000 * 1000};
    nanosleep(&time, NULL);
}

// Waits for a child, and checks that it exited with this status, or was ended by this signal if negative.
static inline void reap(pid_t child, int status) {
    int ended;
    pid_t reaped;
    do reaped = waitpid(child, &ended, 0);
    while (reaped == -1 && errno == EINTR);
    CHECK_EQ(reaped, child);
    CHECK_EQ(WIFEXITED(ended) ? WEXITSTATUS(ended) : -WTERMSIG(ended), status);
}
