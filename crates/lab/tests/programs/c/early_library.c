// A library that asks to be initialised before all others (-z initfirst), as `ufutex run`'s does: of two the loader takes one.
// Its constructor calls what `ufutex run` replaces, and makes futex calls.
#include "futex.h"
#include <spawn.h>
#include <sys/prctl.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Atomic uint32_t word;
static atomic_int handled;
int early_result;

static void initialise(void) {}
static void count(int signal) { handled += signal == SIGUSR2; }
static void *wakes(void *unused) {
    word = 1;
    wake(&word, 1);
    return unused;
}

__attribute__((constructor)) static void begin(void) {
    CHECK_EQ(pthread_once(&once, initialise), 0);
    CHECK(signal(SIGUSR2, count) != SIG_ERR);
    CHECK_EQ(raise(SIGUSR2), 0);
    CHECK_EQ(prctl(PR_GET_DUMPABLE) >= 0, 1);
    pthread_t thread = start(wakes, NULL);
    while (!word) wait_on(&word, 0);
    join(thread);
    early_result = handled;
}
