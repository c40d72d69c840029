//! `sim`: an interrupted run prints its rows so far, and how many there would have been.

use crate::common::rows_of;
use crate::running::{Ended, Running, interrupt_when_there_is_something};

/// The numbers of the last line, such as `interrupted: 3 of 45 runs were made`.
fn made(ended: &Ended) -> (usize, usize) {
    let line = ended.stderr.lines().last().unwrap_or_default();
    let numbers: Vec<usize> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
    assert!(line.starts_with("ufutex: interrupted: ") && numbers.len() == 2, "{}", ended.stderr);
    (numbers[0], numbers[1])
}

/// Interrupts a run at its first row. All rows take so long that even on a busy machine some are missing.
fn assert_rows_until_then(all: usize, arguments: &[&str]) {
    let mut running = Running::begin(&[&["sim"], arguments, &["--json"]].concat());
    running.until_it_prints("workload");
    let ended = running.end_by_ctrl_c();
    let rows = rows_of(&ended.stdout).len();
    assert_eq!(made(&ended), (rows, all), "{arguments:?}");
    assert!((1..all).contains(&rows), "{arguments:?}: {rows} of {all}");
}

/// The numbers 4 to 83. Each gives a row.
fn cores() -> String {
    (4..84).map(|cores| cores.to_string()).collect::<Vec<_>>().join(",")
}

#[test]
fn hash_and_resize_have_the_rows_until_then() {
    assert_rows_until_then(80, &["hash", "--schemes", "fixed", "--cores", &cores(), "-f", "64"]);
    assert_rows_until_then(80, &["resize", "--schemes", "live", "--cores", &cores()]);
}

#[test]
fn timers_have_the_rows_until_then() {
    assert_rows_until_then(80, &["timers", "--tests", "create-delete", "--designs", "scaled", "-t", &cores()]);
}

#[test]
fn schbench_has_the_rows_until_then() {
    let schemes = vec!["live"; 300].join(",");
    assert_rows_until_then(300, &["schbench", "-m", "2", "-t", "16", "-r", "1000", "--schemes", &schemes]);
}

#[test]
fn validate_prints_the_comparisons_until_then_and_fails_for_no_other_reason() {
    let begin = || {
        let mut running = Running::begin(&["sim", "validate", "--only", "private-hash,timer-hash", "--no-measure"]);
        running.until_it_says("sim validate: modelling 81 comparisons");
        running
    };
    let ended = interrupt_when_there_is_something(begin, |ended| ended.stdout.contains("| private-hash "));
    let (made, all) = made(&ended);
    // With many CPUs, comparisons of timer-hash may be complete as well.
    let rows =
        ["| private-hash ", "| timer-hash "].map(|source| ended.stdout.matches(source).count()).into_iter().sum();
    assert_eq!((made, all), (rows, 81), "{}", ended.stdout);
    assert!(ended.stdout.contains(&format!("{made} comparisons: ")), "{}", ended.stdout);
    let measured = |line: &str| line.split('|').nth(4).map(str::trim) != Some("-");
    assert!(
        !ended.stdout.lines().filter(|line| line.starts_with("| private-hash ")).any(measured),
        "--no-measure: {}",
        ended.stdout
    );
    assert!(!ended.stderr.contains("the model misses"), "{}", ended.stderr);
}

#[test]
fn validate_prints_what_was_modelled_though_this_machine_was_not_measured() {
    let mut running = Running::begin(&["sim", "validate", "--only", "percpu-refs"]);
    running.until_it_says("sim validate: measuring 3 comparisons");
    let ended = running.end_by_ctrl_c();
    assert_eq!(ended.stdout.matches("| percpu-refs ").count(), 3, "{}", ended.stdout);
    let (measured, all) = made(&ended);
    assert!(measured < all && all == 3, "{}", ended.stderr);
    assert!(ended.stderr.ends_with(" measurements were made\n"), "{}", ended.stderr);
}

/// Runs with many threads and with one. A lone thread never waits for its turn, so it checks for Ctrl-C elsewhere.
#[test]
fn a_run_that_would_take_hours_ends_in_the_middle() {
    let alone = ["timers", "--cores", "1", "-n", "1000000", "--designs", "global-lock", "--tests", "create-getoverrun"];
    for arguments in [&["schbench", "-r", "10000000"][..], &alone] {
        let mut running = Running::begin(&[&["sim"], arguments].concat());
        running.until_it_says("sim ");
        assert_eq!(made(&running.end_by_ctrl_c()).0, 0, "{arguments:?}");
    }
}
