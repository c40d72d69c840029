//! Reads and sets the size of a domain's table, as prctl(2)'s `PR_FUTEX_HASH` does for a process.

use core::time::Duration;

use super::domain::Domain;
use crate::error::Error;
use crate::lock::{Lock, LockGuard};
use crate::sync::{AtomicU32, Ordering};
use crate::sys::platform::PlatformRef;
use crate::sys::unwind::Otherwise;
use crate::table::MAX_SLOTS_LOG2;
use crate::table::live;
use crate::table::size::{self, Policy};
use crate::table::store::TableStore;
use crate::table::tables::Current;

// The operations of `PR_FUTEX_HASH`, and its flag. The last two are only in Linux 6.16.
const SET_SLOTS: u64 = 1;
const GET_SLOTS: u64 = 2;
const GET_IMMUTABLE: u64 = 3;
const FLAG_IMMUTABLE: u64 = 1;

/// A guest's next request waits for this many times as long as its last one took. So threads that poll or drop the futures
/// of a guest that resizes without end find its buckets unlocked.
const REST: u64 = 20;
/// The longest rest, in nanoseconds.
const REST_NS_MAX: u64 = 100_000_000;
/// A request that took less than this many nanoseconds needs no rest.
const SHORT_NS: u64 = 10_000;

// Bits of `Control::flags`.
const CUSTOM: u32 = 1;
const IMMUTABLE: u32 = 2;
const GLOBAL_FOR_GOOD: u32 = 4;

/// The requests that concern the size of a domain's table.
pub(super) struct Control {
    flags: AtomicU32,
    threads: AtomicU32,
    /// Held by a request for slots, and by the growth to a number of threads, from the first check of `flags` until the
    /// table has its size and `flags` say so. `Policy::Load` does not take it: it checks `flags` under `Tables::resize`.
    requests: Lock<()>,
}

impl Control {
    pub(super) fn new(on: PlatformRef) -> Self {
        Self { flags: AtomicU32::new(0), threads: AtomicU32::new(1), requests: Lock::new(on.for_long_locks(), ()) }
    }

    fn has(&self, flag: u32) -> bool {
        self.flags.load(Ordering::Relaxed) & flag != 0
    }

    fn set(&self, flags: u32) -> u32 {
        self.flags.fetch_or(flags, Ordering::Relaxed)
    }

    /// Whether the size policy is active: no size has been set, and the table is not immutable.
    pub(super) fn is_automatic(&self) -> bool {
        self.flags.load(Ordering::Relaxed) == 0
    }
}

impl Domain {
    /// The number of slots (buckets) of the domain's own table. `0` before the first wait and with the global table.
    ///
    /// ```
    /// # use ufutex::{Domain, System};
    /// let domain = Domain::new(&System::new());
    /// assert_eq!(domain.slots(), 0);
    /// domain.set_slots(64)?;
    /// assert_eq!(domain.slots(), 64);
    /// # Ok::<(), ufutex::Error>(())
    /// ```
    #[must_use]
    pub fn slots(&self) -> usize {
        self.tables.slots()
    }

    /// The memory of all tables that the domain has had, in bytes: 0 before the first wait, at most twice that of the largest.
    #[must_use]
    pub fn table_bytes(&self) -> usize {
        self.tables.store.get().map_or(0, TableStore::bytes)
    }

    /// Sets the number of slots, a power of two of at least 2; `0` means its namespace's global table. On return every
    /// waiter has been moved to the new table. The size policy does not change the table any more.
    ///
    /// | who decides about the size | call |
    /// |---|---|
    /// | the engine, by load or by threads | [`DomainOptions::policy`](crate::DomainOptions::policy) |
    /// | you, once, when you make the domain | the same, with [`Policy::Fixed`] |
    /// | you, later, and as often as you like | `set_slots`, which may also bring a domain back from the global table |
    /// | nobody from now on | [`set_immutable`](Self::set_immutable) |
    /// | the guest, by prctl(2) | [`prctl_futex_hash`](Self::prctl_futex_hash), with the kernel's rules |
    ///
    /// # Errors
    /// [`Error::Invalid`] for any other number. [`Error::NoMemory`] if there is no memory for the new table, or a limit
    /// forbids it; the table in use then stays in use. [`Error::Busy`] if the table is immutable.
    pub fn set_slots(&self, slots: usize) -> Result<(), Error> {
        self.prepare_to_wait();
        let _request = self.control.requests.lock();
        self.set_slots_now(slots)
    }

