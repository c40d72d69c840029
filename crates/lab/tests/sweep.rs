//! `bench hash --sweep`: both tables, their rows, and other lists of sizes.

mod common;

use common::{printed, rows_of};
use serde_json::Value;

fn sweep(arguments: &[&str]) -> String {
    printed(&[&["bench", "hash", "--sweep", "-r", "0.2", "--repeat", "1"], arguments].concat())
}

fn rows(arguments: &[&str]) -> Vec<Value> {
    rows_of(&sweep(&[arguments, &["--json"]].concat()))
}

#[test]
fn by_default_the_tables_are_those_of_the_private_hash_patch() {
    let printed = sweep(&["-f", "16", "--targets", "live"]);
    let lines: Vec<_> = printed.lines().collect();
    let after =
        |start: &str| lines.iter().position(|line| line.starts_with(start)).map_or(&[][..], |at| &lines[at + 1..]);
    let cells = |line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().to_string()).collect::<Vec<_>>();
    let one = after("### live: operations a second and thread, one process");
    assert_eq!(cells(one[0])[2..], ["P 4", "P 8", "P 16", "P 32", "P 64", "P 128", "P 256"], "{printed}");
    assert!(cells(one[0])[1].starts_with('G'), "{printed}");
    let threads: Vec<_> = one[2..7].iter().map(|line| cells(line)[0].clone()).collect();
    assert_eq!(threads, ["1", "2", "4", "8", "16"], "{printed}");
    let several = after("### live: 2 processes, each with 16 threads of 16 futexes");
    let last = cells(several[0])[9..].to_vec();
    assert_eq!(last, ["P 512", "P 1024", "P 2048"], "{printed}");
    assert!(cells(several[2]).len() == 12 && cells(several[2])[0] == "16", "{printed}");
}

#[test]
fn rows_are_those_of_hash_with_the_slots_and_processes_asked_for() {
    let rows =
        rows(&["-f", "16", "-t", "1,2", "-b", "0,4,64", "-p", "3", "--targets", "live,fixed,atomic,percpu,kernel"]);
    // Three sizes with one thread, three with two, and three with the processes.
    assert_eq!(rows.len(), 5 * 9);
    for row in &rows {
        assert_eq!((&row["workload"], &row["section"]), (&"hash".into(), &"sweep".into()));
        assert!(row["ops_per_sec"].as_f64() > Some(0.0) && row["ns_per_op"]["median"].as_f64() > Some(0.0), "{row}");
        let (slots, buckets) = (row["slots"].as_u64(), row["buckets"].as_u64());
        match slots {
            // The global table has its own size, which the kernel does not report.
            Some(0) => assert_eq!(buckets.is_none(), row["target"] == "kernel", "{row}"),
            _ => assert_eq!(buckets, slots, "{row}"),
        }
        assert!(row.get("processes").is_none_or(|processes| *processes == 3 && row["threads"] == 2), "{row}");
    }
    assert_eq!(rows.iter().filter(|row| row.get("processes").is_some()).count(), 5 * 3);
}
