//! `ufutex run` as its users see it: the program is the process, with everything that it was given; what cannot be run is
//! refused in one line. What the library does to futexes is tested with the programs.
#![cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]

use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

const UFUTEX: &str = env!("CARGO_BIN_EXE_ufutex");

/// `ufutex run` with these arguments.
fn run<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(UFUTEX);
    command.arg("run").args(arguments).env_remove("LD_PRELOAD").env_remove("UFUTEX_PRELOAD").env_remove("UFUTEX_RUN");
    command
}

/// A child has all files of this process until it executes something, and what anybody can still write cannot be executed:
/// programs are written and children made one at a time.
static FORK: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    FORK.lock().unwrap_or_else(PoisonError::into_inner)
}

fn spawn(command: &mut Command) -> Child {
    let _alone = alone();
    command.spawn().expect("the command starts")
}

fn output(command: &mut Command) -> Output {
    let child = spawn(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()));
    child.wait_with_output().expect("our own child")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// What a program prints that ends well and says nothing on stderr.
fn printed(command: &mut Command) -> String {
    let output = output(command);
    assert!(output.status.success() && output.stderr.is_empty(), "{command:?}: {output:?}");
    text(&output.stdout)
}

/// It ends with this status and this one line, and has run nothing.
#[track_caller]
fn assert_refused(command: &mut Command, status: i32, line: &str) {
    let output = output(command);
    assert_eq!((text(&output.stderr).as_str(), output.status.code()), (&*format!("ufutex: {line}\n"), Some(status)));
    assert!(output.stdout.is_empty(), "{command:?} has run something");
}

/// A directory of one test, gone after it.
struct Place(PathBuf);

