//! `ufutex sim validate`: published figures, figures of this machine, and modelled figures, in separate columns. Fails
//! if the model misses a published comparison.

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

/// The settings of `sim validate`.
pub struct Settings {
    /// The mails whose comparisons are wanted. Empty means all.
    pub only: Vec<Source>,
    pub measures: bool,
    pub silent: bool,
    pub json: bool,
}

impl Settings {
    /// Whether this mail's comparisons are wanted.
    pub fn wants(&self, source: Source) -> bool {
        self.only.is_empty() || self.only.contains(&source)
    }
}

/// The result of a comparison.
pub struct Finding {
    /// The published comparison.
    pub comparison: Comparison,
    /// Its ratio on this machine.
    pub here: Option<f64>,
    /// The modelled figures, base first.
    pub modelled: (f64, f64),
    /// Whether the model agrees with the published figures.
    pub verdict: Verdict,
}

impl Finding {
    /// The modelled ratio of the other figure to the base.
    pub fn ratio(&self) -> f64 {
        self.modelled.1 / self.modelled.0
    }
}

/// Runs the validation and prints it.
pub fn run(settings: &Settings) -> Result<()> {
    let comparisons: Vec<Comparison> =
        published::comparisons().into_iter().filter(|one| settings.wants(one.source)).collect();
    ensure!(!comparisons.is_empty(), "--only leaves no comparison; accepted: other sources, see --help");
    let all = comparisons.len();
    let stage = |what: &str, steps| {
        Progress::start(&format!("sim validate: {what} {all} comparisons"), steps, settings.silent || settings.json)
    };
    let progress = stage("modelling", figures::runs(models(&comparisons)).len());
    let figures = Figures::of(models(&comparisons), || progress.step()).map_err(|trouble| anyhow!(trouble))?;
    drop(progress);
    let progress = (settings.measures && !interrupt::requested()).then(|| stage("measuring", all));
    let (mut here, mut findings, mut measured) = (Here::default(), Vec::new(), 0);
    for comparison in comparisons {
        findings.extend(find(comparison, settings, &mut here, &figures));
        if !interrupt::requested() {
            progress.iter().for_each(Progress::step);
            measured += 1;
        }
    }
    let was_modelled = findings.len() == all;
    drop(progress);
    if was_modelled && settings.measures {
        interrupt::report_incomplete(measured, all, "measurements");
    } else {
        interrupt::report_incomplete(findings.len(), all, "comparisons");
    }
    conclude(&findings, settings, stdout::print)
}

/// Prints the findings. Fails if the model misses one.
fn conclude(findings: &[Finding], settings: &Settings, printed: impl Fn(&str) -> Result<()>) -> Result<()> {
    if !findings.is_empty() {
        printed(&print::text(findings, settings)?)?;
    }
    let missed = findings.iter().filter(|finding| finding.verdict.is_miss()).count();
    ensure!(missed == 0, "the model misses {missed} of {} published comparisons", findings.len());
    Ok(())
}

/// The modelled side of a comparison that the report shows.
pub struct Side {
    /// The report's name of the comparison.
    pub id: String,
    /// The modelled machine that stands for the published one.
    pub machine: String,
    /// Operations in a virtual second, before and after.
    pub rates: (f64, f64),
}

/// The modelled comparisons of the report. Calls `step` after each of [`steps`] runs. After Ctrl-C, those so far.
pub fn sides(step: impl Fn() + Sync) -> Result<Vec<Side>> {
    let named = named();
    let figures = Figures::of(models(&named), step).map_err(|trouble| anyhow!(trouble))?;
    let side = |Comparison { base, other, id, .. }: Comparison| {
        let rates = (figures.get(&base.model)?, figures.get(&other.model)?);
        Some(Side { id: id?, machine: base.model.machine(), rates })
    };
    Ok(named.into_iter().filter_map(side).collect())
}

/// Number of runs for [`sides`].
pub fn steps() -> usize {
    figures::runs(models(&named())).len()
}

fn named() -> Vec<Comparison> {
    published::comparisons().into_iter().filter(|one| one.id.is_some()).collect()
}

fn models(comparisons: &[Comparison]) -> impl Iterator<Item = Model> {
    comparisons.iter().flat_map(|one| [one.base.model, one.other.model])
}

/// The names of the comparisons that the report shows.
pub fn ids() -> impl Iterator<Item = String> {
    named().into_iter().filter_map(|one| one.id)
}

/// `None` if Ctrl-C came before the model had both figures.
fn find(comparison: Comparison, settings: &Settings, here: &mut Here, figures: &Figures) -> Option<Finding> {
    let (base, other) = (&comparison.base.model, &comparison.other.model);
    let modelled = (figures.get(base)?, figures.get(other)?);
    let here = if settings.measures && !interrupt::requested() { here.ratio(base, other) } else { None };
    let verdict = Verdict::of(&comparison, modelled.1 / modelled.0);
    Some(Finding { comparison, here, modelled, verdict })
}
