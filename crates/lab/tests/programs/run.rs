//! Runs a program with a time limit. If it does not end, reports where its threads are.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::compile::products;
use crate::mode::Mode;

/// The result of a run.
#[derive(Clone)]
pub struct Run {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
    /// The report, a JSON object in each line. Empty without one.
    pub report: String,
}

impl Run {
    /// The status as a shell would print it.
    pub fn ended(&self) -> String {
        match (self.status.code(), self.status.signal()) {
            (Some(code), _) => format!("status {code}"),
            (_, Some(signal)) => format!("signal {signal}"),
            _ => self.status.to_string(),
        }
    }
}

/// Runs a program in a mode. Its output goes to files, so that it is complete and never blocks the program.
///
/// # Errors
/// If the program does not end within `limit`: the error has the state of its threads. All its processes are killed.
pub fn run(mode: Mode, program: &OsString, arguments: &[OsString], limit: Duration) -> Result<Run, String> {
    static RUNS: AtomicUsize = AtomicUsize::new(0);
    let base = products().join(format!("run-{}-{}", std::process::id(), RUNS.fetch_add(1, Relaxed)));
    let (out, err, reported) = (base.with_extension("out"), base.with_extension("err"), base.with_extension("report"));
    let open = |path: &PathBuf| File::create(path).map_err(|error| format!("{base:?}: {error}"));
    let mut command: Command = mode.command(program, arguments, &reported);
    // A process group of its own, so that a hanging program is killed with its children. Messages are in English.
    command.process_group(0).stdin(Stdio::null()).stdout(open(&out)?).stderr(open(&err)?).env("LC_ALL", "C");
    no_core(&mut command);
    let mut child = command.spawn().map_err(|error| format!("{command:?}: {error}"))?;
    let ended = within(&mut child, limit);
    let read =
        |path: &PathBuf| fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let (stdout, mut stderr, report) = (read(&out), read(&err), read(&reported));
    // The command's own line about the report.
    if stderr.ends_with(&format!("; the report is in {}\n", reported.display())) {
        let begin = stderr.trim_end().rfind('\n').map_or(0, |end| end + 1);
        assert!(stderr[begin..].starts_with("ufutex: "), "{stderr}");
        stderr.truncate(begin);
    }
    for file in [out, err, reported] {
        let _ = fs::remove_file(file); // there is no file without a report
    }
    match ended {
        Ok(status) => Ok(Run { status, stdout, stderr, report }),
        Err(threads) => Err(format!(
            "{command:?} did not end in {limit:?}\n{threads}-- its output\n{}\n-- and errors\n{stderr}",
            last_lines(&stdout)
        )),
    }
}

/// Some programs end by a fault. Their core dumps are not needed.
fn no_core(command: &mut Command) {
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: only setrlimit, which is async-signal-safe, is called between fork and exec.
    unsafe {
        command.pre_exec(move || match libc::setrlimit(libc::RLIMIT_CORE, &none) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        });
    }
}

fn within(child: &mut Child, limit: Duration) -> Result<ExitStatus, String> {
    let begin = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("our own child") {
            return Ok(status);
        }
        if begin.elapsed() > limit {
            let threads = threads_of_group(child.id());
            // SAFETY: the child has not been waited for, so its PID, which names the group, has not been reused.
            unsafe { libc::kill(-(child.id() as i32), libc::SIGKILL) };
            let _ = child.wait();
            return Err(threads);
        }
        sleep(Duration::from_millis(2));
    }
}

/// The threads of a process group: state, kernel function in which each sleeps, system call.
fn threads_of_group(group: u32) -> String {
    let mut text = String::new();
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let tasks = process.path().join("task");
        let field = |stat: &str, n| stat.rsplit(')').next().and_then(|rest| rest.split(' ').nth(n)).map(str::to_owned);
        let stat = fs::read_to_string(process.path().join("stat")).unwrap_or_default();
        if field(&stat, 3) != Some(group.to_string()) {
            continue;
        }
        for task in fs::read_dir(tasks).into_iter().flatten().flatten() {
            let read = |file| fs::read_to_string(task.path().join(file)).unwrap_or_default().trim().to_owned();
            let (state, channel, call) = (field(&read("stat"), 1).unwrap_or_default(), read("wchan"), read("syscall"));
            let (process, task) = (process.file_name(), task.file_name());
            let _ = writeln!(text, "{process:?}/{task:?} {} {state} {channel} | {call}", read("comm"));
        }
    }
    text
}

/// The last lines of an output.
pub fn last_lines(text: &str) -> String {
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}
