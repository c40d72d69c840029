// The constructor of another library runs before that of `ufutex run`'s (early_library.c).
#include "beside.h"
#include "futex.h"
#include <dlfcn.h>

static _Atomic uint32_t word;

static void *wakes(void *unused) {
    while (waiters(&word) != 1) nap_us(200);
    CHECK_EQ(wake(&word, 1), 1);
    return unused;
}

int main(int argc, char **argv) {
    (void)argc;
    beside(argv);
    int *result = dlsym(RTLD_DEFAULT, "early_result");
    CHECK(result != NULL);
    CHECK_EQ(raise(SIGUSR2), 0); // the handler that the constructor has installed
    printf("early %d\n", *result);
    pthread_t thread = start(wakes, NULL);
    CHECK_EQ(wait_on(&word, 0), 0);
    join(thread);
    printf("ok\n");
    return 0;
}
