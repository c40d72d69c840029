//! The targets of `bench timers`: five designs of a timer table in this process, and the host's kernel.
//!
//! Four of the designs have a package of their own, `crates/designs`. Each is a [`Process`]. The measured loops are
//! written once, generic over it. Several processes are emulated by groups of threads. They share what the kernel
//! shares among processes.

mod kernel;
mod loops;
mod ours;

pub use kernel::pending_signals_max;
pub use loops::{Lateness, Load, Rendezvous, Test, Times};

use std::sync::Arc;
use strum::{Display, EnumMessage, EnumString, IntoStaticStr, VariantArray};
use ufutex_designs::{Bytes, Emulated, Errno, Notify, Process, global_lock, precheck, radix, scaled};

/// A target's name on the command line and in the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display, EnumMessage, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Name {
    /// The engine's table.
    Ours,
    /// One hash and one lock, as in Linux before 6.15.
    GlobalLock,
    /// One hash and one lock, and a check before it.
    Precheck,
    /// One hash by CPUs with a lock in each bucket, as in Linux since 6.15.
    Scaled,
    /// A radix tree in each process.
    Radix,
    /// The host kernel's timers, by system calls.
    Kernel,
}

impl Name {
    /// The printed name.
    pub fn text(self) -> &'static str {
        self.into()
    }
}

/// The processes of a sample behind dynamic dispatch. Each sample is one dynamic call for each thread.
pub trait World: Send + Sync {
    /// Runs the work of one thread of one process.
    fn work(&self, process: usize, load: &Load, rendezvous: &Rendezvous) -> Result<Times, String>;
}

impl<P: Process> World for Vec<P> {
    fn work(&self, process: usize, load: &Load, rendezvous: &Rendezvous) -> Result<Times, String> {
        loops::work(self, process, load, rendezvous)
    }
}

/// Makes new tables for `processes` processes.
pub fn build(name: Name, processes: usize) -> Result<Arc<dyn World>, String> {
    Ok(match name {
        Name::Ours => Arc::new(ours::processes(processes)?),
        Name::GlobalLock => Arc::new(Emulated::sharing(global_lock::Hash::<false>::default(), processes)),
        Name::Precheck => Arc::new(Emulated::sharing(precheck::Checking::default(), processes)),
        Name::Scaled => Arc::new(Emulated::sharing(scaled::Scaled::new(lab_measure::machine::cpus()), processes)),
        Name::Radix => Arc::new(Emulated::apart(radix::Radix::default, processes)),
        // More processes are real ones: see `timers/child.rs` of lab-bench.
        Name::Kernel => Arc::new(vec![kernel::Kernel]),
    })
}
