// POSIX timers: by the host's clocks and by the embedder's, and each way in which an expired timer is delivered.
#include "guest.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SECOND 1000000000ull

static ufutex_timespec time_of(uint64_t nanoseconds)
{
    ufutex_timespec made = {(int64_t)(nanoseconds / SECOND), (int64_t)(nanoseconds % SECOND)};
    return made;
}

static ufutex_itimerspec spec(uint64_t value, uint64_t interval)
{
    ufutex_itimerspec made = {time_of(interval), time_of(value)};
    return made;
}

static uint64_t ns(ufutex_timespec time) { return (uint64_t)time.seconds * SECOND + (uint64_t)time.nanoseconds; }

static int set(ufutex_timers *timers, int32_t id, uint64_t value, uint64_t interval)
{
    ufutex_itimerspec new = spec(value, interval);
    return ufutex_timers_settime(timers, id, 0, &new, NULL);
}

static int set_at(ufutex_timers *timers, int32_t id, uint64_t value)
{
    ufutex_itimerspec new = spec(value, 0);
    return ufutex_timers_settime(timers, id, UFUTEX_TIMER_ABSTIME, &new, NULL);
}

static int32_t create(ufutex_timers *timers, int32_t clock, const ufutex_notify *notify)
{
    int32_t id = -1;
    CHECK(ufutex_timers_create(timers, clock, notify, &id), 0);
    CHECK(id >= 0, true);
    return id;
}

static ufutex_timers *new_timers(ufutex_system *system, const ufutex_timers_options *options)
{
    ufutex_timers *timers = NULL;
    CHECK(ufutex_timers_new(system, options, &timers), 0);
    return timers;
}

static void expired_timers_stand_in_a_line(ufutex_system *system)
{
    ufutex_timers *timers = new_timers(system, NULL);
    ufutex_expired expired;
    ufutex_itimerspec setting;
    ufutex_notify notify = {UFUTEX_NOTIFY_THREAD, 34, 0x1234567890, 77, 0};
    CHECK(ufutex_timers_count(timers), 0);
    int32_t first = create(timers, UFUTEX_MONOTONIC, NULL), second = create(timers, UFUTEX_REALTIME, &notify);
    CHECK(first, 0);
    CHECK(second, 1);
    CHECK(ufutex_timers_count(timers), 2);
    CHECK(ufutex_timers_bytes(timers) > 0, true);
    CHECK(ufutex_timers_receive(timers, UFUTEX_AFTER, 0, &expired), -ETIMEDOUT);
    CHECK(ufutex_timers_receive(timers, UFUTEX_AFTER, MS, &expired), -ETIMEDOUT);
    CHECK(ufutex_timers_receive(timers, UFUTEX_UNTIL_REALTIME, 1, &expired), -ETIMEDOUT);
    uint64_t begin = now(CLOCK_MONOTONIC);
    CHECK(set(timers, first, 2 * MS, 0), 0);
    CHECK(ufutex_timers_receive(timers, UFUTEX_FOREVER, 0, &expired), 0);
    CHECK(now(CLOCK_MONOTONIC) - begin >= 2 * MS, true);
    CHECK(expired.id, first);
    CHECK(expired.overrun, 0);
    CHECK(expired.notify.kind, UFUTEX_NOTIFY_SIGNAL);
    CHECK(expired.notify.signal, SIGALRM);
    CHECK(expired.notify.value, first);
    // At a time, on another clock.
    CHECK(set_at(timers, second, now(CLOCK_REALTIME) + MS), 0);
    CHECK(ufutex_timers_receive(timers, UFUTEX_AFTER, 100 * SECOND, &expired), 0);
    CHECK(expired.id, second);
    CHECK(expired.notify.kind, UFUTEX_NOTIFY_THREAD);
    CHECK(expired.notify.signal, 34);
    CHECK(expired.notify.value, 0x1234567890);
    CHECK(expired.notify.thread, 77);
    // Intervals that pass while the timer stands in the line are its overrun.
    CHECK(set(timers, first, 1, MS), 0);
    usleep(10000);
    CHECK(ufutex_timers_receive(timers, UFUTEX_FOREVER, 0, &expired), 0);
    CHECK(expired.overrun >= 9, true);
    CHECK(ufutex_timers_getoverrun(timers, first), expired.overrun);
    CHECK(ufutex_timers_gettime(timers, first, &setting), 0);
    CHECK(ns(setting.interval), MS);
    CHECK(ns(setting.value) > 0 && ns(setting.value) <= MS, true);
    // The old setting.
    ufutex_itimerspec never = spec(0, 0), old;
    CHECK(ufutex_timers_settime(timers, first, 0, &never, &old), 0);
    CHECK(ns(old.interval), MS);
    CHECK(ufutex_timers_gettime(timers, first, &setting), 0);
    CHECK(ns(setting.value), 0);
    CHECK(ufutex_timers_receive(timers, UFUTEX_AFTER, 3 * MS, &expired), -ETIMEDOUT);
    CHECK(ufutex_timers_delete(timers, first), 0);
    CHECK(ufutex_timers_delete(timers, first), -EINVAL);
    CHECK(ufutex_timers_count(timers), 1);
    CHECK(ufutex_timers_create_as(timers, 100, UFUTEX_BOOTTIME, NULL), 0);
    CHECK(ufutex_timers_create_as(timers, 100, UFUTEX_BOOTTIME, NULL), -EBUSY);
    CHECK(ufutex_timers_create_as(timers, -1, UFUTEX_BOOTTIME, NULL), -EINVAL);
    CHECK(create(timers, UFUTEX_TAI, NULL), 101);
    // CPU time of this thread and of this process.
    int32_t of_thread = create(timers, UFUTEX_THREAD_CPU(syscall(SYS_gettid)), NULL);
    int32_t of_process = create(timers, UFUTEX_PROCESS_CPU(getpid()), NULL);
    CHECK(set(timers, of_thread, MS, 0), 0);
    CHECK(set(timers, of_process, MS, 0), 0);
    for (int seen = 0; seen < 2;)
        seen += ufutex_timers_receive(timers, UFUTEX_AFTER, 0, &expired) == 0;
    CHECK(ufutex_timers_clear(timers), 0);
    CHECK(ufutex_timers_count(timers), 0);
    CHECK(ufutex_timers_free(timers), 0);
    CHECK(ufutex_timers_free(timers), -EBADF);
}

