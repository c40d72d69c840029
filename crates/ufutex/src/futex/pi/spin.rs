//! Whether a waiter of a lock spins before it sleeps, by what came of it at earlier waits for the lock.
//!
//! A thread that sleeps and is woken loses tens of microseconds, and so does the lock, which is handed to it before it runs.
//! Most owners hold a lock for less. So the first waiter of a lock spins for about as long as a sleep costs. It is queued by
//! then: the lock is handed over in order of priority, as if it slept.
//!
//! The kernel stops when the owner loses its CPU, which the engine does not know. After a few vain waits in a row the owners
//! probably sleep, or wait for a CPU. Then fewer waits spin after each failure, until one succeeds.

use core::time::Duration;

use super::lock::LockOperation;
use crate::futex::domain::Domain;
use crate::futex::key::Target;
use crate::signal::sleeper::Sleeper;
use crate::sync::{AtomicU16, Ordering};
use crate::sys::clock::Deadline;

/// How long a waiter spins: as long as it takes to wake a thread, so that it can also wait for an owner that is being woken.
const SPIN: Duration = Duration::from_micros(30);

/// Number of records of a domain, a power of two. A lock has one by its hash, perhaps together with other locks.
const RECORDS: usize = 64;

/// What came of spinning. A record's upper byte has how many waits in a row have spun in vain, up to [`MOST_FAILURES`], its
/// lower byte how many are not to spin from now on. A hint: threads may undo each other's changes.
pub(crate) struct Spins([AtomicU16; RECORDS]);

/// After this many failures or more, one in 256 waits spins.
const MOST_FAILURES: u16 = 8;

impl Spins {
    pub fn new() -> Self {
        Self(core::array::from_fn(|_| AtomicU16::new(0)))
    }
}

fn begin(record: &AtomicU16) -> bool {
    let before = record.load(Ordering::Relaxed);
    let is_to_skip = before.to_le_bytes()[0] != 0;
    if is_to_skip {
        record.store(before - 1, Ordering::Relaxed);
    }
    !is_to_skip
}

fn end(record: &AtomicU16, succeeded: bool) {
    let before = record.load(Ordering::Relaxed);
    let failures = if succeeded { 0 } else { MOST_FAILURES.min((before >> 8) + 1) };
    let skips = (1 << failures) - 1;
    let after = failures << 8 | skips;
    // Usually nothing changes. Then the line stays with all CPUs that read it.
    if after != before {
        record.store(after, Ordering::Relaxed);
    }
}

impl Domain {
    /// Whether an owner can run at the same time and sleeping costs [`SPIN`]. An embedder's threads may share a CPU.
    fn may_spin(&self) -> bool {
        cfg!(feature = "std") && self.platform().is_host() && self.system.globals().cpus() > 1
    }
}

impl<T: Target> LockOperation<'_, '_, T> {
    /// Spins until the lock is handed over, if that is worthwhile. `hash` is the word's.
    pub(super) fn spin_for(&self, hash: u32, sleeper: &Sleeper, deadline: Option<&Deadline>) {
        if !self.domain.may_spin() {
            return;
        }
        let Ok(spins) = self.domain.spins.get_or_make(|| Ok(Spins::new())) else { return };
        let record = &spins.0[hash as usize & (RECORDS - 1)];
        if begin(record) {
            end(record, sleeper.spin(SPIN, deadline));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many waits in a row do not spin from now on.
    fn skipped(record: &AtomicU16) -> usize {
        core::iter::from_fn(|| (!begin(record)).then_some(())).count()
    }

    #[test]
    fn fewer_waits_spin_after_each_failure() {
        let record = AtomicU16::new(0);
        let after_failure = || {
            end(&record, false);
            skipped(&record)
        };
        let counts: [usize; 10] = core::array::from_fn(|_| after_failure());
        assert_eq!(counts, [1, 3, 7, 15, 31, 63, 127, 255, 255, 255]);
    }

    #[test]
    fn every_wait_spins_again_after_a_success() {
        let record = AtomicU16::new(0);
        (0..4).for_each(|_| end(&record, false));
        assert_eq!(skipped(&record), 15);
        end(&record, true);
        assert_eq!(skipped(&record), 0);
        end(&record, false);
        assert_eq!(skipped(&record), 1, "the failures before the success do not count");
    }

    #[cfg(feature = "std")]
    #[test]
    fn threads_spin_on_the_host_alone_and_not_on_one_cpu() {
        use crate::platform::Host;
        use crate::{Error, System, SystemConfig, WaitOptions};
        let spins = |config: SystemConfig| {
            let system = System::with_config(config).expect("a valid configuration");
            let domain: Domain = Domain::new(&system);
            let [owner, waiter] = [1, 2].map(|tid| domain.task(tid).expect("the TID is free"));
            let word = core::sync::atomic::AtomicU32::new(0);
            assert_eq!(domain.lock_pi(&word, &owner), Ok(()));
            let soon = WaitOptions::new().timeout(Duration::from_nanos(1));
            assert_eq!(domain.lock_pi_with(&word, &waiter, &soon), Err(Error::TimedOut));
            // The first wait that may spin makes the records.
            domain.spins.get().is_some()
        };
        assert!(spins(SystemConfig::new().cpus(2)));
        assert!(!spins(SystemConfig::new().cpus(1)));
        assert!(!spins(SystemConfig::new().cpus(2).platform::<Host>()), "a given platform");
    }
}
