//! Our own programs, and how the result of a run is judged.

use serde_json::Value;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::sync::OnceLock;
use std::time::Duration;

use crate::compile::{self, NotMade};
use crate::mode::{
    BOTH, CHAINED, LIBCS, Mode, TABLES, TIMERS, TIMERS_UNREPORTED, TRAP_ONLY, TRAP_SEES, TRAP_UNREPORTED,
    TRAPPED_TIMERS_ONLY, UNREPORTED,
};
use crate::run::{Run, last_lines, run};
use crate::standard_library;
use crate::turns;

/// Exit status of a program that this machine cannot run.
pub const SKIPPED: i32 = 77;

pub struct Program {
    pub name: String,
    /// Returns the program and its arguments.
    pub prepare: Box<dyn Fn() -> Ready + Send + Sync>,
    pub modes: &'static [Mode],
    /// Reduces the output to what is the same in each run.
    pub normalize: fn(&str) -> String,
    /// The expected status on the kernel alone and in each mode.
    pub status: Option<i32>,
    pub limit: Duration,
    /// How many times the program is started until it ends in time, also on the kernel alone.
    pub tries: u32,
    /// Whether its threads are real-time ones, so that no other such program may run at the same time, and nothing that measures.
    pub alone: bool,
    pub on_the_kernel: OnceLock<Result<Run, String>>,
}

/// A program with its arguments, or why it cannot be run.
pub enum Ready {
    Yes(OsString, Vec<OsString>),
    /// This machine lacks something.
    Lacking(String),
    /// A defect, such as an error of the compiler.
    Broken(String),
}

pub enum Outcome {
    Right,
    Wrong(String),
    Skipped(String),
}

impl Program {
    pub fn new(name: impl Into<String>, prepare: impl Fn() -> Ready + Send + Sync + 'static) -> Program {
        Program {
            name: name.into(),
            prepare: Box::new(prepare),
            modes: BOTH,
            normalize: str::to_owned,
            status: Some(0),
            limit: Duration::from_secs(60),
            tries: 1,
            alone: false,
            on_the_kernel: OnceLock::new(),
        }
    }

    pub fn in_modes(self, modes: &'static [Mode]) -> Program {
        Program { modes, ..self }
    }

    /// Sets the expected status. `None` means a signal, or any end that is the same as on the kernel.
    pub fn ends_with(self, status: Option<i32>) -> Program {
        Program { status, ..self }
    }

    pub fn compared_by(self, normalize: fn(&str) -> String) -> Program {
        Program { normalize, ..self }
    }

    /// For programs that may hang, on the kernel alone too, if their threads wait long for a CPU.
    pub fn with_retries(self, tries: u32, limit: Duration) -> Program {
        Program { tries, limit, ..self }
    }

    fn run(&self, mode: Mode, program: &OsString, arguments: &[OsString]) -> Result<Run, String> {
        let mut result = run(mode, program, arguments, self.limit);
        for _ in 1..self.tries {
            if result.is_err() {
                result = run(mode, program, arguments, self.limit);
            }
        }
        result
    }

    /// For programs whose threads spin at real-time priority: two of them would starve each other.
    pub fn alone(self) -> Program {
        Program { alone: true, ..self }
    }