struct receiver {
    ufutex_timers *timers;
    int32_t stop; // this timer ends the thread
    _Atomic long received;
};

static void *receive(void *argument)
{
    struct receiver *receiver = argument;
    for (;;) {
        ufutex_expired expired;
        CHECK(ufutex_timers_receive(receiver->timers, UFUTEX_FOREVER, 0, &expired), 0);
        if (expired.id == receiver->stop)
            return NULL;
        receiver->received++;
    }
}

static void receivers_sleep_and_keep_the_timers(ufutex_system *system)
{
    enum { TIMERS = 100 };
    ufutex_timers *timers = new_timers(system, NULL);
    struct receiver receiver = {timers, create(timers, UFUTEX_MONOTONIC, NULL), 0};
    pthread_t thread = start(receive, &receiver);
    for (int i = 0; i < TIMERS; i++) {
        int32_t id = create(timers, i % 2 ? UFUTEX_MONOTONIC : UFUTEX_REALTIME, NULL);
        CHECK(set(timers, id, 1 + (uint64_t)i * 10000, 0), 0);
    }
    while (receiver.received != TIMERS)
        sched_yield();
    usleep(1000);
    CHECK(ufutex_timers_free(timers), -EBUSY); // the thread sleeps in the function
    CHECK(set(timers, receiver.stop, 1, 0), 0);
    CHECK(result_of(thread), 0);
    CHECK(ufutex_timers_free(timers), 0);
}

static void eventfd_counts_expiries(ufutex_system *system)
{
    ufutex_timers_options options = UFUTEX_TIMERS_OPTIONS_INIT;
    ufutex_timers *timers;
    ufutex_expired expired;
    uint64_t count = 0;
    int file = eventfd(0, EFD_CLOEXEC);
    options.delivery = UFUTEX_DELIVER_EVENTFD;
    options.eventfd = -1;
    CHECK(ufutex_timers_new(system, &options, &timers), -EBADF);
    options.eventfd = file;
    CHECK(ufutex_timers_new(system, &options, &timers), 0);
    CHECK(ufutex_timers_receive(timers, UFUTEX_FOREVER, 0, &expired), -EINVAL); // it has no line
    CHECK(set(timers, create(timers, UFUTEX_MONOTONIC, NULL), MS, 0), 0);
    CHECK(set(timers, create(timers, UFUTEX_MONOTONIC, NULL), MS, 0), 0);
    while (count < 2) {
        struct pollfd readable = {file, POLLIN, 0};
        uint64_t more;
        CHECK(poll(&readable, 1, 10000), 1);
        CHECK(read(file, &more, sizeof more), sizeof more);
        count += more;
    }
    CHECK(count, 2);
    // The library has a file of its own: closing this one takes nothing from it.
    close(file);
    CHECK(set(timers, create(timers, UFUTEX_MONOTONIC, NULL), 1, 0), 0);
    usleep(1000);
    CHECK(ufutex_timers_free(timers), 0);
}

static void signals_are_the_kernels(ufutex_system *system)
{
    ufutex_timers_options options = UFUTEX_TIMERS_OPTIONS_INIT;
    options.delivery = UFUTEX_DELIVER_SIGNALS;
    ufutex_timers *timers = new_timers(system, &options);
    ufutex_notify notify = {UFUTEX_NOTIFY_THREAD, SIGRTMIN, 42, (int32_t)syscall(SYS_gettid), 0};
    int32_t id = create(timers, UFUTEX_MONOTONIC, &notify);
    siginfo_t info;
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGRTMIN);
    CHECK(pthread_sigmask(SIG_BLOCK, &signals, NULL), 0);
    CHECK(set(timers, id, MS, 0), 0);
    struct timespec patience = {10, 0};
    CHECK(sigtimedwait(&signals, &info, &patience), SIGRTMIN);
    CHECK(info.si_code, SI_TIMER);
    CHECK(info.si_value.sival_int, 42);
    CHECK(info.si_timerid, id);
    notify.thread = 1; // not a thread of this process
    CHECK(ufutex_timers_create(timers, UFUTEX_MONOTONIC, &notify, &id), -EINVAL);
    CHECK(ufutex_timers_free(timers), 0);
}

// An embedder's clocks, which stand still until it sets them.
struct clocks {
    _Atomic uint64_t now[12]; // by number of the clock
    _Atomic uint64_t cpu_time;
    _Atomic int changes;
};

static uint64_t clocks_now(void *context, uint32_t clock)
{
    CHECK(clock == 0 || clock == 1 || clock == 7 || clock == 11, true);
    return ((struct clocks *)context)->now[clock];
}

// There are the process 5 and the thread 6.
static int clocks_cpu_time(void *context, int is_thread, int32_t number, uint64_t *nanoseconds)
{
    if (number != 5 + is_thread)
        return -1;
    *nanoseconds = ((struct clocks *)context)->cpu_time;
    return 0;
}

static void clocks_changed(void *context) { ((struct clocks *)context)->changes++; }

static ufutex_system *system_by(struct clocks *clocks, uint32_t cpus)
{
    ufutex_timer_clocks given = UFUTEX_TIMER_CLOCKS_INIT;
    ufutex_config config = UFUTEX_CONFIG_INIT;
    ufutex_system *system;
    given.context = clocks;
    given.now = clocks_now;
    given.cpu_time = clocks_cpu_time;
    given.changed = clocks_changed;
    given.cpus = cpus;
    config.timer_clocks = &given;
    for (uint64_t clock = 0; clock < 12; clock++)
        clocks->now[clock] = 1000 + clock;
    CHECK(ufutex_system_new(&config, &system), 0);
    return system;
}

