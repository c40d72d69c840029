//! Writes the report, when the process ends or SIGUSR1 asks for it: where it is written, and what is in it.

use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use core::time::Duration;
use std::string::String;
use std::vec::Vec;

use crate::process::{Process, process};
use crate::report::{self, Cpu, HotWord, Report};
use crate::timers::Count;
use crate::{calls, engine, profile, raw, settings, stack};

/// The greatest number of words in a report.
const HOT_WORDS: usize = 10;

/// A copy of standard error as it was when the program began, under a number of its own: programs close theirs before
/// they end, as all of coreutils do.
static STDERR: AtomicI32 = AtomicI32::new(-1);
/// The device and inode of that file. A program that closes all files may open others under its number.
static IDENTITY: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
/// The number from which on a free one is taken, far from the program's own.
const STDERR_FROM: u64 = 512;

/// Stores the initial values for a report, before the program begins.
pub fn begin() {
    if settings::get().stats.is_none() {
        return;
    }
    if settings::get().output.is_none() {
        keep_stderr();
    }
    if let Some(process) = process() {
        let cpu = cpu();
        process.began_ns.store(nanoseconds(clock(libc::CLOCK_MONOTONIC)), Ordering::Relaxed);
        process.spent_ns[0].store(nanoseconds(cpu.user), Ordering::Relaxed);
        process.spent_ns[1].store(nanoseconds(cpu.system), Ordering::Relaxed);
    }
}

/// Writes the report, if one was asked for and the process did anything; once for each process. The process that
/// `ufutex run` became always writes one.
pub fn report() {
    let settings = settings::get();
    if settings.stats.is_none() {
        return;
    }
    let Some(process) = process() else { return };
    let is_asked_for = settings.process.is_none_or(|asked_for| asked_for == raw::pid());
    let did_anything =
        || process.calls.iter().chain(&process.timer_counts).any(|calls| calls.load(Ordering::Relaxed) != 0);
    if (is_asked_for || (settings.children && did_anything()))
        && !process.is_borrowed()
        && !process.reported.swap(true, Ordering::Relaxed)
    {
        report_now();
    }
}

/// Writes the report now.
///
/// The report is made with signals blocked: the thread that makes it holds the heap's lock at times, and a handler that
/// writes a report or calls the engine would wait for that lock. It is made on a stack of our own, since the process
/// may be ended by a thread with a small stack, or by a handler. It is written with the program's mask, since writing
/// may take long.
pub fn report_now() {
    let (Some(process), Some(format)) = (process(), settings::get().stats) else { return };
    let (mut text, mut file) = (String::new(), None);
    stack::run(|| {
        text = fill_in(process).render(format);
        // The command could write the file. If it cannot be opened here, the program has changed its root or its
        // rights. Then no report is written.
        file = settings::get().output.map_or_else(stderr, open);
    });
    if let Some(fd) = file {
        report::write(fd, &text);
        if settings::get().output.is_some() {
            // SAFETY: opened just now.
            unsafe { raw::own(libc::SYS_close, [fd as u64]) };
        }
    }
    stack::run(|| text = String::new());
}

fn fill_in(process: &Process) -> Report {
    let settings = settings::get();
    let count = |kind: usize| process.calls[kind].load(Ordering::Relaxed);
    let operations = (0..calls::KINDS).filter(|kind| *kind != calls::KERNEL && count(*kind) != 0);
    let told = engine::told();
    Report {
        command: command(),
        pid: raw::pid(),
        trap: settings.trap,
        slots: told.as_ref().map_or(0, |told| told.slots),
        table_bytes: told.as_ref().map_or(0, |told| told.table_bytes),
        elapsed: elapsed(process),
        cpu: spent(process),
        calls: operations.map(|kind| (calls::NAMES[kind], count(kind))).collect(),
        kernel_calls: count(calls::KERNEL),
        shared_calls: process.shared_calls.load(Ordering::Relaxed),
        threads_most: process.threads_most.load(Ordering::Relaxed).max(1),
        waiting_most: process.waiting[1].load(Ordering::Relaxed),
        words: process.hot.words().0,
        words_exact: process.hot.words().1,
        most_calls: process.hot.most_calls(),
        counters: told.map_or_else(Default::default, |told| told.counters),
        timers: settings.timers.then(|| timers_of(process)),
        hottest: HotWord::of_this_process(&process.hot.top(HOT_WORDS, profile::now())),
    }
}

fn timers_of(process: &Process) -> report::Timers {
    let count = |what: Count| process.timer_counts[what as usize].load(Ordering::Relaxed);
    report::Timers {
        made: count(Count::Made),
        settings: count(Count::Set),
        expiries: count(Count::Expired),
        signals: count(Count::Delivered),
        overruns: count(Count::Overruns),
    }
}

