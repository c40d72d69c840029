//! The options of `ufutex report`.

use clap::Args;
use lab_report::page::Report;
use lab_values as values;
use std::path::PathBuf;

/// Arguments of `ufutex report`.
#[derive(Args)]
pub struct ReportArgs {
    /// Write the page
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Write all rows of the report, one JSON object per line, for `ufutex compare`
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Also write the picture of the resize as SVG into DIR, which is made if it does not exist
    #[arg(long, value_name = "DIR")]
    pub svg: Option<PathBuf>,
    /// With --svg: measure nothing, and draw the pictures from DIR/report.csv and DIR/hand-off.csv
    #[arg(long, value_name = "DIR", requires = "svg", conflicts_with_all = ["output", "json"])]
    pub data: Option<PathBuf>,
    /// No progress on stderr
    #[arg(short, long)]
    pub silent: bool,
    /// Take samples that are too short to be meaningful, for tests of the page
    #[arg(long, hide = true)]
    pub quick: bool,
}

impl ReportArgs {
    /// Checks the files. An error is one line for the user.
    pub fn check(self) -> Result<Report, String> {
        let ReportArgs { output, json, svg, data, silent, quick } = self;
        let is_html =
            |file: &PathBuf| file.extension().is_some_and(|extension| extension == "html" || extension == "htm");
        if let Some(other) = output.as_ref().filter(|output| !is_html(output)) {
            return Err(format!("--output '{}' has another extension; accepted: FILE.html", other.display()));
        }
        let report = Report { html: output, json, svg, data, silent, quick };
        let files: Vec<_> = [&report.html, &report.json].into_iter().flatten().collect();
        if files.is_empty() && report.svg.is_none() {
            return Err("no file given; accepted: ufutex report -o FILE.html, see --help".to_string());
        }
        if let Some(twice) = (1..files.len()).find(|place| files[..*place].contains(&files[*place])) {
            let twice = files[twice].display();
            return Err(format!("'{twice}' is given twice; accepted: different files for -o and --json"));
        }
        let no_directory = |path: &&PathBuf| path.exists() && !path.is_dir();
        if let Some(file) = report.svg.iter().find(no_directory) {
            return Err(format!("--svg '{}' is a file; accepted: a directory", file.display()));
        }
        let mistake = files.into_iter().find_map(|file| values::unwritable(file));
        mistake.map_or(Ok(report), Err)
    }
}

/// Text below the options.
pub const MORE: &str = "\
Measures for about two and a half minutes. The machine should do nothing else meanwhile. The page is one file without
scripts and network access. Beside published figures it shows those of our stand-ins, which are schemes and layouts of
the engine measured on this machine, and those of the model of `ufutex sim`, in separate columns; and what this
machine's kernel does.

Exit status:
  0    measured and written
  1    a file cannot be written
  130  interrupted: the page names what is missing
  2    a mistake in the options

Examples:
  ufutex report -o report.html                          write a page
  ufutex report -o report.html --json now.json          write a page and its rows
  ufutex report --svg docs/pictures --data docs/data    draw the pictures of the documentation again
  ufutex compare before.json now.json                   compare with earlier rows";
