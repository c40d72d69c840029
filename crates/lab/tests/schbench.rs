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
fn tasks_run_on_ours_and_the_others_are_left_out_by_name() {
    let output = schbench(&small(&["-m", "2", "-t", "8", "--tasks", "--executors", "1", "--json"]));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let rows = rows_of(&text(&output.stdout));
    assert_eq!(rows.len(), 5);
    for row in &rows {
        assert_eq!((&row["tasks"], &row["executors"]), (&true.into(), &1.into()));
        assert_percentiles(row, "wakeup_us");
        assert_percentiles(row, "request_us");
    }
    let remarks = text(&output.stderr);
    assert!(remarks.contains("kernel left out") && remarks.contains("parking_lot left out"), "{remarks}");
}

#[test]
fn a_rate_is_kept_and_no_more() {
    let rows = rows(&["-r", "2", "-R", "200", "-n", "0", "-s", "0", "--targets", "live,kernel", "-m", "2", "-t", "2"]);
    for row in &rows {
        let rps = row["rps"].as_f64().unwrap_or(0.0);
        // The first second's requests come at once. A third batch may or may not fall into the run.
        assert!((50.0..=320.0).contains(&rps), "{row}");
        assert_eq!(row["rate"], 200);
    }
}

#[test]
fn the_rate_rises_until_the_machine_is_busy() {
    let rows = rows(&["-r", "3.5", "-A", "90", "-n", "1", "-F", "8", "-s", "0", "--targets", "live", "-t", "2"]);
    // The rate begins at ten requests a second and grows at most threefold at a time.
    let rate = rows[0]["rate"].as_u64().unwrap_or(0);
    assert!((1..=300).contains(&rate), "{}", rows[0]);
    assert!(rows[0]["requests"].as_u64() >= Some(10), "{}", rows[0]);
}

/// Requests that may be done but not yet recorded: each worker may have one. A second of work has far more.
const NOT_YET_TOLD: u64 = 10;

/// The requests that a run of 1.4 s has done, and how many of their latencies it reports.
fn completed_and_recorded(flags: &[&str]) -> (u64, u64) {
    let arguments = [&["-r", "1.4", "-n", "0", "-s", "100", "--targets", "live", "-t", "2"], flags].concat();
    let row = &rows(&arguments)[0];
    (row["requests"].as_u64().unwrap_or(0), row["request_us"]["samples"].as_u64().unwrap_or(0))
}

#[test]
fn latencies_of_the_warm_up_are_forgotten_and_its_requests_count() {
    let (done, told) = completed_and_recorded(&["-w", "1"]);
    assert!(0 < told && told + NOT_YET_TOLD < done, "{told} of {done}");
}

#[test]
fn with_z_latencies_are_forgotten_each_time_and_requests_count() {
    let (done, told) = completed_and_recorded(&["-z", "1"]);
    assert!(0 < told && told + NOT_YET_TOLD < done, "{told} of {done}");
}

