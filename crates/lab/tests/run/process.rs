//! The program replaces the command's process, with everything that the process was given.

use crate::command::{UFUTEX, output, printed, run, spawn, text};
use crate::skipped::skip;
use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::CommandExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::process::Stdio;

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
    // After the program's name, our options and `--` are arguments of the program. Arguments may have any bytes.
    let odd = OsString::from_vec(b"\xff\n ".to_vec());
    let mut command = run(["--", "printf", "<%s>", "--trap", "--stats", "--", "", "-o"]);
    let output = output(command.arg(odd));
    assert_eq!(output.stdout.escape_ascii().to_string(), "<--trap><--stats><--><><-o><\\xff\\n >");
    assert!(output.stderr.is_empty());
}

#[test]
fn the_environment_is_kept_and_gets_the_library_first_and_the_settings() {
    let mut command = run(["--slots", "64", "--immutable", "env", "-0"]);
    let all = printed(command.env_clear().env("PATH", "/usr/bin:/bin").env("LD_PRELOAD", "").env("ODD", "a\nb=c"));
    let entries: Vec<_> = all.split_terminator('\0').collect();
    let [odd, path, preload, settings, sanitizer] = entries[..] else { panic!("{entries:?}") };
    assert!([odd, path].contains(&"ODD=a\nb=c") && [odd, path].contains(&"PATH=/usr/bin:/bin"), "{entries:?}");
    assert!(preload.starts_with("LD_PRELOAD=$ORIGIN/../") && preload.ends_with("/libufutex_preload.so"), "{preload}");
    let wanted = "UFUTEX_RUN=policy=load,slots=64,immutable,process=";
    assert!(settings.starts_with(wanted), "{settings}");
    assert_eq!(sanitizer, "ASAN_OPTIONS=verify_asan_link_order=0");
    let mut command = run(["--trap", "env", "-0"]);
    let all = printed(command.env("LD_PRELOAD", "").env("ASAN_OPTIONS", "verify_asan_link_order=1:exitcode=9"));
    let has = |wanted: &str| all.split_terminator('\0').any(|entry| entry.starts_with(wanted));
    assert!(
        has("LD_PRELOAD=/") && has("ASAN_OPTIONS=verify_asan_link_order=1:exitcode=9:verify_asan_link_order=0"),
        "{all}"
    );
}

#[test]
fn another_preloaded_library_stays_behind_ours() {
    let Some(other) = ["libm.so.6", "libdl.so.2"]
        .iter()
        .map(|name| format!("/lib/x86_64-linux-gnu/{name}"))
        .find(|path| Path::new(path).exists())
    else {
        skip("no library to preload is where it usually is");
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
    // Rust's runtime ignores SIGPIPE and opens closed standard streams.
    for ignored in [false, true] {
        let status = |command: &mut Command| {
            // SAFETY: only system calls that are safe after fork, and a change of a local set.
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
fn a_run_within_a_trapped_one_is_trapped_too() {
    let settings = printed(&mut run(["--trap", UFUTEX, "run", "--policy", "threads", "sh", "-c", "echo $UFUTEX_RUN"]));
    assert!(settings.starts_with("policy=threads,trap,process="), "{settings}");
}
