//! Decides which figures have changed by more than noise.

use super::measure::{self, Better, Kind, Measure};
use super::rows::{Identity, Matched, Row};
use serde::Serialize;
use serde_json::Value;

/// Fewer rounds give no p10 and p90 that can be trusted.
const ROUNDS_MIN: f64 = 5.0;
/// Standard error of a median, as a multiple of the distance to p10 or p90 over the root of the number of samples. For
/// normal samples that distance is 1.282 standard deviations, and the standard error 1.253 of them over the root.
const STANDARD_ERROR: f64 = 1.253 / 1.282;
/// Factor on the threshold of a figure without a spread …
const WITHOUT_SPREAD: f64 = 2.0;
/// … or with too few rounds …
const FEW_ROUNDS: f64 = 4.0;
/// … or of a 99th percentile.
const TAIL: f64 = 10.0;

/// The result of comparing a figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Worse, by more than noise.
    Regression,
    /// Better, by more than noise.
    Improvement,
    /// Within noise.
    Same,
}

/// One figure of a row in both files.
#[derive(Clone, Debug, Serialize)]
pub struct Change {
    /// The row.
    pub row: Identity,
    /// The figure's name.
    pub measure: String,
    /// Value in the old file.
    pub old: f64,
    /// Value in the new file.
    pub new: f64,
    /// `100 * (new - old) / old`. `None` if that is undefined.
    pub change_percent: Option<f64>,
    /// The change in percent above which this figure counts as changed.
    pub threshold_percent: f64,
    /// The result.
    pub verdict: Verdict,
}

/// The results of a comparison.
pub struct Findings {
    /// Every figure in both files.
    pub changes: Vec<Change>,
    /// Number of rows in both files.
    pub rows: usize,
    /// Rows in the old file only.
    pub gone: Vec<Identity>,
    /// Rows in the new file only.
    pub added: Vec<Identity>,
}

impl Findings {
    /// Whether any figure is worse.
    pub fn has_regression(&self) -> bool {
        self.with(Verdict::Regression).next().is_some()
    }

    /// The figures with this verdict.
    pub fn with(&self, verdict: Verdict) -> impl Iterator<Item = &Change> {
        self.changes.iter().filter(move |change| change.verdict == verdict)
    }
}

/// Compares every figure in both files. `threshold` is a share, not percent.
pub fn of(matched: &Matched<'_>, threshold: f64) -> Findings {
    let mut changes = Vec::new();
    for (identity, old, new) in &matched.pairs {
        let rounds = rounds(old).min(rounds(new));
        let measures = measure::all(new);
        // A rate beside a time of the same samples has no further information.
        let has_time = measures.iter().any(|measure| measure.name == "ns_per_op.median");
        for now in measures.iter().filter(|now| !(has_time && now.name == "ops_per_sec")) {
            let before = measure::all(old).into_iter().find(|before| before.name == now.name);
            changes.extend(before.map(|before| judge(identity, &before, now, threshold, rounds)));
        }
    }
    Findings { changes, rows: matched.pairs.len(), gone: matched.gone.clone(), added: matched.added.clone() }
}

fn rounds(row: &Row) -> f64 {
    row.get("repeat").and_then(Value::as_f64).unwrap_or(ROUNDS_MIN).max(1.0)
}

fn judge(row: &Identity, old: &Measure, new: &Measure, threshold: f64, rounds: f64) -> Change {
    let is_modelled = row.contains("topology ");
    let threshold = threshold
        * match new.kind {
            Kind::Exact => 1.0,
            _ if is_modelled => 1.0,
            Kind::Tail => TAIL,
            Kind::Median(_) if rounds < ROUNDS_MIN => FEW_ROUNDS,
            Kind::Median(Some(_)) => 1.0,
            Kind::Median(None) => WITHOUT_SPREAD,
        };
    let share = (old.value != 0.0).then(|| new.value / old.value - 1.0);
    // A change from 0 to any value is infinite.
    let is_larger = match share {
        Some(share) => exceeds(share, threshold),
        None => new.value != 0.0 && new.kind == Kind::Exact,
    };
    let verdict = match (is_larger && !overlap(old, new, rounds, threshold), new.value > old.value, new.better) {
        (false, ..) => Verdict::Same,
        (true, true, Better::Less) | (true, false, Better::More) => Verdict::Regression,
        (true, true, Better::More) | (true, false, Better::Less) => Verdict::Improvement,
    };
    Change {
        row: row.clone(),
        measure: new.name.clone(),
        old: old.value,
        new: new.value,
        change_percent: share.map(|share| 100.0 * share),
        threshold_percent: 100.0 * threshold,
        verdict,
    }
}

/// Compares the factor of the change, so that half as much counts like twice as much.
fn exceeds(share: f64, threshold: f64) -> bool {
    let factor = 1.0 + share;
    factor.max(1.0 / factor) > 1.0 + threshold
}

