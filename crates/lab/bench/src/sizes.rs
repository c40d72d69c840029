//! Compares `live` under its load policy, from a new table, with all fixed sizes: does the policy find the best one?

use crate::flags::Words;
use crate::hammer::Row;
use crate::rows;
use crate::workers::{Sample, Workers};
use crate::{Entrant, Lab, stage};
use anyhow::Result;
use lab_measure::series::Series;
use lab_targets::Policy;
use lab_targets::{Name, Operation, Shape};
use lab_terminal::table;

const SIZES: [usize; 6] = [16, 64, 256, 1024, 4096, 16384];
const BUDGET_S: f64 = 9.0;

/// Name of the section in the rows and in `Lab::series`.
const SECTION: &str = "sizes";

/// Measures all sizes, one sample of each in a round, with two threads if there are two CPUs.
pub fn run(lab: &mut Lab<'_>, words: &Words, notes: &mut Vec<String>) -> Result<Vec<Row>> {
    let threads = lab.cpus.len().min(2);
    let workers = Workers::new(lab, words, threads)?;
    let policies = SIZES.into_iter().map(Policy::Fixed).chain([Policy::Load]);
    let entrants = policies.map(|policy| cold(lab, &workers, policy, threads)).collect::<Result<Vec<_>>>()?;
    let pace = lab.pace(BUDGET_S, entrants.len());
    let rows = lab.measure(
        &stage("hash by size", &entrants),
        pace.rounds,
        &entrants,
        |_, one| workers.sample(&one.subject, threads, Operation::WaitDiffers, pace.sample),
        // Rates, and not times: the best size has the highest rate of all threads together.
        (|one| (SECTION.into(), one.policy.to_string().into(), threads), |sample: &Sample| sample.ops_per_sec),
        |lab, one, samples| Row {
            section: Some(SECTION),
            early_return: Some(false),
            share_of_best: share_of_best(&lab.series, &one.policy.to_string(), threads),
            ..Row::of_samples(one.head(lab, "hash", words.number.futexes, samples.len()), words, samples)
        },
    )?;
    notes.extend(workers.remark());
    Ok(rows)
}

fn cold(lab: &Lab<'_>, workers: &Workers, policy: Policy, threads: usize) -> Result<Entrant> {
    let shape = Shape::new(lab.settings.layout, policy);
    let subject = lab_targets::build(Name::Live, &shape)?;
    if policy == Policy::Load {
        workers.settle(&subject, threads)?;
    }
    workers.prime(&subject, threads)?;
    Ok(Entrant { name: Name::Live, threads, policy, subject })
}

/// The rate divided by that of the best fixed size: the median over the rounds.
///
/// The best size is the one with the best median. The best of each round would be the luckiest.
pub fn share_of_best(series: &Series, label: &str, threads: usize) -> Option<f64> {
    let sizes = SIZES.map(|size| size.to_string());
    let rate = |size: &String| series.median((SECTION, size, threads)).unwrap_or(0.0);
    let best = sizes.iter().max_by(|a, b| rate(a).total_cmp(&rate(b)))?;
    series.ratio((SECTION, label, threads), (SECTION, best, threads))
}

/// The table.
pub fn text(rows: &[Row]) -> String {
    rows::table(rows, 1, |row| {
        let mut cells = vec![("live with -b", policy(row).to_string()), rows::threads(&row.head)];
        cells.push(rows::buckets(&row.head));
        cells.extend(rows::spread("ns/op", &row.ns_per_op, 1));
        cells.extend([rows::mops(rate(row), 1), ("of the best -b", table::ratio(row.share_of_best))]);
        cells
    })
}

fn rate(row: &Row) -> f64 {
    row.ops_per_sec.unwrap_or(f64::NAN)
}

fn policy(row: &Row) -> &str {
    row.head.policy.as_deref().unwrap_or_default()
}
