//! What several test binaries need. Each uses a part of it.

#![allow(dead_code, unused_imports, unused_macros, reason = "each test binary uses a part")]

pub mod arena;
pub mod asleep;
pub mod domains;
pub mod errno;
pub mod nodes;
pub mod patient;
pub mod waiters;
pub mod waker;

use std::time::Duration;

/// How long a test waits for something that has to come. What takes longer is lost.
pub const PATIENCE: Duration = Duration::from_secs(30);
