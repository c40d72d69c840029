// What the files of the guest share. All futex words and all entries of robust lists lie in the region: memory that the
// supervisor maps too.
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

_Static_assert(sizeof(void *) == 4, "a 32-bit program");

// The numbers of i386.
enum { FUTEX = 240, FUTEX_TIME64 = 422, FUTEX_WAITV = 449, FUTEX_WAKE = 454, FUTEX_WAIT = 455, FUTEX_REQUEUE = 456 };
enum { SET_ROBUST_LIST = 311, GET_ROBUST_LIST = 312 };
// The operations of futex(2).
enum { WAIT, WAKE, REQUEUE = 3, CMP_REQUEUE, WAKE_OP, LOCK_PI, UNLOCK_PI, TRYLOCK_PI, WAIT_BITSET, WAKE_BITSET };
enum { WAIT_REQUEUE_PI = 11, CMP_REQUEUE_PI, LOCK_PI2 };
enum { PRIVATE = 128, REALTIME = 256 };
// The flags of the newer calls: a word of 32 bits.
enum { U32 = 2, PRIVATE_U32 = 128 + 2 };
// The bits of a lock's word.
#define OWNER_DIED 0x40000000u
#define WAITERS 0x80000000u
#define FLAGS (OWNER_DIED | WAITERS)

// The two layouts of a timespec.
struct narrow { int32_t seconds, nanoseconds; };
struct padded { int64_t seconds; int32_t nanoseconds; uint32_t padding; };
// An element of the arrays of futex_waitv and futex_requeue.
struct waitv { uint64_t expected, address; uint32_t flags, reserved; };

// Prints an expression and its value: a line that has to be the same on the kernel and on the engine.
#define RESULT(expression) printf("%s: %s = %lld\n", __func__, #expression, (long long)(expression))
// Prints which case follows.
#define CASE(...) (printf("%s: ", __func__), printf(__VA_ARGS__), putchar('\n'))
// Ends the program if a call fails that has nothing to do with the comparison.
#define MUST(expression) ((expression) ? (void)0 : must(__FILE__, __LINE__, #expression))
// Repeats until the expression holds.
#define UNTIL(expression) while (!(expression)) usleep(100)

// Whether waits are interrupted and made again. A waiter that has been moved to another word then goes back to its
// first one. The checks that need it to stay are left out.
extern int is_interrupted;

void must(const char *file, int line, const char *what);
// Takes bytes of the region, all 0.
void *in_region(size_t bytes);
// Makes a system call. Returns its result or -errno.
long call(long number, ...);
#define CALL(number, ...) call(number, __VA_ARGS__, 0, 0, 0, 0, 0)
uint32_t load(uint32_t *word);
void store(uint32_t *word, uint32_t value);

// A thread that makes one system call.
struct caller { pthread_t thread; long args[7], result; };
void begin(struct caller *caller, long number, long a, long b, long c, long d, long e, long f);
// Waits for the call's end. Returns its result.
long end(struct caller *caller);
// Creates a thread.
pthread_t thread(void *(*body)(void *), void *of);
void join(pthread_t thread);

void calls_without_waiters(void);
void waits_and_wakes(void);
void locks_by_system_call(void);
void robust_lists_by_system_call(void);
void tokens(void);
void objects_of_the_c_library(void);
void mutexes_whose_owner_ends(void);
void mutexes_with_inheritance(void);
