//! Axes: from values to coordinates, and the values that an axis names.

/// A logarithmic axis.
pub struct LogScale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl LogScale {
    /// Maps `low..high` to `from..to`. `low` and `high` are widened to steps of 1, 2 and 5.
    pub fn around(low: f64, high: f64, from: f64, to: f64) -> LogScale {
        let (low, high) = if low > 0.0 && high >= low { (low, high) } else { (1.0, 10.0) };
        let (low, high) = (step_below(low), step_above(high));
        let high = if high <= low { step_above(low * 1.5) } else { high };
        LogScale { low, high, from, to }
    }

    /// The coordinate of a value. Values outside are put at the ends.
    pub fn at(&self, value: f64) -> f64 {
        let share = (value.max(self.low) / self.low).ln() / (self.high / self.low).ln();
        self.from + share.min(1.0) * (self.to - self.from)
    }

    /// The named values: 1, 2 and 5 of each power of ten, or fewer if these are too many.
    pub fn ticks(&self) -> Vec<f64> {
        let decades = (self.high / self.low).log10();
        let digits: &[f64] = if decades > 3.2 { &[1.0] } else { &[1.0, 2.0, 5.0] };
        let (first, last) = (self.low.log10().floor() as i32, self.high.log10().ceil() as i32);
        let all = (first..=last).flat_map(|power| digits.iter().map(move |digit| digit * 10f64.powi(power)));
        all.filter(|tick| *tick >= self.low * 0.999 && *tick <= self.high * 1.001).collect()
    }
}

fn step_below(value: f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    [5.0, 2.0, 1.0].into_iter().map(|digit| digit * power).find(|step| *step <= value * 1.0001).unwrap_or(power)
}

fn step_above(value: f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    [1.0, 2.0, 5.0].into_iter().map(|digit| digit * power).find(|step| *step >= value * 0.9999).unwrap_or(10.0 * power)
}

/// The end of a linear axis from 0, and its two to five steps of 1, 2, 2.5 or 5.
pub fn linear(high: f64) -> (f64, Vec<f64>) {
    let high = if high > 0.0 { high } else { 1.0 };
    let power = 10f64.powf((high / 4.0).log10().floor());
    let steps = [1.0, 2.0, 2.5, 5.0, 10.0].map(|digit| digit * power);
    let step = steps.into_iter().find(|step| high / step <= 5.0).unwrap_or(10.0 * power);
    let count = (high / step).ceil();
    (count * step, (0..=count as usize).map(|number| number as f64 * step).collect())
}

/// A number with few digits: `0.02`, `5`, `2,000`, `1.5 M`.
pub fn short(value: f64) -> String {
    let trimmed = |text: String| {
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_string() } else { text }
    };
    match value.abs() {
        size if size >= 1e6 => format!("{} M", trimmed(format!("{:.2}", value / 1e6))),
        size if size >= 1000.0 => super::super::say::thousands(value),
        size if size >= 10.0 => trimmed(format!("{value:.1}")),
        size if size >= 0.01 || size == 0.0 => trimmed(format!("{value:.2}")),
        _ => trimmed(format!("{value:.4}")),
    }
}

/// Moves overlapping labels apart within `low..high`, each as little as possible.
pub fn apart(places: &[f64], least: f64, low: f64, high: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..places.len()).collect();
    order.sort_by(|a, b| places[*a].total_cmp(&places[*b]));
    let mut moved = places.to_vec();
    let mut floor = low;
    for number in &order {
        moved[*number] = moved[*number].max(floor);
        floor = moved[*number] + least;
    }
    let mut ceiling = high;
    for number in order.iter().rev() {
        moved[*number] = moved[*number].min(ceiling);
        ceiling = moved[*number] - least;
    }
    moved
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_logarithmic_axis_begins_and_ends_at_a_named_value() {
        let scale = LogScale::around(5.1, 743.0, 0.0, 100.0);
        assert_eq!(scale.ticks(), [5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0]);
        assert_eq!((scale.at(5.0), scale.at(1000.0), scale.at(0.0)), (0.0, 100.0, 0.0));
        let flat = LogScale::around(7.5, 7.5, 0.0, 100.0);
        assert!(flat.ticks().len() >= 2);
        assert!(LogScale::around(0.0, f64::NAN, 0.0, 1.0).at(3.0).is_finite());
    }

    #[test]
    fn a_linear_axis_has_few_round_steps() {
        assert_eq!(linear(87.0), (100.0, vec![0.0, 20.0, 40.0, 60.0, 80.0, 100.0]));
        assert_eq!(linear(0.0).1.first(), Some(&0.0));
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!([0.0, 0.02, 5.0, 11.25, 2000.0, 1.5e6].map(short), ["0", "0.02", "5", "11.2", "2,000", "1.5 M"]);
    }

    #[test]
    fn labels_move_apart_and_stay_inside() {
        let moved = apart(&[10.0, 11.0, 98.0, 99.0], 5.0, 0.0, 100.0);
        assert_eq!(moved, [10.0, 15.0, 95.0, 100.0]);
    }
}
