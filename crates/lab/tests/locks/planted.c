// Programs with a culprit: `planted SHAPE`.
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t orders_lock = PTHREAD_MUTEX_INITIALIZER, brief_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t table_lock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER, second = PTHREAD_MUTEX_INITIALIZER,
                       third = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t arrived = PTHREAD_COND_INITIALIZER;
static struct pool {
    pthread_mutex_t lock;
    int taken;
} *pool;

static void rest(long ms) {
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

static __attribute__((noinline)) void take(struct pool *from) {
    pthread_mutex_lock(&from->lock);
    rest(4);
    from->taken++;
    pthread_mutex_unlock(&from->lock);
}

static __attribute__((noinline)) void order(void) {
    pthread_mutex_lock(&orders_lock);
    rest(1);
    pthread_mutex_unlock(&orders_lock);
}

static void *worker(void *name) {
    pthread_setname_np(pthread_self(), name);
    for (int i = 0; i < 20; i++) {
        take(pool);
        order();
        for (int j = 0; j < 100; j++) {
            pthread_mutex_lock(&brief_lock);
            pthread_mutex_unlock(&brief_lock);
        }
    }
    return NULL;
}

static void *clerk(void *name) {
    pthread_setname_np(pthread_self(), name);
    for (int i = 0; i < 20; i++) order();
    return NULL;
}

static void *reader(void *name) {
    pthread_setname_np(pthread_self(), name);
    for (int i = 0; i < 10; i++) {
        rest(1);
        pthread_rwlock_rdlock(&table_lock);
        pthread_rwlock_unlock(&table_lock);
    }
    return NULL;
}

static void *writer(void *name) {
    pthread_setname_np(pthread_self(), name);
    for (int i = 0; i < 10; i++) {
        pthread_rwlock_wrlock(&table_lock);
        rest(10);
        pthread_rwlock_unlock(&table_lock);
        rest(1);
    }
    return NULL;
}

static unsigned unwoken;

static __attribute__((noinline)) void wait_in_vain(void) {
    struct timespec soon = {0, 50000000};
    syscall(SYS_futex, &unwoken, FUTEX_WAIT_PRIVATE, 0, &soon, NULL, 0);
}

// Functions with frames of one size: both wait with one stack pointer.
static __attribute__((noinline)) void by_left(void) {
    __asm__ volatile("# left");
    wait_in_vain();
}
static __attribute__((noinline)) void by_right(void) {
    __asm__ volatile("# right");
    wait_in_vain();
}

static void *alternates(void *unused) {
    for (int i = 0; i < 20; i++) {
        by_left();
        by_right();
    }
    return unused;
}

static void on_signal(int signal) {
    (void)signal;
    wait_in_vain();
}

static __attribute__((noinline)) void is_interrupted(void) { raise(SIGUSR2); }

// Waits in a handler: on the thread's stack, then on the alternate one.
static void *waits_in_handlers(void *unused) {
    stack_t alternate = {.ss_sp = malloc(65536), .ss_size = 65536};
    sigaltstack(&alternate, NULL);
    for (int flags = 0; flags <= SA_ONSTACK; flags += SA_ONSTACK) {
        struct sigaction action = {.sa_handler = on_signal, .sa_flags = flags};
        sigaction(SIGUSR2, &action, NULL);
        for (int i = 0; i < 10; i++) is_interrupted();
    }
    return unused;
}

struct pair {
    pthread_mutex_t *has, *wants;
    const char *name;
    int done;
};

static __attribute__((noinline)) void lock_both(struct pair *locks) {
    pthread_mutex_lock(locks->has);
    rest(100);
    pthread_mutex_lock(locks->wants);
    locks->done = 1;
}

static void *crosses(void *pair) {
    struct pair *locks = pair;
    pthread_setname_np(pthread_self(), locks->name);
    lock_both(locks);
    return NULL;
}

static void *waits_for_arrival(void *name) {
    pthread_setname_np(pthread_self(), name);
    // The signal has come before, and nothing says so.
    rest(100);
    pthread_mutex_lock(&first);
    pthread_cond_wait(&arrived, &first);
    pthread_mutex_unlock(&first);
    return NULL;
}

static int words_each, visitors = 4;

// Waits once for each of its words, until a nanosecond is over.
static void *visits(void *first) {
    struct timespec soon = {0, 1};
    for (int *word = first, *end = word + words_each; word != end; word++)
        syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, 0, &soon, NULL, 0);
    __atomic_sub_fetch(&visitors, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

// Four threads visit their words. Nobody joins them, which would be a wait too.
static void visit_all(int words) {
    words_each = words;
    int *all = calloc(4 * words_each, sizeof *all);
    for (int i = 0; i < 4; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, visits, all + i * words_each)) abort();
        pthread_detach(thread);
    }
    while (__atomic_load_n(&visitors, __ATOMIC_SEQ_CST)) rest(1);
}

