//! `ufutex compare`: what has changed between two files of rows, beyond noise.

mod measure;
mod print;
mod rows;
mod verdict;

use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// What `ufutex compare` is asked to do.
pub struct Compare {
    /// Rows of before.
    pub old: PathBuf,
    /// Rows of now.
    pub new: PathBuf,
    /// Smaller changes of a median, in percent, are not named.
    pub threshold: f64,
    /// JSON in place of sentences.
    pub json: bool,
}

const EXIT_SAME: u8 = 0;
const EXIT_WORSE: u8 = 1;

/// Compares, and prints what it found. The error is the line that the user sees.
pub fn run(args: &Compare) -> Result<ExitCode, String> {
    let (old, new) = (rows::read(&args.old)?, rows::read(&args.new)?);
    let matched = rows::matched(&old, &new);
    for (file, rows) in [(&args.old, &old), (&args.new, &new)] {
        if !rows.iter().any(rows::has_figures) {
            return Err(format!("{} has no figures; accepted: rows of bench, sim or report --json", file.display()));
        }
    }
    if matched.pairs.is_empty() {
        return Err(format!(
            "{} has no row that {} has; accepted: two files of the same workloads, targets and sizes",
            args.new.display(),
            args.old.display()
        ));
    }
    let findings = verdict::of(&matched, args.threshold / 100.0);
    let text = if args.json { print::json(&findings) } else { print::text(args, &findings) };
    match std::io::stdout().write_all(text.as_bytes()) {
        // A reader that has gone (`| head`) has read enough; the status says the rest.
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            return Err(format!("stdout cannot be written: {error}"));
        }
        _ => {}
    }
    Ok(ExitCode::from(if findings.has_regression() { EXIT_WORSE } else { EXIT_SAME }))
}
