//! The engine's Rust interface: requeues, `wake_op`, waits on several words, interrupts, PI locks and robust lists, for
//! threads, futures and custom waiters.

include!("../common/engine.rs");

#[path = "../common/mod.rs"]
mod common;

#[cfg(target_os = "linux")]
mod fork;
mod groups;
mod pid_namespaces;

mod at_once;
mod busy_graph;
mod contenders;
mod driver_thread;
mod flat_memory;
mod interrupt;
mod keys;
mod lock;
mod lock_death;
mod lock_depth;
mod lock_leave;
mod lock_priority;
mod lock_shared;
mod lock_stress;
mod outside;
mod requeue;
mod requeue_pi;
mod requeue_pi_pieces;
mod requeue_stress;
mod robust;
mod scheduler;
#[cfg(target_os = "linux")] // interrupts threads by signals of the host
mod signal;
mod statics;
mod syscalls;
mod targets;
mod timeouts;
mod wait_any;
mod wake_op;
mod widths;
