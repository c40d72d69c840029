//! Futex operations: keys and queue entries on one side, buckets on the other.

// The groups are in the order in which a reader wants to know them. The documentation of `Domain` follows it.

pub(crate) mod domain;
pub(crate) mod static_domain;
pub(crate) mod system;

pub(crate) mod wait;
pub(crate) mod wake;

pub(crate) mod future;
pub(crate) mod waiter;

pub(crate) mod requeue;
pub(crate) mod wait_any;
pub(crate) mod wake_op;

pub(crate) mod interrupt;
pub(crate) mod operation;
pub(crate) mod spin;

pub(crate) mod counters;
pub(crate) mod observer;
pub(crate) mod slots;
pub(crate) mod who_waits;

pub(crate) mod namespace;
pub(crate) mod objects;
pub(crate) mod task;
mod tids;

pub(crate) mod lock_word;
#[cfg_attr(not(feature = "pi"), path = "no_pi.rs")]
pub(crate) mod pi;
pub(crate) mod priority;
pub(crate) mod robust;

pub(crate) mod config;
pub(crate) mod entry;
#[cfg(feature = "std")]
pub(crate) mod env;
pub(crate) mod key;
pub(crate) mod numa;
pub(crate) mod pair;
#[cfg(feature = "parking")]
pub(crate) mod parking;
pub(crate) mod place;
pub(crate) mod seat;
pub(crate) mod word;
