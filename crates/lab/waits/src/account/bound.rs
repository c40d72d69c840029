//! Bounds the account: drops the call sites and threads with the oldest records, the first processes that have ended, and the stacks
//! that nothing names.
//!
//! What the account has besides is bounded by these, or by what the program has at a time:
//! - `seats` and the threads that wait have an entry for each thread that sleeps at the moment.
//! - `early` is by seats, of which the library has one for each thread, and uses those of ended threads again.
//! - A word has a site, a thread waits for it, or a requeue has named it. Of the last kind, and of `early`, a program has few: beyond
//!   [`MOST`] it has made them up.
//! - Wakers, owners and threads of a site or word are bounded where they are added (`word`), mapped files where one covers another.

use super::{Account, Process, StackId};
use crate::word::{Site, Sum};
use std::collections::HashSet;

/// Most threads, processes and stacks. They take 200 bytes, 0.5 KiB and, with 60 frames, 0.6 KiB each.
const MOST: usize = 1 << 16;

/// What was dropped.
#[derive(Default)]
pub struct Dropped {
    /// The waits of call sites.
    pub waits: Sum,
    /// Number of processes.
    pub processes: usize,
}

/// The time of the oldest of the newest `keep`. There are more than that.
fn oldest_kept(mut times: Vec<u64>, keep: usize) -> u64 {
    let at = times.len() - keep;
    *times.select_nth_unstable(at).1
}

impl Account {
    /// If there are too many call sites, threads, processes or stacks, drops about half of them. Keeps what is in use. `most` is for
    /// call sites.
    pub fn trim(&mut self, most: usize) {
        self.trim_processes(MOST);
        self.trim_sites(most);
        self.trim_threads(MOST);
        self.trim_stacks(MOST);
        for process in self.processes.values_mut() {
            if process.early.len() > MOST {
                process.early.clear();
            }
            if process.words.len() > process.sites + MOST {
                process.words.retain(|_, word| !word.sites.is_empty() || word.waiters() != 0);
            }
        }
    }

    /// All waits that have ended.
    pub fn sum(&self) -> Sum {
        let words = self.processes.values().flat_map(|process| process.words.values());
        let mut sum = self.dropped.waits;
        words.flat_map(|word| word.sites.values()).for_each(|site| sum.merge(site.sum));
        sum
    }

    /// Drops the first of the processes that are gone.
    fn trim_processes(&mut self, most: usize) {
        if self.processes.len() <= most {
            return;
        }
        let mut excess = self.processes.len() - most / 2;
        let dropped = &mut self.dropped;
        self.processes.retain(|_, process| {
            if !process.is_gone || excess == 0 {
                return true;
            }
            excess -= 1;
            dropped.processes += 1;
            process.words.values().flat_map(|word| word.sites.values()).for_each(|site| dropped.waits.merge(site.sum));
            false
        });
    }

    fn trim_sites(&mut self, most: usize) {
        if self.processes.values().map(|process| process.sites).sum::<usize>() <= most {
            return;
        }
        let mut left = most.div_ceil(2);
        let words = self.processes.values().flat_map(|process| process.words.values());
        let oldest = oldest_kept(words.flat_map(|word| word.sites.values()).map(|site| site.last_ns).collect(), left);
        let dropped = &mut self.dropped.waits;
        let mut keeps = |site: &Site| {
            let is_kept = site.last_ns >= oldest && left > 0;
            if is_kept {
                left -= 1;
            } else {
                dropped.merge(site.sum);
            }
            is_kept
        };
        for process in self.processes.values_mut() {
            process.words.values_mut().for_each(|word| word.sites.retain(|_, site| keeps(site)));
            process.words.retain(|_, word| !word.sites.is_empty() || word.waiters() != 0);
            process.sites = process.words.values().map(|word| word.sites.len()).sum();
        }
    }

    /// A thread that is dropped has no name in the report, unless it says it again.
    fn trim_threads(&mut self, most: usize) {
        if self.processes.values().map(|process| process.threads.len()).sum::<usize>() <= most {
            return;
        }
        let mut left = most.div_ceil(2);
        let threads = self.processes.values().flat_map(|process| process.threads.values());
        let oldest = oldest_kept(threads.map(|thread| thread.last_ns).collect(), left);
        for process in self.processes.values_mut() {
            process.threads.retain(|_, thread| {
                let is_new = thread.last_ns >= oldest && left > 0;
                left -= usize::from(is_new);
                is_new || thread.waits.is_some()
            });
        }
    }

