// `--trap` replaces libc's futex instructions by jumps. They must change rax, rcx, r11 and the flags only, and leave the
// red zone alone. An unwinder that starts in a handler must find the function that called libc.
//
// The test calls a function of libc that is nothing but a futex call: `mov $202, %eax; syscall; ret`.
#include "futex.h"
#include "unwind_to.h"
#include <dlfcn.h>
#include <link.h>
#include <sched.h>
#include <stddef.h>
#include <ucontext.h>

#if defined(__x86_64__)

static const unsigned char load[] = {0xb8, 0xca, 0, 0, 0}, instruction_itself[] = {0x0f, 0x05};
static const unsigned char *function;

static int looks_for_function(struct dl_phdr_info *info, size_t size, void *address) {
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        const unsigned char *begin = (void *)(info->dlpi_addr + header->p_vaddr), *end = begin + header->p_memsz;
        if (header->p_type != PT_LOAD || !(header->p_flags & PF_X)) continue;
        if ((unsigned char *)address < begin || (unsigned char *)address >= end) continue;
        for (const unsigned char *at = begin; at + 8 <= end; at++)
            if (!memcmp(at, load, 5) && at[7] == 0xc3) {
                function = at;
                return 1;
            }
    }
    return 0;
}

static void *nothing(void *unused) { return unused; }

// Finds the function, and makes a thread, before which the instructions are replaced.
static void begin(void) {
    // A function of pthreads that the library has not replaced: glibc before 2.34 has them in a library of their own.
    dl_iterate_phdr(looks_for_function, dlsym(RTLD_DEFAULT, "pthread_getconcurrency"));
    if (!function) skip("this libc has no function that is a futex call");
    join(start(nothing, NULL));
    const char *settings = getenv("UFUTEX_RUN");
    int expected = settings && strstr(settings, ",trap") && !strstr(settings, ",no-patch");
    CHECK_EQ(memcmp(function + 5, instruction_itself, 2) != 0, expected);
}

enum { RDI, RSI, RDX, R10, R8, R9, RBX, RBP, R12, R13, R14, R15, REGISTERS };
static const char *const names[] = {"rdi", "rsi", "rdx", "r10", "r8", "r9", "rbx", "rbp", "r12", "r13", "r14", "r15"};

enum { RED_ZONE = 16 };

static struct state {
    uint64_t registers[REGISTERS];
    unsigned char vectors[16][32];
    uint64_t red_zone[RED_ZONE];
    uint64_t stack;
    uint32_t mxcsr;
    uint16_t control;
} before, after;

// For the assembly below.
_Static_assert(offsetof(struct state, vectors) == 96 && offsetof(struct state, red_zone) == 96 + 512, "");
_Static_assert(offsetof(struct state, stack) == 96 + 512 + 128, "");

#define VECTORS(move)                                                                                                  \
    move(0) move(1) move(2) move(3) move(4) move(5) move(6) move(7) move(8) move(9) move(10) move(11) move(12)         \
        move(13) move(14) move(15)
#define LOAD(i) "vmovdqu 32*" #i "(%%rax), %%ymm" #i "\n\t"
#define STORE(i) "vmovdqu %%ymm" #i ", 32*" #i "(%%rcx)\n\t"

