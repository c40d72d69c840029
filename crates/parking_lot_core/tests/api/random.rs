//! Random programs of parks and unparks. After each step our line and the published one must have the same results.

use crate::lines::{Core, Filter, Op, Ours09, Ours010, Parked, Published09, Published010};
use crate::numbers::Random;
use crate::threads::{Parker, key, park};
use std::fmt::Write;

/// The threads of a program that are still parked, each with the number of the step that parked it.
struct Threads(Vec<(usize, Parker)>);

impl Threads {
    /// Waits until `count` threads have been unparked with `token`, and appends their numbers to the trace.
    fn note(&mut self, count: usize, token: usize, trace: &mut String) {
        let mut gone = Vec::new();
        while gone.len() < count {
            let before = gone.len();
            let at = self.0.iter().position(|(_, parked)| !parked.looks_parked());
            match at {
                Some(at) => {
                    let (number, parked) = self.0.remove(at);
                    assert_eq!(parked.ended(), Parked::Token(token));
                    gone.push(number);
                }
                None => std::thread::yield_now(),
            }
            debug_assert!(gone.len() >= before);
        }
        gone.sort_unstable();
        _ = write!(trace, " {gone:?};");
    }
}

/// Runs the program of `seed` and returns the trace of its results.
fn run<C: Core>(seed: u64) -> String {
    const STEPS: usize = 24;
    let mut random = Random::new(seed);
    let keys = [key(), key(), key()];
    let (mut threads, mut trace) = (Threads(Vec::new()), String::new());
    for step in 0..STEPS {
        let (one, two) = (random.below(3), random.below(3));
        match random.below(9) {
            0..=4 => threads.0.push((step, park::<C>(keys[one], step))),
            5 => {
                let it = C::unpark_one(keys[one], &mut |_| step).plain();
                _ = write!(trace, "one {one}: {it:?}");
                threads.note(it.unparked, step, &mut trace);
            }
            6 => {
                let count = C::unpark_all(keys[one], step);
                _ = write!(trace, "all {one}: {count}");
                threads.note(count, step, &mut trace);
            }
            7 => {
                let choice = random.below(27);
                let filter = |token| match choice / [1, 3, 9][token % 3] % 3 {
                    0 => Filter::Unpark,
                    1 => Filter::Skip,
                    _ => Filter::Stop,
                };
                let mut asked = Vec::new();
                let ask = &mut |token| {
                    asked.push(token);
                    filter(token)
                };
                let it = C::unpark_filter(keys[one], ask, &mut |_| step).plain();
                _ = write!(trace, "filter {one}: {asked:?} {it:?}");
                threads.note(it.unparked, step, &mut trace);
            }
            // Requeues to the same key are left out: the published crates do not define them.
            _ if one == two => {}
            _ => {
                let op = [Op::Abort, Op::UnparkOneRequeueRest, Op::RequeueAll, Op::UnparkOne, Op::RequeueOne]
                    [random.below(5)];
                let it = C::unpark_requeue(keys[one], keys[two], &mut || op, &mut |_, _| step).plain();
                _ = write!(trace, "{op:?} {one} {two}: {it:?}");
                threads.note(it.unparked, step, &mut trace);
            }
        }
    }
    for key in keys {
        let count = C::unpark_all(key, STEPS);
        threads.note(count, STEPS, &mut trace);
    }
    assert!(threads.0.is_empty(), "no thread is left");
    trace
}

const PROGRAMS: u64 = 150;

#[test]
fn line_0_9_answers_as_the_published_one() {
    for seed in 0..PROGRAMS {
        assert_eq!(run::<Ours09>(seed), run::<Published09>(seed), "seed {seed}");
    }
}

#[test]
fn line_0_10_answers_as_the_published_one() {
    for seed in 0..PROGRAMS {
        assert_eq!(run::<Ours010>(seed), run::<Published010>(seed), "seed {seed}");
    }
}