#[test]
fn with_i_there_is_a_report_on_the_way() {
    let reports = |interval: &str| {
        let output = schbench(&["-r", "1.4", "-i", interval, "-n", "0", "-s", "100", "--targets", "live", "-t", "2"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stderr).matches("Wakeup Latencies percentiles").count()
    };
    assert_eq!((reports("1"), reports("5")), (1, 0));
}

#[test]
fn with_a_pipe_pages_are_written_in_place_of_requests() {
    let row = &rows(&["-r", "0.4", "-p", "4096", "--targets", "kernel", "-t", "2"])[0];
    assert_eq!(row["pipe_bytes"], 4096);
    assert!(row["mb_per_sec"].as_f64().is_some_and(|rate| rate > 0.0), "{row}");
    let output = schbench(&["-r", "0.4", "-p", "4096", "--targets", "live", "-t", "2"]);
    let printed = text(&output.stdout);
    assert!(printed.contains("avg worker transfer: ") && !printed.contains("Request Latencies"), "{printed}");
    assert!(printed.contains("\t  20.0th: "), "{printed}");
}

#[test]
fn calibration_leaves_the_sleep_out() {
    let calibrate = ["-r", "0.4", "-C", "-n", "0", "-s", "20000", "--targets", "live", "-t", "1"];
    let row = &rows(&calibrate)[0];
    assert!(row["request_us"]["p50"].as_f64() < Some(5000.0), "{row}");
    assert_eq!(row["locking"], false);
    let row = &rows(&["-r", "0.4", "-n", "0", "-s", "20000", "--targets", "live", "-t", "1"])[0];
    assert!(row["request_us"]["p50"].as_f64() >= Some(20_000.0), "{row}");
}

#[test]
fn pinned_threads_run_too_and_their_tables_are_as_large_as_asked_for() {
    for pinning in [["-M", "auto"], ["-W", "auto"], ["-P", "ccx"], ["-M", "0"]] {
        let rows =
            rows(&small(&[&pinning[..], &["-m", "2", "-t", "2", "-L", "-b", "64", "--targets", "live"]].concat()));
        assert_eq!((&rows[0]["locking"], &rows[0]["buckets"]), (&false.into(), &64.into()), "{pinning:?}");
        assert!(rows[0]["requests"].as_u64() > Some(0), "{pinning:?}: {}", rows[0]);
    }
}

#[test]
fn it_prints_in_schbenchs_words_and_writes_schbenchs_json() {
    let file = std::env::temp_dir().join(format!("schbench-{}.json", std::process::id()));
    let path = file.to_str().expect("UTF-8");
    let arguments =
        [&SMALL[..], &["-t", "2", "--targets", "live,kernel", "-J", "a job", "-j", path, "--silent"]].concat();
    let output = schbench(&arguments);
    assert!(output.status.success() && output.stderr.is_empty(), "{}", text(&output.stderr));
    let printed = text(&output.stdout);
    for words in [
        "Wakeup Latencies percentiles (usec) runtime 0 (s) (",
        "\t* 99.0th: ",
        "\t  99.9th: ",
        "\t  min=",
        "Request Latencies percentiles (usec)",
        "RPS percentiles (requests)",
        "\t* 50.0th: ",
        "average rps: ",
        "sched delay: message ",
        "| kernel ",
    ] {
        assert!(printed.contains(words), "{words:?} in {printed}");
    }
    let written = std::fs::read_to_string(&file).expect("the file");
    let _ = std::fs::remove_file(&file);
    let objects: Vec<Value> = written.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(objects.iter().map(|object| &object["normal"]["target"]).collect::<Vec<_>>(), ["live", "kernel"]);
    for object in &objects {
        assert_eq!(object["normal"]["jobname"], "a job");
        for key in ["time", "runtime", "wakeup_latency_pct99.9", "request_latency_pct50.0", "rps_max"] {
            assert!(object["int"][key].is_u64(), "{key} in {object}");
        }
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
        (&["-R", "0"], "'0'"),
        (&["-R", "1", "-m", "2"], "--rps '1'"),
        (&["-A", "101"], "101"),
        (&["-p", "1048577"], "1048577"),
        (&["-w", "9", "-r", "3"], "--warmuptime '9'"),
        (&["-i", "0"], "'0'"),
        (&["-z", "0"], "'0'"),
        (&["-P", "die"], "die"),
        (&["-b", "3"], "'3'"),
        (&["-j", "-", "--json"], "-j"),
        (&["--targets", "radix"], "radix"),
        (&["--executors", "2"], "--tasks"),
        (&["--stride", "4"], "--stride"),
        (&["hash"], "hash"),
    ];
    assert_mistakes(&["bench", "schbench"], cases);
}

#[test]
fn flags_before_its_name_are_its_own_and_its_help_names_them() {
    assert_mistakes(&["bench", "--json", "schbench"], &[(&["-m", "0"], "--message-threads '0'")]);
    let help = text(&schbench(&["--help"]).stdout);
    for flag in ["--message-threads", "--cache_footprint", "--sleep_usec", "--auto-rps", "--tasks", "wakeup_us"] {
        assert!(help.contains(flag), "{flag}");
    }
}
