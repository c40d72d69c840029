//! Runs the program, and reads its records meanwhile.

use crate::account::Process;
use crate::files;
use crate::names::Names;
use crate::past::Newest;
use crate::records::Records;
use crate::watched::{self, GRACE, send};
use crate::{Format, Locks, folded, hang, json, page, pprof, progress, report, table};
use anyhow::{Context, Result};
use lab_measure::interrupt;
use lab_terminal::stderr;
use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::iter;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitCode, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Exit status if the program was ended because it hung, as in timeout(1).
const EXIT_HUNG: u8 = 124;
/// Intervals at which records are read: while a ring fills up quickly, and otherwise. Each reading may take a CPU from a thread of the
/// program.
const NAPS: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(50)];
/// A ring that has more words than this fills up quickly: half of its room.
const MANY: u64 = ufutex_program::ring::WORDS / 2;
/// Interval at which ends of processes and CPU time are checked.
const SELDOM: Duration = Duration::from_millis(100);

/// Runs the program and prints what is known of its locks. Returns the exit status: the program's, unless it hung.
pub fn run(locks: &Locks) -> ExitCode {
    watched::exit(run_and_print(locks))
}

fn run_and_print(locks: &Locks) -> Result<u8> {
    // An unusable file is reported before the program has run in vain.
    let output = locks
        .output
        .as_ref()
        .map(|file| File::create(file).with_context(|| format!("{} cannot be written", file.display())));
    let output = output.transpose()?;
    let (wants_state, wants_end) = (flag(libc::SIGUSR1)?, flag(libc::SIGTERM)?);
    let mut records = Records::new(locks.limit)?;
    records.newest = (locks.format == Format::Page).then(Newest::default);
    let mut settings = records.setting();
    if locks.follow {
        settings.push(",children");
    }
    let mut program = watched::start(&[], locks.trap, &settings, &locks.command)?;
    let mut watched =
        Watched { locks, records, names: Names::default(), progress: progress::Status::new(), state: None };
    let (status, is_hung) = watched.watch(&mut program, &wants_state, &wants_end)?;
    watched.progress.clear();
    watched.records.end();
    if watched.records.files.begun() == 0 {
        // If the program was not started, `ufutex run` has said why.
        if let Some(status @ 125..=127) = status.code() {
            return Ok(status as u8);
        }
        anyhow::bail!(
            "the program has left no records: it was executed without the library, or there was no room for a file of 2 MiB \
             in {}, or its limit of file sizes (ulimit -f) is lower",
            watched.records.files.directory().display()
        );
    }
    watched.print(output)?;
    Ok(if is_hung { EXIT_HUNG } else { as_shell(status) })
}

/// A flag that a signal sets.
fn flag(signal: i32) -> Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal, flag.clone()).context("cannot install the handlers of SIGUSR1 and SIGTERM")?;
    Ok(flag)
}

/// The exit status that a shell shows.
fn as_shell(status: ExitStatus) -> u8 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)) as u8
}

struct Watched<'l> {
    locks: &'l Locks,
    records: Records,
    names: Names,
    progress: progress::Status,
    /// The waiting threads when they were printed last.
    state: Option<String>,
}

