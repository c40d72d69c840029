//! The options of `ufutex report`.

use super::values;
use clap::Args;
use lab_report::page::Report;
use std::path::PathBuf;

/// Where the report goes.
#[derive(Args)]
pub struct ReportArgs {
    /// The page: FILE.html, or FILE.md for the same in words and tables
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// The same in words and tables, as Markdown
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
    /// Every row that the report stands on, one JSON object a line, for `ufutex compare`
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// No progress on stderr
    #[arg(short, long)]
    pub silent: bool,
    /// Samples too short to mean anything: for tests of the page
    #[arg(long, hide = true)]
    pub quick: bool,
}

impl ReportArgs {
    /// The error is the line that the user sees.
    pub fn check(self) -> Result<Report, String> {
        let mut report =
            Report { html: None, markdown: self.markdown, json: self.json, silent: self.silent, quick: self.quick };
        if let Some(output) = self.output {
            match output.extension().and_then(|extension| extension.to_str()) {
                Some("html" | "htm") => report.html = Some(output),
                Some("md") if report.markdown.is_none() => report.markdown = Some(output),
                Some("md") => {
                    return Err(format!("--output '{}' is a second Markdown; accepted: one of them", output.display()));
                }
                _ => {
                    return Err(format!("--output '{}' is no page; accepted: FILE.html, FILE.md", output.display()));
                }
            }
        }
        let files: Vec<_> = [&report.html, &report.markdown, &report.json].into_iter().flatten().collect();
        if files.is_empty() {
            return Err("no file given; accepted: ufutex report -o FILE.html, see --help".to_string());
        }
        if let Some(twice) = (1..files.len()).find(|place| files[..*place].contains(&files[*place])) {
            let twice = files[twice].display();
            return Err(format!("'{twice}' is given twice; accepted: a file for each of -o, --markdown and --json"));
        }
        let mistake = files.into_iter().find_map(|file| values::unwritable(file));
        mistake.map_or(Ok(report), Err)
    }
}

/// Below the options.
pub const MORE: &str = "\
It measures for about two and a half minutes, and wants the machine for itself meanwhile. The page is one file that needs
nothing else: no network, no scripts. It has what was published beside what is measured here beside what the model of
`ufutex sim` says; the three are never mixed.

Exit status:
  0    measured and written
  1    a file cannot be written
  130  interrupted: the page says what is missing in it
  2    a mistake in the options

Examples:
  ufutex report -o report.html                          a page to look at
  ufutex report -o report.html --json now.json          and its rows
  ufutex compare before.json now.json                   what has changed since";
