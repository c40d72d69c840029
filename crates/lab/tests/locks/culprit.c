// One lock is held long, another one briefly, and two threads are idle: `culprit orders` or `culprit prices`.
#define _GNU_SOURCE
#include <pthread.h>
#include <string.h>
#include <time.h>

static pthread_mutex_t orders = PTHREAD_MUTEX_INITIALIZER;
// Declared before it is defined.
extern pthread_mutex_t prices;
pthread_mutex_t prices = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t queue = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t arrived = PTHREAD_COND_INITIALIZER;
static int is_over;
static long orders_ms = 1, prices_ms = 1;

static void rest(long ms) {
    struct timespec time = {0, ms * 1000000};
    nanosleep(&time, NULL);
}

static __attribute__((noinline)) void take_orders(long ms) {
    pthread_mutex_lock(&orders);
    rest(ms);
    pthread_mutex_unlock(&orders);
}

static __attribute__((noinline)) void take_prices(long ms) {
    pthread_mutex_lock(&prices);
    rest(ms);
    pthread_mutex_unlock(&prices);
}

static void *clerk(void *unused) {
    pthread_setname_np(pthread_self(), "clerk");
    for (int i = 0; i < 12; i++) {
        take_orders(orders_ms);
        take_prices(prices_ms);
    }
    __atomic_store_n(&is_over, 1, __ATOMIC_SEQ_CST);
    return unused;
}

static void *buyer(void *unused) {
    pthread_setname_np(pthread_self(), "buyer");
    while (!__atomic_load_n(&is_over, __ATOMIC_SEQ_CST)) {
        take_orders(0);
        take_prices(0);
    }
    return unused;
}

static __attribute__((noinline)) void wait_for_work(void) {
    pthread_mutex_lock(&queue);
    while (!is_over) pthread_cond_wait(&arrived, &queue);
    pthread_mutex_unlock(&queue);
}

static void *idle(void *unused) {
    pthread_setname_np(pthread_self(), "idle");
    wait_for_work();
    return unused;
}

int main(int argc, char **argv) {
    *(argc > 1 && !strcmp(argv[1], "prices") ? &prices_ms : &orders_ms) = 25;
    void *(*bodies[])(void *) = {clerk, buyer, buyer, buyer, idle, idle, idle, idle};
    pthread_t threads[8];
    for (int i = 0; i < 8; i++) pthread_create(&threads[i], NULL, bodies[i], NULL);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    pthread_mutex_lock(&queue);
    pthread_cond_broadcast(&arrived);
    pthread_mutex_unlock(&queue);
    for (int i = 4; i < 8; i++) pthread_join(threads[i], NULL);
}
