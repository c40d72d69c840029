//! The settings of a system, and of each domain.

use core::time::Duration;

use super::observer::Observer;
use super::pi::PiSettings;
use crate::error::Error;
use crate::expiry::Clocks;
use crate::expiry::thread::DriverThread;
use crate::sys::callbacks::Callbacks;
use crate::sys::platform::{Platform, PlatformRef};
use crate::sys::setters::{default_is_new, setters};
use crate::sys::topology::{Given, Topology};
use crate::table::globals::GlobalSize;
use crate::table::size::{self, Policy};
use crate::table::{MAX_SLOTS_LOG2, MIN_SLOTS_LOG2};

/// The settings of a [`System`](crate::System) and all its domains. A setting that is not set has a default.
///
/// ```
/// use ufutex::{SystemConfig, System};
/// let system = System::with_config(SystemConfig::new().global_slots(1024).hash_seed(7))?;
/// assert_eq!(system.global_slots(), 1024);
/// # Ok::<(), ufutex::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct SystemConfig {
    pub(super) cpus: Option<usize>,
    pub(super) global_slots: Option<usize>,
    pub(super) hash_seed: Option<u64>,
    pub(super) default_slots: usize,
    pub(super) max_slots: usize,
    pub(super) max_table_bytes: usize,
    pub(super) max_domain_table_bytes: usize,
    pub(super) topology: Given,
    pub(super) max_waitv: usize,
    pub(super) max_robust: usize,
    pub(super) pi: PiSettings,
    pub(super) clocks: Option<Callbacks<dyn Clocks>>,
    pub(super) driver_thread: DriverThread,
    pub(super) platform: PlatformRef,
}

default_is_new!(SystemConfig);

