//! `ufutex locks` on programs in which a culprit was planted.
#![cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]

mod languages;
#[path = "../../../ufutex/tests/common/skipped.rs"]
mod skipped;
mod terminal;

use serde_json::Value;
use skipped::skip;
use std::collections::HashSet;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;
use std::time::Duration;

const UFUTEX: &str = env!("CARGO_BIN_EXE_ufutex");

/// The program `planted.c`, compiled once in each run.
static PLANTED: LazyLock<PathBuf> = LazyLock::new(|| compiled(&["-g"]));

fn compiled(more: &[&str]) -> PathBuf {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/locks/planted.c");
    let name = format!("locks-planted-{}{}", std::process::id(), more.concat());
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    // A function whose last act is a call has no frame during that call.
    let flags =
        ["-std=gnu11", "-O2", "-fno-optimize-sibling-calls", "-Wall", "-Wextra", "-Werror", "-pthread", source, "-o"];
    let mut command = Command::new("cc");
    let compiled = command.args(flags).arg(&program).args(more).status().expect("cc, which Rust links with, too");
    assert!(compiled.success());
    program
}

fn locks(options: &[&str], program: &Path, shape: &str) -> Output {
    let mut command = Command::new(UFUTEX);
    command.arg("locks").args(options).arg("--").arg(program).arg(shape).stdin(Stdio::null());
    command.env_remove("LD_PRELOAD").env_remove("UFUTEX_PRELOAD").env_remove("UFUTEX_RUN").output().expect("it starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// The lines of `--json`.
fn words(program: &Path, shape: &str) -> Vec<Value> {
    let output = locks(&["--json"], program, shape);
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    let lines = text(&output.stderr);
    lines.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"))).collect()
}

#[track_caller]
fn number(of: &Value, key: &str) -> f64 {
    of[key].as_f64().unwrap_or_else(|| panic!("{key} in {of}"))
}

fn stack(of: &Value) -> String {
    of["stack"]
        .as_array()
        .expect("a stack")
        .iter()
        .map(|frame| frame.as_str().expect("text"))
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn lock_on_the_heap_is_named_by_where_it_is_locked() {
    let words = words(&PLANTED, "heap");
    let pool = &words[0];
    let orders = words.iter().find(|word| word["name"] == "orders_lock").unwrap_or_else(|| panic!("{words:?}"));
    let name = pool["name"].as_str().expect("a name");
    assert!(name.starts_with("mutex in take at planted.c:"), "{name}");
    assert_eq!((&pool["kind"], &orders["kind"]), (&"mutex".into(), &"mutex".into()));
    // Six threads hold it for 4 ms by turns, 20 times each, or longer on a busy machine. Each waits for the others.
    let waited = number(pool, "total_ns");
    assert!(waited >= 1.2e9, "{pool}");
    assert_eq!(number(pool, "waiters_most"), 5.0);
    let site = &pool["sites"][0];
    let stack = stack(site);
    assert!(stack.contains("take at planted.c:") && stack.contains("worker at planted.c:"), "{stack}");
    let waker = site["wakers"][0]["stack"].to_string();
    assert!(waker.contains("take at planted.c:"), "{waker}");
    let owners = pool["owners"].as_array().expect("owners");
    assert_eq!(owners.len(), 6, "{pool}");
    let held: f64 = owners.iter().map(|owner| number(owner, "held_ns")).sum();
    assert!((0.4e9..waited / 2.0).contains(&held), "120 times 4 ms, for which several waited: {pool}");
    for owner in owners {
        let thread = owner["thread"].as_str().expect("a name");
        assert!(
            ["red (", "green (", "blue (", "cyan (", "black (", "white ("].iter().any(|name| thread.starts_with(name))
        );
        assert!(owner["taken_at"].to_string().contains("take at planted.c:"), "{owner}");
    }
}

/// Locks of which the kernel has the waiters.
#[test]
fn shared_robust_and_inheriting_locks_have_waiters_wakers_and_owners() {
    for shape in ["shared", "robust", "pi"] {
        let words = words(&PLANTED, shape);
        let pool = &words[0];
        assert!(pool["name"].as_str().is_some_and(|name| name.starts_with("mutex in take at planted.c:")), "{words:?}");
        // A thread to which a lock with inheritance was handed over waits until it runs.
        let most = number(pool, "waiters_most");
        assert!(pool["is_lock"] == true && (most == 3.0 || shape == "pi" && most == 4.0), "{shape}: {pool}");
        let ended_by = |waker: &Value| {
            assert!(waker["stack"].to_string().contains("take at planted.c:"), "{shape}: {waker}");
            number(waker, "waits")
        };
        let sites = pool["sites"].as_array().expect("sites");
        let wakers = sites.iter().flat_map(|site| site["wakers"].as_array().expect("wakers"));
        let (ended, wakes) = (wakers.map(ended_by).sum::<f64>(), number(pool, "wakes"));
        // A lock may be free when a thread that was going to wait looks again: nobody has woken that one.
        assert!(wakes > 0.0 && ended >= 0.8 * wakes, "{shape}: {ended} of {wakes}: {pool}");
        let owners = pool["owners"].as_array().expect("owners");
        let held: f64 = owners.iter().map(|owner| number(owner, "held_ns")).sum();
        // Four threads hold it for 4 ms, ten times each. For the one that comes last nobody may wait.
        assert!(owners.len() >= 3 && (0.1e9..number(pool, "total_ns")).contains(&held), "{shape}: {pool}");
    }
}

#[test]
fn wait_for_a_thread_that_waits_for_a_lock_is_a_deadlock() {
    let lines = hung("joins");
    let cycle = lines.iter().find_map(|line| line["deadlock"].as_array()).unwrap_or_else(|| panic!("{lines:?}"));
    let joined = cycle.iter().find(|one| one["thread"].as_str().is_some_and(|name| name.starts_with("joined (")));
    let joined = joined.unwrap_or_else(|| panic!("{cycle:?}"));
    assert!(joined["waits_for"].as_str().is_some_and(|name| name.starts_with("first")), "{joined}");
    let joins = cycle.iter().find(|one| one["held_by"] == joined["thread"]).unwrap_or_else(|| panic!("{cycle:?}"));
    assert!(cycle.len() == 2 && stack(joins).contains("joins at planted.c:"), "{cycle:?}");
}

#[test]
fn wait_with_a_timeout_is_no_deadlock() {
    let lines = hung("joins-for-a-time");
    assert!(lines.iter().all(|line| line["deadlock"].is_null()), "{lines:?}");
    let waiting = lines.iter().find_map(|line| line["waiting"].as_array()).expect("waiting threads");
    assert_eq!(waiting.len(), 2, "{waiting:?}");
}

#[test]
fn lock_of_a_handler_that_interrupts_a_join_is_a_lock() {
    let lines = hung("joins-interrupted");
    let cycle = lines.iter().find_map(|line| line["deadlock"].as_array()).unwrap_or_else(|| panic!("{lines:?}"));
    let mut locks: Vec<_> = cycle.iter().filter_map(|one| one["waits_for"].as_str()?.split(' ').next()).collect();
    locks.sort_unstable();
    assert_eq!(locks, ["first", "second"], "{cycle:?}");
}

/// As on a machine on which glibc's debug information is not installed.
#[test]
fn joins_and_robust_locks_are_known_without_names_of_glibcs_own_functions() {
    for (shape, kind) in [("joins", "joins at planted.c:"), ("robust-abba", "lock_both at planted.c:")] {
        let ufutex = env!("CARGO_BIN_EXE_ufutex");
        let script = r#"mkdir -p /usr/lib/debug && mount -t tmpfs none /usr/lib/debug || exit 77
            exec "$0" locks --json --hang 1 -- "$@""#;
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--mount", "sh", "-c", script, ufutex]).arg(&*PLANTED).arg(shape);
        let output = command.env_remove("LD_PRELOAD").stdin(Stdio::null()).output().expect("unshare runs");
        if [Some(1), Some(77)].contains(&output.status.code()) {
            return skip(format!("unshare(1) cannot mount here: {}", text(&output.stderr).trim()));
        }
        let lines = text(&output.stderr);
        let lines: Vec<Value> = lines.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let cycle = lines.iter().find_map(|line| line["deadlock"].as_array()).unwrap_or_else(|| panic!("{lines:?}"));
        assert!(cycle.len() == 2 && cycle.iter().any(|one| stack(one).contains(kind)), "{cycle:?}");
    }
}

#[test]
fn owner_that_never_waits_is_known() {
    let words = words(&PLANTED, "holds");
    let first = words.iter().find(|word| word["name"] == "first").unwrap_or_else(|| panic!("{words:?}"));
    let owner = &first["owners"][0];
    assert!(owner["thread"].as_str().is_some_and(|name| name.starts_with("locks-planted")), "{first}");
    assert!(number(owner, "held_ns") >= 0.1e9, "{first}");
}

#[test]
fn threads_that_outlive_the_first_one_are_seen() {
    let words = words(&PLANTED, "leader-ends");
    let orders = words.iter().find(|word| word["name"] == "orders_lock").unwrap_or_else(|| panic!("{words:?}"));
    // Four threads lock it 20 times each, and hold it for a millisecond.
    assert!(number(orders, "waits") >= 30.0 && stack(&orders["sites"][0]).contains("order at planted.c:"), "{orders}");
}

#[test]
fn program_whose_child_computes_does_not_hang() {
    let output = locks(&["--hang", "1"], &PLANTED, "child-computes");
    assert_eq!(output.status.code(), Some(7), "{output:?}");
}

#[test]
fn no_call_is_made_for_a_program_in_a_sandbox_that_it_does_not_make_itself() {
    let output = locks(&[], &PLANTED, "sandbox");
    assert_eq!(output.status.code(), Some(7), "{output:?}");
}

#[test]
fn wait_for_two_words_counts_for_the_one_that_ends_it() {
    let words = words(&PLANTED, "any");
    let of = |part: &str| words.iter().find(|word| word["name"].as_str().is_some_and(|name| name.contains(part)));
    let second = of("any_of+0x4").unwrap_or_else(|| panic!("{words:?}"));
    assert_eq!(["waits", "wakes", "waiters_most"].map(|key| number(second, key)), [3.0, 3.0, 1.0], "{second}");
    assert!(words.iter().all(|word| word["name"] != "any_of"), "no wait has ended for the first one: {words:?}");
}

#[test]
fn stacks_that_differ_only_in_a_caller_are_told_apart() {
    let words = words(&PLANTED, "callers");
    let word = words.iter().find(|word| word["name"] == "unwoken").unwrap_or_else(|| panic!("{words:?}"));
    let sites = word["sites"].as_array().expect("sites");
    let from = |caller: &str| -> f64 {
        let of_caller = sites.iter().filter(|site| stack(site).contains(&format!("{caller} at planted.c:")));
        of_caller.map(|site| number(site, "waits")).sum()
    };
    // Two threads wait 20 times from each.
    assert_eq!((from("by_left"), from("by_right"), number(word, "waits")), (40.0, 40.0, 80.0), "{word}");
}

#[test]
fn stack_of_a_handler_goes_on_in_what_it_has_interrupted() {
    let words = words(&PLANTED, "handlers");
    let word = words.iter().find(|word| word["name"] == "unwoken").unwrap_or_else(|| panic!("{words:?}"));
    let sites = word["sites"].as_array().expect("sites");
    let whole = sites.iter().filter(|site| {
        let stack = stack(site);
        ["on_signal at", "is_interrupted at", "waits_in_handlers at"].iter().all(|frame| stack.contains(frame))
    });
    assert_eq!(whole.map(|site| number(site, "waits")).sum::<f64>(), 20.0, "{word}");
}

#[test]
fn writer_is_named_as_the_holder_of_a_rwlock() {
    let words = words(&PLANTED, "rwlock");
    let table = words.iter().find(|word| word["name"].as_str().is_some_and(|name| name.starts_with("table_lock")));
    let table = table.unwrap_or_else(|| panic!("{words:?}"));
    assert_eq!(table["kind"], "rwlock");
    assert!(table["owners"][0]["thread"].as_str().is_some_and(|name| name.starts_with("writer (")), "{table}");
}

#[test]
fn program_without_symbols_has_file_and_offset() {
    let words = words(&compiled(&["-s"]), "rwlock");
    let stack = words.iter().map(|word| stack(&word["sites"][0])).collect::<String>();
    assert!(stack.contains("pthread_rwlock_rdlock") && stack.contains("\nlocks-planted-"), "{stack}");
    assert_eq!(words[0]["kind"], "rwlock");
}

/// Runs a program that hangs.
fn hung(shape: &str) -> Vec<Value> {
    let output = locks(&["--json", "--hang", "1"], &PLANTED, shape);
    assert_eq!(output.status.code(), Some(124), "{output:?}");
    let lines = text(&output.stderr);
    lines.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn cycle(lines: &[Value]) -> Vec<(String, String, String)> {
    let cycle = lines.iter().find_map(|line| line["deadlock"].as_array()).unwrap_or_else(|| panic!("{lines:?}"));
    let name = |of: &Value| of.as_str().unwrap_or_default().split(' ').next().unwrap_or_default().to_string();
    let mut cycle: Vec<_> = cycle
        .iter()
        .map(|one| {
            assert!(
                stack(one).contains("lock_both at planted.c:") && stack(one).contains("crosses at planted.c:"),
                "{one}"
            );
            assert!(number(one, "waited_ns") >= 1e9, "{one}");
            (name(&one["thread"]), name(&one["waits_for"]), name(&one["held_by"]))
        })
        .collect();
    cycle.sort();
    cycle
}

fn of(expected: &[(&str, &str, &str)]) -> Vec<(String, String, String)> {
    expected.iter().map(|(thread, lock, holder)| (thread.to_string(), lock.to_string(), holder.to_string())).collect()
}

#[test]
fn deadlock_of_two_locks_is_named_with_both_threads() {
    assert_eq!(cycle(&hung("abba")), of(&[("one", "second", "two"), ("two", "first", "one")]));
}

#[test]
fn deadlock_of_three_locks_is_named_with_its_threads() {
    assert_eq!(
        cycle(&hung("three")),
        of(&[("one", "second", "two"), ("three", "first", "one"), ("two", "third", "three")])
    );
}

#[test]
fn lost_wake_up_is_a_thread_that_waits_for_a_condition_variable_that_nobody_signals() {
    let lines = hung("lost");
    assert!(lines.iter().all(|line| line["deadlock"].is_null()), "{lines:?}");
    let waiting = lines.iter().find_map(|line| line["waiting"].as_array()).expect("waiting threads");
    let waits = waiting.iter().find(|one| one["thread"].as_str().is_some_and(|name| name.starts_with("waits (")));
    let waits = waits.unwrap_or_else(|| panic!("{waiting:?}"));
    assert!(waits["waits_for"].as_str().is_some_and(|name| name.starts_with("arrived")), "{waits}");
    assert!(stack(waits).contains("waits_for_arrival at planted.c:"), "{waits}");
}

#[test]
fn table_is_for_people_and_begins_with_the_culprit() {
    let output = locks(&[], &PLANTED, "heap");
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(7), "120\n"));
    let table = text(&output.stderr);
    let first = table.lines().skip_while(|line| !line.contains("longest")).nth(1).unwrap_or_default();
    assert!(first.contains("mutex in take at planted.c:"), "{table}");
}

#[test]
fn stacks_are_folded_for_flame_graphs() {
    let output = locks(&["--folded"], &PLANTED, "heap");
    let lines = text(&output.stderr);
    let (stack, ns) = lines.lines().next().and_then(|line| line.rsplit_once(' ')).expect("a stack and a number");
    let frames: Vec<&str> = stack.split(';').collect();
    let place = |part: &str| {
        frames.iter().position(|frame| frame.starts_with(part)).unwrap_or_else(|| panic!("{part} in {stack}"))
    };
    // What starts a thread has a name only with debug information of glibc.
    assert!(place("worker at planted.c:") > 0 && place("worker") < place("take at planted.c:"), "{stack}");
    assert!(frames.last().is_some_and(|name| name.starts_with("mutex in take at planted.c:")), "{stack}");
    assert!(ns.parse::<u64>().is_ok_and(|ns| ns > 1_000_000_000), "{ns}");
}

#[test]
fn pprof_names_the_culprit_and_its_time() {
    let file = temporary("pb.gz");
    let output = locks(&["--pprof", "-o", file.to_str().expect("UTF-8")], &PLANTED, "heap");
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    let mut command = Command::new("go");
    command.args(["tool", "pprof", "-top", "-cum", "-unit=ns", "-tagfocus=lock=mutex in take at planted.c"]).arg(&file);
    let top = match command.output() {
        Err(error) if error.kind() == ErrorKind::NotFound => return skip("go, with its pprof, is not installed"),
        top => top.expect("go starts"),
    };
    let (top, said) = (text(&top.stdout), text(&top.stderr));
    assert!(top.contains("Type: delay\n") && said.is_empty(), "{top}{said}");
    let culprit = top.lines().find(|line| line.ends_with("%  take"));
    // flat, of all, sum of these, cum, of all, name
    let cum = culprit.and_then(|line| line.split_whitespace().nth(3)?.strip_suffix("ns")?.parse::<f64>().ok());
    assert!(cum.is_some_and(|ns| ns >= 1.2e9), "{top}{said}");
    // The line that says what is in the file: of the waits that pprof adds up.
    let line = text(&output.stderr);
    let (sum, rest) = line.split_once(", first lock: mutex in take at planted.c:").unwrap_or_else(|| panic!("{line}"));
    assert!(rest.ends_with(&format!("; the report is in {}\n", file.display())), "{line}");
    let sum = sum.split_once(" waits, ").and_then(|(_, rest)| rest.split_once(" s in all, for "));
    let seconds: f64 = sum.and_then(|(seconds, _)| seconds.parse().ok()).unwrap_or_else(|| panic!("{line}"));
    let all = top.lines().find_map(|line| line.split_once("% of ")?.1.strip_suffix("ns total")?.parse::<f64>().ok());
    let ratio = all.unwrap_or_else(|| panic!("{top}")) / 1e9 / seconds;
    assert!((0.99..1.01).contains(&ratio), "{line}{top}");
}

#[test]
fn pprof_needs_a_file() {
    let output = locks(&["--pprof"], &PLANTED, "heap");
    let line = text(&output.stderr);
    assert!(output.status.code() == Some(2) && line.contains("accepted: --pprof -o FILE"), "{line}");
}

/// Runs a program that waits once for each of its words. Returns the objects, what was said, and the most memory that the command
/// took, in KiB.
#[expect(clippy::zombie_processes, reason = "wait4 waits for it")]
fn visited(shape: &str, limit: &str) -> (Vec<Value>, String, i64) {
    let file = temporary(&format!("{shape}-{limit}"));
    let mut command = Command::new(UFUTEX);
    command.args(["locks", "--json", "--limit", limit, "-o"]).arg(&file).arg("--").arg(&*PLANTED).arg(shape);
    let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
    let said = std::io::read_to_string(child.stderr.take().expect("a pipe")).expect("UTF-8");
    // SAFETY: all zeroes are a valid `rusage`.
    let (mut status, mut used) = (0, unsafe { std::mem::zeroed::<libc::rusage>() });
    // SAFETY: our own child, which has not been waited for. Stores into both.
    let waited = unsafe { libc::wait4(child.id() as i32, &raw mut status, 0, &raw mut used) };
    assert!(waited == child.id() as i32 && libc::WEXITSTATUS(status) == 7, "{said}");
    let lines = std::fs::read_to_string(file).expect("the words");
    (lines.lines().map(|line| serde_json::from_str(line).expect("an object")).collect(), said, used.ru_maxrss)
}

#[test]
fn more_words_than_the_limit_are_counted_and_take_no_memory() {
    let (objects, said, many_kib) = visited("many", "200");
    let dropped = &objects.last().expect("an object")["dropped"];
    let kept: f64 = objects.iter().filter_map(|word| word["waits"].as_f64()).sum();
    assert!((1.0..=200.0).contains(&kept), "each word has one site with one wait: {kept}");
    assert_eq!(kept + number(dropped, "waits"), 40_000.0, "{said}");
    assert!(number(dropped, "total_ns") > 0.0, "{dropped}");
    assert!(said.contains(&format!("{} more waits of ", dropped["waits"])) && said.contains("--limit"), "{said}");
    let (objects, said, few_kib) = visited("few", "400");
    assert!(objects.len() == 400 && objects.iter().all(|word| word["dropped"].is_null()), "{objects:?}");
    assert!(!said.contains("--limit"), "{said}");
    // The ring, of which the first run uses more, is 2 MiB. 40,000 sites would take 80 MiB.
    assert!(many_kib < few_kib + (24 << 10), "{many_kib} KiB for 40,000 words, {few_kib} KiB for 400");
    let table = text(&locks(&["--limit", "1"], &PLANTED, "few").stderr);
    assert!(table.contains("399 more waits of "), "{table}");
}

#[test]
fn children_are_seen_if_that_is_asked_for() {
    let names = |options: &[&str]| {
        let output = locks(&[&["--json"], options].concat(), &PLANTED, "child");
        assert_eq!(output.status.code(), Some(7), "{output:?}");
        let lines = text(&output.stderr);
        let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
        lines.iter().map(|line| line["name"].as_str().expect("a name").to_string()).collect::<Vec<_>>()
    };
    assert!(names(&[]).iter().all(|name| !name.contains("take")), "the parent has only one thread");
    assert!(names(&["-f"])[0].starts_with("mutex in take at planted.c:"));
}

#[test]
fn program_that_executes_another_is_seen_in_it() {
    let words = words(&PLANTED, "exec");
    assert!(words[0]["name"].as_str().is_some_and(|name| name.starts_with("mutex in take at planted.c:")), "{words:?}");
}

#[test]
fn sigusr1_asks_who_waits_and_the_program_goes_on() {
    let mut command = Command::new(UFUTEX);
    command.args(["locks", "--json", "--"]).arg(&*PLANTED).arg("lost");
    let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let lines = BufReader::new(child.stderr.take().expect("a pipe"));
    let id = child.id() as i32;
    // SAFETY: our own child, which has not been waited for.
    let send = |signal: i32| assert_eq!(unsafe { libc::kill(id, signal) }, 0);
    let asks = std::thread::spawn(move || {
        // Asks until the thread waits: nobody knows when it has got there.
        lines
            .lines()
            .map_while(Result::ok)
            .find_map(|line| {
                let line: Value = serde_json::from_str(&line).ok()?;
                line["waiting"].as_array()?.iter().find(|one| stack(one).contains("waits_for_arrival")).cloned()
            })
            .expect("the thread waits at last")
    });
    // A signal that comes before the handler is installed would end the command.
    while !catches_sigusr1(id) {
        std::thread::sleep(Duration::from_millis(10));
    }
    while !asks.is_finished() {
        send(libc::SIGUSR1);
        std::thread::sleep(Duration::from_millis(50));
    }
    let waits = asks.join().expect("a waiting thread");
    assert!(waits["waits_for"].as_str().is_some_and(|name| name.starts_with("arrived")), "{waits}");
    assert_eq!(child.try_wait().expect("our child"), None, "it goes on");
    send(libc::SIGTERM);
    child.wait().expect("it ends");
}

#[test]
fn program_goes_on_if_nobody_reads_its_records_and_what_is_missing_is_said() {
    let mut command = Command::new(UFUTEX);
    command.arg("locks").arg("--").arg(&*PLANTED).arg("hand-offs");
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let id = child.id() as i32;
    // SAFETY: our own child, which has not been waited for.
    let send = |signal: i32| assert_eq!(unsafe { libc::kill(id, signal) }, 0);
    // The handlers are there before the program is started, which waits for a byte.
    while !catches_sigusr1(id) {
        std::thread::sleep(Duration::from_millis(10));
    }
    while children(id) == 0 {
        std::thread::sleep(Duration::from_millis(10));
    }
    send(libc::SIGSTOP);
    child.stdin.take().expect("a pipe").write_all(b"b").expect("it reads");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
    assert_eq!(line, "done\n");
    send(libc::SIGCONT);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    assert!(text(&output.stderr).contains(" found no room: its figures are incomplete"), "{output:?}");
}

fn children(pid: i32) -> usize {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).expect("our child");
    children.split_whitespace().count()
}

fn catches_sigusr1(pid: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("our child");
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).expect("its signals");
    u64::from_str_radix(caught.trim(), 16).expect("a mask") >> (libc::SIGUSR1 - 1) & 1 != 0
}