// A process of a guest, which keeps notices with its queued signals.
struct process {
    ufutex_timers *timers;
    _Atomic int calls;
    ufutex_notice last;
    size_t room; // for the notices of this number of timers
    bool has_no_memory;
};

static void expired(void *context, ufutex_timers *timers, const ufutex_notice *notice)
{
    struct process *process = context;
    CHECK(timers == process->timers, true);
    process->last = *notice;
    process->calls++;
}

static int reserve(void *context, size_t timers)
{
    struct process *process = context;
    CHECK(timers > process->room, true);
    if (process->has_no_memory)
        return -1;
    process->room = timers;
    return 0;
}

static int has_thread(void *context, int32_t thread) { return (void)context, thread == 9; }

static ufutex_timers_options options_of(struct process *process)
{
    ufutex_timers_options options = UFUTEX_TIMERS_OPTIONS_INIT;
    options.delivery = UFUTEX_DELIVER_CALL;
    options.context = process;
    options.expired = expired;
    options.reserve = reserve;
    options.has_thread = has_thread;
    return options;
}

static uint64_t next(ufutex_system *system, uint32_t clock)
{
    uint64_t at;
    CHECK(ufutex_driver_next(system, clock, &at), 0);
    return at;
}

static void notices_are_taken_later(ufutex_system *system, struct clocks *clocks, struct process *process)
{
    ufutex_timers *timers = process->timers;
    ufutex_notify notify = {UFUTEX_NOTIFY_SIGNAL, 40, 7, 0, 0};
    ufutex_expired taken;
    ufutex_itimerspec setting;
    int32_t id = create(timers, UFUTEX_MONOTONIC, &notify);
    CHECK(process->room > 0, true);
    CHECK(set(timers, id, 100, 10), 0);
    CHECK(clocks->changes, 1);
    CHECK(next(system, UFUTEX_MONOTONIC), 1101);
    CHECK(next(system, UFUTEX_REALTIME), UFUTEX_NO_DEADLINE);
    CHECK(ufutex_driver_turn(system), 0);
    clocks->now[1] = 1100;
    CHECK(ufutex_driver_turn(system), 0);
    CHECK(process->calls, 0);
    clocks->now[1] = 1101;
    CHECK(ufutex_driver_turn(system), 1);
    CHECK(process->calls, 1);
    CHECK(process->last.id, id);
    CHECK(process->last.reserved, 0);
    CHECK(process->last.notify.kind, UFUTEX_NOTIFY_SIGNAL);
    CHECK(process->last.notify.signal, 40);
    CHECK(process->last.notify.value, 7);
    // A timer whose notice was not taken rests.
    clocks->now[1] = 1155;
    CHECK(ufutex_driver_turn(system), 0);
    ufutex_notice notice = process->last;
    CHECK(ufutex_timers_getoverrun(timers, id), 0);
    CHECK(ufutex_timers_take(timers, &notice, &taken), 1);
    CHECK(taken.id, id);
    CHECK(taken.overrun, 5);
    CHECK(taken.notify.value, 7);
    CHECK(ufutex_timers_getoverrun(timers, id), 5);
    CHECK(ufutex_timers_take(timers, &notice, &taken), 0);
    CHECK(next(system, UFUTEX_MONOTONIC), 1161);
    CHECK(ufutex_timers_gettime(timers, id, &setting), 0);
    CHECK(ns(setting.value), 6);
    // A notice becomes void when the timer is set again, and when it is deleted.
    clocks->now[1] = 1161;
    CHECK(ufutex_driver_turn(system), 1);
    CHECK(set(timers, id, 100, 0), 0);
    CHECK(ufutex_timers_take(timers, &process->last, &taken), 0);
    clocks->now[1] = 2000;
    CHECK(ufutex_driver_turn(system), 1);
    notice = process->last;
    CHECK(ufutex_timers_delete(timers, id), 0);
    CHECK(ufutex_timers_take(timers, &notice, &taken), 0);
}

static void numbers_that_are_of_no_notice(ufutex_system *system, struct clocks *clocks, struct process *process)
{
    ufutex_timers *timers = process->timers;
    ufutex_expired taken;
    int32_t id = create(timers, UFUTEX_MONOTONIC, NULL);
    CHECK(set(timers, id, 1, 0), 0);
    clocks->now[1]++;
    CHECK(ufutex_driver_turn(system), 1);
    ufutex_notice notice = process->last;
    notice.ticket[0] ^= 64;
    CHECK(ufutex_timers_take(timers, &notice, &taken), 0);
    notice = process->last, notice.ticket[1]++;
    CHECK(ufutex_timers_take(timers, &notice, &taken), 0);
    notice = process->last, notice.ticket[1] += 1ull << 32;
    CHECK(ufutex_timers_take(timers, &notice, &taken), 0);
    notice = process->last, notice.notify.kind = 3;
    CHECK(ufutex_timers_take(timers, &notice, &taken), -EINVAL);
    for (int32_t other = -2; other < 100; other++) {
        notice = process->last, notice.id = other;
        CHECK(ufutex_timers_take(timers, &notice, &taken), other == id ? 1 : 0);
    }
    notice.id = INT32_MAX;
    CHECK(ufutex_timers_take(timers, &notice, &taken), 0);
    CHECK(ufutex_timers_delete(timers, id), 0);
}

