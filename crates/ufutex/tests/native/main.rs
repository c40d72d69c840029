//! The engine's own interface to all of futex(2): requeues, operations on two words, waits on many, interrupts, locks that
//! lend priority, robust lists; for threads, futures and custom waiters alike.

#[path = "../common/mod.rs"]
mod common;

mod futures;
mod memory;
mod places;
mod sleeping;

mod interrupt;
mod requeue;
mod requeue_stress;
mod requeued;
mod wait_any;
mod wake_op;
mod lock;
mod lock_priority;
mod scheduler;
mod lock_death;
mod lock_leave;
mod lock_shared;
mod requeue_pi;
mod robust;
mod lock_stress;
mod syscalls;
