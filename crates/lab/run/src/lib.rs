//! Runs other programs with their futexes on the engine, and watches them to give advice.

#![cfg_attr(not(test), deny(clippy::print_stderr))]

pub mod advise;
#[cfg_attr(not(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu")), path = "run/elsewhere.rs")]
pub mod run;
mod settings;

pub use settings::{Advise, Run};