static void turns_of_an_embedder(void)
{
    static struct clocks clocks;
    static struct process process;
    ufutex_system *system = system_by(&clocks, 0);
    ufutex_timers_options options = options_of(&process);
    ufutex_timers *timers = process.timers = new_timers(system, &options);
    int32_t id;
    CHECK(ufutex_driver_start(system), 0);
    CHECK(next(system, UFUTEX_MONOTONIC), UFUTEX_NO_DEADLINE);
    notices_are_taken_later(system, &clocks, &process);
    numbers_that_are_of_no_notice(system, &clocks, &process);
    // The other clocks, which are set.
    static const uint32_t others[] = {UFUTEX_REALTIME, UFUTEX_BOOTTIME, UFUTEX_TAI};
    for (int i = 0; i < 3; i++) {
        id = create(timers, (int32_t)others[i], NULL);
        CHECK(set_at(timers, id, 5000), 0);
        CHECK(next(system, others[i]), 5000);
        int calls = process.calls, changes = clocks.changes;
        clocks.now[others[i]] = 5000;
        CHECK(ufutex_driver_clock_was_set(system), 0);
        CHECK(clocks.changes > changes, true);
        CHECK(ufutex_driver_turn(system), 1);
        CHECK(process.calls, calls + 1);
        CHECK(ufutex_timers_delete(timers, id), 0);
    }
    // CPU time is looked at when so much time has passed that it may have been used.
    int32_t cpu[2] = {create(timers, UFUTEX_THREAD_CPU(6), NULL), create(timers, UFUTEX_PROCESS_CPU(5), NULL)};
    for (int i = 0; i < 2; i++) {
        int calls = process.calls;
        CHECK(set(timers, cpu[i], 50, 0), 0);
        clocks.now[1] += SECOND;
        ufutex_driver_turn(system);
        CHECK(process.calls, calls);
        clocks.cpu_time += 50;
        clocks.now[1] += SECOND;
        ufutex_driver_turn(system);
        CHECK(process.calls, calls + 1);
    }
    CHECK(ufutex_timers_create(timers, UFUTEX_THREAD_CPU(5), NULL, &id), -EINVAL);
    // Threads, and the memory for notices.
    ufutex_notify notify = {UFUTEX_NOTIFY_THREAD, 1, 0, 9, 0};
    create(timers, UFUTEX_MONOTONIC, &notify);
    notify.thread = 8;
    CHECK(ufutex_timers_create(timers, UFUTEX_MONOTONIC, &notify, &id), -EINVAL);
    process.has_no_memory = true;
    int made = 0, result;
    while ((result = ufutex_timers_create(timers, UFUTEX_MONOTONIC, NULL, &id)) == 0)
        made++;
    CHECK(result, -EAGAIN);
    CHECK(made < 1000, true);
    CHECK(ufutex_timers_free(timers), 0);
    CHECK(ufutex_system_free(system), 0);
}

// On four CPUs the CPU time of a process goes four times as fast as a clock. That of a thread does not.
static void cpu_time_on_several_cpus(void)
{
    static struct clocks clocks;
    ufutex_system *system = system_by(&clocks, 4);
    ufutex_timers *timers = new_timers(system, NULL);
    int32_t id = create(timers, UFUTEX_PROCESS_CPU(5), NULL);
    CHECK(set(timers, id, 40 * MS, 0), 0);
    CHECK(next(system, UFUTEX_MONOTONIC), 1001 + 10 * MS);
    CHECK(ufutex_timers_delete(timers, id), 0);
    CHECK(set(timers, create(timers, UFUTEX_THREAD_CPU(6), NULL), 40 * MS, 0), 0);
    clocks.now[1] += 12 * MS;
    ufutex_driver_turn(system);
    CHECK(next(system, UFUTEX_MONOTONIC), 1001 + 40 * MS);
    CHECK(ufutex_timers_free(timers), 0);
    CHECK(ufutex_system_free(system), 0);
}

// Timers that are freed while they are delivered: by another thread, and by the function that is called.
static _Atomic int slow_phase;

static void slowly(void *context, ufutex_timers *timers, const ufutex_notice *notice)
{
    (void)context, (void)timers, (void)notice;
    slow_phase = 1;
    usleep(20000);
    slow_phase = 2;
}

static void frees_itself(void *context, ufutex_timers *timers, const ufutex_notice *notice)
{
    (void)notice;
    int result;
    while ((result = ufutex_timers_free(timers)) == -EBUSY) // the main thread is in a function
        sched_yield();
    CHECK(result, 0);
    CHECK(ufutex_timers_count(timers), -EBADF);
    ++*(_Atomic int *)context;
}

static void *turn(void *system)
{
    ufutex_driver_turn(system);
    return NULL;
}

static void nothing_is_called_when_the_timers_are_freed(ufutex_system *host)
{
    static struct clocks clocks;
    static _Atomic int freed;
    ufutex_system *system = system_by(&clocks, 0);
    ufutex_timers_options options = UFUTEX_TIMERS_OPTIONS_INIT;
    options.delivery = UFUTEX_DELIVER_CALL;
    options.expired = slowly;
    ufutex_timers *timers = new_timers(system, &options);
    CHECK(set(timers, create(timers, UFUTEX_MONOTONIC, NULL), 1, 0), 0);
    CHECK(set(timers, create(timers, UFUTEX_MONOTONIC, NULL), 1, 0), 0);
    clocks.now[1] += 1;
    pthread_t thread = start(turn, system);
    while (slow_phase == 0)
        sched_yield();
    CHECK(ufutex_timers_free(timers), 0);
    CHECK(slow_phase, 2);
    slow_phase = 3;
    CHECK(result_of(thread), 0);
    CHECK(slow_phase, 3); // the second timer was not delivered
    CHECK(ufutex_system_free(system), 0);
    options.expired = frees_itself;
    options.context = (void *)&freed;
    for (int i = 0; i < 20; i++) {
        timers = new_timers(host, &options);
        int32_t ids[5];
        for (int j = 0; j < 5; j++)
            ids[j] = create(timers, UFUTEX_MONOTONIC, NULL);
        for (int j = 0; j < 5; j++) {
            int result = set(timers, ids[j], 50000, 0);
            CHECK(result == 0 || result == -EBADF, true);
        }
        while (freed == i)
            sched_yield();
        CHECK(ufutex_timers_free(timers), -EBADF);
    }
    usleep(1000);
    CHECK(freed, 20);
}

#define TIMERS_CALL(timers, memory, number, ...) \
    ufutex_timers_syscall(timers, 5, 6, memory, number, (uint64_t[6]){__VA_ARGS__})
enum { PRCTL = 157, TIMER_CREATE = 222, TIMER_SETTIME, TIMER_GETTIME, TIMER_GETOVERRUN, TIMER_DELETE };

