//! Tests beyond output: programs that cannot load the library, and what a program sees of how it was started.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use crate::compile::{self, NotMade, products};
use crate::mode::{Mode, launcher};
use crate::program::{Outcome, SKIPPED, installed};
use crate::run::{Run, run};

/// The name and function of a trial.
pub type Trial = (&'static str, fn() -> Outcome);

pub const TRIALS: &[Trial] = &[
    ("static_programs_are_refused_in_one_line", static_refused),
    ("static_programs_run_by_a_program_run_as_they_are_without_a_trap", static_child),
    ("static_programs_run_by_a_program_are_refused_under_a_trap", static_child_trapped),
    ("setuid_programs_are_refused_in_one_line", setuid_refused),
    ("setuid_programs_run_by_a_program_are_refused_under_a_trap", setuid_child_trapped),
    ("an_emptied_environment_does_not_lose_the_library_under_a_trap", emptied_environment),
    ("programs_with_options_of_their_own_for_address_sanitizer_run", sanitizer_options),
    ("programs_of_another_libc_run_by_a_program_run_as_they_are_without_a_trap", musl_child),
    ("the_program_has_the_number_of_the_process_that_was_started", same_process),
    ("a_script_is_run_by_its_interpreter", script),
    ("a_filter_or_a_dispatcher_of_the_program_is_no_loop_under_a_trap", own_sigsys),
    ("a_program_that_confines_itself_does_not_go_on_unconfined_under_a_trap", strict),
    ("the_library_calls_no_function_that_a_program_can_replace", calls_nothing_of_others),
    ("a_debugger_sees_nothing_of_a_trap", debugged),
    ("a_debugger_calls_functions_in_a_program_under_a_trap", called_by_a_debugger),
];

const PLAIN: Mode = Mode::Run(&[]);
const TRAP: Mode = Mode::Run(&["--trap"]);
/// Status of `ufutex run`, and of a shell, for a program that exists and cannot be run.
const CANNOT_RUN: i32 = 126;
/// Exit status of `answer.c`.
const ANSWERED: i32 = 3;

fn static_refused() -> Outcome {
    with(compile::c("answer", &["-static"]), |program| {
        for mode in [PLAIN, TRAP] {
            refused(&in_mode(mode, &program, &[])?)?;
        }
        Ok(())
    })
}

fn static_child() -> Outcome {
    with(compile::c("answer", &["-static"]), |program| {
        let run = shell(PLAIN, "\"$0\" child; echo \"status $?\"", &program)?;
        same(&run, 0, &format!("answered child\nstatus {ANSWERED}\n"), "")
    })
}

fn static_child_trapped() -> Outcome {
    with(compile::c("answer", &["-static"]), |program| {
        refused_to_a_shell(&shell(TRAP, "\"$0\" child; echo \"status $?\"", &program)?)
    })
}

fn setuid_refused() -> Outcome {
    with_setuid(|program| {
        for mode in [PLAIN, TRAP] {
            refused(&in_mode(mode, program, &[])?)?;
        }
        Ok(())
    })
}

fn setuid_child_trapped() -> Outcome {
    with_setuid(|program| refused_to_a_shell(&shell(TRAP, "\"$0\" child; echo \"status $?\"", program)?))
}

fn sanitizer_options() -> Outcome {
    with(compile::c("sanitizer_options", &["-fsanitize=address"]), |program| {
        for mode in [PLAIN, TRAP] {
            same(&in_mode(mode, &program, &[])?, 0, "ran\n", "")?;
            let others = "ASAN_OPTIONS=$ASAN_OPTIONS:exitcode=8 \"$0\"; echo \"$ASAN_OPTIONS\"";
            same(&shell(mode, others, &program)?, 0, "ran\nverify_asan_link_order=0\n", "")?;
        }
        Ok(())
    })
}

fn musl_child() -> Outcome {
    with(compile::c_by("musl-gcc", "answer", &[]), |program| {
        refused(&in_mode(PLAIN, &program, &[])?)?;
        refused_to_a_shell(&shell(TRAP, "\"$0\" child; echo \"status $?\"", &program)?)?;
        // The next program has the library again.
        let run =
            shell(PLAIN, "\"$0\" child; echo \"status $?\"; grep -c libufutex_preload /proc/self/maps >&2", &program)?;
        let is_preloaded = run.stderr.trim().parse().is_ok_and(|lines: u32| lines > 0);
        let loaded = if is_preloaded { Ok(()) } else { Err(format!("not preloaded: {}", run.stderr)) };
        same(&Run { stderr: String::new(), ..run }, 0, &format!("answered child\nstatus {ANSWERED}\n"), "").and(loaded)
    })
}

/// Runs a trial with a copy of the program that is owned by the user nobody and setuid. Only root can make one.
fn with_setuid(trial: impl FnOnce(&Path) -> Result<(), String>) -> Outcome {
    const NOBODY: u32 = 65534;
    let copy = products().join(format!("setuid-{}-{:?}", std::process::id(), std::thread::current().id()));
    let make = |original: PathBuf| -> std::io::Result<()> {
        fs::copy(original, &copy)?;
        chown(&copy, Some(NOBODY), None)?;
        fs::set_permissions(&copy, Permissions::from_mode(0o4755))
    };
    let made = compile::c("answer", &[]).and_then(|original| {
        let lacking = |error| NotMade::NoCompiler(format!("no setuid program of another's can be made here: {error}"));
        make(original).map(|()| copy.clone()).map_err(lacking)
    });
    let outcome = with(made, |copy| trial(&copy));
    let _ = fs::remove_file(&copy);
    outcome
}

fn emptied_environment() -> Outcome {
    with(compile::c("answer", &[]), |program| {
        let run = shell(TRAP, "env -i \"$0\" child; echo \"status $?\"", &program)?;
        same(&run, 0, &format!("answered child\nstatus {ANSWERED}\n"), "")
    })
}

fn same_process() -> Outcome {
    let report = || {
        for mode in [PLAIN, TRAP] {
            // The group's number is the PID of the started process: see `run.rs`.
            let run = in_mode(mode, Path::new("/bin/sh"), &["-c", "test $$ = $(cut -d' ' -f5 /proc/$$/stat)"])?;
            same(&run, 0, "", "")?;
        }
        Ok(())
    };
    outcome(report())
}

fn script() -> Outcome {
    with(compile::c("answer", &[]), |program| {
        let script = products().join(format!("script-{}", std::process::id()));
        let text = format!("#!/bin/sh\n'{}' \"$1\"\necho \"status $?\"\nexit 7\n", program.display());
        let made = fs::write(&script, text).and_then(|()| fs::set_permissions(&script, Permissions::from_mode(0o755)));
        made.map_err(|error| error.to_string())?;
        for mode in [PLAIN, TRAP] {
            let run = in_mode(mode, &script, &["argument"])?;
            same(&run, 7, &format!("answered argument\nstatus {ANSWERED}\n"), "")?;
        }
        fs::remove_file(&script).map_err(|error| error.to_string())
    })
}

/// If the program's filter stops a call that the trap needs, the process ends with a line. Syscall User Dispatch is
/// refused.
fn own_sigsys() -> Outcome {
    const OTHERWISE: [(&str, &str); 2] =
        [("ended by itself", "ended by SYS"), ("dispatch: 4711, 1 times, code 2", "dispatch: EINVAL")];
    /// The library's calls that the filters stop, in the order of the program's cases.
    const STOPPED: [i64; 7] = [
        libc::SYS_rt_sigprocmask,
        libc::SYS_pselect6,
        libc::SYS_epoll_pwait,
        libc::SYS_epoll_pwait2,
        libc::SYS_clone,
        libc::SYS_clone3,
        libc::SYS_futex,
    ];
    let lacking = Cell::new(None);
    let outcome = with(compile::c("own_sigsys", &[]), |program| {
        let native = in_mode(Mode::Kernel, &program, &[])?;
        if native.status.code() == Some(SKIPPED) {
            lacking.set(Some(native.stderr));
            return Ok(());
        }
        same(&in_mode(PLAIN, &program, &[])?, 0, &native.stdout, "")?;
        let trapped = OTHERWISE.iter().fold(native.stdout, |text, (from, to)| text.replace(from, to));
        let run = in_mode(TRAP, &program, &[])?;
        let line = |number| {
            format!(
                "ufutex run --trap: a seccomp filter of the program stops a system call of ours, number {number:03}\n"
            )
        };
        same(&run, 0, &trapped, &STOPPED.map(line).concat())
    });
    lacking.take().map_or(outcome, Outcome::Skipped)
}

/// The kernel refuses the strict mode of seccomp(2) to a process with a filter. Under the trap such a process ends with
/// a line.
fn strict() -> Outcome {
    const LINE: &str = "ufutex: --trap cannot serve a program in the strict mode of seccomp(2), which the kernel refuses \
                        to a process with a filter\n";
    with(compile::c("strict", &[]), |program| {
        let native = in_mode(Mode::Kernel, &program, &[])?;
        same(&in_mode(PLAIN, &program, &[])?, 0, &native.stdout, "")?;
        let ended = native.stdout.replace("status 3", &format!("status {CANNOT_RUN}"));
        for mode in [TRAP, Mode::Run(&["--trap", "--timers"])] {
            same(&in_mode(mode, &program, &[])?, 0, &ended, &LINE.repeat(3))?;
        }
        Ok(())
    })
}

/// Symbols that the loader resolves for the library.
fn calls_nothing_of_others() -> Outcome {
    const RESOLVED: &[(&str, &[&str])] = &[
        (
            "asks the loader, which has no other interface",
            &["dlsym", "dlvsym", "dladdr", "dl_iterate_phdr", "__libc_stack_end"],
        ),
        ("says which libc this is, from a constant", &["gnu_get_libc_version"]),
        ("the calling thread's, which libc's functions and ours store to", &["__errno_location"]),
        ("registers a function, once, before the program begins", &["__register_atfork"]),
        ("registers a function, when quick_exit(3) is called", &["__cxa_at_quick_exit"]),
        ("threads of libc's for SIGEV_THREAD, as its own timer_create(3) makes them", &["pthread_attr_*"]),
        ("the unwinder, which has to be the program's: a thread may be cancelled inside", &["_Unwind_*"]),
        ("of the compiler's start files", &["__cxa_finalize", "__gmon_start__", "_ITM_*"]),
    ];
    // Beside the command, or where Cargo builds it as a dependency of the command.
    let places = ["libufutex_preload.so", "deps/libufutex_preload.so"].map(|name| launcher().with_file_name(name));
    let library = places.iter().find(|place| place.exists()).unwrap_or(&places[0]);
    let is_known = |name: &str| {
        RESOLVED.iter().flat_map(|(_, names)| *names).any(|known| match known.strip_suffix('*') {
            Some(beginning) => name.starts_with(beginning),
            None => name == *known,
        })
    };
    let unknown = |bytes: Vec<u8>| {
        let names = resolved_by_the_loader(&bytes).ok_or("not an ELF file for x86-64".to_owned())?;
        match names.into_iter().filter(|name| !is_known(name)).collect::<Vec<_>>() {
            none if none.is_empty() => Ok(()),
            others => Err(format!("{library:?} calls {}: see preload/src/local.rs", others.join(", "))),
        }
    };
    outcome(fs::read(library).map_err(|error| format!("{library:?}: {error}")).and_then(unknown))
}

/// The names of the symbols that relocations of an ELF file name.
fn resolved_by_the_loader(file: &[u8]) -> Option<BTreeSet<String>> {
    const RELOCATIONS: u64 = 4;
    const RELOCATION_BYTES: usize = 24;
    const SYMBOL_BYTES: u64 = 24;
    let number = |at: u64, bytes: usize| {
        let field = file.get(at as usize..)?.get(..bytes)?;
        Some(field.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    };
    let (table, count) = (number(40, 8)?, number(60, 2)?);
    let mut names = BTreeSet::new();
    // A section's header has its type at 4, its offset and size at 24 and 32, and the section that it refers to at 40.
    let header = |index: u64| table + index * 64;
    let offset = |index: u64| number(header(index) + 24, 8);
    for section in (0..count).filter(|index| number(header(*index) + 4, 4) == Some(RELOCATIONS)) {
        let symbols = number(header(section) + 40, 4)?;
        let strings = number(header(symbols) + 40, 4)?;
        for at in (0..number(header(section) + 32, 8)?).step_by(RELOCATION_BYTES) {
            let symbol = number(offset(section)? + at + 12, 4)?;
            let name = offset(strings)? + number(offset(symbols)? + symbol * SYMBOL_BYTES, 4)?;
            let name = file.get(name as usize..)?.split(|byte| *byte == 0).next()?;
            names.insert(String::from_utf8_lossy(name).into_owned());
        }
    }
    names.remove(""); // of relocations that name none
    (!names.is_empty()).then_some(names)
}

/// Debugger and program run under the trap. Breakpoints and steps work.
fn debugged() -> Outcome {
    let Some(gdb) = installed("gdb") else {
        return Outcome::Skipped("no gdb here (Debian's package gdb)".to_owned());
    };
    with(compile::c("condvar", &["-g"]), |program| {
        let commands = ["break main", "run", "next", "next", "continue", "info signals SIGSYS"];
        let mut arguments: Vec<&str> = vec!["-nx", "-batch"];
        arguments.extend(commands.iter().flat_map(|command| ["-ex", command]));
        let program = program.to_string_lossy();
        arguments.push(&program);
        let run = in_mode(TRAP, Path::new(&gdb), &arguments)?;
        let ended = run.stdout.contains("exited normally]") && !run.stdout.contains("received signal");
        match ended && run.status.success() {
            true => Ok(()),
            false => Err(format!("{}\n{}\n{}", run.ended(), run.stdout, run.stderr)),
        }
    })
}

/// A debugger attaches to waiting threads and calls functions in the program, which then continues. One debugger runs
/// outside the trap and passes SIGSYS on, as the help says. Another runs under the trap. If gdb cannot do this on the
/// kernel alone, the test is skipped.
fn called_by_a_debugger() -> Outcome {
    const PASSED: &[&str] = &["handle SIGSYS nostop noprint pass", "set language c"];
    let Some(gdb) = installed("gdb") else {
        return Outcome::Skipped("no gdb here (Debian's package gdb)".to_owned());
    };
    let lacking = Cell::new(None);
    let outcome = with(compile::c("called", &["-g"]), |program| {
        if let Err(how) = called(Mode::Kernel, &program, Mode::Kernel, &gdb, &[]) {
            let why = how.lines().find(|line| line.contains("ptrace") || line.contains("Couldn't")).unwrap_or(&how);
            lacking.set(Some(format!("gdb calls no function in an attached program on the kernel alone: {why}")));
            return Ok(());
        }
        for thread in ["thread 1", "thread 2", "thread 3"] {
            called(TRAP, &program, Mode::Kernel, &gdb, &[PASSED, &[thread]].concat())?;
            called(TRAP, &program, TRAP, &gdb, &["set language c", thread])?;
        }
        Ok(())
    });
    lacking.take().map_or(outcome, Outcome::Skipped)
}

/// Runs `called.c` in one mode and gdb in another. `commands` come before the calls.
fn called(mode: Mode, program: &Path, gdbs: Mode, gdb: &OsString, commands: &[&str]) -> Result<(), String> {
    let error = |error: std::io::Error| error.to_string();
    let mut command = mode.command(&program.into(), &[], Path::new("/dev/null"));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(error)?;
    let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
    let mut begun = String::new();
    stdout.read_line(&mut begun).map_err(error)?;
    let pid = child.id().to_string();
    let mut arguments = vec!["-nx", "-batch", "-p", &pid];
    let calls = ["print answers(4000)", "call (int)getpid()", "print answers(5000)"];
    arguments.extend(commands.iter().chain(&calls).flat_map(|command| ["-ex", command]));
    let debugged = in_mode(gdbs, Path::new(gdb), &arguments);
    drop(child.stdin.take()); // which ends the program
    let debugged = match debugged {
        Ok(run) => run,
        Err(how) => {
            let _ = child.kill();
            let _ = child.wait();
            return Err(how);
        }
    };
    let (mut rest, status) = (String::new(), child.wait().map_err(error)?);
    stdout.read_to_string(&mut rest).map_err(error)?;
    let answers = ["$1 = 4711\n", &format!("$2 = {pid}\n"), "$3 = 5711\n"];
    match answers.iter().all(|answer| debugged.stdout.contains(answer)) && status.success() && rest == "ended\n" {
        true => Ok(()),
        false => Err(format!("{commands:?}: {status}, {rest:?}\n{}\n{}", debugged.stdout, debugged.stderr)),
    }
}

fn with(program: compile::Made, trial: impl FnOnce(PathBuf) -> Result<(), String>) -> Outcome {
    match program {
        Ok(program) => outcome(trial(program)),
        Err(NotMade::NoCompiler(reason)) => Outcome::Skipped(reason),
        Err(NotMade::Refused(how)) => Outcome::Wrong(how),
    }
}

fn outcome(result: Result<(), String>) -> Outcome {
    result.map_or_else(Outcome::Wrong, |()| Outcome::Right)
}

fn in_mode(mode: Mode, program: &Path, arguments: &[&str]) -> Result<Run, String> {
    let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
    run(mode, &program.into(), &arguments, Duration::from_secs(60))
}

/// Runs a shell with a command line, whose `$0` is the program.
fn shell(mode: Mode, line: &str, program: &Path) -> Result<Run, String> {
    let arguments = ["-c".into(), line.into(), program.into()];
    run(mode, &"/bin/sh".into(), &arguments, Duration::from_secs(60))
}

fn same(run: &Run, status: i32, stdout: &str, stderr: &str) -> Result<(), String> {
    match run.status.code() == Some(status) && run.stdout == stdout && run.stderr == stderr {
        true => Ok(()),
        false => Err(format!(
            "{}, not status {status}\n{:?}, not {stdout:?}\n{:?}, not {stderr:?}",
            run.ended(),
            run.stdout,
            run.stderr
        )),
    }
}

/// Refused by the command: its status, one line, and no output of the program.
fn refused(run: &Run) -> Result<(), String> {
    let one_line = run.stderr.starts_with("ufutex: ") && run.stderr.lines().count() == 1;
    match run.status.code() == Some(CANNOT_RUN) && run.stdout.is_empty() && one_line {
        true => Ok(()),
        false => Err(format!("{}\n{}\n{}", run.ended(), run.stdout, run.stderr)),
    }
}

/// Refused by the library in a child of a shell, which continues.
fn refused_to_a_shell(run: &Run) -> Result<(), String> {
    let said = run.stderr.lines().any(|line| line.starts_with("ufutex run --trap: "));
    match run.status.code() == Some(0) && run.stdout == format!("status {CANNOT_RUN}\n") && said {
        true => Ok(()),
        false => Err(format!("{}\n{}\n{}", run.ended(), run.stdout, run.stderr)),
    }
}
