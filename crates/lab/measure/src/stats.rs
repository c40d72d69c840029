//! Percentiles and pairwise ratios of samples.

use serde::Serialize;

/// The distribution of one row's samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    /// A tenth of the samples are at most this.
    pub p10: f64,
    /// The median.
    pub median: f64,
    /// A tenth of the samples are at least this.
    pub p90: f64,
}

/// The slowest of many operations, in the unit of the samples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, serde::Deserialize)]
pub struct Tail {
    /// The median.
    pub p50: f64,
    /// One in a hundred is slower.
    pub p99: f64,
    /// The slowest.
    pub max: f64,
}

/// The value below which the share `q` of the samples lies, interpolated. NaN if there are no samples.
pub fn percentile(samples: &[f64], q: f64) -> f64 {
    if samples.is_empty() {
        return f64::NAN;
    }
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = q * (sorted.len() - 1) as f64;
    let (below, above) = (sorted[rank.floor() as usize], sorted[rank.ceil() as usize]);
    below + (above - below) * rank.fract()
}

/// The median of the samples. NaN if there are none.
pub fn median(samples: &[f64]) -> f64 {
    percentile(samples, 0.5)
}

impl Spread {
    /// Computes the distribution of one row's samples.
    pub fn of(samples: &[f64]) -> Spread {
        Spread { p10: percentile(samples, 0.1), median: median(samples), p90: percentile(samples, 0.9) }
    }
}

impl Tail {
    /// Computes the percentiles of one repeat's times.
    pub fn of(times: &[f64]) -> Tail {
        Tail { p50: median(times), p99: percentile(times, 0.99), max: percentile(times, 1.0) }
    }

    /// The median of each percentile over the repeats.
    pub fn median_of(repeats: &[Tail]) -> Tail {
        let middle = |figure: fn(&Tail) -> f64| median(&repeats.iter().map(figure).collect::<Vec<_>>());
        Tail { p50: middle(|tail| tail.p50), p99: middle(|tail| tail.p99), max: middle(|tail| tail.max) }
    }
}

/// Combines the samples of two rows round by round and returns the median. Drift from round to round cancels out.
pub fn pairwise(these: &[f64], those: &[f64], combine: impl Fn(f64, f64) -> f64) -> Option<f64> {
    let pairs: Vec<f64> = these.iter().zip(those).map(|(this, that)| combine(*this, *that)).collect();
    (!pairs.is_empty()).then(|| median(&pairs))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_interpolate_and_do_not_need_sorted_samples() {
        let samples = [30.0, 10.0, 20.0, 50.0, 40.0];
        assert_eq!(median(&samples), 30.0);
        assert_eq!(percentile(&samples, 0.0), 10.0);
        assert_eq!(percentile(&samples, 1.0), 50.0);
        assert!((percentile(&samples, 0.1) - 14.0).abs() < 1e-9);
        assert_eq!(median(&[1.0, 2.0]), 1.5);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn ratios_are_taken_in_a_round_before_the_median() {
        // The machine slows down fourfold halfway: the ratio of medians is wrong then, the median of ratios is right.
        let slow_one = [2.0, 2.0, 8.0, 8.0, 8.0];
        let quick_one = [1.0, 1.0, 4.0, 4.0, 4.0];
        assert_eq!(pairwise(&slow_one, &quick_one, |a, b| a / b), Some(2.0));
        assert_eq!(pairwise(&[3.0, 9.0, 4.0], &[1.0, 3.0, 4.0], |a, b| a / b), Some(3.0));
        assert_eq!(pairwise(&[], &quick_one, |a, b| a / b), None);
    }

    #[test]
    fn the_tail_over_repeats_is_the_median_of_each_figure() {
        let tail = |p50, p99, max| Tail { p50, p99, max };
        let repeats = [tail(1.0, 9.0, 10.0), tail(2.0, 3.0, 90.0), tail(3.0, 6.0, 20.0)];
        assert_eq!(Tail::median_of(&repeats), tail(2.0, 6.0, 20.0));
        assert_eq!(Tail::of(&[1.0, 2.0, 3.0]).max, 3.0);
    }
}