impl Watched<'_> {
    /// Reads records until the program ends. Returns its exit status, and whether it was ended because it hung.
    fn watch(
        &mut self,
        program: &mut Child,
        wants_state: &AtomicBool,
        wants_end: &AtomicBool,
    ) -> Result<(ExitStatus, bool)> {
        let (mut still, mut last) = (Still::default(), Instant::now());
        let (mut is_hung, mut was_interrupted) = (false, false);
        let (mut end_by, mut nap, mut begun) = (None, NAPS[0], 0);
        let ended = ProgramEnd::of(program);
        loop {
            let any = self.records.drain();
            if let Some(status) = program.try_wait()? {
                // The terminal has sent Ctrl-C to the program too.
                if interrupt::requested() && !was_interrupted {
                    self.say_state()?;
                }
                return Ok((status, is_hung));
            }
            if wants_state.swap(false, Ordering::Relaxed) || (interrupt::requested() && !was_interrupted) {
                was_interrupted = interrupt::requested();
                self.say_state()?;
            }
            if wants_end.swap(false, Ordering::Relaxed) {
                // Unlike Ctrl-C, which the terminal sends to the program too.
                send(program, libc::SIGTERM);
            }
            if any {
                still.since = Duration::ZERO;
            }
            let files = &self.records.files;
            // After one process has begun, others may begin, and end soon.
            if files.fullest > MANY || files.begun() != begun {
                nap = NAPS[0];
            } else if files.fullest < MANY / 8 {
                nap = NAPS[1];
            }
            begun = files.begun();
            ended.wait(nap);
            let passed = last.elapsed();
            if passed < SELDOM {
                continue;
            }
            last = Instant::now();
            self.records.files.close_gone(&mut self.records.account);
            self.progress.update(&self.records.account, self.records.files.processes().chain([program.id() as i32]));
            if end_by.is_some_and(|time| Instant::now() >= time) {
                // It may have ended meanwhile.
                let _ = program.kill();
            }
            let Some(length) = self.locks.hang.filter(|_| !is_hung) else { continue };
            let has_moved = any || self.is_stopped();
            still.look(has_moved, self.cpu_time(), passed, || time_of_family(program.id() as i32), length);
            if self.is_hung(still.since, length) {
                is_hung = true;
                self.say_state()?;
                send(program, libc::SIGTERM);
                end_by = Some(Instant::now() + GRACE);
            }
        }
    }

    /// Whether nothing has moved for this long, or threads wait for each other for as long.
    fn is_hung(&mut self, still: Duration, length: Duration) -> bool {
        let waits = |process: &Process| process.threads.values().any(|thread| thread.waits.is_some());
        if still >= length {
            return self.records.account.processes.values().any(waits);
        }
        // Names are looked up only if there may be a deadlock of this age: meanwhile nobody reads the records.
        let (now, age) = (hang::now_ns(), length.as_nanos());
        let is_old = |process: &Process| {
            let mut waits = process.threads.values().filter_map(|thread| thread.waits.as_ref());
            waits.any(|wait| u128::from(now.saturating_sub(wait.since_ns)) >= age)
        };
        if !self.records.account.processes.values().any(is_old) {
            return false;
        }
        self.names.renew();
        let waiting = hang::waiting(&self.records.account, &mut self.names, now);
        let is_long = |one: &&hang::Waiting| u128::from(one.waited_ns) >= age;
        hang::deadlocks(&waiting).iter().any(|cycle| cycle.iter().all(is_long))
    }

    /// CPU time of the processes with records, in ticks.
    fn cpu_time(&self) -> u64 {
        self.records.files.processes().filter_map(files::stat).filter_map(|stat| cpu_time(&stat)).sum()
    }

    /// Whether one of the processes is stopped: by Ctrl-Z, or by a debugger.
    fn is_stopped(&self) -> bool {
        self.records.files.processes().any(|pid| matches!(files::state(pid), Some('T' | 't')))
    }

    /// Prints the waiting threads.
    fn say_state(&mut self) -> Result<()> {
        self.progress.clear();
        self.names = Names::default();
        let waiting = hang::waiting(&self.records.account, &mut self.names, hang::now_ns());
        if self.locks.format != Format::Json {
            stderr::text(self.state.insert(hang::text(&waiting)));
            return Ok(());
        }
        for cycle in hang::deadlocks(&waiting) {
            stderr::text(&format!("{}\n", json::waiting("deadlock", &cycle)));
        }
        stderr::text(&format!("{}\n", json::waiting("waiting", &waiting.iter().collect::<Vec<_>>())));
        Ok(())
    }

    fn print(&mut self, output: Option<File>) -> Result<()> {
        // A program may have written the names of its own code only at its end.
        self.names = Names::default();
        let lines = report::lines(&self.records.account, &mut self.names);
        let command: Vec<_> = self.locks.command.iter().map(|part| part.to_string_lossy()).collect();
        let command = command.join(" ").escape_debug().to_string();
        let (missing, newest) = (self.records.missing(), self.records.newest.take().unwrap_or_default());
        let mut text = Vec::new();
        match self.locks.format {
            Format::Table => text = table::text(&command, &missing, &self.records.account, &lines).into_bytes(),
            Format::Page => {
                text = page::text(&command, &missing, self.state.as_deref(), &self.records.account, &lines, &newest)?
                    .into_bytes()
            }
            Format::Json => {
                let dropped = json::dropped(self.records.account.dropped.waits);
                let mut objects = lines.iter().map(json::line).chain(dropped);
                objects.try_for_each(|object| writeln!(text, "{object}"))?;
            }
            Format::Folded => lines.iter().try_for_each(|line| folded::write(&mut text, line))?,
            Format::Pprof => text = pprof::profile(&self.records.account, &lines)?,
        }
        let (Some(mut file), Some(path)) = (output, &self.locks.output) else {
            if self.locks.format != Format::Table {
                missing.iter().for_each(stderr::say);
            }
            return stderr::result(&text).context("stderr cannot be written");
        };
        missing.iter().for_each(stderr::say);
        file.write_all(&text).context("the output cannot be written")?;
        let first = lines.iter().find(|line| line.is_lock).map(|line| format!(", first lock: {}", table::name(line)));
        let (summary, first) = (table::summary(&self.records.account, &lines), first.unwrap_or_default());
        stderr::say(format_args!("{summary}{first}; the report is in {}", path.display()));
        Ok(())
    }
}

