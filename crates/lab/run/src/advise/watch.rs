//! Runs the program for its time, and gets its report.

use super::figures::Report;
use crate::Advise;
use anyhow::{Context, Result};
use lab_measure::interrupt;
use std::fs::{self, File};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use ufutex_program::environment::SETTINGS;

/// What `ufutex run` hands on to the library.
const WATCH: &str = "watch";
/// How often the program is looked at.
const LOOK: Duration = Duration::from_millis(10);
/// Until a program that does not answer is taken for one that never will.
const ANSWER: Duration = Duration::from_secs(3);
/// Until a report that was asked for is there.
const REPORT: Duration = Duration::from_secs(1);
/// From SIGTERM to SIGKILL.
const GRACE: Duration = Duration::from_secs(2);

/// What became of the program.
pub struct Watched {
    /// None where it ended without one.
    pub report: Option<Report>,
    /// Its own, or what `ufutex run` says of a program that does not start.
    pub status: ExitStatus,
    /// Whether its time was over.
    pub was_ended: bool,
}

/// A file for the report in memory: it goes with this process, however that ends.
struct Scratch(File);

impl Scratch {
    fn new() -> Result<Scratch> {
        // SAFETY: the name is a string, and the call answers with a descriptor that nobody else has.
        let file = unsafe {
            let descriptor = libc::memfd_create(c"ufutex-advise".as_ptr(), libc::MFD_CLOEXEC);
            if descriptor < 0 {
                return Err(std::io::Error::last_os_error()).context("no memory for the report");
            }
            File::from_raw_fd(descriptor)
        };
        Ok(Scratch(file))
    }

    /// As others can open it as long as it is here.
    fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd()).into()
    }
}

/// Watches it.
pub fn watch(advise: &Advise) -> Result<Watched> {
    let memory = Scratch::new()?;
    let scratch = memory.path();
    let mut program = start(advise, &scratch)?;
    let (started, mut begun) = (Instant::now(), None);
    loop {
        if let Some(status) = program.try_wait()? {
            return Ok(Watched { report: report(&scratch, &program), status, was_ended: false });
        }
        if begun.is_none() && (answers(&program) || started.elapsed() >= ANSWER && runs(&program)) {
            begun = Some(Instant::now());
        }
        if interrupt::asked() || begun.is_some_and(|begun| begun.elapsed() >= advise.duration) {
            break;
        }
        std::thread::sleep(LOOK);
    }
    // Its time is over now: what it does until it has ended does not count.
    let report_now = answers(&program).then(|| ask(&program, &scratch)).flatten();
    let status = end(&mut program)?;
    Ok(Watched { report: report_now.or_else(|| report(&scratch, &program)), status, was_ended: true })
}

fn start(advise: &Advise, scratch: &Path) -> Result<Child> {
    let mut command = Command::new(std::env::current_exe().context("this program's own file")?);
    command.args(["run", "--json", "--output"]).arg(scratch);
    if advise.trap {
        command.arg("--trap");
    }
    command.env(SETTINGS, WATCH);
    command.arg("--").args(&advise.command).stdin(Stdio::inherit());
    // SAFETY: one system call between fork and exec. Whoever presses Ctrl-C twice wants the program to end, too.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM as libc::c_ulong, 0, 0, 0);
            Ok(())
        })
    };
    command.spawn().context("cannot start the program")
}

/// Whether the library is in it, and answers SIGUSR1, which would end it otherwise.
fn answers(program: &Child) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/status", program.id())).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    caught >> (libc::SIGUSR1 - 1) & 1 != 0
}

/// Whether it is no longer this command that runs there. A program that does not care for SIGUSR1 answers never, and its
/// time must pass all the same.
fn runs(program: &Child) -> bool {
    let file = fs::read_link(format!("/proc/{}/exe", program.id()));
    file.is_ok_and(|file| std::env::current_exe().is_ok_and(|own| own != file))
}

/// The report as of now.
fn ask(program: &Child, scratch: &Path) -> Option<Report> {
    send(program, libc::SIGUSR1);
    let start = Instant::now();
    loop {
        let report = report(scratch, program);
        if report.is_some() || start.elapsed() > REPORT {
            return report;
        }
        std::thread::sleep(LOOK);
    }
}

fn end(program: &mut Child) -> Result<ExitStatus> {
    send(program, libc::SIGTERM);
    let start = Instant::now();
    loop {
        if let Some(status) = program.try_wait()? {
            return Ok(status);
        }
        if start.elapsed() > GRACE {
            program.kill()?;
            return program.wait().context("the program's end");
        }
        std::thread::sleep(LOOK);
    }
}

fn send(program: &Child, signal: i32) {
    // SAFETY: our own child, which we have not waited for: the number is still its.
    unsafe { libc::kill(program.id() as i32, signal) };
}

/// The last whole line of its own.
fn report(scratch: &Path, program: &Child) -> Option<Report> {
    let text = fs::read(scratch).ok()?;
    let lines = text.split_inclusive(|byte| *byte == b'\n').rev().filter(|line| line.ends_with(b"\n"));
    lines.filter_map(|line| serde_json::from_slice::<Report>(line).ok()).find(|report| report.pid == program.id())
}

/// How it ended, for people.
pub fn ended(watched: &Watched) -> String {
    match (watched.was_ended, watched.status.code(), watched.status.signal()) {
        (true, ..) => "ended when its time was over".to_string(),
        (_, Some(code), _) => format!("ended by itself with status {code}"),
        (_, _, signal) => format!("ended by signal {}", signal.unwrap_or(0)),
    }
}
