// A guest's memory: two pages at GUEST, absent until faulted in, the second read-only; and its system calls.
#ifndef GUEST_H
#define GUEST_H

#include "check.h"

#define GUEST 0x5000000000000000ull // not mapped in this process
#define PAGE 4096u

struct guest {
    _Alignas(8) _Atomic uint8_t bytes[2 * PAGE];
    _Atomic bool present[2];
    _Atomic int faults;
    uint64_t object; // if not 0, the pages are shared memory and this is their object
    uint64_t first;  // if not 0, the pages begin here, and not at GUEST
};

static inline uint64_t guest_first(const struct guest *guest)
{
    return guest->first ? guest->first : GUEST;
}

static inline struct guest *guest_page(struct guest *guest, uint64_t address, uint32_t bytes, bool writes, void **word)
{
    uint64_t offset = address - guest_first(guest);
    if (address < guest_first(guest) || offset > 2 * PAGE - bytes)
        return NULL;
    *word = (void *)&guest->bytes[offset];
    return guest->present[offset / PAGE] && !(writes && offset >= PAGE) ? guest : NULL;
}

static int guest_load(void *context, uint64_t address, uint32_t bytes, uint64_t *value)
{
    void *word;
    if (!guest_page(context, address, bytes, false, &word))
        return -1;
    switch (bytes) {
    case 1: *value = atomic_load((_Atomic uint8_t *)word); return 0;
    case 2: *value = atomic_load((_Atomic uint16_t *)word); return 0;
    case 4: *value = atomic_load((_Atomic uint32_t *)word); return 0;
    case 8: *value = atomic_load((_Atomic uint64_t *)word); return 0;
    }
    abort();
}

#define EXCHANGE(type)                                                                        \
    do {                                                                                      \
        type held = (type)*current;                                                           \
        bool done = atomic_compare_exchange_strong((_Atomic type *)word, &held, (type)desired); \
        *current = held;                                                                      \
        return done ? 0 : 1;                                                                  \
    } while (0)

static int guest_compare_exchange(void *context, uint64_t address, uint32_t bytes, uint64_t *current, uint64_t desired)
{
    void *word;
    if (!guest_page(context, address, bytes, true, &word))
        return -1;
    switch (bytes) {
    case 1: EXCHANGE(uint8_t);
    case 2: EXCHANGE(uint16_t);
    case 4: EXCHANGE(uint32_t);
    case 8: EXCHANGE(uint64_t);
    }
    abort();
}

static int guest_fault_in(void *context, uint64_t address, uint32_t access)
{
    struct guest *guest = context;
    uint64_t offset = address - guest_first(guest);
    if (address < guest_first(guest) || offset >= 2 * PAGE || (access == UFUTEX_WRITE && offset >= PAGE))
        return -1;
    guest->faults++;
    guest->present[offset / PAGE] = true;
    return 0;
}

static int guest_scope(void *context, uint64_t address, uint32_t access, uint64_t *object, uint64_t *offset)
{
    struct guest *guest = context;
    (void)access;
    *object = guest->object;
    *offset = address - guest_first(guest);
    return guest->object ? (int)UFUTEX_SCOPE_OBJECT : (int)UFUTEX_SCOPE_ADDRESS_SPACE;
}

static int guest_access_ok(void *context, uint64_t address, uint64_t bytes)
{
    (void)context, (void)bytes;
    return address < 1ull << 63;
}

static inline ufutex_memory guest_memory(struct guest *guest)
{
    ufutex_memory memory = UFUTEX_MEMORY_INIT;
    memory.context = guest;
    memory.load = guest_load;
    memory.compare_exchange = guest_compare_exchange;
    memory.fault_in = guest_fault_in;
    memory.scope = guest_scope;
    memory.access_ok = guest_access_ok;
    return memory;
}

static inline void guest_store32(struct guest *guest, uint64_t offset, uint32_t value)
{
    atomic_store((_Atomic uint32_t *)(void *)&guest->bytes[offset], value);
}

static inline uint32_t guest_load32(struct guest *guest, uint64_t offset)
{
    return atomic_load((_Atomic uint32_t *)(void *)&guest->bytes[offset]);
}

static inline void guest_store64(struct guest *guest, uint64_t offset, uint64_t value)
{
    atomic_store((_Atomic uint64_t *)(void *)&guest->bytes[offset], value);
}

#endif
