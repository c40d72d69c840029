//! The rows of `neighbour`, and its table.

use super::{Found, Neighbour, Pair};
use crate::rows::SPARE;
use crate::workload::Workload;
use lab_measure::stats;
use lab_terminal::table;
use serde::Serialize;

/// An operation that takes longer is stuck.
const STUCK_NS: u64 = 1_000_000;

/// Percentiles of one operation's time.
#[derive(Clone, Copy, Serialize)]
struct Tail {
    p50: f64,
    p99: f64,
    p999: f64,
    max: f64,
}

impl Tail {
    fn of(found: &Found) -> Self {
        let at = |quantile| found.times.value_at_quantile(quantile) as f64;
        Self { p50: at(0.5), p99: at(0.99), p999: at(0.999), max: found.times.max() as f64 }
    }

    /// Calls `of` for each percentile.
    fn each(of: impl Fn(fn(&Self) -> f64) -> f64) -> Self {
        Self {
            p50: of(|tail| tail.p50),
            p99: of(|tail| tail.p99),
            p999: of(|tail| tail.p999),
            max: of(|tail| tail.max),
        }
    }
}

/// The value under attack divided by the value alone.
#[derive(Clone, Copy, Serialize)]
struct Ratio {
    #[serde(flatten)]
    tail: Tail,
    /// Ratio of the rates.
    rate: f64,
}

/// The share of all samples' time that the neighbour was stuck.
#[derive(Clone, Copy, Serialize)]
struct Stuck {
    alone: f64,
    attacked: f64,
}

/// One object of `--json`.
#[derive(Serialize)]
pub struct Row {
    workload: &'static str,
    attack: String,
    number: usize,
    cpu: String,
    operation: String,
    attackers: usize,
    repeat: usize,
    sample_s: f64,
    steps: u64,
    alone_ns: Tail,
    attacked_ns: Tail,
    stuck: Stuck,
    alone_per_sec: f64,
    attacked_per_sec: f64,
    ratio: Ratio,
}

impl Row {
    /// The row of a pair.
    pub(super) fn new(asked: &Neighbour, pair: &Pair) -> Self {
        // An interrupted round has only its first half, the sample alone.
        let rounds = pair.attacked.len();
        let tails = |found: &[Found]| found[..rounds].iter().map(Tail::of).collect::<Vec<_>>();
        let rates = |found: &[Found]| {
            found[..rounds].iter().map(|one| one.times.len() as f64 / one.elapsed.as_secs_f64()).collect::<Vec<_>>()
        };
        let (alone, attacked) = (tails(&pair.alone), tails(&pair.attacked));
        let (alone_rates, attacked_rates) = (rates(&pair.alone), rates(&pair.attacked));
        let of = |tails: &[Tail], figure: fn(&Tail) -> f64| tails.iter().map(figure).collect::<Vec<_>>();
        let median = |tails: &[Tail]| Tail {
            max: of(tails, |tail| tail.max).into_iter().fold(0.0, f64::max),
            ..Tail::each(|figure| stats::median(&of(tails, figure)))
        };
        // A lateness below a nanosecond counts as one, so that it can be divided by.
        let over = |these: &[f64], those: &[f64]| {
            stats::pairwise(these, those, |this, that| this.max(1.0) / that.max(1.0)).unwrap_or(f64::NAN)
        };
        Self {
            workload: Neighbour::NAME,
            attack: pair.attack.to_string(),
            number: pair.number,
            cpu: pair.cpu.to_string(),
            operation: pair.operation.to_string(),
            attackers: asked.attackers(),
            repeat: rounds,
            sample_s: asked.sample().as_secs_f64(),
            steps: pair.steps,
            alone_ns: median(&alone),
            attacked_ns: median(&attacked),
            stuck: Stuck { alone: stuck(&pair.alone[..rounds]), attacked: stuck(&pair.attacked) },
            alone_per_sec: stats::median(&alone_rates),
            attacked_per_sec: stats::median(&attacked_rates),
            ratio: Ratio {
                tail: Tail::each(|figure| over(&of(&attacked, figure), &of(&alone, figure))),
                rate: over(&attacked_rates, &alone_rates),
            },
        }
    }
}

/// The share of the samples' time that operations of more than [`STUCK_NS`] took, less the time for which the neighbour's
/// thread had no CPU because of others.
fn stuck(found: &[Found]) -> f64 {
    let one = |found: &Found| {
        let long = found.times.iter_recorded().filter(|time| time.value_iterated_to() > STUCK_NS);
        let ns: f64 = long.map(|time| time.value_iterated_to() as f64 * time.count_at_value() as f64).sum();
        (ns - found.ready.as_nanos() as f64).max(0.0)
    };
    found.iter().map(one).sum::<f64>() / found.iter().map(|one| one.elapsed.as_nanos() as f64).sum::<f64>()
}

/// The table.
pub fn text(rows: &[Row]) -> String {
    let header = ["attack", "number", "cpu", "operation"];
    let alone = ["alone p50, us", "p99", "p99.9", "max", "stuck, %"];
    let attacked = ["attacked p50, us", "p99", "p99.9", "max", "stuck, %"];
    let ratios = ["p50 / alone", "p99", "p99.9", "rate"];
    let cells = |row: &Row| {
        let mut cells = vec![row.attack.clone(), row.number.to_string(), row.cpu.clone(), row.operation.clone()];
        for (tail, stuck) in [(row.alone_ns, row.stuck.alone), (row.attacked_ns, row.stuck.attacked)] {
            cells.extend([tail.p50, tail.p99, tail.p999, tail.max].map(|ns| format!("{:.2}", ns / 1000.0)));
            cells.push(format!("{:.1}", 100.0 * stuck));
        }
        let Ratio { tail, rate } = row.ratio;
        cells.extend([tail.p50, tail.p99, tail.p999, rate].map(|ratio| table::ratio(Some(ratio))));
        cells
    };
    let header = [&header[..], &alone, &attacked, &ratios].concat();
    table::fitted(&header, 1, rows.iter().map(cells).collect(), &SPARE)
}
