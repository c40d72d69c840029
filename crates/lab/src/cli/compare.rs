//! The options of `ufutex compare`.

use clap::Args;
use lab_compare::Compare;
use std::path::PathBuf;

/// Arguments of `ufutex compare`.
#[derive(Args)]
pub struct CompareArgs {
    /// The old rows, from `bench --json`, `sim --json` or `report --json`
    #[arg(value_name = "OLD.json")]
    pub old: PathBuf,
    /// The new rows
    #[arg(value_name = "NEW.json")]
    pub new: PathBuf,
    /// Smallest change of a median that is reported, in percent
    #[arg(long, value_name = "PERCENT", default_value = "5", value_parser = threshold)]
    pub threshold: f64,
    /// Print one JSON object per line on stdout, and nothing else
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

/// Text below the options.
pub const MORE: &str = "\
Rows are matched by what they measured (workload, target, threads, ...). A median counts as changed if it differs by
more than --threshold and by more than three standard errors, and if the fast end of its spread (p10 to p90) has moved
as well. A figure without a spread takes that of the row's ns_per_op. The threshold is doubled if there is none, four
times as large with fewer than 5 rounds, and ten times as large for p99. Maxima are not compared. Rows of `sim` are
exact.

A file has one JSON object per line, or one array of objects.

Exit status:
  0    no figure is worse
  1    a figure is worse
  2    a mistake: a missing file, a line that is not a JSON object (it is named), no row in both files; or stdout
       cannot be written

Examples:
  ufutex bench --json > before.json                     and the same to now.json after a change
  ufutex compare before.json now.json
  ufutex compare --threshold 2 --json before.json now.json";
