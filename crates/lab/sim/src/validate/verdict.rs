//! Whether the model agrees with a published comparison.

use super::published::Comparison;

/// The largest accepted factor between the modelled and the published ratio.
pub const FACTOR: f64 = 1.5;
/// A published difference smaller than this is noise and has no direction.
pub const NOISE: f64 = 0.03;

/// The model's result for a comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// The direction agrees, and so does the size if it matters.
    Right,
    /// The direction agrees. The size matters and differs by more than [`FACTOR`].
    SizeMissed,
    /// The direction is the opposite.
    DirectionMissed,
    /// The published difference is noise, so it has no direction to miss.
    NoDirection,
}

impl Verdict {
    /// Compares the ratio of the modelled figures with the published one.
    pub fn of(comparison: &Comparison, modelled: f64) -> Verdict {
        let published = comparison.published();
        let has_direction = (published - 1.0).abs() > NOISE;
        if has_direction && (published > 1.0) != (modelled > 1.0) {
            return Verdict::DirectionMissed;
        }
        let off = (published / modelled).max(modelled / published);
        match (comparison.is_sized && off > FACTOR, has_direction) {
            (true, _) => Verdict::SizeMissed,
            (false, true) => Verdict::Right,
            (false, false) => Verdict::NoDirection,
        }
    }

    /// Whether the validation fails.
    pub fn is_miss(self) -> bool {
        matches!(self, Verdict::SizeMissed | Verdict::DirectionMissed)
    }

    /// The printed name.
    pub fn text(self) -> &'static str {
        match self {
            Verdict::Right => "right",
            Verdict::SizeMissed => "SIZE MISSED",
            Verdict::DirectionMissed => "DIRECTION MISSED",
            Verdict::NoDirection => "noise",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::published::Source;
    use crate::validate::hash::Case;
    use crate::validate::published::Figure;

    fn verdict(base: f64, other: f64, is_sized: bool, modelled: f64) -> Verdict {
        let figure = |published| Figure { published, model: Case::new("here", 1, 16).into() };
        let (base, other) = (figure(base), figure(other));
        Verdict::of(
            &Comparison { source: Source::TimerHash, what: String::new(), base, other, is_sized, note: "", id: None },
            modelled,
        )
    }

    #[test]
    fn a_size_counts_only_where_it_is_asked_for() {
        assert_eq!(verdict(100.0, 200.0, true, 2.9), Verdict::Right);
        assert_eq!(verdict(100.0, 200.0, true, 3.1), Verdict::SizeMissed);
        assert_eq!(verdict(100.0, 200.0, true, 1.3), Verdict::SizeMissed);
        assert_eq!(verdict(100.0, 200.0, false, 30.0), Verdict::Right);
        assert!(Verdict::SizeMissed.is_miss() && !Verdict::Right.is_miss());
    }

    #[test]
    fn a_direction_counts_unless_the_difference_is_noise() {
        assert_eq!(verdict(100.0, 90.0, false, 1.01), Verdict::DirectionMissed);
        assert_eq!(verdict(100.0, 110.0, true, 0.99), Verdict::DirectionMissed);
        assert_eq!(verdict(100.0, 102.0, false, 0.9), Verdict::NoDirection);
        assert_eq!(verdict(100.0, 102.0, true, 0.5), Verdict::SizeMissed);
        assert!(Verdict::DirectionMissed.is_miss() && !Verdict::NoDirection.is_miss());
    }
}
