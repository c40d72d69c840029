//! `bench wasm`.

use crate::common::{text, ufutex};
use crate::{assert_numbers, of, rows};

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
fn wasm_notes_name_the_targets_left_out() {
    let output = ufutex(&["bench", "wasm", "-t", "1", "-f", "8", "--repeat", "1", "--targets", "kernel", "--json"]);
    let remarks = text(&output.stderr);
    assert!(output.status.success() && remarks.contains("live left out"), "{remarks}");
    assert_eq!(remarks.contains("--features wasmtime"), !cfg!(feature = "wasmtime"), "{remarks}");
}
