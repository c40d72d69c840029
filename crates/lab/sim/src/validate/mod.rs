//! `ufutex sim validate`: published figures, the same on this machine, and the same in the model, in three columns that
//! are never mixed. It fails where the model misses.

mod figures;
pub mod hash;
mod here;
mod kernel;
mod model;
mod print;
mod published;
#[cfg(test)]
mod tests;
mod verdict;

use crate::published::Source;
use anyhow::{Result, anyhow, ensure};
use lab_measure::interrupt;
use lab_terminal::progress::Progress;
use lab_terminal::stdout;
pub use model::{CALL_NS, SHARE_LOCKED, TIMER_CALLS};

use figures::Figures;
use here::Here;
use model::Model;
use published::Comparison;
use verdict::Verdict;

/// What `sim validate` was asked for.
pub struct Settings {
    /// The mails that were asked for. Empty: all.
    pub only: Vec<Source>,
    pub measures: bool,
    pub markdown: bool,
    pub silent: bool,
    pub json: bool,
}

impl Settings {
    /// Whether a mail is among those asked for.
    pub fn wants(&self, source: Source) -> bool {
        self.only.is_empty() || self.only.contains(&source)
    }
}

/// A comparison and what came of it.
pub struct Finding {
    /// As published.
    pub comparison: Comparison,
    /// Its ratio on this machine.
    pub here: Option<f64>,
    /// The modelled figures.
    pub modelled: (f64, f64),
    /// Whether they say what was published.
    pub verdict: Verdict,
}

impl Finding {
    /// How many times the base the other is, in the model.
    pub fn ratio(&self) -> f64 {
        self.modelled.1 / self.modelled.0
    }
}

/// Runs the validation and prints it.
pub fn run(settings: &Settings) -> Result<()> {
    let comparisons: Vec<Comparison> =
        published::comparisons().into_iter().filter(|one| settings.wants(one.source)).collect();
    ensure!(!comparisons.is_empty(), "no comparison is from the sources asked for");
    let all = comparisons.len();
    let stage = |what: &str, steps| {
        Progress::start(&format!("sim validate: {what} {all} comparisons"), steps, settings.silent || settings.json)
    };
    let progress = stage("modelling", figures::runs(models(&comparisons)).len());
    let figures = Figures::of(models(&comparisons), || progress.step()).map_err(|trouble| anyhow!(trouble))?;
    drop(progress);
    let progress = (settings.measures && !interrupt::asked()).then(|| stage("measuring", all));
    let (mut here, mut findings, mut measured) = (Here::default(), Vec::new(), 0);
    for comparison in comparisons {
        findings.extend(find(comparison, settings, &mut here, &figures));
        if !interrupt::asked() {
            progress.iter().for_each(Progress::step);
            measured += 1;
        }
    }
    let was_modelled = findings.len() == all;
    drop(progress);
    if was_modelled && settings.measures {
        interrupt::tell(measured, all, "measurements");
    } else {
        interrupt::tell(findings.len(), all, "comparisons");
    }
    conclude(&findings, settings, stdout::print)
}

/// Has them printed; fails by what the model misses.
fn conclude(findings: &[Finding], settings: &Settings, printed: impl Fn(&str) -> Result<()>) -> Result<()> {
    if !findings.is_empty() {
        printed(&print::text(findings, settings)?)?;
    }
    let missed = findings.iter().filter(|finding| finding.verdict.is_miss()).count();
    ensure!(missed == 0, "the model misses {missed} of {} published comparisons", findings.len());
    Ok(())
}

/// A comparison that the report names, in the model.
pub struct Side {
    /// The report's name for it.
    pub id: String,
    /// Which machine stands for the published one.
    pub machine: String,
    /// Before and after, a virtual second.
    pub rates: (f64, f64),
}

/// What the model says of those that the report names, with `step` after each of its [`steps`]; after Ctrl-C what there is.
pub fn sides(step: impl Fn() + Sync) -> Result<Vec<Side>> {
    let named = named();
    let figures = Figures::of(models(&named), step).map_err(|trouble| anyhow!(trouble))?;
    let side = |Comparison { base, other, id, .. }: Comparison| {
        let rates = (figures.get(&base.model)?, figures.get(&other.model)?);
        Some(Side { id: id?, machine: base.model.machine(), rates })
    };
    Ok(named.into_iter().filter_map(side).collect())
}

/// How many steps that takes.
pub fn steps() -> usize {
    figures::runs(models(&named())).len()
}

fn named() -> Vec<Comparison> {
    published::comparisons().into_iter().filter(|one| one.id.is_some()).collect()
}

fn models(comparisons: &[Comparison]) -> impl Iterator<Item = Model> {
    comparisons.iter().flat_map(|one| [one.base.model, one.other.model])
}

/// The names of those.
pub fn ids() -> impl Iterator<Item = String> {
    named().into_iter().filter_map(|one| one.id)
}

/// None where the model was interrupted before.
fn find(comparison: Comparison, settings: &Settings, here: &mut Here, figures: &Figures) -> Option<Finding> {
    let (base, other) = (&comparison.base.model, &comparison.other.model);
    let modelled = (figures.get(base)?, figures.get(other)?);
    let here = if settings.measures && !interrupt::asked() { here.ratio(base, other) } else { None };
    let verdict = Verdict::of(&comparison, modelled.1 / modelled.0);
    Some(Finding { comparison, here, modelled, verdict })
}
