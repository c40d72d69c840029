//! The messages whose comparisons are fitted, each with those of its comparisons that the model can say something of.

use super::super::figures::Figures;
use super::super::model::{Measure, Model};
use super::super::parameters::Parameters;
use super::super::published::{Comparison, comparisons};
use super::Settings;
use super::fit::{self, Point};
use crate::published::Source;
use anyhow::{Result, anyhow};
use lab_terminal::progress::Progress;
use strum::VariantArray;

/// A message and its comparisons.
pub struct Message {
    pub source: Source,
    pub comparisons: Vec<Comparison>,
}

/// A comparison of a message that was left out.
pub struct Row {
    pub source: Source,
    pub what: String,
    pub published: f64,
    /// The ratio with the parameters fitted to all other messages.
    pub left_out: f64,
    /// The ratio with the parameters fitted to all messages.
    pub fitted: f64,
    /// The ratio with the parameters of `sim validate`.
    pub chosen: f64,
}

/// Where the fit without a message ended, and the one to all of them (`None`).
pub type Fits = Vec<(Option<Source>, Point)>;

/// The most loops of a timer's creation and deletion. `sim validate` has up to forty times as many.
const LOOPS_MAX: usize = 100;

/// The wanted messages.
pub fn messages(settings: &Settings) -> Vec<Message> {
    let wanted = Source::VARIANTS.iter().copied().filter(|source| settings.wants(*source));
    let of = |source| Message {
        source,
        comparisons: comparisons().into_iter().filter_map(|one| used(source, one)).collect(),
    };
    wanted.map(of).collect()
}

/// The comparison if it is used.
fn used(source: Source, mut one: Comparison) -> Option<Comparison> {
    let is_used = one.source == source
        // Long lists of timers are beyond the model: its caches hold everything.
        && (source != Source::TimerHash
            || matches!(one.base.model, Model::Timers { measure: Measure::CreateDelete, .. }));
    for figure in [&mut one.base, &mut one.other] {
        if let Model::Timers { timers, .. } = &mut figure.model {
            *timers = (*timers).min(LOOPS_MAX);
        }
    }
    is_used.then_some(one)
}

impl Message {
    /// The published ratios.
    pub fn published(&self) -> Vec<f64> {
        self.comparisons.iter().map(Comparison::published).collect()
    }

    /// Models the ratios. `None` after Ctrl-C.
    pub fn modelled(&self, with: &Parameters) -> Result<Option<Vec<f64>>> {
        let models = self.comparisons.iter().flat_map(|one| [one.base.model, one.other.model]);
        let figures = Figures::of(with, models, || ()).map_err(|trouble| anyhow!(trouble))?;
        let ratio = |one: &Comparison| Some(figures.get(&one.other.model)? / figures.get(&one.base.model)?);
        Ok(self.comparisons.iter().map(ratio).collect())
    }

    /// The message's rows, by its ratios as predicted, as fitted, and with the chosen parameters.
    fn rows(&self, left_out: &[f64], fitted: &[f64], chosen: &[f64]) -> Vec<Row> {
        let row = |(number, one): (usize, &Comparison)| Row {
            source: self.source,
            what: one.what.clone(),
            published: one.published(),
            left_out: left_out[number],
            fitted: fitted[number],
            chosen: chosen[number],
        };
        self.comparisons.iter().enumerate().map(row).collect()
    }
}

/// Leaves out each message once. Returns the rows and the fits; after Ctrl-C those so far. `modelled` gives a message's
/// ratios.
pub fn leave_each_out(
    messages: &[Message],
    progress: &Progress,
    modelled: impl Fn(&Message, &Parameters) -> Result<Option<Vec<f64>>>,
) -> Result<(Vec<Row>, Fits)> {
    let mut known = Vec::new();
    for message in messages {
        let points = fit::points().map(|point| modelled(message, &fit::parameters(point)));
        let Some(modelled) = points.collect::<Result<Option<Vec<_>>>>()? else {
            return Ok(Default::default());
        };
        known.push(fit::Message { published: message.published(), modelled });
        progress.step();
        progress.remark(&format!("sim validate --cross: modelled {}", message.source));
    }
    let of_all = fit::fit(&known, None);
    let (mut rows, mut fits) = (Vec::new(), vec![(None, of_all)]);
    for (number, message) in messages.iter().enumerate() {
        let point = fit::fit(&known, Some(number));
        let wanted = [fit::parameters(point), fit::parameters(of_all), Parameters::CHOSEN];
        let ratios = wanted.iter().map(|with| modelled(message, with)).collect::<Result<Option<Vec<_>>>>()?;
        let Some([left_out, fitted, chosen]) = ratios.and_then(|ratios| <[_; 3]>::try_from(ratios).ok()) else {
            break;
        };
        fits.push((Some(message.source), point));
        rows.extend(message.rows(&left_out, &fitted, &chosen));
        progress.step();
        progress.remark(&format!("sim validate --cross: predicted {}", message.source));
    }
    Ok((rows, fits))
}

/// Number of steps of [`leave_each_out`].
pub fn steps(messages: &[Message]) -> usize {
    2 * messages.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Message> {
        messages(&Settings {
            only: Vec::new(),
            measures: false,
            cross: true,
            markdown: false,
            silent: true,
            json: true,
        })
    }

    /// A model in which each message depends on each parameter in its own way.
    fn model(message: &Message, with: &Parameters) -> Result<Option<Vec<f64>>> {
        let source = message.source as usize as f64;
        let ratio = (1.0 + source) * with.sibling + with.call_ns / 200.0 + with.hold_ns / (30.0 - source);
        Ok(Some(vec![ratio * with.instructions.sqrt(); message.comparisons.len()]))
    }

    fn left_out(messages: &[Message]) -> (Vec<Row>, Fits) {
        leave_each_out(messages, &Progress::start("", 1, true), model).expect("no run fails")
    }

    #[test]
    fn each_message_has_comparisons_whose_ratio_says_something() {
        for message in all() {
            assert!(message.comparisons.len() >= 2, "{}", message.source);
            let is_far = |ratio: &f64| (ratio - 1.0).abs() > 0.03;
            assert!(message.published().iter().any(is_far), "{}", message.source);
        }
    }

    #[test]
    fn a_messages_own_figures_do_not_change_what_the_others_say_of_it() {
        let (before, fits) = left_out(&all());
        assert_eq!(fits.len(), 1 + all().len());
        let mut others_changed = 0;
        for number in 0..all().len() {
            let mut perturbed = all();
            perturbed[number].comparisons.iter_mut().for_each(|one| one.other.published *= 5.0);
            let (after, fits_after) = left_out(&perturbed);
            let source = perturbed[number].source;
            for (row, was) in after.iter().zip(&before) {
                let is_its = row.source == source;
                let published = if is_its { 5.0 * was.published } else { was.published };
                assert!((row.published - published).abs() < 1e-9 * published);
                assert!(!is_its || row.left_out == was.left_out, "{source}: {}", row.what);
                assert_eq!(row.chosen, was.chosen);
            }
            others_changed += fits_after.iter().zip(&fits).filter(|(one, was)| one != was).count();
        }
        assert!(others_changed > 0, "no message has an effect on any fit");
    }
}
