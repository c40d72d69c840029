//! Ctrl-C: what was measured until then is printed, and the exit status says why there is not more.
//!
//! Every run here is asked for thousands of rounds: that it ends at all is the signal's doing.

use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// Longer than a warm-up and a round of what is measured here, on a busy machine.
const SOME_ROUNDS: Duration = Duration::from_millis(1500);

struct Running {
    child: Child,
    stderr: BufReader<std::process::ChildStderr>,
}

impl Running {
    /// Starts a benchmark that would take hours, and comes back when it says that its rounds begin.
    fn begin(arguments: &[&str], announced: &str) -> Running {
        let mut running = Running::start(&mut bench(arguments));
        loop {
            let mut line = String::new();
            assert!(running.stderr.read_line(&mut line).expect("its stderr") > 0, "it ended: {arguments:?}");
            if line.contains(announced) {
                return running;
            }
        }
    }

    fn start(command: &mut Command) -> Running {
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        // SAFETY: between fork and exec only a system call is made. Whoever runs the tests may ignore the signal.
        unsafe {
            command.pre_exec(|| {
                libc::signal(libc::SIGINT, libc::SIG_DFL);
                Ok(())
            })
        };
        let mut child = command.spawn().expect("the program starts");
        let stderr = BufReader::new(child.stderr.take().expect("a pipe"));
        Running { child, stderr }
    }

    /// As a terminal does it: to all processes of the group.
    fn press_ctrl_c(&self) {
        // SAFETY: sends a signal to a group that is our child's own.
        assert_eq!(unsafe { libc::kill(-(self.child.id() as i32), libc::SIGINT) }, 0);
    }

    fn end(mut self) -> (ExitStatus, String, String) {
        let (mut stdout, mut stderr) = (String::new(), String::new());
        self.child.stdout.take().expect("a pipe").read_to_string(&mut stdout).expect("UTF-8");
        self.stderr.read_to_string(&mut stderr).expect("UTF-8");
        (self.child.wait().expect("our child"), stdout, stderr)
    }
}

fn bench(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ufutex"));
    command.arg("bench").args(arguments);
    command
}

fn rows(stdout: &str) -> Vec<Value> {
    stdout.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"))).collect()
}

/// Interrupts a run of two targets in its rounds: both must have rows, of fewer rounds than were asked for.
fn assert_keeps_what_it_has(arguments: &[&str], announced: &str) {
    let arguments = [arguments, &["--json", "--repeat", "10000"]].concat();
    let running = Running::begin(&arguments, announced);
    std::thread::sleep(SOME_ROUNDS);
    running.press_ctrl_c();
    let (status, stdout, stderr) = running.end();
    assert_eq!(status.code(), Some(130), "{arguments:?}: {stderr}");
    let rows = rows(&stdout);
    assert!(rows.len() >= 2, "{arguments:?}: {stdout}");
    for row in &rows {
        let rounds = row["repeat"].as_u64().expect("a number");
        assert!((1..10_000).contains(&rounds), "{row}");
        assert!(!row.to_string().contains("NaN"), "{row}");
    }
    assert!(stderr.contains("interrupted: the rows are of the samples until then"), "{stderr}");
    assert!(!stderr.contains("panicked"), "{stderr}");
}

#[test]
fn ctrl_c_ends_each_workload_with_the_rows_that_it_has() {
    let two = ["--targets", "live,parking_lot"];
    for (workload, more) in [
        ("hash", &["-t", "1"][..]),
        ("wake", &["-t", "1"]),
        ("ping-pong", &[]),
        ("requeue", &["-t", "20", "-B"]),
        ("wake-parallel", &["-t", "20"]),
    ] {
        assert_keeps_what_it_has(&[&[workload][..], more, &two].concat(), "rounds");
    }
    assert_keeps_what_it_has(&["resize", "-t", "2", "--targets", "live,percpu"], "rounds");
    assert_keeps_what_it_has(&["lock-pi", "-t", "1", "--targets", "live,kernel"], "rounds");
    assert_keeps_what_it_has(&["crowd", "-n", "10,100", "--targets", "live"], "rounds");
    assert_keeps_what_it_has(&["timers", "--tests", "create-delete", "-n", "1000"], "rounds at most");
}

