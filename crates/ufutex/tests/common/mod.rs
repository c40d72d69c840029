//! Helpers that several test binaries share. Each binary uses a part of them.

#![allow(dead_code, unused_imports, unused_macros, reason = "each test binary uses a part")]

pub mod arena;
pub mod asleep;
pub mod domains;
pub mod emulated;
pub mod errno;
pub mod futures;
pub mod guest_memory;
#[cfg(target_arch = "x86_64")]
pub mod int_80;
#[cfg_attr(not(target_os = "linux"), path = "kernel_elsewhere.rs")]
pub mod kernel;
pub mod libc;
pub mod nodes;
pub mod pages;
pub mod patient;
pub mod places;
pub mod platforms;
pub mod random;
#[cfg(target_os = "linux")]
pub mod refuse;
pub mod skipped;
pub mod sleeping;
pub mod waiters;
pub mod waker;

use std::time::Duration;

/// How long a test waits for an event that has to happen. After this time the test fails.
pub const PATIENCE: Duration = Duration::from_secs(30);
