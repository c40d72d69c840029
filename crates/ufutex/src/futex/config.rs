//! What an embedder can set: once for a system, and for each domain.

use alloc::sync::Arc;

use crate::error::Error;
use crate::expiry::{Clocks, GivenClocks};
use crate::sys::topology::{Given, MAX_NODES, Nodes, Topology};
use crate::table::globals::MAX_SHARE_LOG2;
use crate::table::size::{self, Policy};
use crate::table::{MAX_SLOTS_LOG2, MIN_SLOTS_LOG2};

/// What holds for a [`System`](crate::System) and all its domains. What is not set has a default.
///
/// ```
/// use ufutex::{Config, System};
/// use ufutex::layout::Lean;
///
/// let system = System::<Lean>::with_config(Config::new().global_slots(1024).hash_seed(7))?;
/// assert_eq!(system.global_slots(), 1024);
/// # Ok::<(), ufutex::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Config {
    cpus: Option<usize>,
    global_slots: Option<usize>,
    hash_seed: Option<u64>,
    default_slots: Option<usize>,
    max_slots: Option<usize>,
    topology: Given,
    max_waitv: Option<usize>,
    max_robust: Option<usize>,
    max_pi_depth: Option<usize>,
    clocks: GivenClocks,
}

impl Config {
    /// All defaults.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            cpus: None,
            global_slots: None,
            hash_seed: None,
            default_slots: None,
            max_slots: None,
            topology: Given(None),
            max_waitv: None,
            max_robust: None,
            max_pi_depth: None,
            clocks: GivenClocks(None),
        }
    }

    /// How many CPUs run at the same time. Default: what the operating system says; 1 without `std`.
    #[must_use]
    pub const fn cpus(mut self, cpus: usize) -> Self {
        self.cpus = Some(cpus);
        self
    }

    /// Slots of the global table of each node, a power of two; with several nodes 2^22 at most. Default: 256 for each
    /// CPU, divided among the nodes, as in the kernel.
    #[must_use]
    pub const fn global_slots(mut self, slots: usize) -> Self {
        self.global_slots = Some(slots);
        self
    }

    /// The secret of the hash function. Default: random; without `std`, derived from an address, which is weak against
    /// guests that choose theirs.
    #[must_use]
    pub const fn hash_seed(mut self, seed: u64) -> Self {
        self.hash_seed = Some(seed);
        self
    }

    /// Slots of a domain's first table under [`Policy::Load`], a power of two. Default: 16.
    #[must_use]
    pub const fn default_slots(mut self, slots: usize) -> Self {
        self.default_slots = Some(slots);
        self
    }

    /// Slots that a size policy may grow a table to, and that a guest may ask for by
    /// [`Domain::prctl_futex_hash`](crate::Domain::prctl_futex_hash), a power of two. Default: 2^20. The embedder's own
    /// request by [`Domain::set_slots`](crate::Domain::set_slots) may exceed it.
    #[must_use]
    pub const fn max_slots(mut self, slots: usize) -> Self {
        self.max_slots = Some(slots);
        self
    }

    /// How many words one wait may wait for at once. Default: 128, the kernel's `FUTEX_WAITV_MAX`. Beyond it: `EINVAL`.
    #[must_use]
    pub const fn max_waitv(mut self, words: usize) -> Self {
        self.max_waitv = Some(words);
        self
    }

    /// How many entries of a robust list are walked when a task ends. Default: 2048, the kernel's `ROBUST_LIST_LIMIT`. The
    /// rest of a longer list is left alone.
    #[must_use]
    pub const fn max_robust(mut self, entries: usize) -> Self {
        self.max_robust = Some(entries);
        self
    }

    /// How long a chain of locks may be whose owners each wait for the next: so many waits beyond the first. Default: 1024,
    /// the kernel's `max_lock_depth`. Whoever would make it longer gets `EDEADLK`, at either end of the chain; in the kernel
    /// it may grow at the end that is waited for. How long a chain has been counts as long as somebody waits for its owner.
    #[must_use]
    pub const fn max_pi_depth(mut self, locks: usize) -> Self {
        self.max_pi_depth = Some(locks);
        self
    }

    /// The nodes of the machine. Default: what the operating system says; one without `std`.
    #[must_use]
    pub fn topology(mut self, topology: Arc<dyn Topology>) -> Self {
        self.topology = Given(Some(topology));
        self
    }

    /// What timers and the timeouts of tasks run by; the embedder turns the system's
    /// [`driver`](crate::System::driver) then. Default: the host's clocks, and a thread that the first timer starts;
    /// without `std` there is no time.
    #[must_use]
    pub fn clocks(mut self, clocks: Arc<dyn Clocks>) -> Self {
        self.clocks = GivenClocks(Some(clocks));
        self
    }

    pub(crate) fn clocks_given(&self) -> Option<Arc<dyn Clocks>> {
        self.clocks.0.clone()
    }

    pub(crate) fn nodes(&self) -> Nodes {
        Nodes::new(self.topology.0.clone())
    }

    /// These settings on `nodes` nodes.
    pub(crate) fn resolve(&self, nodes: usize) -> Result<Limits, Error> {
        let cpus = self.cpus.unwrap_or_else(online_cpus);
        let log2 = |slots: usize| match slots.checked_ilog2() {
            Some(log2) if slots.is_power_of_two() && (MIN_SLOTS_LOG2..=MAX_SLOTS_LOG2).contains(&log2) => Ok(log2),
            _ => Err(Error::Invalid),
        };
        if cpus == 0 || !(1..=MAX_NODES).contains(&nodes) {
            return Err(Error::Invalid);
        }
        let share_log2 = if nodes == 1 { MAX_SLOTS_LOG2 } else { MAX_SHARE_LOG2 };
        let global = (cpus.saturating_mul(256) / nodes).max(4).min(1 << share_log2).next_power_of_two();
        let global_log2 = log2(self.global_slots.unwrap_or(global))?;
        if global_log2 > share_log2 {
            return Err(Error::Invalid);
        }
        let max_log2 = log2(self.max_slots.unwrap_or(1 << 20))?;
        Ok(Limits {
            cpus,
            global_log2,
            default_log2: log2(self.default_slots.unwrap_or(1 << size::SMALLEST_LOG2))?.min(max_log2),
            max_log2,
            seed: self.hash_seed,
            max_waitv: self.max_waitv.unwrap_or(128),
            max_robust: self.max_robust.unwrap_or(2048),
            max_pi_depth: self.max_pi_depth.unwrap_or(1024),
        })
    }
}

