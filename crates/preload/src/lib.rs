//! The library that `ufutex run` loads into a program: it takes the program's private futex calls and gives them to the
//! engine. `grep -rm1 '^//!' crates/preload/src` prints a line for each file.
//!
//! Words that several files use:
//!
//! - **inside**: in the engine, where no handler of the program may run (`gate.rs`). A thread is inside by a flag in
//!   its thread-local storage, or by a mask that blocks all signals. A signal that arrives there is *deferred*: it is
//!   sent once more, and delivered outside.
//! - **trap**: `--trap` has each system call that the program makes by an instruction stop with SIGSYS, whose handler
//!   makes it (`trap.rs`). The filter's signals have a *tag* in `si_errno`, and our own calls have a *mark* in an
//!   argument.
//! - **site** and **stub**: an instruction of libc that a jump has replaced, and the code that the jump leads to
//!   (`patch`).
//! - **seat**: the word that a thread of the program sleeps on, with room for its call (`seat.rs`).
//! - **line** and **bell**: expired timers for one receiver and signal, and the signal that says that there are any
//!   (`timers/mail.rs`).
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
mod profile;
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
