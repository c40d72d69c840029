//! A program in each language in which one lock is held long, another one briefly, and four threads are idle. Its argument says which lock
//! is held long, `orders` or `prices`: the first line of the output is about that one.
//!
//! Tests whose names begin with `installed_` need packages that `.ci/programs` installs.

use crate::{UFUTEX, number, skip, stack, temporary, text};
use serde_json::Value;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, Stdio};

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/locks");

fn source(name: &str) -> OsString {
    Path::new(SOURCES).join(name).into()
}

/// What a command prints. `None` if it is not installed.
fn ran(command: &mut Command) -> Option<String> {
    match command.stdin(Stdio::null()).output() {
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Ok(output) if output.status.success() => Some(text(&output.stdout)),
        other => panic!("{command:?}: {other:?}"),
    }
}

/// The program that a compiler makes of a source. `None`, with the reason, if there is no such compiler.
fn compiled(compiler: &str, options: &[&str], name: &str) -> Option<Vec<OsString>> {
    let program = temporary(&name.replace('.', "-"));
    let mut command = Command::new(compiler);
    if ran(command.args(options).arg("-o").arg(&program).arg(source(name))).is_none() {
        skip(format_args!("no {compiler} here"));
        return None;
    }
    Some(vec![program.into()])
}

/// The first line of the output about a command.
fn first(command: &[OsString], long: &str) -> Value {
    static RUNS: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    let run = RUNS.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let output = temporary(&format!("culprit-{run}-{long}.json"));
    let mut locks = Command::new(UFUTEX);
    locks.args(["locks", "--json", "-o"]).arg(&output).arg("--").args(command).arg(long);
    ran(&mut locks).expect("this package's own command");
    let first = first_of(&output);
    // A runtime that has written a map for perf(1) leaves it behind.
    _ = std::fs::remove_file(format!("/tmp/perf-{}.map", number(&first, "pid")));
    first
}

fn first_of(output: &Path) -> Value {
    let lines = std::fs::read_to_string(output).expect("the output");
    let first = lines.lines().next().unwrap_or_else(|| panic!("no lines in {output:?}"));
    let first: Value = serde_json::from_str(first).expect("an object");
    assert_eq!(first["is_lock"], true, "{first}");
    first
}

/// Whether a thread is the one that holds the lock long.
fn is_clerk(holder: &Value) -> bool {
    holder["thread"].as_str().is_some_and(|name| name.starts_with("clerk ("))
}

fn name(of: &Value) -> &str {
    of["name"].as_str().expect("a name")
}

/// Threads waited for a lock of this kind in this place, and `clerk` held it.
#[track_caller]
fn is_held_by_clerk(first: &Value, kind: &str, place: &str) {
    assert_eq!(first["kind"], kind, "{first}");
    let stack = stack(&first["sites"][0]);
    assert!(stack.contains(place), "{place} in {stack}");
    // On a busy machine another thread may lose its CPU for longer while it holds the lock.
    assert!(first["owners"].as_array().expect("owners").iter().any(is_clerk), "{first}");
}

/// As `is_held_by_clerk`, for locks whose waiters have words of their own. Such a lock names no owner, but it was `clerk` that woke.
#[track_caller]
fn is_woken_by_clerk(first: &Value, kind: &str, place: &str) {
    assert_eq!(first["kind"], kind, "{first}");
    let sites = first["sites"].as_array().expect("sites");
    assert!(stack(&sites[0]).contains(place), "{place} in {first}");
    assert!(sites.iter().any(|site| site["wakers"].as_array().expect("wakers").iter().any(is_clerk)), "{first}");
}

/// Checks the first line for each of the locks.
fn each(command: &[OsString], check: impl Fn(&Value, &str)) {
    for long in ["orders", "prices"] {
        check(&first(command, long), long);
    }
}

/// The line of a source that is the first to have this text.
fn defined_at(file: &str, text: &str) -> Value {
    let lines = std::fs::read_to_string(source(file)).expect("a source");
    let before = lines.lines().position(|line| line.contains(text)).expect(text);
    format!("{file}:{}", before + 1).into()
}

/// A function whose last act is a call has no frame during that call.
const GNU: [&str; 7] = ["-g", "-O2", "-fno-optimize-sibling-calls", "-Wall", "-Wextra", "-Werror", "-pthread"];

