//! `ufutex compare`: the changes between two files of rows that are larger than the noise.

#![cfg_attr(not(test), deny(clippy::print_stderr))]

mod measure;
mod print;
mod rows;
mod verdict;

use rows::Row;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Arguments of `ufutex compare`, checked.
pub struct Compare {
    /// The rows of before.
    pub old: PathBuf,
    /// The rows of now.
    pub new: PathBuf,
    /// Smallest change of a median that is reported, in percent.
    pub threshold: f64,
    /// Print JSON instead of sentences.
    pub json: bool,
}

const EXIT_SAME: u8 = 0;
const EXIT_WORSE: u8 = 1;

/// What has changed between two files.
pub struct Comparison {
    /// As it is printed.
    pub text: String,
    /// Whether something has become worse.
    pub has_regression: bool,
}

/// Compares the files and prints the result. An error is one line for the user.
pub fn run(args: &Compare) -> Result<ExitCode, String> {
    let read = |path: &Path| std::fs::read_to_string(path).map_err(|error| rows::unreadable(path, &error));
    let (old, new) = (read(&args.old)?, read(&args.new)?);
    let comparison = texts(args, [&old, &new])?;
    match std::io::stdout().write_all(comparison.text.as_bytes()) {
        // A closed pipe (`| head`) is no error: the exit status has the result.
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            return Err(format!("stdout cannot be written: {error}"));
        }
        _ => {}
    }
    Ok(ExitCode::from(if comparison.has_regression { EXIT_WORSE } else { EXIT_SAME }))
}

/// Compares the contents of the files. An error is one line for the user.
pub fn texts(args: &Compare, [old, new]: [&str; 2]) -> Result<Comparison, String> {
    let (old, new) = (rows::parse(&args.old, old)?, rows::parse(&args.new, new)?);
    let matched = rows::matched(&old, &new);
    for (file, rows) in [(&args.old, &old), (&args.new, &new)] {
        if !rows.iter().any(rows::has_figures) {
            return Err(format!("{} has no results; accepted: rows of bench, sim or report --json", file.display()));
        }
    }
    if matched.pairs.is_empty() {
        return Err(nothing_in_common(args, &old, &new));
    }
    let findings = verdict::of(&matched, args.threshold / 100.0);
    let text = if args.json { print::json(&findings) } else { print::text(args, &findings) };
    Ok(Comparison { text, has_regression: findings.has_regression() })
}

fn nothing_in_common(args: &Compare, old: &[Row], new: &[Row]) -> String {
    let (before, now) = (args.old.display(), args.new.display());
    match rows::noise_alone_differs(old, new) {
        Some([old, new]) => {
            format!("{now} was measured {new}, and {before} {old}; accepted: two files of the same --noise")
        }
        None => format!(
            "{now} has no row in common with {before}; accepted: two files of the same workloads, targets and sizes"
        ),
    }
}
