// futex(2) as programs call it: by libc's syscall(), or with BY_INSTRUCTION by the instruction, which only a trap sees.
#pragma once
#include "check.h"
#include <linux/futex.h>

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif
#ifndef FUTEX_LOCK_PI2
#define FUTEX_LOCK_PI2 13
#endif
#define SYS_futex2_wake 454
#define SYS_futex2_wait 455
#define SYS_futex2_requeue 456
#define FUTEX2_U32 2
#define FUTEX2_PRIV 128

// The kernel's result: -errno if the call fails.
static inline long instruction(long number, long a, long b, long c, long d, long e, long f) {
#if defined(__x86_64__)
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "0"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
#elif defined(__aarch64__)
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
    return x0;
#else
#error "the system call instruction of this architecture is missing here"
#endif
}

#ifdef BY_INSTRUCTION
static inline long sys(long number, long a, long b, long c, long d, long e, long f) {
    long result = instruction(number, a, b, c, d, e, f);
    if (result > -4096L && result < 0) {
        errno = (int)-result;
        return -1;
    }
    return result;
}
#else
#define sys syscall
#endif

#define ARGUMENT(value) ((long)(value))
static inline long futex(const void *word, int op, uint32_t value, const void *timeout, const void *word2, uint32_t value3) {
    return sys(SYS_futex, ARGUMENT(word), op, value, ARGUMENT(timeout), ARGUMENT(word2), value3);
}

static inline long wait_on(void *word, uint32_t value) {
    return futex(word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static inline long wake(void *word, int count) { return futex(word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0); }

// The number of waiters at a private word: a requeue to the same word counts them and moves none.
static inline long waiters(_Atomic uint32_t *word) {
    return futex(word, FUTEX_REQUEUE_PRIVATE, 0, (void *)(long)INT_MAX, word, 0);
}

static inline void until_waiters(_Atomic uint32_t *word, long count) {
    while (waiters(word) != count) nap_us(200);
}
