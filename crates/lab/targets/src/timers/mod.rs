//! The targets of `bench timers`: five designs of a timer table inside this process, and the host's kernel.
//!
//! Four of the designs have a package of their own, `crates/designs`. Each one is a [`Process`], and the measured loops are
//! generic over it and written once. Several processes are emulated by groups of threads, each with an owner of its own:
//! what the kernel shares among processes they share.

mod kernel;
mod loops;
mod ours;

pub use kernel::pending_signals_max;
pub use loops::{Lateness, Load, Meeting, Test, Times};

use std::fmt;
use std::sync::Arc;
use strum::{EnumMessage, EnumString, IntoStaticStr, VariantArray};
use ufutex_designs::{Bytes, Emulated, Errno, Notify, Process, global_lock, precheck, radix, scaled};

/// A target's name on the command line and in the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumMessage, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
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
        self.into()
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
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

/// Fresh structures for `processes` processes.
pub fn build(name: Name, processes: usize) -> Result<Arc<dyn World>, String> {
    Ok(match name {
        Name::Ours => Arc::new(ours::processes(processes)?),
        Name::GlobalLock => Arc::new(Emulated::sharing(global_lock::Hash::<false>::default(), processes)),
        Name::Precheck => Arc::new(Emulated::sharing(precheck::Checking::default(), processes)),
        Name::Scaled => Arc::new(Emulated::sharing(scaled::Scaled::new(lab_measure::machine::cpus()), processes)),
        Name::Radix => Arc::new(Emulated::apart(radix::Radix::default, processes)),
        // The others are real processes: see the bench's `timers/child.rs`.
        Name::Kernel => Arc::new(vec![kernel::Kernel]),
    })
}
