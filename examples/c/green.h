// Green threads on one thread of the host, with a clock that runs when all of them sleep.
//
// What libufutex needs of a scheduler is a parker: which thread is running, let it sleep until it is unparked or its time is
// up, unpark a thread.
#ifndef GREEN_H
#define GREEN_H

#include <stdint.h>
#include <ufutex.h>

struct green;

extern const struct ufutex_parker green_parker;
extern const struct ufutex_clock green_clock;

// A thread that runs function(argument) from when green_run() is called.
struct green *green_spawn(const char *name, void (*function)(void *argument), void *argument);

// Runs all threads until none is left. How many could not go on: they sleep for ever.
int green_run(void);

// The thread that is running, and its name.
struct green *green_self(void);
const char *green_name(const struct green *thread);

// Lets the others run.
void green_yield(void);

// Uses the processor for this number of nanoseconds of the clock.
void green_work(uint64_t ns);

// What the clock shows, in nanoseconds.
uint64_t green_now(void);

#endif
