//! Hostile conditions: streams that cannot be written, files without an end, names with control sequences, programs
//! that do not react. No command may panic or hang, and each mistake prints one line.

mod common;

use common::{assert_mistake, text};
use std::fs::File;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Exit status of Rust's runtime after a panic.
const PANICKED: i32 = 101;

fn ufutex(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ufutex"));
    command.args(arguments).stdin(Stdio::null());
    command
}

fn full() -> File {
    File::options().write(true).open("/dev/full").expect("Linux has it")
}

/// A pipe whose read end is closed.
fn closed_pipe() -> std::io::PipeWriter {
    std::io::pipe().expect("a pipe").1
}

fn directory(test: &str) -> PathBuf {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("hostile-{test}-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory");
    directory
}

/// Commands that end quickly and print to both streams.
const TALKATIVE: [&[&str]; 4] = [
    &["bench", "hash", "-t", "1", "-r", "0.01", "--targets", "live"],
    &["bench", "schbench", "-t", "1", "-r", "0.1", "--targets", "live"],
    &["sim", "hash", "--cores", "1", "--schemes", "live", "-f", "16"],
    &["sim", "timers", "--cores", "1", "-n", "10", "--designs", "ours"],
];

#[test]
fn a_stderr_that_takes_nothing_is_no_reason_to_end() {
    for arguments in TALKATIVE {
        let status = ufutex(arguments).stdout(Stdio::null()).stderr(full()).status().expect("it starts");
        assert_eq!(status.code(), Some(0), "{arguments:?}");
        let status = ufutex(arguments).stdout(Stdio::null()).stderr(closed_pipe()).status().expect("it starts");
        assert_eq!(status.code(), Some(0), "{arguments:?}");
    }
    let status = ufutex(&["bnch"]).stderr(full()).status().expect("it starts");
    assert_eq!(status.code(), Some(2), "the status of a mistake that cannot be said");
}

#[test]
fn a_reader_that_has_gone_has_read_enough_and_a_full_disk_is_a_failure() {
    let others: [&[&str]; 3] = [&["man", "bench"], &["completions", "zsh"], &["bench", "--help"]];
    for arguments in TALKATIVE.into_iter().chain(others) {
        let status = ufutex(arguments).stdout(closed_pipe()).stderr(Stdio::null()).status().expect("it starts");
        assert_eq!(status.code(), Some(0), "{arguments:?}");
        if !arguments.contains(&"--help") {
            let output = ufutex(arguments).stdout(full()).output().expect("it starts");
            let said = text(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
            assert!(said.lines().last().is_some_and(|line| line.contains("No space left")), "{arguments:?}: {said}");
        }
    }
}

#[test]
fn a_verdict_that_cannot_be_printed_is_no_verdict() {
    let file = directory("verdict").join("rows");
    std::fs::write(&file, "{\"workload\":\"hash\",\"ops_per_sec\":5}\n").expect("a file");
    let file = file.to_str().expect("UTF-8");
    let output = ufutex(&["compare", file, file]).stdout(full()).output().expect("it starts");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("stdout cannot be written"));
    let status = ufutex(&["compare", file, file]).stdout(closed_pipe()).status().expect("it starts");
    assert_eq!(status.code(), Some(0), "a reader that has gone has read enough");
}

