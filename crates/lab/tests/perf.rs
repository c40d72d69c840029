//! Compares `bench … --format perf` with `perf bench futex …`: the lines are equal except for numbers and addresses.

mod common;

use common::skipped::skip;
use common::{assert_mistakes, printed, rows_of, text};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn bench(arguments: &[&str]) -> Output {
    let output = common::ufutex(&[&["bench"], arguments].concat());
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    output
}

/// Replaces each number by `N` and each address by `A`. Keeps everything else, including widths.
fn shape(output: &str) -> Vec<String> {
    output.lines().map(|line| words(line).collect::<Vec<_>>().join(" ")).collect()
}

fn words(line: &str) -> impl Iterator<Item = String> + '_ {
    line.split(' ').map(|word| {
        if let Some(address) = word.find("0x") {
            let end =
                word[address + 2..].find(|c: char| !c.is_ascii_hexdigit()).map_or(word.len(), |end| address + 2 + end);
            return format!("{}A{}", &word[..address], &word[end..]);
        }
        let mut shape = String::new();
        for c in word.chars() {
            match c {
                '0'..='9' | '.'
                    if shape.ends_with('N') && (c != '.' || word.contains(|c: char| c.is_ascii_digit())) => {}
                '0'..='9' => shape.push('N'),
                other => shape.push(other),
            }
        }
        shape
    })
}

/// Time limit for perf. If perf begins before all its threads sleep, as on a busy machine, it never ends.
const PERFS_TIME: Duration = Duration::from_secs(15);