    /// Drops the stacks that nothing names, and that no later record can name.
    fn trim_stacks(&mut self, most: usize) {
        if self.stacks.len() <= most.max(2 * self.stacks_kept) {
            return;
        }
        let named: HashSet<StackId> = self.processes.values().flat_map(Process::stacks).collect();
        self.stacks.retain(|id, _| named.contains(id));
        self.stacks_kept = self.stacks.len();
    }
}

impl Process {
    /// All stacks that it names.
    fn stacks(&self) -> impl Iterator<Item = StackId> {
        let waits = self.threads.values().filter_map(|thread| thread.waits.as_ref());
        let wakers = waits.clone().filter_map(|wait| wait.waker.as_ref()).chain(self.early.values());
        let wakers = wakers.chain(self.in_kernel.values().flatten());
        let sites = self.words.values().flat_map(|word| &word.sites);
        let of_sites = sites.flat_map(|((stack, _), site)| site.wakers.keys().map(|(_, waker)| *waker).chain([*stack]));
        let taken = self.words.values().flat_map(|word| word.taken_from.values());
        let own = waits.map(|wait| wait.stack).chain(wakers.map(|waker| waker.stack));
        own.chain(of_sites).chain(taken.copied()).chain(self.written.values().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::tests::{begins, ends, waits, woken, written};
    use ufutex_program::ring::Kind;

    /// The addresses of the words of process 1.
    fn words(account: &Account) -> Vec<u64> {
        let mut words: Vec<u64> = account.processes[&1].words.keys().copied().collect();
        words.sort_unstable();
        words
    }

    #[test]
    fn of_many_words_those_stay_that_were_used_last_and_the_waits_of_the_others_are_counted() {
        const MOST: usize = 100;
        let mut account = Account::default();
        for number in 1..=10_000 {
            let time = 1000 * number;
            waits(&mut account, 3, 0x1000 + number, &[7, 8], time..time + 5);
            // One word is in use all the time.
            waits(&mut account, 3, 0x1000, &[7, 9], time + 10..time + 17);
            account.trim(MOST);
            assert!(account.processes[&1].words.len() <= MOST);
        }
        let words = words(&account);
        assert!(words.len() > MOST / 2 && words[0] == 0x1000, "{words:x?}");
        let kept = words.len() as u64 - 1;
        assert!(words[1..].iter().copied().eq(0x1000 + 10_001 - kept..=0x1000 + 10_000), "{words:x?}");
        assert_eq!(account.sum(), Sum { waits: 20_000, total_ns: 120_000 });
        let dropped = 10_000 - kept;
        assert_eq!(account.dropped.waits, Sum { waits: dropped, total_ns: 5 * dropped });
        let always = account.processes[&1].words[&0x1000].sites.values().next().expect("one stack");
        assert_eq!(always.sum, Sum { waits: 10_000, total_ns: 70_000 });
        assert_eq!(account.processes[&1].sites, words.len());
    }

    #[test]
    fn of_sites_that_were_used_at_one_time_no_more_stay_than_there_is_room_for() {
        let mut account = Account::default();
        (0..10).for_each(|number| waits(&mut account, 3, 0x1000, &[number], 1..2));
        account.trim(1);
        assert_eq!((account.processes[&1].sites, account.dropped.waits.waits), (1, 9));
    }

    #[test]
    fn word_that_a_thread_waits_for_stays_without_sites() {
        let mut account = Account::default();
        waits(&mut account, 3, 0x10, &[7], 1..2);
        begins(&mut account, 3, 0x10, &[], 3);
        (0..10).for_each(|number| waits(&mut account, 4, 0x20 + number, &[7], 5..6));
        account.trim(2);
        assert!(account.processes[&1].words[&0x10].sites.is_empty());
        ends(&mut account, 9, 3, 0);
        assert_eq!(account.processes[&1].words[&0x10].sites.len(), 1);
    }

    #[test]
    fn of_ended_threads_those_stay_that_were_seen_last_and_of_others_all_that_wait() {
        let mut account = Account::default();
        begins(&mut account, 1, 0x10, &[7], 1);
        (2..=100).for_each(|tid| waits(&mut account, tid, 0x20, &[7], 10 * tid..10 * tid + 1));
        account.trim_threads(100);
        assert_eq!(account.processes[&1].threads.len(), 100);
        account.trim_threads(10);
        let mut threads: Vec<u32> = account.processes[&1].threads.keys().copied().collect();
        threads.sort_unstable();
        assert_eq!(threads, [1, 96, 97, 98, 99, 100]);
    }

    #[test]
    fn of_processes_the_first_that_have_ended_are_dropped_with_their_waits() {
        let mut account = Account::default();
        for number in 0..10 {
            waits(&mut account, 3, 0x10, &[7], 10..12);
            let mut process = account.processes.remove(&1).expect("it has waited");
            if number != 2 {
                process.end_all(20);
            }
            account.processes.insert(100 + number, process);
        }
        account.trim_processes(10);
        assert_eq!(account.processes.len(), 10);
        account.trim_processes(8);
        assert_eq!(account.processes.keys().copied().collect::<Vec<_>>(), [102, 107, 108, 109]);
        assert_eq!((account.dropped.processes, account.dropped.waits), (6, Sum { waits: 6, total_ns: 12 }));
    }

    #[test]
    fn process_that_has_waited_for_nothing_leaves_no_files_and_threads() {
        let mut account = Account::default();
        account.note(1, Kind::Mapped, &[0x100, 0x200, 7, 0]);
        woken(&mut account, 4, 3, &[7], 10);
        let left = |process: &Process| (process.mapped.len(), process.threads.len());
        assert_eq!(left(&account.processes[&1]), (1, 1));
        account.processes.values_mut().for_each(|process| process.end_all(20));
        assert_eq!(left(&account.processes[&1]), (0, 0));
    }

    #[test]
    fn stacks_that_are_left_are_those_that_something_names() {
        let mut account = Account::default();
        for number in 0..100 {
            begins(&mut account, 3, 0x10, &[number], 1000 + 10 * number);
            woken(&mut account, 3, 9, &[1000 + number], 1001 + 10 * number);
            ends(&mut account, 1002 + 10 * number, 3, 0);
        }
        woken(&mut account, 5, 9, &[5000], 3000);
        begins(&mut account, 4, 0x20, &[5001], 3000);
        woken(&mut account, 4, 9, &[5002], 3001);
        account.trim_sites(4);
        account.trim_stacks(50);
        // Two sites with a waker each; where the thread has taken the lock is one of them; the wake that came early; the wait and its waker.
        assert_eq!(account.stacks.len(), 7);
        begins(&mut account, 5, 0x30, &[99], 3000);
        [4, 5].iter().for_each(|tid| ends(&mut account, 3100, *tid, 0));
        let process = &account.processes[&1];
        let of = |word: &u64| {
            let sites = process.words[word].sites.iter();
            let site = |((stack, _), site): (&(StackId, u64), &Site)| {
                let waker = site.wakers.keys().next().expect("a waker").1;
                (account.stack(*stack)[0], account.stack(waker)[0])
            };
            let mut sites: Vec<(u64, u64)> = sites.map(site).collect();
            sites.sort_unstable();
            sites
        };
        assert_eq!(
            [0x10, 0x20, 0x30].map(|word| of(&word)),
            [vec![(98, 1098), (99, 1099)], vec![(5001, 5002)], vec![(99, 5000)]]
        );
        assert_eq!(account.stack(process.words[&0x10].taken_from[&3]), [99]);
        let number = written(&mut account, &[77]);
        account.trim_stacks(0);
        assert_eq!(account.stacks.len(), 8, "nothing is done before there are twice as many");
        account.stacks_kept = 0;
        account.trim_stacks(0);
        assert_eq!(account.stack(StackId(number)), [77], "the process has it at a place, and may name it");
        account.processes.values_mut().for_each(|process| process.end_all(4000));
        account.stacks_kept = 0;
        account.trim_stacks(0);
        assert!(account.stack(StackId(number)).is_empty());
    }
}
