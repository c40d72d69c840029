//! `sim validate`: published figures beside the model's. Only the two shortest sources are run here. All of them take
//! more than a minute, and the command's exit status gives the result. Unit tests check the tables.

use crate::common::{assert_mistakes, number, rows_of, text, turns, ufutex};
use serde_json::Value;
use std::process::Output;

/// The source with the fewest figures.
const ONE: [&str; 4] = ["sim", "validate", "--only", "percpu-refs"];
const VERDICTS: [&str; 4] = ["right", "noise", "SIZE MISSED", "DIRECTION MISSED"];

/// The exit status is 1, with a line that gives the number of misses, if a verdict is a miss. Otherwise it is 0.
fn assert_status_is_the_verdicts(output: &Output, missed: usize, all: usize) {
    let said = text(&output.stderr);
    let expected = format!("ufutex: the model misses {missed} of {all} published comparisons");
    assert_eq!(output.status.code(), Some(i32::from(missed > 0)), "{missed} of {all}: {said}");
    assert_eq!(said.lines().last() == Some(&expected), missed > 0, "{said}");
}

#[test]
fn rows_have_published_measured_and_modelled_apart_and_the_exit_status_is_theirs() {
    let _turn = turns::without_real_time_programs();
    let output = ufutex(&[&ONE[..], &["--json"]].concat());
    let rows = rows_of(&text(&output.stdout));
    assert_eq!(rows.len(), 3);
    for row in &rows {
        assert_eq!(row["source"], "percpu-refs");
        assert!(row["comparison"].as_str().is_some_and(|what| what.contains("power")), "{row}");
        assert!(row["sized"].is_boolean() && row["note"].is_string(), "{row}");
        // A measurement with two threads on any machine. A ratio of a hundred would be a wrong figure.
        assert!((0.01..100.0).contains(&number(row, "here_ratio")), "{row}");
        for key in ["published", "modelled"] {
            let pair: Vec<f64> = row[key].as_array().expect("a pair").iter().filter_map(Value::as_f64).collect();
            assert!(pair.len() == 2 && pair.iter().all(|rate| *rate > 1e4), "{row}");
            let ratio = number(row, &format!("{key}_ratio"));
            assert!((ratio - pair[1] / pair[0]).abs() < 1e-9, "{row}");
        }
        assert!(VERDICTS.iter().any(|verdict| row["verdict"] == *verdict), "{row}");
    }
    assert_eq!(rows[0]["published"], serde_json::json!([1_536_035.0, 1_412_543.0]));
    assert!(rows.iter().all(|row| row["modelled"][0] == rows[0]["modelled"][0]), "all are compared with one: {rows:?}");
    assert_eq!(rows[0]["modelled"], rows[1]["modelled"], "of both per-CPU counts we have one: {rows:?}");
    assert_ne!(rows[0]["modelled"], rows[2]["modelled"], "{rows:?}");
    let missed = rows.iter().filter(|row| row["verdict"].as_str().is_some_and(|verdict| verdict.ends_with("MISSED")));
    assert_status_is_the_verdicts(&output, missed.count(), rows.len());
    assert!(output.status.success(), "{rows:?}");
}

#[test]
fn schbench_is_measured_here_as_well_with_a_message_thread_on_one_cpu() {
    let _turn = turns::without_real_time_programs();
    let output = ufutex(&["sim", "validate", "--only", "immutable-hash", "--json"]);
    let rows = rows_of(&text(&output.stdout));
    assert_eq!(rows.len(), 5);
    for row in &rows {
        assert!((0.01..100.0).contains(&number(row, "here_ratio")), "{row}");
        // The model has hundreds of thousands of requests a second, or some millions.
        assert!(
            row["modelled"].as_array().is_some_and(|pair| pair.iter().all(|rps| rps.as_f64() > Some(1e5))),
            "{row}"
        );
    }
    assert!(output.status.success(), "{rows:?}");
}

#[test]
fn a_mistake_is_one_line_and_exits_2() {
    assert_mistakes(
        &["sim", "validate"],
        &[
            (&["--only", "005"], "'005'"),
            (
                &["--only", "lunch"],
                "immutable-hash, false-sharing, priv-removed, percpu-refs, private-hash, timer-hash",
            ),
            (&["--only", "percpu-refs,"], "''"),
            (&["--only", ""], "''"),
            (&["--only", "1"], "'1'"),
            (&["--only"], "--only"),
            (&["--json=yes"], "yes"),
            (&["--topology", "here"], "--topology"),
            (&["--seed", "1"], "--seed"),
            (&["percpu-refs"], "percpu-refs"),
        ],
    );
}
