//! Callbacks of an embedder: they may panic wherever the engine calls them, and may call the engine. Also the
//! scheduling of the driver's thread.

#[path = "../common/mod.rs"]
mod common;

mod bomb;
mod guest;

mod driver_thread;
mod locks;
mod realtime;
mod reentry;
mod slots;
mod timers;
mod wakes;
