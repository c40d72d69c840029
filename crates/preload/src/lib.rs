//! The library that `ufutex run` loads into a program: it takes the program's private futex calls and gives them to the
//! engine. See the top of each file.
//!
//! | file | what |
//! |---|---|
//! | `entry.rs` | the functions of libc that this library replaces; its beginning and its end |
//! | `local.rs` | the functions of libc that this library calls, made here |
//! | `real.rs` | libc's own functions, to which the replacements pass calls on |
//! | `calls.rs` | which calls go to the engine |
//! | `engine.rs` | the program's domain; calls on it; sleeping |
//! | `mixed.rs` | waits for several words, some of which are the kernel's |
//! | `gate.rs` | being inside the engine, and signals that arrive meanwhile |
//! | `late.rs` | futex calls of handlers that were not seen being installed |
//! | `signals.rs` | the program's signal handlers, which run behind one of ours |
//! | `trap.rs`, `filter.rs` | `--trap`: system calls that are not made through libc's functions |
//! | `mark.rs` | `--trap`: how the library's own calls are told from the program's |
//! | `back.rs` | `--trap`: the way back to the program |
//! | `pkeys.rs` | `--trap`: memory with protection keys |
//! | `patch/` | jumps in libc's code: to futex calls without a trap, and without `--trap` from `syscall` and `sigaction` |
//! | `tracer.rs` | `--trap`: hiding the traps from debuggers |
//! | `timers/` | `--timers`: timer_create(2) and its family |
//! | `kernel.rs` | `--kernel`: futexes stay with the kernel, on a table of a given size |
//! | `sanitizer.rs` | what AddressSanitizer asks |
//! | `memory.rs`, `stuck.rs` | the program's memory at any address; threads that wait for a page of it |
//! | `nodes.rs` | the machine's memory nodes |
//! | `stack.rs` | a stack for code that needs more than the program's stack may have |
//! | `exit.rs`, `report/`, `hot.rs` | `--stats`: when a report is written, its contents, the words named most |
//! | `process.rs`, `heap.rs`, `seat.rs` | the state of a process, which a forked child does not inherit |
//!
//! Nothing here may use a lock of `std` or a thread-local of Rust's. Such a lock is a futex of the process that we
//! handle, and a thread may not have thread-local storage.

#![cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
#![allow(missing_docs, clippy::missing_safety_doc)] // not a Rust interface: libc documents these functions
#![no_std]

extern crate std;

/// `ufutex_program::environment::LIBRARY_SYMBOL`: the command looks for this name in a file that the user names as the library.
/// It refuses a file without the symbol. The loader would preload any library, and the program would run on the kernel.
#[used]
#[unsafe(no_mangle)]
pub static UFUTEX_PRELOAD_LIBRARY: u8 = 1;

mod back;
mod calls;
mod engine;
mod entry;
mod exit;
mod file;
mod filter;
mod gate;
mod heap;
mod hot;
mod kernel;
mod late;
mod local;
mod mark;
mod memory;
mod mixed;
mod nodes;
mod patch;
mod pkeys;
mod process;
mod raw;
mod real;
mod report;
mod sanitizer;
mod seat;
mod settings;
mod signals;
mod stack;
mod stuck;
mod timers;
mod tracer;
mod trap;
