//! What holds when a callback of an embedder panics, at every place where the engine calls it; what it may call itself; and
//! what of the calling thread's scheduling the driver's thread must not take over.

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