/// A [`Config`] made definite.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    pub cpus: usize,
    pub global_log2: u32,
    pub default_log2: u32,
    pub max_log2: u32,
    pub seed: Option<u64>,
    pub max_waitv: usize,
    pub max_robust: usize,
    pub max_pi_depth: usize,
}

#[cfg(feature = "_host")]
fn online_cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(not(feature = "_host"))]
fn online_cpus() -> usize {
    1
}

#[cfg(feature = "std")]
pub use env::EnvError;

#[cfg(feature = "std")]
mod env {
    use super::Config;
    use core::fmt;
    use std::string::String;

    /// An environment variable whose value cannot be used.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct EnvError {
        /// The variable.
        pub name: &'static str,
        /// What it was set to.
        pub value: String,
    }

    impl fmt::Display for EnvError {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            let Self { name, value } = self;
            write!(f, "{name}={value:?} cannot be used: it takes a power of two from 2 to 16777216")
        }
    }

    impl core::error::Error for EnvError {}

    impl Config {
        /// The defaults, changed by the environment: `UFUTEX_GLOBAL_SLOTS`, `UFUTEX_DEFAULT_SLOTS` and
        /// `UFUTEX_MAX_SLOTS`, each a power of two from 2 to 2^24.
        ///
        /// ```
        /// let system = ufutex::System::<ufutex::layout::Lean>::with_config(ufutex::Config::from_env()?)?;
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        ///
        /// # Errors
        /// Names the first variable that is set to something else.
        pub fn from_env() -> Result<Self, EnvError> {
            Self::from_vars(|name| std::env::var_os(name).map(|v| v.to_string_lossy().into_owned()))
        }

        pub(super) fn from_vars(var: impl Fn(&str) -> Option<String>) -> Result<Self, EnvError> {
            let slots = |name: &'static str| match var(name) {
                None => Ok(None),
                Some(value) => match value.parse::<usize>() {
                    Ok(n) if n.is_power_of_two() && (2..=1 << 24).contains(&n) => Ok(Some(n)),
                    _ => Err(EnvError { name, value }),
                },
            };
            Ok(Self {
                global_slots: slots("UFUTEX_GLOBAL_SLOTS")?,
                default_slots: slots("UFUTEX_DEFAULT_SLOTS")?,
                max_slots: slots("UFUTEX_MAX_SLOTS")?,
                ..Self::new()
            })
        }
    }
}

