//! The pages that `ufutex report` and `ufutex locks` write, in a real browser: Debian's `chromium`, headless.
//!
//! The report is made with `--quick`, because no figure is checked. Pages are opened at the widths of a phone and of a large
//! screen, dark and light, and printed. `UFUTEX_PAGE_SHOTS=DIR` keeps screenshots, `UFUTEX_PAGE=FILE` tests that report.

mod browser;
mod looks;
#[path = "../../../ufutex/tests/common/skipped.rs"]
mod skipped;
#[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
mod waits;

use browser::Browser;
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use skipped::skip;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Arc, OnceLock};

/// The widths of a phone and of a large screen, in CSS pixels.
const WIDTHS: [u32; 2] = [380, 1600];

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // Each test starts a browser, and all share the machine's CPUs.
    arguments.test_threads.get_or_insert(2);
    let (page, pictures) = (Page::new(report), Page::new(pictures));
    let mut trials = Vec::new();
    for width in WIDTHS {
        for theme in ["light", "dark"] {
            let fits = move |file: &Path| looks::fits(file, "", 8, width, theme);
            trials.push(trial(format!("fits_at_{width}_{theme}"), &page, fits));
            let fit = move |file: &Path| looks::fits(file, "pictures-", 2, width, theme);
            trials.push(trial(format!("pictures_fit_at_{width}_{theme}"), &pictures, fit));
        }
    }
    trials.push(trial("pictures_follow_the_theme".into(), &pictures, looks::themes));
    trials.push(trial("dark_and_light_differ_and_can_be_read".into(), &page, looks::themes));
    trials.push(trial("series_differ_without_colour".into(), &page, looks::without_colour));
    trials.push(trial("it_prints".into(), &page, looks::prints));
    trials.push(trial("it_fetches_nothing_and_has_no_scripts".into(), &page, looks::alone));
    #[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
    trials.extend(waits::trials());
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// A page, which is made once for all tests.
#[derive(Clone)]
struct Page {
    file: Arc<OnceLock<Result<PathBuf, String>>>,
    make: fn() -> Result<PathBuf, String>,
}

impl Page {
    fn new(make: fn() -> Result<PathBuf, String>) -> Page {
        Page { file: Arc::default(), make }
    }
}

fn trial(name: String, page: &Page, look: impl Fn(&Path) -> Result<(), String> + Send + 'static) -> Trial {
    let page = page.clone();
    Trial::ignorable_test(name, move || {
        if Browser::program().is_none() {
            let reason = "no chromium here (Debian's package chromium)";
            skip(reason);
            return Ok(Completion::ignored_with(reason));
        }
        let file = page.file.get_or_init(page.make).clone()?;
        look(&file).map(|()| Completion::Completed).map_err(Failed::from)
    })
}

/// A page with the pictures of the documentation, drawn again from their figures.
fn pictures() -> Result<PathBuf, String> {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pictures");
    let status = Command::new(env!("CARGO_BIN_EXE_ufutex"))
        .args(["report", "--silent", "--data", concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/data"), "--svg"])
        .arg(&directory)
        .stdin(Stdio::null())
        .status()
        .map_err(|error| format!("the program does not start: {error}"))?;
    if !status.success() {
        return Err(format!("ufutex report ends with {status}"));
    }
    let read = |name: &str| std::fs::read_to_string(directory.join(name)).map_err(|error| format!("{name}: {error}"));
    let svgs = read("resize.svg")? + &read("hand-off.svg")?;
    let page = directory.join("pictures.html");
    let style = "<style>body { margin: 8px; background: var(--paper); } svg { max-width: 100%; height: auto; }</style>";
    let text = format!("<!DOCTYPE html><meta charset=utf-8><title>Pictures</title>{style}<body>{svgs}");
    std::fs::write(&page, text).map_err(|error| format!("pictures.html: {error}"))?;
    Ok(page)
}

fn report() -> Result<PathBuf, String> {
    if let Some(file) = std::env::var_os("UFUTEX_PAGE") {
        return Ok(file.into());
    }
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("report.html");
    let status = Command::new(env!("CARGO_BIN_EXE_ufutex"))
        .args(["report", "--quick", "--silent", "-o"])
        .arg(&file)
        .stdin(Stdio::null())
        .status()
        .map_err(|error| format!("the program does not start: {error}"))?;
    if status.success() { Ok(file) } else { Err(format!("ufutex report ends with {status}")) }
}
