//! Fits the parameters to all messages but one.
//!
//! Each parameter has three values. A message is modelled where all have the middle one, and where one of them has another.
//! The fit takes the effects of the parameters as independent of each other, in the logarithms of the ratios, and tries all
//! combinations. Predictions are modelled where the fit ended.
//!
//! How far a message is off is the mean of the squared logarithms of modelled by published ratios. What is minimised is
//! the mean of that over the messages, so that one with many figures counts as much as one with few.

use super::super::parameters::Parameters;

/// Number of parameters that are fitted.
pub const AXES: usize = 4;
/// Number of values of each.
const VALUES: usize = 3;
/// An index into each of [`GRID`]'s lists.
pub type Point = [usize; AXES];

/// The names of the parameters, as in [`Parameters`].
pub const NAMES: [&str; AXES] = ["instructions a cycle", "sibling", "hold, ns", "call, ns"];
/// The values that are tried. What lies beyond the ends is not plausible.
pub const GRID: [[f64; VALUES]; AXES] = [[0.8, 1.6, 3.2], [0.3, 0.6, 0.9], [0.0, 10.0, 20.0], [94.0, 187.0, 374.0]];
/// The middle of the grid.
const MIDDLE: Point = [1; AXES];

/// The values at a point.
pub fn values(point: Point) -> [f64; AXES] {
    std::array::from_fn(|axis| GRID[axis][point[axis]])
}

/// The parameters at a point. A call takes as long in [private-hash] as in all other messages.
pub fn parameters(point: Point) -> Parameters {
    let [instructions, sibling, hold_ns, call_ns] = values(point);
    let (call_ns_of_2016, global_hash_ns_of_2016) = (call_ns, 0.0);
    Parameters { instructions, sibling, hold_ns, call_ns, call_ns_of_2016, global_hash_ns_of_2016 }
}

/// The points at which a message is modelled for the fit, the middle first.
pub fn points() -> impl Iterator<Item = Point> {
    let beside = (0..AXES).flat_map(|axis| [0, VALUES - 1].map(|value| moved(MIDDLE, axis, value)));
    std::iter::once(MIDDLE).chain(beside)
}

fn moved(mut point: Point, axis: usize, value: usize) -> Point {
    point[axis] = value;
    point
}

/// A message's published ratios, and those modelled at each of [`points`].
pub struct Message {
    pub published: Vec<f64>,
    pub modelled: Vec<Vec<f64>>,
}

impl Message {
    /// The ratios at a point, by the effects of its parameters.
    fn at(&self, point: Point) -> Vec<f64> {
        let middle = &self.modelled[0];
        let of = |one: Point| points().position(|known| known == one).map(|number| &self.modelled[number]);
        let alone: Vec<&Vec<f64>> = (0..AXES).filter_map(|axis| of(moved(MIDDLE, axis, point[axis]))).collect();
        let ratio = |number: usize| {
            alone.iter().fold(middle[number], |ratio, modelled| ratio * modelled[number] / middle[number])
        };
        (0..middle.len()).map(ratio).collect()
    }
}

/// Fits the parameters to all messages but number `out`, of which nothing is read; to all messages if there is no such.
pub fn fit(messages: &[Message], out: Option<usize>) -> Point {
    let rest: Vec<&Message> =
        messages.iter().enumerate().filter(|(number, _)| Some(*number) != out).map(|(_, message)| message).collect();
    let loss = |point: Point| rest.iter().map(|message| off(&message.published, &message.at(point))).sum::<f64>();
    let all = (0..VALUES.pow(AXES as u32))
        .map(|number| std::array::from_fn(|axis| number / VALUES.pow(axis as u32) % VALUES));
    let best = all.map(|point| (loss(point), point)).min_by(|(one, _), (other, _)| one.total_cmp(other));
    best.expect("there are points").1
}

/// How far the modelled ratios of a message are from the published ones.
fn off(published: &[f64], modelled: &[f64]) -> f64 {
    let squares = published.iter().zip(modelled).map(|(published, modelled)| (modelled / published).ln().powi(2));
    squares.sum::<f64>() / published.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Message `number` is about the parameter of its number above all, and a little about the next one.
    fn model(number: usize, point: Point) -> Vec<f64> {
        let value = |axis: usize| 1.0 + point[axis % AXES] as f64;
        vec![value(number).powi(2) * value(number + 1).sqrt(), value(number)]
    }

    fn messages(published_at: Point) -> Vec<Message> {
        let message = |number| Message {
            published: model(number, published_at),
            modelled: points().map(|point| model(number, point)).collect(),
        };
        (0..AXES).map(message).collect()
    }

    #[test]
    fn the_fit_finds_the_point_that_the_figures_are_from() {
        for point in [[0, 2, 1, 0], [2, 2, 2, 2], [0, 0, 0, 0], [1, 0, 2, 1], MIDDLE] {
            assert_eq!(fit(&messages(point), None), point);
        }
    }

    #[test]
    fn the_message_that_is_left_out_does_not_enter_the_fit_and_the_others_do() {
        let point = [0, 2, 1, 0];
        for out in 0..AXES {
            let before = fit(&messages(point), Some(out));
            let mut counts = false;
            for factor in [0.01, 100.0] {
                let mut perturbed = messages(point);
                perturbed[out].published.iter_mut().for_each(|ratio| *ratio *= factor);
                assert_eq!(fit(&perturbed, Some(out)), before, "{out} times {factor}");
                perturbed[out].modelled.iter_mut().flatten().for_each(|ratio| *ratio = ratio.powi(3));
                assert_eq!(fit(&perturbed, Some(out)), before, "{out} modelled otherwise");
                let other = Some((out + 1) % AXES);
                counts |= fit(&perturbed, other) != fit(&messages(point), other);
            }
            assert!(counts, "{out} counts when another is out");
        }
    }

    #[test]
    fn a_message_with_many_figures_counts_as_one_with_few() {
        let one = off(&[2.0], &[1.0]);
        assert!((off(&[2.0, 2.0, 2.0], &[1.0, 4.0, 1.0]) - one).abs() < 1e-12);
        assert_eq!(off(&[2.0, 3.0], &[2.0, 3.0]), 0.0);
    }

    #[test]
    fn each_parameter_is_its_own() {
        let all: Vec<Point> = points().collect();
        assert_eq!(all.len(), 1 + AXES * (VALUES - 1));
        let middle = parameters(MIDDLE);
        assert_eq!((middle.call_ns_of_2016, middle.global_hash_ns_of_2016), (187.0, 0.0));
        assert!(all[1..].iter().all(|point| parameters(*point) != middle));
        assert_eq!(values([0, 1, 2, 0]), [0.8, 0.6, 20.0, 94.0]);
    }
}