impl Place {
    fn new(test: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("run-{test}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("the build directory can be written");
        Self(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).into_os_string().into_string().expect("UTF-8")
    }

    fn file(&self, name: &str, content: &str, mode: u32) -> String {
        let path = self.path(name);
        fs::create_dir_all(Path::new(&path).parent().expect("a directory")).expect("our own directory");
        let _alone = alone();
        fs::write(&path, content).expect("a file");
        fs::set_permissions(&path, Permissions::from_mode(mode)).expect("our own file");
        path
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn copy(from: &str, to: &str) {
    let _alone = alone();
    fs::copy(from, to).expect("a copy");
}

fn is_root() -> bool {
    // SAFETY: it always succeeds.
    unsafe { libc::geteuid() == 0 }
}

#[test]
fn exit_status_and_signals_are_the_programs_own() {
    for trap in [&[][..], &["--trap"]] {
        let status = |script: &str| output(run(trap).args(["sh", "-c", script])).status;
        assert_eq!(status("exit 0").code(), Some(0));
        assert_eq!(status("exit 7").code(), Some(7));
        assert_eq!(status("exit 125").code(), Some(125));
        assert_eq!(status("kill -TERM $$").signal(), Some(libc::SIGTERM));
        assert_eq!(status("kill -KILL $$").signal(), Some(libc::SIGKILL));
        assert_eq!(status("kill -SEGV $$").signal(), Some(libc::SIGSEGV));
        assert_eq!(status("kill -PIPE $$").signal(), Some(libc::SIGPIPE));
    }
}

#[test]
fn the_program_has_the_pid_that_was_started() {
    let child = spawn(run(["sh", "-c", "echo $$"]).stdout(Stdio::piped()));
    let pid = child.id();
    let output = child.wait_with_output().expect("our own child");
    assert_eq!(text(&output.stdout), format!("{pid}\n"));
}

#[test]
fn stdin_stdout_and_stderr_go_through_as_they_are() {
    let mut child = spawn(
        run(["sh", "-c", "cat; echo error >&2"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()),
    );
    let bytes: Vec<u8> = (0..100_000u32).map(|i| (i ^ i >> 8) as u8).collect();
    let mut stdin = child.stdin.take().expect("piped");
    let writer = std::thread::spawn({
        let bytes = bytes.clone();
        move || stdin.write_all(&bytes)
    });
    let output = child.wait_with_output().expect("our own child");
    writer.join().expect("no panic").expect("all of it is read");
    assert!(output.stdout == bytes, "{} bytes came of {}", output.stdout.len(), bytes.len());
    assert_eq!(output.stderr, b"error\n");
}

#[test]
fn arguments_are_the_programs_from_its_name_on() {
    let arguments = ["cat", "/proc/self/cmdline"];
    assert_eq!(printed(&mut run(arguments)), "cat\0/proc/self/cmdline\0");
    assert_eq!(printed(run(["--"]).args(arguments)), "cat\0/proc/self/cmdline\0");
    // Options of ours and a `--` after the program are not for us, and bytes are bytes.
    let odd = OsString::from_vec(b"\xff\n ".to_vec());
    let mut command = run(["--", "printf", "<%s>", "--trap", "--stats", "--", "", "-o"]);
    let output = output(command.arg(odd));
    assert_eq!(output.stdout.escape_ascii().to_string(), "<--trap><--stats><--><><-o><\\xff\\n >");
    assert!(output.stderr.is_empty());
}

#[test]
fn the_environment_is_kept_and_gets_the_library_first_and_the_settings() {
    let mut command = run(["--scheme", "percpu", "--layout", "split", "--slots", "64", "--immutable", "env", "-0"]);
    let all = printed(command.env_clear().env("PATH", "/usr/bin:/bin").env("LD_PRELOAD", "").env("ODD", "a\nb=c"));
    let entries: Vec<_> = all.split_terminator('\0').collect();
    let [odd, path, preload, settings] = entries[..] else { panic!("{entries:?}") };
    assert!([odd, path].contains(&"ODD=a\nb=c") && [odd, path].contains(&"PATH=/usr/bin:/bin"), "{entries:?}");
    assert!(preload.starts_with("LD_PRELOAD=/") && preload.ends_with("/libufutex_preload.so"), "{preload}");
    let wanted = "UFUTEX_RUN=scheme=percpu,layout=split,policy=load,slots=64,immutable,process=";
    assert!(settings.starts_with(wanted), "{settings}");
}

#[test]
fn another_preloaded_library_stays_behind_ours() {
    let Some(other) = ["libm.so.6", "libdl.so.2"]
        .iter()
        .map(|name| format!("/lib/x86_64-linux-gnu/{name}"))
        .find(|path| Path::new(path).exists())
    else {
        println!("skipped: no library to preload is where it usually is");
        return;
    };
    let all = printed(
        run(["sh", "-c", "echo $LD_PRELOAD; grep -c -e $1 /proc/self/maps", "sh", &other]).env("LD_PRELOAD", &other),
    );
    let (list, mappings) = all.trim().split_once('\n').expect("two lines");
    let (ours, theirs) = list.split_once(':').expect("two libraries");
    assert!(ours.ends_with("/libufutex_preload.so") && theirs == other, "{list}");
    assert_ne!(mappings, "0");
}

#[test]
fn ignored_signals_blocked_signals_and_closed_files_are_inherited() {
    // Rust's runtime ignores SIGPIPE, and opens what is closed.
    for ignored in [false, true] {
        let status = |command: &mut Command| {
            // SAFETY: two system calls, and what fills in a set.
            unsafe {
                command.pre_exec(move || {
                    let mut blocked: libc::sigset_t = std::mem::zeroed();
                    libc::sigemptyset(&mut blocked);
                    libc::sigaddset(&mut blocked, libc::SIGUSR2);
                    libc::sigprocmask(libc::SIG_SETMASK, &blocked, std::ptr::null_mut());
                    libc::signal(libc::SIGPIPE, if ignored { libc::SIG_IGN } else { libc::SIG_DFL });
                    Ok(())
                })
            };
            printed(command)
        };
        let arguments = ["grep", "-E", "^Sig(Ign|Blk)", "/proc/self/status"];
        let plain = status(Command::new(arguments[0]).args(&arguments[1..]));
        assert_eq!(status(&mut run(arguments)), plain);
        assert!(plain.contains("SigBlk:\t0000000000000800"), "{plain}");
    }
    let script = format!("exec 0<&-; ls /proc/self/fd; {UFUTEX} run ls /proc/self/fd");
    let both = printed(Command::new("sh").args(["-c", &script]));
    let lines: Vec<_> = both.lines().collect();
    assert_eq!(lines[..lines.len() / 2], lines[lines.len() / 2..], "the library leaves no file open either");
}

#[test]
fn a_program_is_looked_for_in_path_as_by_a_shell() {
    let place = Place::new("path");
    let script = "#!/bin/sh\necho $0\n";
    place.file("a/tool", script, 0o644);
    let second = place.file("b/tool", script, 0o755);
    place.file("c/tool", script, 0o755);
    fs::create_dir_all(place.path("d/tool")).expect("our own directory");
    let list = |names: &[&str]| names.iter().map(|name| place.path(name)).collect::<Vec<_>>().join(":");
    let mut command = run(["tool"]);
    command.current_dir(place.path("c"));
    assert_eq!(printed(command.env("PATH", list(&["missing", "d", "a", "b", "c"]))), format!("{second}\n"));
    assert_eq!(printed(command.env("PATH", list(&["d"]) + "::" + &list(&["b"]))), "tool\n", "the working directory");
    let line = format!("{} cannot be run: permission denied", place.path("a/tool"));
    if is_root() {
        // Nobody may execute what has no x at all, not even root.
        assert_refused(command.env("PATH", list(&["missing", "a", "d"])), 126, &line);
    }
    assert_refused(command.env("PATH", list(&["missing"])), 127, "'tool' is not found in PATH");
    assert_refused(run([""]).env("PATH", list(&["b"])), 127, "'' is not found in PATH");
    assert_eq!(printed(run(["true"]).env_remove("PATH")), "");
}

#[test]
fn scripts_are_run_by_their_interpreter_or_the_shell() {
    let place = Place::new("script");
    let with = place.file("with", "#!/bin/sh -u\necho \"$0 $# $LD_PRELOAD\"\n", 0o755);
    let without = place.file("without", "echo \"$0 $# $LD_PRELOAD\"\n", 0o755);
    for script in [&with, &without] {
        let line = printed(&mut run([script, "1", "2"]));
        assert!(line.starts_with(&format!("{script} 2 /")) && line.contains("libufutex_preload.so"), "{line}");
    }
    let lost = place.file("lost", "#!/nowhere/sh\n", 0o755);
    assert_refused(&mut run([&lost]), 127, &format!("{lost} is run by /nowhere/sh, which does not exist"));
}

#[test]
fn a_static_program_is_refused() {
    let place = Place::new("static");
    let source = place.file("program.c", "int main(void) { return 0; }\n", 0o644);
    let program = place.path("program");
    let compiled =
        Command::new("sh").args(["-c", "cc -static $0 -o $1 2>&1", &source, &program]).stdout(Stdio::null()).status();
    if !compiled.is_ok_and(|status| status.success()) {
        println!("skipped: cc -static makes no program here (libc.a is missing?)");
        return;
    }
    let line = format!("{program} is statically linked: nothing can be preloaded into it");
    assert_refused(&mut run([&program]), 126, &line);
    let script = place.file("script", &format!("#!{program}\n"), 0o755);
    let line = format!("{script} is run by {program}, which is statically linked: nothing can be preloaded into it");
    assert_refused(&mut run(["--trap", &script]), 126, &line);
}

#[test]
fn a_setuid_program_of_another_user_is_refused() {
    if !is_root() {
        println!("skipped: only root can make a program that belongs to another user");
        return;
    }
    let place = Place::new("setuid");
    let program = place.path("program");
    copy("/bin/true", &program);
    let refused = |user, mode, line: &str| {
        chown(&program, Some(user), Some(user)).expect("root");
        fs::set_permissions(&program, Permissions::from_mode(mode)).expect("root");
        assert_refused(&mut run([&program]), 126, &format!("{program} {line}"));
    };
    refused(1, 0o4755, "runs as another user (setuid): the loader preloads nothing into it");
    refused(1, 0o2755, "runs as another group (setgid): the loader preloads nothing into it");
    chown(&program, Some(0), Some(0)).expect("root");
    fs::set_permissions(&program, Permissions::from_mode(0o6755)).expect("root");
    assert_eq!(printed(&mut run([&program])), "", "root is who it would run as anyway");
}

#[test]
fn what_is_missing_or_cannot_be_run_is_told_apart() {
    let place = Place::new("missing");
    let plain = place.file("plain", "#!/bin/sh\n", 0o644);
    let missing = place.path("missing");
    assert_refused(&mut run([&missing]), 127, &format!("{missing} does not exist"));
    assert_refused(&mut run(["surely-no-such-program"]), 127, "'surely-no-such-program' is not found in PATH");
    assert_refused(&mut run(["two\nlines"]), 127, "'two\\nlines' is not found in PATH");
    let below = format!("{plain}/below");
    assert_refused(&mut run([&below]), 127, &format!("{below} cannot be run: a part of its path is no directory"));
    let directory = place.path("");
    assert_refused(&mut run([&directory]), 126, &format!("{directory} cannot be run: permission denied"));
    assert_refused(&mut run([&plain]), 126, &format!("{plain} cannot be run: permission denied"));
    let link = place.path("loop");
    symlink("loop", &link).expect("a link");
    let line = format!("{link} cannot be run: too many levels of scripts or links");
    assert_refused(&mut run([&link]), 126, &line);
    let other = place.path("other");
    let mut elf = fs::read("/bin/true").expect("a program");
    elf[18] = 183;
    copy("/bin/true", &other);
    fs::write(&other, &elf).expect("a file that nobody runs");
    assert_refused(&mut run([&other]), 126, &format!("{other} is a program for aarch64, not for x86-64"));
}

#[test]
fn a_bad_option_is_one_line_that_names_it_and_what_is_accepted() {
    let flags = "--trap --timers --stats -f/--follow-forks --json -o/--output --scheme --layout --policy \
                 --slots --immutable -h/--help";
    let program = "no program given; accepted: ufutex run [OPTIONS] PROGRAM [ARGS]..., see --help";
    let (slots, policy) = (
        "is not accepted; accepted: 0 for the global table, or a power of two from 2 to 1048576",
        "is not accepted; accepted: load, threads, or a power of two from 2 to 1048576",
    );
    let cases: &[(&[&str], &str)] = &[
        (&[], program),
        (&["--"], program),
        (&["--trap"], program),
        (&["--frob", "true"], &format!("'--frob' is not accepted here; accepted: PROGRAM, before it {flags}")),
        (&["-x", "true"], &format!("'-x' is not accepted here; accepted: PROGRAM, before it {flags}")),
        (&["--scheme", "rcu", "true"], "--scheme 'rcu' is not accepted; accepted: live, fixed, atomic, percpu"),
        (&["--scheme", "", "true"], "--scheme '' is not accepted; accepted: live, fixed, atomic, percpu"),
        (&["--layout", "fat", "true"], "--layout 'fat' is not accepted; accepted: lean, packed, split"),
        (&["--policy", "best", "true"], &format!("--policy 'best' {policy}")),
        (&["--policy", "0", "true"], &format!("--policy '0' {policy}")),
        (&["--policy", "12", "true"], &format!("--policy '12' {policy}")),
        (&["--slots", "1", "true"], &format!("--slots '1' {slots}")),
        (&["--slots", "-2", "true"], &format!("--slots '-2' {slots}")),
        (&["--slots", "2097152", "true"], &format!("--slots '2097152' {slots}")),
        (&["--slots", "a\nb", "true"], &format!("--slots 'a\\nb' {slots}")),
        (
            &["--slots", "64", "--policy", "load", "true"],
            "--slots '64' is not accepted with --policy 'load'; accepted: one of the two",
        ),
        (&["--immutable", "true"], "--immutable is not accepted alone; accepted: --slots N --immutable"),
        (
            &["--immutable", "--policy", "64", "true"],
            "--immutable is not accepted alone; accepted: --slots N --immutable",
        ),
        (&["-o", "", "true"], "--output has no value; accepted: --output VALUE, see --help"),
        (&["-o"], "--output has no value; accepted: --output VALUE, see --help"),
        (&["--trap", "--trap", "true"], "--trap is given more than once; accepted: once"),
        (&["--trap=yes", "true"], "--trap takes no value, not 'yes'; accepted: --trap alone"),
    ];
    for (arguments, line) in cases {
        assert_refused(&mut run(*arguments), 2, line);
    }
}

#[test]
fn every_accepted_value_is_accepted() {
    let mut cases: Vec<Vec<&str>> = Vec::new();
    for (option, values) in [
        ("--scheme", &["live", "fixed", "atomic", "percpu"][..]),
        ("--layout", &["lean", "packed", "split"]),
        ("--policy", &["load", "threads", "2", "1048576"]),
        ("--slots", &["0", "2", "1048576"]),
    ] {
        cases.extend(values.iter().map(|value| vec![option, value]));
    }
    cases.push(vec!["--slots", "0", "--immutable"]);
    for options in cases {
        assert_eq!(printed(run(&options).arg("true")), "", "{options:?}");
    }
}

#[test]
fn a_library_that_is_not_there_is_told_with_where_it_was_looked_for() {
    let place = Place::new("library");
    let command = place.path("bin/ufutex");
    fs::create_dir_all(place.path("bin")).expect("our own directory");
    fs::hard_link(UFUTEX, &command).expect("the same file system");
    let bare = || {
        let mut command = Command::new(&command);
        command.args(["run", "true"]).env_remove("UFUTEX_PRELOAD");
        command
    };
    let line = format!(
        "the library to preload is not found; looked for {0}/bin/{1}, {0}/bin/deps/{1}, {0}/lib/ufutex/{1}; build it with \
         the command (cargo build -p lab), put it there, or name it by UFUTEX_PRELOAD",
        place.0.display(),
        "libufutex_preload.so"
    );
    assert_refused(&mut bare(), 125, &line);
    let line = "UFUTEX_PRELOAD='/nowhere' is no file; accepted: the path of libufutex_preload.so, or nothing";
    assert_refused(bare().env("UFUTEX_PRELOAD", "/nowhere"), 125, line);
    // Where it is found, by a relative name too.
    let found = printed(&mut run(["sh", "-c", "echo $LD_PRELOAD"]));
    let library = place.path("lib/ufutex/libufutex_preload.so");
    fs::create_dir_all(place.path("lib/ufutex")).expect("our own directory");
    copy(found.trim(), &library);
    assert_eq!(printed(&mut bare()), "");
    let mut here = run(["sh", "-c", "echo $LD_PRELOAD"]);
    here.current_dir(place.path("lib")).env("UFUTEX_PRELOAD", "ufutex/libufutex_preload.so");
    assert_eq!(printed(&mut here), format!("{library}\n"));
    let spaced = place.path("a b.so");
    copy(&library, &spaced);
    let line = format!(
        "{spaced}: LD_PRELOAD cannot name a path with a space, colon or $; link to it from elsewhere and name the link by \
         UFUTEX_PRELOAD"
    );
    assert_refused(bare().env("UFUTEX_PRELOAD", &spaced), 125, &line);
}

#[test]
fn the_report_goes_to_stderr_when_the_program_ends_however_it_does() {
    for script in ["exit 3", "exec sleep 0", "kill -TERM $$", "kill -INT $$"] {
        let child = spawn(run(["--stats", "sh", "-c", script]).stderr(Stdio::piped()));
        let pid = child.id();
        let output = child.wait_with_output().expect("our own child");
        let report = text(&output.stderr);
        let first = if script.starts_with("exec") { "sleep 0".to_string() } else { format!("sh -c {script}") };
        assert!(report.starts_with(&format!("\n Futexes of '{first}' (process {pid}):\n\n")), "{report}");
        assert!(report.contains(" seconds time elapsed\n"), "{report}");
        assert_eq!(report.matches("Futexes of").count(), 1, "{report}");
    }
}

#[test]
fn slots_are_those_that_the_program_is_told_of_and_may_change_unless_immutable() {
    let place = Place::new("slots");
    let source = place.file(
        "program.c",
        "#include <errno.h>\n#include <stdio.h>\n#include <sys/prctl.h>\n\
         static int hash(long op, long slots) { return prctl(78, op, slots, 0, 0) < 0 ? -errno : prctl(78, 2, 0, 0, 0); }\n\
         int main(void) { int first = hash(2, 0); printf(\"%d %d\\n\", first, hash(1, 128)); }\n",
        0o644,
    );
    let program = place.path("program");
    let compiled =
        Command::new("sh").args(["-c", "cc $0 -o $1 2>&1", &source, &program]).stdout(Stdio::null()).status();
    if !compiled.is_ok_and(|status| status.success()) {
        println!("skipped: cc makes no program here");
        return;
    }
    let told = |options: &[&str]| printed(run(options).arg(&program));
    assert_eq!(told(&["--slots", "64"]), "64 128\n");
    assert_eq!(told(&["--slots", "64", "--scheme", "atomic", "--trap"]), "64 128\n");
    let busy = -libc::EBUSY;
    assert_eq!(told(&["--slots", "64", "--immutable"]), format!("64 {busy}\n"));
    assert_eq!(told(&["--slots", "0"]), format!("0 {busy}\n"), "the global table is for good, as in the kernel");
}

#[test]
fn a_thread_with_the_smallest_stack_can_end_the_program_with_a_report() {
    let place = Place::new("stack");
    let source = place.file(
        "program.c",
        "#include <limits.h>\n#include <pthread.h>\n#include <stdlib.h>\n#include <unistd.h>\n\
         static void *end(void *how) { if (how) _exit(6); exit(6); }\n\
         int main(int count, char **arguments) {\n\
         pthread_attr_t small; pthread_t thread;\n\
         pthread_attr_init(&small); pthread_attr_setstacksize(&small, PTHREAD_STACK_MIN);\n\
         pthread_create(&thread, &small, end, arguments[1]); pthread_join(thread, 0); }\n",
        0o644,
    );
    let program = place.path("program");
    let script = "cc -pthread $0 -o $1 2>&1";
    let compiled = Command::new("sh").args(["-c", script, &source, &program]).stdout(Stdio::null()).status();
    if !compiled.is_ok_and(|status| status.success()) {
        println!("skipped: cc makes no program here");
        return;
    }
    for options in [&["--stats"][..], &["--stats", "--trap"]] {
        for how in [&[][..], &["now"]] {
            let output = output(run(options).arg(&program).args(how));
            assert_eq!(output.status.code(), Some(6), "{options:?} {how:?}: {output:?}");
            assert_eq!(text(&output.stderr).matches("Futexes of").count(), 1, "{output:?}");
        }
    }
}

#[test]
fn json_is_one_line_of_the_program_alone_unless_forks_are_followed() {
    let child =
        spawn(run(["--json", "--trap", "--scheme", "fixed", "bash", "-c", "bash -c :; exit 0"]).stderr(Stdio::piped()));
    let pid = child.id();
    let report = text(&child.wait_with_output().expect("our own child").stderr);
    let json: Value = serde_json::from_str(&report).expect("one object");
    assert_eq!((&json["pid"], &json["trap"], &json["scheme"]), (&pid.into(), &true.into(), &"fixed".into()));
    assert_eq!(json["command"], "bash -c bash -c :; exit 0");
    assert_eq!(json.get("timers"), None, "they are the kernel's");
    assert!(json["elapsed_ns"].as_u64().is_some_and(|ns| ns > 0));
    let followed = output(&mut run(["-f", "--json", "--trap", "bash", "-c", "bash -c :; exit 0"]));
    let commands: Vec<String> = text(&followed.stderr)
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("one object a line")["command"].to_string())
        .collect();
    assert_eq!(commands, [r#""bash -c :""#, r#""bash -c bash -c :; exit 0""#], "inner first");
}

#[test]
fn output_goes_to_the_file_wherever_the_program_goes() {
    let place = Place::new("output");
    let name = "a, b=c.txt";
    let path = place.file(name, "old", 0o600);
    let mut command = run(["-o", name, "sh", "-c", "cd /; exit 4"]);
    let output = output(command.current_dir(&place.0));
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(4), String::new()));
    let report = fs::read_to_string(&path).expect("a report");
    assert!(report.starts_with("\n Futexes of 'sh -c cd /; exit 4' (process "), "{report}");
    assert_eq!(report.matches("Futexes of").count(), 1);
    let unwritable = place.path("missing/file");
    let line = format!("{unwritable} cannot be written: No such file or directory (os error 2)");
    assert_refused(&mut run(["-o", &unwritable, "true"]), 125, &line);
    let untouched = place.file("untouched", "old", 0o600);
    assert_refused(&mut run(["-o", &untouched, "/nowhere"]), 127, "/nowhere does not exist");
    assert_eq!(fs::read_to_string(&untouched).expect("our own file"), "old");
}

#[test]
fn a_report_can_be_asked_for_while_the_program_goes_on() {
    let mut child = spawn(
        run(["--stats", "sh", "-c", "echo begun; read line; exit 5"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped()),
    );
    let mut begun = [0; 6];
    std::io::Read::read_exact(child.stdout.as_mut().expect("piped"), &mut begun).expect("it says so");
    let mut stderr = child.stderr.take().expect("piped");
    // SAFETY: our own child, which we have not waited for.
    assert_eq!(unsafe { libc::kill(child.id() as i32, libc::SIGUSR1) }, 0);
    let mut report = [0; 64];
    std::io::Read::read_exact(&mut stderr, &mut report).expect("a report, before the program may go on");
    assert!(text(&report).starts_with("\n Futexes of 'sh -c echo begun"), "{}", text(&report));
    drop(child.stdin.take());
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut stderr, &mut rest).expect("UTF-8");
    assert_eq!(rest.matches("Futexes of").count(), 1, "another at the end: {rest}");
    assert_eq!(child.wait().expect("our own child").code(), Some(5));
}

#[test]
fn a_program_that_sends_itself_sigusr1_asks_for_nothing() {
    let with_handler = "trap 'echo handled' USR1; kill -USR1 $$; exit 5";
    let ran = output(&mut run(["--stats", "sh", "-c", with_handler]));
    assert_eq!((ran.status.code(), text(&ran.stdout)), (Some(5), "handled\n".to_owned()));
    assert_eq!(text(&ran.stderr).matches("Futexes of").count(), 1, "{}", text(&ran.stderr));
    let ran = output(&mut run(["--stats", "sh", "-c", "kill -USR1 $$; exit 5"]));
    assert_eq!(ran.status.signal(), Some(libc::SIGUSR1), "as without the library");
    assert_eq!(text(&ran.stderr).matches("Futexes of").count(), 1, "{}", text(&ran.stderr));
}

#[test]
fn a_run_within_a_trapped_one_is_trapped_too() {
    let settings = printed(&mut run(["--trap", UFUTEX, "run", "--scheme", "atomic", "sh", "-c", "echo $UFUTEX_RUN"]));
    assert!(settings.starts_with("scheme=atomic,layout=lean,policy=load,trap,process="), "{settings}");
}

#[test]
fn help_names_every_option_every_status_and_the_fields_of_the_report() {
    for arguments in [&["run", "--help"][..], &["help", "run"]] {
        let help = printed(Command::new(UFUTEX).args(arguments));
        let options = [
            "--trap",
            "--timers",
            "--stats",
            "--follow-forks",
            "--json",
            "--output",
            "--scheme",
            "--layout",
            "--policy",
        ];
        let statuses = ["  125  ", "  126  ", "  127  ", "  2    "];
        for what in [&options[..], &["--slots", "--immutable"], &statuses, &["UFUTEX_PRELOAD", "LD_PRELOAD"]].concat() {
            assert!(help.contains(what), "{what}");
        }
        let json: Value =
            serde_json::from_slice(&output(&mut run(["--json", "--timers", "true"])).stderr).expect("one object");
        for field in json.as_object().expect("an object").keys() {
            assert!(help.contains(field), "{field}");
        }
        for field in json["timers"].as_object().expect("an object").keys() {
            assert!(help.contains(field), "{field}");
        }
        assert!(help.lines().all(|line| line.chars().count() <= 120), "a line is too long for a terminal");
    }
    let short = printed(Command::new(UFUTEX).args(["run", "-h"]));
    assert!(short.lines().count() < 40, "-h is for a glance");
}
