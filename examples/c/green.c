#include "green.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

enum { MAX_THREADS = 32, STACK_BYTES = 256 * 1024 };

enum state { READY, ASLEEP, ENDED };

struct green {
    const char *name;
    void (*function)(void *);
    void *argument;
    enum state state;
    bool permit; // unparked since it parked last
    uint64_t deadline;
    ucontext_t context;
    void *stack;
};

static struct green threads[MAX_THREADS];
static int spawned;
static struct green *running;
static ucontext_t scheduler;
static uint64_t clock_ns;

static void enter(void)
{
    running->function(running->argument);
    running->state = ENDED;
    swapcontext(&running->context, &scheduler); // for good
}

struct green *green_spawn(const char *name, void (*function)(void *), void *argument)
{
    struct green *thread = spawned < MAX_THREADS ? &threads[spawned++] : NULL;
    if (!thread || !(thread->stack = malloc(STACK_BYTES)) || getcontext(&thread->context) != 0) {
        fprintf(stderr, "no room for the thread %s\n", name);
        exit(1);
    }
    thread->name = name;
    thread->function = function;
    thread->argument = argument;
    thread->deadline = UFUTEX_NO_DEADLINE;
    thread->context.uc_stack.ss_sp = thread->stack;
    thread->context.uc_stack.ss_size = STACK_BYTES;
    makecontext(&thread->context, enter, 0);
    return thread;
}

// Runs a thread until it gives up the processor.
static void run(struct green *thread)
{
    running = thread;
    swapcontext(&scheduler, &thread->context);
    running = NULL;
    if (thread->state == ENDED) {
        free(thread->stack);
        thread->stack = NULL;
    }
}

// All sleep: the clock goes on to the first deadline. Whether there is one.
static bool skip_to_deadline(void)
{
    uint64_t first = UFUTEX_NO_DEADLINE;
    for (int i = 0; i < spawned; i++)
        if (threads[i].state == ASLEEP && threads[i].deadline < first)
            first = threads[i].deadline;
    if (first == UFUTEX_NO_DEADLINE)
        return false;
    if (first > clock_ns)
        clock_ns = first;
    return true;
}

int green_run(void)
{
    for (;;) {
        bool ran = false;
        for (int i = 0; i < spawned; i++) {
            if (threads[i].state == ASLEEP && threads[i].deadline <= clock_ns)
                threads[i].state = READY;
            if (threads[i].state == READY) {
                ran = true;
                run(&threads[i]);
            }
        }
        if (!ran && !skip_to_deadline())
            break;
    }
    int stuck = 0;
    for (int i = 0; i < spawned; i++)
        stuck += threads[i].state != ENDED;
    return stuck;
}

struct green *green_self(void) { return running; }

const char *green_name(const struct green *thread) { return thread->name; }

void green_yield(void)
{
    struct green *self = running;
    swapcontext(&self->context, &scheduler);
}

void green_work(uint64_t ns)
{
    clock_ns += ns;
    green_yield();
}

uint64_t green_now(void) { return clock_ns; }

static void *current(void *context)
{
    (void)context;
    return running; // NULL outside of green_run(): then libufutex lets the host's thread sleep
}

static int park(void *context, void *thread, uint32_t clock, uint64_t deadline)
{
    (void)context, (void)clock; // both clocks are the same here
    struct green *self = thread;
    if (!self->permit) {
        self->state = ASLEEP;
        self->deadline = deadline;
        swapcontext(&self->context, &scheduler);
        self->deadline = UFUTEX_NO_DEADLINE;
    }
    self->permit = false;
    return 0; // libufutex looks at the clock itself
}

// Must not switch to the other thread: the one that wakes it is in the middle of a call of libufutex.
static void unpark(void *context, void *thread)
{
    (void)context;
    struct green *other = thread;
    other->permit = true;
    if (other->state == ASLEEP)
        other->state = READY;
}

static uint64_t show(void *context, uint32_t clock)
{
    (void)context, (void)clock;
    return clock_ns;
}

const struct ufutex_parker green_parker = {.size = sizeof green_parker, .current = current, .park = park, .unpark = unpark};
const struct ufutex_clock green_clock = {.size = sizeof green_clock, .now = show};
