//! Decides how large a domain's table should be: the policies and the figures that they judge by.

/// Decides the size of a domain's table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Policy {
    /// Grow when waiters crowd the table, or when CPUs contend for its buckets with different keys. The default.
    #[default]
    Load,
    /// The kernel's rule: `clamp(roundup_pow2(4 * min(threads, cpus)), 16, global)` slots, where `global` is the number of
    /// slots of a global table. The table only grows. The embedder reports the number of threads with
    /// [`Domain::note_threads`](crate::Domain::note_threads).
    Threads,
    /// This many slots from the first wait on, rounded up to a power of two from 2 to 2^24, whatever
    /// [`SystemConfig::max_slots`](crate::SystemConfig::max_slots) says. If the memory for them is refused, the table has 16
    /// slots, and [`refused_tables`](crate::observe::Counters::refused_tables) counts it: by default a domain's tables may
    /// take 128 MiB, which are 2^21 slots. 0 means its namespace's global table.
    Fixed(usize),
}

/// The smallest table that a policy makes, as in the kernel.
pub const SMALLEST_LOG2: u32 = 4;

/// log2 of the number of slots that the kernel chooses for `threads` threads.
pub fn for_threads(threads: usize, cpus: usize, global_slots: usize) -> u32 {
    let wanted = threads.min(cpus).max(1).saturating_mul(4).next_power_of_two();
    wanted.clamp(1 << SMALLEST_LOG2, global_slots.max(1 << SMALLEST_LOG2)).ilog2()
}

const LONG_CHAIN: u32 = 4;
const SAMPLE: usize = 32;

/// Whether a bucket that has got waiters of a new key, and now has `keys` keys, makes the policy sample the table: only at
/// powers of two, because a larger table may not help that bucket.
pub fn is_long_chain(keys: u32) -> bool {
    keys >= LONG_CHAIN && keys.is_power_of_two()
}

/// log2 of the factor by which a crowded table should grow: 1 from one waiter for each bucket on, 2 from two. `waiters(i)` is
/// the number of waiters in bucket `i`.
///
/// Each bucket counts for a few waiters at most: where they wait for one key or line, more buckets would not help.
pub fn crowding(slots: usize, start: usize, waiters: impl Fn(usize) -> u32) -> u32 {
    let sample = SAMPLE.min(slots);
    let stride = slots / sample;
    let sum: u32 = (0..sample).map(|i| waiters((start + i * stride) & (slots - 1)).min(2 * LONG_CHAIN)).sum();
    (sum / sample as u32).min(2)
}

/// A bucket reports to the policy after each run of this many *transfers*: see `bucket`.
pub const TRANSFERS_REPORTED: u32 = 64;
/// After this many reported transfers the policy reads the clock.
const TRANSFERS_JUDGED: u32 = 1024;
/// From this many transfers a second for each CPU on, a table twice as large pays: they waste some 2 % of its time.
const TRANSFERS_TOLERATED: u64 = 300_000;

#[derive(Default)]
pub struct Contention {
    transfers: u32,
    since_ns: u64,
}

impl Contention {
    /// Adds a report. Returns log2 of the factor by which the table should grow: after `TRANSFERS_JUDGED` transfers, by the
    /// clock, and without a clock in any case.
    pub fn report(&mut self, cpus: usize, now_ns: impl FnOnce() -> Option<u64>) -> u32 {
        self.transfers += TRANSFERS_REPORTED;
        if self.transfers < TRANSFERS_JUDGED {
            return 0;
        }
        let transfers = u64::from(core::mem::take(&mut self.transfers));
        let Some(now_ns) = now_ns() else { return 1 };
        let elapsed_ns = now_ns.saturating_sub(core::mem::replace(&mut self.since_ns, now_ns)).max(1);
        let per_second = transfers.saturating_mul(1_000_000_000) / elapsed_ns;
        match per_second / (TRANSFERS_TOLERATED * cpus.max(1) as u64) {
            0 => 0,
            1..4 => 1,
            _ => 2,
        }
    }
}

/// log2 of the largest table to which contention among `cpus` CPUs can make a table grow: 4096 slots for each.
pub fn contention_limit(cpus: usize) -> u32 {
    cpus.next_power_of_two().ilog2() + 12
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_rule_is_the_kernels() {
        for (threads, cpus, global, slots) in [
            (1, 2, 512, 16),
            (2, 2, 512, 16),
            (100, 2, 512, 16),
            (8, 64, 16384, 32),
            (1000, 176, 32768, 1024),
            (1000, 176, 256, 256),
        ] {
            assert_eq!(1 << for_threads(threads, cpus, global), slots, "{threads} threads, {cpus} CPUs");
        }
    }

    #[test]
    fn one_crowded_bucket_does_not_make_a_table_crowded() {
        assert_eq!(crowding(64, 0, |i| if i == 0 { 10_000 } else { 0 }), 0);
        assert_eq!(crowding(64, 5, |_| 1), 1);
        assert_eq!(crowding(2, 1, |_| 3), 2);
    }

    #[test]
    fn transfers_grow_the_table_only_when_they_are_frequent() {
        let mut quick = Contention::default();
        let grown: u32 = (0..16).map(|_| quick.report(2, || Some(200_000))).sum();
        assert_eq!(grown, 2, "a thousand transfers in a fifth of a millisecond");
        let mut slow = Contention::default();
        let grown: u32 = (0..160).map(|i| slow.report(2, || Some(i * 1_000_000_000))).sum();
        assert_eq!(grown, 0, "a thousand transfers in sixteen seconds");
        let mut no_clock = Contention::default();
        let grown: u32 = (0..16).map(|_| no_clock.report(2, || None)).sum();
        assert_eq!(grown, 1);
    }
}
