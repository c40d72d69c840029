//! The interface between `ufutex run` and the library that it loads into programs: the settings that the command
//! passes, which programs the library can be loaded into, and what a program's children need in their environment.
//!
//! The library uses this inside arbitrary programs, in part inside a signal handler. So this crate has no threads and
//! no locks and does not use `std`. Functions that run in the handler are documented not to allocate.

#![cfg_attr(not(test), no_std)]

extern crate alloc;

#[cfg(target_os = "linux")]
pub mod elf;
pub mod environment;
pub mod ring;
pub mod settings;
pub mod slots;
