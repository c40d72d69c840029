//! Tasks of three domains lock and unlock words of one domain and of several, give up, end and come again. One task at
//! a time has a lock, no waiter is forgotten, and in the end each lock is free.
//!
//! Promise: busy graph

use shuttle::sync::Arc;
use shuttle::sync::atomic::{AtomicU32, Ordering::SeqCst};
use shuttle::thread;
use ufutex_shuttle::{
    At, Clock, Domain, DomainOptions, Error, ObjectId, System, SystemConfig, Task, Timeout, WaitOptions, pi::Priority,
};

use crate::support::{Word, catches, check};

const SOON: Option<Timeout> = Some(Timeout::At(Clock::Monotonic, std::time::Duration::MAX));

struct Shares {
    domains: Vec<Domain>,
    words: [Word; 3],
    owners: [AtomicU32; 3],
}

impl Shares {
    fn new() -> Arc<Self> {
        let config = SystemConfig::new().cpus(1).global_slots(2).hash_seed(1).default_slots(2);
        let system = System::with_config(config).expect("the models' configuration is valid");
        let domains = (0..3).map(|_| Domain::with_options(&system, DomainOptions::new())).collect();
        let words = [0x1000, 0x1040, 0x1080].map(Word::at);
        Arc::new(Self { domains, words, owners: [(); 3].map(|()| AtomicU32::new(0)) })
    }

    fn word(&self, i: usize) -> At<&Word> {
        At::object(&self.words[i], ObjectId::new(1).expect("small enough"), 0x40 * i as u64)
    }

    /// Locks the words in this order, the last one with a timeout, and then unlocks them.
    fn lock_all(&self, domain: usize, task: &Task, words: &[usize]) {
        let Some((&word, others)) = words.split_first() else { return };
        let timeout = if others.is_empty() { SOON } else { None };
        match self.domains[domain].lock_pi_with(self.word(word), task, &WaitOptions::new().maybe_timeout(timeout)) {
            Ok(()) => {}
            result => return assert_eq!((result, others), (Err(Error::TimedOut), &[][..])),
        }
        assert_eq!(self.owners[word].swap(task.tid(), SeqCst), 0, "one at a time");
        task.set_priority(Priority::realtime(word as u8 + 1));
        self.lock_all(domain, task, others);
        assert_eq!(self.owners[word].swap(0, SeqCst), task.tid(), "one at a time");
        while let Err(error) = self.domains[domain].unlock_pi(self.word(word), task) {
            assert_eq!(error, Error::Again);
            thread::yield_now();
        }
    }
}

/// Chains of owners through all three domains.
fn chains_across_domains() {
    let shares = Shares::new();
    let orders: [&[usize]; 4] = [&[0, 1], &[1, 2], &[0, 2], &[2]];
    let threads: Vec<_> = (orders.into_iter().enumerate())
        .map(|(i, words)| {
            let shares = shares.clone();
            thread::spawn(move || {
                for round in 0..2 {
                    let task = shares.domains[i % 3].task(10 * round + i as u32 + 1).expect("the number is free");
                    shares.lock_all(i % 3, &task, words);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    for (word, domain) in std::iter::zip(0..3, &shares.domains) {
        assert_eq!(shares.words[word].value.load(SeqCst), 0);
        let task = domain.task(99).expect("the number is free");
        assert_eq!(domain.lock_pi(shares.word(word), &task), Ok(()), "nobody is queued");
        assert_eq!(domain.unlock_pi(shares.word(word), &task), Ok(()));
    }
}

#[test]
fn chains_of_owners_cross_domains() {
    check(300, chains_across_domains);
}

catches!(graph_catches_hand_over_keeps_owner, HandOverKeepsOwner, 300, chains_across_domains);
catches!(graph_catches_timeout_loses_wake, TimeoutLosesWake, 300, chains_across_domains);
