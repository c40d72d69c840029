//! The futexes of one process: a private table, and everything else that operations of the process share.

use super::config::DomainOptions;
use super::counters::Counting;
use super::namespace::{Namespace, PidNamespace, leak_if_abandoned};
use super::observer::Observer;
use super::place::{Place, private_space};
use super::slots::Control;
use super::spin::Spins;
use super::system::System;
use crate::expiry::sleep::LazySleeps;
use crate::sync::{AtomicU8, Ordering};
use crate::sys::clock::{Deadline, Timeout};
use crate::sys::counted::Counted;
use crate::sys::lazy::Lazy;
use crate::sys::platform::PlatformRef;
use crate::table::MAX_SLOTS_LOG2;
use crate::table::hash::{Hasher, Salt};
use crate::table::live;
use crate::table::size::{self, Policy};
use crate::table::tables::{Global, Tables};

/// The futexes of one process (or guest, or program), with a private table that is made by the first wait.
///
/// No wait or wake panics or fails because memory for a table is refused: a domain that has no table of its own
/// ([`DomainOptions::max_table_bytes`]) uses the global one. Only [`DomainOptions::max_waiters`] makes waits fail.
// Every operation reads two cache lines: from `hasher` to the first words of `tables`. The 32 bytes before them are
// seldom used. In an `Arc` they share a line with its counts.
#[repr(C, align(32))]
pub struct Domain {
    pub(super) control: Control,
    pub(super) sleeps: LazySleeps,
    pub(super) hasher: Hasher,
    pub(super) private_salt: Salt,
    pub(super) wait_path: WaitPath,
    /// 1 when the domain has found that its system has one node.
    pub(super) has_one_node: AtomicU8,
    /// [`DomainOptions::spin`], in nanoseconds. 0: no wait for a word spins.
    pub(super) longest_spin: u32,
    pub(super) tables: Tables,
    pub(super) counting: Counting,
    /// Made for the first wait that may spin.
    pub(super) spins: Lazy<Spins>,
    pub(super) policy: Policy,
    pub(super) observer: Option<&'static dyn Observer>,
    // These two are last, so that the namespace's tables outlive the rest.
    pub(super) namespace: Counted<Namespace>,
    pub(crate) system: System,
}

const _: () = {
    let first = core::mem::offset_of!(Domain, hasher);
    let is_read_together = first == 32 && core::mem::offset_of!(Domain, tables) + Tables::READ_BYTES <= first + 96;
    assert!(usize::BITS != 64 || is_read_together && size_of::<Domain>() <= 256);
};

/// Optional work: bit 0 is the early return, the sign bit counting. So one comparison tells three kinds of waits apart.
#[derive(Clone, Copy)]
pub(super) struct WaitPath(i8);

impl WaitPath {
    fn new(options: &DomainOptions) -> Self {
        Self(i8::from(options.early_return) | if options.counters { i8::MIN } else { 0 })
    }

    #[inline(always)]
    pub(super) const fn is_counted(self) -> bool {
        self.0 < 0
    }

    #[inline(always)]
    pub(super) const fn has_early_return(self) -> bool {
        self.0 & 1 != 0
    }

    /// As `has_early_return`, if operations are not counted.
    #[inline(always)]
    pub(super) const fn has_early_return_uncounted(self) -> bool {
        self.0 != 0
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        leak_if_abandoned(&self.namespace, &self.system);
    }
}

impl Domain {
    /// A domain with the default options, in the system's own [`PidNamespace`].
    #[must_use]
    pub fn new(system: &System) -> Self {
        Self::with_options(system, DomainOptions::new())
    }

    /// A domain with `options`, in the system's own [`PidNamespace`]. No table is allocated.
    ///
    /// ```
    /// use ufutex::{Domain, DomainOptions, System};
    /// let domain = Domain::with_options(&System::new(), DomainOptions::new().max_waiters(1000));
    /// # let _ = domain;
    /// ```
    #[must_use]
    pub fn with_options(system: &System, options: DomainOptions) -> Self {
        Self::in_namespace(&system.pid_namespace(), options)
    }

    /// A domain with `options` whose tasks have their TIDs in `namespace`. No table is allocated.
    ///
    /// ```
    /// use ufutex::{Domain, DomainOptions, System};
    /// let parent = Domain::new(&System::new());
    /// let child = Domain::in_namespace(&parent.pid_namespace(), DomainOptions::new());
    /// # let _ = child;
    /// ```
    #[must_use]
    pub fn in_namespace(namespace: &PidNamespace, options: DomainOptions) -> Self {
        let system = namespace.system();
        let space = private_space(system.inner.domains.fetch_add(1, Ordering::Relaxed));
        let globals = &namespace.inner.globals;
        let max_bytes = options.max_table_bytes.unwrap_or(system.config().max_domain_table_bytes);
        let (on, hasher) = (system.platform(), system.inner.hasher);
        Self {
            // SAFETY: the domain holds a handle of the namespace, and so its tables, until after `tables`.
            tables: unsafe { Tables::new(on, Global::new(globals), space, max_bytes) },
            hasher,
            private_salt: if options.keys_are_ids { hasher.salt_of_ids(space) } else { hasher.salt(space) },
            wait_path: WaitPath::new(&options),
            has_one_node: AtomicU8::new(0),
            control: Control::new(on),
            counting: Counting::new(options.max_waiters, options.counters.then(|| globals.cpus())),
            sleeps: LazySleeps::new(),
            spins: Lazy::new(),
            longest_spin: u32::try_from(options.spin.as_nanos()).unwrap_or(u32::MAX),
            policy: options.policy,
            observer: options.observer,
            namespace: namespace.inner.clone(),
            system: system.clone(),
        }
    }

