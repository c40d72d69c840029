//! `bench schbench` from a user's view: schbench's flags and output, and rows. Asserts no times but the requested ones.

mod common;

use common::{assert_mistakes, printed, rows_of, text, ufutex};
use serde_json::Value;
use std::process::Output;

fn schbench(arguments: &[&str]) -> Output {
    ufutex(&[&["bench", "schbench"], arguments].concat())
}

#[track_caller]
fn rows(arguments: &[&str]) -> Vec<Value> {
    rows_of(&printed(&[&["bench", "schbench"], arguments, &["--json"]].concat()))
}

/// Small enough for a debug build.
const SMALL: [&str; 8] = ["-r", "0.4", "-n", "1", "-F", "8", "-s", "10"];

fn small(more: &[&'static str]) -> Vec<&'static str> {
    [&SMALL[..], more].concat()
}

fn assert_percentiles(row: &Value, key: &str) {
    let of = |name: &str| row[key][name].as_f64().unwrap_or_else(|| panic!("{key}.{name} in {row}"));
    let rising = ["min", "p50", "p90", "p99", "p999", "max"].map(of);
    assert!(rising.is_sorted(), "{key} in {row}");
    assert!(row[key]["samples"].as_u64().is_some_and(|samples| samples > 0), "{key} in {row}");
}

#[test]
fn rows_say_how_workers_were_woken_and_what_they_did_on_every_target() {
    let rows = rows(&small(&["-m", "2", "-t", "3"]));
    let targets: Vec<_> = rows.iter().map(|row| row["target"].as_str().unwrap_or_default()).collect();
    assert_eq!(targets, ["live", "fixed", "atomic", "percpu", "global", "kernel", "parking_lot"]);
    let kernel = rows.iter().find(|row| row["target"] == "kernel").expect("the kernel");
    for row in &rows {
        assert_eq!(
            (&row["workload"], &row["message_threads"], &row["workers"]),
            (&"schbench".into(), &2.into(), &3.into())
        );
        assert_eq!((&row["cache_footprint_kb"], &row["sleep_us"]), (&8.into(), &10.into()));
        assert_percentiles(row, "wakeup_us");
        assert_percentiles(row, "request_us");
        // A request sleeps for ten microseconds.
        assert!(row["request_us"]["min"].as_f64() >= Some(10.0), "{row}");
        let (rps, requests) = (row["rps"].as_f64().unwrap_or(0.0), row["requests"].as_f64().unwrap_or(0.0));
        // On a busy machine a run may take longer than requested, but never less.
        assert!(requests > 0.0 && rps > 0.0 && requests / rps >= 0.399, "{row}");
        let ratio = rps / kernel["rps"].as_f64().unwrap_or(0.0);
        assert!(row["ratio_kernel"].as_f64().is_some_and(|found| (found / ratio - 1.0).abs() < 1e-9), "{row}");
    }
}

#[test]
fn pinned_threads_run_too_and_their_tables_are_as_large_as_asked_for() {
    for pinning in [["-M", "auto"], ["-W", "auto"], ["-M", "0"]] {
        let rows =
            rows(&small(&[&pinning[..], &["-m", "2", "-t", "2", "-L", "-b", "64", "--targets", "live"]].concat()));
        assert_eq!((&rows[0]["locking"], &rows[0]["buckets"]), (&false.into(), &64.into()), "{pinning:?}");
        assert!(rows[0]["requests"].as_u64() > Some(0), "{pinning:?}: {}", rows[0]);
    }
}

#[test]
fn the_table_has_a_line_for_each_target() {
    let printed = text(&schbench(&small(&["-t", "2", "--targets", "live,kernel", "--silent"])).stdout);
    for words in ["| live ", "| kernel ", "wakeup p50, us", "request p50, us"] {
        assert!(printed.contains(words), "{words:?} in {printed}");
    }
}

#[test]
fn a_mistake_is_one_line_and_exits_2() {
    let cases: &[(&[&str], &str)] = &[
        (&["-m", "0"], "'0'"),
        (&["-t", "0"], "'0'"),
        (&["-t", "16384", "-m", "2"], "16384"),
        (&["-M", "some"], "some"),
        (&["-W", "1-0"], "1-0"),
        (&["-M", "1000"], "1000"),
        (&["-r", "0"], "'0'"),
        (&["-n", "-1"], "'-1'"),
        (&["-s", "x"], "'x'"),
        (&["-F", "x"], "'x'"),
        (&["-b", "3"], "'3'"),
        (&["--targets", "radix"], "radix"),
        (&["--stride", "4"], "--stride"),
        (&["hash"], "hash"),
    ];
    assert_mistakes(&["bench", "schbench"], cases);
}

#[test]
fn flags_before_its_name_are_its_own_and_its_help_names_them() {
    assert_mistakes(&["bench", "--json", "schbench"], &[(&["-m", "0"], "--message-threads '0'")]);
    let help = text(&schbench(&["--help"]).stdout);
    for flag in ["--message-threads", "--cache_footprint", "--sleep_usec", "wakeup_us"] {
        assert!(help.contains(flag), "{flag}");
    }
}
