// A handler that is installed by the instruction runs after each instruction of a futex call, and makes calls of its own: one
// at the places of the call in turn, and then a second one at places behind the last one where the first is put off until the
// call ends. Each of them wakes a waiter. A handler that is seen being installed may change actions while its thread
// changes one.
#include "futex.h"
#include <ucontext.h>

#define SINGLE_STEP 0x100
#define WAITERS 2

static _Atomic uint32_t word, other;
static atomic_long woken;
static atomic_int stop;
// Words that have no waiters, more than the library has places for.
static _Atomic uint32_t others[200];
// The places of the handler's wakes, and how often it has run.
static volatile long first, second, step;
static volatile int is_put_off;

static void wake_at_place(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    int saved = errno;
    step++;
    if (step == first) is_put_off = wake(&word, 1) == 0;
    if (step == second) wake(&word, 1);
    if (step == first && second == 0)
        for (unsigned i = 0; i < sizeof others / sizeof *others; i++) wake(&others[i], 1);
    if (step >= first && step >= second) ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~SINGLE_STEP;
    errno = saved;
}

__asm__(".pushsection .text\n"
        "returns: mov $15, %eax\nsyscall\n"
        "begin_steps: pushfq\norq $0x100, (%rsp)\npopfq\nret\n"
        "end_steps: pushfq\nandq $~0x100, (%rsp)\npopfq\nret\n"
        ".popsection");
extern char returns[];
void begin_steps(void), end_steps(void);

static void install(void) {
    struct {
        void (*handler)(int, siginfo_t *, void *);
        unsigned long flags;
        void *restorer;
        unsigned long mask;
    } action = {wake_at_place, SA_SIGINFO | 0x04000000, returns, 0};
    CHECK_EQ(instruction(SYS_rt_sigaction, SIGTRAP, ARGUMENT(&action), 0, 8, 0, 0), 0);
}

static void *waits(void *unused) {
    while (!stop)
        if (wait_on(&word, 0) == 0) woken++;
    return unused;
}

// Makes a call with wakes at these places, none at 0. Returns whether the call was long enough for both, and checks that
// all of the handler's wakes have had an effect.
static int call(long one, long two) {
    until_waiters(&word, WAITERS);
    long before = woken;
    first = one, second = two, step = 0, is_put_off = 0;
    begin_steps();
    wake(&other, 1);
    end_steps();
    long wakes = (one != 0 && step >= one) + (two != 0 && step >= two);
    struct timespec limit = in_ms(CLOCK_MONOTONIC, 10000);
    while (woken != before + wakes && !passed(CLOCK_MONOTONIC, &limit)) nap_us(100);
    if (woken != before + wakes) fail(__FILE__, __LINE__, "a wake is lost at", one, two);
    return step >= one && step >= two;
}

static void wakes_at_each_place(void) {
    install();
    pthread_t threads[WAITERS];
    for (int i = 0; i < WAITERS; i++) threads[i] = start(waits, NULL);
    // Far inside, where the wake is put off, one place is like another: of those only some, but each before the last of them.
    long last = 0, by_one_until = 100;
    for (long place = 1, stride = 1; call(place, 0); place += stride) {
        if (!is_put_off && stride > 1) by_one_until = place, place -= stride;
        if (is_put_off) last = place;
        stride = is_put_off && place >= by_one_until ? 7 : 1;
    }
    // Near the first one it is added to it, or takes its place.
    for (long place = last + 1; last != 0 && call(last, place); place += place < last + 100 ? 1 : 41) {}
    stop = 1;
    word = 1;
    wake(&word, WAITERS);
    for (int i = 0; i < WAITERS; i++) join(threads[i]);
}

static void does_nothing(int signal) { (void)signal; }

static void changes_an_action(int signal) {
    (void)signal;
    struct sigaction action = {.sa_handler = does_nothing};
    CHECK_EQ(sigaction(SIGUSR2, &action, NULL), 0);
    step++;
}

static void actions_at_each_place(void) {
    struct sigaction action = {.sa_handler = changes_an_action};
    CHECK_EQ(sigaction(SIGTRAP, &action, NULL), 0);
    action.sa_handler = does_nothing;
    step = 0;
    begin_steps();
    int result = sigaction(SIGUSR1, &action, NULL);
    end_steps();
    CHECK_EQ(result, 0);
    CHECK(step > 0);
}

MAIN(CASE(wakes_at_each_place), CASE(actions_at_each_place))