// Calls the function with the state `before`, and stores the state `after`. Uses rcx and rax.
//
// The stack, downwards: 128 bytes that the compiler may use, rbp, the function's return address, its red zone.
__attribute__((target("avx"))) static long call_with_state(void) {
    long result;
    __asm__ volatile(
        "lea -144(%%rsp), %%rsp\n\t"
        "mov %%rbp, (%%rsp)\n\t"
        "mov %[vectors], %%rax\n\t" VECTORS(LOAD)
        "mov $15, %%ecx\n\t"
        "2: mov 512(%%rax,%%rcx,8), %%rdx\n\t"
        "mov %%rdx, -136(%%rsp,%%rcx,8)\n\t"
        "dec %%ecx\n\t"
        "jns 2b\n\t"
        "mov %%rsp, 640(%%rax)\n\t"
        "lea -96(%%rax), %%rcx\n\t"
        "mov 0(%%rcx), %%rdi\n\t mov 8(%%rcx), %%rsi\n\t mov 16(%%rcx), %%rdx\n\t mov 24(%%rcx), %%r10\n\t"
        "mov 32(%%rcx), %%r8\n\t mov 40(%%rcx), %%r9\n\t mov 48(%%rcx), %%rbx\n\t mov 56(%%rcx), %%rbp\n\t"
        "mov 64(%%rcx), %%r12\n\t mov 72(%%rcx), %%r13\n\t mov 80(%%rcx), %%r14\n\t mov 88(%%rcx), %%r15\n\t"
        "call *%[function]\n\t"
        "lea %[registers], %%rcx\n\t"
        "mov %%rdi, 0(%%rcx)\n\t mov %%rsi, 8(%%rcx)\n\t mov %%rdx, 16(%%rcx)\n\t mov %%r10, 24(%%rcx)\n\t"
        "mov %%r8, 32(%%rcx)\n\t mov %%r9, 40(%%rcx)\n\t mov %%rbx, 48(%%rcx)\n\t mov %%rbp, 56(%%rcx)\n\t"
        "mov %%r12, 64(%%rcx)\n\t mov %%r13, 72(%%rcx)\n\t mov %%r14, 80(%%rcx)\n\t mov %%r15, 88(%%rcx)\n\t"
        "add $96, %%rcx\n\t" VECTORS(STORE)
        "mov %%rsp, 640(%%rcx)\n\t"
        "mov $15, %%edi\n\t"
        "3: mov -136(%%rsp,%%rdi,8), %%rdx\n\t"
        "mov %%rdx, 512(%%rcx,%%rdi,8)\n\t"
        "dec %%edi\n\t"
        "jns 3b\n\t"
        "mov (%%rsp), %%rbp\n\t"
        "lea 144(%%rsp), %%rsp\n\t"
        : "=a"(result)
        : [vectors] "r"(&before.vectors), [function] "m"(function), [registers] "m"(after.registers)
        : "rcx", "rdx", "rdi", "rsi", "r8", "r9", "r10", "r11", "rbx", "r12", "r13", "r14", "r15", "xmm0", "xmm1",
          "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14",
          "xmm15", "memory", "cc");
    return result;
}

// Makes a call, and prints its result and what else it has changed: nothing, on the kernel.
static void check_call(const char *name, long a, long b, long c, long d, long e, long f) {
    uint64_t registers[REGISTERS] = {a, b, c, d, e, f, 0x1111, 0x2222, 0x3333, 0x4444, 0x5555, 0x6666};
    memcpy(before.registers, registers, sizeof registers);
    for (size_t i = 0; i < sizeof before.vectors; i++) ((unsigned char *)before.vectors)[i] = (unsigned char)(i * 7 + 1);
    for (int i = 0; i < RED_ZONE; i++) before.red_zone[i] = 0x1234567800 + i;
    memset(&after, 0, sizeof after);
    __asm__ volatile("stmxcsr %0; fnstcw %1" : "=m"(before.mxcsr), "=m"(before.control));
    long result = call_with_state();
    __asm__ volatile("stmxcsr %0; fnstcw %1" : "=m"(after.mxcsr), "=m"(after.control));
    if (result >= -4095 && result < 0)
        printf("%s: %s\n", name, strerrorname_np((int)-result));
    else
        printf("%s: %ld\n", name, result);
    for (int i = 0; i < REGISTERS; i++)
        if (before.registers[i] != after.registers[i])
            printf("  %s: %lx -> %lx\n", names[i], (long)before.registers[i], (long)after.registers[i]);
    for (int i = 0; i < 16; i++)
        if (memcmp(before.vectors[i], after.vectors[i], 32)) printf("  ymm%d changed\n", i);
    for (int i = 0; i < RED_ZONE; i++)
        if (before.red_zone[i] != after.red_zone[i]) printf("  red zone: word %d changed\n", i);
    if (before.stack != after.stack) printf("  rsp changed\n");
    if (before.mxcsr != after.mxcsr || before.control != after.control) printf("  a control word changed\n");
}

static _Atomic uint32_t word;
static struct timespec brief = {0, 1000000};

