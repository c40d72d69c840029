//! The settings of a system, and of each domain.

#[cfg(feature = "pi")]
use super::pi::scheduler::{GivenScheduler, Scheduler};
use crate::error::Error;
use crate::expiry::Clocks;
use crate::expiry::thread::DriverThread;
use crate::sys::callbacks::Callbacks;
use crate::sys::platform::{Platform, PlatformRef};
use crate::sys::topology::{Given, Nodes, Topology};
use crate::table::globals::GlobalSize;
use crate::table::size::{self, Policy};
use crate::table::{MAX_SLOTS_LOG2, MIN_SLOTS_LOG2};

/// The settings of a [`System`](crate::System) and all its domains. A setting that is not set has a default.
///
/// ```
/// use ufutex::{SystemConfig, System};
///
/// let system = System::with_config(SystemConfig::new().global_slots(1024).hash_seed(7))?;
/// assert_eq!(system.global_slots(), 1024);
/// # Ok::<(), ufutex::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct SystemConfig {
    cpus: Option<usize>,
    global_slots: Option<usize>,
    hash_seed: Option<u64>,
    default_slots: Option<usize>,
    max_slots: Option<usize>,
    max_table_bytes: Option<usize>,
    max_domain_table_bytes: Option<usize>,
    topology: Given,
    max_waitv: Option<usize>,
    max_robust: Option<usize>,
    #[cfg(feature = "pi")]
    max_pi_depth: Option<usize>,
    #[cfg(feature = "pi")]
    scheduler: GivenScheduler,
    clocks: Option<Callbacks<dyn Clocks>>,
    driver_thread: DriverThread,
    platform: PlatformRef,
}

impl Default for SystemConfig {
    fn default() -> Self {
        Self::new()
    }
}

