//! The result of a run: a row of JSON, from which the tables are made.

use super::engine::Case;
use crate::settings::Settings;
use serde::Serialize;
use ufutex_coherence::Report;
use ufutex_coherence::functions;
use ufutex_coherence::statistics::Hot;

/// The most hot fields in a row.
const HOT_MAX: usize = 12;

/// One run, or several of the same case. All `_per_op` counts are averages.
#[derive(Serialize)]
pub struct Row {
    pub workload: String,
    pub scheme: String,
    pub layout: String,
    pub buckets: usize,
    pub policy: String,
    pub topology: String,
    pub cores: usize,
    pub futexes: usize,
    pub early_return: bool,
    pub seed: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runs: Option<u64>,
    pub ops_per_sec: f64,
    /// The relative standard error of `ops_per_sec`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spread: Option<f64>,
    /// Time of an operation in its thread.
    pub ns_per_op: f64,
    pub loads_per_op: f64,
    pub stores_per_op: f64,
    pub locked_per_op: f64,
    pub transfers_near_per_op: f64,
    pub transfers_far_per_op: f64,
    pub from_memory_per_op: f64,
    pub hitm_per_op: f64,
    pub hot: Vec<HotField>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub resize: Option<ResizeFigures>,
}

/// A field of an object and the transfers of its cache line. All figures are per operation.
#[derive(Serialize)]
pub struct HotField {
    pub object: &'static str,
    pub field: &'static str,
    pub offset: usize,
    pub hitm: f64,
    pub hitm_near: f64,
    pub hitm_far: f64,
    pub transfers: f64,
    pub waited_ns: f64,
    pub functions: Vec<Function>,
}

/// A function that requested the line.
#[derive(Serialize)]
pub struct Function {
    pub name: &'static str,
    pub file: &'static str,
    pub line: u32,
    /// Its share of the field's transfers.
    pub share: f64,
}

/// Figures that only `resize` has.
#[derive(Serialize)]
pub struct ResizeFigures {
    pub from: usize,
    pub to: usize,
    pub resize_us: f64,
    pub completed: bool,
    pub op_pause_us: Pauses,
    /// Throughput before the resize. The next two are during and after it.
    pub ops_per_sec_before: f64,
    pub ops_per_sec_during: f64,
    pub ops_per_sec_after: f64,
    /// When the resize began in the timeline.
    pub began_us: f64,
    pub timeline_step_us: f64,
    /// Operations of all cores in a second, for each piece of time.
    pub timeline_ops_per_sec: Vec<f64>,
}

/// Microseconds of the operations that overlap the resize.
#[derive(Serialize)]
pub struct Pauses {
    pub p50: f64,
    pub p99: f64,
    pub max: f64,
}

impl Row {
    /// Makes a row with the fields that all workloads have.
    pub fn new(settings: &Settings, case: Case, buckets: usize, report: &Report) -> Self {
        let by = |count| report.per_operation(count);
        let counts = &report.counts;
        let rate = report.per_second();
        Self {
            workload: settings.workload.to_string(),
            scheme: case.scheme.to_string(),
            layout: case.layout.to_string(),
            buckets,
            policy: case.policy.to_string(),
            topology: settings.topology.name.clone(),
            cores: case.cores,
            futexes: settings.futexes,
            early_return: settings.early_return,
            seed: settings.seed,
            runs: None,
            ops_per_sec: rate,
            spread: None,
            ns_per_op: case.cores as f64 * 1e9 / rate,
            loads_per_op: by(counts.loads),
            stores_per_op: by(counts.stores),
            locked_per_op: by(counts.locked),
            transfers_near_per_op: by(counts.near()),
            transfers_far_per_op: by(counts.far()),
            from_memory_per_op: by(counts.from_memory),
            hitm_per_op: by(counts.hitm),
            hot: report.hot.iter().take(HOT_MAX).map(|hot| HotField::new(hot, report)).collect(),
            resize: None,
        }
    }
}

impl HotField {
    fn new(hot: &Hot, report: &Report) -> Self {
        let by = |count| report.per_operation(count);
        Self {
            object: hot.place.object,
            field: hot.place.field,
            offset: hot.place.offset,
            hitm: by(hot.hitm()),
            hitm_near: by(hot.hitm_near),
            hitm_far: by(hot.hitm_far),
            transfers: by(hot.transfers),
            waited_ns: by(hot.waited_ns),
            functions: functions_of(hot),
        }
    }
}

/// The functions of a hot field. Sites in one function are added up.
fn functions_of(hot: &Hot) -> Vec<Function> {
    let table = ufutex_sim::source::FUNCTIONS;
    let mut found: Vec<Function> = Vec::new();
    for site in &hot.sites {
        let name = functions::at(table, site.file, site.line).unwrap_or("(workload)");
        let file = functions::path_of(table, site.file).unwrap_or("");
        let share = site.transfers as f64 / hot.transfers.max(1) as f64;
        match found.iter_mut().find(|known| (known.name, known.file) == (name, file)) {
            Some(known) => known.share += share,
            None => found.push(Function { name, file, line: site.line, share }),
        }
    }
    found.sort_by(|one, other| other.share.total_cmp(&one.share));
    found
}