// Arguments that a call does not use have this value.
#define UNUSED 0x5a5a5a5a5a5a5a5a

static void *sleeps(void *unused) {
    CHECK_EQ(futex((uint32_t *)&word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0), 0);
    return unused;
}

static void *wakes(void *unused) {
    while (futex((uint32_t *)&word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0) == 0) sched_yield();
    return unused;
}

static void registers_stay(void) {
    begin();
    if (!__builtin_cpu_supports("avx")) skip("this machine has no AVX");
    for (int round = 0; round < 3; round++) {
        check_call("wake", (long)&word, FUTEX_WAKE_PRIVATE, 1, UNUSED, UNUSED, UNUSED);
        check_call("wait, differs", (long)&word, FUTEX_WAIT_PRIVATE, 1, 0, UNUSED, UNUSED);
        check_call("wait, timeout", (long)&word, FUTEX_WAIT_PRIVATE, 0, (long)&brief, UNUSED, UNUSED);
        check_call("wait, bad timeout", (long)&word, FUTEX_WAIT_PRIVATE, 0, 8, UNUSED, UNUSED);
        check_call("wait, misaligned", (long)&word + 1, FUTEX_WAIT_PRIVATE, 0, 0, UNUSED, UNUSED);
        check_call("requeue", (long)&word, FUTEX_CMP_REQUEUE_PRIVATE, 1, 1, (long)(&word + 1), 0);
        check_call("no operation", (long)&word, 77, 1, UNUSED, UNUSED, UNUSED);
        check_call("no private operation", (long)&word, 77 | FUTEX_PRIVATE_FLAG, 1, UNUSED, UNUSED, UNUSED);
        check_call("wake, shared", (long)&word, FUTEX_WAKE, 1, UNUSED, UNUSED, UNUSED);
        check_call("wait, shared", (long)&word, FUTEX_WAIT, 1, 0, UNUSED, UNUSED);
        check_call("unlock, not ours", (long)&word, FUTEX_UNLOCK_PI_PRIVATE, UNUSED, UNUSED, UNUSED, UNUSED);
        // A wake of a thread that sleeps, and a sleep that another thread ends.
        pthread_t thread = start(sleeps, NULL);
        long woken;
        do {
            sched_yield();
            before.registers[RDI] = (long)&word, before.registers[RSI] = FUTEX_WAKE_PRIVATE, before.registers[RDX] = 1;
            woken = call_with_state();
        } while (!woken);
        CHECK_EQ(woken, 1);
        join(thread);
        thread = start(wakes, NULL);
        check_call("wait, woken", (long)&word, FUTEX_WAIT_PRIVATE, 0, 0, UNUSED, UNUSED);
        join(thread);
    }
}

static atomic_int handled, lost, is_over, waits;

// Makes a futex call by the function of libc.
static long by_function(long operation, long value, struct timespec *time) {
    long result;
    register long r10 __asm__("r10") = (long)time;
    __asm__ volatile("sub $128, %%rsp; call *%[function]; add $128, %%rsp"
                     : "=a"(result)
                     : [function] "m"(function), "D"(&word), "S"(operation), "d"(value), "r"(r10)
                     : "rcx", "r11", "memory", "cc");
    return result;
}

__attribute__((noinline)) static void makes_calls(void) {
    struct timespec moment = {0, 1000};
    while (!is_over) {
        by_function(FUTEX_WAKE_PRIVATE, 1, NULL);
        by_function(FUTEX_WAKE, 1, NULL);
        by_function(FUTEX_WAIT_PRIVATE, 0, &moment);
        waits++;
    }
}

// Makes a wake with the trap flag set, so that a SIGTRAP follows each instruction.
__attribute__((noinline)) static void steps_through_a_wake(void) {
    long result;
    __asm__ volatile("sub $128, %%rsp\n\t"
                     "pushfq\n\t orq $0x100, (%%rsp)\n\t popfq\n\t"
                     "call *%[function]\n\t"
                     "pushfq\n\t andq $~0x100, (%%rsp)\n\t popfq\n\t"
                     "add $128, %%rsp"
                     : "=a"(result)
                     : [function] "m"(function), "D"(&word), "S"(FUTEX_WAKE_PRIVATE), "d"(1)
                     : "rcx", "r11", "memory", "cc");
    CHECK_EQ(result, 0);
}

