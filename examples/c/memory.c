#include "memory.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Atomic(char *) pages[GUEST_PAGES];

// Where a word is in this process; NULL while its page does not exist.
static void *look_up(uint64_t address, uint32_t bytes)
{
    uint64_t offset = address - GUEST_BASE;
    if (address < GUEST_BASE || offset + bytes > (uint64_t)GUEST_PAGE * GUEST_PAGES)
        return NULL;
    char *page = pages[offset / GUEST_PAGE];
    return page ? page + offset % GUEST_PAGE : NULL;
}

// Never blocks: libufutex holds the lock of a bucket. What is not there is a fault.
static int load(void *context, uint64_t address, uint32_t bytes, uint64_t *value)
{
    (void)context;
    void *word = look_up(address, bytes);
    if (!word)
        return -1;
    switch (bytes) {
    case 1: *value = atomic_load((_Atomic uint8_t *)word); return 0;
    case 2: *value = atomic_load((_Atomic uint16_t *)word); return 0;
    case 4: *value = atomic_load((_Atomic uint32_t *)word); return 0;
    default: *value = atomic_load((_Atomic uint64_t *)word); return 0;
    }
}

static int compare_exchange(void *context, uint64_t address, uint32_t bytes, uint64_t *current, uint64_t desired)
{
    (void)context;
    void *word = look_up(address, bytes);
    if (!word)
        return -1;
    // A guest of Linux has words of 32 bits; system calls write single bytes and pointers besides.
    if (bytes == 1) {
        uint8_t held = (uint8_t)*current;
        bool done = atomic_compare_exchange_strong((_Atomic uint8_t *)word, &held, (uint8_t)desired);
        *current = held;
        return !done;
    }
    if (bytes == 4) {
        uint32_t held = (uint32_t)*current;
        bool done = atomic_compare_exchange_strong((_Atomic uint32_t *)word, &held, (uint32_t)desired);
        *current = held;
        return !done;
    }
    return bytes == 8 ? !atomic_compare_exchange_strong((_Atomic uint64_t *)word, current, desired) : -1;
}

// May block, as nothing is locked: here it makes a page of zeroes.
static int fault_in(void *context, uint64_t address, uint32_t access)
{
    (void)context, (void)access;
    uint64_t offset = address - GUEST_BASE;
    if (address < GUEST_BASE || offset >= (uint64_t)GUEST_PAGE * GUEST_PAGES)
        return -1; // EFAULT
    char *none = NULL, *page = aligned_alloc(GUEST_PAGE, GUEST_PAGE);
    if (!page)
        return -1;
    memset(page, 0, GUEST_PAGE);
    if (!atomic_compare_exchange_strong(&pages[offset / GUEST_PAGE], &none, page))
        free(page); // somebody else was quicker
    return 0;
}

const struct ufutex_memory guest_memory = {
    .size = sizeof guest_memory,
    .load = load,
    .compare_exchange = compare_exchange,
    .fault_in = fault_in,
};

int guest_pages(void)
{
    int count = 0;
    for (int i = 0; i < GUEST_PAGES; i++)
        count += pages[i] != NULL;
    return count;
}

_Atomic uint32_t *guest_word(uint64_t address)
{
    void *word = look_up(address, 4);
    if (!word && fault_in(NULL, address, UFUTEX_WRITE) == 0)
        word = look_up(address, 4);
    if (!word) {
        fprintf(stderr, "the guest is shot: no memory at %#llx\n", (unsigned long long)address);
        exit(1);
    }
    return word;
}

void guest_write64(uint64_t address, uint64_t value)
{
    *guest_word(address) = (uint32_t)value;
    *guest_word(address + 4) = (uint32_t)(value >> 32);
}
