//! The options of `ufutex compare`.

use clap::Args;
use lab_report::compare::Compare;
use std::path::PathBuf;

/// Which two files, and what counts as a change.
#[derive(Args)]
pub struct CompareArgs {
    /// Rows of before: what `bench --json`, `sim --json` or `report --json` has written
    #[arg(value_name = "OLD.json")]
    pub old: PathBuf,
    /// Rows of now
    #[arg(value_name = "NEW.json")]
    pub new: PathBuf,
    /// Smaller changes of a median, in percent, are not named
    #[arg(long, value_name = "PERCENT", default_value = "5", value_parser = threshold, allow_negative_numbers = true)]
    pub threshold: f64,
    /// One JSON object a line on stdout, nothing else there
    #[arg(long)]
    pub json: bool,
}

impl From<CompareArgs> for Compare {
    fn from(args: CompareArgs) -> Self {
        let CompareArgs { old, new, threshold, json } = args;
        Self { old, new, threshold, json }
    }
}

fn threshold(text: &str) -> Result<f64, String> {
    let percent = text.parse().ok().filter(|percent| (0.0..=1000.0).contains(percent));
    percent.ok_or_else(|| "is not accepted; accepted: 0 to 1000 percent".to_string())
}

/// Below the options.
pub const MORE: &str = "\
Rows are matched by what they measured (workload, target, threads, ...), whatever they found. A median has changed when it
differs by more than --threshold and by three standard errors, and so has the quick end of the spread, p10 to p90. Where a row has no
spread of its own it takes that of its ns_per_op; where there is none the threshold is doubled, with
fewer than 5 rounds it is fourfold, of slow ends (p99) tenfold, and a maximum is nobody's verdict. Rows of `sim` are exact.

Files hold one JSON object a line, or one array of objects.

Exit status:
  0    nothing has become worse
  1    something has: a regression
  2    a mistake: a file that is missing, a line that is no JSON object (it is named), no row that both files have;
       or stdout cannot be written

Examples:
  ufutex bench --json > before.json                     and after a change the same to now.json
  ufutex compare before.json now.json
  ufutex compare --threshold 2 --json before.json now.json";