impl SystemConfig {
    /// All defaults.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            cpus: None,
            global_slots: None,
            hash_seed: None,
            default_slots: None,
            max_slots: None,
            max_table_bytes: None,
            max_domain_table_bytes: None,
            topology: Given(None),
            max_waitv: None,
            max_robust: None,
            #[cfg(feature = "pi")]
            max_pi_depth: None,
            #[cfg(feature = "pi")]
            scheduler: GivenScheduler(None),
            clocks: None,
            driver_thread: DriverThread::new(),
            platform: PlatformRef::HOST,
        }
    }

    /// How many CPUs run at the same time. Default: as many as the operating system reports; 1 without `std`. It sizes
    /// the global table, the counters, and the tables of [`Policy::Threads`], and limits how far contention lets a
    /// table grow. With one CPU, no thread spins for a lock's owner. Nothing becomes wrong with another number: one that
    /// is too small costs contention.
    #[must_use]
    pub const fn cpus(mut self, cpus: usize) -> Self {
        self.cpus = Some(cpus);
        self
    }

    /// Slots of the global table of each node of each [`PidNamespace`](crate::PidNamespace), a power of two; at most 2^22 if there are several nodes. Default: 256
    /// for each CPU, divided among the nodes, as in the kernel.
    #[must_use]
    pub const fn global_slots(mut self, slots: usize) -> Self {
        self.global_slots = Some(slots);
        self
    }

    /// The secret seed of the hash function. Default: random. Without `std` it is derived from an address, which is
    /// weak against guests that choose their addresses. Any number that a guest cannot see is better, such as a counter
    /// of cycles at boot.
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

    /// Memory, in bytes, that the private tables of all domains may take together. Default: 2^30, a gibibyte. The limit
    /// counts neither the global tables nor the first 16 slots of each domain, so no domain can keep another from
    /// having a table of its own. With a limit of 0 each domain can have 16 slots.
    ///
    /// A table that would exceed the limit is refused as if there were no memory for it, and
    /// [`Counters::refused_tables`](crate::observe::Counters::refused_tables) counts the refusal. The domain then keeps
    /// the table in use. If the refused table would have been the domain's first, the domain gets one of 16 slots. A
    /// slot takes 64 bytes. A domain keeps every table that it has had until the domain is dropped; all of them
    /// together take less than twice the memory of the largest.
    #[must_use]
    pub const fn max_table_bytes(mut self, bytes: usize) -> Self {
        self.max_table_bytes = Some(bytes);
        self
    }

    /// Memory, in bytes, that the tables of one domain may take together, unless [`DomainOptions::max_table_bytes`] sets
    /// another limit for the domain. Default: 2^27, 128 MiB, enough for a table of 2^20 slots and one of each smaller
    /// size. All slots count, the first 16 too.
    #[must_use]
    pub const fn max_domain_table_bytes(mut self, bytes: usize) -> Self {
        self.max_domain_table_bytes = Some(bytes);
        self
    }

    /// How many words one wait may wait for at once. Default: 128, the kernel's `FUTEX_WAITV_MAX`. A wait for more
    /// fails with `EINVAL`.
    #[must_use]
    pub const fn max_waitv(mut self, words: usize) -> Self {
        self.max_waitv = Some(words);
        self
    }

    /// How many entries of a robust list are walked when a task ends. Default: 2048, the kernel's `ROBUST_LIST_LIMIT`.
    /// Entries behind them are left as they are.
    #[must_use]
    pub const fn max_robust(mut self, entries: usize) -> Self {
        self.max_robust = Some(entries);
        self
    }

    /// Longest chain of lock owners, each blocked on a lock of the next, that `lock_pi` may build. The first wait is
    /// not counted. Default: 1024, the kernel's `max_lock_depth`. A wait that would make a chain longer fails with
    /// `EDEADLK`, whether it would extend the chain at its beginning or at its end. The kernel does not refuse a wait
    /// that extends the chain at its end, by the last owner.
    #[cfg(feature = "pi")]
    #[must_use]
    pub const fn max_pi_depth(mut self, locks: usize) -> Self {
        self.max_pi_depth = Some(locks);
        self
    }

    /// The nodes of the machine. Default: those that the operating system reports; one node without `std`.
    #[must_use]
    pub fn topology(mut self, topology: impl Into<Callbacks<dyn Topology>>) -> Self {
        self.topology = Given(Some(topology.into()));
        self
    }

    /// The clocks of timers and of tasks' timeouts. With given clocks the embedder turns the system's
    /// [`driver`](crate::System::driver). Default: the host's clocks, and a thread for each namespace, which its first timer
    /// or timeout starts. Without `std` there is no default, and timers and timeouts need given clocks.
    #[must_use]
    pub fn clocks(mut self, clocks: impl Into<Callbacks<dyn Clocks>>) -> Self {
        self.clocks = Some(clocks.into());
        self
    }

    /// How to schedule the driver's thread, which expires timers and timeouts by the host's clocks. Default:
    /// [`DriverThread::new`], independent of the thread that starts it.
    #[must_use]
    pub fn driver_thread(mut self, thread: DriverThread) -> Self {
        self.driver_thread = thread;
        self
    }

    /// The platform of the system and of all its domains: how threads sleep, wake others and read clocks. Default: the
    /// host. Without `std` the default is no platform: a thread that would sleep spins, and no timeout ends.
    ///
    /// It does not replace [`clocks`](Self::clocks), which drive timers and the timeouts of tasks. Both must show the
    /// same time. With `std`, and if no clocks are given or a [`Timeout`](crate::Timeout) is made from a
    /// `std::time::Instant`, the platform's [`now`](crate::platform::Platform::now) must show the host's time.
    #[must_use]
    pub const fn platform<P: Platform>(mut self) -> Self {
        self.platform = PlatformRef::of::<P>();
        self
    }

    #[cfg(feature = "pi")]
    pub(super) fn scheduler(mut self, scheduler: Callbacks<dyn Scheduler>) -> Self {
        self.scheduler = GivenScheduler(Some(scheduler));
        self
    }

    #[cfg(feature = "pi")]
    pub(super) fn scheduler_given(&self) -> Option<Callbacks<dyn Scheduler>> {
        self.scheduler.0.clone()
    }

    pub(crate) fn platform_given(&self) -> PlatformRef {
        self.platform
    }

    pub(crate) fn driver_thread_given(&self) -> DriverThread {
        self.driver_thread.clone()
    }

    pub(crate) fn clocks_given(&self) -> Option<Callbacks<dyn Clocks>> {
        self.clocks.clone()
    }

    pub(crate) fn nodes(&self) -> Nodes {
        Nodes::new(self.topology.0.clone())
    }

    /// The limits that these settings mean. What depends on the machine is not looked up before it is needed.
    pub(crate) fn resolve(&self) -> Result<(Limits, GlobalSize), Error> {
        let log2 = |slots: usize| match slots.checked_ilog2() {
            Some(log2) if slots.is_power_of_two() && (MIN_SLOTS_LOG2..=MAX_SLOTS_LOG2).contains(&log2) => Ok(log2),
            _ => Err(Error::Invalid),
        };
        if self.cpus == Some(0) {
            return Err(Error::Invalid);
        }
        let max_log2 = log2(self.max_slots.unwrap_or(1 << 20))?;
        let globals = GlobalSize::new(self.cpus, self.global_slots.map(log2).transpose()?);
        let limits = Limits {
            default_log2: log2(self.default_slots.unwrap_or(1 << size::SMALLEST_LOG2))?.min(max_log2),
            max_log2,
            max_table_bytes: self.max_table_bytes.unwrap_or(1 << 30),
            max_domain_table_bytes: self.max_domain_table_bytes.unwrap_or(1 << 27),
            seed: self.hash_seed,
            max_waitv: self.max_waitv.unwrap_or(128),
            max_robust: self.max_robust.unwrap_or(2048),
            #[cfg(feature = "pi")]
            max_pi_depth: self.max_pi_depth.unwrap_or(1024),
        };
        Ok((limits, globals))
    }
}

