// A system call changes rax, rcx and r11 and no other register: compilers keep values in the others and in the vector
// registers, whichever code made the call. clone(2) and clone3(2) are left out: a trap makes them again with a mark in
// rdi or r10, and cannot remove it in both threads.
#include "futex.h"
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#if defined(__x86_64__)

enum { RDI, RSI, RDX, R10, R8, R9, RBX, R12, R13, R14, R15, REGISTERS };
static const char *const names[] = {"rdi", "rsi", "rdx", "r10", "r8", "r9", "rbx", "r12", "r13", "r14", "r15"};

// Makes a call with the given registers, and stores their values afterwards. Uses the red zone too.
static long call(long number, uint64_t registers[REGISTERS], char vectors[64]) {
    long result;
    __asm__ volatile("push %%rbp\n\t"
                     "mov %[registers], %%rbp\n\t"
                     "push %[vectors]\n\t"
                     "movdqu (%[vectors]), %%xmm6\n\t"
                     "movdqu 16(%[vectors]), %%xmm15\n\t"
                     "mov 0(%%rbp), %%rdi\n\t"
                     "mov 8(%%rbp), %%rsi\n\t"
                     "mov 16(%%rbp), %%rdx\n\t"
                     "mov 24(%%rbp), %%r10\n\t"
                     "mov 32(%%rbp), %%r8\n\t"
                     "mov 40(%%rbp), %%r9\n\t"
                     "mov 48(%%rbp), %%rbx\n\t"
                     "mov 56(%%rbp), %%r12\n\t"
                     "mov 64(%%rbp), %%r13\n\t"
                     "mov 72(%%rbp), %%r14\n\t"
                     "mov 80(%%rbp), %%r15\n\t"
                     "movq $0x1234567, -64(%%rsp)\n\t"
                     "syscall\n\t"
                     "cmpq $0x1234567, -64(%%rsp)\n\t"
                     "je 1f\n\t"
                     "ud2\n\t"
                     "1:\n\t"
                     "mov %%rdi, 0(%%rbp)\n\t"
                     "mov %%rsi, 8(%%rbp)\n\t"
                     "mov %%rdx, 16(%%rbp)\n\t"
                     "mov %%r10, 24(%%rbp)\n\t"
                     "mov %%r8, 32(%%rbp)\n\t"
                     "mov %%r9, 40(%%rbp)\n\t"
                     "mov %%rbx, 48(%%rbp)\n\t"
                     "mov %%r12, 56(%%rbp)\n\t"
                     "mov %%r13, 64(%%rbp)\n\t"
                     "mov %%r14, 72(%%rbp)\n\t"
                     "mov %%r15, 80(%%rbp)\n\t"
                     "pop %%rdi\n\t"
                     "movdqu %%xmm6, 32(%%rdi)\n\t"
                     "movdqu %%xmm15, 48(%%rdi)\n\t"
                     "pop %%rbp\n\t"
                     : "=a"(result)
                     : "0"(number), [registers] "c"(registers), [vectors] "d"(vectors)
                     : "rdi", "rsi", "r8", "r9", "r10", "r11", "rbx", "r12", "r13", "r14", "r15", "xmm6", "xmm15",
                       "memory", "cc");
    return result;
}

static void one(const char *name, long number, long a, long b, long c, long d, long e, long f) {
    uint64_t before[REGISTERS] = {a, b, c, d, e, f, 0x1111, 0x2222, 0x3333, 0x4444, 0x5555}, after[REGISTERS];
    char vectors[64] = "what stands in the two vector registers";
    memcpy(after, before, sizeof before);
    long result = call(number, after, vectors);
    if (result >= -4095 && result < 0)
        printf("%s: %s\n", name, strerrorname_np((int)-result));
    else
        printf("%s: %ld\n", name, result);
    for (int i = 0; i < REGISTERS; i++)
        if (before[i] != after[i]) printf("  %s: %lx -> %lx\n", names[i], (long)before[i], (long)after[i]);
    if (memcmp(vectors, vectors + 32, 32)) printf("  vector registers changed\n");
}

static _Atomic uint32_t word;
static uint64_t all = ~0ull, set, old;
static struct timespec brief = {0, 1000000}, none;
struct sigset_and_size {
    uint64_t *set;
    uint64_t size;
} pair = {&all, 8};

