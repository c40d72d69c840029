// Loaded by other_ways.c with RTLD_DEEPBIND: its call goes to libc, whatever is preloaded.
#include <unistd.h>
long deep_syscall(long number, long a, long b, long c, long d, long e, long f) {
    return syscall(number, a, b, c, d, e, f);
}
