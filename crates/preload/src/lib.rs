//! The library that `ufutex run` loads into a program: it takes the program's private futex calls and gives them to the
//! engine. See the top of each file.
//!
//! | file | what |
//! |---|---|
//! | `entry.rs` | the functions of libc that are taken over; where it all begins and ends |
//! | `real.rs` | libc's own, which those hand on to |
//! | `calls.rs` | which calls are ours |
//! | `engine.rs` | the program's domain; calls on it; sleeping |
//! | `mixed.rs` | waits for words of which some are the kernel's |
//! | `gate.rs` | being inside the engine, and signals that come meanwhile |
//! | `signals.rs` | the handlers of the program behind one of ours |
//! | `trap.rs`, `filter.rs` | `--trap`: system calls that are no calls of libc's functions |
//! | `back.rs` | `--trap`: the way back to the program |
//! | `tracer.rs` | `--trap`: what debuggers do not see of it |
//! | `timers/` | `--timers`: timer_create(2) and its family |
//! | `kernel.rs` | `--kernel`: futexes stay with the kernel, on a table of a given size |
//! | `sanitizer.rs` | what AddressSanitizer asks |
//! | `memory.rs` | the program's memory at any address |
//! | `nodes.rs` | the machine's memory nodes |
//! | `stack.rs` | a stack for what needs more than the program's may have |
//! | `exit.rs`, `report/`, `hot.rs` | `--stats`: when a report is written, what is in it, the words named most |
//! | `process.rs`, `heap.rs`, `seat.rs` | what there is for a process, and is not there in a forked child |
//!
//! Nothing here may use a lock of `std` or a thread-local of Rust's. Such a lock is a futex of the process that we
//! handle, and a thread may not have thread-local storage.

#![cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
#![allow(missing_docs, clippy::missing_safety_doc)] // not an interface of Rust's: libc documents what it has
#![no_std]

extern crate std;

mod back;
mod calls;
mod engine;
mod entry;
mod exit;
mod filter;
mod gate;
mod heap;
mod hot;
mod kernel;
mod memory;
mod mixed;
mod nodes;
mod process;
mod raw;
mod real;
mod report;
mod sanitizer;
mod seat;
mod settings;
mod signals;
mod stack;
mod timers;
mod tracer;
mod trap;
