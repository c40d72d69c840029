// The guest's memory: some pages at GUEST_BASE, which exist from when they are first touched.
#ifndef MEMORY_H
#define MEMORY_H

#include <stdatomic.h>
#include <stdint.h>
#include <ufutex.h>

#define GUEST_BASE 0x10000ull

enum { GUEST_PAGE = 4096, GUEST_PAGES = 4 };

// What libufutex calls; the context is not used, as there is one guest.
extern const struct ufutex_memory guest_memory;

// How many pages exist.
int guest_pages(void);

// The guest's own accesses: its page is made when there is none, as a kernel would on a page fault.
_Atomic uint32_t *guest_word(uint64_t address);
void guest_write64(uint64_t address, uint64_t value);

#endif
