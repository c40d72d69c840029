//! One suite for futex(2) and for the engine. Each body is written once and runs on the kernel, private and shared, and
//! on the engine with every scheme, layout and kind of key, with the early return and without.
//!
//! A test is named `target::way::body`. The kernel is the oracle: a body that fails on the kernel is wrong.

include!("../common/engine.rs");

#[path = "../common/mod.rs"]
mod common;

mod bodies;
mod engine;
mod futex;
#[cfg(target_os = "linux")] // there is no futex(2) elsewhere
mod kernel;
#[cfg(target_os = "linux")] // compares with it
mod numa;
mod only;
mod sleeper;

/// Makes the module `$target` with one test for each body, on the futex that `$make` returns.
macro_rules! suite {
    ($target:ident, $make:expr) => {
        mod $target {
            bodies! { $make;
                compare::wait_compares_all_32_bits,
                compare::wait_that_differs_is_eagain_even_after_its_timeout,
                compare::wait_that_differs_leaves_no_entry_behind,
                compare::wake_is_not_spent_on_a_waiter_that_reports_a_difference,
                compare::wake_between_compare_and_sleep_is_not_lost,
                timeout::relative_timeout_ends_the_wait_but_not_before_its_time,
                timeout::absolute_monotonic_timeout_ends_the_wait_but_not_before_its_time,
                timeout::absolute_realtime_timeout_ends_the_wait_but_not_before_its_time,
                timeout::timeout_that_has_passed_already_ends_the_wait,
                timeout::wake_ends_a_wait_before_its_timeout,
                timeout::waiter_that_timed_out_leaves_no_entry_behind,
                timeout::waiter_that_times_out_leaves_the_others_queued_in_order,
                timeout::wakes_counted_are_waits_that_ended_by_a_wake,
                wake::wake_returns_0_without_waiters,
                wake::wake_takes_as_many_as_it_was_asked_to,
                wake::wake_of_150_waiters_at_once_wakes_them_all,
                wake::two_quick_wakes_release_two_waiters,
                wake::words_in_one_cache_line_do_not_mix,
                wake::words_in_one_bucket_do_not_mix,
                wake::private_and_shared_operations_on_one_address_use_different_keys,
                order::waiters_are_woken_in_the_order_in_which_they_came,
                order::wake_of_several_takes_those_that_came_first,
                order::real_time_priority_comes_first_and_then_the_order_of_arrival,
                bitset::wake_bitset_takes_the_waiters_that_have_its_bit,
                bitset::one_common_bit_is_enough,
                bitset::limit_counts_only_waiters_that_match,
                bitset::plain_wake_takes_waiters_of_every_bitset,
                bitset::waiter_that_was_passed_over_keeps_its_turn,
                handoff::two_threads_take_thousands_of_turns,
            }
        }
    };
}

macro_rules! bodies {
    ($make:expr; $($topic:ident::$body:ident,)*) => {$(
        #[test]
        fn $body() {
            crate::bodies::$topic::$body(&$make);
        }
    )*};
}

/// The suite on the engine, with and without the early return of a wait.
macro_rules! engine_suite {
    ($($target:ident: $keys:ident;)*) => {$(
        mod $target {
            suite! { early_return, crate::engine::$keys(true) }
            suite! { by_bucket, crate::engine::$keys(false) }
        }
    )*};
}

#[cfg(all(target_os = "linux", not(feature = "counted")))]
suite! { kernel_private, crate::kernel::kernel(crate::futex::Sharing::Private) }
#[cfg(all(target_os = "linux", not(feature = "counted")))]
suite! { kernel_shared, crate::kernel::kernel(crate::futex::Sharing::Shared) }

engine_suite! {
    private: private;
    spinning: spinning;
    any_std: any_std;
    global: global;
    shared_object: object;
    shared_address_space: address_space;
}