    /// Runs the program in a mode and compares the result with the run on the kernel.
    pub fn judge(&self, mode: Mode) -> Outcome {
        let _turn = self.alone.then(turns::real_time_program);
        let (program, arguments) = match (self.prepare)() {
            Ready::Yes(program, arguments) => (program, arguments),
            Ready::Lacking(reason) => return Outcome::Skipped(reason),
            Ready::Broken(how) => return Outcome::Wrong(how),
        };
        let oracle = self.on_the_kernel.get_or_init(|| self.run(Mode::Kernel, &program, &arguments));
        let expected = match oracle {
            Err(how) => return Outcome::Wrong(format!("on the kernel alone: {how}")),
            Ok(expected) if expected.status.code() == Some(SKIPPED) => {
                return Outcome::Skipped(expected.stderr.trim().to_owned());
            }
            Ok(expected) => expected,
        };
        if self.status.is_some() && expected.status.code() != self.status {
            return Outcome::Wrong(format!("on the kernel alone: {}\n{}", expected.ended(), said(expected)));
        }
        if mode == Mode::Kernel {
            return Outcome::Right;
        }
        if let Some(reason) = mode.lacks() {
            return Outcome::Skipped(reason.to_owned());
        }
        match self.run(mode, &program, &arguments) {
            Ok(found) => match self.compare(expected, &found) {
                Outcome::Right => match mode {
                    Mode::Reported(options) if options.contains(&"--timers") => timers_seen(&found.report),
                    Mode::Reported(_) => seen(&found.report),
                    _ => Outcome::Right,
                },
                outcome => outcome,
            },
            Err(how) => Outcome::Wrong(how),
        }
    }

    fn compare(&self, expected: &Run, found: &Run) -> Outcome {
        if expected.ended() != found.ended() || expected.status.core_dumped() != found.status.core_dumped() {
            return Outcome::Wrong(format!(
                "ended by {}, on the kernel by {}\n{}",
                found.status,
                expected.status,
                said(found)
            ));
        }
        for (stream, expected, found) in
            [("output", &expected.stdout, &found.stdout), ("errors", &expected.stderr, &found.stderr)]
        {
            if let Some(difference) = difference(&(self.normalize)(expected), &(self.normalize)(found)) {
                return Outcome::Wrong(format!("another {stream} than on the kernel\n{difference}"));
            }
        }
        Outcome::Right
    }
}

/// Whether calls reached the engine and had an effect. Otherwise the kernel alone may have produced the right result.
fn seen(report: &str) -> Outcome {
    let reports: Vec<Value> = report.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let sum = |part: &str, name: Option<&str>| -> u64 {
        let numbers = |numbers: &serde_json::Map<String, Value>| match name {
            Some(name) => numbers.get(name).and_then(Value::as_u64).unwrap_or(0),
            None => numbers.values().filter_map(Value::as_u64).sum(),
        };
        reports.iter().filter_map(|report| report[part].as_object()).map(numbers).sum()
    };
    let [calls, woken, differed] =
        [sum("calls", None), sum("counters", Some("woken")), sum("counters", Some("mismatches"))];
    match calls > 0 && woken + differed > 0 {
        true => Outcome::Right,
        false => {
            Outcome::Wrong(format!("the engine saw {calls} calls, woke {woken}, and {differed} differed: {report}"))
        }
    }
}

/// Whether calls on timers reached the engine.
fn timers_seen(report: &str) -> Outcome {
    let reports: Vec<Value> = report.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let sum = |name: &str| -> u64 { reports.iter().filter_map(|report| report["timers"][name].as_u64()).sum() };
    match [sum("made"), sum("settings"), sum("signals")].contains(&0) {
        false => Outcome::Right,
        true => Outcome::Wrong(format!("the engine did not see all of the timers: {report}")),
    }
}

fn said(run: &Run) -> String {
    format!("-- its output\n{}\n-- and errors\n{}", last_lines(&run.stdout), last_lines(&run.stderr))
}

/// The first lines that differ.
fn difference(expected: &str, found: &str) -> Option<String> {
    const SHOWN: usize = 12;
    if expected == found {
        return None;
    }
    let mut text = String::new();
    let (mut expected, mut found, mut number, mut shown) = (expected.lines(), found.lines(), 0, 0);
    loop {
        number += 1;
        let (left, right) = (expected.next(), found.next());
        if (left.is_none() && right.is_none()) || shown == SHOWN {
            return Some(text);
        }
        if left != right {
            shown += 1;
            let (left, right) = (left.unwrap_or("(end)"), right.unwrap_or("(end)"));
            text += &format!("line {number}\n  on the kernel: {left}\n  here:          {right}\n");
        }
    }
}

/// A program in `c/`.
fn c(source: &'static str) -> Program {
    c_with(source, &[], &[])
}

