//! The API of both lines, on the published crates and on ours.

mod bodies;
mod lines;
#[path = "../../../ufutex/tests/common/random.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod numbers;
mod ours;
mod random;
mod threads;

macro_rules! on_all {
    ($($body:ident)*) => {
        on_all!(@ published_0_9 Published09 $($body)*);
        on_all!(@ published_0_10 Published010 $($body)*);
        on_all!(@ ours_0_9 Ours09 $($body)*);
        on_all!(@ ours_0_10 Ours010 $($body)*);
    };
    (@ $module:ident $core:ident $($body:ident)*) => {
        mod $module {
            $(
                #[test]
                fn $body() {
                    crate::bodies::$body::<crate::lines::$core>();
                }
            )*
        }
    };
}

on_all! {
    park_is_invalid_where_validate_says_no
    thread_is_queued_before_it_sleeps_and_gets_the_token
    every_key_is_a_key
    neighbours_in_a_cache_line_are_keys_apart
    unpark_one_takes_the_first_and_says_whether_others_are_left
    unpark_all_tells_each_the_same_token
    callback_keeps_the_queue_locked
    timeout_is_not_early_and_says_who_was_last
    timeout_after_a_requeue_names_the_new_key
    filter_unparks_whom_it_chooses
    filter_stops_where_it_is_told_to
    filter_of_nobody_still_calls_back
    requeue_does_what_validate_says
    requeue_of_nobody_calls_back
    requeues_back_and_forth_lose_nobody
    hundreds_of_threads_park_and_all_are_unparked
    timeouts_that_race_unparks_are_one_or_the_other
    spin_waits_ten_times_and_then_says_no
}