/// The output of perf. `None` if there is no perf or it does not end: prints the reason on stderr.
fn perf(arguments: &[&str]) -> Option<String> {
    let mut command = Command::new("perf");
    let started = command.args(["bench", "futex"]).args(arguments).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut child = match started {
        Ok(child) => child,
        Err(error) => {
            skip(format_args!("no perf here (Debian's package linux-perf): {error}"));
            return None;
        }
    };
    let start = Instant::now();
    while child.try_wait().expect("perf is a child").is_none() {
        if start.elapsed() > PERFS_TIME {
            let _ = child.kill();
            let _ = child.wait();
            skip(format_args!("perf bench futex {arguments:?} has lost a thread of its own"));
            return None;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let output = child.wait_with_output().expect("perf's output");
    if !output.status.success() {
        skip(format_args!("perf bench futex {arguments:?} fails here"));
        return None;
    }
    Some(text(&output.stdout))
}

/// The number of decimals of each number: perf's precision is part of its format.
fn places(output: &str) -> Vec<usize> {
    let numbers = output.split(|c: char| !c.is_ascii_digit() && c != '.');
    numbers.filter_map(|number| Some(number.split_once('.')?.1.len())).filter(|places| *places > 0).collect()
}

/// Asserts that both print the same lines, with numbers of the same precision.
fn assert_perfs_lines(workload: &str, cases: &[&[&str]]) {
    for flags in cases {
        let arguments = [&[workload], *flags].concat();
        let Some(perfs) = perf(&arguments) else { continue };
        let ours = printed(&[&["bench"], &arguments[..], &["--format", "perf"]].concat());
        assert_eq!(shape(&ours), shape(&perfs), "{arguments:?}:\n{ours}\n{perfs}");
        assert_eq!(places(&ours), places(&perfs), "{arguments:?}:\n{ours}\n{perfs}");
    }
}

// A test for each workload, so that they run in parallel.

#[test]
fn the_lines_are_perfs_for_hash() {
    let one = ["-r", "1", "-t", "1", "-f", "1", "-S"];
    assert_perfs_lines("hash", &[&["-r", "1"], &["-r", "1", "-t", "3", "-f", "16", "-s"], &one]);
}

#[test]
fn the_lines_are_perfs_for_wake() {
    let long = ["--threads", "3", "--nwakes", "3", "--silent"];
    assert_perfs_lines("wake", &[&[], &["-t", "4", "-w", "2", "-S"], &long]);
}

#[test]
fn the_lines_are_perfs_for_wake_parallel() {
    assert_perfs_lines("wake-parallel", &[&[], &["-t", "4", "-w", "2"], &["-t", "4", "-w", "1", "-s", "-S"]]);
}

#[test]
fn the_lines_are_perfs_for_requeue() {
    assert_perfs_lines("requeue", &[&["-t", "5", "-q", "2"], &["-p", "-t", "4"], &["-B", "-t", "8", "-s"]]);
}

#[test]
fn the_lines_are_perfs_for_lock_pi() {
    assert_perfs_lines("lock-pi", &[&["-r", "1"], &["-r", "1", "-M", "-t", "3"]]);
}

/// The numbers that follow `after`, from all lines that contain it.
fn numbers(printed: &str, after: &str) -> Vec<f64> {
    let number = |line: &str| line.split_once(after)?.1.split([' ', 'm']).find(|word| !word.is_empty())?.parse().ok();
    printed.lines().filter_map(number).collect()
}

#[test]
fn the_last_line_has_the_mean_of_those_before_it() {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    for workload in ["hash", "lock-pi"] {
        let printed = text(&bench(&[workload, "--format", "perf", "-r", "0.2", "-t", "3"]).stdout);
        let (threads, averaged) = (numbers(&printed, " [ "), numbers(&printed, "Averaged "));
        assert_eq!((threads.len(), averaged.len()), (3, 1), "{printed}");
        assert!((mean(&threads) - averaged[0]).abs() <= 1.0, "{printed}");
    }
    for workload in ["wake", "wake-parallel", "requeue"] {
        let printed = text(&bench(&[workload, "--format", "perf", "--repeat", "7", "-t", "4"]).stdout);
        let mut times = numbers(&printed, " in ");
        let all = times.pop().expect("the last line");
        assert_eq!(times.len(), 7, "{printed}");
        assert!((mean(&times) - all).abs() <= 0.0002, "all have four decimal places: {printed}");
    }
}

#[test]
fn flags_decide_how_long_how_often_and_how_many_at_a_time() {
    let long = text(&bench(&["hash", "--format", "perf", "-r", "1.2", "-t", "1"]).stdout);
    assert!(long.ends_with("total secs = 1\n"), "{long}");
    let wake = text(&bench(&["wake", "--format", "perf", "--repeat", "3", "-t", "4", "-w", "3"]).stdout);
    assert!(wake.contains("waking up 3 at a time.") && wake.matches("[Run ").count() == 3, "{wake}");
    let requeue = text(&bench(&["requeue", "--format", "perf", "--repeat", "3", "-t", "4", "-q", "3"]).stdout);
    assert!(requeue.contains(", 3 at a time.") && requeue.matches("[Run ").count() == 3, "{requeue}");
}

#[test]
fn shapes_tell_lines_apart() {
    assert_eq!(shape("[Run 10]: 0.0049 ms (+-3.55%)"), ["[Run N]: N ms (+-N%)"]);
    assert_eq!(shape("futex 0x55f, (1+12) at."), ["futex A, (N+N) at."]);
    assert_ne!(shape("[thread  0] x"), shape("[thread 0] x"));
    assert_eq!(places("in 0.0050 ms (+-3.5%), 2 of 2."), [4, 1]);
}

#[test]
fn every_target_runs_all_five_in_perfs_format() {
    let quick = ["--format", "simple", "-r", "0.1", "--repeat", "2", "-t", "2"];
    for workload in ["hash", "wake", "wake-parallel", "requeue", "lock-pi"] {
        let targets = if matches!(workload, "requeue" | "lock-pi") {
            "live,fixed,atomic,percpu,global,kernel"
        } else {
            "live,fixed,atomic,percpu,global,kernel,parking_lot"
        };
        let output = bench(&[&[workload, "--targets", targets], &quick[..]].concat());
        let count = targets.split(',').count();
        assert_eq!(text(&output.stdout).matches("Run summary [PID ").count(), count, "{workload}");
        for target in targets.split(',') {
            assert!(text(&output.stderr).contains(&format!("target {target}\n")), "{workload}, {target}");
        }
    }
}

#[test]
fn buckets_are_printed_as_by_newer_perfs() {
    let told = |buckets: &str, targets: &str| {
        let arguments = ["hash", "-r", "0.1", "-t", "1", "--format", "perf", "-b", buckets, "--targets", targets];
        text(&bench(&arguments).stdout).lines().last().unwrap_or_default().to_string()
    };
    assert_eq!(told("64", "live"), "Futex hashing: 64 hash buckets");
    assert_eq!(told("0", "live"), "Futex hashing: global hash");
    assert_eq!(told("0", "kernel"), "Futex hashing: global hash");
    let immutable = text(&bench(&["hash", "-r", "0.1", "-t", "1", "--format", "perf", "-b", "64", "-I"]).stdout);
    assert!(immutable.ends_with("Futex hashing: 64 hash buckets (immutable)\n"), "{immutable}");
}

#[test]
fn without_a_workload_all_five_run_as_with_perfs_all() {
    let printed = printed(&["bench", "--format", "perf", "-r", "0.1", "--repeat", "1", "-t", "2", "-s"]);
    let headers: Vec<_> = printed.lines().filter(|line| line.starts_with("# Running ")).collect();
    let names = ["hash", "wake", "wake-parallel", "requeue", "lock-pi"];
    assert_eq!(headers, names.map(|name| format!("# Running futex/{name} benchmark...")));
}

#[test]
fn wake_with_w_wakes_sleepers_on_every_target() {
    let rows = rows_of(&printed(&["bench", "wake", "-w", "3", "-t", "7", "--repeat", "3", "--json"]));
    assert_eq!(rows.len(), 7);
    for row in &rows {
        assert_eq!((&row["workload"], &row["nwakes"], &row["threads"]), (&"wake".into(), &3.into(), &7.into()));
        assert!(row["ns_per_op"]["median"].as_f64() > Some(0.0), "{row}");
    }
}

#[test]
fn flags_that_do_not_fit_perfs_format_are_refused_in_one_line() {
    let cases: &[(&[&str], &str)] = &[
        (&["resize", "--format", "perf"], "--format"),
        (&["hash", "--format", "perf", "--json"], "--json"),
        (&["hash", "--format", "perf", "-t", "1,2"], "'2'"),
        (&["hash", "--format", "xml"], "xml"),
        (&["hash", "-b", "4,8"], "'4,8'"),
        (&["hash", "-I"], "--immutable"),
        (&["resize", "-I"], "'-I'"),
        (&["wake-parallel", "-w", "3", "-t", "4", "--format", "perf"], "'3'"),
    ];
    assert_mistakes(&["bench"], cases);
}

#[test]
fn a_target_that_cannot_run_a_workload_is_refused_before_another_is_measured() {
    for (flags, name) in [
        (&["wake", "--targets", "live,floor"][..], "floor"),
        (&["lock-pi", "--targets", "live,parking_lot"], "parking_lot"),
        (&["requeue", "--targets", "live,parking_lot"], "parking_lot"),
    ] {
        let output = common::ufutex(&[&["bench"], flags, &["-t", "2", "--format", "perf"]].concat());
        let line = text(&output.stderr);
        assert_eq!((output.status.success(), output.stdout.len()), (false, 0), "{flags:?}: {line}");
        assert!(line.contains(&format!("'{name}'")), "{flags:?}: {line}");
    }
}
