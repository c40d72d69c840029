//! What stands in for the helpers around Linux's system calls on other hosts.

use std::io;
use std::time::Duration;

use ufutex::platform::{Clock, Host, Platform};

use super::libc;

/// A pointer as an argument of a system call of the engine.
pub fn pointer<T: ?Sized>(to: *const T) -> u64 {
    to.expose_provenance() as u64
}

/// The time on a clock, as the engine reads it.
pub fn now(clock: libc::clockid_t) -> Duration {
    Host::now(match clock {
        libc::CLOCK_MONOTONIC | libc::CLOCK_BOOTTIME => Clock::Monotonic,
        libc::CLOCK_REALTIME | libc::CLOCK_TAI => Clock::Realtime,
        other => panic!("no test reads clock {other} here"),
    })
}

/// Priorities of threads are Linux's here.
pub fn set_priority(_tid: i32, _priority: u8) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// The reason why threads cannot have real-time priorities on this host.
pub fn lacks_priorities() -> Option<String> {
    Some("real-time priorities are tested on Linux alone".to_owned())
}

/// Does nothing: timer slack is Linux's.
pub fn timeouts_without_slack() {}
