// Another preloaded library is the program's allocator: the first argument. Its locks are futexes too.
#include "beside.h"
#include "futex.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turned = PTHREAD_COND_INITIALIZER;
static long turn;
static _Atomic uint32_t word;

// Two threads take turns and allocate in between.
static void *takes_turns(void *number) {
    for (long i = (long)number; i < 1000; i += 2) {
        char *block = malloc(100 + i * 50);
        CHECK(block != NULL);
        memset(block, (int)i, 100);
        CHECK_EQ(pthread_mutex_lock(&mutex), 0);
        while (turn != i) CHECK_EQ(pthread_cond_wait(&turned, &mutex), 0);
        turn++;
        CHECK_EQ(pthread_cond_broadcast(&turned), 0);
        CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
        block = realloc(block, 200 + i);
        CHECK_EQ(block[99], (char)i);
        free(block);
    }
    return NULL;
}

static void *wakes(void *unused) {
    while (waiters(&word) != 1) nap_us(200);
    CHECK_EQ(wake(&word, 1), 1);
    return unused;
}

int main(int argc, char **argv) {
    beside(argv);
    on_threads(2, takes_turns);
    pthread_t thread = start(wakes, NULL);
    CHECK_EQ(wait_on(&word, 0), 0);
    join(thread);
    printf("%ld turns\n", turn);
    fflush(stdout);
    if (argc > 2) return 0;
    // Executed children have the library too.
    for (int i = 0; i < 3; i++) {
        pid_t child = fork();
        if (!child) {
            execl("/proc/self/exe", argv[0], argv[1], "child", NULL);
            _exit(98);
        }
        reap(child, 0);
    }
    reap(fork() ?: (takes_turns((void *)1000), _exit(7), 0), 7);
    printf("ok\n");
    return 0;
}
