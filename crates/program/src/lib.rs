//! What `ufutex run` and the library that it loads into programs agree on: how the one tells the other its settings, which
//! programs the library can be loaded into, and what a program's children need in their environment.
//!
//! The library uses this inside programs that it knows nothing of, in part inside a signal handler. So there are no
//! threads, no locks and nothing of `std` here, and what runs in the handler says that it does not allocate.

#![cfg_attr(not(test), no_std)]

extern crate alloc;

#[cfg(target_os = "linux")]
pub mod elf;
pub mod environment;
pub mod settings;
pub mod slots;
