// Programs started from a threaded program: by vfork, posix_spawn, system and popen, and by execve of itself or a
// script, after fork and clone3, with and without the environment. They run as they would have, on the engine or not.
#include "futex.h"
#include <fcntl.h>
#include <semaphore.h>
#include <spawn.h>
#include <sys/stat.h>

#define THREADS 2

extern char **environ;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static _Atomic uint32_t word;
static atomic_int over;
static int stage;
static char self[1000];

static void *hammers(void *unused) {
    while (!over) {
        wake(&word, 1);
        struct timespec soon = {0, 100000};
        futex(&word, FUTEX_WAIT_PRIVATE, 0, &soon, NULL, 0);
        CHECK_EQ(pthread_mutex_lock(&mutex), 0);
        CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
    }
    return unused;
}

static void *answers(void *unused) {
    CHECK_EQ(pthread_mutex_lock(&mutex), 0);
    while (stage != 1) CHECK_EQ(pthread_cond_wait(&condition, &mutex), 0);
    stage = 2;
    CHECK_EQ(pthread_cond_signal(&condition), 0);
    CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
    return unused;
}

#define WITH_ALL_BLOCKED 37

// The started program: a minimal threaded program with the signal mask of the thread that started it.
static int started(const char *status) {
    sigset_t mask;
    CHECK_EQ(pthread_sigmask(SIG_BLOCK, NULL, &mask), 0);
    for (int i = 1; i < 32; i++)
        if (i != SIGSYS && i != SIGKILL && i != SIGSTOP) CHECK_EQ(sigismember(&mask, i), atoi(status) == WITH_ALL_BLOCKED);
    for (stage = 0; stage < 1;) {
        CHECK_EQ(pthread_mutex_lock(&mutex), 0);
        pthread_t thread = start(answers, NULL);
        stage = 1;
        CHECK_EQ(pthread_cond_signal(&condition), 0);
        while (stage != 2) CHECK_EQ(pthread_cond_wait(&condition, &mutex), 0);
        CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
        join(thread);
    }
    CHECK_EQ(wake(&word, 1), 0);
    if (getenv("OF_THE_PARENT")) printf("OF_THE_PARENT=%s\n", getenv("OF_THE_PARENT"));
    return atoi(status);
}

static void run(int count, pid_t (*starts)(char *const *), int status) {
    char text[16];
    snprintf(text, sizeof text, "%d", status);
    char *const arguments[] = {self, "started", text, NULL};
    for (int i = 0; i < count; i++) {
        pid_t child = starts(arguments);
        CHECK(child > 0);
        reap(child, status);
    }
}

static void interrupted(int signal) { (void)signal; }

static pid_t vforks(char *const *arguments) {
    pid_t child = vfork();
    if (!child) {
        execv(self, arguments);
        _exit(127);
    }
    return child;
}

static pid_t forks(char *const *arguments) {
    pid_t child = fork();
    if (!child) {
        execv(self, arguments);
        _exit(127);
    }
    return child;
}

static pid_t forks_without_environment(char *const *arguments) {
    pid_t child = fork();
    char *const none[] = {NULL};
    if (!child) {
        execve(self, arguments, none);
        _exit(127);
    }
    return child;
}

static pid_t forks_with_environment(char *const *arguments) {
    pid_t child = fork();
    char *const some[] = {"OF_THE_PARENT=new", NULL};
    if (!child) {
        execve(self, arguments, some);
        _exit(127);
    }
    return child;
}

static pid_t forks_with_all_blocked(char *const *arguments) {
    pid_t child = fork();
    if (!child) {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, NULL);
        execv(self, arguments);
        _exit(127);
    }
    return child;
}

// As posix_spawn of glibc 2.38 and later begins. Without clone3, or if a library refuses this flag, it does the same by
// other calls.
static pid_t clones_with_actions_cleared(char *const *arguments) {
    const uint64_t clear_sighand = 1ull << 32, fields[8] = {clear_sighand, 0, 0, 0, SIGCHLD};
    CHECK(signal(SIGUSR2, interrupted) != SIG_ERR);
    pid_t child = (pid_t)syscall(SYS_clone3, fields, sizeof fields);
    if (child == -1 && errno == ENOSYS) {
        child = fork();
        if (!child) signal(SIGUSR2, SIG_DFL);
    }
    if (!child) {
        struct sigaction action;
        sigset_t mask;
        if (sigaction(SIGUSR2, NULL, &action) || action.sa_handler != SIG_DFL) _exit(126);
        sigfillset(&mask);
        sigprocmask(SIG_UNBLOCK, &mask, NULL);
        execv(self, arguments);
        _exit(127);
    }
    return child;
}

static pid_t spawns(char *const *arguments) {
    pid_t child;
    CHECK_EQ(posix_spawn(&child, self, NULL, NULL, arguments, environ), 0);
    return child;
}

static pid_t spawns_with_attributes(char *const *arguments) {
    pid_t child;
    posix_spawnattr_t attributes;
    sigset_t all, none;
    sigfillset(&all), sigemptyset(&none);
    CHECK_EQ(posix_spawnattr_init(&attributes), 0);
    CHECK_EQ(posix_spawnattr_setsigdefault(&attributes, &all), 0);
    CHECK_EQ(posix_spawnattr_setsigmask(&attributes, &none), 0);
    CHECK_EQ(posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP), 0);
    CHECK_EQ(posix_spawn(&child, self, NULL, &attributes, arguments, environ), 0);
    return child;
}

