//! The C interface of `ufutex`: what `include/ufutex.h` declares, in `libufutex.so` and `libufutex.a`.
//!
//! Three things stand between a C program and the engine:
//!
//! - **Handles** (`registry`, `holds`). A handle is a number that a table knows, so a freed one is told without reading what
//!   was freed, and nothing is freed under an operation that uses it.
//! - **Platforms** (`platform`, `operation`, `bell`). Memory, clock and parker are structs of functions. Without a parker the
//!   engine blocks threads itself; with one its futures are polled here, and wakers ring the parker's `unpark`.
//! - **Structs with a size** (`abi`), so that programs and libraries of different ages get on.
//!
//! Panics do not cross: a panic in a function with the C calling convention ends the process, in every profile.

#![allow(non_camel_case_types, reason = "the names are those of C")]
#![expect(clippy::missing_safety_doc, reason = "ufutex.h says what each function wants, and lib.rs what all want")]

#[cfg(not(target_pointer_width = "64"))]
compile_error!("handles have 64 bits");

mod abi;
mod api;
mod bell;
mod errno;
mod holds;
mod objects;
mod operation;
mod park;
mod platform;
mod registry;
mod spin;
mod types;
mod word;

pub use api::*;
pub use types::*;
