//! A histogram of latencies with schbench's precision of eight bits.

use hdrhistogram::Histogram;

/// The longest time that is recorded exactly: 2^40 ns, some eighteen minutes. Longer ones count as this.
const LONGEST: u64 = 1 << 40;

/// Samples of times in nanoseconds, or of rates.
#[derive(Clone)]
pub struct Latencies {
    histogram: Histogram<u32>,
    /// The exact minimum, which the histogram would round. `None` if there are no samples.
    min: Option<u64>,
    max: u64,
}

impl Default for Latencies {
    fn default() -> Latencies {
        let histogram = Histogram::new_with_bounds(1, LONGEST, 2).expect("these bounds are valid");
        Latencies { histogram, min: None, max: 0 }
    }
}

impl Latencies {
    /// Adds a sample.
    pub fn record(&mut self, value: u64) {
        self.histogram.saturating_record(value);
        self.min = Some(self.min.map_or(value, |min| min.min(value)));
        self.max = self.max.max(value);
    }

    /// Adds all samples of `other`.
    pub fn add(&mut self, other: &Latencies) {
        self.histogram.add(&other.histogram).expect("all have the same bounds");
        self.min = self.min.into_iter().chain(other.min).min();
        self.max = self.max.max(other.max);
    }

    /// Number of samples.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The smallest sample. 0 if there are none.
    pub fn min(&self) -> u64 {
        self.min.unwrap_or(0)
    }

    /// The largest sample. 0 if there are none.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The value that `percent` of the samples do not exceed. 0 if there are none.
    pub fn percentile(&self, percent: f64) -> u64 {
        self.histogram.value_at_quantile(percent / 100.0).min(self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_have_eight_bits_and_the_ends_are_exact() {
        let mut all = Latencies::default();
        assert_eq!((all.min(), all.percentile(99.0), all.max(), all.count()), (0, 0, 0, 0));
        for value in 1001..=2000 {
            all.record(value);
        }
        let near = |percent: f64, value: f64| (all.percentile(percent) as f64 / value - 1.0).abs() < 0.01;
        assert!(near(50.0, 1500.0) && near(90.0, 1900.0) && near(99.0, 1990.0));
        assert_eq!((all.min(), all.max(), all.count()), (1001, 2000, 1000));
        assert!(all.percentile(100.0) <= 2000);
    }

    #[test]
    fn sums_hold_what_their_parts_held() {
        let (mut one, mut two) = (Latencies::default(), Latencies::default());
        one.record(7);
        two.record(3);
        one.add(&two);
        one.add(&Latencies::default());
        assert_eq!((one.min(), one.max(), one.count()), (3, 7, 2));
    }
}