static void system_calls_of_a_guest(void)
{
    static struct clocks clocks;
    static struct process process;
    static struct guest guest;
    ufutex_system *system = system_by(&clocks, 0);
    ufutex_timers_options options = options_of(&process);
    ufutex_timers *timers = process.timers = new_timers(system, &options);
    // In the program's own memory.
    struct {
        uint64_t value;
        int32_t signal, notify, thread, pad[11];
    } event = {99, 50, 0, 0, {0}};
    int32_t id = -1;
    ufutex_itimerspec new = spec(100, 0), old;
    CHECK(TIMERS_CALL(timers, NULL, TIMER_CREATE, 1, AT(&event), AT(&id), 0, 0, 0), 0);
    CHECK(id, 0);
    CHECK(TIMERS_CALL(timers, NULL, TIMER_SETTIME, (uint64_t)id, 0, AT(&new), AT(&old), 0, 0), 0);
    CHECK(ns(old.value), 0);
    CHECK(TIMERS_CALL(timers, NULL, TIMER_GETTIME, (uint64_t)id, AT(&old), 0, 0, 0, 0), 0);
    CHECK(ns(old.value), 100);
    clocks.now[1] += 100;
    CHECK(ufutex_driver_turn(system), 1);
    CHECK(process.last.notify.value, 99);
    CHECK(process.last.notify.signal, 50);
    CHECK(TIMERS_CALL(timers, NULL, TIMER_GETOVERRUN, (uint64_t)id, 0, 0, 0, 0, 0), 0);
    new.value.nanoseconds = 1000000000;
    CHECK(TIMERS_CALL(timers, NULL, TIMER_SETTIME, (uint64_t)id, 0, AT(&new), 0, 0, 0), -EINVAL);
    CHECK(TIMERS_CALL(timers, NULL, TIMER_SETTIME, (uint64_t)id, 0, 0, 0, 0, 0), -EINVAL);
    CHECK(TIMERS_CALL(timers, NULL, TIMER_DELETE, (uint64_t)id, 0, 0, 0, 0, 0), 0);
    CHECK(TIMERS_CALL(timers, NULL, TIMER_DELETE, (uint64_t)id, 0, 0, 0, 0, 0), -EINVAL);
    // The caller's own CPU time, of its thread 6; clocks that have no timers.
    CHECK(TIMERS_CALL(timers, NULL, TIMER_CREATE, 3, 0, AT(&id), 0, 0, 0), 0);
    CHECK(TIMERS_CALL(timers, NULL, TIMER_CREATE, 2, 0, AT(&id), 0, 0, 0), 0);
    CHECK(id, 2);
    CHECK(ufutex_timers_syscall(timers, 5, 7, NULL, TIMER_CREATE, (uint64_t[6]){3, 0, AT(&id)}), -EINVAL);
    CHECK(TIMERS_CALL(timers, NULL, TIMER_CREATE, 4, 0, AT(&id), 0, 0, 0), -EOPNOTSUPP);
    CHECK(TIMERS_CALL(timers, NULL, TIMER_CREATE, 12, 0, AT(&id), 0, 0, 0), -EINVAL);
    // By the numbers of aarch64, in a guest's memory that faults.
    ufutex_memory memory = guest_memory(&guest);
    enum { CREATE = 107, GETTIME, GETOVERRUN, SETTIME };
    CHECK(TIMERS_CALL(timers, &memory, UFUTEX_GENERIC_NUMBER + CREATE, 1, 0, GUEST + 8, 0, 0, 0), 0);
    CHECK(guest.faults, 1);
    id = (int32_t)guest_load32(&guest, 8);
    CHECK(id, 4); // the ID 3 was used up by a timer of no thread
    CHECK(TIMERS_CALL(timers, &memory, UFUTEX_GENERIC_NUMBER + CREATE, 1, 0, GUEST + PAGE, 0, 0, 0), -EFAULT);
    guest_store64(&guest, 64, 0), guest_store64(&guest, 72, 7);
    guest_store64(&guest, 80, 0), guest_store64(&guest, 88, 30);
    CHECK(TIMERS_CALL(timers, &memory, UFUTEX_GENERIC_NUMBER + SETTIME, (uint64_t)id, 0, GUEST + 64, 0, 0, 0), 0);
    CHECK(TIMERS_CALL(timers, &memory, UFUTEX_GENERIC_NUMBER + GETTIME, (uint64_t)id, GUEST + 128, 0, 0, 0, 0), 0);
    CHECK(guest_load32(&guest, 128 + 8), 7);
    CHECK(guest_load32(&guest, 128 + 24), 30);
    CHECK(TIMERS_CALL(timers, NULL, PRCTL, 77, 2, 0, 0, 0, 0), 0);
    CHECK(TIMERS_CALL(timers, NULL, PRCTL, 78, 2, 0, 0, 0, 0), -EINVAL);
    static const uint64_t unknown[] = {0,
                                       202,
                                       227,
                                       UFUTEX_GENERIC_NUMBER + 222,
                                       UFUTEX_I386_NUMBER + 257,
                                       UFUTEX_ARM_NUMBER + 262,
                                       UFUTEX_RISCV32_NUMBER + 108,
                                       UFUTEX_RISCV32_NUMBER + UFUTEX_GENERIC_NUMBER + 107,
                                       UINT64_MAX};
    for (int i = 0; i < 9; i++)
        CHECK(TIMERS_CALL(timers, NULL, unknown[i], 1, 0, 0, 0, 0, 0), -ENOSYS);
    CHECK(ufutex_timers_syscall(timers, 5, 6, NULL, TIMER_CREATE, NULL), -EINVAL);
    CHECK(ufutex_timers_free(timers), 0);
    CHECK(ufutex_system_free(system), 0);
}