/// Other work can come between the end of a call and the time that the library takes then. So one run of several has to agree.
#[test]
fn times_agree_with_those_of_strace_for_the_same_run() {
    let mut ratios = Vec::new();
    while ratios.len() < 5 {
        let Some((ours, by_strace)) = times_here_and_by_strace() else { return };
        ratios.push(ours / by_strace);
        if (0.95..1.05).contains(&(ours / by_strace)) {
            return;
        }
    }
    panic!("times here / by strace: {ratios:?}");
}

/// The time of all waits of one run, in nanoseconds. `None` if strace cannot trace here.
fn times_here_and_by_strace() -> Option<(f64, f64)> {
    let (calls, lines) = (temporary("strace"), temporary("json"));
    let mut command = Command::new("strace");
    command.args(["-f", "-T", "-e", "trace=futex", "-o"]).arg(&calls).arg(UFUTEX);
    command.args(["locks", "--json", "-o"]).arg(&lines).arg("--").arg(&*PLANTED).arg("heap").stdin(Stdio::null());
    match command.output() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            skip("strace is not installed");
            return None;
        }
        Ok(output) if output.status.code() == Some(7) => {}
        Ok(output) if text(&output.stderr).contains("PTRACE_TRACEME") => {
            skip("strace may not trace here");
            return None;
        }
        other => panic!("{other:?}"),
    }
    let calls = std::fs::read_to_string(calls).expect("the calls");
    let lines = std::fs::read_to_string(lines).expect("the words");
    let ours: f64 = lines.lines().map(|line| number(&serde_json::from_str(line).expect("an object"), "total_ns")).sum();
    // A call that takes long has two lines: where it begins, and where it is resumed with its time in seconds.
    let (mut began, mut all) = (HashSet::new(), 0.0);
    for line in calls.lines() {
        let (tid, call) = line.split_once(' ').expect("a TID");
        if call.contains("FUTEX_WAIT_BITSET") {
            began.insert(tid);
        }
        let time = call.strip_suffix('>').and_then(|call| call.rsplit_once('<')?.1.parse::<f64>().ok());
        if let Some(time) = time
            && began.remove(tid)
        {
            all += time * 1e9;
        }
    }
    Some((ours, all))
}

