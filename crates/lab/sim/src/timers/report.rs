//! `ufutex sim timers` on the command line: runs all cases and prints a table or rows.

use super::Settings;
use super::{Calls, Case, Times, run};
use anyhow::{Result, anyhow};
use lab_measure::interrupt;
use lab_terminal::progress::Progress;
use lab_terminal::{stdout, table};
use serde_json::json;
use ufutex_coherence::Report;

/// The most hot fields in a row.
const FIELDS_MAX: usize = 12;

/// Runs the requested cases and prints the results.
pub fn print(settings: &Settings) -> Result<()> {
    let cases = cases(settings);
    let stage = format!("sim timers: {} runs", cases.len());
    let progress = Progress::start(&stage, cases.len(), settings.silent || settings.json);
    let mut lines = Vec::new();
    let mut made = 0;
    for case in cases.iter().take_while(|_| !interrupt::requested()) {
        let (times, machine) = match run(case) {
            // The run was cut short. The rows before it are valid.
            Err(_) if interrupt::requested() => break,
            found => found.map_err(|trouble| anyhow!("{} on {}: {trouble}", case.test, case.design))?,
        };
        progress.step();
        made += 1;
        if settings.json {
            stdout::print(&row(case, times, &machine).to_string())?;
        }
        lines.push(cells(case, times, &machine).to_vec());
    }
    drop(progress);
    interrupt::report_incomplete(made, cases.len(), "runs");
    if settings.json || made == 0 {
        return Ok(());
    }
    let header = ["test", "design", "threads", "timers", "create, ns", "getoverrun", "create+delete", "HITM/op"];
    let topology = &settings.topology;
    stdout::print(&format!(
        "# ufutex sim timers: modelled, not measured; on {} ({}); seed {}\n\n{}",
        topology.name,
        topology.description,
        settings.seed,
        table::text(&header, 2, lines)
    ))
}

fn cases(settings: &Settings) -> Vec<Case> {
    let mut cases = Vec::new();
    for test in &settings.tests {
        for threads in &settings.cores {
            cases.extend(settings.designs.iter().map(|design| Case {
                topology: settings.topology.clone(),
                test: *test,
                design: *design,
                threads: *threads,
                apart: settings.processes,
                timers: settings.timers,
                calls: if settings.kernel { crate::validate::TIMER_CALLS } else { Calls::default() },
                seed: settings.seed,
            }));
        }
    }
    cases
}

fn who(case: &Case) -> String {
    format!("{} {}", case.threads, if case.apart { "processes" } else { "threads" })
}

fn cells(case: &Case, times: Times, machine: &Report) -> [String; 8] {
    let ns = |time: Option<f64>| time.map_or_else(String::new, |ns| format!("{ns:.0}"));
    [
        case.test.to_string(),
        case.design.to_string(),
        who(case),
        case.timers.to_string(),
        ns(times.create_ns),
        ns(times.getoverrun_ns),
        ns(times.create_delete_ns),
        format!("{:.2}", machine.per_operation(machine.counts.hitm)),
    ]
}

fn row(case: &Case, times: Times, machine: &Report) -> serde_json::Value {
    let hot: Vec<_> = machine
        .hot
        .iter()
        .take(FIELDS_MAX)
        .map(|hot| {
            let (place, hitm) = (&hot.place, machine.per_operation(hot.hitm()));
            json!({"object": place.object, "field": place.field, "offset": place.offset, "hitm": hitm})
        })
        .collect();
    json!({
        "workload": "timers",
        "test": case.test.text(),
        "design": case.design.text(),
        "topology": case.topology.name,
        "threads": if case.apart { 1 } else { case.threads },
        "processes": if case.apart { case.threads } else { 1 },
        "timers": case.timers,
        "seed": case.seed,
        "create_ns": times.create_ns,
        "getoverrun_ns": times.getoverrun_ns,
        "create_delete_ns": times.create_delete_ns,
        "hitm_per_op": machine.per_operation(machine.counts.hitm),
        "hot": hot,
    })
}
