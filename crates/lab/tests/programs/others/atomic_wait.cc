// C++20: atomic wait and notify, which libstdc++ implements with syscall(), and the standard library's other waits.
#include <cstdio>
#if !__has_include(<barrier>)
int main() {
    std::fputs("this C++ library has no atomic waits and no barriers\n", stderr);
    return 77;
}
#else
#include <atomic>
#include <barrier>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <future>
#include <latch>
#include <mutex>
#include <semaphore>
#include <shared_mutex>
#include <stop_token>
#include <thread>
#include <vector>

using namespace std::chrono_literals;

static void check(bool right, int line) {
    if (right) return;
    std::fprintf(stderr, "%s:%d\n", __FILE__, line);
    std::_Exit(99);
}
#define CHECK(condition) check(condition, __LINE__)

template <class Body> static void on_threads(int count, Body body) {
    std::vector<std::jthread> threads;
    for (int i = 0; i < count; i++) threads.emplace_back([=, &body] { body(i); });
}

static void ping_pong() {
    std::atomic<int> turn{0};
    on_threads(2, [&](int me) {
        for (int i = me; i < 20000; i += 2) {
            for (int seen; (seen = turn.load()) != i;) turn.wait(seen);
            turn.store(i + 1);
            turn.notify_one();
        }
    });
    CHECK(turn == 20000);
}

// A type that is not int: libstdc++ waits on a word of its own.
static void large_values() {
    std::atomic<std::size_t> generation{0};
    std::atomic<int> arrived{0};
    on_threads(4, [&](int) {
        for (std::size_t i = 0; i < 1000; i++) {
            if (arrived.fetch_add(1) + 1 == 4) {
                arrived = 0;
                generation = i + 1;
                generation.notify_all();
            }
            for (std::size_t seen; (seen = generation.load()) <= i;) generation.wait(seen);
        }
    });
    CHECK(generation == 1000);
}

static void flags() {
    std::atomic_flag locked;
    long sum = 0;
    on_threads(4, [&](int) {
        for (int i = 0; i < 10000; i++) {
            while (locked.test_and_set(std::memory_order_acquire)) locked.wait(true);
            sum++;
            locked.clear(std::memory_order_release);
            locked.notify_one();
        }
    });
    CHECK(sum == 40000);
}

static void semaphores_latches_barriers() {
    std::counting_semaphore<8> places{2};
    std::atomic<int> inside{0};
    std::latch started{4};
    std::barrier meeting{4};
    on_threads(4, [&](int) {
        started.arrive_and_wait();
        for (int i = 0; i < 2000; i++) {
            places.acquire();
            CHECK(++inside <= 2);
            --inside;
            places.release();
        }
        for (int i = 0; i < 300; i++) meeting.arrive_and_wait();
    });
    CHECK(!std::binary_semaphore{0}.try_acquire_for(5ms));
}

static void queue() {
    std::mutex mutex;
    std::condition_variable_any filled;
    std::deque<int> items;
    long sum = 0;
    {
        std::vector<std::jthread> consumers;
        std::atomic<int> left{20000};
        for (int i = 0; i < 3; i++)
            consumers.emplace_back([&](std::stop_token stop) {
                std::unique_lock lock{mutex};
                while (filled.wait(lock, stop, [&] { return !items.empty(); })) {
                    sum += items.front();
                    items.pop_front();
                    left--;
                }
            });
        on_threads(2, [&](int) {
            for (int i = 0; i < 10000; i++) {
                std::lock_guard lock{mutex};
                items.push_back(i);
                filled.notify_one();
            }
        });
        while (left) std::this_thread::sleep_for(1ms);
    }
    CHECK(sum == 2l * 10000 * 9999 / 2);
}

static void readers_and_writers() {
    std::shared_timed_mutex mutex;
    long pair[2] = {};
    on_threads(4, [&](int me) {
        for (int i = 0; i < 4000; i++) {
            if ((i + me) % 8) {
                std::shared_lock lock{mutex};
                CHECK(pair[0] == pair[1]);
            } else {
                std::unique_lock lock{mutex};
                pair[0]++;
                pair[1]++;
            }
        }
    });
    CHECK(pair[0] == 2000);
}

static void futures() {
    std::once_flag once;
    int made = 0;
    std::vector<std::future<long>> results;
    for (long i = 0; i < 100; i++)
        results.push_back(std::async(std::launch::async, [&, i] {
            std::call_once(once, [&] { made++; });
            return i * i;
        }));
    long sum = 0;
    for (auto &result : results) sum += result.get();
    CHECK(sum == 328350 && made == 1);
    std::promise<int> never;
    CHECK(never.get_future().wait_for(5ms) == std::future_status::timeout);
    // Exceptions are passed on by std::async.
    auto failing = std::async(std::launch::async, []() -> int { throw 7; });
    try {
        failing.get();
        CHECK(false);
    } catch (int thrown) { CHECK(thrown == 7); }
}

int main() {
    ping_pong();
    large_values();
    flags();
    semaphores_latches_barriers();
    queue();
    readers_and_writers();
    futures();
    std::puts("ok");
}
#endif