// With the host's clocks a guest has clocks of CPU time only if its PIDs are the host's.
static void clocks_of_the_hosts_cpu_time(void)
{
    ufutex_system *system;
    CHECK(ufutex_system_new(NULL, &system), 0);
    for (uint32_t flags = 0; flags <= UFUTEX_HOST_PIDS; flags++) {
        ufutex_timers_options options = UFUTEX_TIMERS_OPTIONS_INIT;
        options.flags = flags;
        ufutex_timers *timers = new_timers(system, &options);
        int32_t id;
        for (uint64_t clock = 2; clock <= 3; clock++) {
            long made = ufutex_timers_syscall(timers, getpid(), (int32_t)syscall(SYS_gettid), NULL, TIMER_CREATE,
                                              (uint64_t[6]){clock, 0, AT(&id)});
            CHECK(made, flags == UFUTEX_HOST_PIDS ? 0 : -EINVAL);
        }
        CHECK(ufutex_timers_free(timers), 0);
    }
    CHECK(ufutex_system_free(system), 0);
}

// Calls of a 32-bit guest: of each argument the lower half counts, and times have fields of 32 or of 64 bits.
static void system_calls_of_a_narrow_guest(void)
{
    static struct clocks clocks;
    static struct process process;
    static struct guest guest;
    ufutex_system *system = system_by(&clocks, 0);
    ufutex_timers_options options = options_of(&process);
    ufutex_timers *timers = process.timers = new_timers(system, &options);
    ufutex_memory memory = guest_memory(&guest);
    memory.access_ok = NULL;
    guest.present[0] = true;
    enum { GUEST32 = 0x20001000, ID = GUEST32 + 8, EVENT = GUEST32 + 16, NEW = GUEST32 + 64, OLD = GUEST32 + 128 };
    guest.first = GUEST32;
    const uint64_t junk = 0xdeadbeefull << 32;
    const uint64_t i386 = UFUTEX_I386_NUMBER, arm = UFUTEX_ARM_NUMBER, riscv = UFUTEX_RISCV32_NUMBER;
    // A sigevent: the value, the signal, SIGEV_SIGNAL.
    guest_store32(&guest, 16, 0xfffffff0), guest_store32(&guest, 20, 50), guest_store32(&guest, 24, 0);
    CHECK(TIMERS_CALL(timers, &memory, i386 + 259, junk | 1, junk | EVENT, junk | ID, 0, 0, 0), 0);
    CHECK(TIMERS_CALL(timers, &memory, arm + 257, 1, EVENT, ID, 0, 0, 0), 0);
    CHECK(guest_load32(&guest, 8), 1);
    // An interval of no time, and 100 ns.
    for (int i = 0; i < 3; i++)
        guest_store32(&guest, 64 + 4 * i, 0);
    guest_store32(&guest, 76, 100);
    guest_store32(&guest, 80, 0xffffffff); // not a part of it
    CHECK(TIMERS_CALL(timers, &memory, i386 + 260, junk, junk, junk | NEW, junk, 0, 0), 0);
    CHECK(TIMERS_CALL(timers, &memory, arm + 259, 0, OLD, 0, 0, 0, 0), 0);
    CHECK(guest_load32(&guest, 128 + 12), 100);
    // The same by 64-bit fields, with junk above the nanoseconds.
    guest_store64(&guest, 64, 0), guest_store64(&guest, 72, junk);
    guest_store64(&guest, 80, 0), guest_store64(&guest, 88, junk | 200);
    CHECK(TIMERS_CALL(timers, &memory, arm + 409, 0, 0, NEW, OLD, 0, 0), 0);
    CHECK(guest_load32(&guest, 128 + 24), 100);
    CHECK(TIMERS_CALL(timers, &memory, i386 + 408, 0, OLD, 0, 0, 0, 0), 0);
    CHECK(guest_load32(&guest, 128 + 24), 200);
    clocks.now[1] += 200;
    CHECK(ufutex_driver_turn(system), 1);
    CHECK(process.last.notify.value, 0xfffffff0);
    CHECK(TIMERS_CALL(timers, &memory, i386 + 262, junk, 0, 0, 0, 0, 0), 0);
    CHECK(TIMERS_CALL(timers, &memory, arm + 260, 0, 0, 0, 0, 0, 0), 0);
    CHECK(TIMERS_CALL(timers, &memory, riscv + 109, junk, 0, 0, 0, 0, 0), 0);
    CHECK(TIMERS_CALL(timers, &memory, riscv + 408, 0, OLD, 0, 0, 0, 0), 0);
    CHECK(TIMERS_CALL(timers, &memory, riscv + 167, 77, 2, 0, 0, 0, 0), 0);
    CHECK(TIMERS_CALL(timers, &memory, i386 + 172, 77, 2, 0, 0, 0, 0), 0);
    CHECK(TIMERS_CALL(timers, &memory, i386 + 263, 0, 0, 0, 0, 0, 0), 0);
    CHECK(TIMERS_CALL(timers, &memory, arm + 261, 0, 0, 0, 0, 0, 0), -EINVAL);
    CHECK(ufutex_timers_free(timers), 0);
    CHECK(ufutex_system_free(system), 0);
}

static char room[64];
#define ODD ((void *)(room + 1)) // misaligned

static void bad_options(ufutex_system *system)
{
    ufutex_timers *made = NULL;
    static const ufutex_timers_options initial = UFUTEX_TIMERS_OPTIONS_INIT;
    ufutex_timers_options options;
    REFUSED(options, options.size = sizeof options - 1, ufutex_timers_new(system, &options, &made));
    options = initial, options.size = SIZE_MAX;
    CHECK(ufutex_timers_new(system, &options, &made), -E2BIG);
    REFUSED(options, options.delivery = 4, ufutex_timers_new(system, &options, &made));
    REFUSED(options, options.delivery = UFUTEX_DELIVER_CALL, ufutex_timers_new(system, &options, &made)); // expired is missing
    static const int32_t ids[] = {-1, INT32_MIN, 2, 100};
    for (int i = 0; i < 4; i++) {
        REFUSED(options, options.max_id = ids[i], ufutex_timers_new(system, &options, &made));
    }
    REFUSED(options, options.flags = 2, ufutex_timers_new(system, &options, &made));
    CHECK(ufutex_timers_new(system, ODD, &made), -EINVAL);
    CHECK(ufutex_timers_new(system, NULL, NULL), -EINVAL);
    CHECK(ufutex_timers_new(system, NULL, ODD), -EINVAL);
    CHECK(made == NULL, true);
    int32_t id;
    options = initial, options.max_timers = 2, options.max_id = 1;
    made = new_timers(system, &options);
    CHECK(create(made, 1, NULL) + create(made, 1, NULL), 1);
    CHECK(ufutex_timers_create(made, 1, NULL, &id), -EAGAIN);
    CHECK(ufutex_timers_free(made), 0);
}