    /// The caller holds `requests`.
    fn set_slots_now(&self, slots: usize) -> Result<(), Error> {
        let slots_log2 = match slots {
            0 => None,
            n if n == 1 || !n.is_power_of_two() => return Err(Error::Invalid),
            n if n.ilog2() > MAX_SLOTS_LOG2 => return Err(Error::NoMemory),
            n => Some(n.ilog2()),
        };
        if self.control.has(IMMUTABLE) {
            return Err(Error::Busy);
        }
        // Before the resize lock is taken: a growth that is decided under that lock later sees the flag.
        let added = CUSTOM & !self.control.set(CUSTOM);
        let give_back = Otherwise::new(|| _ = self.control.flags.fetch_and(!added, Ordering::Relaxed));
        live::resize(&self.tables, slots_log2)?;
        give_back.disarm();
        Ok(())
    }

    /// Makes the table keep its size, as `FH_FLAG_IMMUTABLE` did in Linux 6.16, after what is under way is completed.
    pub fn set_immutable(&self) {
        let _request = self.control.requests.lock();
        self.set_immutable_now();
    }

    /// The caller holds `requests`.
    fn set_immutable_now(&self) {
        self.control.set(IMMUTABLE | CUSTOM);
        // Complete the growth that the policy has started, if any. It cannot fail, because the table has been allocated.
        let begun = self.tables.resize.lock().with(|going_on| going_on.as_ref().and_then(|_| self.tables.going_on()));
        if let Some(Current::Private(table)) = begun.map(|begun| begun.target()) {
            let _done = live::resize(&self.tables, Some(table.slots_log2()));
        }
    }

    /// Whether the table has been made immutable.
    #[must_use]
    pub fn is_immutable(&self) -> bool {
        self.control.has(IMMUTABLE)
    }

    /// Under [`Policy::Threads`]: notes that the process has this many threads, and grows the table as the kernel would.
    pub fn note_threads(&self, threads: usize) {
        self.control.threads.fetch_max(u32::try_from(threads).unwrap_or(u32::MAX), Ordering::Relaxed);
        self.grow_to_threads();
    }

    /// Under [`Policy::Threads`]: grows the table, if there is one, to the size for the largest number of threads noted
    /// so far. Also called when the first table has been made. By the lock the later caller sees what the earlier has stored.
    pub(super) fn grow_to_threads(&self) {
        if self.policy != Policy::Threads {
            return;
        }
        let _request = self.control.requests.lock();
        let wanted = self.threads_log2();
        if self.control.is_automatic() && (1..1 << wanted).contains(&self.slots()) {
            // Takes all steps: the caller starts a thread or makes the first table, which takes long in any case.
            let _done = live::resize(&self.tables, Some(wanted));
        }
    }

    /// log2 of the number of slots that [`Policy::Threads`] wants for the largest number of threads noted so far.
    pub(super) fn threads_log2(&self) -> u32 {
        let (globals, threads) = (self.system.globals(), self.control.threads.load(Ordering::Relaxed) as usize);
        size::for_threads(threads, globals.cpus(), 1 << globals.wanted_log2()).min(self.system.config().max_log2())
    }

    /// `prctl(PR_FUTEX_HASH, op, slots, flags)` for this domain, with the kernel's numbers. Returns at least 0, or `-errno`. If
    /// the guest's last request for slots took long, this one first sleeps, for at most a tenth of a second.
    /// It does what Linux 6.18 does, and has the immutable flag and its query of Linux 6.16. After a request for 0 slots (the
    /// global table) each later one is `EBUSY`.
    ///
    /// ```
    /// # use ufutex::{Domain, System};
    /// let domain = Domain::new(&System::new());
    /// assert_eq!(domain.prctl_futex_hash(1, 3, 0), -22); // EINVAL: no power of two
    /// assert_eq!(domain.prctl_futex_hash(1, 32, 0), 0);
    /// assert_eq!(domain.prctl_futex_hash(2, 0, 0), 32);
    /// ```
    pub fn prctl_futex_hash(&self, op: u64, slots: u64, flags: u64) -> isize {
        let result = match op {
            SET_SLOTS => self.prctl_set_slots(slots, flags).map(|()| 0),
            GET_SLOTS => Ok(self.slots() as isize),
            GET_IMMUTABLE => Ok(self.is_immutable().into()),
            _ => Err(Error::Invalid),
        };
        result.unwrap_or_else(|error| -(error.errno() as isize))
    }

