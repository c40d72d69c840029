//! `ufutex sim seeds`: what the seeds publish, what this machine says of it, and what the model says, in three columns that are
//! never mixed. It fails where the model misses.

pub mod hash;
mod here;
mod kernel;
mod model;
mod print;
mod published;
#[cfg(test)]
mod tests;
mod verdict;

use crate::cli::sim_more::SeedsSettings;
use crate::interrupt;
use crate::progress::Progress;
use crate::report;
use anyhow::{Result, anyhow, ensure};
pub use model::{CALL_NS, SHARE_LOCKED, TIMER_CALLS};

use here::Here;
use model::Figures;
use published::Comparison;
use verdict::Verdict;

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
pub fn run(settings: &SeedsSettings) -> Result<()> {
    let comparisons: Vec<Comparison> =
        published::comparisons().into_iter().filter(|one| settings.wants(one.seed)).collect();
    ensure!(!comparisons.is_empty(), "no comparison of the seeds asked for");
    let stage = format!("sim seeds: {} comparisons", comparisons.len());
    let progress = Progress::start(&stage, comparisons.len(), settings.silent || settings.json);
    let all = comparisons.len();
    let (mut here, mut figures, mut findings) = (Here::default(), Figures::default(), Vec::new());
    for comparison in comparisons {
        if interrupt::asked() {
            break;
        }
        match find(comparison, settings, &mut here, &mut figures) {
            // In the middle of it: what there was until then stands.
            Err(_) if interrupt::asked() => break,
            finding => findings.push(finding?),
        }
        progress.step();
    }
    drop(progress);
    interrupt::tell(findings.len(), all, "comparisons");
    conclude(&findings, settings, report::print)
}

/// Has them printed; fails by what the model misses.
fn conclude(findings: &[Finding], settings: &SeedsSettings, printed: impl Fn(&str) -> Result<()>) -> Result<()> {
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

/// What the model says of those that the report names, each followed by `step`; after Ctrl-C what there is.
pub fn sides(mut step: impl FnMut()) -> Result<Vec<Side>> {
    let (mut figures, mut sides) = (Figures::default(), Vec::new());
    for Comparison { what, base, other, id, .. } in published::comparisons() {
        let Some(id) = id else { continue };
        let mut rate = |model| figures.get(model).map_err(|trouble| anyhow!("{what}: {trouble}"));
        match rate(&base.model).and_then(|before| Ok((before, rate(&other.model)?))) {
            Err(_) if interrupt::asked() => break,
            rates => sides.push(Side { id, machine: base.model.machine(), rates: rates? }),
        }
        step();
    }
    Ok(sides)
}

/// The names of those.
pub fn ids() -> impl Iterator<Item = String> {
    published::comparisons().into_iter().filter_map(|one| one.id)
}

fn find(comparison: Comparison, settings: &SeedsSettings, here: &mut Here, figures: &mut Figures) -> Result<Finding> {
    let mut modelled = |model| figures.get(model).map_err(|trouble| anyhow!("{}: {trouble}", comparison.what));
    let modelled = (modelled(&comparison.base.model)?, modelled(&comparison.other.model)?);
    let here = if settings.measures { here.ratio(&comparison.base.model, &comparison.other.model) } else { None };
    let verdict = Verdict::of(&comparison, modelled.1 / modelled.0);
    Ok(Finding { comparison, here, modelled, verdict })
}