/// What holds for one [`Domain`](crate::Domain).
#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub(crate) policy: Policy,
    pub(crate) early_return: bool,
    pub(crate) counters: bool,
    pub(crate) max_waiters: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self::new()
    }
}

impl Options {
    /// [`Policy::Load`], with the early return, without counters of operations, up to 2^24 waiters.
    #[must_use]
    pub const fn new() -> Self {
        Self { policy: Policy::Load, early_return: true, counters: false, max_waiters: 1 << 24 }
    }

    /// What decides the size of the table.
    #[must_use]
    pub const fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Whether what operations do is counted: see [`Counters`](crate::Counters). Off by default: it costs each operation
    /// about ten nanoseconds. Without memory for more, all CPUs count in one place.
    #[must_use]
    pub const fn counters(mut self, counters: bool) -> Self {
        self.counters = counters;
        self
    }

    /// How many may wait through the domain at a time, threads, tasks and custom waiters together: 2^24 by default, 2^28
    /// at most. Further waits are refused with [`Error::NoMemory`] (`ENOMEM`), and counted.
    ///
    /// There are never more. A limit of 65,536 or more may refuse a wait when some thousand fewer wait: most places are kept
    /// on several cache lines, by thread, and a thread cannot take what others keep.
    #[must_use]
    pub const fn max_waiters(mut self, waiters: usize) -> Self {
        self.max_waiters = if waiters < 1 << 28 { waiters } else { 1 << 28 };
        self
    }

    /// Whether a wait looks at the word before it locks anything, and ends there if the word differs already. On by
    /// default; off, every wait goes through its bucket, as in the kernel.
    #[must_use]
    pub const fn early_return(mut self, early_return: bool) -> Self {
        self.early_return = early_return;
        self
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;
    use std::string::{String, ToString};

    #[test]
    fn environment_sets_slots_and_names_what_it_cannot_use() {
        let vars = |name: &str| (name == "UFUTEX_MAX_SLOTS").then(|| String::from("64"));
        assert_eq!(Config::from_vars(vars).unwrap().resolve(1).unwrap().max_log2, 6);
        for bad in ["", "0", "1", "3", "-4", "1e3", "33554432"] {
            let error = Config::from_vars(|_| Some(bad.to_string())).unwrap_err();
            assert_eq!((error.name, error.value.as_str()), ("UFUTEX_GLOBAL_SLOTS", bad));
            assert!(error.to_string().contains("power of two"));
        }
    }

    #[test]
    fn config_that_is_no_power_of_two_or_has_no_cpu_is_invalid() {
        for config in [Config::new().global_slots(3), Config::new().max_slots(1), Config::new().cpus(0)] {
            assert_eq!(config.resolve(1).err(), Some(Error::Invalid));
        }
    }

    #[test]
    fn nodes_share_the_slots_as_in_the_kernel() {
        for (cpus, nodes, slots) in [(2, 1, 512), (3, 1, 1024), (8, 2, 1024), (6, 4, 512), (9, 2, 2048), (1, 1024, 4)] {
            let limits = Config::new().cpus(cpus).resolve(nodes).unwrap();
            assert_eq!(1 << limits.global_log2, slots, "{cpus} CPUs, {nodes} nodes");
        }
        for (slots, nodes) in [(64, 0), (64, 1025), (1 << 23, 2)] {
            assert_eq!(Config::new().global_slots(slots).resolve(nodes).err(), Some(Error::Invalid));
        }
        assert!(Config::new().global_slots(1 << 24).resolve(1).is_ok());
        assert!(Config::new().cpus(usize::MAX).resolve(1024).is_ok());
    }
}
