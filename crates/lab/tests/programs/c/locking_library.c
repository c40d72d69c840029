// Replaces libc's allocator, and the functions by which an allocator or a profiler sees memory, files and threads, by ones
// that take a lock and make a futex call.
#include "futex.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static _Atomic uint32_t word;
static char pool[64 << 20] __attribute__((aligned(4096)));
static size_t used;

static void enter(void) {
    CHECK_EQ(pthread_mutex_lock(&mutex), 0);
    instruction(SYS_futex, ARGUMENT(&word), FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
}
static void leave(void) { CHECK_EQ(pthread_mutex_unlock(&mutex), 0); }

// Each block stands behind its size, and is never used again.
static void *allocate(size_t align, size_t size) {
    enter();
    size_t begin = (used + 16 + align - 1) / align * align;
    CHECK(begin + size <= sizeof pool);
    used = begin + size;
    ((size_t *)(pool + begin))[-1] = size;
    leave();
    return pool + begin;
}
void *malloc(size_t size) { return allocate(16, size); }
void *calloc(size_t count, size_t size) { return allocate(16, count * size); }
void free(void *block) {
    (void)block;
    enter();
    leave();
}
void *realloc(void *block, size_t size) {
    void *new = allocate(16, size);
    size_t before = block ? ((size_t *)block)[-1] : 0;
    char *volatile to = new;
    for (size_t i = 0; i < before && i < size; i++) to[i] = ((char *)block)[i];
    return new;
}
void *memalign(size_t align, size_t size) { return allocate(align < 16 ? 16 : align, size); }
void *aligned_alloc(size_t align, size_t size) { return memalign(align, size); }
int posix_memalign(void **block, size_t align, size_t size) {
    *block = memalign(align, size);
    return 0;
}
size_t malloc_usable_size(void *block) { return block ? ((size_t *)block)[-1] : 0; }

static long locked(long number, long a, long b, long c, long d, long e, long f) {
    enter();
    long result = instruction(number, a, b, c, d, e, f);
    leave();
    if (result > -4096L && result < 0) {
        errno = (int)-result;
        return -1;
    }
    return result;
}
void *mmap(void *at, size_t size, int access, int flags, int file, off_t offset) {
    return (void *)locked(SYS_mmap, ARGUMENT(at), size, access, flags, file, offset);
}
void *mmap64(void *at, size_t size, int access, int flags, int file, off_t offset) {
    return mmap(at, size, access, flags, file, offset);
}
int munmap(void *at, size_t size) { return (int)locked(SYS_munmap, ARGUMENT(at), size, 0, 0, 0, 0); }
ssize_t read(int file, void *to, size_t size) { return locked(SYS_read, file, ARGUMENT(to), size, 0, 0, 0); }
ssize_t write(int file, const void *from, size_t size) { return locked(SYS_write, file, ARGUMENT(from), size, 0, 0, 0); }
int close(int file) { return (int)locked(SYS_close, file, 0, 0, 0, 0, 0); }
pid_t getpid(void) { return (pid_t)locked(SYS_getpid, 0, 0, 0, 0, 0, 0); }
ssize_t getrandom(void *to, size_t size, unsigned flags) { return locked(SYS_getrandom, ARGUMENT(to), size, flags, 0, 0, 0); }
int clock_gettime(clockid_t clock, struct timespec *time) {
    return (int)locked(SYS_clock_gettime, clock, ARGUMENT(time), 0, 0, 0, 0);
}
int sched_getaffinity(pid_t thread, size_t size, cpu_set_t *set) {
    long written = locked(SYS_sched_getaffinity, thread, size, ARGUMENT(set), 0, 0, 0);
    return written < 0 ? -1 : 0;
}
