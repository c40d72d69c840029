//! The suite's bodies. They use only the three instructions on one shared memory, and observe from outside whether a
//! thread sleeps, so that any runtime can be the machine.

pub mod growth;
pub mod order;
pub mod results;
pub mod stress;
pub mod traps;
pub mod waiting;

use ufutex::wasm::{Trap, Waited};

/// A shared memory of a runtime.
pub trait Machine: Send + Sync + 'static {
    /// A zeroed memory of `pages` pages that can grow to `maximum` pages.
    fn new(pages: u64, maximum: u64) -> Self;

    /// `memory.grow`. Returns whether it succeeded.
    fn grow(&self, pages: u64) -> bool;

    /// The length in bytes.
    fn bytes(&self) -> u64;

    /// `i32.atomic.store`.
    fn store32(&self, address: u64, value: u32);

    /// `i64.atomic.store`.
    fn store64(&self, address: u64, value: u64);

    /// `i32.atomic.rmw.cmpxchg`.
    fn compare_exchange32(&self, address: u64, current: u32, new: u32) -> u32;

    /// `memory.atomic.wait32`.
    fn wait32(&self, address: u64, expected: u32, timeout: i64) -> Result<Waited, Trap>;

    /// `memory.atomic.wait64`.
    fn wait64(&self, address: u64, expected: u64, timeout: i64) -> Result<Waited, Trap>;

    /// `memory.atomic.notify`.
    fn notify(&self, address: u64, count: u32) -> Result<u32, Trap>;
}

/// One of the two waits.
pub trait Width: 'static {
    const BYTES: u64;

    fn wait<M: Machine>(machine: &M, address: u64, expected: u64, timeout: i64) -> Result<Waited, Trap>;

    fn store<M: Machine>(machine: &M, address: u64, value: u64);
}

/// `memory.atomic.wait32`.
pub struct Wait32;
/// `memory.atomic.wait64`.
pub struct Wait64;

impl Width for Wait32 {
    const BYTES: u64 = 4;

    fn wait<M: Machine>(machine: &M, address: u64, expected: u64, timeout: i64) -> Result<Waited, Trap> {
        machine.wait32(address, expected as u32, timeout)
    }
    fn store<M: Machine>(machine: &M, address: u64, value: u64) {
        machine.store32(address, value as u32);
    }
}

impl Width for Wait64 {
    const BYTES: u64 = 8;

    fn wait<M: Machine>(machine: &M, address: u64, expected: u64, timeout: i64) -> Result<Waited, Trap> {
        machine.wait64(address, expected, timeout)
    }
    fn store<M: Machine>(machine: &M, address: u64, value: u64) {
        machine.store64(address, value);
    }
}

/// A timeout that never expires.
pub const FOREVER: i64 = -1;

/// Makes a `#[test]` of every body on every machine, in both widths where it has one.
macro_rules! on_machines {
    ($($module:ident: $machine:ty;)*) => {$(
        mod $module {
            use $crate::suite::{growth, order, results, stress, traps};
            #[allow(unused_imports, reason = "not every machine is in a module")]
            use super::*;

            $crate::suite::in_both_widths! { $machine;
                results::wait_is_not_equal_when_the_word_differs;
                results::wait_compares_the_whole_word;
                results::wait_is_ok_when_a_notify_has_come_whether_the_word_has_changed_or_not;
                results::wait_is_timed_out_when_no_notify_came_in_time;
                results::wait_never_ends_before_its_timeout;
                results::wait_with_a_negative_timeout_never_expires;
                results::wait_with_the_longest_timeout_sleeps;
                results::store_alone_wakes_none;
                traps::wait_traps_when_the_address_is_unaligned;
                traps::wait_traps_when_the_word_is_out_of_bounds;
                order::waiters_are_woken_first_come_first_served;
                order::notify_wakes_its_count_of_waiters_in_order;
                order::waiter_that_timed_out_is_not_notified;
                order::notify_of_another_address_wakes_none;
                growth::word_beyond_the_end_can_be_waited_on_once_the_memory_has_grown;
                growth::waiters_stay_where_they_are_while_the_memory_grows;
            }
            $crate::suite::tests! { $machine;
                results::notify_without_waiters_wakes_none;
                traps::notify_traps_when_the_address_is_unaligned;
                traps::notify_traps_when_the_word_is_out_of_bounds;
                order::waits_of_both_widths_at_one_address_are_one_queue;
                order::notify_in_the_middle_of_a_word_wakes_none;
                stress::mutex_and_its_counter_agree_while_the_memory_grows;
                stress::as_many_waits_are_ok_as_were_notified;
            }
        }
    )*};
}

macro_rules! in_both_widths {
    ($machine:ty; $($topic:ident::$name:ident;)*) => {
        mod wait32 {
            use super::*;
            $crate::suite::tests! { $machine, $crate::suite::Wait32; $($topic::$name;)* }
        }
        mod wait64 {
            use super::*;
            $crate::suite::tests! { $machine, $crate::suite::Wait64; $($topic::$name;)* }
        }
    };
}

/// Makes a `#[test]` of one body. A body that hangs, because a notify was lost, fails.
macro_rules! tests {
    ($machine:ty; $($topic:ident::$name:ident;)*) => {$(
        #[test]
        fn $name() {
            $crate::common::patient::within_patience(stringify!($name), $topic::$name::<$machine>);
        }
    )*};
    ($machine:ty, $width:ty; $($topic:ident::$name:ident;)*) => {$(
        #[test]
        fn $name() {
            $crate::common::patient::within_patience(stringify!($name), $topic::$name::<$machine, $width>);
        }
    )*};
}

pub(crate) use {in_both_widths, on_machines, tests};
