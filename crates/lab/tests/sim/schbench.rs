//! `sim schbench`: the pattern of schbench's threads.

use crate::common::{assert_mistakes, number};
use crate::{assert_a_seed_decides, printed, rows};

const SMALL: [&str; 7] = ["schbench", "-m", "2", "-t", "4", "-r", "200"];

#[test]
fn rows_say_what_was_run_and_how_many_requests_were_done() {
    let rows = rows(&[&SMALL[..], &["-b", "64", "--topology", "zen3-2s"]].concat());
    let schemes: Vec<_> = rows.iter().map(|row| row["scheme"].as_str().unwrap_or_default()).collect();
    assert_eq!(schemes, ["fixed", "atomic", "percpu", "live"]);
    for row in &rows {
        assert_eq!((&row["workload"], &row["topology"]), (&"schbench".into(), &"zen3-2s".into()));
        assert_eq!((&row["message_threads"], &row["threads"]), (&2.into(), &4.into()));
        assert_eq!((&row["buckets"], &row["seed"]), (&64.into(), &1.into()));
        // Eight workers, each woken by a message thread for each request, do at most some requests in a microsecond.
        assert!((1e4..1e8).contains(&number(row, "rps")), "{row}");
        assert!((0.5..100.0).contains(&number(row, "hitm_per_op")), "{row}");
    }
    let of = |scheme: usize| number(&rows[scheme], "hitm_per_op");
    assert!(of(1) > of(0) + 1.0, "one count for all is a line more to fetch: {rows:?}");
}

#[test]
fn calls_of_the_kernel_leave_less_time_for_requests() {
    let one = [&SMALL[..], &["--schemes", "fixed"]].concat();
    let (without, with) = (rows(&one), rows(&[&one[..], &["--kernel"]].concat()));
    assert!(number(&with[0], "rps") < number(&without[0], "rps"), "{with:?} {without:?}");
}

#[test]
fn a_seed_decides_what_is_printed() {
    for output in [&["--json"][..], &[]] {
        assert_a_seed_decides(&[&SMALL[..], &["--schemes", "live"], output].concat());
    }
}

#[test]
fn the_table_has_a_line_for_each_scheme_and_says_that_it_is_modelled() {
    let text = printed(&[&SMALL[..], &["-b", "0", "--schemes", "live,atomic"]].concat());
    let lines: Vec<_> = text.lines().collect();
    assert!(lines[0].starts_with("# ufutex sim schbench: modelled, not measured; on turin ("), "{text}");
    assert!(lines[0].contains("2 message threads with 4 workers each"), "{text}");
    let cells = |line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().to_string()).collect::<Vec<_>>();
    assert_eq!(cells(lines[2]), ["scheme", "buckets", "requests/s", "HITM/request"], "{text}");
    let schemes: Vec<_> = lines[4..].iter().map(|line| cells(line)[..2].to_vec()).collect();
    assert_eq!(schemes, [["live", "0"], ["atomic", "0"]], "{text}");
}

#[test]
fn a_mistake_is_one_line_and_exits_2() {
    assert_mistakes(
        &["sim", "schbench"],
        &[
            (&["--topology", "cray-1"], "'cray-1'"),
            (&["--schemes", "stalled"], "'stalled'"),
            (&["--schemes", "global"], "'global'"),
            (&["-b", "3"], "'3'"),
            (&["-b", "-1"], "'-1'"),
            (&["-m", "0"], "'0'"),
            (&["-m", "65"], "'65'"),
            (&["-t", "0"], "'0'"),
            (&["-t", "4097"], "'4097'"),
            (&["-r", "0"], "'0'"),
            (&["-r", "1.5"], "'1.5'"),
            (&["-r", "10000001"], "'10000001'"),
            (&["--seed", "x"], "'x'"),
            (&["-F", "256"], "-F"),
            (&["hash"], "hash"),
        ],
    );
}