impl SystemConfig {
    /// All defaults.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            cpus: None,
            global_slots: None,
            hash_seed: None,
            default_slots: 1 << size::SMALLEST_LOG2,
            max_slots: 1 << 20,
            max_table_bytes: 1 << 30,
            max_domain_table_bytes: 1 << 27,
            topology: Given(None),
            max_waitv: 128,
            max_robust: 2048,
            pi: PiSettings::new(),
            clocks: None,
            driver_thread: DriverThread::new(),
            platform: PlatformRef::HOST,
        }
    }

    setters! {
        /// How many CPUs run at the same time. Default: those of the first thread that needs the number; 1 without `std`. It sizes
        /// the tables and counters. With one CPU no waiting thread spins. A wrong number costs time or memory.
        cpus: usize => Some(cpus);

        /// Slots of the global table of each node of each [`PidNamespace`](crate::PidNamespace), a power of two; at most
        /// 2^22 if there are several nodes. Default: 256 for each CPU, divided among the nodes, as in the kernel.
        global_slots: usize => Some(global_slots);

        /// The secret seed of the hash function. Default: random. Without `std` it is derived from an address, which is weak
        /// against guests that choose their addresses. Any number that a guest cannot see is better, such as a counter of
        /// cycles at boot.
        hash_seed: u64 => Some(hash_seed);

        /// Slots of a domain's first table under [`Policy::Load`], a power of two. Default: 16.
        default_slots: usize => default_slots;

        /// The most slots, a power of two, that [`Policy::Load`], [`Policy::Threads`] or a guest's
        /// [`prctl_futex_hash`](crate::Domain::prctl_futex_hash) can get. Default: 2^20. [`Policy::Fixed`] and the embedder's
        /// own [`set_slots`](crate::Domain::set_slots) may exceed it.
        max_slots: usize => max_slots;

        /// Memory, in bytes, that the private tables of all domains may take together. Default: 2^30. Global tables and the
        /// first 16 slots of each domain do not count, so no domain can keep another from having a table of its own.
        /// A table that would exceed the limit is refused as if there were no memory, and counted in
        /// [`Counters::refused_tables`](crate::observe::Counters::refused_tables): the domain keeps its table, or gets 16
        /// slots. A slot takes 64 bytes. A domain keeps all its tables until it is dropped; together they take less than twice
        /// the memory of the largest.
        max_table_bytes: usize => max_table_bytes;

        /// Memory, in bytes, that all tables of one domain may take, unless [`DomainOptions::max_table_bytes`] sets another
        /// limit. Default: 2^27, enough for a table of 2^20 slots and one of each smaller size. The first 16 slots count, too:
        /// below 1 KiB a domain uses the global table.
        max_domain_table_bytes: usize => max_domain_table_bytes;

        /// How many words one wait may wait for: more is `EINVAL`. Default: 128, the kernel's `FUTEX_WAITV_MAX`.
        max_waitv: usize => max_waitv;

        /// How many entries of a robust list are walked when a task ends. Default: 2048, the kernel's `ROBUST_LIST_LIMIT`.
        max_robust: usize => max_robust;
    }

    /// The nodes of the machine. Default: those that the operating system reports; one node without `std`.
    #[must_use]
    pub fn topology(mut self, topology: impl Into<Callbacks<dyn Topology>>) -> Self {
        self.topology = Given(Some(topology.into()));
        self
    }

    /// The clocks of timers and of tasks' timeouts. If clocks are given, the embedder turns the system's
    /// [`driver`](crate::System::driver). Default: the host's clocks, and for each namespace a thread that turns its driver,
    /// and that its first timer or timeout starts. Without `std` there is no default.
    #[must_use]
    pub fn clocks(mut self, clocks: impl Into<Callbacks<dyn Clocks>>) -> Self {
        self.clocks = Some(clocks.into());
        self
    }

    /// How to schedule the thread that expires timers and timeouts by the host's clocks. Default: [`DriverThread::new`].
    #[must_use]
    pub fn driver_thread(mut self, thread: DriverThread) -> Self {
        self.driver_thread = thread;
        self
    }

    /// The platform of the system and of all its domains: how threads sleep, wake others and read clocks. Default: the host.
    /// Without `std` the default is none: a thread that would sleep spins, and no timeout ends. It does not replace the
    /// [`clocks`](Self::clocks), and must show the same time as they do. If no clocks are given, or if a
    /// [`Timeout`](crate::Timeout) is made from a `std::time::Instant`, it must show the host's time.
    #[must_use]
    pub const fn platform<P: Platform>(mut self) -> Self {
        self.platform = PlatformRef::of::<P>();
        self
    }

    /// The size of the global tables. [`Error::Invalid`] as for [`System::with_config`](crate::System::with_config).
    pub(super) fn check(&self) -> Result<GlobalSize, Error> {
        let log2 = |slots: usize| match slots.checked_ilog2() {
            Some(log2) if slots.is_power_of_two() && (MIN_SLOTS_LOG2..=MAX_SLOTS_LOG2).contains(&log2) => Ok(log2),
            _ => Err(Error::Invalid),
        };
        if self.cpus == Some(0) {
            return Err(Error::Invalid);
        }
        log2(self.default_slots)?;
        log2(self.max_slots)?;
        Ok(GlobalSize::new(self.cpus, self.global_slots.map(log2).transpose()?))
    }

    pub(super) fn max_log2(&self) -> u32 {
        self.max_slots.ilog2()
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
    pub(crate) spin: Duration,
    pub(crate) observer: Option<&'static dyn Observer>,
}

