//! What the engine has and the kernel has not, or has otherwise. Each on every scheme and layout.

mod guest;
mod keys;
mod signal;
mod under_lock;
mod width;
