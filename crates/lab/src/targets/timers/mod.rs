//! The targets of `bench timers`: five designs of a timer table inside this process, and the host's kernel.
//!
//! Each one is a [`Process`], and the measured loops are generic over it and written once. Several processes are
//! emulated by groups of threads, each with an owner of its own: what the kernel shares among processes they share.

mod chain;
mod global_lock;
mod kernel;
mod loops;
mod ours;
mod precheck;
mod process;
mod radix;
mod scaled;
mod spin;
mod timer;

pub use kernel::pending_signals_max;
pub use loops::{Bytes, Lateness, Load, Meeting, Test, Times};

use clap::ValueEnum;
use process::Emulated;
use std::fmt;
use std::sync::Arc;

/// A target's name on the command line and in the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Name {
    /// The engine's.
    Ours,
    /// One hash, one lock: Linux before 6.15.
    GlobalLock,
    /// The same with a look before the lock.
    Precheck,
    /// One hash by CPUs, a lock in each bucket: Linux since 6.15.
    Scaled,
    /// A radix tree in each process.
    Radix,
    /// The host's own, by system calls.
    Kernel,
}

impl Name {
    /// As it is printed.
    pub fn text(self) -> &'static str {
        match self {
            Name::Ours => "ours",
            Name::GlobalLock => "global-lock",
            Name::Precheck => "precheck",
            Name::Scaled => "scaled",
            Name::Radix => "radix",
            Name::Kernel => "kernel",
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

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

/// The processes of one sample, as the workload holds them: one dynamic call a sample, none inside it.
pub trait World: Send + Sync {
    /// What one thread of one process does.
    fn work(&self, process: usize, load: &Load, meeting: &Meeting) -> Result<Times, String>;
}

impl<P: Process> World for Vec<P> {
    fn work(&self, process: usize, load: &Load, meeting: &Meeting) -> Result<Times, String> {
        loops::work(self, process, load, meeting)
    }
}

/// Fresh structures for so many processes.
pub fn build(name: Name, processes: usize) -> Result<Arc<dyn World>, String> {
    Ok(match name {
        Name::Ours => Arc::new(ours::processes(processes)?),
        Name::GlobalLock => Arc::new(Emulated::sharing(global_lock::Hash::<false>::new(), processes)),
        Name::Precheck => Arc::new(Emulated::sharing(precheck::Checking::new(), processes)),
        Name::Scaled => Arc::new(Emulated::sharing(scaled::Scaled::new(crate::machine::cpus()), processes)),
        Name::Radix => Arc::new(Emulated::apart(radix::Radix::default, processes)),
        // The others are real processes: see `workloads/timers/child.rs`.
        Name::Kernel => Arc::new(vec![kernel::Kernel]),
    })
}

#[cfg(test)]
mod tests;
