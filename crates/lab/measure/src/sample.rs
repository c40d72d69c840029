//! Short samples, interleaved over all competitors: their number, length and order.

use crate::interrupt;
use anyhow::Result;
use lab_terminal::progress::Progress;
use std::time::{Duration, Instant};

/// Length of a sample: long enough for a million operations of ours, short enough that conditions stay the same.
const SAMPLE: Duration = Duration::from_millis(12);
/// A shorter sample is dominated by its start and end.
const SAMPLE_MIN: Duration = Duration::from_micros(200);
/// Time that a sample takes beyond its length, to wake the workers and collect results.
const SAMPLE_OVERHEAD: Duration = Duration::from_micros(400);
/// With fewer rounds p10 and p90 mean nothing.
const ROUNDS_MIN: usize = 5;

/// The number and length of a workload's samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// The rounds.
    pub rounds: Rounds,
    /// The length of one sample.
    pub sample: Duration,
}

impl Pace {
    /// If `repeat` is given, it is the number of rounds. If `-r` is given too, it decides the length of a sample.
    /// Otherwise the budget decides the number of rounds.
    pub fn new(budget: Duration, runtime_given: bool, repeat: Option<usize>, competitors: usize) -> Pace {
        let competitors = competitors.max(1) as u32;
        let length_for = |rounds: usize| (budget / (competitors * (rounds as u32 + 1))).max(SAMPLE_MIN);
        let (rounds, sample) = match repeat {
            Some(rounds) if runtime_given => (rounds, length_for(rounds)),
            Some(rounds) => (rounds, SAMPLE),
            None => {
                let round = (SAMPLE + SAMPLE_OVERHEAD) * competitors;
                let rounds = (budget.as_nanos() / round.as_nanos()) as usize;
                // One of the rounds is the warm-up.
                if rounds > ROUNDS_MIN {
                    (rounds - 1, SAMPLE)
                } else {
                    (ROUNDS_MIN, length_for(ROUNDS_MIN).min(SAMPLE))
                }
            }
        };
        let limit = repeat.is_none().then_some(budget);
        Pace { rounds: Rounds { count: rounds, warm_up: true, limit }, sample }
    }
}

/// How often each competitor is sampled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rounds {
    /// Rounds that count.
    pub count: usize,
    /// Whether a round that does not count precedes them.
    pub warm_up: bool,
    /// No round begins after this time, if there are enough for a median. A busy machine has fewer rounds.
    pub limit: Option<Duration>,
}

/// Takes one sample of each competitor in each round. After Ctrl-C, returns the samples that were taken, and of a competitor that
/// has none beside its warm-up, that.
pub fn rounds<T>(
    plan: Rounds,
    competitors: usize,
    progress: &Progress,
    sample: impl FnMut(usize) -> Result<T>,
) -> Result<Vec<Vec<T>>> {
    rounds_until(interrupt::requested, plan, competitors, progress, sample)
}

fn rounds_until<T>(
    is_interrupted: impl Fn() -> bool,
    plan: Rounds,
    competitors: usize,
    progress: &Progress,
    mut sample: impl FnMut(usize) -> Result<T>,
) -> Result<Vec<Vec<T>>> {
    if competitors == 0 {
        return Ok(Vec::new());
    }
    let start = Instant::now();
    let first = if plan.warm_up { 0 } else { 1 };
    let mut samples: Vec<Vec<T>> = (0..competitors).map(|_| Vec::with_capacity(plan.count)).collect();
    let mut warm_ups: Vec<Option<T>> = (0..competitors).map(|_| None).collect();
    'rounds: for round in first..=plan.count {
        if round > ROUNDS_MIN && plan.limit.is_some_and(|limit| start.elapsed() > limit) {
            break;
        }
        for competitor in order(round, competitors) {
            if is_interrupted() {
                break 'rounds;
            }
            let taken = sample(competitor)?;
            if round > 0 {
                samples[competitor].push(taken);
            } else {
                warm_ups[competitor] = Some(taken);
            }
        }
        if round > 0 {
            progress.step();
        }
    }
    for (samples, warm_up) in samples.iter_mut().zip(warm_ups) {
        if samples.is_empty() {
            samples.extend(warm_up);
        }
    }
    Ok(samples)
}