/// The same program with calls by instructions, which only a trap intercepts.
fn c_by_instruction(source: &'static str) -> Program {
    let program = c_with(source, &["-DBY_INSTRUCTION"], &[]).in_modes(TRAP_ONLY);
    Program { name: format!("{source}_by_instruction"), ..program }
}

fn c_with(source: &'static str, flags: &'static [&'static str], arguments: &'static [&'static str]) -> Program {
    let name = [&[source], arguments].concat().join("_");
    Program::new(name, move || made(compile::c(source, flags), arguments))
}

fn made(made: compile::Made, arguments: &[&str]) -> Ready {
    match made {
        Ok(program) => Ready::Yes(program.into(), arguments.iter().map(OsString::from).collect()),
        Err(NotMade::NoCompiler(reason)) => Ready::Lacking(reason),
        Err(NotMade::Refused(how)) => Ready::Broken(how),
    }
}

/// A program in the system's directories. `PATH` is not used: a directory before them may have a script of that name.
pub fn installed(name: &str) -> Option<OsString> {
    let directories = ["/usr/bin", "/bin", "/usr/sbin", "/usr/local/bin"];
    directories
        .iter()
        .map(|directory| format!("{directory}/{name}"))
        .find(|path| std::fs::exists(path).unwrap_or(false))
        .map(OsString::from)
}

/// A program whose first argument is the path of a library in `c/`.
fn with_library(source: &'static str, library: &'static str, arguments: &'static [&'static str]) -> Program {
    let name = [&[source], arguments].concat().join("_");
    Program::new(name, move || match compile::c(library, &["-shared", "-fPIC"]) {
        Ok(library) => match made(compile::c(source, &[]), arguments) {
            Ready::Yes(program, arguments) => {
                Ready::Yes(program, [library.into()].into_iter().chain(arguments).collect())
            }
            other => other,
        },
        Err(NotMade::NoCompiler(reason)) => Ready::Lacking(reason),
        Err(NotMade::Refused(how)) => Ready::Broken(how),
    })
}

/// All our own programs.
pub fn ours() -> Vec<Program> {
    let mut programs = vec![
        c("mutex").in_modes(TRAP_SEES),
        c("condvar").in_modes(TABLES),
        c("semaphore").in_modes(TRAP_SEES),
        c_with("cancel_beside_signals", &["-fexceptions"], &[]).in_modes(TRAP_SEES),
        c("patched").in_modes(LIBCS),
        c("meeting").in_modes(TRAP_SEES),
        c("futex_calls").in_modes(UNREPORTED),
        c_by_instruction("futex_calls").in_modes(TRAP_UNREPORTED),
        c("futex2_calls").in_modes(UNREPORTED),
        c_by_instruction("futex2_calls").in_modes(TRAP_UNREPORTED),
        c("futex_wakes").in_modes(TABLES),
        c_by_instruction("futex_wakes"),
        c("futex_stress").in_modes(TABLES),
        c_by_instruction("futex_stress"),
        c("shared_words"),
        c_by_instruction("shared_words"),
        c("registers").in_modes(UNREPORTED),
        c("mixed_pi").in_modes(UNREPORTED),
        c_by_instruction("mixed_pi").in_modes(TRAP_UNREPORTED),
        c("slots"),
        c_by_instruction("slots"),
        c("signal_restart"),
        c_by_instruction("signal_restart"),
        c("signal_info"),
        c("signal_masks").in_modes(TRAP_SEES),
        c("restorer").in_modes(UNREPORTED),
        c("signal_storm"),
        c_by_instruction("signal_storm"),
        c("signal_jump"),
        c_by_instruction("signal_jump"),
        c("signal_fault"),
        c_by_instruction("signal_fault"),
        c("unseen_handlers").in_modes(TRAP_SEES),
        c("stepped_handlers"),
        with_library("other_ways", "other_ways_library", &[]).in_modes(UNREPORTED),
        with_library("other_ways", "other_ways_library", &["mdwe"]).in_modes(UNREPORTED),
        with_library("chained", "chain_library", &["first"]).in_modes(CHAINED),
        with_library("chained", "chain_library", &["last"]).in_modes(CHAINED),
        c("served_pages").in_modes(UNREPORTED),
        c_by_instruction("served_pages").in_modes(TRAP_UNREPORTED),
        c_by_instruction("signal_unwind").in_modes(UNREPORTED),
        c_by_instruction("signal_places"),
        c("small_stack"),
        c_by_instruction("small_stack"),
        c("alternate_stack"),
        c_by_instruction("alternate_stack"),
        c("fork_threads").in_modes(TABLES),
        c_by_instruction("fork_threads"),
        c("tracer").in_modes(TRAP_SEES),
        c("bad_addresses").in_modes(UNREPORTED),
        Program { name: "bad_addresses_and_timers".to_owned(), ..c("bad_addresses").in_modes(TIMERS_UNREPORTED) },
        c("spawn").in_modes(TRAP_SEES),
        c("raw_clone"),
        c_by_instruction("raw_clone"),
        c("cancel"),
        c_by_instruction("cancel"),
        c("pkeys"),
        c_by_instruction("pkeys"),
    ];
    programs.extend(of_timers());
    programs.extend(ends());
    programs.extend(beside_other_libraries());
    programs.extend(of_other_languages());
    programs
}

/// Programs that make timers.
fn of_timers() -> Vec<Program> {
    vec![
        c("timers").in_modes(TIMERS),
        Program { name: "timers_by_syscall".to_owned(), ..c_with("timers", &["-DBY_SYSCALL"], &[]).in_modes(TIMERS) },
        c_by_instruction("timers").in_modes(TRAPPED_TIMERS_ONLY),
        c("timer_threads").in_modes(TIMERS),
        c("cloned_child").in_modes(TIMERS_UNREPORTED),
        c_with("timer_scheduling", &[], &["is_its_own"]).in_modes(TIMERS),
        c_with("timer_scheduling", &[], &["keeps_what_the_program_has"]).in_modes(TIMERS_UNREPORTED),
        c("timer_delivery").in_modes(TIMERS),
        c_by_instruction("timer_delivery").in_modes(TRAPPED_TIMERS_ONLY),
        c("credentials").in_modes(TIMERS),
        c_by_instruction("credentials").in_modes(TRAPPED_TIMERS_ONLY),
        c("timer_storm").in_modes(TIMERS),
        c_by_instruction("timer_storm").in_modes(TRAPPED_TIMERS_ONLY),
    ]
}

/// Programs beside another library that replaces functions of libc, or that is initialised before ours.
fn beside_other_libraries() -> Vec<Program> {
    const SHARED: &[&str] = &["-shared", "-fPIC"];
    const INITIALISED_FIRST: &[&str] = &["-shared", "-fPIC", "-Wl,-z,initfirst"];
    let beside = |source: &'static str, library: &'static str, flags: &'static [&'static str]| {
        Program::new(source, move || match (compile::c(source, &[]), compile::c(library, flags)) {
            (Ok(program), Ok(library)) => Ready::Yes(program.into(), vec![library.into()]),
            (Err(not_made), _) | (_, Err(not_made)) => made(Err(not_made), &[]),
        })
    };
    let mut programs = vec![
        beside("early", "early_library", INITIALISED_FIRST),
        beside("skewed_clocks", "skewed_library", SHARED).in_modes(TIMERS),
        Program {
            name: "allocator_locking".to_owned(),
            ..beside("allocator", "locking_library", SHARED).in_modes(TRAP_SEES)
        },
    ];
    const ALLOCATORS: &[(&str, &str, &str)] = &[
        ("tcmalloc", "libtcmalloc_minimal.so.4", "libtcmalloc-minimal4"),
        ("jemalloc", "libjemalloc.so.2", "libjemalloc2"),
        ("mimalloc", "libmimalloc.so.2.0", "libmimalloc2.0"),
    ];
    programs.extend(ALLOCATORS.iter().map(|&(name, file, package)| {
        let prepare = move || {
            let directories = ["/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"];
            let path = directories.iter().map(|directory| format!("{directory}/{file}"));
            match path.into_iter().find(|path| std::fs::exists(path).unwrap_or(false)) {
                Some(path) => made(compile::c("allocator", &[]), &[&path]),
                None => Ready::Lacking(format!("no {file} here (Debian's package {package})")),
            }
        };
        Program::new(format!("allocator_{name}"), prepare).in_modes(TRAP_SEES)
    }));
    programs
}

