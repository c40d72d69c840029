// Functions that are async-signal-safe, in handlers of threads that have never called the library, which is opened with
// dlopen(3). Such a thread gets its thread-local storage of the library by malloc, when the library first accesses it.
// A handler may have interrupted malloc, so nothing may be allocated there.
#include <dlfcn.h>
#include <signal.h>

#include "check.h"

// The functions' addresses, by their own names.
#define FUNCTIONS(f)                                                                                                  \
    f(ufutex_system_new) f(ufutex_domain_new) f(ufutex_task_new) f(ufutex_task_interrupt)                             \
    f(ufutex_task_clear_interrupt) f(ufutex_prepare_wait) f(ufutex_waiter_finish) f(ufutex_wait) f(ufutex_resume)     \
    f(ufutex_version) f(ufutex_version_number)
#define DECLARE(name) static __typeof__(&name) dl_##name;
FUNCTIONS(DECLARE)

static _Thread_local atomic_bool is_in_handler;
static atomic_int allocations;

#ifdef __GLIBC__
// glibc's dynamic loader allocates thread-local storage by these functions of the program, too.
void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
static void count(void) { allocations += is_in_handler; }
void *malloc(size_t size) { count(); return __libc_malloc(size); }
void *calloc(size_t number, size_t size) { count(); return __libc_calloc(number, size); }
void *realloc(void *memory, size_t size) { count(); return __libc_realloc(memory, size); }
#else
#warning "allocations are not counted: this C library is not glibc"
#endif

static ufutex_task *task;
static ufutex_domain *domain;
static uint32_t word;
static atomic_int rung, unparked, handled;
static atomic_bool may_raise;

static void ring(void *context) { (void)context; rung++; }

static void handler(int signal)
{
    (void)signal;
    long value = 0;
    is_in_handler = true;
    int result = dl_ufutex_task_clear_interrupt(task);
    if (result == 0)
        result = dl_ufutex_task_interrupt(task);
    if (result == 0 && dl_ufutex_resume(-EINTR, UFUTEX_HANDLER, &value) == UFUTEX_RESUME_RETURN
        && dl_ufutex_version() != NULL && dl_ufutex_version_number() != 0)
        handled++;
    is_in_handler = false;
}

// Gets a signal once it may, in a thread that has not called the library.
static void *interrupted(void *wait)
{
    while (wait != NULL && !may_raise)
        sched_yield();
    CHECK(raise(SIGUSR1), 0);
    return NULL;
}

static void interrupt_in_a_new_thread(void)
{
    pthread_t thread;
    int before = handled;
    CHECK(pthread_create(&thread, NULL, interrupted, NULL), 0);
    CHECK(pthread_join(thread, NULL), 0);
    CHECK(handled, before + 1);
}

// Green threads: one, which is unparked through a flag.
static atomic_bool is_unparked;
static _Thread_local void *green;
static void *current(void *context) { (void)context; return green; }
static int park(void *context, void *thread, uint32_t clock, uint64_t deadline)
{
    (void)context, (void)thread, (void)clock, (void)deadline;
    while (!is_unparked)
        sched_yield();
    is_unparked = false;
    return 0;
}
static void unpark(void *context, void *thread)
{
    (void)context, (void)thread;
    unparked++;
    is_unparked = true;
}

static void *waits(void *domain)
{
    green = domain; // only looked at in the domain with a parker
    ufutex_wait_options options = UFUTEX_WAIT_OPTIONS_INIT;
    options.task = task;
    return (void *)(intptr_t)dl_ufutex_wait(domain, AT(&word), 0, UFUTEX_U32, &options);
}

static void handler_ends_a_wait(void)
{
    pthread_t thread;
    void *result;
    CHECK(pthread_create(&thread, NULL, waits, domain), 0);
    // Whether or not it sleeps already, the interrupt ends its wait.
    interrupt_in_a_new_thread();
    CHECK(pthread_join(thread, &result), 0);
    CHECK((intptr_t)result, -EINTR);
}

int main(int count, char **arguments)
{
    struct sigaction action = {0};
    action.sa_handler = handler;
    CHECK(sigaction(SIGUSR1, &action, NULL), 0);
    // Begun before the library is there: its table of thread-local storage has no room for the library's.
    pthread_t early;
    CHECK(pthread_create(&early, NULL, interrupted, &may_raise), 0);

    CHECK(count, 2);
    void *library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
#define FIND(name) CHECK((dl_##name = (__typeof__(&name))(uintptr_t)dlsym(library, #name)) != NULL, true);
    FUNCTIONS(FIND)

    ufutex_system *system;
    CHECK(dl_ufutex_system_new(NULL, &system), 0);
    CHECK(dl_ufutex_domain_new(system, NULL, &domain), 0);
    CHECK(dl_ufutex_task_new(domain, 7, 0, &task), 0);
    ufutex_wait_options options = UFUTEX_WAIT_OPTIONS_INIT;
    options.task = task;
    for (int early_too = 0; early_too < 2; early_too++) {
        CHECK(dl_ufutex_task_clear_interrupt(task), 0);
        ufutex_waiter *waiter;
        rung = 0;
        CHECK(dl_ufutex_prepare_wait(domain, AT(&word), 0, UFUTEX_U32, &options, ring, NULL, &waiter), -EINPROGRESS);
        if (early_too) {
            may_raise = true;
            CHECK(pthread_join(early, NULL), 0);
            CHECK(handled, 2);
        } else {
            interrupt_in_a_new_thread();
        }
        CHECK(rung, 1);
        interrupt_in_a_new_thread();
        handled--;
        CHECK(rung, 1);
        CHECK(dl_ufutex_waiter_finish(waiter), -EINTR);
        interrupt_in_a_new_thread(); // the task does not wait
        handled--;
        CHECK(rung, 1);
    }

    CHECK(dl_ufutex_task_clear_interrupt(task), 0);
    handler_ends_a_wait();

    // A domain with a parker.
    CHECK(dl_ufutex_task_clear_interrupt(task), 0);
    CHECK(unparked, 0);
    ufutex_parker parker = UFUTEX_PARKER_INIT;
    parker.current = current;
    parker.park = park;
    parker.unpark = unpark;
    ufutex_options with_parker = UFUTEX_OPTIONS_INIT;
    with_parker.parker = &parker;
    CHECK(dl_ufutex_domain_new(system, &with_parker, &domain), 0);
    CHECK(dl_ufutex_task_new(domain, 8, 0, &task), 0);
    handler_ends_a_wait();
    // If the interrupt came before the wait began, or before it slept, nothing was unparked.
    CHECK(unparked <= 1, true);
    CHECK(allocations, 0);
    return 0;
}
