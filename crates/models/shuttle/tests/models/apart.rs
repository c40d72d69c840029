//! Tests in processes of their own: models with a fault, because broken code may do anything, such as panic during a
//! panic or use freed memory, and loom's models, which are explored faster so. Three packages compile this file.

use std::process::{Command, ExitStatus};

/// Set in a child that runs one test. `.ci/models-deep` sets it for models, so that they run in the test's own process,
/// where a debugger or profiler sees them. Do not set it for tests of faults.
const APART: &str = "UFUTEX_MODEL_APART";

/// Whether this process was made for one test.
pub fn is_apart() -> bool {
    std::env::var_os(APART).is_some()
}

/// Runs the test `name` in a process of its own. Returns how it ended and what it printed.
pub fn run(name: &str) -> (ExitStatus, String) {
    let output = Command::new(std::env::current_exe().expect("a test has a file"))
        .args([name, "--exact", "--nocapture", "--test-threads=1"])
        .env(APART, "1")
        .env("RUST_BACKTRACE", "0")
        .output()
        .expect("a test can run itself");
    let printed = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert!(printed.contains("running 1 test"), "no test {name}:\n{printed}");
    (output.status, printed)
}

/// Runs `broken` in a process of its own, where it has to fail, and returns what it has printed. `test` is the path of
/// the test that calls this. In the other process this runs `broken` and returns `None`.
pub fn run_apart(test: &str, broken: impl FnOnce()) -> Option<String> {
    if is_apart() {
        broken();
        return None;
    }
    let (_, name) = test.split_once("::").expect("a test is in a module");
    let (status, printed) = run(name);
    assert!(!status.success(), "the model holds although the code is broken");
    Some(printed)
}
