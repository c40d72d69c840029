// Runs all checks. The arguments are the file descriptor, the address and the size of the region, and 1 if waits are
// interrupted, else 0. If the program is supervised, a fifth one is the descriptor that the supervisor has taken over.
#include "guest.h"
#include <stdarg.h>
#include <sys/mman.h>

int is_interrupted;
static char *next, *region_end;

void must(const char *file, int line, const char *what) {
    printf("%s:%d: failed: %s\n", file, line, what);
    exit(1);
}

void *in_region(size_t bytes) {
    char *at = next;
    next += (bytes + 63) / 64 * 64;
    MUST(next <= region_end);
    return at;
}

long call(long number, ...) {
    long args[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++) args[i] = va_arg(list, long);
    va_end(list);
    long result = syscall(number, args[0], args[1], args[2], args[3], args[4], args[5]);
    return result == -1 ? -errno : result;
}

uint32_t load(uint32_t *word) { return __atomic_load_n(word, __ATOMIC_SEQ_CST); }
void store(uint32_t *word, uint32_t value) { __atomic_store_n(word, value, __ATOMIC_SEQ_CST); }

static void *calls(void *of) {
    struct caller *caller = of;
    long *args = caller->args;
    caller->result = call(args[0], args[1], args[2], args[3], args[4], args[5], args[6]);
    return NULL;
}

void begin(struct caller *caller, long number, long a, long b, long c, long d, long e, long f) {
    long args[] = {number, a, b, c, d, e, f};
    memcpy(caller->args, args, sizeof args);
    caller->thread = thread(calls, caller);
}

long end(struct caller *caller) {
    join(caller->thread);
    return caller->result;
}

pthread_t thread(void *(*body)(void *), void *of) {
    pthread_t thread;
    MUST(pthread_create(&thread, NULL, body, of) == 0);
    return thread;
}

void join(pthread_t thread) { MUST(pthread_join(thread, NULL) == 0); }

// The process ends while a thread sleeps. The word to which the waiter is moved shows that it sleeps.
static void leaves_a_sleeper(void) {
    static struct caller sleeper;
    uint32_t *word = in_region(8);
    begin(&sleeper, FUTEX, (long)word, WAIT, 0, 0, 0, 0);
    UNTIL(CALL(FUTEX, word, REQUEUE, 0, 1, word + 1) == 1);
}

int main(int count, char **args) {
    MUST(count == 5 || count == 6);
    void *at = (void *)strtoul(args[2], NULL, 0);
    size_t size = strtoul(args[3], NULL, 0);
    setvbuf(stdout, NULL, _IOLBF, 0);
    is_interrupted = atoi(args[4]);
    if (count == 6) MUST(close(atoi(args[5])) == 0);
    next = mmap(at, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE, atoi(args[1]), 0);
    MUST(next == at);
    region_end = next + size;
    calls_without_waiters();
    waits_and_wakes();
    locks_by_system_call();
    robust_lists_by_system_call();
    tokens();
    objects_of_the_c_library();
    mutexes_whose_owner_ends();
    mutexes_with_inheritance();
    leaves_a_sleeper();
    printf("all done\n");
    return 0;
}
