// Futex calls by ways that pass a preloaded library: from a library that is loaded with RTLD_DEEPBIND (other_ways_library.c,
// whose path is the argument), and by libc's own `syscall` from dlsym(3). Waits by one way meet wakes by another. With the
// argument `mdwe`, also in a process that may not make code writable.
#include "futex.h"
#include <dlfcn.h>
#include <sys/prctl.h>

#ifndef PR_SET_MDWE
#define PR_SET_MDWE 65
#endif

static _Atomic uint32_t word;
typedef long (*call)(long, ...);

static void *waits(void *by) {
    CHECK_EQ((*(call *)by)(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0), 0);
    return NULL;
}

static void meet(const char *name, call there) {
    call ways[] = {(call)syscall, there};
    for (int i = 0; i < 2; i++) {
        pthread_t thread = start(waits, &ways[i]);
        until_waiters(&word, 1);
        printf("%s: %ld woken\n", name, ways[!i](SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0));
        join(thread);
    }
    errno = 0;
    CHECK_EQ(there(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0), -1);
    CHECK_EQ(errno, EAGAIN);
    CHECK_EQ(there(SYS_getpid), getpid());
    CHECK_EQ(there(SYS_close, -1), -1);
    CHECK_EQ(errno, EBADF);
    // All six arguments reach the kernel.
    void *at = (void *)there(SYS_mmap, NULL, 4096, 3, 0x22, -1, 0);
    CHECK(at != (void *)-1);
    CHECK_EQ(there(SYS_munmap, at, 4096), 0);
}

int main(int argc, char **argv) {
    if (argc == 3) {
        if (prctl(PR_SET_MDWE, 1, 0, 0, 0)) {
            perror("PR_SET_MDWE");
            return SKIPPED;
        }
        execl("/proc/self/exe", argv[0], argv[1], NULL);
        fail(__FILE__, __LINE__, "execl", 0, 0);
    }
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    CHECK(library);
    meet("RTLD_DEEPBIND", (call)dlsym(library, "deep_syscall"));
    void *libc = dlopen("libc.so.6", RTLD_NOW);
    CHECK(libc);
    meet("dlsym", (call)dlsym(libc, "syscall"));
    return 0;
}
