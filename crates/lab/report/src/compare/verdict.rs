//! Which figures have changed beyond noise.

use super::measure::{self, Better, Kind, Measure};
use super::rows::{Identity, Matched, Row};
use serde::Serialize;
use serde_json::Value;

/// Fewer rounds make no p10 and p90.
const ROUNDS_MIN: f64 = 5.0;
/// Of a median, by the distance from it to p10 or p90: where samples are normal that distance is 1.28 standard deviations, and
/// the median's standard error 1.25 of them by the root of how many there are.
const STANDARD_ERROR: f64 = 1.253 / 1.282;
/// The threshold times this, where a figure has no spread …
const WITHOUT_SPREAD: f64 = 2.0;
/// … or one of rounds too few to be trusted …
const FEW_ROUNDS: f64 = 4.0;
/// … or is the slow end of many.
const TAIL: f64 = 10.0;

/// What became of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Beyond noise, the wrong way.
    Regression,
    /// Beyond noise, the right way.
    Improvement,
    /// Within noise.
    Same,
}

/// One figure in both files.
#[derive(Clone, Debug, Serialize)]
pub struct Change {
    /// What was measured.
    pub row: Identity,
    /// Which figure of it.
    pub measure: String,
    /// In the old file.
    pub old: f64,
    /// In the new file.
    pub new: f64,
    /// New less old, of old.
    pub change_percent: Option<f64>,
    /// What a change has to be for this figure.
    pub threshold_percent: f64,
    /// What became of it.
    pub verdict: Verdict,
}

/// All of it.
pub struct Findings {
    /// Every figure that both files have.
    pub changes: Vec<Change>,
    /// How many rows both have.
    pub rows: usize,
    /// Rows of the old file only.
    pub gone: Vec<Identity>,
    /// Rows of the new file only.
    pub added: Vec<Identity>,
}

impl Findings {
    /// Whether anything has become worse.
    pub fn has_regression(&self) -> bool {
        self.with(Verdict::Regression).next().is_some()
    }

    /// The figures with such a verdict.
    pub fn with(&self, verdict: Verdict) -> impl Iterator<Item = &Change> {
        self.changes.iter().filter(move |change| change.verdict == verdict)
    }
}

/// Judges every figure that both files have; `threshold` is a share.
pub fn of(matched: &Matched<'_>, threshold: f64) -> Findings {
    let mut changes = Vec::new();
    for (identity, old, new) in &matched.pairs {
        let rounds = rounds(old).min(rounds(new));
        let measures = measure::all(new);
        // A rate beside a time of the same samples says the same again.
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
    // From nothing to something is a change of any size.
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

/// As a factor, so that half as much counts like twice as much.
fn exceeds(share: f64, threshold: f64) -> bool {
    let factor = 1.0 + share;
    factor.max(1.0 / factor) > 1.0 + threshold
}

/// Whether the medians of so many rounds each may be the same: they are known to three standard errors, by the wider side of their
/// spreads. And where the quick ends have not moved along, something else took the time of slow rounds.
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
