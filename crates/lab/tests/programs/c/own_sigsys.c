// SIGSYS that the program itself causes: by its own seccomp filter, and by Syscall User Dispatch.
#include "futex.h"
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <ucontext.h>

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#endif

static volatile sig_atomic_t times, code, number;

static void handler(int signal, siginfo_t *info, void *context) {
    (void)signal;
    times++;
    code = info->si_code;
    number = info->si_syscall;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RAX] = 4711;
}

static void handle(void) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    CHECK_EQ(sigaction(SIGSYS, &action, NULL), 0);
}

static void apply(struct sock_filter *program, unsigned short length) {
    struct sock_fprog whole = {length, program};
    CHECK_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &whole, 0, 0)) {
        perror("seccomp");
        _exit(SKIPPED);
    }
}

// Traps this system call from now on.
static void trap(int nr) {
    struct sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP | 7),
    };
    apply(program, sizeof program / sizeof *program);
}

// Traps this system call from now on if the upper half of this argument is not 0.
static void trap_upper_half(int nr, int argument) {
    struct sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 2),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args) + 8 * argument + 4),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP | 7),
    };
    apply(program, sizeof program / sizeof *program);
}

// Traps all system calls from now on except the return from a handler, and those that end the process or print why.
static void trap_all(void) {
    struct sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP | 7),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    apply(program, sizeof program / sizeof *program);
}

// The handler makes the trapped call, on threads that use futexes meanwhile.
static void *calls(void *argument) {
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    (void)argument;
    for (int i = 0; i < 200; i++) {
        CHECK_EQ(pthread_mutex_lock(&mutex), 0);
        CHECK_EQ(syscall(SYS_getpgid, 0), 4711);
        CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
    }
    return NULL;
}

static void handled(void) {
    handle();
    trap(SYS_getpgid);
    on_threads(4, calls);
    printf("code %d number is getpgid %d\n", code, number == SYS_getpgid);
}

static void not_handled(void) {
    pid_t child = fork();
    if (!child) {
        trap(SYS_getpgid);
        syscall(SYS_getpgid, 0);
        _exit(1);
    }
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    printf("ended by %s\n", WIFSIGNALED(status) ? sigabbrev_np(WTERMSIG(status)) : "itself");
}

// Traps nearly all calls, including those that the library's handler of SIGSYS makes.
static void everything(void) {
    pid_t child = fork();
    if (!child) {
        handle();
        trap_all();
        syscall(SYS_getpgid, 0);
        _exit(4);
    }
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    printf("ended by %s\n", WIFSIGNALED(status) ? sigabbrev_np(WTERMSIG(status)) : "itself");
}

// With --trap the library makes these calls again, with a mark in an argument of which the kernel reads nothing, or
// only the lower half. A filter that checks whole arguments passes the program's call and stops the marked one.
static void marked(void) {
    static const uint64_t empty;
    static const struct timespec now;
    static uint32_t words[2];
    const uint64_t mask[2] = {(uint64_t)&empty, sizeof empty};
    const struct {
        const char *name;
        int number, argument;
        long arguments[6];
    } calls[] = {
        {"pselect6", SYS_pselect6, 0, {0, 0, 0, 0, (long)&now, (long)mask}},
        {"epoll_pwait", SYS_epoll_pwait, 0, {0, 0, 0, 0, (long)&empty, sizeof empty}},
        {"epoll_pwait2", 441, 0, {0, 0, 0, (long)&now, (long)&empty, sizeof empty}},
        // The kernel refuses these arguments and makes no thread.
        {"clone", SYS_clone, 0, {CLONE_VM | CLONE_THREAD, 0, 0, 0, 0, 0}},
        {"clone3", SYS_clone3, 3, {0, 0, 0, 0, 0, 0}},
        {"futex", SYS_futex, 2, {(long)&words[0], FUTEX_CMP_REQUEUE_PI_PRIVATE, 1, 0, (long)&words[1], 0}},
    };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        pid_t child = fork();
        if (!child) {
            handle();
            trap_upper_half(calls[i].number, calls[i].argument);
            const long *a = calls[i].arguments;
            syscall(calls[i].number, a[0], a[1], a[2], a[3], a[4], a[5]);
            _exit(times ? 4 : 0);
        }
        int status;
        CHECK_EQ(waitpid(child, &status, 0), child);
        const char *itself = WEXITSTATUS(status) ? "itself, after its handler" : "itself";
        printf("%s: ended by %s\n", calls[i].name, WIFSIGNALED(status) ? sigabbrev_np(WTERMSIG(status)) : itself);
    }
}

// A sandbox makes its program's mmap calls in the handler, marked by the descriptor, which the kernel ignores here. A
// library in the process makes such calls too, and its calls must get their results at once.
#define MARKED 4711

static void makes(int signal, siginfo_t *info, void *context) {
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    (void)signal;
    times++;
    CHECK_EQ(info->si_syscall, SYS_mmap);
    CHECK(registers[REG_R10] & MAP_ANONYMOUS);
    registers[REG_RAX] = instruction(SYS_mmap, registers[REG_RDI], registers[REG_RSI], registers[REG_RDX],
                                     registers[REG_R10], MARKED, registers[REG_R9]);
}

static void emulated(void) {
    struct sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 2),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args) + 8 * 4),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MARKED, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP | 7),
    };
    pid_t child = fork();
    if (!child) {
        struct sigaction action = {.sa_sigaction = makes, .sa_flags = SA_SIGINFO};
        CHECK_EQ(sigaction(SIGSYS, &action, NULL), 0);
        apply(program, sizeof program / sizeof *program);
        CHECK(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
        CHECK(times > 0);
        // The first wait of a process.
        struct timespec soon = {0, 1000000};
        uint32_t word = 0;
        show(syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &soon, NULL, 0), "futex");
        fflush(stdout);
        _exit(0);
    }
    reap(child, 0);
}

static volatile char selector;

static void allows(int signal, siginfo_t *info, void *context) {
    selector = 0;
    handler(signal, info, context);
}

// Calls are dispatched to the handler, which then allows them.
static void dispatch(void) {
    struct sigaction action = {.sa_sigaction = allows, .sa_flags = SA_SIGINFO};
    CHECK_EQ(sigaction(SIGSYS, &action, NULL), 0);
    if (prctl(PR_SET_SYSCALL_USER_DISPATCH, 1, 0, 0, &selector)) {
        printf("dispatch: %s\n", errno == EINVAL ? "EINVAL" : strerror(errno));
        return;
    }
    selector = 1;
    long result = syscall(SYS_getpgid, 0);
    selector = 0;
    CHECK_EQ(prctl(PR_SET_SYSCALL_USER_DISPATCH, 0, 0, 0, 0), 0);
    printf("dispatch: %ld, %d times, code %d\n", result, times, code);
}

MAIN(CASE(not_handled), CASE(everything), CASE(marked), CASE(emulated), CASE(dispatch), CASE(handled))
