// Threads of a process give up rights with a timer armed. Afterwards no thread of the process has more rights than the
// calling thread, and the timer still works. Each case runs in a process of its own. In a process without such rights
// the calls fail, and the failures are compared.
#include "timers.h"
#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/securebits.h>
#include <sched.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>

#if __has_include(<linux/landlock.h>)
#include <linux/landlock.h>
#else
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_restrict_self 446
#define LANDLOCK_ACCESS_FS_MAKE_SOCK (1ULL << 9)
struct landlock_ruleset_attr {
    uint64_t handled_access_fs;
};
#endif

#define NOBODY 65534

static atomic_int ticks;
static void tick(int signal, siginfo_t *info, void *context) { (void)signal, (void)info, (void)context, ticks++; }

static void goes_on(void) {
    int before = ticks;
    struct timespec end = in_ms(CLOCK_MONOTONIC, 10000);
    while (ticks < before + 3) {
        if (passed(CLOCK_MONOTONIC, &end)) fail(__FILE__, __LINE__, "the timer goes on", ticks, before);
        nap_us(1000);
    }
}

typedef struct {
    char users[3][200];
    unsigned long sets[5], no_new_privs, seccomp;
    char namespaces[8][64];
} Rights;

static const char *USERS[] = {"Uid:", "Gid:", "Groups:"};
static const char *SETS[] = {"CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"};
static const char *NAMESPACES[] = {"user", "mnt", "net", "ipc", "uts", "cgroup", "pid", "time"};

// Reads the rights of a thread. Returns 0 if it has ended.
static int read_rights(const char *thread, Rights *rights) {
    char path[300], line[400];
    snprintf(path, sizeof path, "/proc/self/task/%s/status", thread);
    FILE *file = fopen(path, "r");
    if (!file) return 0;
    memset(rights, 0, sizeof *rights);
    int fields = 0;
    while (fgets(line, sizeof line, file)) {
        for (int i = 0; i < 3; i++)
            if (!strncmp(line, USERS[i], strlen(USERS[i]))) fields++, snprintf(rights->users[i], 200, "%.199s", line);
        for (int i = 0; i < 5; i++)
            if (!strncmp(line, SETS[i], strlen(SETS[i]))) fields++, rights->sets[i] = strtoul(line + 7, NULL, 16);
        if (!strncmp(line, "NoNewPrivs:", 11)) fields++, rights->no_new_privs = strtoul(line + 11, NULL, 10);
        if (!strncmp(line, "Seccomp:", 8)) fields++, rights->seccomp = strtoul(line + 8, NULL, 10);
    }
    fclose(file);
    for (int i = 0; i < 8; i++) {
        snprintf(path, sizeof path, "/proc/self/task/%s/ns/%s", thread, NAMESPACES[i]);
        if (readlink(path, rights->namespaces[i], 63) < 0) rights->namespaces[i][0] = 0;
    }
    return fields == 10;
}

// Checks that no thread has a right that the calling thread does not have. Returns the number of threads.
static int look(void) {
    char name[20];
    Rights ours, theirs;
    snprintf(name, sizeof name, "%d", gettid());
    CHECK(read_rights(name, &ours));
    DIR *threads = opendir("/proc/self/task");
    CHECK(threads);
    int count = 0;
    for (struct dirent *entry; (entry = readdir(threads));) {
        if (entry->d_name[0] == '.' || !read_rights(entry->d_name, &theirs)) continue;
        count++;
        for (int i = 0; i < 3; i++)
            if (strcmp(ours.users[i], theirs.users[i])) {
                dprintf(2, "a thread has\n%s, the caller has\n%s", theirs.users[i], ours.users[i]);
                _exit(98);
            }
        for (int i = 0; i < 5; i++) CHECK_EQ(theirs.sets[i] & ~ours.sets[i], 0);
        CHECK(theirs.no_new_privs >= ours.no_new_privs);
        CHECK(theirs.seccomp >= ours.seccomp);
        for (int i = 0; i < 8; i++)
            if (theirs.namespaces[i][0] && ours.namespaces[i][0])
                CHECK(!strcmp(theirs.namespaces[i], ours.namespaces[i]));
    }
    closedir(threads);
    return count;
}

// A thread that is not the program's has no capabilities from its start.
static void look_at_strangers(void) {
    DIR *threads = opendir("/proc/self/task");
    CHECK(threads);
    for (struct dirent *entry; (entry = readdir(threads));) {
        char path[300], name[32] = "";
        Rights rights;
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
        FILE *file = fopen(path, "r");
        if (!file) continue;
        CHECK(fgets(name, sizeof name, file));
        fclose(file);
        if (strcmp(name, "ufutex-timers\n") || !read_rights(entry->d_name, &rights)) continue;
        CHECK_EQ(rights.sets[0] | rights.sets[1] | rights.sets[2] | rights.sets[4], 0);
        CHECK_EQ(rights.no_new_privs, 1);
    }
    closedir(threads);
}

