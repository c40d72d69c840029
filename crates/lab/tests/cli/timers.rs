//! `bench timers`.

use crate::common::{text, ufutex};
use crate::{assert_keys, of, rows};
use serde_json::Value;
use std::process::Command;

/// Asserts that a row has these results, and none of the other results that a timer row may have.
fn assert_timer_row(row: &Value, measured: &[&str]) {
    assert_eq!(row["workload"], "timers");
    assert_keys(row, &["test", "target", "timers", "threads", "processes", "repeat"]);
    let all =
        ["create_ns", "getoverrun_ns", "delete_ns", "settime_ns", "create_delete_ns", "bytes_per_timer", "table_bytes"];
    for key in all {
        let number = row[key].as_f64();
        assert_eq!(number.is_some_and(|number| number > 0.0), measured.contains(&key), "{key} in {row}");
        assert_eq!(row.get(key).is_some(), measured.contains(&key), "{key} in {row}");
    }
    for key in ["futexes", "buckets", "shared"] {
        assert!(row.get(key).is_none(), "{key} says nothing here: {row}");
    }
}

const TIMER_TABLES: [&str; 5] = ["ours", "global-lock", "precheck", "scaled", "radix"];

#[test]
fn timers_rows_have_what_their_test_measures_and_nothing_else() {
    let rows = rows(&["timers", "-n", "300", "-t", "1,2", "-p", "1,3", "--repeat", "2"]);
    let with = |test: &str| rows.iter().filter(|row| row["test"] == test).collect::<Vec<_>>();
    let created = with("create-getoverrun");
    assert_eq!(created.len(), 4 * 6, "six targets, and so many threads and processes");
    for row in &created {
        let times = ["create_ns", "getoverrun_ns", "delete_ns"];
        let bytes = ["bytes_per_timer", "table_bytes"];
        let seen = if row["target"] == "kernel" { &[][..] } else { &bytes };
        assert_timer_row(row, &[&times, seen].concat());
        assert_eq!((&row["timers"], &row["repeat"]), (&300.into(), &2.into()));
        assert!(row.get("sparse").is_none());
        assert!(row["bytes_per_timer"].as_f64().is_none_or(|bytes| bytes >= 64.0), "timers are counted: {row}");
    }
    let loops = with("create-delete");
    assert_eq!(loops.len(), 4 * 6);
    loops.iter().for_each(|row| assert_timer_row(row, &["create_delete_ns"]));
    let armed = with("settime");
    assert_eq!(armed.len(), 4 * 2, "the rivals are tables and arm nothing");
    armed.iter().for_each(|row| assert_timer_row(row, &["settime_ns"]));
    assert_eq!((of(&armed_rows(&rows), "ours").len(), of(&armed_rows(&rows), "kernel").len()), (4, 4));
    for row in &rows {
        let alone = row["threads"] == 1 && row["processes"] == 1;
        assert!(!alone || row.get("cpus_apart_ns").is_none(), "{row}");
    }
}

fn armed_rows(rows: &[Value]) -> Vec<Value> {
    rows.iter().filter(|row| row["test"] == "settime").cloned().collect()
}

#[test]
fn timers_that_expire_all_do_and_none_before_its_time() {
    let rows = rows(&["timers", "--tests", "expire", "-n", "500", "--repeat", "1"]);
    assert_eq!(rows.len(), 1, "ours alone: {rows:?}");
    let (row, late) = (&rows[0], &rows[0]["lateness_us"]);
    assert_timer_row(row, &[]);
    assert_eq!((&row["target"], &row["lost"]), (&"ours".into(), &0.into()));
    let [p50, p99, max] = ["p50", "p99", "max"].map(|key| late[key].as_f64().expect(key));
    assert!(0.0 < p50 && p50 <= p99 && p99 <= max, "{row}");
}

#[test]
fn timers_with_sparse_ids_show_what_the_tables_take() {
    let arguments = ["bench", "timers", "--sparse", "512", "-n", "2048", "--repeat", "1", "--json"];
    let output = ufutex(&arguments);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("kernel, sparse IDs left out"), "the note about the target left out");
    let rows: Vec<Value> = text(&output.stdout).lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let targets: Vec<_> = rows.iter().map(|row| row["target"].as_str().unwrap_or_default()).collect();
    assert_eq!(targets, TIMER_TABLES);
    assert!(rows.iter().all(|row| row["sparse"] == 512 && row["test"] == "create-getoverrun"));
    let table = |target| of(&rows, target)[0]["table_bytes"].as_u64().expect("bytes");
    assert!(table("radix") > 1 << 20, "[timer-hash]: more than a megabyte");
    assert_eq!(table("global-lock"), 512 * 8);
    assert!(table("scaled") >= 512 * 16 && (table("scaled") / 16).is_power_of_two());
}

#[test]
fn timers_take_only_the_tests_and_targets_that_are_asked_for() {
    let rows =
        rows(&["timers", "--targets", "radix,scaled", "--tests", "create-delete", "--timers", "50,70", "-r", "0.05"]);
    let cells: Vec<_> = rows.iter().map(|row| (row["target"].clone(), row["timers"].clone())).collect();
    let expected = [("radix", 50), ("scaled", 50), ("radix", 70), ("scaled", 70)];
    assert_eq!(cells, expected.map(|(target, timers)| (Value::from(target), Value::from(timers))));
    assert!(rows.iter().all(|row| row["test"] == "create-delete" && row["threads"] == 1 && row["processes"] == 1));
}

#[test]
fn timers_that_the_kernel_refuses_are_left_out_with_the_limit() {
    let arguments =
        "ulimit -i 200 2>/dev/null && exec \"$0\" bench timers -n 300 --repeat 1 --json --targets kernel,radix";
    let output = Command::new("bash").args(["-c", arguments, env!("CARGO_BIN_EXE_ufutex")]).output().expect("a shell");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let remarks = text(&output.stderr);
    assert!(remarks.contains("create-getoverrun 300 left out") && remarks.contains("200 pending signals"), "{remarks}");
    let rows: Vec<Value> = text(&output.stdout).lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    // Whether one timer at a time is allowed depends on the user's other pending signals.
    assert!(of(&rows, "kernel").iter().all(|row| row["test"] == "create-delete"), "{rows:?}");
    assert_eq!(of(&rows, "radix").len(), 2);
}

#[test]
fn timers_have_a_table_for_each_test() {
    let output = ufutex(&["bench", "timers", "-n", "100", "--repeat", "1", "--silent"]);
    let (out, progress) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success() && progress.is_empty(), "{progress}");
    for header in
        ["create, ns", "getoverrun, ns", "bytes/timer", "create and delete, ns", "settime, ns", "late p50, us"]
    {
        assert!(out.contains(header), "{header} in {out}");
    }
    for target in TIMER_TABLES.iter().chain(&["kernel"]) {
        assert!(out.lines().any(|line| line.starts_with(&format!("| {target} "))), "{target} in {out}");
    }
}
