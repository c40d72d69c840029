//! The number of samples of each competitor: many for fast ones, and one for those that take seconds.

use super::{Competitor, Sample};
use crate::Lab;
use anyhow::Result;
use lab_measure::interrupt;
use lab_measure::sample;
use std::time::{Duration, Instant};

const BUDGET_S: f64 = 8.0;
/// More rounds make no better median.
const ROUNDS_MAX: usize = 101;
/// Rounds that a median needs at least …
const ROUNDS_MIN: usize = 5;
/// … for competitors whose sample is no longer than this. Slower ones may have fewer.
const FAST: Duration = Duration::from_millis(150);
/// The first sample of a competitor is a warm-up and is dropped: its memory is new, and each page of it costs a fault.
/// Only a competitor whose first sample takes longer than this may keep it, and then has no other. If this depended on
/// the budget, which noise uses up sooner, a fast competitor's warm-up might be compared with a rival's later samples.
const COUNTS: Duration = Duration::from_secs(3);

/// Takes samples round by round. A competitor with few samples has them in the first rounds, so the n-th samples of two
/// competitors are from the same round, except for a warm-up that was kept.
pub fn run(
    lab: &Lab<'_>,
    competitors: &[Competitor],
    mut sample: impl FnMut(&Competitor) -> Result<Sample>,
) -> Result<Vec<Vec<Sample>>> {
    let budget = lab.budget(BUDGET_S);
    let start = Instant::now();
    let progress = lab.progress(&format!("timers: {} rows, first samples", competitors.len()), competitors.len());
    let mut samples = Vec::new();
    let mut costs = Vec::new();
    for one in competitors {
        if interrupt::requested() {
            samples.push(Vec::new());
            continue;
        }
        let started = Instant::now();
        if one.case.is_long(one.name) {
            progress.remark(&format!("timers: {}, {}: long chains, this takes a while", one.name, one.case));
        }
        samples.push(vec![sample(one)?]);
        costs.push(started.elapsed());
        progress.step();
    }
    drop(progress);
    if interrupt::requested() {
        return Ok(samples);
    }
    // Slow competitors may have used up the budget. The fast ones still get enough for their median.
    let left = budget.saturating_sub(start.elapsed()).max(budget / 4);
    let limit = Instant::now() + left * 3 / 2;
    let rounds = rounds(&costs, left, lab.settings.repeat);
    for ((samples, rounds), cost) in samples.iter_mut().zip(&rounds).zip(&costs) {
        if samples[0].is_ok() && *rounds > 0 && !(*rounds == 1 && *cost > COUNTS) {
            samples.clear();
        }
    }
    let most = rounds.iter().copied().max().unwrap_or(0);
    let progress = lab.progress(&format!("timers: {most} rounds at most"), rounds.iter().sum());
    'rounds: for round in 1..=most {
        if round > ROUNDS_MIN && lab.settings.repeat.is_none() && Instant::now() > limit {
            break;
        }
        for number in sample::order(round, competitors.len()) {
            let has_failed = samples[number].first().is_some_and(Result::is_err);
            if interrupt::requested() {
                break 'rounds;
            }
            if round > rounds[number] || has_failed || samples[number].len() >= rounds[number] {
                continue;
            }
            let taken = sample(&competitors[number])?;
            samples[number].push(taken);
            progress.step();
        }
    }
    Ok(samples)
}

/// Rounds for each competitor, by the cost of one sample. With 0, and with 1 if the sample took longer than [`COUNTS`], the
/// first sample is the only one.
fn rounds(costs: &[Duration], budget: Duration, repeat: Option<usize>) -> Vec<usize> {
    if let Some(repeat) = repeat {
        return vec![repeat; costs.len()];
    }
    let share = budget.as_secs_f64() / costs.len() as f64;
    let fitting = |cost: &Duration| (share / cost.as_secs_f64().max(1e-6)) as usize;
    let least = |cost: &Duration| if *cost <= FAST { ROUNDS_MIN } else { usize::from(*cost <= COUNTS) };
    costs.iter().map(|cost| fitting(cost).clamp(least(cost), ROUNDS_MAX)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_competitors_get_fewer_rounds_and_repeat_decides_for_all() {
        let costs = [1, 50, 900, 9000].map(Duration::from_millis);
        assert_eq!(rounds(&costs, Duration::from_secs(1), None), [ROUNDS_MAX, 5, 1, 0]);
        assert_eq!(rounds(&costs, Duration::ZERO, None), [ROUNDS_MIN, ROUNDS_MIN, 1, 0]);
        assert_eq!(rounds(&costs, Duration::ZERO, Some(3)), [3, 3, 3, 3]);
    }
}
