//! What is known of a word that threads wait for.

use crate::account::StackId;
use hdrhistogram::Histogram;
use std::collections::{HashMap, HashSet};
use std::hash::Hash;

/// From where a thread waits, and by which operation.
pub type Place = (StackId, u64);

/// Times of some waits, in nanoseconds.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Sum {
    /// Number of waits.
    pub waits: u64,
    /// Their sum.
    pub total_ns: u64,
}

impl Sum {
    /// Adds these waits.
    pub fn merge(&mut self, more: Sum) {
        self.waits += more.waits;
        self.total_ns = self.total_ns.saturating_add(more.total_ns);
    }

    /// Adds a wait.
    pub fn add(&mut self, ns: u64) {
        self.waits += 1;
        self.total_ns = self.total_ns.saturating_add(ns);
    }
}

/// The sum of times or counts, or the largest number if they add up to more: the program may have made them up.
pub fn sum(of: impl Iterator<Item = u64>) -> u64 {
    of.fold(0, u64::saturating_add)
}

/// How a wait has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// By a wake, and by which thread if that is known.
    Woken(Option<WokenBy>),
    /// Its time was up.
    TimedOut,
    /// By a signal, or with the program.
    Other,
}

/// What has ended a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WokenBy {
    /// The thread.
    pub tid: u32,
    /// From where.
    pub stack: StackId,
    /// The waker ran on another CPU than the woken thread did when its wait ended.
    pub is_across_cpus: bool,
}

/// Most waiting threads and wakers of a site, and owners of a word: a program that makes a thread for each request would fill the
/// memory. At this number the wakers or owners with the least time are dropped, about half. Further waiting threads are not added.
const MOST_THREADS: usize = 1024;

fn trim<K: Eq + Hash, V>(map: &mut HashMap<K, V>, time: impl Fn(&V) -> u64) {
    if map.len() < MOST_THREADS {
        return;
    }
    let mut times: Vec<u64> = map.values().map(&time).collect();
    let median = *times.select_nth_unstable(MOST_THREADS / 2).1;
    map.retain(|_, value| time(value) > median);
}

/// Waits from one stack for one word.
pub struct Site {
    /// All of them.
    pub sum: Sum,
    /// When the last one ended.
    pub last_ns: u64,
    /// The longest.
    pub longest_ns: u64,
    /// Their times, within 6 %.
    pub times: Histogram<u32>,
    /// How many were woken.
    pub wakes: u64,
    /// How many of those by a thread on another CPU.
    pub across_cpus: u64,
    /// How many ended because their time was up.
    pub timeouts: u64,
    /// The threads that have waited.
    pub threads: HashSet<u32>,
    /// By waker.
    pub wakers: HashMap<(u32, StackId), Sum>,
}

impl Default for Site {
    fn default() -> Self {
        Self {
            sum: Sum::default(),
            last_ns: 0,
            longest_ns: 0,
            times: no_times(),
            wakes: 0,
            across_cpus: 0,
            timeouts: 0,
            threads: HashSet::new(),
            wakers: HashMap::new(),
        }
    }
}

/// Times of one digit, which take 2 KiB.
pub fn no_times() -> Histogram<u32> {
    Histogram::new(1).expect("one digit is accepted")
}

impl Site {
    fn add(&mut self, now: u64, tid: u32, ns: u64, end: End) {
        self.sum.add(ns);
        self.last_ns = self.last_ns.max(now);
        self.longest_ns = self.longest_ns.max(ns);
        // It grows as needed. Without memory for that the time is missing in p99.
        let _ = self.times.record(ns);
        if self.threads.len() < MOST_THREADS {
            self.threads.insert(tid);
        }
        match end {
            End::Woken(waker) => {
                self.wakes += 1;
                if let Some(WokenBy { tid, stack, is_across_cpus }) = waker {
                    self.wakers.entry((tid, stack)).or_default().add(ns);
                    trim(&mut self.wakers, |sum| sum.total_ns);
                    self.across_cpus += u64::from(is_across_cpus);
                }
            }
            End::TimedOut => self.timeouts += 1,
            End::Other => {}
        }
    }
}

/// Waits for one word.
#[derive(Default)]
pub struct Word {
    /// By stack of the waiter, and operation.
    pub sites: HashMap<Place, Site>,
    /// How many waiters were moved to another word. Their waits count for this one.
    pub requeues: u64,
    /// Most waiters at a time.
    pub most: u64,
    /// How long there was at least one waiter.
    pub busy_ns: u64,
    /// For how long a thread held the lock while others waited, as far as the word said so or it woke the others then.
    pub held_ns: HashMap<u32, u64>,
    /// From where a thread has taken the lock after its last wait for it.
    pub taken_from: HashMap<u32, StackId>,
    waiting: u64,
    changed_ns: u64,
    holder: Option<u32>,
    /// Time with waiters for which the holder is not known yet.
    unknown_ns: u64,
}

impl Word {
    /// A thread begins to wait. The memory beside the word names this owner.
    pub fn begin(&mut self, now: u64, owner: Option<u32>) {
        self.pass(now);
        self.waiting += 1;
        self.most = self.most.max(self.waiting);
        if let Some(owner) = owner {
            self.is_held_by(owner);
        }
    }

    /// This thread wakes one that waits. If nobody is known to hold the lock, it was this one.
    pub fn wake(&mut self, now: u64, waker: u32) {
        self.pass(now);
        if self.holder.is_none() {
            self.is_held_by(waker);
        }
        self.holder = None;
    }

