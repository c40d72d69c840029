//! Futex operations: keys and queue entries on one side, buckets on the other.

pub(crate) mod config;
pub(crate) mod counters;
pub(crate) mod domain;
pub(crate) mod entry;
pub(crate) mod future;
pub(crate) mod interrupt;
pub(crate) mod key;
pub(crate) mod numa;
pub(crate) mod operation;
pub(crate) mod pair;
#[cfg(feature = "parking")]
pub(crate) mod parking;
pub(crate) mod pi;
pub(crate) mod requeue;
pub(crate) mod robust;
#[cfg(feature = "std")]
pub(crate) mod seat;
pub(crate) mod slots;
pub(crate) mod system;
pub(crate) mod wait;
pub(crate) mod wait_any;
pub(crate) mod waiter;
pub(crate) mod wake;
pub(crate) mod wake_op;
pub(crate) mod who_waits;
pub(crate) mod word;