#[test]
fn ctrl_c_keeps_what_children_have_measured_and_leaves_none_behind() {
    // So many threads that no other test's children are taken for this one's.
    assert_keeps_what_it_has(&["growth", "-t", "47", "--targets", "live,parking_lot"], "repeats");
    assert_keeps_what_it_has(
        &["timers", "--tests", "create-delete", "-n", "1009", "-p", "2", "--targets", "ours,kernel"],
        "rounds at most",
    );
    for process in std::fs::read_dir("/proc").expect("Linux").flatten() {
        let line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        assert!(!line.contains("growth-child") || !line.contains("--threads 47"), "{line}");
        assert!(!line.contains("timers-child") || !line.contains("--timers 1009"), "{line}");
    }
}

#[test]
fn tables_say_so_too_and_what_was_not_measured_is_named() {
    let running = Running::begin(&["-t", "1", "--targets", "live", "--repeat", "10000"], "hash");
    std::thread::sleep(SOME_ROUNDS);
    running.press_ctrl_c();
    let (status, stdout, stderr) = running.end();
    assert_eq!(status.code(), Some(130));
    assert!(stdout.contains("## hash") && !stdout.contains("## wake") && !stdout.contains("## figures"), "{stdout}");
    let line = stderr.lines().last().unwrap_or_default();
    assert!(line.contains("not measured: wake, resize, growth") && line.contains("no figure is judged"), "{stderr}");
}

#[test]
fn the_second_ctrl_c_ends_it_at_once() {
    // Its one sample takes minutes: a million timers in 512 chains.
    let arguments =
        ["timers", "--tests", "create-getoverrun", "--targets", "global-lock", "-n", "1000000", "-t", "1", "--json"];
    let mut running = Running::begin(&arguments, "its chains are long");
    running.press_ctrl_c();
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(running.child.try_wait().expect("our child"), None, "the first one waits for the sample");
    running.press_ctrl_c();
    let (status, stdout, _) = running.end();
    assert_eq!((status.code(), stdout.as_str()), (Some(130), ""));
}

#[test]
fn where_the_signal_is_ignored_it_stays_so() {
    let program = env!("CARGO_BIN_EXE_ufutex");
    let line = format!("trap '' INT; exec {program} bench hash -t 1 --targets live,kernel --repeat 60 --json");
    let mut running = Running::start(Command::new("sh").args(["-c", &line]));
    let mut announced = String::new();
    running.stderr.read_line(&mut announced).expect("its stderr");
    assert!(announced.contains("rounds"), "{announced}");
    running.press_ctrl_c();
    let (status, stdout, stderr) = running.end();
    assert_eq!(status.code(), Some(0), "{stderr}");
    assert!(rows(&stdout).iter().all(|row| row["repeat"] == 60), "{stdout}");
}

#[test]
fn ctrl_c_ends_what_advise_watches_and_the_advice_is_from_what_was_seen() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ufutex"));
    // The program is there when it says so, and would sleep for an hour.
    let mut running =
        Running::start(command.args(["advise", "-d", "3600", "sh", "-c", "echo there >&2; exec sleep 3600"]));
    let mut line = String::new();
    while !line.contains("there") {
        line.clear();
        assert!(running.stderr.read_line(&mut line).expect("its stderr") > 0, "it ended");
    }
    std::thread::sleep(Duration::from_millis(300));
    running.press_ctrl_c();
    let (status, _, stderr) = running.end();
    assert_eq!(status.code(), Some(130), "{stderr}");
    assert!(
        stderr.contains("Advice for 'sleep 3600'") && stderr.contains("interrupted: the advice is from"),
        "{stderr}"
    );
}
