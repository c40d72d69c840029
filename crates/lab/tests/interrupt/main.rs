//! Ctrl-C: the results so far are printed, and the exit status shows the interruption.
//!
//! Each run here would take hours, so it ends only because of the signal.

mod bench;
#[path = "../common/mod.rs"]
mod common;
mod others;
mod running;
mod sim;
