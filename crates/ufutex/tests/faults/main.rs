//! Memory that cannot be had: the n-th allocation fails, for every n.

#[path = "../common/mod.rs"]
mod common;

mod allocator;
mod locks;
mod markers;
mod scenarios;

#[global_allocator]
static ALLOCATOR: allocator::Failing = allocator::Failing;
