//! What a test skips is said by `skip`, which counts it for the line at the suite's end.

use super::source::File;

/// Where a file prints by itself that something is skipped.
pub fn findings(file: &File) -> Vec<String> {
    let prints = file.text.split("println!(").skip(1).filter(|rest| rest.trim_start().starts_with("\"skipped"));
    let is_skip = file.path.ends_with("tests/common/skipped.rs");
    prints.filter(|_| !is_skip).map(|rest| format!("{}: {}", file.path, rest.lines().next().unwrap_or(""))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::skipped::skip;
    use std::process::Command;

    #[test]
    fn a_silent_skip_is_found() {
        let findings = |path: &str| {
            let text = "skip(\"no\");\neprintln!(\"no\");\nprintln!(\n    \"skipped: no\"\n);\n";
            findings(&File { path: path.to_string(), text: text.to_string() }).len()
        };
        assert_eq!(findings("crates/lab/tests/perf.rs"), 1);
        assert_eq!(findings("crates/ufutex/tests/common/skipped.rs"), 0);
    }

    /// Runs itself alone, as a suite of one test, which succeeds: libtest shows nothing of what it prints.
    #[test]
    fn what_is_skipped_is_said_at_the_suites_end() {
        const ALONE: &str = "UFUTEX_TIDY_SKIPS";
        if std::env::var_os(ALONE).is_some() {
            ["no perf", "no rights", "no perf"].into_iter().for_each(skip);
            return;
        }
        let mut suite = Command::new(std::env::current_exe().expect("a test is a program"));
        suite.args(["--exact", "skips::tests::what_is_skipped_is_said_at_the_suites_end"]).env(ALONE, "1");
        let output = suite.output().expect("it can be run");
        assert!(output.status.success() && String::from_utf8_lossy(&output.stdout).contains("1 passed"), "{output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "skipped checks: 3 (2 x no perf; 1 x no rights)\n");
    }
}
