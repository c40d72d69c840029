//! What the engine promises beyond futex(2): tasks and custom waiters, faults of guest memory, memory that stays
//! bounded, tables that grow when that helps, queues in the right order; what can be seen of it all from outside.

#[path = "../common/mod.rs"]
mod common;

mod counters;
mod custom;
mod fault_in;
mod limits;
mod load_policy;
mod memory;
mod numa;
mod pieces;
#[cfg(all(feature = "probes", target_os = "linux"))]
mod probes;
mod queue_model;
#[cfg(not(miri))] // which knows one stack
mod stacks;
mod task;
mod waker;
mod who_waits;
