//! Pictures as SVG files, for pages that are not the report's. Text is text, colours follow the reader's preference, and a
//! file has no script and fetches nothing.
//!
//! They are drawn from files of figures, so one command makes them again, or from what a report has measured.

mod hand_off;
mod resize;
mod tables;

pub use resize::Course;

use super::html::DRAWINGS;
use anyhow::{Context, Result};
use maud::{Markup, PreEscaped, html};
use std::path::Path;

/// Width of a picture's coordinates. A phone's screen is not much narrower, so text stays readable there.
const WIDTH: f64 = 440.0;
const STYLE: &str = "\
svg { font: 13px system-ui, \"Segoe UI\", \"DejaVu Sans\", sans-serif; font-variant-numeric: tabular-nums; }
rect.paper { fill: var(--paper); } rect.bar { fill-opacity: 0.7; } text.title { font-size: 15px; font-weight: 600; }";

/// Draws all pictures from the files of `data`, and writes them into `directory`. Returns their names.
pub fn draw(data: &Path, directory: &Path) -> Result<Vec<String>> {
    let read = |name: &str| {
        let file = data.join(name);
        std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))
    };
    let resize = resize::of_file(&read("report.csv")?).context("report.csv")?;
    let hand_off = hand_off::of_file(&read("hand-off.csv")?).context("hand-off.csv")?;
    [("resize.svg", resize), ("hand-off.svg", hand_off)]
        .map(|(name, text)| write(directory, name, &text))
        .into_iter()
        .collect()
}

/// Draws the picture of the measured resizes into `directory`. Returns its name.
pub fn draw_measured(machine: &str, threads: usize, courses: &[Course], directory: &Path) -> Result<String> {
    write(directory, "resize.svg", &resize::picture(machine, threads, courses))
}

fn write(directory: &Path, name: &str, text: &str) -> Result<String> {
    let file = directory.join(name);
    std::fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
    std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
    Ok(file.display().to_string())
}

/// What a picture consists of.
struct Picture<'a> {
    title: &'a str,
    /// The content in a sentence, for readers who cannot see it.
    description: &'a str,
    /// Lines below the title.
    lines: &'a [&'a str],
    height: f64,
    inside: Markup,
}

/// The height of the title and of `lines` lines below it.
fn top(lines: usize) -> f64 {
    30.0 + 17.0 * lines as f64
}

impl Picture<'_> {
    /// The whole file.
    fn svg(&self) -> String {
        let markup = html! {
            svg xmlns="http://www.w3.org/2000/svg" viewBox={ "0 0 " (WIDTH) " " (self.height) } width=(WIDTH * 1.4)
                role="img" aria-labelledby="title description" {
                title id="title" { (self.title) }
                desc id="description" { (self.description) }
                style { (PreEscaped(lab_page::COLOURS)) (PreEscaped(DRAWINGS)) (PreEscaped(STYLE)) }
                rect.paper width=(WIDTH) height=(self.height) {}
                text.title x="8" y="22" { (self.title) }
                @for (number, line) in self.lines.iter().enumerate() {
                    text.axis x="8" y=(40.0 + 17.0 * number as f64) { (line) }
                }
                (self.inside)
            }
        };
        markup.into_string() + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn docs() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs")
    }

    #[test]
    fn the_checked_in_pictures_are_those_of_the_data() -> Result<()> {
        let directory = std::env::temp_dir().join(format!("ufutex-pictures-{}", std::process::id()));
        draw(&docs().join("data"), &directory)?;
        for name in ["resize.svg", "hand-off.svg"] {
            let (made, kept) =
                (std::fs::read(directory.join(name))?, std::fs::read(docs().join("pictures").join(name))?);
            assert!(made == kept, "{name} differs; make it with: ufutex report --svg docs/pictures --data docs/data");
        }
        Ok(std::fs::remove_dir_all(directory)?)
    }

    #[test]
    fn a_picture_is_text_in_both_themes_and_fetches_nothing() {
        let picture = Picture { title: "a < b", description: "", lines: &["c & d"], height: 60.0, inside: html! {} };
        let text = picture.svg();
        assert!(text.contains(">a &lt; b</text>") && text.contains(">c &amp; d</text>"), "{text}");
        assert!(
            text.contains("@media (prefers-color-scheme: dark)") && text.contains("viewBox=\"0 0 440 60\""),
            "{text}"
        );
        let text = text.replace("http://www.w3.org/2000/svg", "");
        assert!(!text.contains("http") && !text.contains("<script") && !text.contains("url("), "{text}");
    }
}
