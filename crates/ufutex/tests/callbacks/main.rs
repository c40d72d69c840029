//! Callbacks of an embedder: they may panic wherever the engine calls them, and may call the engine. Also the
//! scheduling of the driver's thread.
//!
//! Promise: callbacks that panic

include!("../common/engine.rs");

#[path = "../common/mod.rs"]
mod common;

mod bomb;
mod guest;
#[cfg(any(feature = "atomic", feature = "percpu"))]
mod keep_trying;

#[cfg(target_os = "linux")] // elsewhere the settings of the thread change nothing
mod driver_thread;
mod locks;
mod platform;
#[cfg(target_os = "linux")] // by real-time priorities of the host
mod realtime;
mod reentry;
mod slots;
mod timers;
mod wakes;
