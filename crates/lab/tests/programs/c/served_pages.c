// Words on pages that a thread of the program itself brings in (userfaultfd(2)). That thread uses futexes whose buckets
// the operation on such a word locks.
#include "futex.h"
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

static int server;
static _Atomic uint32_t *page, word;
static atomic_int ended;

static void begin(void) {
    server = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
    struct uffdio_api api = {.api = UFFD_API};
    if (server < 0 || ioctl(server, UFFDIO_API, &api)) {
        perror("userfaultfd");
        _exit(SKIPPED);
    }
    page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    struct uffdio_register range = {{(uintptr_t)page, 4096}, UFFDIO_REGISTER_MODE_MISSING, 0};
    CHECK_EQ(ioctl(server, UFFDIO_REGISTER, &range), 0);
    word = ended = 0;
}

static void serve(void) {
    struct uffd_msg message;
    struct uffdio_zeropage zero = {{(uintptr_t)page, 4096}, 0, 0};
    struct pollfd ready = {.fd = server, .events = POLLIN};
    struct timespec soon = {0, 1000};
    while (!ended) {
        if (poll(&ready, 1, 1) <= 0 || !(ready.revents & POLLIN)) continue;
        CHECK_EQ(read(server, &message, sizeof message), (long)sizeof message);
        // A wait locks the bucket of the word, and a requeue locks those of both words.
        CHECK_ERRNO(futex(&word, FUTEX_WAIT_PRIVATE, 0, &soon, NULL, 0), ETIMEDOUT);
        CHECK_EQ(waiters(&word), 0);
        CHECK_EQ(waiters(page), 0);
        // It may be there again.
        CHECK(ioctl(server, UFFDIO_ZEROPAGE, &zero) == 0 || errno == EEXIST);
    }
    CHECK_EQ(close(server), 0);
    CHECK_EQ(munmap(page, 4096), 0);
}

static void run(void *(*body)(void *)) {
    begin();
    alarm(50);
    pthread_t thread = start(body, NULL);
    serve();
    join(thread);
    alarm(0);
}

static void *requeues(void *unused) {
    show(futex(page, FUTEX_CMP_REQUEUE_PRIVATE, 1, (void *)1, &word, 0), "requeue");
    ended = 1;
    return unused;
}

static void *requeues_by_list(void *unused) {
    struct {
        uint64_t value, address;
        uint32_t flags, reserved;
    } words[2] = {{0, (uintptr_t)page, FUTEX2_U32 | FUTEX2_PRIV, 0}, {0, (uintptr_t)&word, FUTEX2_U32 | FUTEX2_PRIV, 0}};
    show(sys(SYS_futex2_requeue, ARGUMENT(words), 0, 1, 1, 0, 0), "requeue by list");
    ended = 1;
    return unused;
}

// The kernel does not ask the program for the page and returns EFAULT.
static void *wakes_and_changes(void *unused) {
    futex(&word, FUTEX_WAKE_OP_PRIVATE, 1, (void *)1, page, FUTEX_OP(FUTEX_OP_ADD, 1, FUTEX_OP_CMP_EQ, 0));
    ended = 1;
    return unused;
}

static void *waits(void *unused) {
    struct timespec soon = {0, 1000};
    show(futex(page, FUTEX_WAIT_PRIVATE, 0, &soon, NULL, 0), "wait");
    ended = 1;
    return unused;
}

// A thread takes the page away all the time: also between the moment when an operation has brought it in and the moment
// when the operation reads it with a bucket locked.
static void *takes_away(void *unused) {
    while (!ended) CHECK_EQ(madvise(page, 4096, MADV_DONTNEED), 0);
    return unused;
}

static void *uses_a_page_that_goes_away(void *unused) {
    struct timespec soon = {0, 1000};
    pthread_t other = start(takes_away, NULL);
    for (int i = 0; i < 2000; i++) {
        futex(&word, FUTEX_WAKE_OP_PRIVATE, 1, (void *)1, page, FUTEX_OP(FUTEX_OP_ADD, 0, FUTEX_OP_CMP_EQ, 0));
        CHECK_EQ(futex(page, FUTEX_CMP_REQUEUE_PRIVATE, 1, (void *)1, &word, 0), 0);
        CHECK_ERRNO(futex(page, FUTEX_WAIT_PRIVATE, 0, &soon, NULL, 0), ETIMEDOUT);
        CHECK_ERRNO(futex(page, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0), EAGAIN);
    }
    ended = 1;
    join(other);
    return unused;
}

static void at_the_first_word_of_a_requeue(void) { run(requeues), run(requeues_by_list); }
static void at_the_second_word_of_a_wake(void) { run(wakes_and_changes); }
static void at_the_word_of_a_wait(void) { run(waits); }
static void at_any_time(void) { run(uses_a_page_that_goes_away); }

MAIN(CASE(at_the_first_word_of_a_requeue), CASE(at_the_second_word_of_a_wake), CASE(at_the_word_of_a_wait),
     CASE(at_any_time))