/// The order of the competitors in a round.
///
/// The first competitor rotates, and so does the stride to the next. So no competitor always follows the same one,
/// whose effects on caches, clock rate or tables it would inherit.
pub fn order(round: usize, competitors: usize) -> impl Iterator<Item = usize> {
    let strides: Vec<_> = (1..=competitors).filter(|stride| coprime(*stride, competitors)).collect();
    (0..competitors).map(move |turn| (round + turn * strides[round % strides.len()]) % competitors)
}

/// Whether steps of `stride` visit all `count` positions.
fn coprime(stride: usize, count: usize) -> bool {
    let (mut a, mut b) = (stride, count);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a == 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    fn plan(count: usize, warm_up: bool) -> Rounds {
        Rounds { count, warm_up, limit: None }
    }

    #[test]
    fn the_order_changes_from_round_to_round_and_the_warm_up_is_dropped() -> Result<()> {
        let mut order = Vec::new();
        let progress = Progress::start("", 0, true);
        let taken = rounds(plan(2, true), 3, &progress, |competitor| {
            order.push(competitor);
            Ok(order.len())
        })?;
        assert_eq!(order, [0, 1, 2, 1, 0, 2, 2, 0, 1]);
        assert_eq!(taken, [[5, 8], [4, 9], [6, 7]]);
        Ok(())
    }

    #[test]
    fn an_interrupt_in_the_first_round_keeps_its_samples() -> Result<()> {
        let until = |limit: usize| {
            let (progress, taken) = (Progress::start("", 0, true), Cell::new(0));
            rounds_until(
                || taken.get() == limit,
                plan(2, true),
                3,
                &progress,
                |_| {
                    taken.set(taken.get() + 1);
                    Ok(taken.get())
                },
            )
        };
        assert_eq!(until(0)?, [[0; 0]; 3]);
        assert_eq!(until(2)?, [vec![1], vec![2], vec![]]);
        assert_eq!(
            until(4)?,
            [vec![1], vec![4], vec![3]],
            "the second competitor is the first of the round that counts"
        );
        assert_eq!(until(6)?, [vec![5], vec![4], vec![6]]);
        Ok(())
    }

    #[test]
    fn each_round_has_each_competitor_once() -> Result<()> {
        for competitors in 1..20 {
            let progress = Progress::start("", 0, true);
            let taken = rounds(plan(3 * competitors, false), competitors, &progress, |_| Ok(()))?;
            assert!(taken.iter().all(|samples| samples.len() == 3 * competitors), "{competitors}");
        }
        Ok(())
    }

    #[test]
    fn no_round_begins_after_the_limit_once_there_are_enough() -> Result<()> {
        let progress = Progress::start("", 0, true);
        let hurried = Rounds { limit: Some(Duration::ZERO), ..plan(100, true) };
        let taken = rounds(hurried, 2, &progress, |_| Ok(()))?;
        assert_eq!(taken[1].len(), ROUNDS_MIN);
        Ok(())
    }

    #[test]
    fn a_budget_makes_rounds_and_repeat_makes_lengths() {
        let second = Duration::from_secs(1);
        let asked = Pace::new(second, false, Some(7), 10);
        assert_eq!((asked.rounds, asked.sample), (plan(7, true), SAMPLE));
        assert_eq!(Pace::new(second, true, Some(9), 10).sample, second / 100);
        assert_eq!(Pace::new(second, true, None, 1).sample, SAMPLE);
        let tight = Pace::new(second / 100, true, None, 10);
        assert_eq!((tight.rounds.count, tight.sample), (ROUNDS_MIN, SAMPLE_MIN));
        assert_eq!(tight.rounds.limit, Some(second / 100));
    }
}
