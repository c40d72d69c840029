//! A copy of the engine that `build.rs` has made.

#![no_std]
#![allow(warnings, clippy::all, reason = "the engine's own source has been looked through as a package of its own")]

include!(concat!(env!("OUT_DIR"), "/engine/lib.rs"));
