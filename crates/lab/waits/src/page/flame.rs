//! A flame graph of the time waited. `inferno` draws it from the lines that `--folded` prints.
//!
//! Its script is left out: that takes over the browser's search and address.

use crate::folded;
use crate::report::Line;
use inferno::flamegraph::color::{BasicPalette, Palette};
use inferno::flamegraph::{self, Options};
use maud::{Markup, PreEscaped, html};

const WIDTH: usize = 1120;
/// Where the frames begin, in inferno's picture.
const FRAMES: &str = "<svg id=\"frames\"";

/// The section with the graph.
pub fn draw(lines: &[Line]) -> Markup {
    html! {
        section aria-labelledby="flame" {
            h2 id="flame" { "Where threads waited" }
            p.note { "Width is time waited. Each column is a stack, the outermost function below; on top is what was waited for." }
            @match graph(lines) {
                Some((height, frames)) => div.scroll.flame tabindex="0" role="region" aria-labelledby="flame" {
                    svg viewBox={ "0 0 " (WIDTH) " " (height) } role="img" aria-label="Flame graph; the tables have the same stacks" {
                        (PreEscaped(frames))
                    }
                },
                None => p { "There is no graph: no wait has a time." },
            }
        }
    }
}

/// The graph's height, and its frames as SVG.
fn graph(lines: &[Line]) -> Option<(usize, String)> {
    let mut folded = Vec::new();
    // Writing to memory does not fail.
    lines.iter().try_for_each(|line| folded::write(&mut folded, line)).ok()?;
    let folded = String::from_utf8(folded).ok()?;
    let mut options = Options::default();
    options.title = String::new();
    // Black text can be read on it.
    options.colors = Palette::Basic(BasicPalette::Aqua);
    options.deterministic = true;
    options.image_width = Some(WIDTH);
    options.min_width = 0.05;
    options.factor = 1e-3;
    options.count_name = "us".to_string();
    options.no_javascript = true;
    let mut picture = Vec::new();
    flamegraph::from_lines(&mut options, folded.lines(), &mut picture).ok()?;
    let picture = String::from_utf8(picture).ok()?;
    // What is around the frames is a background, a style and buttons for the script.
    let (head, _) = picture.split_once(FRAMES)?;
    let height = head.split_once(" height=\"")?.1.split('"').next()?.parse().ok()?;
    let frames = picture[head.len()..].strip_suffix("</svg>")?;
    Some((height, frames.to_string()))
}
