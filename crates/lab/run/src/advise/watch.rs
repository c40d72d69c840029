//! Runs the program for the given time, and collects its report and the records of its waits.

use super::figures::Report;
use crate::Advise;
use anyhow::{Context, Result};
use lab_measure::interrupt;
use lab_waits::watched::{self, GRACE, send};
use lab_waits::{LIMIT, Lock, Records};
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

/// The setting of the library besides that of the records.
const WATCH: &str = "watch,";
/// How often the program's state is checked.
const POLL: Duration = Duration::from_millis(10);
/// How long to wait for the library to catch SIGUSR1. After that the program counts as started without it.
const STARTUP: Duration = Duration::from_secs(3);
/// How long to wait for a requested report.
const REPORT: Duration = Duration::from_secs(1);

/// The result of watching a program.
pub struct Watched {
    /// `None` if the program ended without a report.
    pub report: Option<Report>,
    /// The lock that cost the most time.
    pub lock: Option<Lock>,
    /// What is not known of the waits, in sentences.
    pub missing: Vec<String>,
    /// The program's exit status, or that of `ufutex run` if the program does not start.
    pub status: ExitStatus,
    /// Why the program was ended. `None` if it has ended by itself.
    pub ended: Option<End>,
}

/// Why a program is ended.
#[derive(Clone, Copy)]
pub enum End {
    /// Its time is over.
    Time,
    /// SIGINT, as by Ctrl-C, or SIGTERM.
    Interrupt,
}

/// A file for the report, in memory. It disappears with this process.
struct Scratch(File);

impl Scratch {
    fn new() -> Result<Scratch> {
        // SAFETY: the name is a string. The call returns a descriptor that nothing else owns.
        let file = unsafe {
            let descriptor = libc::memfd_create(c"ufutex-advise".as_ptr(), libc::MFD_CLOEXEC);
            if descriptor < 0 {
                return Err(std::io::Error::last_os_error()).context("cannot allocate memory for the report");
            }
            File::from_raw_fd(descriptor)
        };
        Ok(Scratch(file))
    }

    /// A path by which other processes can open the file while this process runs.
    fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd()).into()
    }
}

/// Watches the program until it ends, its time is over, or Ctrl-C is pressed.
pub fn watch(advise: &Advise) -> Result<Watched> {
    let memory = Scratch::new()?;
    let scratch = memory.path();
    let mut records = Records::new(LIMIT)?;
    let mut program = start(advise, &scratch, &records)?;
    let (started, mut begun) = (Instant::now(), None);
    let why = loop {
        if let Some(status) = program.try_wait()? {
            records.end();
            let (lock, missing) = (records.costliest(), records.missing());
            return Ok(Watched { missing, report: report(&scratch, &program), lock, status, ended: interrupted() });
        }
        if begun.is_none() && (catches_sigusr1(&program) || started.elapsed() >= STARTUP && has_executed(&program)) {
            begun = Some(Instant::now());
        }
        if interrupt::requested() {
            break End::Interrupt;
        }
        if begun.is_some_and(|begun| begun.elapsed() >= advise.duration) {
            break End::Time;
        }
        records.drain();
        std::thread::sleep(POLL);
    };
    // The report is requested first: what the program does between SIGTERM and its end does not count.
    let report_now = catches_sigusr1(&program).then(|| request_report(&program, &scratch, &mut records)).flatten();
    let status = end(&mut program, &mut records)?;
    records.end();
    let (lock, missing) = (records.costliest(), records.missing());
    Ok(Watched { missing, report: report_now.or_else(|| report(&scratch, &program)), lock, status, ended: Some(why) })
}

/// The terminal sends Ctrl-C to the program too, which may end by it first.
fn interrupted() -> Option<End> {
    interrupt::requested().then_some(End::Interrupt)
}

fn start(advise: &Advise, scratch: &Path, records: &Records) -> Result<Child> {
    let mut settings = OsString::from(WATCH);
    settings.push(records.setting());
    let options = ["--json".as_ref(), "--output".as_ref(), scratch.as_os_str()];
    watched::start(&options, advise.trap, &settings, &advise.command)
}

/// Whether the program catches SIGUSR1, on which the library reports. Without the library the signal would kill it.
fn catches_sigusr1(program: &Child) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/status", program.id())).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    caught >> (libc::SIGUSR1 - 1) & 1 != 0
}

/// Whether the process has executed the program. A program that never catches SIGUSR1 is watched for its time too.
fn has_executed(program: &Child) -> bool {
    let file = fs::read_link(format!("/proc/{}/exe", program.id()));
    file.is_ok_and(|file| std::env::current_exe().is_ok_and(|own| own != file))
}

/// Requests a report of the present state, and waits for it.
fn request_report(program: &Child, scratch: &Path, records: &mut Records) -> Option<Report> {
    send(program, libc::SIGUSR1);
    let start = Instant::now();
    loop {
        let report = report(scratch, program);
        if report.is_some() || start.elapsed() > REPORT {
            return report;
        }
        records.drain();
        std::thread::sleep(POLL);
    }
}

fn end(program: &mut Child, records: &mut Records) -> Result<ExitStatus> {
    send(program, libc::SIGTERM);
    let start = Instant::now();
    loop {
        if let Some(status) = program.try_wait()? {
            return Ok(status);
        }
        if start.elapsed() > GRACE {
            program.kill()?;
            return program.wait().context("cannot wait for the program");
        }
        records.drain();
        std::thread::sleep(POLL);
    }
}

/// The last complete report of this process in the file.
fn report(scratch: &Path, program: &Child) -> Option<Report> {
    let text = fs::read(scratch).ok()?;
    let lines = text.split_inclusive(|byte| *byte == b'\n').rev().filter(|line| line.ends_with(b"\n"));
    lines.filter_map(|line| serde_json::from_slice::<Report>(line).ok()).find(|report| report.pid == program.id())
}

/// Describes how the program ended.
pub fn ended(watched: &Watched) -> String {
    match (watched.ended, watched.status.code(), watched.status.signal()) {
        (Some(End::Time), ..) => "ended when its time was over".to_string(),
        (Some(End::Interrupt), ..) => "ended because ufutex was interrupted".to_string(),
        (_, Some(code), _) => format!("ended by itself with status {code}"),
        (_, _, signal) => format!("ended by signal {}", signal.unwrap_or(0)),
    }
}
