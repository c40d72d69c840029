//! `bench --format perf`: an interrupted run prints perf's last lines, computed from the results so far.

use crate::running::{Ended, Running};
use std::thread::sleep;
use std::time::Duration;

/// Interrupts a run after it has printed `printed`. Returns its last line.
fn ended_after(printed: &str, flags: &[&str]) -> (String, Ended) {
    let mut running = Running::begin(&[&["bench"], flags, &["--format", "perf"]].concat());
    running.until_it_prints(printed);
    // Lets the workload run for a moment.
    sleep(Duration::from_millis(100));
    let ended = running.end_by_ctrl_c();
    assert!(ended.stderr.contains("interrupted: "), "{}", ended.stderr);
    (ended.stdout.lines().last().unwrap_or_default().to_string(), ended)
}

#[test]
fn those_that_run_for_a_time_end_with_their_average_and_no_other_target_begins() {
    for workload in ["hash", "lock-pi"] {
        let flags = [workload, "-r", "3600", "-t", "2", "--targets", "live,kernel"];
        let (last, ended) = ended_after("Run summary", &flags);
        assert!(last.starts_with("Averaged ") && last.contains("operations/sec"), "{workload}: {}", ended.stdout);
        let seconds = last.rsplit(' ').next().and_then(|seconds| seconds.parse::<u64>().ok());
        assert!(seconds < Some(3600), "{workload}: {last}");
        assert_eq!(ended.stdout.matches("[thread ").count(), 2, "{workload}: {}", ended.stdout);
        assert_eq!(ended.stdout.matches("Run summary").count(), 1, "{workload}: {}", ended.stdout);
    }
}

#[test]
fn workloads_of_several_runs_end_with_the_mean_of_the_runs_until_then() {
    for (workload, last_begins) in [
        ("wake", "Wokeup 20 of 20 threads in"),
        ("wake-parallel", "Avg per-thread latency"),
        ("requeue", "Requeued 20 of 20"),
    ] {
        let (last, ended) = ended_after("[Run 2]", &[workload, "-t", "20", "--repeat", "10000"]);
        assert!(last.starts_with(last_begins) && last.contains("(+-"), "{workload}: {last}");
        assert!(ended.stdout.contains("[Run 2]") && !ended.stdout.contains("[Run 10000]"), "{workload}");
    }
}

#[test]
fn of_all_five_the_first_ends_and_no_other_begins() {
    let (_, ended) = ended_after("Run summary", &["-r", "3600", "-t", "2"]);
    assert!(ended.stdout.contains("Averaged "), "{}", ended.stdout);
    assert_eq!(ended.stdout.matches("# Running ").count(), 1, "{}", ended.stdout);
}
