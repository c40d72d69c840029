//! `ufutex soak` from a user's view: all laws hold in a short run, in which everything has happened.

mod common;

use common::{assert_mistakes, number, printed, rows_of, text, ufutex};
use serde_json::Value;

/// What need not happen in a short run.
const RARE: [&str; 2] = ["timers_voided", "deadlocks"];

/// Explains the counts.
const PAGE: &str = include_str!("../../../docs/COMMAND.md");

fn worlds(row: &Value) -> &[Value] {
    row["worlds"].as_array().map_or(&[], Vec::as_slice)
}

#[test]
fn every_law_holds_in_a_run_in_which_everything_happens() {
    let arguments = ["soak", "-d", "4s", "-t", "17", "--futures", "500", "--timers", "500", "--seed", "1", "--json"];
    let rows = rows_of(&printed(&arguments));
    let [row] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!((&row["workload"], &row["verdict"], &row["seed"]), (&"soak".into(), &"clean".into(), &1.into()));
    assert_eq!((row["findings"].as_array().map(Vec::len), number(row, "broken")), (Some(0), 0.0));
    assert_eq!(worlds(row).iter().map(|world| &world["world"]).collect::<Vec<_>>(), ["host", "jumping"]);
    for world in worlds(row) {
        let laws = world["laws"].as_array().expect("laws");
        assert!(laws.len() > 10 && laws.iter().all(|law| law["holds"] == true));
        let in_bounds = |law: &Value| (number(law, "least")..=number(law, "most")).contains(&number(law, "found"));
        assert!(laws.iter().all(in_bounds), "{laws:?}");
        for ranged in ["wakes at words whose futures were dropped", "bytes of the largest tables of a domain"] {
            let one = laws.iter().find(|law| law["law"].as_str().is_some_and(|name| name.starts_with(ranged)));
            assert!(one.is_some_and(|law| number(law, "most") > number(law, "least")), "{ranged} in {laws:?}");
        }
        for (name, count) in world["counts"].as_object().expect("counts") {
            assert!(PAGE.contains(&format!("`{name}`")), "docs/COMMAND.md does not say what {name} is");
            // The host's own clock stays as it is.
            let may_be_zero = RARE.contains(&&name[..]) || name == "clock_jumps" && world["world"] == "host";
            assert!(may_be_zero || count.as_u64() > Some(0), "{name} in {world}");
        }
    }
    let memory = &row["memory"];
    // Not each C library says how large its heap is.
    let expected = usize::from(memory["heap_before"].is_null());
    assert_eq!(memory["unchecked"].as_array().map(Vec::len), Some(expected), "{memory}");
    assert!(expected == 0 || memory["unchecked"].to_string().starts_with("[\"the heap, because"), "{memory}");
    for key in ["resident_after_a_tenth", "resident_at_the_end", "resident_more_allowed", "heap_more_allowed"] {
        assert!(number(memory, key) > 0.0, "{key} in {memory}");
    }
}

#[test]
fn table_has_the_laws_and_the_verdict_below_it() {
    let text = printed(&["soak", "-s", "-d", "0.2", "-t", "16", "--futures", "1", "--timers", "1"]);
    assert!(text.contains("## soak") && text.contains("| balls thrown") && text.contains("--seed "), "{text}");
    assert!(text.contains("| wakes of the crowd that were received") && text.contains("| holds |"), "{text}");
    // In so short a run the threads may not have made all timers at its end.
    let last = text.trim_end();
    let (flat, unchecked) = (", and memory is flat.", ".\nNot checked: the resident set, because the threads");
    let heap = ".\nNot checked: the heap, because";
    assert!(last.ends_with(flat) || last.contains(unchecked) || last.contains(heap), "{text}");
}

#[test]
fn the_first_line_has_the_seed_and_progress_begins_with_the_time() {
    let arguments = ["soak", "-d", "0.5", "-t", "16", "--futures", "1", "--timers", "1", "--seed", "9"];
    let said = text(&ufutex(&arguments).stderr);
    let mut lines = said.lines();
    assert_eq!(lines.next(), Some("ufutex: soak: 16 threads, 1 futures, 1 timers, 0.5 s, --seed 9"), "{said}");
    let lines: Vec<_> = lines.collect();
    assert!(lines.last().is_some_and(|line| line.starts_with("ufutex: 0.5 s of 0.5 s: ")), "{said}");
    assert!(lines.iter().all(|line| line.contains(" of 0.5 s: ") && line.ends_with(" MiB resident")), "{said}");
}

#[test]
fn help_has_the_bounds_of_each_option_and_short_times_have_a_decimal() {
    let help = printed(&["soak", "--help"]);
    for bounds in ["seconds above 0", "up to 168h", "16 to 16384", "1 to 1000000"] {
        assert!(help.contains(bounds), "{bounds} in {help}");
    }
    let text = printed(&["soak", "-s", "-d", "0.5", "-t", "16", "--futures", "1", "--timers", "1"]);
    assert!(text.starts_with("## soak\n\n0."), "{text}");
}

#[test]
fn a_thread_that_cannot_be_started_is_reported_with_what_limits_their_number() {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_ufutex"));
    command.args(["soak", "-s", "-d", "1", "-t", "16", "--futures", "1", "--timers", "1"]);
    // A stack for which there are no addresses.
    let output = command.env("RUST_MIN_STACK", (1_u64 << 50).to_string()).output().expect("the program starts");
    let line = text(&output.stderr);
    assert_eq!((output.status.code(), line.lines().count()), (Some(1), 1), "{line}");
    assert!(
        line.contains(": it would have been number 1 (16 by --threads, ") && line.contains("a smaller --threads"),
        "{line}"
    );
}

#[test]
fn mistakes_are_one_line_that_names_what_is_accepted() {
    assert_mistakes(
        &["soak"],
        &[
            (
                &["-d", "10d"],
                "--duration '10d' is not accepted; accepted: seconds above 0, or a time such as 90s, 10m or 1h",
            ),
            (&["-d", "0"], "--duration '0'"),
            (&["-d", "nan"], "--duration 'nan'"),
            (&["-d", "-1"], "--duration '-1'"),
            (&["-d", "169h"], "up to 168h"),
            (&["-t", "15"], "--threads '15' is not accepted; accepted: 16 to 16384 threads"),
            (&["--futures", "0"], "--futures '0' is not accepted; accepted: 1 to 1000000"),
            (&["--timers", "many"], "--timers 'many'"),
            (&["--seed", "x"], "--seed 'x'"),
        ],
    );
}
