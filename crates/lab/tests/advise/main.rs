//! `ufutex advise` on programs of known behaviour. Call rates differ between machines, so the assertions do not depend
//! on them, or the program calls without a pause.
#![cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]

#[path = "../../../ufutex/tests/common/skipped.rs"]
mod skipped;

use serde_json::Value;
use skipped::skip;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;

const UFUTEX: &str = env!("CARGO_BIN_EXE_ufutex");

/// The program `shapes.c`, compiled once in each run.
static SHAPES: LazyLock<PathBuf> = LazyLock::new(|| {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/advise/shapes.c");
    let program = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("advise-shapes-{}", std::process::id()));
    let flags = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", source, "-o"];
    let compiled = Command::new("cc").args(flags).arg(&program).status().expect("cc, which Rust links with, too");
    assert!(compiled.success());
    program
});

fn advise(arguments: &[&str]) -> Output {
    let mut command = Command::new(UFUTEX);
    command.arg("advise").args(arguments).stdin(Stdio::null());
    command.env_remove("LD_PRELOAD").env_remove("UFUTEX_PRELOAD").env_remove("UFUTEX_RUN").output().expect("it starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// The advice for a program that behaves as `shape`. Asserts that the program runs as it does without being watched.
fn advice(shape: &str, threads: &str, more: &[&str]) -> Value {
    let program = SHAPES.to_str().expect("UTF-8");
    let output = advise(&[more, &["--json", "--", program, shape, threads, "700"]].concat());
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(0), "done\n"), "{output:?}");
    let advice: Value = serde_json::from_slice(&output.stderr).expect("one object, and nothing else");
    assert_eq!(advice["ended"], "ended by itself with status 7");
    for sentence in advice["sentences"].as_array().expect("a list") {
        let text = sentence["text"].as_str().expect("text");
        for name in sentence["figures"].as_array().expect("a list") {
            let name = name.as_str().expect("text");
            assert!(!advice["figures"][name].is_null() && text.contains(name), "{name}: {text}");
        }
    }
    advice
}

fn figure(advice: &Value, name: &str) -> f64 {
    advice["figures"][name].as_f64().unwrap_or_else(|| panic!("{name} in {advice}"))
}

#[test]
fn two_threads_that_take_turns_are_fine_with_the_default() {
    let advice = advice("pairs", "2", &[]);
    assert_eq!((&advice["kernel"]["setting"], &advice["kernel"]["slots"]), (&"default".into(), &16.into()));
    assert_eq!((figure(&advice, "threads"), figure(&advice, "waiters")), (3.0, 2.0));
    assert!(figure(&advice, "calls") > 100.0 && figure(&advice, "wanted_slots") == 16.0, "{advice}");
}

#[test]
fn many_waiters_on_words_of_their_own_want_a_slot_each_on_the_kernel_too() {
    let advice = advice("crowd", "300", &[]);
    assert_eq!(figure(&advice, "threads"), 301.0);
    let waiters = figure(&advice, "waiters");
    assert!((200.0..=300.0).contains(&waiters) && figure(&advice, "words") == 300.0, "{advice}");
    let wanted = figure(&advice, "wanted_slots");
    assert!(wanted >= waiters && figure(&advice, "resizes") >= 1.0, "{advice}");
    if figure(&advice, "kernel_slots") * 4.0 <= waiters {
        assert_eq!(advice["kernel"]["setting"], "set-slots");
        assert_eq!(advice["kernel"]["slots"].as_f64(), Some(wanted));
        let command = advice["kernel"]["command"].as_str().expect("a command");
        assert!(command.starts_with(&format!("ufutex run --kernel --slots {wanted} -- /")), "{command}");
        assert!(command.ends_with(" crowd 300 700"), "{command}");
    }
}

#[test]
fn calls_on_many_words_that_differ_are_counted_with_their_words() {
    let spin = advice("spin", "2", &["--no-trap"]);
    assert!(figure(&spin, "words") == 128.0 && figure(&spin, "hottest_share") < 0.1, "{spin}");
    assert!(figure(&spin, "share_of_a_cpu") > 0.0 && spin["figures"]["words_exact"] == true, "{spin}");
    let mut one = advice("one", "2", &["--no-trap"]);
    assert!(figure(&one, "hottest_share") > 0.9, "{one}");
    // The kernel compares the word with the bucket locked, so a wait on a differing word contends for its bucket too.
    if std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() > 1) {
        // Beside other programs the two threads may not run at the same time in one run.
        for _ in 0..40 {
            if figure(&one, "contended") > 0.0 {
                break;
            }
            one = advice("one", "2", &["--no-trap"]);
        }
        assert!(figure(&one, "contended") > 0.0, "{one}");
    } else {
        skip("this process may use one CPU alone, and waits meet in buckets on two");
    }
}

