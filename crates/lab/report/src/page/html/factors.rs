//! Factors: each line's marks on one logarithmic axis show whether direction and size agree.

use super::marks::mark;
use super::px;
use super::scale::{LogScale, short};
use crate::page::document::Factors;
use maud::{Markup, html};

const WIDTH: f64 = 420.0;
const LEFT: f64 = 10.0;
const RIGHT: f64 = WIDTH - 14.0;
const HEAD: f64 = 46.0;
const LINE: f64 = 58.0;

/// The size and the content of the drawing.
pub fn draw(it: &Factors) -> ((f64, f64), Markup) {
    let height = HEAD + LINE * it.lines.len() as f64 + 40.0;
    let all = || it.lines.iter().flat_map(|(.., factors)| factors.iter().flatten().copied());
    let low = all().fold(1.0, f64::min);
    let high = all().fold(1.0, f64::max);
    let x = LogScale::around(low, high, LEFT + 8.0, RIGHT - 8.0);
    let bottom = HEAD + LINE * it.lines.len() as f64;
    let inside = html! {
        @for (number, (name, look)) in it.kinds.iter().enumerate() {
            @let place = 6.0 + 136.0 * number as f64;
            (mark(*look, place, 11.0))
            text.label x=(px(place + 9.0)) y="15" { (name) }
        }
        @for tick in x.ticks() {
            line.grid.one[tick == 1.0] x1=(px(x.at(tick))) x2=(px(x.at(tick))) y1=(HEAD - 12.0) y2=(bottom) {}
            text.tick.middle x=(px(x.at(tick))) y=(bottom + 16.0) { "×" (short(tick)) }
        }
        text.axis.middle x=(WIDTH / 2.0) y=(bottom + 34.0) { "after / before; right of ×1 is better" }
        @for (number, (name, where_, factors)) in it.lines.iter().enumerate() {
            @let y = HEAD + LINE * number as f64;
            text.label.strong x=(LEFT) y=(px(y + 6.0)) { (name) }
            text.tick x=(LEFT) y=(px(y + 20.0)) { (where_) }
            @if let Some(published) = factors.first().copied().flatten() {
                rect.tolerance x=(px(x.at(published / 1.5))) y=(px(y + 26.0)) height="14"
                    width=(px(x.at(published * 1.5) - x.at(published / 1.5))) {}
            }
            line.rule x1=(LEFT) x2=(RIGHT) y1=(px(y + 33.0)) y2=(px(y + 33.0)) {}
            @for (factor, (_, look)) in factors.iter().zip(&it.kinds).rev() {
                @if let Some(factor) = factor { (mark(*look, x.at(*factor), y + 33.0)) }
            }
        }
    };
    ((WIDTH, height), inside)
}
