//! The account of a run: tables and a verdict, or one JSON object.

use crate::counts::Counts;
use crate::findings::Finding;
use crate::laws::Law;
use crate::memory::{HEAP_LEFT, resident_more};
use crate::settings::{Soak, seconds};
use crate::{Account, Memory, Outcome, Verdict};
use anyhow::Result;
use lab_terminal::{stdout, table};
use serde_json::{Map, Value, json};

/// Why the heap was not checked.
const NO_HEAP: &str = "the C library does not say how large it is, or the threads have not ended";

/// Prints it.
pub fn print(settings: &Soak, outcome: &Outcome) -> Result<()> {
    stdout::print(&if settings.json { object(settings, outcome).to_string() } else { text(settings, outcome) })
}

fn name(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Clean => "clean",
        Verdict::Interrupted => "interrupted",
        Verdict::Broken => "broken",
    }
}

fn text(settings: &Soak, outcome: &Outcome) -> String {
    let Soak { threads, futures, timers, seed, .. } = settings;
    let (time, summary) = (seconds(outcome.elapsed), &outcome.summary);
    let mut parts = vec![
        format!("## soak\n\n{time}, {threads} threads, {futures} futures, {timers} timers, --seed {seed}\n{summary}"),
        counts(&outcome.accounts),
        laws(&outcome.accounts),
        memory(&outcome.memory, *threads),
    ];
    parts.extend(outcome.findings.iter().map(finding));
    parts.push(sentence(outcome));
    parts.retain(|part| !part.is_empty());
    parts.join("\n\n")
}

fn counts(accounts: &[Account]) -> String {
    let worlds: Vec<&str> = accounts.iter().map(|account| account.world).collect();
    let cells = |(index, name): (usize, &&str)| {
        let counts = accounts.iter().map(|account| account.counts[index].to_string());
        [name.replace('_', " ")].into_iter().chain(counts).collect()
    };
    table::text(&[&["counted in world"], &worlds[..]].concat(), 1, Counts::NAMES.iter().enumerate().map(cells))
}

fn laws(accounts: &[Account]) -> String {
    if accounts.iter().all(|account| account.laws.is_empty()) {
        return String::new();
    }
    let all = accounts.iter().flat_map(|account| account.laws.iter().map(|law| (account.world, law)));
    let rows = all.map(|(world, law)| {
        let verdict = if law.holds() { "holds" } else { "BROKEN" };
        [law.name, world, &law.expected(), &law.found.to_string(), verdict].map(str::to_string).to_vec()
    });
    table::text(&["law", "world", "expected", "found", ""], 2, rows)
}

fn memory(memory: &Memory, threads: usize) -> String {
    let Memory { early, late, heap_before, heap_after, .. } = memory;
    let resident = early.map(|early| {
        format!(
            "Resident: {} KiB after a tenth of the run, {} KiB at the end; at most {} KiB more are allowed.",
            early >> 10,
            late >> 10,
            resident_more(threads) >> 10
        )
    });
    let heap = heap_before.zip(*heap_after).map(|(before, after)| {
        format!(
            "Heap: {} bytes at the beginning, {} when all is dropped; at most {} more are allowed.",
            before, after, HEAP_LEFT
        )
    });
    [resident, heap].into_iter().flatten().collect::<Vec<_>>().join("\n")
}

fn finding(finding: &Finding) -> String {
    let Finding { law, expected, found } = finding;
    format!("BROKEN: {law}\n  expected: {expected}\n  found: {found}")
}

fn sentence(outcome: &Outcome) -> String {
    let unchecked = unchecked(&outcome.memory);
    let memory = match unchecked.is_empty() {
        true => ", and memory is flat.".to_string(),
        false => format!(".\nNot checked: {}.", unchecked.join("; ")),
    };
    match outcome.verdict {
        Verdict::Clean => format!("Clean: every wake and every expiry is accounted for{memory}"),
        Verdict::Interrupted => {
            format!("Interrupted: every wake and every expiry until then is accounted for{memory}")
        }
        Verdict::Broken if outcome.broken == 1 => "Broken: 1 finding.".to_string(),
        Verdict::Broken if outcome.broken > outcome.findings.len() as u64 => {
            format!("Broken: {} findings, of which the first {} are above.", outcome.broken, outcome.findings.len())
        }
        Verdict::Broken => format!("Broken: {} findings.", outcome.broken),
    }
}

/// What of memory was not checked, and why.
fn unchecked(memory: &Memory) -> Vec<String> {
    let mut all = Vec::new();
    if memory.early.is_none() {
        all.push(format!("the resident set, because {}", memory.no_early));
    }
    if memory.heap_before.is_none() || memory.heap_after.is_none() {
        all.push(format!("the heap, because {NO_HEAP}"));
    }
    all
}

fn object(settings: &Soak, outcome: &Outcome) -> Value {
    let Memory { early, late, heap_before, heap_after, .. } = &outcome.memory;
    let worlds = outcome.accounts.iter().map(|account| {
        let counts: Map<String, Value> =
            Counts::NAMES.iter().zip(&account.counts).map(|(name, count)| (name.to_string(), json!(count))).collect();
        let laws = account.laws.iter().map(|law| {
            let Law { name, least, most, found, .. } = law;
            json!({ "law": name, "least": least, "most": most, "found": found, "holds": law.holds() })
        });
        json!({ "world": account.world, "counts": counts, "laws": laws.collect::<Vec<_>>() })
    });
    let findings =
        outcome.findings.iter().map(|one| json!({ "law": one.law, "expected": one.expected, "found": one.found }));
    json!({
        "workload": "soak",
        "verdict": name(outcome.verdict),
        "seconds": outcome.elapsed.as_secs_f64(),
        "threads": settings.threads,
        "futures": settings.futures,
        "timers": settings.timers,
        "seed": settings.seed,
        "worlds": worlds.collect::<Vec<_>>(),
        "memory": {
            "resident_after_a_tenth": early,
            "resident_at_the_end": late,
            "resident_more_allowed": resident_more(settings.threads),
            "heap_before": heap_before,
            "heap_after": heap_after,
            "heap_more_allowed": HEAP_LEFT,
            "unchecked": unchecked(&outcome.memory),
        },
        "findings": findings.collect::<Vec<_>>(),
        "broken": outcome.broken,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last(verdict: Verdict, memory: Memory) -> String {
        let (accounts, findings) = (Vec::new(), Vec::new());
        let (elapsed, summary) = (std::time::Duration::ZERO, String::new());
        sentence(&Outcome { verdict, elapsed, summary, accounts, memory, findings, broken: 0 })
    }

    #[test]
    fn memory_is_called_flat_only_if_all_of_it_was_checked() {
        let checked = || Memory {
            early: Some(1),
            no_early: "it is too soon",
            late: 1,
            heap_before: Some(1),
            heap_after: Some(1),
        };
        for verdict in [Verdict::Clean, Verdict::Interrupted] {
            assert!(last(verdict, checked()).ends_with("accounted for, and memory is flat."));
            let text = last(verdict, Memory { early: None, ..checked() });
            assert!(text.ends_with("accounted for.\nNot checked: the resident set, because it is too soon."), "{text}");
            for memory in [Memory { heap_before: None, ..checked() }, Memory { heap_after: None, ..checked() }] {
                let text = last(verdict, memory);
                assert!(
                    text.contains("Not checked: the heap, because the C library") && !text.contains("flat"),
                    "{text}"
                );
            }
        }
    }
}
