//! The results of `ufutex sim` for the report. They are kept apart from measured results.

use anyhow::Result;
use lab_bench::survey::Effort;
use lab_measure::interrupt;
use lab_sim::{Row, Scheme, Settings, Workload, validate};
use lab_targets::{Layout, Policy};
use lab_terminal::progress::Progress;
use serde::Serialize;
use ufutex_coherence::Topology;

/// One run of `ufutex sim hash` for each of these cores, schemes and layouts.
struct Part {
    cores: &'static [usize],
    schemes: &'static [Scheme],
    layouts: &'static [Layout],
    buckets: usize,
    futexes: usize,
}

const SCHEMES: &[Scheme] = &[Scheme::Live, Scheme::Fixed, Scheme::Percpu, Scheme::Atomic];

/// Schemes on several numbers of cores, then layouts on all cores.
const RUNS: [Part; 2] = [
    Part { cores: &[1, 4, 16, 88], schemes: SCHEMES, layouts: &[Layout::Lean], buckets: 1024, futexes: 1024 },
    Part {
        cores: &[88],
        schemes: &[Scheme::Fixed],
        layouts: &[Layout::Packed, Layout::Split],
        buckets: 1024,
        futexes: 1024,
    },
];

/// The run of a quick report, whose figures need not be meaningful.
const QUICK: [Part; 1] =
    [Part { cores: &[1, 4], schemes: SCHEMES, layouts: &[Layout::Lean], buckets: 64, futexes: 64 }];

impl Part {
    fn settings(&self) -> Settings {
        Settings {
            workload: Workload::Hash,
            topology: Topology::given("epyc-9d64").expect("one of the given machines"),
            cores: self.cores.to_vec(),
            schemes: self.schemes.to_vec(),
            layouts: self.layouts.to_vec(),
            policies: vec![Policy::Fixed(self.buckets)],
            futexes: self.futexes,
            early_return: false,
            resize: (16, 1024),
            seed: 1,
            silent: true,
            json: false,
        }
    }
}

/// Results of the model.
#[derive(Default)]
pub struct Modelled {
    /// Throughput by cores.
    pub cores: Vec<Cores>,
    /// The published comparisons.
    pub published: Vec<Side>,
    /// What was left out, with the reasons.
    pub notes: Vec<String>,
}

/// One run of a scheme.
#[derive(Clone, Debug, Serialize)]
pub struct Cores {
    /// Always `sim hash`.
    pub workload: &'static str,
    /// The topology, whose latencies the model uses.
    pub topology: String,
    /// Name on the command line of `sim`.
    pub scheme: String,
    /// Name on the command line of `sim`.
    pub layout: String,
    /// Number of buckets of the table.
    pub buckets: usize,
    /// Number of virtual cores.
    pub cores: usize,
    /// Rate of all cores together, in operations per virtual second.
    pub ops_per_sec: f64,
    /// Lines that were found modified in another core's cache, for each operation.
    pub hitm_per_op: f64,
    /// The fields for which lines were fetched.
    pub hot: Vec<Hot>,
}

/// A field of the engine's memory that cores fetch from each other.
#[derive(Clone, Debug, Serialize)]
pub struct Hot {
    /// Type of the object: `Bucket`, ...
    pub object: String,
    /// Name in the source.
    pub field: String,
    /// Offset from the start of the object, in bytes.
    pub offset: usize,
    /// Size of the field in bytes. `None` if the model does not know it.
    pub bytes: Option<usize>,
    /// Transfers of modified lines for each operation.
    pub hitm: f64,
}

/// A published comparison on virtual cores.
#[derive(Clone, Debug, Serialize)]
pub struct Side {
    /// Always `sim validate`.
    pub workload: &'static str,
    /// The comparison's ID in `published`.
    pub case: String,
    /// Topology and number of cores.
    pub machine: String,
    /// Operations per virtual second before the change.
    pub before_per_sec: f64,
    /// Operations per virtual second after it.
    pub after_per_sec: f64,
}

impl Modelled {
    /// The model's row of a published comparison.
    pub fn seed(&self, id: &str) -> Option<&Side> {
        self.published.iter().find(|side| side.case == id)
    }
}

/// Runs the model case by case. After Ctrl-C it returns the results until then.
pub fn run(silent: bool, effort: Effort) -> Result<Modelled> {
    let runs: &[Part] = if effort.is_quick() { &QUICK } else { &RUNS };
    // The published comparisons take most of the time and cannot be shortened.
    let published = if effort.is_quick() { 0 } else { validate::steps() };
    let progress = Progress::start("the model: virtual cores", runs.len() + published, silent);
    let mut all = Modelled::default();
    for part in runs.iter().take_while(|_| !interrupt::requested()) {
        let rows = lab_sim::rows(&part.settings())?;
        all.cores.extend(rows.into_iter().map(cores));
        progress.step();
    }
    if published > 0 {
        all.published = validate::sides(|| progress.step())?.into_iter().map(side).collect();
    }
    all.notes.push(
        "Nothing in this part was measured. `ufutex sim` runs the same by hand, for other machines, sizes and layouts."
            .to_string(),
    );
    Ok(all)
}

fn side(side: validate::Side) -> Side {
    let (before_per_sec, after_per_sec) = side.rates;
    Side { workload: "sim validate", case: side.id, machine: side.machine, before_per_sec, after_per_sec }
}

fn cores(row: Row) -> Cores {
    let hot = row.hot.iter().map(|hot| Hot {
        object: hot.object.to_string(),
        field: hot.field.to_string(),
        offset: hot.offset,
        bytes: None,
        hitm: hot.hitm,
    });
    Cores {
        workload: "sim hash",
        hot: hot.filter(|hot| hot.hitm > 0.0).collect(),
        topology: row.topology,
        scheme: row.scheme,
        layout: row.layout,
        buckets: row.buckets,
        cores: row.cores,
        ops_per_sec: row.ops_per_sec,
        hitm_per_op: row.hitm_per_op,
    }
}

#[cfg(test)]
mod tests {
    use super::validate;
    use crate::page::published;
    use lab_sim::published::Source;

    #[test]
    fn the_model_knows_the_published_comparisons_by_their_names() {
        let named = published::comparisons();
        let unknown: Vec<_> = validate::ids().filter(|id| !named.iter().any(|one| one.id == id)).collect();
        assert_eq!(unknown, Vec::<String>::new());
        // For [percpu-refs] the model compares in the other direction.
        let without: Vec<_> = named.iter().filter(|one| !validate::ids().any(|id| id == one.id)).collect();
        assert!(without.iter().all(|one| one.source == Source::PercpuRefs) && without.len() == 2);
    }
}
