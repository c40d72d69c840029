//! Allocation failures: for every n, the n-th allocation fails.
//!
//! Promise: failed allocations

include!("../common/engine.rs");

#[path = "../common/mod.rs"]
mod common;

mod allocator;
mod markers;
mod scenarios;

#[global_allocator]
static ALLOCATOR: allocator::Failing = allocator::Failing;
