//! What the engine promises beyond futex(2): tasks and custom waiters, faults of guest memory, memory that stays
//! bounded, tables that grow when that helps, queues in the right order.

#[path = "../common/mod.rs"]
mod common;

mod custom;
mod fault_in;
mod load_policy;
mod memory;
mod numa;
mod queue_model;
mod task;
mod waker;
