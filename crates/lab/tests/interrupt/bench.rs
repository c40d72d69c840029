//! `bench`: an interrupted run prints rows and tables of its samples so far.

use crate::common::rows_of;
use crate::running::{Ended, Running, interrupt_when_there_is_something};
use serde_json::Value;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

/// The most rounds that are accepted. They take minutes.
const ROUNDS: u64 = 10_000;

fn begin(arguments: &[&str], announced: &str) -> Running {
    let mut running = Running::begin(&[&["bench"], arguments].concat());
    running.until_it_says(announced);
    running
}

/// Interrupts a run during its rounds. It must print at least `count` rows, with fewer rounds than requested.
fn assert_keeps_what_it_has(count: usize, arguments: &[&str], announced: &str) {
    let rounds = ROUNDS.to_string();
    let arguments = [arguments, &["--json", "--repeat", &rounds]].concat();
    let rows = |ended: &Ended| rows_of(&ended.stdout);
    let ended = interrupt_when_there_is_something(|| begin(&arguments, announced), |ended| rows(ended).len() >= count);
    for row in rows(&ended) {
        let rounds = row["repeat"].as_u64().expect("a number");
        assert!((1..ROUNDS).contains(&rounds), "{row}");
        assert!(!row.to_string().contains("NaN"), "{row}");
    }
    assert!(ended.stderr.contains("interrupted: the rows have the samples until then"), "{}", ended.stderr);
}

fn assert_two_targets(arguments: &[&str]) {
    assert_keeps_what_it_has(2, &[arguments, &["--targets", "live,parking_lot"]].concat(), "rounds");
}

// A test for each, so that they run in parallel.

#[test]
fn hash_and_wake_keep_what_they_have() {
    assert_two_targets(&["hash", "-t", "1"]);
    assert_two_targets(&["wake", "-t", "1"]);
}

#[test]
fn wake_of_sleepers_and_ping_pong_keep_what_they_have() {
    assert_two_targets(&["wake", "-w", "1", "-t", "3"]);
    assert_two_targets(&["ping-pong"]);
}

#[test]
fn requeue_and_wake_parallel_keep_what_they_have() {
    assert_two_targets(&["requeue", "-t", "20", "-B"]);
    assert_two_targets(&["wake-parallel", "-t", "20"]);
}

#[test]
fn resize_and_lock_pi_keep_what_they_have() {
    assert_keeps_what_it_has(2, &["resize", "-t", "2", "--targets", "live,percpu"], "rounds");
    assert_keeps_what_it_has(2, &["lock-pi", "-t", "1", "--targets", "live,kernel"], "rounds");
}

#[test]
fn crowd_and_timers_keep_what_they_have() {
    assert_keeps_what_it_has(2, &["crowd", "-n", "10,100", "--targets", "live"], "rounds");
    assert_keeps_what_it_has(2, &["timers", "--tests", "create-delete", "-n", "1000"], "rounds at most");
}

fn has_process(words: &[&str]) -> bool {
    // Another user's suite may run at the same time.
    let user = |path: &Path| path.metadata().map(|metadata| metadata.uid()).ok();
    let own = user(Path::new("/proc/self"));
    std::fs::read_dir("/proc").expect("Linux").flatten().filter(|process| user(&process.path()) == own).any(|process| {
        let line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        words.iter().all(|words| line.contains(words))
    })
}

// These tests search for child processes by arguments that no other test uses.

#[test]
fn growth_keeps_what_its_children_have_measured_and_leaves_none_behind() {
    assert_keeps_what_it_has(2, &["growth", "-t", "47", "--targets", "live,parking_lot"], "repeats");
    assert!(!has_process(&["growth-child", "--threads 47"]));
}

#[test]
fn timers_keep_what_their_children_have_measured_and_leave_none_behind() {
    let flags = ["timers", "--tests", "create-delete", "-n", "1009", "-p", "2", "--targets", "ours,kernel"];
    assert_keeps_what_it_has(2, &flags, "rounds at most");
    assert!(!has_process(&["timers-child", "--timers 1009"]));
}