/// Programs whose locks belong to a language's runtime or a sanitizer.
fn of_other_languages() -> Vec<Program> {
    let mut programs = Vec::new();
    programs.push(Program::new("cxx_atomic_wait", || made(compile::cxx("atomic_wait"), &[])).in_modes(TABLES));
    programs.push(Program::new("rust_standard_library", standard_library::ready).in_modes(TABLES));
    let python = Program::new("python_threads", || match installed("python3") {
        Some(python) => Ready::Yes(
            python,
            // Python 3.12 and later print a warning with the PID where a program with threads forks.
            vec!["-W".into(), "ignore".into(), compile::sources().join("others/threads.py").into()],
        ),
        None => Ready::Lacking("no python3 here".into()),
    });
    programs.push(python.in_modes(TRAP_SEES));
    programs.push(Program::new("go_with_cgo", || made(compile::go("goroutines", true), &[])).in_modes(TRAP_SEES));
    programs.push(Program::new("go_without_libc", || made(compile::go("channels", false), &[])).in_modes(TRAP_SEES));
    let sanitized = c_with("condvar", &["-fsanitize=address"], &[]).in_modes(UNREPORTED);
    programs.push(Program { name: "condvar_with_address_sanitizer".to_owned(), ..sanitized });
    for source in ["races", "sanitized_signals"] {
        programs.push(c_with(source, &["-fsanitize=thread"], &[]).in_modes(UNREPORTED));
    }
    for collector in ["-XX:+UseSerialGC", "-XX:+UseParallelGC"] {
        let name = format!("java_threads{}", collector.replace("-XX:+Use", "_"));
        programs.push(Program::new(name, move || java(collector)).in_modes(TRAP_ONLY).ends_with(Some(3)));
    }
    programs
}

