//! Random sequences of waits, cancellations and wakes, compared with a simple model.

use std::sync::atomic::AtomicU32;

use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, Strategy, any, prop_oneof};
use proptest::test_runner::{TestCaseError, TestRunner};
use proptest::{prop_assert, prop_assert_eq};
use ufutex::{Queued, WaitOptions};

use crate::common::domains::{domain, on_domains};
use crate::common::waiters::{idle, nonzero, queue_with};

const WORDS: usize = 5;

#[derive(Clone, Debug)]
enum Step {
    /// Queues a new waiter.
    Queue {
        word: usize,
        priority: u8,
        bitset: u32,
    },
    /// Cancels a queued waiter: the one at index `which` modulo the number of queued waiters.
    Cancel {
        which: usize,
    },
    Wake {
        word: usize,
        count: usize,
        bitset: u32,
    },
    /// Moves all waiters to another table, if the scheme can resize.
    Resize {
        log2: u32,
    },
}

fn bitset() -> impl Strategy<Value = u32> {
    prop_oneof![4 => 1u32..8, 1 => proptest::strategy::Just(u32::MAX)]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let priority = prop_oneof![3 => proptest::strategy::Just(0u8), 2 => 1u8..4, 1 => 98u8..];
    let step = prop_oneof![
        8 => (0..WORDS, priority, bitset())
            .prop_map(|(word, priority, bitset)| Step::Queue { word, priority, bitset }),
        2 => any::<usize>().prop_map(|which| Step::Cancel { which }),
        3 => (0..WORDS, 0..5usize, bitset()).prop_map(|(word, count, bitset)| Step::Wake { word, count, bitset }),
        1 => (0..8u32).prop_map(|log2| Step::Resize { log2 }),
    ];
    vec(step, 1..80)
}

/// A waiter of the model. Waiters are numbered in the order of arrival.
#[derive(Clone, Copy)]
struct Waiting {
    number: usize,
    word: usize,
    priority: u8,
    bitset: u32,
}

/// All queued waiters, in the order of arrival.
#[derive(Default)]
struct Model(Vec<Waiting>);

impl Model {
    /// Removes the waiters that a wake takes, and returns their numbers.
    fn wake(&mut self, word: usize, count: usize, bitset: u32) -> Vec<usize> {
        let mut fitting: Vec<_> = self.0.iter().filter(|w| w.word == word && w.bitset & bitset != 0).copied().collect();
        // The sort is stable, so waiters of one priority stay in order of arrival. 99 is the highest priority.
        fitting.sort_by_key(|w| std::cmp::Reverse(w.priority.min(99)));
        let woken: Vec<_> = fitting.iter().take(count).map(|w| w.number).collect();
        self.0.retain(|w| !woken.contains(&w.number));
        woken
    }
}

/// Runs `steps` on a domain and on the model. Each wake must take the same waiters in the same order. To see the order,
/// the domain wakes them one at a time.
fn agrees(steps: &[Step]) -> Result<(), TestCaseError> {
    let domain = domain();
    // Several words lie in one cache line, and share a bucket in every table.
    let words: Vec<_> = (0..WORDS).map(|_| AtomicU32::new(0)).collect();
    let mut waiters = idle(steps.len());
    let mut free = waiters.iter_mut();
    let mut queued: Vec<Option<Queued<'_, '_>>> = Vec::new();
    let mut model = Model::default();
    for step in steps {
        match *step {
            Step::Queue { word, priority, bitset } => {
                let options = WaitOptions::new().realtime_priority(priority).bitset(nonzero(bitset));
                let waiter = free.next().expect("one for each step");
                model.0.push(Waiting { number: queued.len(), word, priority, bitset });
                queued.push(Some(queue_with(&domain, waiter, &words[word], options)));
            }
            Step::Cancel { which } if !model.0.is_empty() => {
                let gone = model.0.remove(which % model.0.len());
                let mut handle = queued[gone.number].take().expect("it waits");
                prop_assert!(handle.cancel(), "{} had been woken", gone.number);
            }
            Step::Cancel { .. } => {}
            Step::Wake { word, count, bitset } => {
                for number in model.wake(word, count, bitset) {
                    prop_assert_eq!(domain.wake_bitset(&words[word], 1, nonzero(bitset)), 1);
                    prop_assert!(queued[number].take().is_some_and(|mut q| !q.cancel()), "{} was not woken", number);
                }
            }
            Step::Resize { .. } if !crate::common::domains::can_resize() => {}
            Step::Resize { log2 } => prop_assert_eq!(domain.set_slots(if log2 == 0 { 0 } else { 1 << log2 }), Ok(())),
        }
    }
    all_that_are_left_wait(&domain, &words, model, &queued)
}

/// Checks that the waiters that the model still has are queued in the domain, and no others.
fn all_that_are_left_wait(
    domain: &ufutex::Domain,
    words: &[AtomicU32],
    mut model: Model,
    queued: &[Option<Queued<'_, '_>>],
) -> Result<(), TestCaseError> {
    prop_assert!(queued.iter().flatten().all(|q| !q.is_woken()));
    for (word, target) in words.iter().enumerate() {
        let left = model.wake(word, usize::MAX, u32::MAX);
        prop_assert_eq!(domain.wake(target, usize::MAX), left.len());
        prop_assert!(left.iter().all(|&number| queued[number].as_ref().is_some_and(Queued::is_woken)));
    }
    Ok(())
}

fn queue_agrees_with_the_model() {
    // A few cases by default. PROPTEST_CASES sets another number.
    let few = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { few.cases } else { 40 };
    let result = TestRunner::new(ProptestConfig { cases, ..few }).run(&steps(), |steps| agrees(&steps));
    if let Err(failure) = result {
        panic!("{failure}");
    }
}

on_domains![queue_agrees_with_the_model];
