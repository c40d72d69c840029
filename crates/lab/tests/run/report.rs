//! The report: when it is written, where, and its content.

use crate::command::{TempDir, assert_refused, output, run, spawn, text};
use crate::skipped::skip;
use serde_json::Value;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::process::Stdio;

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
fn a_thread_with_the_smallest_stack_can_end_the_program_with_a_report() {
    let place = TempDir::new("stack");
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
        skip("cc makes no program here");
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
    let child = spawn(run(["--json", "--trap", "bash", "-c", "bash -c :; exit 0"]).stderr(Stdio::piped()));
    let pid = child.id();
    let report = text(&child.wait_with_output().expect("our own child").stderr);
    let json: Value = serde_json::from_str(&report).expect("one object");
    assert_eq!((&json["pid"], &json["trap"]), (&pid.into(), &true.into()));
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
    let place = TempDir::new("output");
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
    // SAFETY: this is our own child, which has not been waited for.
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