/// Opens the file that the report is appended to. The command has emptied it, and several processes may write reports.
fn open(path: &[u8]) -> Option<i32> {
    let path: Vec<u8> = path.iter().copied().chain([0]).collect();
    let flags = libc::O_WRONLY | libc::O_APPEND | libc::O_CREAT | libc::O_CLOEXEC | libc::O_NOCTTY;
    // SAFETY: a string that ends with NUL.
    let fd = unsafe { raw::own(libc::SYS_openat, [libc::AT_FDCWD as u64, path.as_ptr() as u64, flags as u64, 0o666]) };
    i32::try_from(fd).ok().filter(|fd| *fd >= 0)
}

fn keep_stderr() {
    // Closed on execve(2): the library keeps one in the new program, too.
    let keep = |from: u64| {
        // SAFETY: makes a new number for an open file.
        let fd = unsafe { raw::own(libc::SYS_fcntl, [libc::STDERR_FILENO as u64, libc::F_DUPFD_CLOEXEC as u64, from]) };
        i32::try_from(fd).ok().filter(|fd| *fd >= 0)
    };
    // The limit on numbers may be lower than that.
    let Some((fd, identity)) = keep(STDERR_FROM).or_else(|| keep(0)).and_then(|fd| Some((fd, identity(fd)?))) else {
        return;
    };
    for (place, number) in IDENTITY.iter().zip(identity) {
        place.store(number, Ordering::Relaxed);
    }
    STDERR.store(fd, Ordering::Relaxed);
}

fn stderr() -> Option<i32> {
    let fd = STDERR.load(Ordering::Relaxed);
    (fd >= 0 && identity(fd)? == [&IDENTITY[0], &IDENTITY[1]].map(|place| place.load(Ordering::Relaxed))).then_some(fd)
}

fn identity(fd: i32) -> Option<[u64; 2]> {
    let mut status = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: room for the result.
    if unsafe { raw::own(libc::SYS_fstat, [fd as u64, status.as_mut_ptr() as u64]) } != 0 {
        return None;
    }
    // SAFETY: the kernel has filled it in.
    let status = unsafe { status.assume_init() };
    Some([status.st_dev, status.st_ino])
}

/// The program's arguments, as they are now.
fn command() -> String {
    let arguments = std::fs::read("/proc/thread-self/cmdline").unwrap_or_default();
    let arguments = arguments.strip_suffix(&[0]).unwrap_or(&arguments);
    String::from_utf8_lossy(arguments).replace('\0', " ")
}

fn elapsed(process: &Process) -> Duration {
    match process.began_ns.load(Ordering::Relaxed) {
        // A forked child: the kernel knows its start, in hundredths of a second.
        0 => clock(libc::CLOCK_BOOTTIME).saturating_sub(started().unwrap_or_default()),
        began_ns => clock(libc::CLOCK_MONOTONIC).saturating_sub(Duration::from_nanos(began_ns)),
    }
}

/// When the process was made, in time since the machine was started.
fn started() -> Option<Duration> {
    const TICKS_PER_SECOND: u64 = 100;
    let stat = std::fs::read("/proc/self/stat").ok()?;
    let stat = String::from_utf8_lossy(&stat);
    // The name of the program, in parentheses, may contain anything. The text after it begins with the third field.
    let (_, fields) = stat.rsplit_once(") ")?;
    let ticks: u64 = fields.split(' ').nth(22 - 3)?.parse().ok()?;
    Some(Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND))
}

/// The CPU time since the program began. What the process spent before that, it spent as the command.
fn spent(process: &Process) -> Cpu {
    let before = |i: usize| Duration::from_nanos(process.spent_ns[i].load(Ordering::Relaxed));
    let Cpu { user, system } = cpu();
    Cpu { user: user.saturating_sub(before(0)), system: system.saturating_sub(before(1)) }
}

fn cpu() -> Cpu {
    let mut usage = MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: room for the result.
    if unsafe { raw::own(libc::SYS_getrusage, [libc::RUSAGE_SELF as u64, usage.as_mut_ptr() as u64]) } != 0 {
        return Cpu::default();
    }
    // SAFETY: the kernel has filled it in.
    let usage = unsafe { usage.assume_init() };
    let time = |time: libc::timeval| Duration::new(time.tv_sec.unsigned_abs(), time.tv_usec as u32 * 1000);
    Cpu { user: time(usage.ru_utime), system: time(usage.ru_stime) }
}

/// The time of a clock.
pub fn clock(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: stores into `time`.
    unsafe { raw::own(libc::SYS_clock_gettime, [clock as u64, (&raw mut time) as u64]) };
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