    fn prctl_set_slots(&self, slots: u64, flags: u64) -> Result<(), Error> {
        if flags & !FLAG_IMMUTABLE != 0 {
            return Err(Error::Invalid);
        }
        // The kernel uses the lower 32 bits of prctl(2)'s long.
        let slots = slots as u32 as usize;
        if slots == 1 || (slots != 0 && !slots.is_power_of_two()) {
            return Err(Error::Invalid);
        }
        self.prepare_to_wait();
        let _request = self.lock_after_rest();
        if self.control.has(GLOBAL_FOR_GOOD) {
            return Err(Error::Busy);
        }
        if slots > self.system.config().max_slots {
            if let Some(rest) = self.counting.rest.get() {
                rest.refused_slots.add(1);
            }
            return Err(Error::NoMemory);
        }
        let began = self.platform().monotonic_ns();
        self.set_slots_now(slots)?;
        if let (Some(began), Some(rest)) = (began, self.counting.rest.get()) {
            let now = self.platform().monotonic_ns().unwrap_or(began);
            let took = now.saturating_sub(began);
            let pause = if took < SHORT_NS { 0 } else { took.saturating_mul(REST).min(REST_NS_MAX) };
            rest.next_request.store(now.saturating_add(pause), Ordering::Relaxed);
        }
        if slots == 0 {
            self.control.set(GLOBAL_FOR_GOOD);
        }
        if flags & FLAG_IMMUTABLE != 0 {
            self.set_immutable_now();
        }
        Ok(())
    }