/// The ways in which a program ends, each in a run of its own.
fn ends() -> Vec<Program> {
    const BY_STATUS: &[(&[&str], i32)] = &[
        (&["return"], 5),
        (&["exit"], 6),
        (&["_exit"], 7),
        (&["instruction"], 8),
        (&["thread_exits"], 9),
        (&["quick_exit"], 10),
        (&["handler"], 11),
        (&["pthread_exit"], 0),
        (&["last_thread"], 0),
    ];
    const BY_SIGNAL: &[&[&str]] = &[
        &["abort"],
        &["thread_aborts"],
        &["fault"],
        &["trap"],
        &["overflow"],
        &["SIGTERM"],
        &["SIGKILL"],
        &["SIGSYS"],
        &["SIGPIPE"],
        &["SIGALRM"],
    ];
    let by_status =
        BY_STATUS.iter().map(|&(way, status)| c_with("ends", &[], way).in_modes(UNREPORTED).ends_with(Some(status)));
    let by_signal = BY_SIGNAL.iter().map(|&way| c_with("ends", &[], way).in_modes(UNREPORTED).ends_with(None));
    by_status.chain(by_signal).collect()
}

fn java(collector: &str) -> Ready {
    let (Some(java), Some(_)) = (installed("java"), installed("javac")) else {
        return Ready::Lacking("no java and javac here".into());
    };
    match compile::java("Threads") {
        Ok(classes) => {
            let mut arguments: Vec<OsString> =
                ["-XX:TieredStopAtLevel=1", "-Xmx128m", collector, "-cp"].map(OsString::from).into();
            arguments.extend([classes.into(), "Threads".into()]);
            Ready::Yes(java, arguments)
        }
        Err(NotMade::NoCompiler(reason)) => Ready::Lacking(reason),
        Err(NotMade::Refused(how)) => Ready::Broken(how),
    }
}