    /// The wait of a thread that has [left](Self::leave) took `ns`, from this stack.
    pub fn add(&mut self, now: u64, tid: u32, place: Place, ns: u64, end: End) {
        self.sites.entry(place).or_default().add(now, tid, ns, end);
        if let End::Woken(_) = end {
            self.taken_from.insert(tid, place.0);
            if self.taken_from.len() >= MOST_THREADS {
                self.taken_from.retain(|tid, _| self.held_ns.contains_key(tid));
            }
        }
    }

    /// Notes that a thread's wait has ended.
    pub fn leave(&mut self, now: u64) {
        self.pass(now);
        self.waiting = self.waiting.saturating_sub(1);
        if self.waiting == 0 {
            // The time from the wake until the last waiter runs counts for no holder.
            (self.holder, self.unknown_ns) = (None, 0);
        }
    }

    /// If nobody is known to hold the lock, this thread does.
    pub fn was_held_by(&mut self, now: u64, owner: u32) {
        self.pass(now);
        if self.holder.is_none() {
            self.is_held_by(owner);
        }
    }

    /// Adds the time until `now` to what it belongs to.
    fn pass(&mut self, now: u64) {
        if self.waiting != 0 {
            let passed = now.saturating_sub(self.changed_ns);
            self.busy_ns = self.busy_ns.saturating_add(passed);
            match self.holder {
                Some(holder) => self.held(holder, passed),
                None => self.unknown_ns = self.unknown_ns.saturating_add(passed),
            }
        }
        self.changed_ns = self.changed_ns.max(now);
    }

    fn held(&mut self, tid: u32, ns: u64) {
        let held = self.held_ns.entry(tid).or_default();
        *held = held.saturating_add(ns);
        trim(&mut self.held_ns, |ns| *ns);
    }

    /// How many threads wait at the moment.
    pub fn waiters(&self) -> u64 {
        self.waiting
    }

    /// The lock is held by this thread, and was since the time for which nobody is known.
    fn is_held_by(&mut self, tid: u32) {
        let before = std::mem::take(&mut self.unknown_ns);
        self.held(tid, before);
        self.holder = Some(tid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STACK: StackId = StackId(0);
    const HERE: Place = (STACK, 128);

    fn by(tid: u32) -> WokenBy {
        WokenBy { tid, stack: STACK, is_across_cpus: false }
    }

    fn end(word: &mut Word, now: u64, tid: u32, ns: u64, how: End) {
        word.leave(now);
        word.add(now, tid, HERE, ns, how);
    }

    #[test]
    fn owner_that_the_word_names_held_it_while_others_waited() {
        let mut word = Word::default();
        word.begin(100, Some(7));
        word.begin(130, Some(7));
        word.wake(150, 7);
        end(&mut word, 160, 1, 60, End::Woken(Some(by(7))));
        word.begin(170, Some(1));
        word.wake(200, 1);
        end(&mut word, 210, 2, 80, End::Woken(Some(by(1))));
        end(&mut word, 230, 3, 60, End::TimedOut);
        // From 100 to 150 thread 7; from 150 on nobody is known until 170, when the word names thread 1, until 200.
        assert_eq!((word.held_ns[&7], word.held_ns[&1]), (50, 50));
        assert_eq!((word.most, word.busy_ns), (2, 130));
        let site = &word.sites[&HERE];
        assert_eq!((site.sum, site.longest_ns), (Sum { waits: 3, total_ns: 200 }, 80));
        assert_eq!((site.wakes, site.timeouts, site.wakers[&(7, STACK)].total_ns), (2, 1, 60));
    }

    #[test]
    fn without_a_name_in_the_word_who_wakes_has_held_it() {
        let mut word = Word::default();
        word.begin(100, None);
        word.wake(180, 9);
        end(&mut word, 190, 1, 90, End::Woken(None));
        assert_eq!(word.held_ns, HashMap::from([(9, 80)]));
        assert_eq!(word.taken_from, HashMap::from([(1, STACK)]));
        // Nobody waits meanwhile.
        word.begin(1000, None);
        word.wake(1010, 9);
        end(&mut word, 1020, 1, 20, End::Woken(None));
        assert_eq!((word.held_ns[&9], word.busy_ns), (90, 110));
    }

    #[test]
    fn of_many_threads_those_with_the_most_time_are_known() {
        let mut word = Word::default();
        for number in 0..10 * MOST_THREADS as u64 {
            let (tid, now) = (100 + number as u32, 100_000 * number);
            // Thread 7 waits, wakes and holds the lock all the time.
            for (waiter, waker, ns) in [(tid, 7, 500), (7, tid, number + 1)] {
                word.begin(now, Some(waker));
                end(&mut word, now + ns, waiter, ns, End::Woken(Some(by(waker))));
            }
            let site = &word.sites[&HERE];
            for len in [site.threads.len(), site.wakers.len(), word.held_ns.len(), word.taken_from.len()] {
                assert!(len <= MOST_THREADS, "{len}");
            }
        }
        let last = 99 + 10 * MOST_THREADS as u32;
        assert_eq!(word.sites[&HERE].wakers[&(7, STACK)].waits, 10 * MOST_THREADS as u64);
        assert!(word.held_ns.contains_key(&7) && word.held_ns.contains_key(&last));
        assert!(word.taken_from.contains_key(&7) && word.sites[&HERE].wakers.contains_key(&(last, STACK)));
        assert!(!word.held_ns.contains_key(&110));
    }
}
