//! All samples of a run, by what they measure. Ratios can be taken round by round.

use crate::stats;
use std::collections::HashMap;

/// Names one series: the section (a workload or a part of one), the row's label, and the number of threads or CPUs.
pub type Key<'a> = (&'a str, &'a str, usize);

/// The samples of each row, in the order of the rounds.
#[derive(Default)]
pub struct Series {
    samples: HashMap<(String, String, usize), Vec<f64>>,
}

impl Series {
    /// Stores the samples of one row.
    pub fn put(&mut self, (section, label, threads): Key<'_>, samples: Vec<f64>) {
        self.samples.insert((section.to_string(), label.to_string(), threads), samples);
    }

    /// The samples of one row. Empty if the row did not run.
    pub fn get(&self, (section, label, threads): Key<'_>) -> &[f64] {
        let key = (section.to_string(), label.to_string(), threads);
        self.samples.get(&key).map_or(&[], Vec::as_slice)
    }

    /// The median of `this / that` in the same round.
    pub fn ratio(&self, this: Key<'_>, that: Key<'_>) -> Option<f64> {
        stats::pairwise(self.get(this), self.get(that), |a, b| a / b)
    }

    /// The median of `this - that` in the same round.
    pub fn difference(&self, this: Key<'_>, that: Key<'_>) -> Option<f64> {
        stats::pairwise(self.get(this), self.get(that), |a, b| a - b)
    }

    /// The median. `None` if the row did not run.
    pub fn median(&self, key: Key<'_>) -> Option<f64> {
        let samples = self.get(key);
        (!samples.is_empty()).then(|| stats::median(samples))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_needs_both_rows() {
        let mut series = Series::default();
        series.put(("hash", "live", 1), vec![7.0, 8.0, 9.0]);
        series.put(("hash", "kernel", 1), vec![70.0, 160.0, 90.0]);
        assert_eq!(series.ratio(("hash", "kernel", 1), ("hash", "live", 1)), Some(10.0));
        assert_eq!(series.ratio(("hash", "kernel", 2), ("hash", "live", 1)), None);
        assert_eq!(series.median(("wake", "live", 1)), None);
    }
}