#[test]
fn control_characters_of_rows_do_not_reach_the_terminal() {
    let directory = directory("escapes");
    let [old, new] = [("old", 100), ("new", 10)].map(|(name, rate)| {
        let file = directory.join(name);
        let row = format!("{{\"workload\":\"h\\u001b[31ma\\nsh\\u009b\",\"ops_per_sec\":{rate}}}");
        std::fs::write(&file, row).expect("a file");
        file.display().to_string()
    });
    let output = common::ufutex(&["compare", &old, &new]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(!said.contains(|c: char| c.is_control() && c != '\n'), "{said:?}");
    assert_eq!(said.lines().filter(|line| line.starts_with('|')).count(), 3, "a row is one line: {said}");
}

#[test]
fn rows_without_results_and_rows_of_something_else_have_different_errors() {
    let file = directory("figures").join("rows");
    std::fs::write(&file, "{\"workload\":\"hash\",\"ops_per_sec\":\"many\"}").expect("a file");
    let file = file.to_str().expect("UTF-8");
    assert_mistake(&["compare", file, file], "has no results");
}

#[test]
fn a_machine_without_an_end_is_refused_and_so_is_one_with_commands_in_its_name() {
    assert_mistake(&["sim", "hash", "--topology", "/dev/zero"], "too large");
    let given = include_str!("../../coherence/topologies/here.toml");
    for line in ["name = \"he\\u001b[31mre\"", "name = \"two\\nlines\""] {
        let file = directory("machine").join("machine.toml");
        std::fs::write(&file, given.replace("name = \"here\"", line)).expect("a file");
        assert_mistake(&["sim", "hash", "--topology", file.to_str().expect("UTF-8")], "control characters");
    }
}

#[test]
fn a_workload_of_sim_may_stand_behind_flags_and_the_others_are_named() {
    let output = common::ufutex(&["sim", "--json", "timers", "--cores", "1", "-n", "10", "--designs", "ours"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).lines().all(|line| line.contains("\"workload\":\"timers\"")));
    assert_mistake(&["sim", "hush"], "timers, schbench, validate");
    assert_mistake(&["sim", "timers", "--layout", "lean"], "--designs");
    assert_mistake(&["bench", "hush"], "schbench");
    assert_mistake(&["bench", "schbench", "--nothing"], " -L");
    assert_mistake(&["--json"], "bench");
    assert_mistake(&["sim", "resize", "--from", "16", "--to", "16"], "--to '16' equals --from");
}

#[test]
fn unwritable_files_are_found_before_anything_is_measured() {
    assert_mistake(&["report", "-o", "/nowhere/at/all.html"], "/nowhere/at/all.html");
    assert_mistake(&["report", "-o", "x.html", "--json", "x.html"], "given twice");
}

/// Limits the address space as the shell's `ulimit -v` does.
#[test]
#[cfg(target_os = "linux")]
fn without_memory_it_ends_with_a_line_and_no_panic() {
    let cases: [(u32, &[&str]); 3] = [
        (150_000, &["sim", "hash", "--cores", "1", "--schemes", "live", "-b", "1048576", "-s"]),
        (300_000, &["bench", "schbench", "-F", "1048576", "-t", "2", "-r", "0.1", "--targets", "live", "--silent"]),
        // Stacks of virtual threads do not come from the allocator.
        (1_500_000, &["sim", "schbench", "-m", "64", "-t", "255", "--silent"]),
    ];
    for (kilobytes, arguments) in cases {
        let limited = format!("ulimit -v {kilobytes}; exec \"$0\" \"$@\"");
        let mut command = Command::new("sh");
        command.args(["-c", &limited, env!("CARGO_BIN_EXE_ufutex")]).args(arguments).env("RUST_BACKTRACE", "1");
        let output = command.output().expect("a shell");
        let said = text(&output.stderr);
        assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{arguments:?}: {said}");
    }
    assert_mistake(&["sim", "schbench", "-m", "64", "-t", "4096"], "--threads '4096'");
    assert_mistake(&["bench", "schbench", "-F", "1048576", "-t", "16384"], "--cache_footprint '1048576'");
}

/// These requests would take hours if they did not check for the end of the run.
#[test]
fn a_request_that_takes_hours_ends_with_the_run() {
    let run = ["bench", "schbench", "-t", "1", "-r", "0.2", "-n", "1000000", "--targets", "live", "--json"];
    for more in [&["-F", "32768"][..], &["-L"]] {
        let arguments = [&run[..], more].concat();
        let output = common::ufutex(&arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {output:?}");
        assert!(text(&output.stdout).contains("\"requests\":0"), "none was finished: {output:?}");
    }
}

#[test]
#[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
fn a_program_that_answers_no_signal_has_its_time_and_no_more_and_nothing_is_left_behind() {
    let directory = directory("deaf");
    let deaf = ["advise", "-d", "0.3", "--", "sh", "-c", "trap '' USR1 TERM INT; while :; do sleep 0.1; done"];
    let output = ufutex(&deaf).env("TMPDIR", &directory).output().expect("it starts");
    assert_ne!(output.status.code(), Some(PANICKED));
    assert!(matches!(output.status.code(), Some(0 | 125)), "{output:?}");
    let left: Vec<_> = std::fs::read_dir(&directory).expect("ours").flatten().collect();
    assert!(left.is_empty(), "{left:?}");
}
