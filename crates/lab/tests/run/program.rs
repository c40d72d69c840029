//! Which file is run, and which files are refused in one line.

use crate::command::{TempDir, assert_refused, copy, printed, run};
use crate::skipped::skip;
use std::fs;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::fs::chown;
use std::os::unix::fs::symlink;
use std::process::Command;
use std::process::Stdio;

#[test]
fn a_program_is_looked_for_in_path_as_by_a_shell() {
    let place = TempDir::new("path");
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
    // A file without any x bit cannot be executed, not even by root.
    assert_refused(command.env("PATH", list(&["missing", "a", "d"])), 126, &line);
    let line = format!("{} cannot be run: it is a directory", place.path("d/tool"));
    assert_refused(command.env("PATH", list(&["missing", "d"])), 126, &line);
    assert_refused(command.env("PATH", list(&["missing"])), 127, "'tool' is not found in PATH");
    assert_refused(run([""]).env("PATH", list(&["b"])), 127, "'' is not found in PATH");
    assert_eq!(printed(run(["true"]).env_remove("PATH")), "");
}

#[test]
fn scripts_are_run_by_their_interpreter_or_the_shell() {
    let place = TempDir::new("script");
    let with = place.file("with", "#!/bin/sh -u\necho \"$0 $# $LD_PRELOAD\"\n", 0o755);
    let without = place.file("without", "echo \"$0 $# $LD_PRELOAD\"\n", 0o755);
    for script in [&with, &without] {
        let line = printed(&mut run([script, "1", "2"]));
        assert!(line.starts_with(&format!("{script} 2 $ORIGIN/")) && line.contains("libufutex_preload.so"), "{line}");
    }
    let lost = place.file("lost", "#!/nowhere/sh\n", 0o755);
    assert_refused(&mut run([&lost]), 127, &format!("{lost} is run by /nowhere/sh, which does not exist"));
}

#[test]
fn a_static_program_is_refused() {
    let place = TempDir::new("static");
    let source = place.file("program.c", "int main(void) { return 0; }\n", 0o644);
    let program = place.path("program");
    let compiled =
        Command::new("sh").args(["-c", "cc -static $0 -o $1 2>&1", &source, &program]).stdout(Stdio::null()).status();
    if !compiled.is_ok_and(|status| status.success()) {
        skip("cc -static makes no program here (libc.a is missing?)");
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
    let place = TempDir::new("setuid");
    let program = place.path("program");
    copy("/bin/true", &program);
    if let Err(error) = chown(&program, Some(1), Some(1)) {
        return skip(format_args!("no file of another user can be made here (CAP_CHOWN): {error}"));
    }
    let refused = |user, mode, line: &str| {
        chown(&program, Some(user), Some(user)).expect("root");
        fs::set_permissions(&program, Permissions::from_mode(mode)).expect("root");
        assert_refused(&mut run([&program]), 126, &format!("{program} {line}"));
    };
    refused(1, 0o4755, "runs as another user (setuid): the loader preloads nothing into it");
    refused(1, 0o2755, "runs as another group (setgid): the loader preloads nothing into it");
    chown(&program, Some(0), Some(0)).expect("root");
    fs::set_permissions(&program, Permissions::from_mode(0o6755)).expect("root");
    assert_eq!(printed(&mut run([&program])), "", "it would run as root anyway");
}

#[test]
fn missing_programs_and_unusable_programs_end_with_different_statuses() {
    let place = TempDir::new("missing");
    let plain = place.file("plain", "#!/bin/sh\n", 0o644);
    let missing = place.path("missing");
    assert_refused(&mut run([&missing]), 127, &format!("{missing} does not exist"));
    assert_refused(&mut run(["surely-no-such-program"]), 127, "'surely-no-such-program' is not found in PATH");
    assert_refused(&mut run(["two\nlines"]), 127, "'two\\nlines' is not found in PATH");
    let below = format!("{plain}/below");
    assert_refused(&mut run([&below]), 127, &format!("{below} cannot be run: a part of its path is no directory"));
    let directory = place.path("");
    assert_refused(&mut run([&directory]), 126, &format!("{directory} cannot be run: it is a directory"));
    assert_refused(&mut run([&plain]), 126, &format!("{plain} cannot be run: permission denied"));
    let link = place.path("loop");
    symlink("loop", &link).expect("a link");
    let line = format!("{link} cannot be run: too many levels of scripts or links");
    assert_refused(&mut run([&link]), 126, &line);
    let other = place.path("other");
    let mut elf = fs::read("/bin/true").expect("a program");
    elf[18] = 183;
    copy("/bin/true", &other);
    fs::write(&other, &elf).expect("a file that is not running");
    assert_refused(&mut run([&other]), 126, &format!("{other} is a program for aarch64, not for x86-64"));
}
