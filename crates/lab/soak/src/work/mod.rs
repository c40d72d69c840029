//! What the threads of a shift do, a file for each.

pub mod crowd;
pub mod futures;
pub mod locks;
pub mod manual;
pub mod pass;
pub mod timers;
