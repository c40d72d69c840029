//! The program as its users see it: exit codes, one line for a mistake, rows of JSON, tables. No timing is asserted.

use serde_json::Value;
use std::process::{Command, Output};

fn ufutex(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ufutex")).args(arguments).output().expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// The rows of a run with `--json`: stdout must hold nothing else.
fn rows(arguments: &[&str]) -> Vec<Value> {
    let output = ufutex(&[&["bench"], arguments, &["--json"]].concat());
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    let rows = text(&output.stdout);
    rows.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"))).collect()
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
fn a_mistake_is_one_line_that_names_the_value_and_what_is_accepted_and_exits_2() {
    let cases: &[(&[&str], &str)] = &[
        (&[], "bench"),
        (&["bnch"], "bnch"),
        (&["bench", "hush"], "hush"),
        (&["bench", "hash", "wake"], "wake"),
        (&["bench", "--targets", "seL4"], "seL4"),
        (&["bench", "--targets", "live,"], "live,"),
        (&["bench", "--targets", ""], "''"),
        (&["bench", "-t", "0"], "'0'"),
        (&["bench", "-t", "-1"], "'-1'"),
        (&["bench", "-t", "1,,2"], "1,,2"),
        (&["bench", "-t", ""], "''"),
        (&["bench", "-t", "two"], "two"),
        (&["bench", "-t"], "--threads"),
        (&["bench", "-t", "99999999999999999999"], "99999999999999999999"),
        (&["bench", "-t", "1", "-t", "2"], "--threads"),
        (&["bench", "-b", "3"], "'3'"),
        (&["bench", "-b", "1"], "'1'"),
        (&["bench", "-b", "0"], "'0'"),
        (&["bench", "-b", "4294967296"], "4294967296"),
        (&["bench", "-f", "0"], "'0'"),
        (&["bench", "-f", "18446744073709551616"], "18446744073709551616"),
        (&["bench", "hash", "-t", "16384", "-f", "16777216"], "16777216"),
        (&["bench", "-r", "0"], "'0'"),
        (&["bench", "-r", "nan"], "nan"),
        (&["bench", "-r", "1e9"], "1e9"),
        (&["bench", "--repeat", "0"], "'0'"),
        (&["bench", "--stride", "6"], "'6'"),
        (&["bench", "--layout", "fat"], "fat"),
        (&["bench", "--policy", "fastest"], "fastest"),
        (&["bench", "--policy", "100"], "100"),
        (&["bench", "resize", "--to", "1000"], "1000"),
        (&["bench", "resize", "--from", "64", "--to", "64"], "64"),
        (&["bench", "resize", "-S"], "resize"),
        (&["bench", "ping-pong", "-t", "4"], "ping-pong"),
        (&["bench", "growth", "-f", "4"], "growth"),
        (&["bench", "requeue", "-q", "0"], "'0'"),
        (&["bench", "requeue", "-q", "x"], "'x'"),
        (&["bench", "requeue", "-q", "4", "-B"], "'4'"),
        (&["bench", "hash", "-B"], "--broadcast"),
        (&["bench", "hash", "-p"], "--pi"),
        (&["bench", "requeue", "-w", "2"], "--nwakers"),
        (&["bench", "wake-parallel", "-w", "0"], "'0'"),
        (&["bench", "wake-parallel", "-t", "10", "-w", "3"], "'3'"),
        (&["bench", "wake-parallel", "-w", "7"], "'7'"),
        (&["bench", "wake-parallel", "-M"], "--multi"),
        (&["bench", "lock-pi", "--hold", "-1"], "'-1'"),
        (&["bench", "crowd", "-n", "0"], "'0'"),
        (&["bench", "crowd", "-n", "100,"], "100,"),
        (&["bench", "crowd", "-n", "1000001"], "1000001"),
        (&["bench", "crowd", "-t", "2"], "crowd"),
        (&["bench", "crowd", "-S"], "crowd"),
        (&["bench", "wasm", "-B"], "--broadcast"),
        (&["bench", "wasm", "-n", "5"], "wasm"),
        (&["bench", "wasm", "--stride", "2"], "'2'"),
        (&["bench", "locks", "--writers", "0"], "'0'"),
        (&["bench", "locks", "--locks", "65537"], "65537"),
        (&["bench", "locks", "--work-per-critical-section", "-1"], "'-1'"),
        (&["bench", "locks", "--line", "0.11"], "0.11"),
        (&["bench", "hash", "--readers", "2"], "--readers"),
        (&["bench", "hash", "--line", "0.12"], "--line"),
        (&["bench", "locks", "-b", "16"], "--buckets"),
        (&["bench", "hash", "--targets", "live,radix"], "radix"),
        (&["bench", "timers", "--targets", "ours,live"], "live"),
        (&["bench", "timers", "--targets", "xarray"], "xarray"),
        (&["bench", "timers", "--tests", "create"], "create"),
        (&["bench", "timers", "--tests", ""], "''"),
        (&["bench", "timers", "-n", "0"], "'0'"),
        (&["bench", "timers", "-n", "1000001"], "1000001"),
        (&["bench", "timers", "-n", "1000000", "-t", "17"], "17000000"),
        (&["bench", "timers", "-p", "0"], "--processes '0'"),
        (&["bench", "-p", "timers"], "--pi"),
        (&["bench", "timers", "-p", "1,-1"], "1,-1"),
        (&["bench", "timers", "-p", "-1"], "'-1'"),
        (&["bench", "timers", "-p"], "--processes"),
        (&["bench", "timers", "--pi"], "--pi"),
        (&["bench", "timers", "--processes", "1025"], "1025"),
        (&["bench", "requeue", "-p", "4"], "--processes"),
        (&["bench", "timers", "--sparse", "0"], "'0'"),
        (&["bench", "timers", "--sparse", "16777216", "-n", "1000"], "16777216"),
        (&["bench", "timers", "--sparse", "8", "--tests", "create-delete"], "create-delete"),
        (&["bench", "crowd", "--sparse", "8"], "--sparse"),
        (&["bench", "crowd", "--tests", "settime"], "--tests"),
        (&["bench", "timers", "-b", "16"], "--buckets"),
        (&["bench", "timers", "-S"], "--shared"),
        (&["bench", "timers", "-f", "16"], "--futexes"),
        (&["bench", "--frobnicate"], "--frobnicate"),
        (&["bench", "--json=yes"], "yes"),
        (&["bench", "two\nlines"], "two\\nlines"),
    ];
    for (arguments, names) in cases {
        let output = ufutex(arguments);
        let line = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {line}");
        assert_eq!(line.lines().count(), 1, "{arguments:?}: {line}");
        assert!(line.starts_with("ufutex: ") && line.contains(names), "{arguments:?}: {line}");
        assert!(line.contains("accepted: "), "{arguments:?}: {line}");
        assert!(output.stdout.is_empty(), "{arguments:?} has run something");
    }
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
fn hash_rows_have_the_specified_keys_and_the_early_return_stands_apart() {
    let rows = rows(&["hash", "-t", "1,2", "-f", "64", "-r", "0.05", "--repeat", "2"]);
    assert_eq!(rows.len(), 2 * 8, "seven targets and the early return, with one thread and with two");
    for row in &rows {
        assert_eq!(row["workload"], "hash");
        assert_keys(
            row,
            &["target", "threads", "futexes", "buckets", "ops_per_sec", "early_return", "repeat", "stride"],
        );
        assert_eq!((&row["futexes"], &row["repeat"]), (&64.into(), &2.into()));
        assert_numbers(row, "ns_per_op", &["p10", "median", "p90"]);
        assert_keys(row, &["ratio_kernel", "ratio_parking_lot"]);
    }
    let early: Vec<_> = rows.iter().filter(|row| row["early_return"] == true).collect();
    assert_eq!(early.len(), 2);
    assert!(early.iter().all(|row| row["target"] == "live"));
    assert!(of(&rows, "kernel").iter().all(|row| row["ratio_kernel"] == 1.0));
    assert!(of(&rows, "live").iter().all(|row| row["layout"] == "lean" && row["policy"] == "load"));
}

#[test]
fn explicit_buckets_are_what_the_rows_have() {
    for layout in ["lean", "packed", "split"] {
        let targets = "live,fixed,atomic,percpu";
        let rows = rows(&["wake", "-t", "1", "-b", "64", "-r", "0.02", "--layout", layout, "--targets", targets]);
        assert_eq!(rows.len(), 4);
        assert!(rows.iter().all(|row| row["buckets"] == 64 && row["layout"] == layout), "{rows:?}");
    }
}

#[test]
fn shared_futexes_and_strides_run_on_every_target() {
    let rows = rows(&["wake", "-S", "-t", "2", "-f", "16", "--stride", "64", "-r", "0.02", "--repeat", "1"]);
    assert_eq!(rows.len(), 7);
    assert!(rows.iter().all(|row| row["shared"] == true && row["stride"] == 64));
}

#[test]
fn resize_rows_say_whether_it_completed_and_who_is_left_out() {
    let arguments = ["bench", "resize", "-t", "2", "--from", "16", "--to", "64", "--repeat", "1", "--json"];
    let output = ufutex(&arguments);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("parking_lot"), "the note about who cannot resize");
    let rows: Vec<Value> = text(&output.stdout).lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    for row in &rows {
        assert_keys(row, &["target", "threads", "futexes", "buckets", "resize_us"]);
        assert!(row["completed"].is_boolean(), "{row}");
        assert_numbers(row, "op_pause_us", &["p50", "p99", "max"]);
    }
    let live = of(&rows, "live");
    assert_eq!((&live[0]["completed"], &live[0]["buckets"]), (&true.into(), &64.into()));
    assert!(of(&rows, "fixed").is_empty() && of(&rows, "parking_lot").is_empty());
}

#[test]
fn growth_rows_come_from_nine_repeats_at_least() {
    let rows = rows(&["growth", "-t", "3,20", "--targets", "live,global,kernel,parking_lot", "--repeat", "1"]);
    assert_eq!(rows.len(), 2 * 3, "the kernel is left out");
    for row in &rows {
        assert_numbers(row, "first_wait_us", &["p50", "p99", "max"]);
        assert_eq!(row["repeat"], 9);
        assert!(row["first_wait_us"]["p50"].as_f64() <= row["first_wait_us"]["max"].as_f64());
    }
}

#[test]
fn ping_pong_rows_tell_one_cpu_from_two() {
    let rows = rows(&["ping-pong", "-r", "0.1", "--repeat", "1"]);
    let cpus = |cpus: u64| rows.iter().filter(|row| row["cpus"] == cpus).count();
    assert_eq!(cpus(1), 7);
    assert_eq!(cpus(1) + cpus(2), rows.len());
    for row in &rows {
        assert_numbers(row, "ns_per_op", &["p10", "median", "p90"]);
        assert_eq!(row.get("cpus_apart_ns").is_some(), row["cpus"] == 2);
    }
}

#[test]
fn requeue_moves_one_at_a_time_and_all_at_once() {
    let rows = rows(&["requeue", "-t", "20", "--repeat", "2"]);
    let moved = |count: u64| rows.iter().filter(|row| row["nrequeue"] == count).collect::<Vec<_>>();
    assert_eq!((moved(1).len(), moved(20).len()), (6, 7), "parking_lot moves all or none");
    for row in &rows {
        assert_eq!((&row["workload"], &row["threads"], &row["pi"]), (&"requeue".into(), &20.into(), &false.into()));
        assert_numbers(row, "ns_per_op", &["p10", "median", "p90"]);
        assert_keys(row, &["buckets", "ratio_kernel", "repeat"]);
    }
    assert!(of(&rows, "parking_lot").iter().all(|row| row["nrequeue"] == 20));
}

#[test]
fn requeue_takes_perfs_flags() {
    let shared = rows(&["requeue", "-S", "-q", "8", "-t", "20", "--repeat", "1", "--targets", "live,kernel"]);
    assert!(shared.len() == 2 && shared.iter().all(|row| row["nrequeue"] == 8 && row["shared"] == true));
    let all = rows(&["requeue", "-B", "-t", "20", "--repeat", "1", "--targets", "live,parking_lot"]);
    assert!(all.len() == 2 && all.iter().all(|row| row["nrequeue"] == 20));
    for flags in [&["requeue", "-p"][..], &["-p", "requeue"], &["requeue", "--pi", "-S"]] {
        let pi = rows(&[flags, &["-t", "20", "--repeat", "1"]].concat());
        assert_eq!(pi.len(), 2 * 6, "one at a time, all at once; parking_lot is left out");
        assert!(pi.iter().all(|row| row["pi"] == true && row["target"] != "parking_lot"));
    }
}

#[test]
fn wake_parallel_shares_the_sleepers_among_the_wakers() {
    let rows = rows(&["wake-parallel", "-t", "20", "-w", "4", "--repeat", "1"]);
    assert_eq!(rows.len(), 7);
    for row in &rows {
        assert_eq!((&row["threads"], &row["nwakers"]), (&20.into(), &4.into()));
        assert_numbers(row, "ns_per_op", &["p10", "median", "p90"]);
    }
}

#[test]
fn lock_pi_rows_have_one_lock_or_one_for_each_thread() {
    let shapes: [(&[&str], usize, bool); 4] =
        [(&[], 1, false), (&["-M"], 2, true), (&["-M", "-S"], 2, true), (&["--hold", "1"], 1, false)];
    for (flags, locks, multi) in shapes {
        let rows = rows(&[&["lock-pi", "-t", "2", "-r", "0.05", "--repeat", "1"], flags].concat());
        assert_eq!((rows.len(), of(&rows, "parking_lot").len()), (6, 0));
        for row in &rows {
            assert_eq!((&row["futexes"], &row["multi"]), (&locks.into(), &multi.into()));
            assert_numbers(row, "ns_per_op", &["p10", "median", "p90"]);
            assert_keys(row, &["hold_us", "ops_per_sec"]);
        }
    }
}

#[test]
fn crowd_rows_say_who_waits_and_where() {
    let rows = rows(&["crowd", "-n", "40,80", "--repeat", "1", "--targets", "live,global,kernel"]);
    assert!(of(&rows, "kernel").is_empty());
    let count = |target: &str, case: &str, kind: &str| {
        let these = of(&rows, target).into_iter();
        these.filter(|row| row["case"] == case && row["waiter_kind"] == kind).count()
    };
    for kind in ["future", "custom"] {
        assert_eq!(count("live", "distinct", kind), 3, "40, 80, and twice 40");
        assert_eq!(count("live", "same-bucket", kind), 3, "none, 40, 80");
        assert_eq!(count("global", "distinct", kind), 2);
    }
    for row in &rows {
        assert_numbers(row, "ns_per_op", &["p10", "median", "p90"]);
        assert_keys(row, &["waiters", "domains", "ratio_fewest", "buckets", "futexes"]);
    }
}

/// Whether the programs of `locks` can be built here, which takes parking_lot from its registry.
fn has_locks() -> bool {
    let output = ufutex(&["bench", "locks", "-t", "1", "--targets", "live", "-r", "0.01", "--repeat", "1", "--json"]);
    let said = text(&output.stderr);
    let reason = said.lines().find(|line| line.contains("cannot be built here"));
    if let Some(reason) = reason {
        eprintln!("skipped: {reason}");
    }
    reason.is_none()
}

#[test]
fn locks_rows_compare_parking_lot_on_both_cores_and_std() {
    if !has_locks() {
        return;
    }
    let rows = rows(&["locks", "-t", "2", "--writers", "1", "--locks", "3", "-r", "0.05", "--repeat", "1"]);
    let cases = |target| of(&rows, target).iter().map(|row| row["case"].clone()).collect::<Vec<_>>();
    assert_eq!(cases("std"), ["mutex", "rwlock", "many-locks"]);
    for target in ["parking_lot", "live"] {
        assert_eq!(cases(target), ["mutex", "rwlock", "many-locks", "lot"]);
    }
    for row in &rows {
        assert_numbers(row, "ns_per_op", &["p10", "median", "p90"]);
        assert_numbers(row, "cpu_ns_per_op", &["p10", "median", "p90"]);
        assert_keys(row, &["ratio_parking_lot", "ratio_cpu_parking_lot", "work_per_critical_section"]);
    }
    let old = self::rows(&["locks", "-t", "1", "--targets", "live", "--line", "0.12", "-r", "0.01", "--repeat", "1"]);
    assert_eq!(old.len(), 3, "without the reader-writer lock, whose threads have flags of their own");
}

#[test]
fn wasm_rows_have_both_instructions_on_both_patterns_and_the_rival_if_it_is_there() {
    let rows = rows(&["wasm", "-t", "1,2", "-f", "64", "-r", "0.1", "--repeat", "2"]);
    let rival = if cfg!(feature = "wasmtime") { 2 } else { 0 };
    assert_eq!(rows.len(), 2 * 2 * (3 + rival), "two patterns, one thread and two; the early return stands apart");
    assert_eq!(of(&rows, "wasmtime").len(), 2 * 2 * rival);
    for row in &rows {
        assert_eq!((&row["workload"], &row["repeat"]), (&"wasm".into(), &2.into()));
        let futexes = if row["case"] == "words" { 64 } else { 1 };
        assert_eq!(row["futexes"], futexes, "{row}");
        assert!(row["operation"] == "wait" || row["operation"] == "notify", "{row}");
        assert_numbers(row, "ns_per_op", &["p10", "median", "p90"]);
        assert_eq!(row.get("ratio_wasmtime").is_some(), cfg!(feature = "wasmtime"), "{row}");
        assert_eq!(row.get("policy").is_some(), row["target"] == "live", "{row}");
    }
    let early = rows.iter().filter(|row| row["early_return"] == true);
    assert!(early.clone().all(|row| row["operation"] == "wait") && early.count() == 4);
}

#[test]
fn wasm_takes_tables_of_given_sizes_and_memories_with_numbers() {
    let rows =
        rows(&["wasm", "-t", "1", "-b", "64", "-f", "8", "--stride", "64", "--layout", "split", "--repeat", "1"]);
    let ours = of(&rows, "live").into_iter().filter(|row| row["early_return"] != true);
    assert!(ours.clone().count() == 4 && ours.clone().all(|row| row["buckets"] == 64 && row["layout"] == "split"));
    let shared = self::rows(&["wasm", "-S", "-t", "1", "-f", "8", "--repeat", "1"]);
    assert!(of(&shared, "live").iter().all(|row| row["shared"] == true && row["buckets"].as_u64() > Some(16)));
}

#[test]
fn wasm_says_who_is_left_out() {
    let output = ufutex(&["bench", "wasm", "-t", "1", "-f", "8", "--repeat", "1", "--targets", "kernel", "--json"]);
    let remarks = text(&output.stderr);
    assert!(output.status.success() && remarks.contains("live alone"), "{remarks}");
    assert_eq!(remarks.contains("--features wasmtime"), !cfg!(feature = "wasmtime"), "{remarks}");
}

/// What the issue of timers says of a row: these keys of the ones that not all rows have, in nanoseconds or bytes.
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
    assert!(text(&output.stderr).contains("kernel, sparse IDs left out"), "the note about who is missing");
    let rows: Vec<Value> = text(&output.stdout).lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let targets: Vec<_> = rows.iter().map(|row| row["target"].as_str().unwrap_or_default()).collect();
    assert_eq!(targets, TIMER_TABLES);
    assert!(rows.iter().all(|row| row["sparse"] == 512 && row["test"] == "create-getoverrun"));
    let table = |target| of(&rows, target)[0]["table_bytes"].as_u64().expect("bytes");
    assert!(table("radix") > 1 << 20, "the issue: over a megabyte");
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
    // One timer at a time may be allowed: that depends on what else this user runs.
    assert!(of(&rows, "kernel").iter().all(|row| row["test"] == "create-delete"), "{rows:?}");
    assert_eq!(of(&rows, "radix").len(), 2);
}

#[test]
fn timers_have_a_table_and_a_sentence_for_each_test() {
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
    assert!(out.contains("ours creates a timer in") && out.contains("ours arms a timer in"), "{out}");
}

#[test]
fn a_table_and_a_sentence_go_to_stdout_and_silence_empties_stderr() {
    let output = ufutex(&["bench", "hash", "-t", "1", "-r", "0.05", "--repeat", "1", "--silent"]);
    let (out, progress) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success() && progress.is_empty(), "{progress}");
    for target in ["live", "fixed", "atomic", "percpu", "global", "kernel", "parking_lot"] {
        assert!(out.lines().any(|line| line.contains(&format!("| {target} "))), "{target} in {out}");
    }
    assert!(out.contains("A wait on a word that differs takes"), "{out}");
    assert!(!out.contains('\u{1b}'), "colours where no terminal is");
}

#[test]
fn without_a_workload_everything_runs_and_every_figure_is_judged() {
    let targets = "live,kernel,parking_lot";
    let rows = rows(&["-t", "2", "-f", "64", "-r", "0.05", "--repeat", "1", "--targets", targets]);
    let all = [
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
        "locks",
        "timers",
        "figures",
    ];
    for workload in all {
        if workload == "locks" && !has_locks() {
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
