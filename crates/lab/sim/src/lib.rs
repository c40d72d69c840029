//! `ufutex sim`: the engine on virtual cores. The model is in `ufutex-coherence`, the engine in `ufutex-sim`. This
//! package has the workloads and the output.

// Rows and settings only the lab uses. Their fields are named like the columns and flags.
#![expect(missing_docs)]
#![cfg_attr(not(test), deny(clippy::print_stderr))]

mod engine;
mod hammer;
pub mod published;
mod resize;
mod row;
mod runs;
pub mod schbench;
mod settings;
mod tables;
pub mod timers;
pub mod validate;
mod words;

use anyhow::Result;
use engine::Case;
use lab_measure::interrupt;
use row::{Pauses, ResizeFigures};
use runs::Output;

pub use row::Row;
pub use settings::{Scheme, Settings, Workload};

/// Runs all cases. Prints a row for each, or tables of all.
pub fn run(settings: &Settings) -> Result<()> {
    let workload: &str = settings.workload.into();
    let opening = runs::opening(workload, &settings.topology, &format!("seed {}", settings.seed));
    let output = Output { silent: settings.silent, json: settings.json };
    let run = |case: &Case| {
        let row = measure(settings, *case)?;
        Ok((serde_json::to_string(&row)?, row))
    };
    runs::print(workload, &opening, &cases(settings), output, run, |rows: Vec<Row>| tables::text(&rows))
}

/// The rows of all cases, for other output. After Ctrl-C, those that are complete.
pub fn rows(settings: &Settings) -> Result<Vec<Row>> {
    cases(settings).into_iter().take_while(|_| !interrupt::requested()).map(|case| measure(settings, case)).collect()
}

fn cases(settings: &Settings) -> Vec<Case> {
    let mut cases = Vec::new();
    for layout in &settings.layouts {
        for scheme in &settings.schemes {
            for policy in &settings.policies {
                let case = |cores: &usize| Case { scheme: *scheme, layout: *layout, policy: *policy, cores: *cores };
                cases.extend(settings.cores.iter().map(case));
            }
        }
    }
    cases
}

fn measure(settings: &Settings, case: Case) -> Result<Row> {
    match settings.workload {
        Workload::Hash | Workload::Wake => {
            let finding = hammer::find(settings, case)?;
            let mut row = Row::new(settings, case, finding.buckets, &finding.report);
            (row.runs, row.spread) = (Some(finding.runs), Some(finding.spread));
            Ok(row)
        }
        Workload::Resize => resize::find(settings, case).map(|finding| resized(settings, case, &finding)),
    }
}

fn resized(settings: &Settings, case: Case, finding: &resize::Finding) -> Row {
    let (from, to) = settings.resize;
    let buckets = if finding.completed { to } else { from };
    let mut row = Row::new(settings, case, buckets, &finding.report);
    let us = |ns: u64| ns as f64 / 1000.0;
    let rates: Vec<f64> = finding.pieces.iter().map(|count| *count as f64 * 1e9 / resize::PIECE_NS as f64).collect();
    let mean = |from_ns: u64, to_ns: u64| {
        let piece = |ns: u64| (ns / resize::PIECE_NS).min(rates.len() as u64) as usize;
        let part = &rates[piece(from_ns).min(piece(to_ns))..piece(to_ns)];
        if part.is_empty() { f64::NAN } else { part.iter().sum::<f64>() / part.len() as f64 }
    };
    let (begin, end) = (finding.began_ns, finding.began_ns + finding.resize_ns);
    // A resize shorter than a piece counts for the piece in which it began.
    let during = mean(begin, end.next_multiple_of(resize::PIECE_NS));
    let pause = |quantile| us(finding.pauses.value_at_quantile(quantile));
    row.resize = Some(ResizeFigures {
        from,
        to,
        resize_us: us(finding.resize_ns),
        completed: finding.completed,
        op_pause_us: Pauses { p50: pause(0.5), p99: pause(0.99), max: us(finding.pauses.max()) },
        ops_per_sec_before: mean(resize::PIECE_NS, begin),
        ops_per_sec_during: during,
        ops_per_sec_after: mean(end.next_multiple_of(resize::PIECE_NS), u64::MAX),
        began_us: us(begin),
        timeline_step_us: us(resize::PIECE_NS),
        timeline_ops_per_sec: rates,
    });
    row
}

/// Simulations need this allocator. The command has it too.
#[cfg(test)]
#[global_allocator]
static ALLOCATOR: ufutex_coherence::memory::Allocator = ufutex_coherence::memory::Allocator;
