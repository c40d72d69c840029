//! The designs of a timer table that seeds/004 compares, each in a file of its own: [`global_lock`], [`precheck`],
//! [`scaled`] and [`radix`]. Each is a [`Process`], and so is ours, where it is compared with them.
//!
//! `ufutex bench timers` measures them over the host's atomics. The package in `crates/models/designs-sim` compiles this same
//! source over those of the coherence model, for `ufutex sim timers`.

mod chain;
pub mod global_lock;
mod line;
#[cfg(feature = "sim")]
mod names;
pub mod precheck;
pub mod process;
pub mod radix;
pub mod scaled;
#[cfg(feature = "sim")]
#[path = "queue.rs"]
mod spin;
#[cfg(not(feature = "sim"))]
mod spin;
mod sync;
pub mod timer;

pub use line::OwnLine;
pub use process::Emulated;
pub use spin::Spin;
#[cfg(feature = "sim")]
pub use spin::prepare;

use serde::{Deserialize, Serialize};

/// As the kernel numbers it.
pub type Errno = i32;

/// What a timer does when it expires. None that is measured ever does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notify {
    /// Nothing: it is only looked at.
    Nothing,
    /// A signal.
    Signal,
}

impl Notify {
    /// `sigev_notify`.
    pub fn number(self) -> i32 {
        match self {
            Notify::Nothing => libc::SIGEV_NONE,
            Notify::Signal => libc::SIGEV_SIGNAL,
        }
    }
}

/// What all of it takes, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bytes {
    /// Where timers are found, without them.
    pub table: usize,
    /// With the timers.
    pub all: usize,
}

/// The timers of one process, by one design.
pub trait Process: Send + Sync + 'static {
    /// What each thread has for itself.
    type Thread;

    /// For the calling thread.
    fn thread(&self) -> Self::Thread;

    /// A timer of the monotonic clock, and its ID.
    fn create(&self, thread: &mut Self::Thread, notify: Notify) -> Result<i32, Errno>;

    /// The same with an ID of the caller's.
    fn create_as(&self, thread: &mut Self::Thread, id: i32, notify: Notify) -> Result<(), Errno>;

    /// The overruns of a timer's last signal.
    fn getoverrun(&self, id: i32) -> Result<i32, Errno>;

    /// Arms a timer, for so many seconds from now.
    fn settime(&self, _id: i32, _seconds: u64) -> Result<(), Errno> {
        Err(libc::ENOSYS)
    }

    /// Deletes a timer.
    fn delete(&self, thread: &mut Self::Thread, id: i32) -> Result<(), Errno>;

    /// What the structures take by which these processes find timers, and what all takes with so many timers; none where
    /// that cannot be seen.
    fn bytes(processes: &[Self], timers: usize) -> Option<Bytes>
    where
        Self: Sized;
}

#[cfg(test)]
mod tests;