static pthread_t threads[THREADS];

static void begin(void) {
    over = 0;
    for (int i = 0; i < THREADS; i++) threads[i] = start(hammers, NULL);
}

static void stop(void) {
    over = 1;
    for (int i = 0; i < THREADS; i++) join(threads[i]);
}

static void forked(void) { begin(), run(10, forks, 31), stop(); }
static void vforked(void) { begin(), run(10, vforks, 32), stop(); }
static void spawned(void) { begin(), run(10, spawns, 33), run(3, spawns_with_attributes, 34), stop(); }
static void without_environment(void) { begin(), run(3, forks_without_environment, 35), stop(); }
static void with_another_environment(void) { begin(), run(2, forks_with_environment, 36), stop(); }
static void with_all_blocked(void) { begin(), run(3, forks_with_all_blocked, WITH_ALL_BLOCKED), stop(); }

static void with_actions_cleared(void) { begin(), run(3, clones_with_actions_cleared, 44), stop(); }

static void by_a_shell(void) {
    begin();
    char line[5000];
    snprintf(line, sizeof line, "'%s' started 38", self);
    int status = system(line);
    CHECK_EQ(WEXITSTATUS(status), 38);
    snprintf(line, sizeof line, "OF_THE_PARENT=changed '%s' started 39; echo $?; env -i '%s' started 40; echo $?", self, self);
    FILE *pipe = popen(line, "r");
    CHECK(pipe);
    while (fgets(line, sizeof line, pipe)) printf("from popen: %s", line);
    CHECK_EQ(pclose(pipe), 0);
    stop();
}

static void scripts(void) {
    begin();
    char path[] = "/tmp/ufutex-script-XXXXXX", text[5000];
    int file = mkstemp(path);
    CHECK(file >= 0);
    int length = snprintf(text, sizeof text, "#!/bin/sh\n'%s' started 41\necho script $? \"$1\"\nexit 42\n", self);
    CHECK_EQ(write(file, text, length), length);
    CHECK_EQ(fchmod(file, 0700), 0);
    CHECK_EQ(close(file), 0);
    char *const arguments[] = {path, "argument", NULL};
    pid_t child = fork();
    CHECK(child >= 0);
    if (!child) {
        execv(path, arguments);
        _exit(127);
    }
    reap(child, 42);
    CHECK_EQ(unlink(path), 0);
    stop();
}

static void what_cannot_be_started(void) {
    begin();
    char *const arguments[] = {"nothing", NULL};
    CHECK_ERRNO(execv("/nonexistent/nothing", arguments), ENOENT);
    CHECK_ERRNO(execv("/etc/passwd", arguments), EACCES);
    pid_t child;
    show(posix_spawn(&child, "/nonexistent/nothing", NULL, NULL, arguments, environ), "posix_spawn of nothing");
    stop();
}

// execveat(2) with AT_EXECVE_CHECK executes nothing, so it may name any program. This one is not linked dynamically. Older
// kernels do not know the flag.
static void what_may_be_started(void) {
    const int execve_check = 0x10000;
    const unsigned char header[64] = {0x7f, 'E', 'L', 'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 62, 0, 1, [52] = 64, [54] = 56};
    char path[] = "/tmp/ufutex-static-XXXXXX";
    char *const arguments[] = {path, NULL};
    int file = mkstemp(path);
    CHECK(file >= 0);
    CHECK_EQ(write(file, header, sizeof header), (long)sizeof header);
    CHECK_EQ(close(file), 0);
    file = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(file >= 0);
    show(syscall(SYS_execveat, file, "", arguments, NULL, AT_EMPTY_PATH | execve_check), "without permission");
    CHECK_EQ(fchmod(file, 0700), 0);
    show(syscall(SYS_execveat, file, "", arguments, environ, AT_EMPTY_PATH | execve_check), "by descriptor");
    show(syscall(SYS_execveat, AT_FDCWD, path, arguments, NULL, execve_check), "by path");
    CHECK_EQ(close(file), 0);
    CHECK_EQ(unlink(path), 0);
}

// Executes the program itself, from a thread that is not the first, while others sleep.
static void *becomes_another(void *unused) {
    char *const arguments[] = {self, "started", "43", NULL};
    execv(self, arguments);
    return unused;
}

static void execs_from_a_thread(void) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (!child) {
        begin();
        start(becomes_another, NULL);
        for (;;) pause();
    }
    reap(child, 43);
}

static int cases(int argc, char **argv) {
    static const Case all[] = {CASE(forked),     CASE(vforked),  CASE(spawned), CASE(without_environment),
                               CASE(with_another_environment), CASE(with_all_blocked), CASE(with_actions_cleared),
                               CASE(by_a_shell), CASE(scripts), CASE(what_cannot_be_started), CASE(what_may_be_started),
                               CASE(execs_from_a_thread)};
    return run_cases(all, sizeof all / sizeof *all, argc, argv);
}

int main(int argc, char **argv) {
    if (argc == 3 && !strcmp(argv[1], "started")) return started(argv[2]);
    CHECK(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    return cases(argc, argv);
}
