// The strict mode of seccomp(2), entered in each way in a child. It permits only read, write, exit and sigreturn.
#include "futex.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

static void confined(const char *name, long (*enters)(void)) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (!child) instruction(SYS_exit, enters() ? 4 : 3, 0, 0, 0, 0, 0);
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    printf("%s: %s %d\n", name, WIFEXITED(status) ? "status" : "signal", WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
}

static long enters_by_prctl(void) { return prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0); }
static long enters_by_seccomp(void) { return syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, NULL); }
static long enters_by_instruction(void) {
    return instruction(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0, 0);
}

static void by_prctl(void) { confined("prctl", enters_by_prctl); }
static void by_seccomp(void) { confined("seccomp", enters_by_seccomp); }
static void by_instruction(void) { confined("instruction", enters_by_instruction); }

// By such a call, which the kernel refuses, libseccomp finds out whether there is a seccomp(2).
static void probed(void) {
    show(syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 1, NULL), "with a flag");
    show(syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, "filter"), "with a filter");
}

static long has_a_filter(void) {
    struct sock_filter allow[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog filter = {1, allow};
    CHECK_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    CHECK_EQ(instruction(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, (long)&filter, 0, 0, 0), 0);
    CHECK_ERRNO(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0), EINVAL);
    return 1;
}

// The kernel refuses the mode to a process that has a filter of its own.
static void refused(void) { confined("with a filter of its own", has_a_filter); }

MAIN(CASE(probed), CASE(refused), CASE(by_prctl), CASE(by_seccomp), CASE(by_instruction))
