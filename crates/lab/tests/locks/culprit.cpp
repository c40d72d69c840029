// As culprit.c, with what C++ has. The locks are on the heap.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <pthread.h>
#include <string>
#include <thread>
#include <vector>

static void rest(long ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

struct Shop {
    std::mutex orders, prices, queue;
    std::condition_variable arrived;
    std::atomic<bool> is_over = false;

    [[gnu::noinline]] void take_orders(long ms) {
        std::lock_guard held(orders);
        rest(ms);
    }

    [[gnu::noinline]] void take_prices(long ms) {
        std::lock_guard held(prices);
        rest(ms);
    }

    [[gnu::noinline]] void wait_for_work() {
        std::unique_lock held(queue);
        arrived.wait(held, [this] { return is_over.load(); });
    }

    void clerk(long orders_ms, long prices_ms) {
        pthread_setname_np(pthread_self(), "clerk");
        for (int i = 0; i < 12; i++) {
            take_orders(orders_ms);
            take_prices(prices_ms);
        }
        is_over = true;
    }

    void buyer() {
        while (!is_over) {
            take_orders(0);
            take_prices(0);
        }
    }
};

int main(int argc, char **argv) {
    auto shop = std::make_unique<Shop>();
    bool is_prices = argc > 1 && !std::strcmp(argv[1], "prices");
    std::vector<std::thread> work, idle;
    for (int i = 0; i < 4; i++) idle.emplace_back([&] { shop->wait_for_work(); });
    work.emplace_back([&] { shop->clerk(is_prices ? 1 : 25, is_prices ? 25 : 1); });
    for (int i = 0; i < 3; i++) work.emplace_back([&] { shop->buyer(); });
    for (auto &thread : work) thread.join();
    {
        std::lock_guard held(shop->queue);
        shop->arrived.notify_all();
    }
    for (auto &thread : idle) thread.join();
}