    /// Locks `requests` for a guest, when the time for its next request has come.
    fn lock_after_rest(&self) -> LockGuard<'_, ()> {
        loop {
            let request = self.control.requests.lock();
            let next = self.counting.rest.get().map_or(0, |rest| rest.next_request.load(Ordering::Relaxed));
            let left = if next == 0 { 0 } else { next.saturating_sub(self.platform().monotonic_ns().unwrap_or(next)) };
            if left == 0 {
                return request;
            }
            drop(request);
            // Without a way to sleep there is no clock either, and so no rest.
            let _slept = self.platform().sleep(Duration::from_nanos(left));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::futex::config::{DomainOptions, SystemConfig};
    use crate::futex::system::System;
    use crate::futex::wait::WaitOptions;
    use crate::sync::AtomicU32;
    use crate::table::Table;
    use crate::table::size::Policy;
    use crate::table::size::TRANSFERS_REPORTED;
    use crate::table::tables::{Current, Tables};

    fn live(table: Table) -> usize {
        (0..table.slots()).filter(|&slot| table.slot(slot).is_live()).count()
    }

    fn next_step(tables: &Tables) -> Option<u32> {
        tables.resize.lock().with(|progress| progress.as_ref().map(|progress| progress.next_step))
    }

    #[test]
    fn operations_help_when_the_bucket_that_a_move_left_is_unlocked() {
        const HELD: usize = 5;
        let domain: Domain = Domain::new(&System::new());
        assert_eq!(domain.set_slots(64), Ok(()), "makes the table");
        let tables = &domain.tables;
        for to_log2 in [8, 10] {
            let Current::Private(from) = tables.current() else { panic!("a table of its own") };
            let held = from.slot(HELD).lock_to_move();
            assert!(held.is_some());
            assert!(live::grow(tables, to_log2, &|| true));
            let Current::Private(to) = tables.next() else { panic!("the move goes on") };
            let all_but_one = to.slots() - to.slots() / from.slots();
            for _ in 0..100 {
                live::help(tables);
            }
            assert_eq!((live(from), live(to)), (1, all_but_one), "one step is left");
            // A call that went on with the move would take eight steps, less than a pass.
            for _ in 0..2 {
                assert_eq!(next_step(tables), Some(0), "no pass over the steps while the bucket is locked");
                live::help(tables);
            }
            drop(held);
            assert!(tables.moving(), "nothing moves by itself");
            for _ in 0..100 {
                live::help(tables);
            }
            assert_eq!((live(from), live(to), domain.slots()), (0, to.slots(), to.slots()));
        }
    }

    #[test]
    fn table_grows_to_the_threads_also_if_it_is_growing() {
        for growing_to in [5, 7] {
            let domain = domain_on(SystemConfig::new().cpus(64).global_slots(1024), Policy::Threads);
            let tables = &domain.tables;
            let Current::Private(from) = tables.current() else { panic!("a table of its own") };
            let held = from.slot(5).lock_to_move();
            assert!(live::grow(tables, growing_to, &|| true));
            drop(held);
            assert!(tables.moving() && domain.slots() < 1 << growing_to);
            domain.note_threads(64);
            assert_eq!(domain.slots(), 256);
        }
    }

    /// A domain with a table of 16 buckets, which cannot get one of more than 1 MiB.
    fn domain_with_table(policy: Policy) -> Domain {
        domain_on(SystemConfig::new().max_table_bytes(1 << 20), policy)
    }

    fn domain_on(config: SystemConfig, policy: Policy) -> Domain {
        let system = System::with_config(config).expect("a valid configuration");
        let domain: Domain = Domain::with_options(&system, DomainOptions::new().policy(policy));
        // The first wait makes the table.
        let at_once = WaitOptions::new().timeout(Duration::from_nanos(1));
        assert_eq!(domain.wait_with(&AtomicU32::new(0), 0, &at_once), Err(Error::TimedOut));
        assert_eq!(domain.slots(), 16);
        domain
    }

    /// The buckets of the table after some 100,000 transfers in no time. `is_told` chooses those that are noted.
    fn slots_after_transfers(domain: &Domain, is_told: impl Fn(u32) -> bool) -> usize {
        (1..100_000).filter(|&transfers| is_told(transfers)).for_each(|transfers| domain.note_transfers(transfers));
        domain.slots()
    }

    fn is_report(transfers: u32) -> bool {
        transfers.is_multiple_of(TRANSFERS_REPORTED)
    }

    #[test]
    fn transfers_count_in_whole_reports_and_grow_only_a_table_that_sizes_itself() {
        let [load, fixed] = [Policy::Load, Policy::Fixed(16)].map(domain_with_table);
        assert_eq!(slots_after_transfers(&load, |transfers| !is_report(transfers)), 16);
        assert!(slots_after_transfers(&load, is_report) > 16);
        assert_eq!(slots_after_transfers(&fixed, is_report), 16);
    }

    #[test]
    fn request_that_is_refused_leaves_the_policy_as_it_was() {
        const TOO_MANY: usize = 1 << 16;
        let domain = domain_with_table(Policy::Load);
        assert_eq!(domain.set_slots(TOO_MANY), Err(Error::NoMemory));
        assert!(slots_after_transfers(&domain, is_report) > 16, "it still sizes itself");
        assert_eq!(domain.set_slots(64), Ok(()));
        assert_eq!(domain.set_slots(TOO_MANY), Err(Error::NoMemory));
        assert_eq!(slots_after_transfers(&domain, is_report), 64, "the size was requested");
    }

    #[test]
    fn wait_is_a_use_for_the_line_of_its_word() {
        let domain = domain_with_table(Policy::Load);
        let word = AtomicU32::new(0);
        let (place, line) = domain.place_and_line(&&word);
        let note = |line| {
            let table = domain.tables.current_private().expect("a table of its own");
            table.bucket(place.hash).lock_to_move().expect("it is live").note_use(line)
        };
        note(!line);
        let at_once = WaitOptions::new().timeout(Duration::from_nanos(1));
        assert_eq!(domain.wait_with(&word, 0, &at_once), Err(Error::TimedOut));
        // If the wait had noted no use, or one for another line, this use would be a transfer.
        let transfers = std::thread::scope(|scope| scope.spawn(|| note(line)).join());
        assert_eq!(transfers.expect("it does not panic"), 0);
    }
}