#[test]
fn culprit_in_c_has_its_name_its_line_and_its_holder() {
    let Some(program) = compiled("cc", &GNU, "culprit.c") else { return };
    each(&program, |first, long| {
        assert_eq!((name(first), &first["defined_at"]), (long, &defined_at("culprit.c", &format!("{long} ="))));
        is_held_by_clerk(first, "mutex", &format!("take_{long} at culprit.c:"));
    });
}

#[test]
fn culprit_in_cplusplus_has_its_line_and_its_holder() {
    let options = [&GNU[..], &["-std=c++17"]].concat();
    let Some(program) = compiled("c++", &options, "culprit.cpp") else { return };
    each(&program, |first, long| {
        let place = format!("Shop::take_{long}(long) at culprit.cpp:");
        assert!(name(first).starts_with(&format!("mutex in {place}")), "{first}");
        is_held_by_clerk(first, "mutex", &place);
    });
}

#[test]
fn culprit_in_rust_has_its_name_its_line_and_its_holder() {
    let Some(program) = compiled("rustc", &["-g", "-O", "--edition=2024"], "culprit.rs") else { return };
    each(&program, |first, long| {
        let variable = long.to_uppercase();
        assert_eq!(name(first), format!("culprit::{variable}"));
        assert_eq!(first["defined_at"], defined_at("culprit.rs", &format!("static {variable}:")));
        is_held_by_clerk(first, "mutex", &format!("culprit::take_{long} at culprit.rs:"));
    });
}

#[test]
fn culprit_in_c_code_of_go_has_its_name_its_line_and_its_holder() {
    let Some(program) = compiled("go", &["build"], "culprit.go") else { return };
    each(&program, |first, long| {
        assert_eq!((name(first), &first["defined_at"]), (long, &defined_at("culprit.go", "static pthread_mutex_t")));
        is_held_by_clerk(first, "mutex", &format!("take_{long} at culprit.go:"));
    });
    // The library's handler runs on Go's alternate stack, and interrupts threads on others.
    let output = temporary("go.folded");
    let mut locks = Command::new(UFUTEX);
    ran(locks.args(["locks", "--folded", "-o"]).arg(&output).arg("--").args(program).arg("orders")).expect("ours");
    let folded = std::fs::read_to_string(&output).expect("the output");
    let is_of_go = |line: &str| line.contains("runtime.mstart") && line.contains("runtime.futex");
    assert!(folded.lines().any(is_of_go), "{folded}");
}

#[test]
fn culprit_in_java_has_its_method_and_its_holder() {
    let classes = temporary("classes");
    if ran(Command::new("javac").arg("-d").arg(&classes).arg(source("Culprit.java"))).is_none() {
        return skip("no javac here");
    }
    // Its interpreter's frames have no names, so the methods are compiled at once, by a compiler that does not go back to the interpreter.
    let options = [
        "-XX:+PreserveFramePointer",
        "-XX:+UnlockDiagnosticVMOptions",
        "-XX:+DumpPerfMapAtExit",
        "-Xcomp",
        "-XX:TieredStopAtLevel=1",
        "-XX:CompileCommand=quiet",
        "-XX:CompileCommand=compileonly,Culprit::*",
        "-XX:CompileCommand=dontinline,Culprit::take*",
        "-cp",
    ];
    let mut command: Vec<OsString> = ["java"].iter().chain(&options).map(OsString::from).collect();
    command.extend([classes.into(), "Culprit".into()]);
    each(&command, |first, long| {
        let place = if long == "orders" { "void Culprit.takeOrders(long)" } else { "void Culprit.takePrices(long)" };
        assert_eq!(name(first), format!("Java monitor in {place}"));
        is_woken_by_clerk(first, "Java monitor", place);
    });
}

/// Interpreters, the newest first: from 3.12 on they name Python's functions to perf(1), if they were built so.
const PYTHONS: [&str; 4] = ["python3.14", "python3.13", "python3.12", "python3"];

/// The first that runs: one that a version manager has put in PATH may not.
fn python() -> Option<&'static str> {
    let runs = |python: &&str| {
        let tried = Command::new(python).args(["-c", "import threading, ctypes"]).stdin(Stdio::null()).output();
        tried.is_ok_and(|output| output.status.success())
    };
    let found = PYTHONS.into_iter().find(runs);
    if found.is_none() {
        skip("no python3 here");
    }
    found
}

