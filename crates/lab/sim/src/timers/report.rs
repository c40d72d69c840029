//! `ufutex sim timers` on the command line: runs all cases and prints a table or rows.

use super::Settings;
use super::{Calls, Case, Times, run};
use crate::runs::{self, Output};
use anyhow::{Result, anyhow};
use lab_terminal::table;
use serde_json::json;
use ufutex_coherence::Report;

/// The most hot fields in a row.
const FIELDS_MAX: usize = 12;

/// Runs the requested cases and prints the results.
pub fn print(settings: &Settings) -> Result<()> {
    const HEADER: [&str; 8] =
        ["test", "design", "threads", "timers", "create, ns", "getoverrun", "create+delete", "HITM/op"];
    let opening = runs::opening("timers", &settings.topology, &format!("seed {}", settings.seed));
    let output = Output { silent: settings.silent, json: settings.json };
    let run = |case: &Case| {
        let (times, machine) = run(case).map_err(|trouble| anyhow!("{} on {}: {trouble}", case.test, case.design))?;
        Ok((row(case, times, &machine).to_string(), cells(case, times, &machine).to_vec()))
    };
    runs::print("timers", &opening, &cases(settings), output, run, |lines| table::text(&HEADER, 2, lines))
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