/// The values of a [`SystemConfig`], defaults included.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    pub default_log2: u32,
    pub max_log2: u32,
    pub max_table_bytes: usize,
    pub max_domain_table_bytes: usize,
    pub seed: Option<u64>,
    pub max_waitv: usize,
    pub max_robust: usize,
    #[cfg(feature = "pi")]
    pub max_pi_depth: usize,
}

#[cfg(feature = "std")]
pub use env::EnvError;

#[cfg(feature = "std")]
mod env {
    use super::SystemConfig;
    use crate::expiry::thread::{CpuSet, Cpus, DriverThread};
    use core::fmt;
    use std::string::String;

    const DRIVER_NICE: &str = "UFUTEX_DRIVER_NICE";
    const DRIVER_REALTIME: &str = "UFUTEX_DRIVER_REALTIME";
    const DRIVER_CPUS: &str = "UFUTEX_DRIVER_CPUS";

    fn driver_thread(var: impl Fn(&str) -> Option<String>) -> Result<DriverThread, EnvError> {
        let mut thread = DriverThread::new();
        if let Some(value) = var(DRIVER_NICE) {
            let nice = value.parse().ok().filter(|nice| (-20..=19).contains(nice));
            thread = thread.nice(nice.ok_or(EnvError { name: DRIVER_NICE, value })?);
        }
        if let Some(value) = var(DRIVER_REALTIME) {
            let priority = value.parse().ok().filter(|priority| (1..=99).contains(priority));
            thread = thread.realtime(priority.ok_or(EnvError { name: DRIVER_REALTIME, value })?);
        }
        if let Some(value) = var(DRIVER_CPUS) {
            thread = thread.cpus(Cpus::Only(CpuSet::parse(&value).ok_or(EnvError { name: DRIVER_CPUS, value })?));
        }
        Ok(thread)
    }

    /// An environment variable whose value cannot be used.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct EnvError {
        /// The variable's name.
        pub name: &'static str,
        /// The variable's value.
        pub value: String,
    }

    impl fmt::Display for EnvError {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            let Self { name, value } = self;
            let takes = match *name {
                DRIVER_NICE => "a number from -20 to 19",
                DRIVER_REALTIME => "a number from 1 to 99",
                DRIVER_CPUS => "CPUs from 0 to 8191, such as 0,2-5",
                _ if name.ends_with("_BYTES") => "a number of bytes",
                _ => "a power of two from 2 to 16777216",
            };
            write!(f, "{name}={value:?} cannot be used: it takes {takes}")
        }
    }

    impl core::error::Error for EnvError {}

    impl SystemConfig {
        /// The defaults, changed by the environment. `UFUTEX_GLOBAL_SLOTS`, `UFUTEX_DEFAULT_SLOTS` and
        /// `UFUTEX_MAX_SLOTS` are powers of two from 2 to 2^24. `UFUTEX_MAX_TABLE_BYTES` and
        /// `UFUTEX_MAX_DOMAIN_TABLE_BYTES` are numbers of bytes. `UFUTEX_DRIVER_NICE` (-20 to 19),
        /// `UFUTEX_DRIVER_REALTIME` (1 to 99) and `UFUTEX_DRIVER_CPUS` (such as `0,2-5`) are for the driver's thread.
        ///
        /// The environment is read by the standard library, which ends the program if there is no memory.
        ///
        /// ```
        /// let system = ufutex::System::with_config(ufutex::SystemConfig::from_env()?)?;
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        ///
        /// # Errors
        /// [`EnvError`] names a variable whose value cannot be used.
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
            let bytes = |name: &'static str| match var(name) {
                None => Ok(None),
                Some(value) => value.parse::<usize>().map(Some).map_err(|_| EnvError { name, value }),
            };
            Ok(Self {
                max_table_bytes: bytes("UFUTEX_MAX_TABLE_BYTES")?,
                max_domain_table_bytes: bytes("UFUTEX_MAX_DOMAIN_TABLE_BYTES")?,
                global_slots: slots("UFUTEX_GLOBAL_SLOTS")?,
                default_slots: slots("UFUTEX_DEFAULT_SLOTS")?,
                max_slots: slots("UFUTEX_MAX_SLOTS")?,
                driver_thread: driver_thread(var)?,
                ..Self::new()
            })
        }
    }
}

