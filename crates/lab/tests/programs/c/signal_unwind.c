// Signals interrupt a thread at any moment of its futex calls. From each handler an unwinder must find the function
// that makes the calls, as cancellation and profilers need.
#include "futex.h"
#include "unwind_to.h"

static uint32_t word;
static atomic_int handled, lost, has_begun, is_over;

enum { MILLISECONDS = 700 };

static void makes_calls(void) {
    has_begun = 1;
    while (!is_over) futex(&word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void unwinds(int signal) {
    (void)signal;
    if (is_over) return; // the thread may have left the function
    lost += !unwinds_to((void *)makes_calls);
    handled++;
}

static void *calls(void *unused) {
    makes_calls();
    return unused;
}

static void from_any_call(void) {
    struct sigaction action = {.sa_handler = unwinds};
    pthread_t thread;
    // Unwinders load what they need on first use.
    unwinds(0);
    CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
    handled = lost = has_begun = is_over = 0;
    CHECK_EQ(pthread_create(&thread, NULL, calls, NULL), 0);
    while (!has_begun) sched_yield();
    struct timespec begin, now;
    CHECK_EQ(clock_gettime(CLOCK_MONOTONIC, &begin), 0);
    do {
        CHECK_EQ(pthread_kill(thread, SIGUSR1), 0);
        sched_yield();
        CHECK_EQ(clock_gettime(CLOCK_MONOTONIC, &now), 0);
    } while ((now.tv_sec - begin.tv_sec) * 1000 + (now.tv_nsec - begin.tv_nsec) / 1000000 < MILLISECONDS || !handled);
    is_over = 1;
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(lost, 0);
}

// Steps through the rest of this handler and its return: a SIGTRAP after each instruction, up to rt_sigreturn(2), which
// restores the flags.
static void returns_by_steps(int signal) {
    (void)signal;
    __asm__ volatile("pushfq\n\torq $0x100, (%%rsp)\n\tpopfq" ::: "memory", "cc");
}

__attribute__((noinline)) static void raises(void) {
    raise(SIGUSR1);
    __asm__ volatile("" ::: "memory");
}

static void unwinds_to_raises(int signal) {
    (void)signal;
    lost += !unwinds_to((void *)raises);
    handled++;
}

// A signal interrupts a handler while it returns.
static void from_the_return_of_a_handler(void) {
#if defined(__x86_64__)
    struct sigaction action = {.sa_handler = unwinds_to_raises};
    CHECK_EQ(sigaction(SIGTRAP, &action, NULL), 0);
    action.sa_handler = returns_by_steps;
    unwinds(0);
    CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
    handled = lost = 0;
    raises();
    CHECK(handled >= 2); // after ret, and after the first instruction of the restorer
    CHECK_EQ(lost, 0);
#endif
}

#if defined(__x86_64__)
static uint32_t stepped_word;

static void wakes(int signal) {
    (void)signal;
    futex(&stepped_word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    handled++;
}

__attribute__((noinline)) static void invert_trap_flag(void) {
    __asm__ volatile("pushfq\n\txorq $0x100, (%%rsp)\n\tpopfq" ::: "memory", "cc");
}
#endif

// A program steps through its own futex call. After each instruction its handler makes a call on the same word.
static void by_steps_through_a_call(void) {
#if defined(__x86_64__)
    struct sigaction action = {.sa_handler = wakes};
    CHECK_EQ(sigaction(SIGTRAP, &action, NULL), 0);
    struct timespec soon = {0, 1000000};
    handled = 0;
    for (uint32_t value = 7; value <= 8; value++) {
        stepped_word = 7;
        invert_trap_flag();
        long result = futex(&stepped_word, FUTEX_WAIT_PRIVATE, value, &soon, NULL, 0);
        invert_trap_flag();
        show(result, "a wait by steps");
    }
    CHECK(handled > 2);
#endif
}

MAIN(CASE(from_any_call), CASE(from_the_return_of_a_handler), CASE(by_steps_through_a_call))