#[test]
fn waiters_that_are_moved_count_for_the_word_at_which_they_began() {
    let words = words(&PLANTED, "requeues");
    let word = words.iter().find(|word| word["name"] == "moved_from").unwrap_or_else(|| panic!("{words:?}"));
    assert_eq!(["requeues", "waits", "wakes"].map(|key| number(word, key)), [3.0; 3], "{word}");
}

#[test]
fn report_of_run_has_the_time_slept_for_each_word() {
    let file = temporary("stats");
    let mut command = Command::new(UFUTEX);
    command.args(["run", "--trap", "--json", "--output"]).arg(&file).arg("--").arg(&*PLANTED).arg("heap");
    assert_eq!(command.status().expect("it starts").code(), Some(7));
    let report: Value = serde_json::from_slice(&std::fs::read(&file).expect("a report")).expect("an object");
    let words = report["hottest"].as_array().expect("words");
    assert_eq!(words[0]["place"], "[heap]", "the lock that is held longest comes first: {words:?}");
    for word in words.iter().filter(|word| number(word, "waits") != 0.0) {
        let [waits, all, p99, longest] = ["waits", "waited_ns", "p99_ns", "longest_ns"].map(|key| number(word, key));
        assert!(waits <= number(word, "calls_at_most") && longest <= all && all <= waits * longest, "{word}");
        assert!(0.0 < p99 && p99 <= longest, "{word}");
    }
    assert!(number(&words[0], "waits") > 0.0);
    let mean = number(&words[0], "waiters_mean");
    assert!((1.0..=5.0).contains(&mean) && number(&words[0], "wakes") > 0.0, "{words:?}");
    // Six threads want it: one holds it, and the others wait.
    assert_eq!(number(&words[0], "waiters_most"), 5.0, "{words:?}");
}