static void arm(void) {
    handle(SIGALRM, tick, SA_RESTART);
    timer_t timer = signalling(CLOCK_MONOTONIC, SIGALRM, 0);
    set_us(timer, 1000, 1000);
    goes_on();
    look_at_strangers();
    look();
}

static void *stays(void *unused) {
    for (;;) pause();
    return unused;
}

static void in_child(void (*body)(void)) {
    fflush(stdout);
    pid_t child = fork();
    CHECK(child >= 0);
    if (!child) {
        arm();
        body();
        fflush(stdout);
        _exit(0);
    }
    reap(child, 0);
}

static void after(const char *what, long result) {
    show(result, "%s", what);
    look();
    goes_on();
    look();
}

#ifdef BY_INSTRUCTION
// The instruction affects only the calling thread, so the program has no other threads here.
#define THREADS 0
#define setuid(user) sys(SYS_setuid, user, 0, 0, 0, 0, 0)
#define setgid(group) sys(SYS_setgid, group, 0, 0, 0, 0, 0)
#define seteuid(user) sys(SYS_setresuid, -1, user, -1, 0, 0, 0)
#define setegid(group) sys(SYS_setresgid, -1, group, -1, 0, 0, 0)
#define setreuid(real, effective) sys(SYS_setreuid, real, effective, 0, 0, 0, 0)
#define setregid(real, effective) sys(SYS_setregid, real, effective, 0, 0, 0, 0)
#define setresuid(real, effective, saved) sys(SYS_setresuid, real, effective, saved, 0, 0, 0)
#define setresgid(real, effective, saved) sys(SYS_setresgid, real, effective, saved, 0, 0, 0)
#define setgroups(count, list) sys(SYS_setgroups, count, ARGUMENT(list), 0, 0, 0, 0)
#define setfsuid(user) sys(SYS_setfsuid, user, 0, 0, 0, 0, 0)
#define setfsgid(group) sys(SYS_setfsgid, group, 0, 0, 0, 0, 0)
#define unshare(flags) sys(SYS_unshare, flags, 0, 0, 0, 0, 0)
#define setns(fd, kind) sys(SYS_setns, fd, kind, 0, 0, 0, 0)
#define prctl(op, a, b, c, d) sys(SYS_prctl, op, ARGUMENT(a), ARGUMENT(b), c, d, 0)
#else
#define THREADS 2
#endif

static void with_threads(void) {
    for (int i = 0; i < THREADS; i++) start(stays, NULL);
}

static void drop_all(void) {
    with_threads();
    after("setgroups", setgroups(0, NULL));
    after("setgid", setgid(NOBODY));
    after("setuid", setuid(NOBODY));
    after("setuid 0", setuid(0));
}
static void drop_saved(void) {
    with_threads();
    after("setresgid", setresgid(NOBODY, NOBODY, NOBODY));
    after("setresuid", setresuid(NOBODY, NOBODY, NOBODY));
}
static void drop_real(void) {
    with_threads();
    after("setregid", setregid(NOBODY, NOBODY));
    after("setreuid", setreuid(NOBODY, NOBODY));
}
static void drop_effective(void) {
    with_threads();
    gid_t groups[] = {NOBODY, 12};
    after("setgroups", setgroups(2, groups));
    after("setegid", setegid(NOBODY));
    after("seteuid", seteuid(NOBODY));
    after("seteuid back", seteuid(getuid()));
    after("setegid back", setegid(getgid()));
}
static void drop_groups_by_name(void) {
    with_threads();
#ifndef BY_INSTRUCTION
    after("initgroups", initgroups("nobody", NOBODY));
#endif
}
static void drop_of_files(void) {
    setfsgid(NOBODY);
    after("setfsgid", setfsgid(-1));
    setfsuid(NOBODY);
    after("setfsuid", setfsuid(-1));
}
static void drop_by_syscall(void) {
    // These affect only the calling thread.
    after("SYS_setresuid", sys(SYS_setresuid, -1, NOBODY, -1, 0, 0, 0));
    after("SYS_setuid", sys(SYS_setuid, NOBODY, 0, 0, 0, 0, 0));
}

static long capabilities(unsigned effective) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2];
    CHECK_EQ(syscall(SYS_capget, &header, data), 0);
    data[0].effective &= effective, data[0].permitted &= effective, data[0].inheritable &= effective;
    data[1] = (struct __user_cap_data_struct){0};
#ifdef BY_INSTRUCTION
    return sys(SYS_capset, ARGUMENT(&header), ARGUMENT(data), 0, 0, 0, 0);
#else
    extern int capset(cap_user_header_t, const cap_user_data_t);
    return capset(&header, data);
