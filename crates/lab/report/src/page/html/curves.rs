//! Curves with bands. x is in equal steps, y is logarithmic, and each curve has its name at its end.

use super::marks::{joined, mark};
use super::px;
use super::scale::{LogScale, apart, short};
use crate::page::document::{Curve, Curves};
use maud::{Markup, html};

const WIDTH: f64 = 420.0;
const HEIGHT: f64 = 330.0;
const LEFT: f64 = 42.0;
const RIGHT: f64 = WIDTH - 104.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = HEIGHT - 44.0;
/// Height of a line of text.
const LINE: f64 = 15.0;

/// The size and the content of the drawing.
pub fn draw(it: &Curves) -> ((f64, f64), Markup) {
    let all = || it.curves.iter().flat_map(|curve| curve.points.iter().flatten());
    let low = all().map(|point| point[0]).fold(f64::INFINITY, f64::min);
    let high = all().map(|point| point[2]).fold(0.0, f64::max);
    let y = LogScale::around(low, high, BOTTOM, TOP);
    let ends: Vec<_> = it.curves.iter().map(|curve| last(curve).map_or(BOTTOM, |(_, point)| y.at(point[1]))).collect();
    let labels = apart(&ends, LINE, TOP, BOTTOM);
    let inside = html! {
        text.axis x="0" y="13" { (it.y_label) }
        @for tick in y.ticks() {
            line.grid x1=(LEFT) x2=(RIGHT) y1=(px(y.at(tick))) y2=(px(y.at(tick))) {}
            text.tick.end x=(LEFT - 6.0) y=(px(y.at(tick) + 4.0)) { (short(tick)) }
        }
        @for (number, name) in it.x.iter().enumerate() {
            text.tick.middle x=(px(place(it, number))) y=(BOTTOM + 18.0) { (name) }
        }
        text.axis.middle x=((LEFT + RIGHT) / 2.0) y=(HEIGHT - 8.0) { (it.x_label) }
        @for curve in &it.curves { (band(it, curve, &y)) }
        @for curve in &it.curves { (line(it, curve, &y)) }
        @for ((curve, end), label) in it.curves.iter().zip(&ends).zip(&labels) {
            @if let Some((number, _)) = last(curve) {
                line.leader.(curve.look.class) x1=(px(place(it, number) + 6.0)) y1=(px(*end)) x2=(RIGHT + 12.0) y2=(px(*label)) {}
                text.label.(curve.look.class) x=(RIGHT + 15.0) y=(px(label + 4.0)) { (curve.name) }
            }
        }
    };
    ((WIDTH, HEIGHT), inside)
}

/// The x coordinate of a value.
fn place(it: &Curves, number: usize) -> f64 {
    let (first, last) = (LEFT + 14.0, RIGHT - 8.0);
    if it.x.len() < 2 { (first + last) / 2.0 } else { first + (last - first) * number as f64 / (it.x.len() - 1) as f64 }
}

fn last(curve: &Curve) -> Option<(usize, [f64; 3])> {
    curve.points.iter().enumerate().rev().find_map(|(number, point)| point.map(|point| (number, point)))
}

fn present(curve: &Curve) -> impl DoubleEndedIterator<Item = (usize, [f64; 3])> {
    curve.points.iter().enumerate().filter_map(|(number, point)| point.map(|point| (number, point)))
}

fn band(it: &Curves, curve: &Curve, y: &LogScale) -> Markup {
    let above = present(curve).map(|(number, point)| (place(it, number), y.at(point[2])));
    let below = present(curve).rev().map(|(number, point)| (place(it, number), y.at(point[0])));
    let edge: Vec<_> = above.chain(below).collect();
    html! { polygon.band.(curve.look.class) points=(joined(&edge)) {} }
}

fn line(it: &Curves, curve: &Curve, y: &LogScale) -> Markup {
    let points: Vec<_> = present(curve).map(|(number, point)| (place(it, number), y.at(point[1]))).collect();
    html! {
        polyline.curve.(curve.look.class) points=(joined(&points)) stroke-dasharray=[dash(curve)] {}
        @for (number, point) in present(curve) {
            @let x = place(it, number);
            line.whisker.(curve.look.class) x1=(px(x)) x2=(px(x)) y1=(px(y.at(point[0]))) y2=(px(y.at(point[2]))) {}
            (mark(curve.look, x, y.at(point[1])))
        }
    }
}

fn dash(curve: &Curve) -> Option<&'static str> {
    (!curve.look.dash.is_empty()).then_some(curve.look.dash)
}
