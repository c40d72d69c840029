//! `bench neighbour` from a user's view: a row for each attack and operation. Asserts no times but the requested ones.

mod common;

use common::{assert_mistakes, number, printed, rows_of};
use serde_json::Value;

#[track_caller]
fn rows(arguments: &[&str]) -> Vec<Value> {
    rows_of(&printed(&[&["bench", "neighbour", "--json"], arguments].concat()))
}

const ATTACKS: [&str; 15] = [
    "pi-chain",
    "chain-limit",
    "timers",
    "processes",
    "keys",
    "slots",
    "resizes",
    "largest-table",
    "priorities",
    "crowd",
    "hand-off",
    "waitv",
    "wake-op",
    "waiter-limit",
    "spins",
];
const OPERATIONS: [&str; 6] = ["private", "shared", "pi", "timeout", "timer", "executor"];
const CPUS: [&str; 4] = ["full", "rationed", "idle", "stopped"];

#[test]
fn each_attack_has_a_row_for_each_operation_of_the_neighbour() {
    let rows = rows(&["-n", "100", "-r", "4", "--repeat", "2"]);
    let expected = ATTACKS.iter().flat_map(|attack| OPERATIONS.map(|operation| (*attack, operation)));
    let found = rows.iter().map(|row| (row["attack"].as_str().unwrap_or(""), row["operation"].as_str().unwrap_or("")));
    assert!(found.eq(expected), "{rows:?}");
    for row in &rows {
        assert_eq!((&row["workload"], &row["number"], &row["repeat"]), (&"neighbour".into(), &100.into(), &2.into()));
        assert_eq!(row["cpu"], "full");
        for stuck in ["alone", "attacked"] {
            assert!((0.0..=1.0).contains(&number(&row["stuck"], stuck)), "{stuck} in {row}");
        }
        for tail in ["alone_ns", "attacked_ns"] {
            let rising = ["p50", "p99", "p999", "max"].map(|key| number(&row[tail], key));
            assert!(rising.is_sorted() && rising[3] > 0.0, "{tail} in {row}");
        }
        for ratio in ["p50", "p99", "p999", "max", "rate"] {
            assert!(number(&row["ratio"], ratio) > 0.0, "{ratio} in {row}");
        }
        assert!(number(row, "alone_per_sec") > 0.0 && number(row, "attacked_per_sec") > 0.0, "{row}");
        // Attacks by timers have no steps of their own: the driver's thread expires the timers.
        assert!(number(row, "steps") > 0.0 || row["attack"] == "timers" || row["attack"] == "processes", "{row}");
    }
}

/// The attackers' threads go on after each sample, or the run would not end.
#[test]
fn each_attack_ends_with_each_share_of_cpu_time() {
    let cpus = CPUS.join(",");
    let rows = rows(&["--cpu", &cpus, "--operations", "shared,timer", "-n", "64", "-r", "2.5", "--repeat", "1"]);
    let found = rows.iter().map(|row| (row["attack"].as_str().unwrap_or(""), row["cpu"].as_str().unwrap_or("")));
    let expected = ATTACKS.iter().flat_map(|attack| CPUS.iter().flat_map(|cpu| [(*attack, *cpu); 2]));
    assert!(found.eq(expected), "{rows:?}");
}

#[test]
fn only_the_requested_pairs_are_measured_in_their_order() {
    let rows = rows(&[
        "--attacks",
        "keys,pi-chain",
        "--operations",
        "pi",
        "-n",
        "20,10",
        "-t",
        "2",
        "-r",
        "0.5",
        "--repeat",
        "1",
    ]);
    let found: Vec<_> =
        rows.iter().map(|row| format!("{} {} {}", row["attack"], row["number"], row["attackers"])).collect();
    assert_eq!(found, ["\"keys\" 20 2", "\"keys\" 10 2", "\"pi-chain\" 20 2", "\"pi-chain\" 10 2"]);
}

#[test]
fn the_table_has_a_line_for_each_row() {
    let text = printed(&[
        "bench",
        "neighbour",
        "--attacks",
        "keys",
        "--operations",
        "shared",
        "-n",
        "10",
        "-r",
        "0.2",
        "--repeat",
        "1",
    ]);
    let is_it = |line: &str| ["| keys ", " 10 |", "| full |", " shared |"].iter().all(|cell| line.contains(cell));
    assert!(text.contains("## neighbour") && text.lines().any(is_it), "{text}");
}

#[test]
fn mistakes_are_one_line_that_names_what_is_accepted() {
    assert_mistakes(
        &["bench", "neighbour"],
        &[
            (&["--attacks", "flood"], "--attacks 'flood' is not accepted; accepted: pi-chain, chain-limit, timers, "),
            (&["--operations", "pi,join"], "accepted: private, shared, pi, timeout, timer, executor"),
            (&["--cpu", "some"], "--cpu 'some' is not accepted; accepted: full, rationed, idle, stopped"),
            (&["-n", "0"], "--number '0'"),
            (&["-r", "0.1"], "--runtime '0.1' is too short for 1080 samples; accepted: 10.80 or more"),
        ],
    );
}
