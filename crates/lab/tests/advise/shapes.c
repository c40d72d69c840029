// A program of known behaviour: shapes KIND THREADS MILLISECONDS
//
// - pairs: two threads wait for each other in turn, by syscall().
// - crowd: each thread waits for a word of its own; one thread wakes them in turn without a pause.
// - spin: each thread waits on words of its own that have another value.
// - one: all threads wait on one word that has another value.
// - shared, pshared: shared futexes by syscall(); a process-shared semaphore of glibc.
// - deaf: ignores SIGTERM.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LINE 16 // words in a cache line
#define WORDS 64

static _Atomic uint32_t *words;
static _Atomic int over;
static int threads;
static const char *kind;
static sem_t *semaphore;

static long futex(_Atomic uint32_t *word, int op, uint32_t value) {
    return syscall(SYS_futex, word, op, value, NULL, NULL, 0);
}

static int is(const char *name) { return !strcmp(kind, name); }

static void *pair(void *argument) {
    uint32_t me = (uintptr_t)argument;
    while (!over) {
        if (words[0] % 2 == me) {
            words[0]++;
            futex(&words[0], FUTEX_WAKE_PRIVATE, 1);
        } else {
            futex(&words[0], FUTEX_WAIT_PRIVATE, words[0] % 2 == me ? words[0] + 1 : words[0]);
        }
    }
    words[0]++;
    futex(&words[0], FUTEX_WAKE_PRIVATE, 2);
    return NULL;
}

static void *sleeper(void *argument) {
    _Atomic uint32_t *word = &words[(uintptr_t)argument * LINE];
    while (!over) futex(word, FUTEX_WAIT_PRIVATE, 0);
    return NULL;
}

static void *caller(void *argument) {
    uintptr_t me = (uintptr_t)argument;
    int op = is("shared") ? FUTEX_WAIT : FUTEX_WAIT_PRIVATE;
    for (uint32_t i = 0; !over; i++) {
        uintptr_t word = is("one") ? 0 : me * WORDS + i % WORDS;
        if (is("pshared")) {
            struct timespec soon = {0, 0};
            sem_timedwait(semaphore, &soon);
        } else {
            futex(&words[word], op, 2);
        }
    }
    return NULL;
}

int main(int count, char **arguments) {
    if (count != 4) return 2;
    kind = arguments[1];
    threads = atoi(arguments[2]);
    int length_ms = atoi(arguments[3]);
    size_t bytes = (size_t)(threads + 1) * WORDS * LINE * 4;
    words = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    semaphore = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (is("deaf")) signal(SIGTERM, SIG_IGN);
    sem_init(semaphore, 1, 0);
    void *(*work)(void *) = is("pairs") ? pair : is("crowd") ? sleeper : caller;
    pthread_t *all = calloc(threads, sizeof *all);
    for (uintptr_t i = 0; i < (uintptr_t)threads; i++) {
        if (pthread_create(&all[i], NULL, work, (void *)i)) return 3;
    }
    struct timespec begin, now;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do {
        if (is("crowd")) {
            for (int i = 0; i < threads; i++) futex(&words[(size_t)i * LINE], FUTEX_WAKE_PRIVATE, 1);
        } else {
            usleep(1000);
        }
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - begin.tv_sec) * 1000 + (now.tv_nsec - begin.tv_nsec) / 1000000 < length_ms);
    over = 1;
    for (int i = 0; i < threads; i++) {
        words[(size_t)i * LINE] = 1;
        futex(&words[(size_t)i * LINE], FUTEX_WAKE_PRIVATE, 1000);
    }
    for (int i = 0; i < threads; i++) pthread_join(all[i], NULL);
    puts("done");
    return 7;
}
