//! Ctrl-C: what was measured until then is printed, and the exit status says why there is not more.
//!
//! Every run here is asked for hours: that it ends at all is the signal's doing.

mod bench;
#[path = "../common/mod.rs"]
mod common;
mod others;
mod perf;
mod running;
mod sim;