static void bad_timers(ufutex_timers *timers)
{
    int32_t id;
    static const int32_t clocks[] = {2, 3, 10, 12, INT32_MAX, INT32_MIN, -1, UFUTEX_PROCESS_CPU(0), UFUTEX_PROCESS_CPU(-1)};
    for (size_t i = 0; i < sizeof clocks / sizeof clocks[0]; i++)
        CHECK(ufutex_timers_create(timers, clocks[i], NULL, &id), -EINVAL);
    static const int32_t unsupported[] = {4, 5, 6, 8, 9};
    for (int i = 0; i < 5; i++)
        CHECK(ufutex_timers_create(timers, unsupported[i], NULL, &id), -EOPNOTSUPP);
    static const ufutex_notify none[] = {{0, 0, 0, 0, 0}, {0, 65, 0, 0, 0}, {0, -1, 0, 0, 0}, {2, 1, 0, 0, 0}, {0, 1, 0, 0, 1}};
    for (int i = 0; i < 5; i++)
        CHECK(ufutex_timers_create(timers, 1, &none[i], &id), -EINVAL);
    CHECK(ufutex_timers_create(timers, 1, ODD, &id), -EINVAL);
    CHECK(ufutex_timers_create(timers, 1, NULL, NULL), -EINVAL);
    CHECK(ufutex_timers_create(timers, 1, NULL, ODD), -EINVAL);
    CHECK(ufutex_timers_create_as(timers, 1, 1, ODD), -EINVAL);
    CHECK(ufutex_timers_count(timers), 0);
}

static void bad_settings(ufutex_timers *timers)
{
    ufutex_itimerspec setting = spec(0, 0);
    int32_t id = create(timers, UFUTEX_MONOTONIC, NULL);
    CHECK(ufutex_timers_settime(timers, id, 0, NULL, NULL), -EINVAL);
    CHECK(ufutex_timers_settime(timers, id, 0, ODD, NULL), -EINVAL);
    CHECK(ufutex_timers_settime(timers, id, 0, &setting, ODD), -EINVAL);
    CHECK(ufutex_timers_settime(timers, id, 2, &setting, NULL), -EINVAL);
    int64_t *const fields[] = {&setting.value.seconds, &setting.value.nanoseconds, &setting.interval.seconds, &setting.interval.nanoseconds};
    for (int i = 0; i < 4; i++) {
        setting = spec(MS, MS);
        *fields[i] = i % 2 ? 1000000000 : -1;
        CHECK(ufutex_timers_settime(timers, id, 0, &setting, NULL), -EINVAL);
        *fields[i] = INT64_MIN;
        CHECK(ufutex_timers_settime(timers, id, 0, &setting, NULL), -EINVAL);
    }
    setting = spec(0, 0), setting.value.seconds = INT64_MAX; // later than any clock can show
    CHECK(ufutex_timers_settime(timers, id, 0, &setting, NULL), 0);
    CHECK(ufutex_timers_gettime(timers, id, NULL), -EINVAL);
    CHECK(ufutex_timers_gettime(timers, id, ODD), -EINVAL);
    static const int32_t none[] = {-1, 1 << 20, INT32_MAX, INT32_MIN};
    for (int i = 0; i < 4; i++) {
        CHECK(ufutex_timers_settime(timers, none[i], 0, &setting, NULL), -EINVAL);
        CHECK(ufutex_timers_gettime(timers, none[i], &setting), -EINVAL);
        CHECK(ufutex_timers_getoverrun(timers, none[i]), -EINVAL);
        CHECK(ufutex_timers_delete(timers, none[i]), -EINVAL);
    }
}

static void bad_expiries(ufutex_system *system, ufutex_timers *timers)
{
    ufutex_expired expired;
    ufutex_notice notice = {0};
    uint64_t at;
    CHECK(ufutex_timers_receive(timers, 4, 0, &expired), -EINVAL);
    CHECK(ufutex_timers_receive(timers, UFUTEX_AFTER, 0, NULL), -EINVAL);
    CHECK(ufutex_timers_receive(timers, UFUTEX_AFTER, 0, ODD), -EINVAL);
    CHECK(ufutex_timers_take(timers, NULL, &expired), -EINVAL);
    CHECK(ufutex_timers_take(timers, ODD, &expired), -EINVAL);
    CHECK(ufutex_timers_take(timers, &notice, NULL), -EINVAL);
    CHECK(ufutex_timers_take(timers, &notice, ODD), -EINVAL);
    CHECK(ufutex_timers_take(timers, &notice, &expired), 0);
    CHECK(ufutex_timers_syscall(timers, 1, 1, NULL, TIMER_CREATE, ODD), -EINVAL);
    CHECK(ufutex_timers_syscall(timers, 1, 1, ODD, TIMER_CREATE, (uint64_t[6]){0}), -EINVAL);
    CHECK(ufutex_driver_next(system, 2, &at), -EINVAL);
    CHECK(ufutex_driver_next(system, UFUTEX_MONOTONIC, NULL), -EINVAL);
    CHECK(ufutex_driver_next(system, UFUTEX_MONOTONIC, ODD), -EINVAL);
}