default_is_new!(DomainOptions);

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
            spin: Duration::ZERO,
            observer: None,
        }
    }

    setters! {
        /// How many waiters the domain may have at a time: threads, tasks and custom waiters. Default: 2^24; at most 2^28.
        /// Further waits fail with [`Error::NoMemory`] (`ENOMEM`), and are counted. From 65,536 on, a wait may be refused some
        /// thousand waiters early: free permits are kept in shards, and a thread cannot take one from another's.
        max_waiters: usize => if max_waiters < 1 << 28 { max_waiters } else { 1 << 28 };

        /// The policy that decides the size of the table.
        policy: Policy => policy;

        /// Whether operations are counted: see [`Counters`](crate::observe::Counters). Off by default: it costs each about ten
        /// nanoseconds. If memory for a counter per CPU is refused, all CPUs share one. If that is refused too, nothing is
        /// counted, and each operation asks again.
        counters: bool => counters;

        /// Is called for each wait that is queued, and for each wake and requeue that finds a waiter. Default: none.
        ///
        /// ```
        /// use ufutex::{Address, At, DomainOptions, observe::Observer};
        /// #[derive(Debug)]
        /// struct Print;
        /// impl Observer for Print {
        ///     fn woke(&self, word: At<Address>, count: usize) { println!("{word:?}: {count} woken") }
        /// }
        /// let options = DomainOptions::new().observer(&Print);
        /// ```
        observer: &'static dyn Observer => Some(observer);

        /// How long a waiting thread may spin before it sleeps. Zero by default: it sleeps at once. A longer time than 4.29 s counts as 4.29 s.
        ///
        /// Threads spin in [`wait`](crate::Domain::wait), [`wait_any`](crate::Domain::wait_any), [`Queued::finish`](crate::Queued::finish),
        /// [`syscall`](crate::Domain::syscall) and their variants, and as the first waiter in [`lock_pi`](crate::Domain::lock_pi), which
        /// may spin for 30 us even if this is zero. Futures and waits of `prepare_with` never do, nor threads of a system with one
        /// CPU ([`SystemConfig::cpus`]) or of a platform without [`MAY_SPIN`](crate::platform::Platform::MAY_SPIN).
        ///
        /// If two threads run at the same time, a hand-off between them then takes a fraction of a microsecond in place of tens. A
        /// thread that spins is queued: it is woken, interrupted and timed out as if it slept. The domain keeps an average of how long
        /// waits take, in 64 records that words share by hash, and after each spin that did not pay fewer waits spin: one in 8192 at
        /// last. A thread stops when it has lost its CPU, and after 2 us if as many others spin as there are CPUs, less one. Those
        /// of all domains of the system count.
        ///
        /// 200 us is a good value where CPU time costs nothing. Leave it at zero on a battery, where CPU time is billed or limited,
        /// for guests that must not take each other's CPUs, and for real-time threads that share a CPU with those that wake them.
        spin: Duration => spin;

        /// Memory, in bytes, that the tables of the domain may take together. Default:
        /// [`SystemConfig::max_domain_table_bytes`]. A table that would exceed it is refused as by
        /// [`SystemConfig::max_table_bytes`], and [`Domain::set_slots`](crate::Domain::set_slots) returns [`Error::NoMemory`]
        /// (`ENOMEM`). Below 1 KiB the domain uses the global table.
        max_table_bytes: usize => Some(max_table_bytes);

        /// Whether a wait compares the word before it locks anything, and ends there if the word differs. On by default.
        /// If it is off, every wait locks its bucket, as in the kernel.
        early_return: bool => early_return;

        /// Whether the domain's private keys are numbers that you chose, and not addresses: what your own [`Key`](crate::Key)
        /// returns as its `address`. Off by default. It has no effect on shared words ([`Scope`](crate::Scope)).
        /// If it is off, all keys in an aligned block of 64 bytes share a bucket in a table of up to 4096 slots: their CPUs
        /// transfer that cache line anyway. So 1, 2, 3 would share one. If it is on, each number is hashed on its own.
        ///
        /// ```
        /// use ufutex::{Address, Domain, DomainOptions, System};
        /// let domain = Domain::with_options(&System::new(), DomainOptions::new().keys_are_ids(true));
        /// domain.wake(Address::at(17), 1); // one of those that wait for number 17
        /// ```
        keys_are_ids: bool => keys_are_ids;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::futex::domain::Domain;
    use crate::futex::system::System;

    #[test]
    fn first_table_is_made_once() {
        let domain = Domain::new(&System::new());
        for slots_log2 in [4, 6] {
            domain.tables.make_first(Some(slots_log2));
            assert_eq!(domain.slots(), 16);
        }
    }

    #[test]
    fn config_that_is_no_power_of_two_or_has_no_cpu_is_invalid() {
        for config in
            [SystemConfig::new().global_slots(3), SystemConfig::new().max_slots(1), SystemConfig::new().cpus(0)]
        {
            assert_eq!(config.check().err(), Some(Error::Invalid));
        }
    }

    #[test]
    fn nodes_share_the_slots_as_in_the_kernel() {
        for (cpus, nodes, slots) in [(2, 1, 512), (3, 1, 1024), (8, 2, 1024), (6, 4, 512), (9, 2, 2048), (1, 1024, 4)] {
            let globals = SystemConfig::new().cpus(cpus).check().unwrap();
            assert_eq!(globals.log2(nodes).map(|log2| 1 << log2), Ok(slots), "{cpus} CPUs, {nodes} nodes");
        }
        let slots_on = |config: SystemConfig, nodes| config.check().unwrap().log2(nodes);
        for (slots, nodes) in [(64, 0), (64, 1025), (1 << 23, 2)] {
            assert_eq!(slots_on(SystemConfig::new().global_slots(slots), nodes), Err(Error::Invalid));
        }
        assert!(slots_on(SystemConfig::new().global_slots(1 << 24), 1).is_ok());
        assert!(slots_on(SystemConfig::new().cpus(usize::MAX), 1024).is_ok());
    }
}