#[test]
fn with_shared_words_only_no_setting_matters_by_any_kind_of_call() {
    for shape in ["shared", "pshared"] {
        let advice = advice(shape, "2", &[]);
        assert_eq!(advice["kernel"]["setting"], "none", "{shape}: {advice}");
        assert!(figure(&advice, "shared_calls") > 100.0, "{shape}: {advice}");
        assert_eq!((figure(&advice, "other_kernel_calls"), figure(&advice, "waiters")), (0.0, 0.0), "{shape}");
    }
}

#[test]
fn a_program_without_futexes_needs_nothing() {
    let output = advise(&["true"]);
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), &b""[..]));
    let said = text(&output.stderr);
    assert!(said.contains("Advice for 'true'") && said.contains("kernel: nothing to set"), "{said}");
    assert!(said.contains("made no futex call (calls 0, shared_calls 0)"), "{said}");
}

#[test]
fn programs_that_do_not_start_end_as_with_run() {
    for (program, status, line) in [
        ("/nowhere/x", 127, "ufutex: /nowhere/x does not exist"),
        ("no-such-program", 127, "ufutex: 'no-such-program' is not found in PATH"),
        ("/", 126, "ufutex: / "),
    ] {
        let output = advise(&["--json", program]);
        let said = text(&output.stderr);
        assert_eq!((output.status.code(), said.lines().count()), (Some(status), 1), "{said}");
        assert!(said.starts_with(line), "{said}");
    }
    let output = advise(&["-o", "/nowhere/advice", "true"]);
    assert_eq!(output.status.code(), Some(125));
    assert!(text(&output.stderr).starts_with("ufutex: /nowhere/advice cannot be written: "), "{output:?}");
}

#[test]
fn a_mistake_is_one_line_and_exits_2() {
    for (arguments, named) in [
        (&[][..], "no program given; accepted: ufutex advise"),
        (&["-d", "0", "true"], "--duration '0'"),
        (&["-d", "soon", "true"], "'soon'"),
        (&["-d"], "--duration"),
        (&["--slots", "2", "true"], "'--slots' is not accepted by 'ufutex advise'; accepted: PROGRAM, before it"),
    ] {
        let output = advise(arguments);
        let said = text(&output.stderr);
        assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{arguments:?}: {said}");
        assert!(said.contains(named) && said.contains("accepted"), "{arguments:?}: {said}");
    }
}

#[test]
fn when_its_time_is_over_a_program_is_ended_and_the_advice_is_of_that_time() {
    let program = SHAPES.to_str().expect("UTF-8");
    // `deaf` ignores SIGTERM.
    for shape in ["pairs", "deaf"] {
        let output = advise(&["-d", "0.4", "--json", "--", program, shape, "2", "600000"]);
        assert_eq!(output.status.code(), Some(0), "{shape}: {output:?}");
        let advice: Value = serde_json::from_slice(&output.stderr).expect("one object");
        assert_eq!(advice["ended"], "ended when its time was over");
        assert!(figure(&advice, "calls") > 10.0 && figure(&advice, "seconds") >= 0.4, "{advice}");
    }
}

#[test]
fn the_advice_goes_to_a_file_where_one_is_named() {
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("advice-{}", std::process::id()));
    let output = advise(&["--json", "-o", file.to_str().expect("UTF-8"), "sh", "-c", "echo out; echo err >&2; exit 3"]);
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(0), "out\n"));
    let said = text(&output.stderr);
    assert!(said.starts_with("ufutex: watching 'sh' for 5 s\n") && said.ends_with("err\n"), "{said}");
    let advice: Value = serde_json::from_str(&std::fs::read_to_string(&file).expect("written")).expect("one object");
    assert_eq!(advice["ended"], "ended by itself with status 3");
    std::fs::remove_file(&file).expect("our own file");
}

#[test]
fn help_names_every_status_and_every_field() {
    let output = advise(&["--help"]);
    let help = text(&output.stdout);
    let advice = advise(&["--json", "true"]);
    let advice: Value = serde_json::from_slice(&advice.stderr).expect("one object");
    let fields = [&advice, &advice["figures"], &advice["kernel"]].map(|object| object.as_object().expect("an object"));
    for field in fields.into_iter().flat_map(|object| object.keys()) {
        assert!(help.contains(field.as_str()), "{field}");
    }
    for status in ["  0    ", "  125  ", "  126  ", "  127  ", "  130  ", "  2    "] {
        assert!(help.contains(status), "{status}");
    }
    assert!(help.lines().all(|line| line.chars().count() <= 120), "{help}");
}
