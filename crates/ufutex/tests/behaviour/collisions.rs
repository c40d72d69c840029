//! Which words share a bucket: those of domains with tables of their own never do, and which words of one domain do
//! depends on the system's secret seed.
//!
//! Promise: secret seed
//! Promise: own table

use std::sync::atomic::AtomicU32;

use ufutex::{At, Domain, DomainOptions, ObjectId, Policy, Queued, System, SystemConfig, Target};

use crate::common::domains::on_domains;
use crate::common::waiters::{Boxed, idle, queue, waiter_on};

/// A word in a cache line of its own, because the words of a line share a bucket.
#[repr(align(64))]
struct Line(AtomicU32);

fn lines(count: usize) -> Vec<Line> {
    (0..count).map(|_| Line(AtomicU32::new(0))).collect()
}

/// A system whose global table has two buckets.
fn system(seed: Option<u64>) -> System {
    let config = SystemConfig::new().cpus(2).global_slots(2);
    System::with_config(seed.map_or(config.clone(), |seed| config.hash_seed(seed))).expect("the memory is there")
}

fn domain(system: &System, slots: usize) -> Domain {
    Domain::with_options(system, DomainOptions::new().policy(Policy::Fixed(slots)))
}

/// Queues a waiter on each target.
fn queue_all<'w, 'd, T: Target<Value = u32>>(
    domain: &'d Domain,
    waiters: &'w mut [Boxed<'d>],
    targets: impl IntoIterator<Item = T>,
) -> Vec<Queued<'w, 'd>> {
    std::iter::zip(targets, waiters).map(|(target, waiter)| queue(domain, waiter, target)).collect()
}

/// The most words that have stood in one bucket with a word of `domain`, once `word` has been queued too.
fn chain_with(domain: &Domain, word: &AtomicU32) -> u64 {
    drop(waiter_on(domain, word));
    domain.counters().longest_chain
}

/// Strangers have hundreds of words in each bucket of their own table and of the global one.
fn words_of_a_domain_with_a_table_share_no_bucket_with_a_strangers() {
    let (system, object) = (system(Some(1)), ObjectId::new(7).expect("not 0"));
    let [crowded, global, shares] = [2, 0, 2].map(|slots| domain(&system, slots));
    let lines = lines(600);
    let words = || lines.iter().map(|line| &line.0);
    let shared = words().enumerate().map(|(i, word)| At::object(word, object, 64 * i as u64));
    let [mut of_crowded, mut of_global, mut of_shares] = [(); 3].map(|()| idle(600));
    let queued = [
        queue_all(&crowded, &mut of_crowded, words()),
        queue_all(&global, &mut of_global, words()),
        queue_all(&shares, &mut of_shares, shared),
    ];
    for slots in [2, 16, 256] {
        let own = domain(&system, slots);
        assert!(words().all(|word| chain_with(&own, word) == 1), "{slots} slots");
    }
    // A domain without a table shares a bucket with hundreds of their words, whichever bucket that is.
    assert!(chain_with(&domain(&system, 0), &lines[0].0) > 100);
    drop(queued);
}

/// The slots of a table in which words are to collide.
const SLOTS: usize = 64;
/// How many words are chosen.
const CHOSEN: usize = 32;

/// The longest chain of these words in the first domain of `system`.
fn chain(system: &System, words: &[&AtomicU32]) -> u64 {
    let domain = domain(system, SLOTS);
    let mut waiters = idle(words.len());
    let _queued = queue_all(&domain, &mut waiters, words.iter().copied());
    domain.counters().longest_chain
}

/// Words that share one bucket in the first domain of `system`: what a guest finds that can observe its own collisions.
fn chosen<'w>(system: &System, words: &'w [Line]) -> Vec<&'w AtomicU32> {
    let domain = domain(system, SLOTS);
    let (mut waiters, mut kept, mut chosen) = (idle(words.len()), Vec::new(), Vec::new());
    for (line, waiter) in std::iter::zip(words, &mut waiters) {
        let queued = queue(&domain, waiter, &line.0);
        if domain.counters().longest_chain == chosen.len() as u64 + 1 {
            kept.push(queued);
            chosen.push(&line.0);
        }
    }
    chosen.truncate(CHOSEN);
    chosen
}

/// Of `CHOSEN` words in as many buckets as there are, this many share one with a probability of 10^-18.
const BY_CHANCE: u64 = 16;

fn words_that_collide_under_one_seed_do_not_under_another() {
    let words = lines(100 * SLOTS);
    let chosen = chosen(&system(Some(1)), &words);
    assert_eq!((chosen.len(), chain(&system(Some(1)), &chosen)), (CHOSEN, CHOSEN as u64), "one seed, one hash");
    for seed in [0, 2, 3, 1 << 32, u64::MAX] {
        assert!(chain(&system(Some(seed)), &chosen) < BY_CHANCE, "seed {seed}");
    }
}

/// What one system reveals of its collisions says nothing of another's.
fn seeds_are_random_by_default() {
    let words = lines(100 * SLOTS);
    let chosen = chosen(&system(None), &words);
    assert_eq!(chosen.len(), CHOSEN);
    for _ in 0..3 {
        assert!(chain(&system(None), &chosen) < BY_CHANCE);
    }
}

on_domains![
    words_of_a_domain_with_a_table_share_no_bucket_with_a_strangers,
    words_that_collide_under_one_seed_do_not_under_another,
    seeds_are_random_by_default,
];
