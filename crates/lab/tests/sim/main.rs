//! `ufutex sim` from a user's view: rows, tables and mistakes. All are deterministic.

#[path = "../common/mod.rs"]
mod common;
mod hash;
mod schbench;
mod timers;
mod validate;

use serde_json::Value;

#[track_caller]
fn printed(arguments: &[&str]) -> String {
    common::printed(&[&["sim"], arguments].concat())
}

#[track_caller]
fn rows(arguments: &[&str]) -> Vec<Value> {
    common::rows_of(&printed(&[arguments, &["--json"]].concat()))
}

/// Asserts that output is the same for the same seed, and differs for another. A table rounds what it shows, so two seeds may look
/// alike in it: three are tried.
#[track_caller]
fn assert_a_seed_decides(arguments: &[&str]) {
    let run = |seed: &str| printed(&[arguments, &["--seed", seed]].concat());
    let first = run("5");
    assert_eq!(first, run("5"), "{arguments:?}");
    let differs = |&seed: &&str| {
        first.replace("seed 5", &format!("seed {seed}")).replace("\"seed\":5", &format!("\"seed\":{seed}")) != run(seed)
    };
    assert!(["6", "7", "8"].iter().any(differs), "{arguments:?}: {first}");
}
