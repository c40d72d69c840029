//! For every operation and every n: the n-th allocation of the operation fails, and then the n-th and all later ones.
//! The operation succeeds or returns the error that is documented. Afterwards waits and wakes work, and when all has
//! been dropped no memory is left. `tests/faults` says what each operation falls back to.
//!
//! Promise: failed allocations

mod allocator;
mod calls;
mod futexes;
#[path = "../common/futures.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod futures;
mod locks;
mod timers;
mod works;

use allocator::scenarios;

fn main() {
    allocator::run(scenarios![
        futexes::system,
        futexes::system_with_callbacks,
        futexes::namespace_and_domain,
        futexes::domain_before_its_first_wait,
        futexes::static_domain,
        futexes::wait_of_a_thread,
        futexes::wait_on_a_shared_word,
        futexes::wait_of_a_future,
        futexes::timeout_of_a_future,
        futexes::wait_for_several_words,
        futexes::wake_of_many,
        futexes::requeue_of_many,
        futexes::wake_op_of_many,
        futexes::sizes,
        futexes::growth,
        futexes::lists_and_counters,
        futexes::parking,
        locks::tasks,
        locks::lock_and_unlock,
        locks::requeue_to_a_lock,
        locks::end_of_a_task,
        locks::priorities,
        calls::futexes,
        calls::timers,
        calls::wasm,
        timers::tables,
        timers::lives,
        timers::many,
        timers::limit,
        timers::given_ids,
        timers::expiry_and_channel,
    ]);
    // Elsewhere the standard library makes the thread, and ends the program if there is no memory.
    #[cfg(target_os = "linux")]
    allocator::run(scenarios![
        timers::clocks_of_cpu_time,
        timers::thread_of_the_driver,
        timers::thread_of_the_driver_delivers
    ]);
}