static void run(int count, void *(*body)(void *), void **arguments) {
    pthread_t threads[8];
    for (int i = 0; i < count; i++)
        if (pthread_create(&threads[i], NULL, body, arguments[i])) abort();
    for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
}

static void *taker(void *name) {
    pthread_setname_np(pthread_self(), name);
    for (int i = 0; i < 10; i++) take(pool);
    return NULL;
}

// A lock of which the kernel has the waiters.
static void in_kernel(const char *kind) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    if (!strcmp(kind, "shared")) pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    if (!strcmp(kind, "robust")) pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    if (!strcmp(kind, "pi")) pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
    pool = malloc(sizeof *pool);
    pthread_mutex_init(&pool->lock, &attributes);
    run(4, taker, (void *[]){"red", "green", "blue", "cyan"});
}

static void *locks_first(void *name) {
    pthread_setname_np(pthread_self(), name);
    pthread_mutex_lock(&first);
    return NULL;
}

// Waits for a thread's end, with the lock for which that one waits.
static void joins(void) {
    pthread_mutex_lock(&first);
    run(1, locks_first, (void *[]){"joined"});
}

// The same for two seconds.
static void joins_for_a_time(void) {
    pthread_t thread;
    struct timespec until;
    pthread_mutex_lock(&first);
    if (pthread_create(&thread, NULL, locks_first, "joined")) abort();
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 2;
    if (pthread_timedjoin_np(thread, NULL, &until) == 0) abort();
}

// Holds a lock to the end, and neither waits nor wakes.
static void holds_to_the_end(void) {
    pthread_t thread;
    pthread_mutex_lock(&first);
    if (pthread_create(&thread, NULL, locks_first, "waits")) abort();
    rest(300);
    _exit(7);
}

static pthread_t main_thread;

static void locks_second(int signal) {
    (void)signal;
    pthread_mutex_lock(&second);
}

static void *interrupts(void *name) {
    pthread_setname_np(pthread_self(), name);
    pthread_mutex_lock(&second);
    rest(100);
    pthread_kill(main_thread, SIGUSR2);
    rest(100);
    pthread_mutex_lock(&first);
    return NULL;
}

// A deadlock of two locks, one of which is wanted by a handler that has interrupted a join.
static void joins_and_is_interrupted(void) {
    main_thread = pthread_self();
    signal(SIGUSR2, locks_second);
    pthread_mutex_lock(&first);
    run(1, interrupts, (void *[]){"interrupts"});
}

static void crosses_robust(void) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&first, &attributes);
    pthread_mutex_init(&second, &attributes);
    struct pair pairs[] = {{&first, &second, "one", 0}, {&second, &first, "two", 0}};
    run(2, crosses, (void *[]){&pairs[0], &pairs[1]});
}

static int clerks_left = 4;

static void *last_clerk_exits(void *name) {
    rest(50);
    clerk(name);
    if (__atomic_sub_fetch(&clerks_left, 1, __ATOMIC_SEQ_CST) == 0) exit(7);
    return NULL;
}

// The first thread ends before the others.
static void leaves_threads(void) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        if (pthread_create(&threads[i], NULL, last_clerk_exits, "clerk")) abort();
    pthread_exit(NULL);
}

// Waits for a child that computes.
static void waits_for_a_child(void) {
    sem_t *done = mmap(NULL, sizeof *done, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    sem_init(done, 1, 0);
    pid_t child = fork();
    if (child == 0) {
        struct timespec used;
        do clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
        while (used.tv_sec < 2);
        sem_post(done);
        _exit(0);
    }
    sem_wait(done);
    waitpid(child, NULL, 0);
}

// A filter of its own kills it for a call that no futex needs. Then it waits for a word that processes share.
static void waits_in_a_sandbox(void) {
    static int word;
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_gettid, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {4, filter};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program)) abort();
    struct timespec soon = {0, 1000000}, now;
    syscall(SYS_futex, &word, FUTEX_WAIT, 0, &soon, NULL, 0);
    clock_gettime(CLOCK_MONOTONIC, &now);
    struct futex_waitv words[] = {{.uaddr = (unsigned long)&word, .flags = FUTEX_32}};
    syscall(SYS_futex_waitv, words, 1, 0, &now, CLOCK_MONOTONIC);
}

static struct {
    unsigned first, second;
} any_of;

static void *waits_for_any(void *unused) {
    struct futex_waitv words[] = {{.uaddr = (unsigned long)&any_of.first, .flags = FUTEX_32 | FUTEX_PRIVATE_FLAG},
                                  {.uaddr = (unsigned long)&any_of.second, .flags = FUTEX_32 | FUTEX_PRIVATE_FLAG}};
    for (int i = 0; i < 3; i++)
        if (syscall(SYS_futex_waitv, words, 2, 0, NULL, 0) != 1) abort();
    return unused;
}

