//! A model with a fault in a process of its own, because broken code may do anything, such as panic during a panic or use
//! freed memory. Three packages compile this file.

use std::process::Command;

/// Runs `broken`, which has to fail, and returns what it has printed. `test` is the path of the test that calls this. In
/// the other process this runs `broken` and returns `None`.
pub fn run_apart(test: &str, broken: impl FnOnce()) -> Option<String> {
    const APART: &str = "UFUTEX_MODEL_APART";
    if std::env::var_os(APART).is_some() {
        broken();
        return None;
    }
    let (_, name) = test.split_once("::").expect("a test is in a module");
    let output = Command::new(std::env::current_exe().expect("a test has a file"))
        .args([name, "--exact", "--nocapture", "--test-threads=1"])
        .env(APART, "1")
        .env("RUST_BACKTRACE", "0")
        .output()
        .expect("a test can run itself");
    let printed = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert!(printed.contains("running 1 test"), "no test {name}:\n{printed}");
    assert!(!output.status.success(), "the model holds although the code is broken");
    Some(printed)
}
