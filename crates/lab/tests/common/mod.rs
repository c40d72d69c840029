//! Shared by the tests of the command.
#![allow(dead_code, reason = "each test program has this file in it and uses some of it")]

#[path = "../../../ufutex/tests/common/skipped.rs"]
pub mod skipped;
pub mod turns;

use serde_json::Value;
use std::process::{Command, Output, Stdio};

/// Runs the command with these arguments until it ends.
pub fn ufutex(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ufutex"));
    command.args(arguments).stdin(Stdio::null()).output().expect("the program starts")
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// The output of the command, which must succeed.
#[track_caller]
pub fn printed(arguments: &[&str]) -> String {
    let output = ufutex(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// Parses rows of `--json`. There must be no other lines.
#[track_caller]
pub fn rows_of(printed: &str) -> Vec<Value> {
    printed.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"))).collect()
}

/// A field of a row that is a number.
#[track_caller]
pub fn number(row: &Value, key: &str) -> f64 {
    row[key].as_f64().unwrap_or_else(|| panic!("{key} in {row}"))
}

/// Asserts that the command prints one line with `names` and what is accepted, exits with 2, and has run nothing.
#[track_caller]
pub fn assert_mistake(arguments: &[&str], names: &str) {
    let output = ufutex(arguments);
    let line = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {line}");
    assert_eq!(line.lines().count(), 1, "{arguments:?}: {line}");
    assert!(line.starts_with("ufutex: ") && line.contains(names), "{arguments:?}, {names}: {line}");
    assert!(line.contains("accepted"), "{arguments:?}: {line}");
    assert!(output.stdout.is_empty(), "{arguments:?} has run something");
}

/// Asserts a mistake for each case. `command` comes before its arguments.
#[track_caller]
pub fn assert_mistakes(command: &[&str], cases: &[(&[&str], &str)]) {
    for (arguments, names) in cases {
        assert_mistake(&[command, arguments].concat(), names);
    }
}
