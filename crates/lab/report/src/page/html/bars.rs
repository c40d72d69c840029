//! Bars from 0. Each has its name above it and its value at its end.

use super::px;
use super::scale::{linear, short};
use crate::page::document::Bars;
use maud::{Markup, html};

const WIDTH: f64 = 420.0;
const LINE: f64 = 36.0;
/// Length of the longest bar. Its value is to the right of it.
const LENGTH: f64 = WIDTH - 84.0;

/// The size and the content of the drawing.
pub fn draw(it: &Bars) -> ((f64, f64), Markup) {
    let longest = it.bars.iter().map(|(.., length)| *length).fold(0.0, f64::max);
    let (end, _) = linear(longest);
    let scale = LENGTH / end;
    let height = LINE * it.bars.len() as f64 + 22.0;
    let inside = html! {
        line.rule x1="0.5" x2="0.5" y1="0" y2=(height - 20.0) {}
        @for (number, (name, look, length)) in it.bars.iter().enumerate() {
            @let y = LINE * number as f64;
            text.label x="6" y=(px(y + 13.0)) { (name) }
            rect.bar.(look.class) x="0" y=(px(y + 18.0)) width=(px((length * scale).max(1.0))) height="12" {}
            text.value x=(px(length * scale + 7.0)) y=(px(y + 28.5)) { (short(*length)) }
        }
        text.axis x="6" y=(height - 5.0) { (it.unit) }
    };
    ((WIDTH, height), inside)
}