static void bad_configurations(void)
{
    ufutex_config config = UFUTEX_CONFIG_INIT;
    ufutex_timer_clocks given = UFUTEX_TIMER_CLOCKS_INIT;
    static const ufutex_driver_thread initial = UFUTEX_DRIVER_THREAD_INIT;
    ufutex_driver_thread thread = initial;
    ufutex_system *made;
    uint32_t cpus[2] = {0, 8192};
    config.timer_clocks = &given; // now is missing
    CHECK(ufutex_system_new(&config, &made), -EINVAL);
    given.now = clocks_now, given.reserved = 1;
    CHECK(ufutex_system_new(&config, &made), -EINVAL);
    given.reserved = 0, given.size--;
    CHECK(ufutex_system_new(&config, &made), -EINVAL);
    config.timer_clocks = NULL, config.driver_thread = &thread;
#define REFUSED_THREAD(change) REFUSED(thread, change, ufutex_system_new(&config, &made))
    REFUSED_THREAD(thread.size = 0);
    REFUSED_THREAD(thread.flags = 2);
    REFUSED_THREAD(thread.realtime = 100);
    REFUSED_THREAD(thread.nice = 20);
    REFUSED_THREAD(thread.nice = -21);
    REFUSED_THREAD(thread.reserved = 1);
    REFUSED_THREAD(thread.cpu_count = 1);
    REFUSED_THREAD(thread.cpus = cpus);
    REFUSED_THREAD((thread.cpus = cpus, thread.cpu_count = 2));
    REFUSED_THREAD((thread.cpus = cpus, thread.cpu_count = SIZE_MAX));
    REFUSED_THREAD((thread.cpus = ODD, thread.cpu_count = 1));
    REFUSED_THREAD((thread.cpus = cpus, thread.cpu_count = 1, thread.flags = UFUTEX_STARTERS_CPUS));
}

// The nice value of the thread that is not this one, or 99 if there is none.
static int nice_of_the_other_thread(void)
{
    DIR *tasks = opendir("/proc/self/task");
    int nice = 99;
    for (struct dirent *task; (task = readdir(tasks)) != NULL;) {
        int tid = atoi(task->d_name);
        if (tid != 0 && tid != syscall(SYS_gettid))
            nice = getpriority(PRIO_PROCESS, (id_t)tid);
    }
    closedir(tasks);
    return nice;
}

static void drivers_thread_is_scheduled_as_configured(void)
{
    ufutex_driver_thread thread = UFUTEX_DRIVER_THREAD_INIT;
    ufutex_config config = UFUTEX_CONFIG_INIT;
    ufutex_system *system;
    uint32_t cpus[] = {0};
    until_alone();
    thread.nice = 7;
    thread.cpus = cpus, thread.cpu_count = 1;
    config.driver_thread = &thread;
    CHECK(ufutex_system_new(&config, &system), 0);
    CHECK(nice_of_the_other_thread(), 99);
    CHECK(ufutex_driver_start(system), 0);
    while (nice_of_the_other_thread() != 7)
        sched_yield();
    CHECK(ufutex_system_free(system), 0);
    until_alone();
}

// Timers that are made and freed while other threads use their handles.
enum { LIVES = 100 };
static _Atomic(ufutex_timers *) shared;
static _Atomic int over;

static void *use_shared(void *unused)
{
    (void)unused;
    while (!over) {
        ufutex_timers *used = shared;
        ufutex_expired expired;
        ufutex_itimerspec setting = spec(1, 1000), old;
        int32_t id = 0;
        long results[] = {
            ufutex_timers_create(used, UFUTEX_MONOTONIC, NULL, &id),
            ufutex_timers_settime(used, id, 0, &setting, &old),
            ufutex_timers_gettime(used, id, &old),
            ufutex_timers_getoverrun(used, id),
            ufutex_timers_receive(used, UFUTEX_AFTER, 10000, &expired),
            ufutex_timers_delete(used, id),
        };
        for (int i = 0; i < 6; i++)
            if (results[i] != -EBADF && results[i] != -EINVAL && results[i] != -ETIMEDOUT && results[i] < 0)
                CHECK(results[i], 0);
    }
    return NULL;
}

static void freed_handles_are_told_to_threads_that_use_them(ufutex_system *system)
{
    shared = new_timers(system, NULL);
    pthread_t threads[2] = {start(use_shared, NULL), start(use_shared, NULL)};
    for (int life = 0; life < LIVES; life++) {
        ufutex_timers *old = shared, *made = new_timers(system, NULL);
        shared = made;
        int result;
        while ((result = ufutex_timers_free(old)) == -EBUSY)
            sched_yield();
        CHECK(result, 0);
        CHECK(ufutex_timers_free(old), -EBADF);
    }
    over = 1;
    CHECK(result_of(threads[0]), 0);
    CHECK(result_of(threads[1]), 0);
    CHECK(ufutex_timers_free(shared), 0);
}

static void timers_outlive_the_handle_of_their_system(ufutex_system *system)
{
    ufutex_timers *timers = new_timers(system, NULL);
    ufutex_expired expired;
    CHECK(ufutex_system_free(system), 0);
    CHECK(set(timers, create(timers, UFUTEX_MONOTONIC, NULL), MS, 0), 0);
    CHECK(ufutex_timers_receive(timers, UFUTEX_FOREVER, 0, &expired), 0);
    CHECK(ufutex_timers_free(timers), 0);
}

int main(void)
{
    drivers_thread_is_scheduled_as_configured();
    turns_of_an_embedder();
    cpu_time_on_several_cpus();
    system_calls_of_a_guest();
    system_calls_of_a_narrow_guest();
    until_alone(); // no timer has run by the host's clocks
    clocks_of_the_hosts_cpu_time();
    ufutex_system *system = new_system();
    expired_timers_stand_in_a_line(system);
    receivers_sleep_and_keep_the_timers(system);
    eventfd_counts_expiries(system);
    signals_are_the_kernels(system);
    nothing_is_called_when_the_timers_are_freed(system);
    bad_options(system);
    ufutex_timers *timers = new_timers(system, NULL);
    bad_timers(timers);
    bad_settings(timers);
    bad_expiries(system, timers);
    CHECK(ufutex_timers_free(timers), 0);
    bad_configurations();
    freed_handles_are_told_to_threads_that_use_them(system);
    timers_outlive_the_handle_of_their_system(system);
    until_alone();
    return 0;
}