// The function that calls libc's.
static void *caller;

static void unwinds(int signal, siginfo_t *info, void *context) {
    (void)info;
    // If rip is in a stub, which belongs to no library, unwinding is not expected to work.
    Dl_info library;
    if (signal == SIGTRAP && !dladdr((void *)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP], &library)) return;
    lost += !unwinds_to(caller);
    handled++;
}

static void *calls(void *unused) {
    makes_calls();
    return unused;
}

// Signals interrupt a thread at any moment of such a call. From each handler an unwinder finds the calling function.
static void unwinders_see_libc(void) {
    begin();
    struct sigaction action = {.sa_sigaction = unwinds, .sa_flags = SA_RESTART | SA_SIGINFO};
    CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
    raise(SIGUSR1); // unwinders load what they need on first use
    handled = lost = 0;
    caller = (void *)makes_calls;
    pthread_t thread = start(calls, NULL);
    while (!waits) sched_yield();
    struct timespec end = in_ms(CLOCK_MONOTONIC, 1000);
    do {
        CHECK_EQ(pthread_kill(thread, SIGUSR1), 0);
        sched_yield();
    } while (!passed(CLOCK_MONOTONIC, &end) || !handled);
    is_over = 1;
    join(thread);
    CHECK_EQ(lost, 0);
}

// A SIGTRAP after each instruction of a wake: each handler's unwinder finds the calling function.
static void unwinders_see_libc_at_each_step(void) {
    begin();
    struct sigaction action = {.sa_sigaction = unwinds, .sa_flags = SA_SIGINFO};
    CHECK_EQ(sigaction(SIGTRAP, &action, NULL), 0);
    CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
    raise(SIGUSR1);
    handled = lost = 0;
    caller = (void *)steps_through_a_wake;
    steps_through_a_wake();
    CHECK(handled > 2);
    CHECK_EQ(lost, 0);
}

static atomic_int calls_made;

static void makes_a_call(void) { calls_made += by_function(FUTEX_WAKE_PRIVATE, 1, NULL) == 0; }

// A thread with storage that is not libc's, made by the instruction, so that libc and the library do not know of it. Its
// call must not touch that storage.
static void foreign_storage_stays(void) {
    begin();
    static _Alignas(64) unsigned char stack[1 << 16], storage[8192], copy[8192];
    // Taken for the library's own data there, this would be a thread outside the engine for which a signal is put off.
    for (size_t i = 1; i < sizeof storage; i += 2) storage[i] = 0x11;
    uint64_t self = (uint64_t)(storage + 4096);
    memcpy(storage + 4096, &self, sizeof self);
    memcpy(copy, storage, sizeof copy);
    atomic_int tid = 1; // set to 0 by the kernel when the thread has ended
    long flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_SETTLS |
                 CLONE_CHILD_CLEARTID;
    long made;
    register long r10 __asm__("r10") = (long)&tid;
    register long r8 __asm__("r8") = (long)self;
    __asm__ volatile("syscall\n\t"
                     "test %%rax, %%rax\n\t"
                     "jnz 1f\n\t"
                     "xor %%ebp, %%ebp\n\t"
                     "call *%[body]\n\t"
                     "mov $60, %%eax\n\t" // exit
                     "xor %%edi, %%edi\n\t"
                     "syscall\n\t"
                     "1:\n\t"
                     : "=a"(made)
                     : "0"((long)SYS_clone), "D"(flags), "S"(stack + sizeof stack), "d"(0L), "r"(r10), "r"(r8),
                       [body] "b"(makes_a_call)
                     : "rcx", "r11", "memory", "cc");
    CHECK(made > 0);
    while (tid) sched_yield();
    CHECK_EQ(calls_made, 1);
    CHECK(!memcmp(copy, storage, sizeof copy));
}

MAIN(CASE(foreign_storage_stays), CASE(registers_stay), CASE(unwinders_see_libc), CASE(unwinders_see_libc_at_each_step))
#else
int main(void) {
    fprintf(stderr, "written for x86-64\n");
    return SKIPPED;
}
#endif
