//! `ufutex compare`: the changes between two files of rows that are larger than the noise.

mod measure;
mod print;
mod rows;
mod verdict;

use rows::Row;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;
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

/// Compares the files and prints the result. An error is one line for the user.
pub fn run(args: &Compare) -> Result<ExitCode, String> {
    let (old, new) = (rows::read(&args.old)?, rows::read(&args.new)?);
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
    match std::io::stdout().write_all(text.as_bytes()) {
        // A closed pipe (`| head`) is no error: the exit status has the result.
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            return Err(format!("stdout cannot be written: {error}"));
        }
        _ => {}
    }
    Ok(ExitCode::from(if findings.has_regression() { EXIT_WORSE } else { EXIT_SAME }))
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