/// Whether the medians may be equal. They are known to within three standard errors, by the wider side of their
/// spreads. They also count as equal if the fast ends (p10 of a time) have not moved along: then other work slowed some
/// rounds.
fn overlap(old: &Measure, new: &Measure, rounds: f64, threshold: f64) -> bool {
    let error = |of: &Measure| match of.kind {
        Kind::Median(Some((below, above))) => 3.0 * of.value * below.max(above) * STANDARD_ERROR / rounds.sqrt(),
        _ => 0.0,
    };
    let quick = |of: &Measure| match (of.kind, of.better) {
        (Kind::Median(Some((below, _))), Better::Less) => of.value * (1.0 - below),
        (Kind::Median(Some((_, above))), Better::More) => of.value * (1.0 + above),
        _ => of.value,
    };
    let has_moved = quick(old) <= 0.0 || {
        let (ends, medians) = (quick(new) / quick(old) - 1.0, new.value - old.value);
        exceeds(ends, threshold) && ends.is_sign_positive() == medians.is_sign_positive()
    };
    !has_moved || (new.value - old.value).abs() <= error(old) + error(new)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(value: f64, band: Option<(f64, f64)>) -> Measure {
        Measure { name: "ns".into(), value, better: Better::Less, kind: Kind::Median(band) }
    }

    fn verdict(old: &Measure, new: &Measure, few: bool) -> Verdict {
        judge(&"hash".into(), old, new, 0.05, if few { 3.0 } else { 12.0 }).verdict
    }

    #[test]
    fn a_change_counts_only_outside_both_spreads_and_beyond_the_threshold() {
        let narrow = Some((0.01, 0.01));
        let wide = Some((0.3, 0.3));
        assert_eq!(verdict(&time(10.0, narrow), &time(12.0, narrow), false), Verdict::Regression);
        assert_eq!(verdict(&time(12.0, narrow), &time(10.0, narrow), false), Verdict::Improvement);
        assert_eq!(verdict(&time(10.0, narrow), &time(10.4, narrow), false), Verdict::Same, "below the threshold");
        assert_eq!(verdict(&time(10.0, wide), &time(12.0, narrow), false), Verdict::Same, "within the old spread");
        assert_eq!(verdict(&time(10.0, narrow), &time(12.0, wide), false), Verdict::Same, "within the new spread");
        let upwards = Some((0.15, 0.4));
        assert_eq!(verdict(&time(4.1, upwards), &time(6.3, upwards), false), Verdict::Same, "the spreads meet");
        assert_eq!(verdict(&time(4.1, upwards), &time(9.0, upwards), false), Verdict::Regression, "they do not");
        let disturbed = Some((0.0, 0.5));
        let of = |value| time(value, disturbed);
        let many = |old: &Measure, new: &Measure| judge(&"hash".into(), old, new, 0.05, 175.0).verdict;
        assert_eq!(many(&of(11.2), &of(14.6)), Verdict::Regression, "a median of many rounds is known well");
        assert_eq!(many(&of(11.2), &time(14.6, Some((0.23, 0.5)))), Verdict::Same, "the quick rounds are as quick");
    }

    #[test]
    fn without_a_spread_or_with_few_rounds_it_takes_more() {
        let narrow = Some((0.01, 0.01));
        assert_eq!(verdict(&time(10.0, None), &time(10.8, None), false), Verdict::Same);
        assert_eq!(verdict(&time(10.0, None), &time(11.2, None), false), Verdict::Regression);
        assert_eq!(verdict(&time(10.0, narrow), &time(11.8, narrow), true), Verdict::Same);
        assert_eq!(verdict(&time(10.0, narrow), &time(12.2, narrow), true), Verdict::Regression);
        assert_eq!(verdict(&time(10.0, narrow), &time(10.8, narrow), false), Verdict::Regression);
    }

    #[test]
    fn tails_take_ten_times_as_much_and_modelled_figures_no_more_than_the_threshold() {
        let tail = |value| Measure { name: "p99".into(), value, better: Better::Less, kind: Kind::Tail };
        assert_eq!(verdict(&tail(10.0), &tail(14.0), false), Verdict::Same);
        assert_eq!(verdict(&tail(10.0), &tail(16.0), false), Verdict::Regression);
        let modelled = judge(&"hash, topology turin".into(), &time(10.0, None), &time(10.8, None), 0.05, 12.0);
        assert_eq!(modelled.verdict, Verdict::Regression);
    }

    #[test]
    fn a_row_of_few_rounds_in_either_file_is_one_of_few() {
        let row = |median: f64, rounds: u32| {
            let spread = serde_json::json!({"p10": 0.99 * median, "median": median, "p90": 1.01 * median});
            let row = serde_json::json!({"workload": "hash", "repeat": rounds, "ns_per_op": spread});
            row.as_object().expect("an object").clone()
        };
        for (before, now, expected) in
            [(60, 60, Verdict::Regression), (3, 60, Verdict::Same), (60, 4, Verdict::Same), (5, 5, Verdict::Regression)]
        {
            let (old, new) = (row(10.0, before), row(10.8, now));
            let pairs = vec![("hash".to_string(), &old, &new)];
            let findings = of(&Matched { pairs, gone: Vec::new(), added: Vec::new() }, 0.05);
            let verdicts: Vec<_> = findings.changes.iter().map(|change| change.verdict).collect();
            assert_eq!(verdicts, [expected], "{before} and {now} rounds");
        }
    }

    #[test]
    fn rates_get_better_upwards_and_yes_becomes_no() {
        let rate = |value| Measure { name: "r".into(), value, better: Better::More, kind: Kind::Median(None) };
        assert_eq!(verdict(&rate(10.0), &rate(5.0), false), Verdict::Regression);
        assert_eq!(verdict(&rate(5.0), &rate(10.0), false), Verdict::Improvement);
        let done = |value| Measure { name: "completed".into(), value, better: Better::More, kind: Kind::Exact };
        assert_eq!(verdict(&done(1.0), &done(0.0), true), Verdict::Regression);
        assert_eq!(verdict(&done(0.0), &done(1.0), true), Verdict::Improvement);
    }
}
