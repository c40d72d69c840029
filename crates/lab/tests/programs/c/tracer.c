// Traces itself in several ways. Prints the signals and exits that the tracer sees.
#include "check.h"
#include <sys/ptrace.h>

static pid_t traced;

// The traced program: threads take turns, and a signal is sent.
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turned = PTHREAD_COND_INITIALIZER;
static long turn;

static void *takes_turns(void *number) {
    for (long i = (long)number; i < 200; i += 2) {
        CHECK_EQ(pthread_mutex_lock(&mutex), 0);
        while (turn != i) CHECK_EQ(pthread_cond_wait(&turned, &mutex), 0);
        turn++;
        CHECK_EQ(pthread_cond_signal(&turned), 0);
        CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
    }
    return NULL;
}

static int to_be_traced(void) {
    on_threads(2, takes_turns);
    CHECK_EQ(signal(SIGUSR2, SIG_IGN) == SIG_ERR, 0);
    CHECK_EQ(raise(SIGUSR2), 0);
    printf("%ld turns\n", turn);
    return 3;
}

// Prints the stops by signals until the program has ended. Bit 7 of the signal marks the stop of a system call.
static void follow(enum __ptrace_request request) {
    int status, stops = 0, calls = 0;
    CHECK_EQ(waitpid(traced, &status, 0), traced);
    CHECK(WIFSTOPPED(status));
    printf("first stop: %s\n", sigabbrev_np(WSTOPSIG(status)));
    CHECK_EQ(ptrace(PTRACE_SETOPTIONS, traced, 0, PTRACE_O_TRACECLONE | PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL), 0);
    CHECK_EQ(ptrace(request, traced, 0, 0), 0);
    for (;;) {
        pid_t thread = waitpid(-1, &status, __WALL);
        CHECK(thread > 0);
        if (!WIFSTOPPED(status)) {
            if (thread != traced) continue;
            printf("ended by status %d after %d signals%s\n", WEXITSTATUS(status), stops, calls ? " and calls" : "");
            return;
        }
        int signal = WSTOPSIG(status);
        calls += signal == (SIGTRAP | 0x80);
        // New threads begin with SIGSTOP, and ptrace events are SIGTRAP.
        int passed = signal == SIGSTOP || signal == SIGTRAP || signal == (SIGTRAP | 0x80) ? 0 : signal;
        if (passed) printf("signal %s, %d\n", sigabbrev_np(passed), ++stops);
        CHECK_EQ(ptrace(request, thread, 0, passed), 0);
    }
}

static void execute(void) {
    sigset_t none;
    sigemptyset(&none);
    ptrace(PTRACE_TRACEME, 0, 0, 0);
    signal(SIGUSR1, SIG_IGN);
    sigprocmask(SIG_SETMASK, &none, NULL);
    char *arguments[] = {"tracer", "traced", NULL};
    execv("/proc/self/exe", arguments);
    _exit(98);
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
static void by_vfork(void) {
    traced = vfork();
    if (!traced) execute();
    follow(PTRACE_CONT);
}
#pragma GCC diagnostic pop

static void by_fork(void) {
    traced = fork();
    if (!traced) execute();
    follow(PTRACE_CONT);
}

// A tracer that makes no call of ptrace(2) before the child's first stop, which is the first of all.
static void by_its_child(void) {
    traced = fork();
    if (!traced) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        char *arguments[] = {"tracer", "traced", NULL};
        execv("/proc/self/exe", arguments);
        _exit(98);
    }
    int status;
    for (int stops = 0;;) {
        CHECK_EQ(waitpid(traced, &status, 0), traced);
        if (WIFEXITED(status)) {
            printf("ended by status %d after %d stops\n", WEXITSTATUS(status), stops);
            return;
        }
        printf("stop %d: %s\n", ++stops, sigabbrev_np(WSTOPSIG(status)));
        CHECK_EQ(ptrace(PTRACE_CONT, traced, 0, WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status)), 0);
    }
}

// As many small tracers begin.
static void by_stop(void) {
    traced = fork();
    if (!traced) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        raise(SIGSTOP);
        char *arguments[] = {"tracer", "traced", NULL};
        execv("/proc/self/exe", arguments);
        _exit(98);
    }
    follow(PTRACE_CONT);
}

static void by_calls(void) {
    traced = fork();
    if (!traced) execute();
    follow(PTRACE_SYSCALL);
}

// Like `follow`, but by waitid.
static void by_waitid(void) {
    siginfo_t info;
    traced = fork();
    if (!traced) execute();
    for (int stops = 0;;) {
        memset(&info, 0, sizeof info);
        CHECK_EQ(waitid(P_PID, traced, &info, WEXITED | WSTOPPED), 0);
        if (info.si_code != CLD_TRAPPED) {
            printf("ended by code %d status %d after %d stops\n", info.si_code, info.si_status, stops);
            return;
        }
        printf("stop %d: %s\n", ++stops, sigabbrev_np(info.si_status));
        CHECK_EQ(ptrace(PTRACE_CONT, traced, 0, info.si_status == SIGTRAP ? 0 : info.si_status), 0);
    }
}

int main(int argc, char **argv) {
    if (argc > 1) return to_be_traced();
    static const Case cases[] = {CASE(by_its_child), CASE(by_vfork), CASE(by_fork), CASE(by_stop), CASE(by_calls), CASE(by_waitid)};
    return run_cases(cases, sizeof cases / sizeof *cases, 1, argv);
}
