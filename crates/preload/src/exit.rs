//! The report, when the process ends or SIGUSR1 asks for it: where it goes, and what is put into it.

use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::string::String;
use std::vec::Vec;

use crate::process::{Process, process};
use crate::report::{Cpu, HotWord, Report};
use crate::{calls, engine, raw, settings};

/// So many words are reported at most.
const HOT_WORDS: usize = 10;

/// What standard error is when the program begins: its device and its number there, both increased by 1; 0 for none.
static STDERR: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// Remembers what a report will be about, before the program begins.
pub fn begin() {
    if settings::get().stats.is_none() {
        return;
    }
    for (place, number) in STDERR.iter().zip(identity(libc::STDERR_FILENO)) {
        place.store(number, Ordering::Relaxed);
    }
    if let Some(process) = process() {
        let cpu = cpu();
        process.began_ns.store(nanoseconds(clock(libc::CLOCK_MONOTONIC)), Ordering::Relaxed);
        process.spent_ns[0].store(nanoseconds(cpu.user), Ordering::Relaxed);
        process.spent_ns[1].store(nanoseconds(cpu.system), Ordering::Relaxed);
    }
}

/// Writes the report, if one was asked for and there is anything to tell; once for each process. What `ufutex run` became
/// always has: it is what was asked for.
pub fn report() {
    let settings = settings::get();
    if settings.stats.is_none() {
        return;
    }
    let Some(process) = process() else { return };
    let is_asked_for = settings.process.is_none_or(|asked_for| asked_for == raw::pid());
    let did_anything = || process.calls.iter().any(|calls| calls.load(Ordering::Relaxed) != 0);
    if (is_asked_for || (settings.children && did_anything()))
        && !process.is_borrowed()
        && !process.reported.swap(true, Ordering::Relaxed)
    {
        report_now();
    }
}

/// Writes the report now.
pub fn report_now() {
    let (Some(process), Some(format)) = (process(), settings::get().stats) else { return };
    let report = fill_in(process);
    match settings::get().output.map(open) {
        Some(Ok(fd)) => {
            report.write(fd, format);
            // SAFETY: opened above.
            unsafe { raw::own(libc::SYS_close, [fd as u64]) };
        }
        Some(Err(errno)) => {
            let path = String::from_utf8_lossy(settings::get().output.unwrap_or_default());
            let line = std::format!("ufutex: the report cannot be appended to {path} (error {errno}):\n");
            to_stderr(|| raw::write_all(libc::STDERR_FILENO, line.as_bytes()));
            to_stderr(|| report.write(libc::STDERR_FILENO, format));
        }
        None => to_stderr(|| report.write(libc::STDERR_FILENO, format)),
    }
}

fn fill_in(process: &Process) -> Report {
    let settings = settings::get();
    let count = |kind: usize| process.calls[kind].load(Ordering::Relaxed);
    let operations = (0..calls::KINDS).filter(|kind| *kind != calls::KERNEL && count(*kind) != 0);
    let told = engine::told();
    Report {
        command: command(),
        pid: raw::pid(),
        scheme: settings.scheme.name(),
        layout: settings.layout.name(),
        trap: settings.trap,
        slots: told.as_ref().map_or(0, |told| told.slots),
        table_bytes: told.as_ref().map_or(0, |told| told.table_bytes),
        elapsed: elapsed(process),
        cpu: spent(process),
        calls: operations.map(|kind| (calls::NAMES[kind], count(kind))).collect(),
        kernel_calls: count(calls::KERNEL),
        counters: told.map_or_else(Default::default, |told| told.counters),
        hottest: HotWord::of_this_process(&process.hot.top(HOT_WORDS)),
    }
}

/// Where the report is appended: the command has emptied it, and several processes may report.
fn open(path: &[u8]) -> Result<i32, isize> {
    let path: Vec<u8> = path.iter().copied().chain([0]).collect();
    let flags = libc::O_WRONLY | libc::O_APPEND | libc::O_CREAT | libc::O_CLOEXEC | libc::O_NOCTTY;
    // SAFETY: a string.
    let fd = unsafe {
        raw::own(libc::SYS_openat, [libc::AT_FDCWD as u64, path.as_ptr() as u64, flags as u64, 0o666])
    };
    i32::try_from(fd).ok().filter(|fd| *fd >= 0).ok_or(-fd)
}

/// Standard error may have been closed, and its number be that of a file of the program's by now: nothing of ours belongs
/// there.
fn to_stderr(write: impl FnOnce()) {
    let began = [&STDERR[0], &STDERR[1]].map(|place| place.load(Ordering::Relaxed));
    if began != [0; 2] && began == identity(libc::STDERR_FILENO) {
        write();
    }
}

fn identity(fd: i32) -> [u64; 2] {
    let mut status = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: room for the answer.
    let result = unsafe { raw::own(libc::SYS_fstat, [fd as u64, status.as_mut_ptr() as u64]) };
    if result != 0 {
        return [0; 2];
    }
    // SAFETY: the kernel has filled it in.
    let status = unsafe { status.assume_init() };
    [status.st_dev.wrapping_add(1), status.st_ino.wrapping_add(1)]
}

/// The program's arguments, as they are now.
fn command() -> String {
    let arguments = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    let arguments = arguments.strip_suffix(&[0]).unwrap_or(&arguments);
    String::from_utf8_lossy(arguments).replace('\0', " ")
}

fn elapsed(process: &Process) -> Duration {
    match process.began_ns.load(Ordering::Relaxed) {
        // A forked child: the kernel knows when, in hundredths of a second.
        0 => clock(libc::CLOCK_BOOTTIME).saturating_sub(started().unwrap_or_default()),
        began_ns => clock(libc::CLOCK_MONOTONIC).saturating_sub(Duration::from_nanos(began_ns)),
    }
}

/// When the process was made, since the machine was started.
fn started() -> Option<Duration> {
    const TICKS_PER_SECOND: u64 = 100;
    let stat = std::fs::read("/proc/self/stat").ok()?;
    let stat = String::from_utf8_lossy(&stat);
    // The name of the program, in parentheses, may hold anything: what comes after it begins with the third field.
    let (_, fields) = stat.rsplit_once(") ")?;
    let ticks: u64 = fields.split(' ').nth(22 - 3)?.parse().ok()?;
    Some(Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND))
}

/// Since the program began: what its process spent before, it spent as the command.
fn spent(process: &Process) -> Cpu {
    let before = |i: usize| Duration::from_nanos(process.spent_ns[i].load(Ordering::Relaxed));
    let Cpu { user, system } = cpu();
    Cpu { user: user.saturating_sub(before(0)), system: system.saturating_sub(before(1)) }
}

fn cpu() -> Cpu {
    let mut usage = MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: room for the answer.
    if unsafe { raw::own(libc::SYS_getrusage, [libc::RUSAGE_SELF as u64, usage.as_mut_ptr() as u64]) } != 0 {
        return Cpu::default();
    }
    // SAFETY: the kernel has filled it in.
    let usage = unsafe { usage.assume_init() };
    let time = |time: libc::timeval| Duration::new(time.tv_sec.unsigned_abs(), time.tv_usec as u32 * 1000);
    Cpu { user: time(usage.ru_utime), system: time(usage.ru_stime) }
}

fn clock(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: stores into `time`.
    unsafe { raw::own(libc::SYS_clock_gettime, [clock as u64, (&raw mut time) as u64]) };
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
