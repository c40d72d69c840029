//! What the engine promises beyond futex(2): tasks and custom waiters, faults of guest memory, bounded memory, tables
//! that grow, the order of queues, counters and lists of waiters.

include!("../common/engine.rs");

#[path = "../common/mod.rs"]
mod common;

mod collisions;
mod counters;
mod custom;
mod fault_in;
mod ids;
mod limits;
mod load_policy;
mod memory;
mod numa;
mod observer;
mod pieces;
#[cfg(all(feature = "probes", target_os = "linux"))]
mod probes;
mod queue_model;
mod settle;
#[cfg(not(miri))] // which supports one stack only
mod stacks;
mod task;
mod values;
mod wake_check;
mod waker;
mod who_waits;