/// libffi has a function whose frame is found by rules that the unwinder evaluates anew each time.
#[test]
fn all_waits_from_one_place_have_one_stack_through_libffi_too() {
    const WAITS: &str = "
import ctypes, time
libc = ctypes.CDLL(None)
word, soon = ctypes.c_uint(0), (ctypes.c_long * 2)(0, 2_000_000)
def wait(): libc.syscall(202, ctypes.byref(word), 128, 0, ctypes.byref(soon), None, 0)
for i in range(5): # libffi is new, and mappings are not read at each walk
    wait()
    time.sleep(0.4)
for i in range(40): wait()
";
    let Some(python) = python() else { return };
    let output = temporary("libffi.json");
    let mut locks = Command::new(UFUTEX);
    locks.args(["locks", "--json", "-o"]).arg(&output).args(["--", python, "-c", WAITS]);
    ran(&mut locks).expect("this package's own command");
    let lines = std::fs::read_to_string(&output).expect("the output");
    let words = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("an object"));
    let word = words.max_by_key(|word| number(word, "waits") as u64).expect("a word");
    let sites = word["sites"].as_array().expect("sites");
    let whole = sites.iter().filter(|site| stack(site).contains("ffi_call") && stack(site).contains("main"));
    assert!(whole.map(|site| number(site, "waits")).sum::<f64>() >= 40.0, "{word}");
}

#[test]
fn culprit_in_python_has_its_function_and_its_holder() {
    let Some(python) = python() else { return };
    let names = "import sys; print(sys.executable, hasattr(sys, 'is_stack_trampoline_active') and sys.is_stack_trampoline_active())";
    let named = ran(Command::new(python).args(["-X", "perf", "-c", names])).expect("it runs");
    let (path, names) = named.trim().rsplit_once(' ').expect("two words");
    let script = source("culprit.py");
    if names == "True" {
        return each(&[path.into(), "-X".into(), "perf".into(), script], |first, long| {
            let place = format!("py::take_{long}:");
            assert!(name(first).starts_with(&format!("Python lock in {place}")), "{first}");
            is_held_by_clerk(first, "Python lock", &place);
        });
    }
    skip("Python's own functions: they have no names before 3.12");
    let kind_and_holder = |first: &Value, _: &str| is_held_by_clerk(first, "Python lock", "PyThread_acquire_lock");
    each(&[path.into(), script], kind_and_holder);
}

#[test]
fn installed_culprit_in_ruby_has_its_kind_and_its_holder() {
    let Some(path) = ran(Command::new("ruby").args(["-e", "print RbConfig.ruby"])) else { return skip("no ruby here") };
    // Its library has no names for functions of Ruby, so both locks are in one line.
    each(&[path.into(), source("culprit.rb")], |first, _| is_woken_by_clerk(first, "Ruby mutex", "rb_mutex_"));
}

#[test]
fn installed_culprit_in_ocaml_has_its_function_and_its_line() {
    // The compiler writes beside its source.
    let folder = temporary("ocaml");
    std::fs::create_dir_all(&folder).expect("a directory");
    let (copy, program) = (folder.join("culprit.ml"), folder.join("culprit"));
    std::fs::copy(source("culprit.ml"), &copy).expect("a copy");
    let mut command = Command::new("ocamlopt");
    command.args(["-g", "-I", "+unix", "-I", "+threads", "unix.cmxa", "threads.cmxa", "-o"]).arg(&program).arg(&copy);
    if ran(&mut command).is_none() {
        return skip("no ocamlopt here");
    }
    each(&[program.into()], |first, long| {
        let name = name(first);
        let is_named = name.contains(&format!("take_{long}")) && name.contains(" at culprit.ml:");
        assert!(is_named && first["kind"] == "mutex", "{first}");
        // Its threads have no names.
        assert!(stack(&first["sites"][0]).contains("buyer"), "{first}");
    });
}

#[test]
fn installed_culprit_in_mariadb_is_the_lock_of_the_user_or_of_the_table() {
    for (long, place) in [("orders", "Item_func_get_lock::val_int()"), ("prices", "open_table(")] {
        let output = temporary(&format!("mariadb-{long}.json"));
        let mut server = Command::new("sh");
        server.arg(source("mariadb.sh")).arg(UFUTEX).arg(&output).arg(long);
        let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin";
        let is_there = std::env::split_paths(&path).any(|folder| folder.join("mariadbd").exists());
        if !is_there {
            return skip("no mariadbd here (Debian's package mariadb-server)");
        }
        ran(&mut server).expect("sh");
        let first = first_of(&output);
        assert_eq!(first["kind"], "metadata lock", "{first}");
        assert!(stack(&first["sites"][0]).contains(place), "{first}");
        assert_eq!(number(&first, "waiters_most"), 3.0, "{first}");
    }
}
