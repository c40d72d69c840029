//! The designs of a timer table that a mail of March 2025 compares ([timer-hash] in docs/REFERENCES.md), each in a file
//! of its own: [`global_lock`], [`precheck`], [`scaled`] and [`radix`]. Each implements [`Process`]. So does the
//! engine's table, where it is compared with them.
//!
//! `ufutex bench timers` measures them with the host's atomics. The package in `crates/models/designs-sim` compiles
//! this source with the atomics of the coherence model, for `ufutex sim timers`.

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

/// An error number, as in the kernel.
pub type Errno = i32;

/// What a timer does when it expires. No timer that is measured ever expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notify {
    /// Nothing. The timer is only queried.
    Nothing,
    /// A signal.
    Signal,
}

impl Notify {
    /// The value of `sigev_notify`.
    pub fn number(self) -> i32 {
        match self {
            Notify::Nothing => libc::SIGEV_NONE,
            Notify::Signal => libc::SIGEV_SIGNAL,
        }
    }
}

/// Memory in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bytes {
    /// The structures that find timers, without the timers.
    pub table: usize,
    /// The same structures with the timers.
    pub all: usize,
}

/// The timers of one process, in one design.
pub trait Process: Send + Sync + 'static {
    /// The state that each thread keeps for itself.
    type Thread;

    /// Makes the state of the calling thread.
    fn thread(&self) -> Self::Thread;

    /// Creates a timer on the monotonic clock, and returns its ID.
    fn create(&self, thread: &mut Self::Thread, notify: Notify) -> Result<i32, Errno>;

    /// Creates a timer with an ID that the caller chooses.
    fn create_as(&self, thread: &mut Self::Thread, id: i32, notify: Notify) -> Result<(), Errno>;

    /// The overrun of a timer's last signal.
    fn getoverrun(&self, id: i32) -> Result<i32, Errno>;

    /// Arms a timer to expire in `seconds` seconds.
    fn settime(&self, _id: i32, _seconds: u64) -> Result<(), Errno> {
        Err(libc::ENOSYS)
    }

    /// Deletes a timer.
    fn delete(&self, thread: &mut Self::Thread, id: i32) -> Result<(), Errno>;

    /// The memory of the structures with which these processes find timers, alone and together with `timers` timers.
    /// `None` if it is not known.
    fn bytes(processes: &[Self], timers: usize) -> Option<Bytes>
    where
        Self: Sized;
}

#[cfg(test)]
mod tests;
