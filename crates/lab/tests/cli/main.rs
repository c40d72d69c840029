//! The command from a user's view: exit statuses, error lines, rows of JSON, tables. No times are asserted.

#[path = "../common/mod.rs"]
mod common;
mod futexes;
mod locks;
mod mistakes;
mod timers;
mod wasm;

use common::{printed, rows_of, text, ufutex};
use serde_json::Value;

/// The rows of a benchmark.
#[track_caller]
fn rows(arguments: &[&str]) -> Vec<Value> {
    rows_of(&common::printed(&[&["bench"], arguments, &["--json"]].concat()))
}

fn assert_keys(row: &Value, keys: &[&str]) {
    for key in keys {
        assert!(row.get(key).is_some(), "{key} is missing in {row}");
    }
}

fn assert_numbers(row: &Value, object: &str, keys: &[&str]) {
    for key in keys {
        let number = row[object][key].as_f64();
        assert!(number.is_some_and(|number| number >= 0.0), "{object}.{key} in {row}");
    }
}

fn of<'a>(rows: &'a [Value], target: &str) -> Vec<&'a Value> {
    rows.iter().filter(|row| row["target"] == target).collect()
}

#[test]
fn help_and_version_go_to_stdout_with_exit_0() {
    for arguments in [&["--help"][..], &["--version"], &["bench", "--help"], &["bench", "-h"]] {
        let output = ufutex(arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        assert!(!output.stdout.is_empty() && output.stderr.is_empty(), "{arguments:?}");
    }
    let help = text(&ufutex(&["bench", "--help"]).stdout);
    for flag in ["--threads", "--futexes", "--buckets", "--runtime", "--shared", "--silent", "--targets", "--json"] {
        assert!(help.contains(flag), "{flag}");
    }
    assert!(!help.contains("growth-child") && !help.contains("timers-child"));
}

#[test]
fn a_table_goes_to_stdout_and_silence_empties_stderr() {
    let output = ufutex(&["bench", "hash", "-t", "1", "-r", "0.05", "--repeat", "1", "--silent"]);
    let (out, progress) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success() && progress.is_empty(), "{progress}");
    for target in ["live", "fixed", "atomic", "percpu", "global", "kernel", "parking_lot"] {
        assert!(out.lines().any(|line| line.contains(&format!("| {target} "))), "{target} in {out}");
    }
    assert!(!out.contains('\u{1b}'), "colours where no terminal is");
}

const ALL: [&str; 12] = [
    "hash",
    "wake",
    "resize",
    "growth",
    "ping-pong",
    "requeue",
    "wake-parallel",
    "lock-pi",
    "crowd",
    "wasm",
    "timers",
    "locks",
];

const BRIEFLY: [&str; 9] = ["-t", "2", "-f", "64", "-r", "0.05", "--repeat", "1", "--targets"];

#[test]
fn without_a_workload_all_but_locks_run_and_a_line_of_each_is_at_the_end() {
    let printed = printed(&[&["bench"], &BRIEFLY[..], &["live,kernel,parking_lot"]].concat());
    let (tables, summary) = printed.split_once("## summary").expect("a summary");
    let lines: Vec<&str> = summary.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    let names: Vec<&str> = lines.iter().filter_map(|line| line.split('|').nth(1)).map(str::trim).collect();
    assert_eq!(names, ALL[..10], "{summary}"); // timers has a line only with the target `ours`
    assert!(!summary.contains("NaN"), "{summary}");
    for name in &ALL[..11] {
        assert!(tables.contains(&format!("## {name}")), "{name}");
    }
    assert!(!printed.contains("## figures") && !tables.contains("## locks"), "{printed}");
}

#[test]
fn several_workloads_may_be_named() {
    let rows = rows(&["hash", "ping-pong", "-r", "0.05", "--repeat", "1", "--targets", "live"]);
    let names: std::collections::BTreeSet<_> = rows.iter().filter_map(|row| row["workload"].as_str()).collect();
    assert_eq!(names.into_iter().collect::<Vec<_>>(), ["hash", "ping-pong"]);
}

#[test]
fn for_developers_everything_runs_and_every_figure_is_judged() {
    let rows = rows(&[&["--figures"], &BRIEFLY[..], &["live,kernel,parking_lot"]].concat());
    for workload in ALL.into_iter().chain(["figures"]) {
        if workload == "locks" && !locks::has_locks() {
            continue;
        }
        assert!(rows.iter().any(|row| row["workload"] == workload), "{workload}");
    }
    assert!(rows.iter().any(|row| row["section"] == "sizes"));
    let figures: Vec<_> = rows.iter().filter(|row| row["workload"] == "figures").collect();
    let met = |name: &str| figures.iter().find(|row| row["figure"] == name).map(|row| &row["met"]);
    assert_eq!(met("memory before the first wait"), Some(&Value::Bool(true)));
    assert_eq!(met("hash 1T: live / parking_lot"), Some(&Value::Null), "one thread was not asked for");
    assert!(met("hash 2T: live / parking_lot").is_some_and(Value::is_boolean));
    let rival = met("wasm notify 2T: live / wasmtime").is_some_and(Value::is_boolean);
    assert_eq!(rival, cfg!(feature = "wasmtime"));
}