    pub(crate) fn platform(&self) -> PlatformRef {
        self.system.platform()
    }

    /// Not inlined, so that the code of a wait stays small.
    #[inline(never)]
    pub(crate) fn begin(&self, timeout: Timeout) -> Deadline {
        self.platform().begin(timeout)
    }

    #[cold]
    pub(super) fn make_first_table(&self) {
        self.prepare_to_wait();
        self.tables.make_first(match self.policy {
            Policy::Load => Some(self.system.config().default_slots.ilog2().min(self.system.config().max_log2())),
            Policy::Threads => Some(self.threads_log2()),
            Policy::Fixed(0) => None,
            Policy::Fixed(slots) => Some(slots.clamp(2, 1 << MAX_SLOTS_LOG2).next_power_of_two().ilog2()),
        });
        self.grow_to_threads();
    }

    /// Makes what a domain with waiters needs beside a table, if there is memory. The caller has no bucket locked.
    #[inline(always)]
    pub(super) fn prepare_to_wait(&self) {
        if self.counting.rest.get().is_none() {
            self.make_rest();
        }
    }

    #[cold]
    fn make_rest(&self) {
        let _or_the_next_time = (self.counting.rest_or_make(self.platform()), self.tables.store_or_make());
    }

    /// Notes the result of [`note_use`](crate::table::bucket::Guard::note_use), with nothing locked.
    #[inline(always)]
    pub(super) fn note_transfers(&self, transfers: u32) {
        if transfers != 0 {
            self.note_contention(transfers);
        }
    }

    /// Notes that another thread than before used a bucket, and for another cache line, for the `transfers`th time.
    #[cold]
    fn note_contention(&self, transfers: u32) {
        if !transfers.is_multiple_of(size::TRANSFERS_REPORTED) || !self.sizes_itself() {
            return;
        }
        let Some(mut contention) = self.counting.rest.get().and_then(|rest| rest.contention.try_lock()) else { return };
        let cpus = self.system.globals().cpus();
        let by_log2 = contention.with(|c| c.report(cpus, || self.platform().monotonic_ns()));
        drop(contention);
        self.grow_by(by_log2, size::contention_limit(cpus));
    }

    /// Notes that a key without waiters has got one. Its bucket now has `keys` keys. The caller has no bucket locked.
    pub(super) fn note_keys(&self, keys: u32, place: &Place) {
        self.prepare_to_wait(); // there may have been no memory for it before
        if let Some(rest) = self.counting.rest.get() {
            rest.longest_chain.note_max(keys.into());
        }
        if place.is_private() && size::is_long_chain(keys) {
            self.note_long_chain(place.hash);
        }
    }

    #[cold]
    fn note_long_chain(&self, hash: u32) {
        if self.sizes_itself()
            && let Some(table) = self.tables.current_private()
        {
            let by_log2 = size::crowding(table.slots(), table.index(hash), |slot| table.slot(slot).waiters());
            self.grow_by(by_log2, u32::MAX);
        }
    }

    /// Called when a waiter has been queued or moved, with nothing locked. `new_chain` is its bucket's number of keys if its key is new.
    pub(super) fn note_waiter(&self, new_chain: Option<u32>, place: &Place) {
        if let Some(keys) = new_chain {
            self.note_keys(keys, place);
        }
        if place.is_private() {
            live::help(&self.tables);
        }
    }

    fn sizes_itself(&self) -> bool {
        self.policy == Policy::Load && self.control.is_automatic()
    }

    fn grow_by(&self, by_log2: u32, limit_log2: u32) {
        let Some(table) = self.tables.current_private() else { return };
        let wanted = (table.slots_log2() + by_log2).min(limit_log2).min(self.system.config().max_log2());
        if wanted > table.slots_log2() {
            let _or_the_next_one = live::grow(&self.tables, wanted, &|| self.control.is_automatic());
        }
    }
}

impl core::fmt::Debug for Domain {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Domain")
            .field("policy", &self.policy)
            .field("slots", &self.slots())
            .field("table_bytes", &self.table_bytes())
            .field("waiting", &self.waiting())
            .field("counters", &self.counters())
            .finish_non_exhaustive()
    }
}
