//! `sim timers`: the designs of a timer table.

use crate::common::{assert_mistakes, number};
use crate::{assert_a_seed_decides, printed, rows};
use serde_json::Value;

const DESIGNS: [&str; 5] = ["ours", "global-lock", "precheck", "scaled", "radix"];
/// The results of each test.
const CREATE_GETOVERRUN: [&str; 2] = ["create_ns", "getoverrun_ns"];
const CREATE_DELETE: [&str; 1] = ["create_delete_ns"];

/// Asserts that a row has the times of its own test and no others.
fn assert_times(row: &Value) {
    let own = if row["test"] == "create-delete" { &CREATE_DELETE[..] } else { &CREATE_GETOVERRUN };
    for key in CREATE_GETOVERRUN.iter().chain(&CREATE_DELETE) {
        if own.contains(key) {
            assert!((1.0..1e6).contains(&number(row, key)), "{key} in {row}");
        } else {
            assert!(row[key].is_null(), "{key} in {row}");
        }
    }
}

#[test]
fn rows_say_what_was_run_on_which_design_and_what_a_call_took() {
    let rows = rows(&["timers", "-t", "1,4", "-n", "40"]);
    let what = |row: &Value| {
        (row["test"].as_str().map(str::to_string), row["threads"].as_u64(), row["design"].as_str().map(str::to_string))
    };
    let mut expected = Vec::new();
    for test in ["create-getoverrun", "create-delete"] {
        for threads in [1, 4] {
            let case = |design: &&str| (Some(test.to_string()), Some(threads), Some(design.to_string()));
            expected.extend(DESIGNS.iter().map(case));
        }
    }
    assert_eq!(rows.iter().map(what).collect::<Vec<_>>(), expected);
    for row in &rows {
        assert_eq!((&row["workload"], &row["topology"]), (&"timers".into(), &"skylake-2s".into()));
        assert_eq!((&row["processes"], &row["timers"], &row["seed"]), (&1.into(), &40.into(), &1.into()));
        assert_times(row);
        assert_eq!(
            number(row, "hitm_per_op") > 0.0,
            row["threads"] == 4,
            "one thread takes no line from another: {row}"
        );
        let hot = row["hot"].as_array().expect("a list");
        assert!((1..=12).contains(&hot.len()), "{row}");
        for field in hot {
            assert!(field["object"].is_string() && field["field"].is_string() && field["offset"].is_u64(), "{row}");
            assert!(number(field, "hitm") >= 0.0, "{row}");
        }
        let hitm: Vec<f64> = hot.iter().map(|field| number(field, "hitm")).collect();
        assert!(hitm.is_sorted_by(|one, next| one >= next), "the hottest first: {row}");
        let sum: f64 = hitm.iter().sum();
        assert!(sum <= number(row, "hitm_per_op") * 1.001, "fields, too, by the operation: {row}");
    }
}

#[test]
fn threads_queue_for_one_lock_and_processes_with_tables_of_their_own_do_not() {
    let both = ["timers", "-t", "1,16", "-n", "40", "--tests", "create-delete", "--designs", "global-lock,radix"];
    let (threads, processes) = (rows(&both), rows(&[&both[..], &["--processes"]].concat()));
    let who = |rows: &[Value]| rows.iter().map(|row| (row["threads"].as_u64(), row["processes"].as_u64())).max();
    assert_eq!((who(&threads), who(&processes)), (Some((Some(16), Some(1))), Some((Some(1), Some(16)))));
    // Global lock and radix tree with one thread, then both with sixteen.
    let times = |rows: &[Value]| rows.iter().map(|row| number(row, "create_delete_ns")).collect::<Vec<_>>();
    for times in [times(&threads), times(&processes)] {
        assert!(times[2] > 4.0 * times[0], "{times:?}");
    }
    let apart = times(&processes);
    assert!(apart[2] > 3.0 * apart[3], "{apart:?}");
}

#[test]
fn with_kernel_a_call_takes_longer_by_the_same_whatever_the_design() {
    let one = ["timers", "-t", "1", "-n", "20", "--designs", "scaled,radix"];
    let (without, with) = (rows(&one), rows(&[&one[..], &["--kernel"]].concat()));
    let more = |row: usize, key| number(&with[row], key) - number(&without[row], key);
    for (scaled, radix, key) in [(0, 1, "create_ns"), (0, 1, "getoverrun_ns"), (2, 3, "create_delete_ns")] {
        let (scaled, radix) = (more(scaled, key), more(radix, key));
        assert!(scaled > 50.0 && (scaled - radix).abs() < 2.0, "{key}: {scaled} and {radix} more");
    }
}

#[test]
fn a_seed_decides_what_is_printed() {
    // The threads span both sockets. Within one socket, the oldest request is always next, so the seed has no effect.
    for output in [&["--json"][..], &[]] {
        assert_a_seed_decides(&[&["timers", "-t", "40", "-n", "20", "--designs", "scaled", "-s"], output].concat());
    }
}

#[test]
fn the_table_has_a_line_for_each_case_and_says_that_it_is_modelled() {
    let text = printed(&["timers", "-t", "2", "-n", "20", "-p", "--topology", "here", "-s"]);
    let lines: Vec<_> = text.lines().collect();
    assert!(
        lines[0].starts_with("# ufutex sim timers: modelled, not measured; on here (") && lines[0].ends_with("seed 1")
    );
    let header: Vec<_> = lines[2].trim_matches('|').split('|').map(str::trim).collect();
    let expected = ["test", "design", "threads", "timers", "create, ns", "getoverrun", "create+delete", "HITM/op"];
    assert_eq!(header, expected, "{text}");
    for test in ["create-getoverrun", "create-delete"] {
        for design in DESIGNS {
            let line = |line: &&&str| line.contains(test) && line.contains(&format!("| {design} "));
            let mut found = lines.iter().filter(line).map(|line| line.contains("2 processes"));
            assert_eq!((found.next(), found.next()), (Some(true), None), "{test}, {design}: {text}");
        }
    }
}

#[test]
fn a_mistake_is_one_line_and_exits_2() {
    assert_mistakes(
        &["sim", "timers"],
        &[
            (&["--topology", "cray-1"], "'cray-1'"),
            (&["-t", "0"], "'0'"),
            (&["-t", "113"], "1 to 112"),
            (&["-t", "1,,2"], "'1,,2'"),
            (&["--designs", "xarray"], "'xarray'"),
            (&["--designs", ""], "''"),
            (&["--tests", "settime"], "'settime'"),
            (&["-n", "0"], "'0'"),
            (&["-n", "1000001"], "'1000001'"),
            (&["-n"], "--timers"),
            (&["--seed", "-1"], "'-1'"),
            (&["--seed", "1", "--seed", "2"], "--seed"),
            (&["--schemes", "live"], "--schemes"),
            (&["validate"], "validate"),
        ],
    );
}