/// The settings of one [`Domain`](crate::Domain).
#[derive(Clone, Copy, Debug)]
pub struct DomainOptions {
    pub(crate) policy: Policy,
    pub(crate) early_return: bool,
    pub(crate) keys_are_ids: bool,
    pub(crate) counters: bool,
    pub(crate) max_waiters: usize,
    /// `None` means that [`SystemConfig::max_domain_table_bytes`] applies.
    pub(crate) max_table_bytes: Option<usize>,
}

impl Default for DomainOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl DomainOptions {
    /// The defaults: [`Policy::Load`], with the early return, without counters of operations, for at most 2^24 waiters.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            policy: Policy::Load,
            early_return: true,
            keys_are_ids: false,
            counters: false,
            max_waiters: 1 << 24,
            max_table_bytes: None,
        }
    }

    /// The policy that decides the size of the table.
    #[must_use]
    pub const fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Whether operations are counted: see [`Counters`](crate::observe::Counters). Off by default, because it costs
    /// each operation about ten nanoseconds. If there is no memory for a counter per CPU, all CPUs share one. If there
    /// is none for that either, each operation asks for it again, also a wake, and is not counted until then.
    #[must_use]
    pub const fn counters(mut self, counters: bool) -> Self {
        self.counters = counters;
        self
    }

    /// How many waiters the domain may have at a time, threads, tasks and custom waiters together. Default: 2^24; at
    /// most 2^28. Further waits fail with [`Error::NoMemory`] (`ENOMEM`), and are counted.
    ///
    /// The limit is never exceeded. If it is 65,536 or more, a wait may be refused some thousand waiters before it is
    /// reached: free places are kept in several shards, which threads pick, and a thread cannot take a place from
    /// another shard.
    #[must_use]
    pub const fn max_waiters(mut self, waiters: usize) -> Self {
        self.max_waiters = if waiters < 1 << 28 { waiters } else { 1 << 28 };
        self
    }

    /// Memory, in bytes, that the tables of the domain may take together. Default: [`SystemConfig::max_domain_table_bytes`].
    /// A table that would exceed the limit is refused as if there were no memory for it, and the refusal is counted.
    /// The domain then keeps the table in use, and [`Domain::set_slots`](crate::Domain::set_slots) returns
    /// [`Error::NoMemory`] (`ENOMEM`). If the table for the first wait is refused, the domain gets one of 16 slots. If
    /// these 16 slots, 1 KiB, exceed the limit too, the domain uses the global table. With a limit of 0 it never has a
    /// table of its own.
    #[must_use]
    pub const fn max_table_bytes(mut self, bytes: usize) -> Self {
        self.max_table_bytes = Some(bytes);
        self
    }

    /// Whether a wait compares the word before it locks anything, and ends there if the word differs. On by default. If
    /// it is off, every wait locks its bucket, as in the kernel.
    #[must_use]
    pub const fn early_return(mut self, early_return: bool) -> Self {
        self.early_return = early_return;
        self
    }

    /// Whether the domain's private keys are numbers that you chose, and not addresses: what your own
    /// [`Key`](crate::Key) returns as its `address`. Off by default.
    ///
    /// If it is off, keys are hashed as addresses. In a table of up to 4096 slots all keys in an aligned block of 64
    /// bytes share a bucket: CPUs that use words of one cache line transfer that line anyway, so a bucket for each word
    /// would only add transfers. Numbers such as 1, 2, 3 would all be in one bucket. If it is on, each number is hashed
    /// on its own.
    ///
    /// It has no effect on shared words ([`Scope`](crate::Scope)): all domains that share a word must hash it alike.
    ///
    /// ```
    /// use ufutex::{Address, Domain, DomainOptions, System};
    ///
    /// let domain = Domain::with_options(&System::new(), DomainOptions::new().keys_are_ids(true));
    /// domain.wake(Address::at(17), 1); // one of those that wait for number 17
    /// ```
    #[must_use]
    pub const fn keys_are_ids(mut self, keys_are_ids: bool) -> Self {
        self.keys_are_ids = keys_are_ids;
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
        assert_eq!(SystemConfig::from_vars(vars).unwrap().resolve().unwrap().0.max_log2, 6);
        for bad in ["", "0", "1", "3", "-4", "1e3", "33554432"] {
            let vars = |name: &str| name.ends_with("SLOTS").then(|| bad.to_string());
            let error = SystemConfig::from_vars(vars).unwrap_err();
            assert_eq!((error.name, error.value.as_str()), ("UFUTEX_GLOBAL_SLOTS", bad));
            assert!(error.to_string().contains("power of two"));
        }
    }

    #[test]
    fn environment_sets_table_bytes_and_names_what_it_cannot_use() {
        let vars = |name: &str| {
            let value = match name {
                "UFUTEX_MAX_TABLE_BYTES" => "4096",
                "UFUTEX_MAX_DOMAIN_TABLE_BYTES" => "0",
                _ => return None,
            };
            Some(String::from(value))
        };
        let (limits, _) = SystemConfig::from_vars(vars).unwrap().resolve().unwrap();
        assert_eq!((limits.max_table_bytes, limits.max_domain_table_bytes), (4096, 0));
        for bad in ["", "-1", "1k", "0x10"] {
            let vars = |name: &str| (name == "UFUTEX_MAX_DOMAIN_TABLE_BYTES").then(|| bad.to_string());
            let error = SystemConfig::from_vars(vars).unwrap_err();
            assert_eq!((error.name, error.value.as_str()), ("UFUTEX_MAX_DOMAIN_TABLE_BYTES", bad));
            assert!(error.to_string().ends_with("it takes a number of bytes"));
        }
    }

    #[test]
    fn environment_says_how_the_drivers_thread_is_scheduled() {
        use crate::expiry::thread::{CpuSet, Cpus};
        let with = |name: &'static str, value: &'static str| {
            SystemConfig::from_vars(move |asked| (asked == name).then(|| String::from(value)))
        };
        let thread = |name, value| with(name, value).unwrap().driver_thread_given();
        assert_eq!(thread("UFUTEX_DRIVER_NICE", "-5"), DriverThread::new().nice(-5));
        assert_eq!(thread("UFUTEX_DRIVER_REALTIME", "99"), DriverThread::new().realtime(99));
        let cpus = |list: &[u32]| DriverThread::new().cpus(Cpus::Only(CpuSet::try_new(list.iter().copied()).unwrap()));
        assert_eq!(thread("UFUTEX_DRIVER_CPUS", "0,2-4"), cpus(&[0, 2, 3, 4]));
        assert_eq!(thread("UFUTEX_DRIVER_CPUS", "8191"), cpus(&[8191]));
        for (name, bad) in [
            ("UFUTEX_DRIVER_NICE", &["", "20", "-21", "low"][..]),
            ("UFUTEX_DRIVER_REALTIME", &["0", "100", "-1", "fifo"]),
            ("UFUTEX_DRIVER_CPUS", &["", "a", "3-1", "0,", "0-8192", "-1", "1-"]),
        ] {
            for value in bad {
                let error = with(name, value).unwrap_err();
                assert_eq!((error.name, error.value.as_str()), (name, *value));
                assert!(!error.to_string().contains("power of two"), "{error}");
            }
        }
    }

    #[test]
    fn config_that_is_no_power_of_two_or_has_no_cpu_is_invalid() {
        for config in
            [SystemConfig::new().global_slots(3), SystemConfig::new().max_slots(1), SystemConfig::new().cpus(0)]
        {
            assert_eq!(config.resolve().err(), Some(Error::Invalid));
        }
    }

    #[test]
    fn nodes_share_the_slots_as_in_the_kernel() {
        for (cpus, nodes, slots) in [(2, 1, 512), (3, 1, 1024), (8, 2, 1024), (6, 4, 512), (9, 2, 2048), (1, 1024, 4)] {
            let (_, globals) = SystemConfig::new().cpus(cpus).resolve().unwrap();
            assert_eq!(globals.log2(nodes).map(|log2| 1 << log2), Ok(slots), "{cpus} CPUs, {nodes} nodes");
        }
        let slots_on = |config: SystemConfig, nodes| config.resolve().unwrap().1.log2(nodes);
        for (slots, nodes) in [(64, 0), (64, 1025), (1 << 23, 2)] {
            assert_eq!(slots_on(SystemConfig::new().global_slots(slots), nodes), Err(Error::Invalid));
        }
        assert!(slots_on(SystemConfig::new().global_slots(1 << 24), 1).is_ok());
        assert!(slots_on(SystemConfig::new().cpus(usize::MAX), 1024).is_ok());
    }
}
