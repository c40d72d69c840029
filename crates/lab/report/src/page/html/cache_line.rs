//! A cache line as eight rows of eight bytes. Fields that are fetched more from other cores have a deeper colour.

use super::px;
use crate::page::document::{CacheLine, Field};
use maud::{Markup, html};

const WIDTH: f64 = 360.0;
const LEFT: f64 = 40.0;
const CELL: f64 = 40.0;
const ROW: f64 = 27.0;
const TOP: f64 = 18.0;
const BYTES_A_ROW: usize = 8;
const BYTES: usize = 64;

/// The size and the content of the drawing.
pub fn draw(id: &str, it: &CacheLine) -> ((f64, f64), Markup) {
    let rows = (BYTES / BYTES_A_ROW) as f64;
    let hatch = format!("{id}-hatch");
    let inside = html! {
        defs {
            // The hotter half of the scale is also hatched, for readers without colour.
            pattern id=(hatch) width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)" {
                line.hatch x1="0" x2="0" y1="0" y2="6" {}
            }
        }
        @for byte in 0..BYTES_A_ROW {
            text.tick.middle x=(px(LEFT + CELL * (byte as f64 + 0.5))) y="11" { "+" (byte) }
        }
        @for row in 0..BYTES / BYTES_A_ROW {
            text.tick.end x=(LEFT - 6.0) y=(px(TOP + ROW * row as f64 + 18.0)) { (format!("0x{:02x}", row * BYTES_A_ROW)) }
        }
        @for field in &it.fields { (parts(field, &hatch)) }
        rect.frame x=(LEFT) y=(TOP) width=(CELL * BYTES_A_ROW as f64) height=(px(ROW * rows)) {}
    };
    ((WIDTH + 2.0, TOP + ROW * rows + 4.0), inside)
}

/// A field may end in another row than it begins. Its name is in its longest part.
fn parts(field: &Field, hatch: &str) -> Markup {
    let end = (field.offset + field.size).min(BYTES);
    let rows = field.offset / BYTES_A_ROW..end.div_ceil(BYTES_A_ROW);
    let part = |row: usize| (field.offset.max(row * BYTES_A_ROW), end.min((row + 1) * BYTES_A_ROW));
    let named = rows.clone().max_by_key(|row| (part(*row).1 - part(*row).0, usize::MAX - row));
    html! {
        @for row in rows {
            @let (from, to) = part(row);
            @let (x, y) = (LEFT + CELL * (from % BYTES_A_ROW) as f64, TOP + ROW * row as f64);
            @let width = CELL * (to - from) as f64;
            rect.cell.unused[field.name.is_empty()] x=(px(x)) y=(px(y)) width=(px(width)) height=(ROW)
                style={ "--heat:" (format!("{:.0}%", heat(field.share))) } {}
            @if field.share >= 0.25 {
                rect x=(px(x)) y=(px(y)) width=(px(width)) height=(ROW) fill={ "url(#" (hatch) ")" } {}
            }
            @for byte in from + 1..to {
                @let x = px(LEFT + CELL * (byte % BYTES_A_ROW) as f64);
                line.byte x1=(x) x2=(x) y1=(px(y + ROW - 4.0)) y2=(px(y + ROW)) {}
            }
            @if named == Some(row) && !field.name.is_empty() {
                text.cellname.middle x=(px(x + width / 2.0)) y=(px(y + 17.0)) { (label(field, width)) }
            }
        }
    }
}

/// A share of 1 % has about a quarter of the full colour, so that small shares are visible.
fn heat(share: f64) -> f64 {
    if share < 0.0005 { 0.0 } else { (12.0 + 68.0 * share.sqrt()).min(80.0) }
}

/// As much of name and share as fits: both, the name, or the beginning of the name.
fn label(field: &Field, width: f64) -> String {
    const LETTER: f64 = 7.4;
    let fits = |text: &str| text.chars().count() as f64 * LETTER <= width - 4.0;
    let percent = if field.share >= 0.0005 { format!(" {:.0} %", 100.0 * field.share) } else { String::new() };
    let full = format!("{}{percent}", field.name);
    if fits(&full) {
        return full;
    }
    if fits(&field.name) {
        return field.name.clone();
    }
    let letters = ((width - 4.0) / LETTER) as usize;
    field.name.chars().take(letters.saturating_sub(1)).chain(['…']).collect()
}