#[test]
fn page_is_not_written_as_lines() {
    for option in ["--json", "--folded"] {
        let file = temporary("refused.html");
        let output = locks(&[option, "-o", file.to_str().expect("UTF-8")], &PLANTED, "heap");
        let line = text(&output.stderr);
        assert!(output.status.code() == Some(2) && line.contains(option) && line.contains("refused.html"), "{line}");
        assert!(!file.exists() && output.stdout.is_empty(), "the program was not run");
    }
}

#[test]
fn advice_names_the_lock_to_change_and_where() {
    let output = Command::new(UFUTEX).args(["advise", "--json", "--"]).arg(&*PLANTED).arg("heap").output();
    let output = output.expect("it starts");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let advice: Value = serde_json::from_slice(&output.stderr).expect("an object");
    let lock = &advice["figures"]["lock"];
    assert!(lock["name"].as_str().is_some_and(|name| name.starts_with("mutex in take at planted.c:")), "{lock}");
    let sentences = advice["sentences"].to_string();
    let place = lock["places"][0][0].as_str().expect("a place");
    assert!(place.starts_with("take at planted.c:"), "{place}");
    assert!(sentences.contains(&format!("waited in {place}: hold it for less time there")), "{sentences}");
}

fn temporary(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("locks-{}-{name}", std::process::id()))
}

#[test]
fn what_cannot_be_run_is_said_with_the_status_of_run() {
    for (program, status) in [("/nowhere/at/all", 127), ("/etc/passwd", 126)] {
        let output = locks(&[], Path::new(program), "");
        assert_eq!(output.status.code(), Some(status), "{output:?}");
    }
    let output = locks(&["-o", "/nowhere/at/all"], &PLANTED, "heap");
    let line = text(&output.stderr);
    assert!(output.status.code() == Some(125) && line.contains("/nowhere/at/all cannot be written"), "{line}");
}