// Arguments that a call does not use have this value. The library must not take it for a mark, or leave a mark there.
#define X 0x5a5a5a5a5a5a5a5a

static void calls(void) {
    for (int round = 0; round < 2; round++) {
        one("wake", SYS_futex, (long)&word, FUTEX_WAKE_PRIVATE, 1, X, X, X);
        one("wait, differs", SYS_futex, (long)&word, FUTEX_WAIT_PRIVATE, 1, 0, X, X);
        one("wait, timeout", SYS_futex, (long)&word, FUTEX_WAIT_PRIVATE, 0, (long)&brief, X, X);
        one("wake, shared", SYS_futex, (long)&word, FUTEX_WAKE, 1, X, X, X);
        one("requeue", SYS_futex, (long)&word, FUTEX_CMP_REQUEUE_PRIVATE, 1, 1, (long)(&word + 1), 0);
        one("unlock, not ours", SYS_futex, (long)&word, FUTEX_UNLOCK_PI_PRIVATE, X, X, X, X);
        one("futex_wake", SYS_futex2_wake, (long)&word, 1, 1, FUTEX2_U32 | FUTEX2_PRIV, X, X);
        one("futex_waitv", SYS_futex_waitv, 0, 1, 0, 0, 0, X);
        one("block all", SYS_rt_sigprocmask, SIG_BLOCK, (long)&all, (long)&set, 8, X, X);
        one("block all again", SYS_rt_sigprocmask, SIG_SETMASK, (long)&all, (long)&old, 8, X, X);
        one("wake, all blocked", SYS_futex, (long)&word, FUTEX_WAKE_PRIVATE, 1, X, X, X);
        one("unblock", SYS_rt_sigprocmask, SIG_SETMASK, (long)&set, 0, 8, X, X);
        one("sigaction", SYS_rt_sigaction, SIGUSR1, 0, (long)&(char[64]){0}, 8, X, X);
        one("ppoll", SYS_ppoll, 0, 0, (long)&none, (long)&all, 8, X);
        one("pselect", SYS_pselect6, 0, 0, 0, 0, (long)&none, (long)&pair);
        one("epoll_pwait", SYS_epoll_pwait, -1, (long)&(char[64]){0}, 1, 0, (long)&all, 8);
        one("execve, nothing", SYS_execve, (long)"/nonexistent", (long)&(char *[]){"x", NULL}, (long)&(char *[]){NULL}, X, X, X);
        one("execveat, nothing", SYS_execveat, -1, (long)"/nonexistent", (long)&(char *[]){"x", NULL}, (long)&(char *[]){NULL}, 0, X);
        one("prctl", SYS_prctl, 78, 99, 0, 0, 0, X);
        one("sched_yield", SYS_sched_yield, X, X, X, X, X, X);
        // A mark left in a register would make this block SIGSYS, by which a trap works.
        one("block all", SYS_rt_sigprocmask, SIG_BLOCK, (long)&all, (long)&set, 8, X, X);
        one("wake, all blocked", SYS_futex, (long)&word, FUTEX_WAKE_PRIVATE, 1, X, X, X);
        one("unblock", SYS_rt_sigprocmask, SIG_SETMASK, (long)&set, 0, 8, X, X);
    }
}

#ifndef SS_AUTODISARM
#define SS_AUTODISARM (1U << 31)
#endif

// For any handler the kernel takes such a stack out of use. sigreturn puts it back.
static void alternate_stack_stays(void) {
    static char memory[1 << 16];
    stack_t stack = {.ss_sp = memory, .ss_flags = (int)SS_AUTODISARM, .ss_size = sizeof memory}, found;
    CHECK_EQ(sigaltstack(&stack, NULL), 0);
    for (int round = 0; round < 2; round++) {
        one("wake", SYS_futex, (long)&word, FUTEX_WAKE_PRIVATE, 1, X, X, X);
        CHECK_EQ(sigaltstack(NULL, &found), 0);
        CHECK(found.ss_sp == memory);
        CHECK_EQ(found.ss_size, sizeof memory);
        CHECK_EQ((unsigned)found.ss_flags, SS_AUTODISARM);
    }
    stack.ss_flags = SS_DISABLE;
    CHECK_EQ(sigaltstack(&stack, NULL), 0);
}

MAIN(CASE(calls), CASE(alternate_stack_stays))
#else
int main(void) {
    fprintf(stderr, "written for x86-64\n");
    return SKIPPED;
}
#endif