/// For how long nothing has moved.
#[derive(Default)]
struct Still {
    since: Duration,
    /// CPU time of the processes with records, in ticks, at the last look.
    spent: u64,
    /// CPU time of the program and all its children when `since` began.
    spent_by_all: u64,
}

impl Still {
    fn look(&mut self, has_moved: bool, spent: u64, passed: Duration, by_all: impl Fn() -> u64, length: Duration) {
        if has_moved || spent != self.spent {
            self.since = Duration::ZERO;
        } else {
            if self.since.is_zero() {
                self.spent_by_all = by_all();
            }
            // Time in which this command was stopped does not count.
            self.since += passed.min(2 * SELDOM);
            // Only at the beginning and at the end, because it takes milliseconds.
            if self.since >= length && by_all() != self.spent_by_all {
                self.since = Duration::ZERO;
            }
        }
        self.spent = spent;
    }
}

/// CPU time of a process, in ticks, and of its children that have ended and were waited for. User and system time of both are the
/// 14th to the 17th field of its `stat`, which begins with the third.
fn cpu_time(stat: &[String]) -> Option<u64> {
    stat.get(11..15)?.iter().map(|field| field.parse::<u64>().ok()).sum()
}

/// CPU time of a process and of all that descend from it, in ticks.
fn time_of_family(process: i32) -> u64 {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let of = |pid| {
        let stat = files::stat(pid)?;
        Some((pid, (stat.get(1)?.parse::<i32>().ok()?, cpu_time(&stat)?)))
    };
    let all: HashMap<i32, (i32, u64)> = pids.filter_map(of).collect();
    // A PID that is used again while /proc is read could make a circle.
    let ancestors = |pid: i32| iter::successors(Some(pid), |pid| Some(all.get(pid)?.0)).take(all.len());
    all.iter().filter(|(pid, _)| ancestors(**pid).any(|pid| pid == process)).map(|(_, (_, time))| time).sum()
}

/// A pidfd of the program, readable when that has ended. `None` on a kernel without pidfds.
struct ProgramEnd(Option<OwnedFd>);

impl ProgramEnd {
    fn of(program: &Child) -> Self {
        // SAFETY: our own child. The result is a new descriptor, or -1 on a kernel without this call.
        let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, program.id(), 0) } as i32;
        // SAFETY: as above.
        Self((descriptor >= 0).then(|| unsafe { OwnedFd::from_raw_fd(descriptor) }))
    }

    /// Returns when the program has ended, when a signal comes, or after `most`.
    fn wait(&self, most: Duration) {
        let descriptor = self.0.as_ref().map_or(-1, AsRawFd::as_raw_fd);
        let mut program = libc::pollfd { fd: descriptor, events: libc::POLLIN, revents: 0 };
        // SAFETY: reads and changes `program`. The call ignores a descriptor of -1.
        unsafe { libc::poll(&raw mut program, 1, most.as_millis() as i32) };
    }
}