// Three waits for two words, which the second one ends.
static void waits_for_two(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, waits_for_any, NULL)) abort();
    for (int woken = 0; woken < 3; rest(1)) woken += syscall(SYS_futex, &any_of.second, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    pthread_join(thread, NULL);
}

static void heap(void) {
    pool = malloc(sizeof *pool);
    pthread_mutex_init(&pool->lock, NULL);
    pthread_t clerks[2];
    for (int i = 0; i < 2; i++)
        if (pthread_create(&clerks[i], NULL, clerk, "<script>clerk")) abort();
    run(6, worker, (void *[]){"red", "green", "blue", "cyan", "black", "white"});
    for (int i = 0; i < 2; i++) pthread_join(clerks[i], NULL);
    printf("%d\n", pool->taken);
}

static pthread_cond_t turns = PTHREAD_COND_INITIALIZER;
static int turn;

// Sleeps and wakes more often than there is room for records.
static void *hands_over(void *own) {
    pthread_mutex_lock(&first);
    for (int i = 0; i < 200000; i++) {
        while (turn != *(int *)own) pthread_cond_wait(&turns, &first);
        turn = !turn;
        pthread_cond_signal(&turns);
    }
    pthread_mutex_unlock(&first);
    return NULL;
}

static unsigned moved_from, moved_to;

static void *waits_and_is_moved(void *unused) {
    while (syscall(SYS_futex, &moved_from, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0)) continue;
    return unused;
}

// Moves three waiters, and wakes them at the other word.
static void requeues(void) {
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        if (pthread_create(&threads[i], NULL, waits_and_is_moved, NULL)) abort();
    for (int moved = 0; moved < 3; rest(1)) {
        long result = syscall(SYS_futex, &moved_from, FUTEX_CMP_REQUEUE_PRIVATE, 0, 3L, &moved_to, 0);
        if (result < 0) abort();
        moved += (int)result;
    }
    syscall(SYS_futex, &moved_to, FUTEX_WAKE_PRIVATE, 3, NULL, NULL, 0);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
}

int main(int argc, char **argv) {
    const char *shape = argc > 1 ? argv[1] : "";
    if (!strcmp(shape, "heap")) {
        heap();
    } else if (!strcmp(shape, "child")) {
        pid_t child = fork();
        if (child == 0) {
            heap();
            return 0;
        }
        waitpid(child, NULL, 0);
        order();
    } else if (!strcmp(shape, "callers")) {
        run(2, alternates, (void *[]){NULL, NULL});
    } else if (!strcmp(shape, "handlers")) {
        run(1, waits_in_handlers, (void *[]){NULL});
    } else if (!strcmp(shape, "exec")) {
        execl("/proc/self/exe", argv[0], "heap", NULL);
    } else if (!strcmp(shape, "rwlock")) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, writer, "writer")) abort();
        run(3, reader, (void *[]){"reader", "reader", "reader"});
        pthread_join(thread, NULL);
    } else if (!strcmp(shape, "abba")) {
        struct pair pairs[] = {{&first, &second, "one", 0}, {&second, &first, "two", 0}};
        run(2, crosses, (void *[]){&pairs[0], &pairs[1]});
    } else if (!strcmp(shape, "three")) {
        struct pair pairs[] = {{&first, &second, "one", 0}, {&second, &third, "two", 0}, {&third, &first, "three", 0}};
        run(3, crosses, (void *[]){&pairs[0], &pairs[1], &pairs[2]});
    } else if (!strcmp(shape, "many") || !strcmp(shape, "few")) {
        visit_all(strcmp(shape, "few") ? 10000 : 100);
    } else if (!strcmp(shape, "lost")) {
        pthread_cond_signal(&arrived);
        run(1, waits_for_arrival, (void *[]){"waits"});
    } else if (!strcmp(shape, "shared") || !strcmp(shape, "robust") || !strcmp(shape, "pi")) {
        in_kernel(shape);
    } else if (!strcmp(shape, "joins")) {
        joins();
    } else if (!strcmp(shape, "joins-for-a-time")) {
        joins_for_a_time();
    } else if (!strcmp(shape, "holds")) {
        holds_to_the_end();
    } else if (!strcmp(shape, "joins-interrupted")) {
        joins_and_is_interrupted();
    } else if (!strcmp(shape, "robust-abba")) {
        crosses_robust();
    } else if (!strcmp(shape, "leader-ends")) {
        leaves_threads();
    } else if (!strcmp(shape, "child-computes")) {
        waits_for_a_child();
    } else if (!strcmp(shape, "sandbox")) {
        waits_in_a_sandbox();
    } else if (!strcmp(shape, "any")) {
        waits_for_two();
    } else if (!strcmp(shape, "requeues")) {
        requeues();
    } else if (!strcmp(shape, "hand-offs")) {
        // Begins when a byte comes, and says when it is done.
        if (getchar() == EOF) abort();
        run(2, hands_over, (void *[]){&(int){0}, &(int){1}});
        puts("done");
    } else {
        return 2;
    }
    return 7;
}
