//! Behaviour of the engine that the kernel does not have, or that differs there. Each test runs on every scheme and
//! layout.

mod guest;
mod keys;
#[cfg(target_os = "linux")] // interrupts threads by signals of the host
mod signal;
mod under_lock;
mod width;