/// A child may be starting when Ctrl-C is pressed. It is in its parent's process group at first, and must not end by the signal.
#[test]
fn children_that_are_starting_are_not_interrupted() {
    let rounds = ROUNDS.to_string();
    let flags =
        ["timers", "--tests", "create-delete", "-n", "1019", "-p", "2", "--targets", "kernel", "--repeat", &rounds];
    for delay_ms in (0..210).step_by(7) {
        let running = begin(&flags, "rounds at most");
        sleep(Duration::from_millis(delay_ms));
        let ended = running.end_by_ctrl_c();
        assert!(ended.stderr.contains("interrupted: "), "after {delay_ms} ms: {}", ended.stderr);
    }
    assert!(!has_process(&["timers-child", "--timers 1019"]));
}

#[test]
fn schbench_prints_what_the_target_had_done_and_begins_no_other() {
    let flags = ["schbench", "-r", "3600", "-t", "2", "-n", "1", "-F", "8", "-s", "10", "--targets", "live,kernel"];
    let begin = || begin(&[&flags[..], &["--json"]].concat(), "schbench: kernel");
    let requests = |row: &Value| row["requests"].as_u64().unwrap_or(0);
    let ended =
        interrupt_when_there_is_something(begin, |ended| rows_of(&ended.stdout).iter().any(|row| requests(row) > 0));
    let rows = rows_of(&ended.stdout);
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert!(rows[0]["rps"].as_f64() > Some(0.0) && rows[0]["wakeup_us"]["samples"].as_u64() > Some(0), "{rows:?}");
    assert!(ended.stderr.contains("interrupted: ") && !ended.stderr.contains("schbench: live"), "{}", ended.stderr);
}

/// A sample takes two seconds, so the signal comes in the first round, which is the warm-up.
#[test]
fn the_first_round_keeps_the_samples_that_it_has() {
    let flags = ["hash", "-t", "1", "-b", "16", "--targets", "live,kernel", "-r", "12", "--repeat", "1", "--json"];
    let running = begin(&flags, "hash: 3 rows");
    sleep(Duration::from_millis(500));
    let ended = running.end_by_ctrl_c();
    let rows = rows_of(&ended.stdout);
    assert!((1..3).contains(&rows.len()) && rows.iter().all(|row| row["repeat"] == 1), "{rows:?}");
}

#[test]
fn tables_say_so_too_and_what_was_not_measured_is_named() {
    let begin = || begin(&["-t", "1", "--targets", "live", "--repeat", "10000"], "hash");
    let ended = interrupt_when_there_is_something(begin, |ended| ended.stdout.contains("## hash"));
    assert!(!ended.stdout.contains("## wake") && !ended.stdout.contains("## figures"), "{}", ended.stdout);
    let line = ended.stderr.lines().last().unwrap_or_default();
    assert!(line.contains("not measured: wake, resize, growth") && !line.contains("figure"), "{line}");
}

#[test]
fn the_second_ctrl_c_ends_it_at_once() {
    // The one sample takes minutes: a million timers in 512 chains.
    let arguments =
        ["timers", "--tests", "create-getoverrun", "--targets", "global-lock", "-n", "1000000", "-t", "1", "--json"];
    let mut running = begin(&arguments, "long chains");
    running.press_ctrl_c();
    sleep(Duration::from_millis(200));
    assert_eq!(running.child.try_wait().expect("our child"), None, "the first one waits for the sample");
    let ended = running.end_by_ctrl_c();
    assert_eq!(ended.stdout, "");
}

#[test]
fn where_the_signal_is_ignored_it_stays_so() {
    let program = env!("CARGO_BIN_EXE_ufutex");
    let line = format!("trap '' INT; exec {program} bench hash -t 1 --targets live,kernel --repeat 20 --json");
    let mut running = Running::start(Command::new("sh").args(["-c", &line]));
    running.until_it_says("rounds");
    running.press_ctrl_c();
    let ended = running.end();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert!(rows_of(&ended.stdout).iter().all(|row| row["repeat"] == 20), "{}", ended.stdout);
}
