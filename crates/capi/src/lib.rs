//! The C interface of `ufutex`, declared in `include/ufutex.h` and built as `libufutex.so` and `libufutex.a`.
//!
//! Three things stand between a C program and the engine:
//!
//! - **Handles** (`registry`, `holds`). A handle is a number that is looked up in a table. So a freed handle is
//!   recognised without reading freed memory, and no object is freed while an operation uses it.
//! - **Platforms** (`platform`, `operation`, `bell`). Memory, clock and parker are structs of functions. Without a
//!   parker the engine itself blocks threads. With a parker the engine's futures are polled here, and their wakers call
//!   the parker's `unpark`.
//! - **Structs with a size** (`abi`), so that programs and libraries of different versions work together.
//!
//! A panic does not leave the library: in a function with the C calling convention it ends the process, in every build
//! profile.

#![allow(non_camel_case_types, reason = "the names are those of C")]
#![expect(clippy::missing_safety_doc, reason = "ufutex.h says what each function wants, and lib.rs what all want")]

#[cfg(not(target_pointer_width = "64"))]
compile_error!("handles have 64 bits");

mod abi;
mod api;
mod bell;
mod driver;
mod errno;
mod holds;
mod mutants;
mod nodes;
mod objects;
mod operation;
mod park;
mod platform;
mod registry;
mod spin;
mod sync;
mod timers;
mod types;
mod word;

pub use api::*;
pub use types::*;