#endif
}
static void drop_capabilities(void) {
    after("capset some", capabilities(~(1u << CAP_CHOWN)));
    after("PR_CAP_AMBIENT", prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0));
    after("PR_CAPBSET_DROP", prctl(PR_CAPBSET_DROP, CAP_KILL, 0, 0, 0));
    after("PR_SET_KEEPCAPS", prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0));
    after("PR_SET_SECUREBITS", prctl(PR_SET_SECUREBITS, SECBIT_NOROOT, 0, 0, 0));
    after("capset none", capabilities(0));
}
#ifdef BY_INSTRUCTION
#undef prctl
#define prctl(op, a, b, c, d) sys(SYS_prctl, op, ARGUMENT(a), ARGUMENT(b), c, d, 0)
#endif

static struct sock_filter deny_getcpu[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getcpu, 0, 1),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
};
static struct sock_fprog filter = {sizeof deny_getcpu / sizeof *deny_getcpu, deny_getcpu};

static void filter_by_prctl(void) {
    after("PR_SET_NO_NEW_PRIVS", prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    after("PR_SET_SECCOMP", prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0));
    after("getcpu", syscall(SYS_getcpu, NULL, NULL, NULL));
}
static void filter_by_seccomp(void) {
    after("PR_SET_NO_NEW_PRIVS", prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    after("seccomp", sys(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, ARGUMENT(&filter), 0, 0, 0));
    with_threads();
    after("seccomp TSYNC",
          sys(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, ARGUMENT(&filter), 0, 0, 0));
}

// For processes with a single thread.
static void namespace_of_users(void) { after("unshare", unshare(CLONE_NEWUSER)); }
static void namespaces(void) {
    char here[] = "/proc/self/ns/net";
    int net = open(here, O_RDONLY | O_CLOEXEC);
    CHECK(net >= 0);
    after("unshare", unshare(CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWIPC));
    after("setns", setns(net, CLONE_NEWNET));
    after("unshare of children", unshare(CLONE_NEWPID));
}
static void landlocked(void) {
    struct landlock_ruleset_attr rules = {.handled_access_fs = LANDLOCK_ACCESS_FS_MAKE_SOCK};
    int ruleset = (int)syscall(SYS_landlock_create_ruleset, &rules, sizeof rules, 0);
    after("PR_SET_NO_NEW_PRIVS", prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    // The kernel may lack Landlock.
    after("landlock_restrict_self", sys(SYS_landlock_restrict_self, ruleset, 0, 0, 0, 0, 0));
}

// The child of vfork shares its parent's memory and has its own credentials.
static void borrowed(void) {
    pid_t child = vfork();
    CHECK(child >= 0);
    if (!child) {
        sys(SYS_setuid, NOBODY, 0, 0, 0, 0, 0);
        _exit(0);
    }
    reap(child, 0);
    after("setuid in a child", 0);
}

// Threads make timers while others change credentials.
static atomic_int stop;
static void *makes(void *unused) {
    while (!stop) {
        timer_t timer = signalling(CLOCK_MONOTONIC, SIGALRM, 0);
        set_us(timer, 200, 0);
        nap_us(100);
        CHECK_EQ(take_away(timer), 0);
    }
    return unused;
}
static void meanwhile(void) {
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) threads[i] = start(makes, NULL);
    int failed = 0;
    for (int i = 0; i < 40; i++) {
        failed |= seteuid(i % 2 ? getuid() : NOBODY);
#ifndef BY_INSTRUCTION
        look();
#endif
    }
    stop = 1;
    for (int i = 0; i < 3; i++) join(threads[i]);
    after("seteuid meanwhile", failed);
}

#define FORKED(name) \
    static void in_a_child_##name(void) { in_child(name); }
FORKED(drop_all) FORKED(drop_saved) FORKED(drop_real) FORKED(drop_effective) FORKED(drop_groups_by_name)
FORKED(drop_of_files) FORKED(drop_by_syscall) FORKED(drop_capabilities) FORKED(filter_by_prctl) FORKED(filter_by_seccomp)
FORKED(namespace_of_users) FORKED(namespaces) FORKED(landlocked) FORKED(borrowed) FORKED(meanwhile)
#define FORKED_CASE(name) {#name, in_a_child_##name}

MAIN(FORKED_CASE(drop_all), FORKED_CASE(drop_saved), FORKED_CASE(drop_real), FORKED_CASE(drop_effective),
     FORKED_CASE(drop_groups_by_name), FORKED_CASE(drop_of_files), FORKED_CASE(drop_by_syscall),
     FORKED_CASE(drop_capabilities), FORKED_CASE(filter_by_prctl), FORKED_CASE(filter_by_seccomp),
     FORKED_CASE(namespace_of_users), FORKED_CASE(namespaces), FORKED_CASE(landlocked), FORKED_CASE(borrowed),
     FORKED_CASE(meanwhile))
