//! A rate over time. The time of the resize is shaded.

use super::px;
use super::scale::{linear, short};
use crate::page::document::Course;
use maud::{Markup, html};

const WIDTH: f64 = 360.0;
const HEIGHT: f64 = 214.0;
const LEFT: f64 = 34.0;
const RIGHT: f64 = WIDTH - 12.0;
const TOP: f64 = 46.0;
const BOTTOM: f64 = HEIGHT - 38.0;

/// The size and the content of the drawing.
pub fn draw(it: &Course) -> ((f64, f64), Markup) {
    let (top, ticks) = linear(it.top_mops);
    let end_ms = it.from_ms + it.step_ms * it.mops.len() as f64;
    let x = |ms: f64| LEFT + (ms - it.from_ms) / (end_ms - it.from_ms) * (RIGHT - LEFT);
    let y = |mops: f64| BOTTOM - (mops / top).min(1.0) * (BOTTOM - TOP);
    let until = it.done_ms.or(it.given_up_ms).unwrap_or(end_ms).min(end_ms);
    let every = if end_ms > 150.0 { 50.0 } else { 20.0 };
    let marks = (((it.from_ms / every).ceil() as i64)..=((end_ms / every).floor() as i64)).map(|n| n as f64 * every);
    let inside = html! {
        text.axis x="0" y="12" { "Mop/s" }
        @for tick in &ticks {
            line.grid x1=(LEFT) x2=(RIGHT) y1=(px(y(*tick))) y2=(px(y(*tick))) {}
            text.tick.end x=(LEFT - 5.0) y=(px(y(*tick) + 4.0)) { (short(*tick)) }
        }
        // At least 1.5 pixels wide: some resizes take only microseconds.
        rect.pending x=(px(x(0.0))) y=(TOP) width=(px((x(until) - x(0.0)).max(1.5))) height=(BOTTOM - TOP) {}
        path.area.(it.look.class) d=(outline(it, &x, &y)) {}
        line.asked x1=(px(x(0.0))) x2=(px(x(0.0))) y1=(TOP - 6.0) y2=(BOTTOM) {}
        text.label.strong x=(px(x(0.0) + 1.0)) y=(TOP - 11.0) { (verdict(it)) }
        @for mark in marks { text.tick.middle x=(px(x(mark).clamp(LEFT + 10.0, RIGHT - 10.0))) y=(BOTTOM + 16.0) { (format!("{mark:.0}")) } }
        text.axis.middle x=((LEFT + RIGHT) / 2.0) y=(HEIGHT - 5.0) { "milliseconds since the request" }
    };
    ((WIDTH, HEIGHT), inside)
}

fn verdict(it: &Course) -> String {
    match (it.done_ms, it.given_up_ms) {
        (Some(done), _) if done < 1.0 => format!("asked; done after {} µs", short((1000.0 * done).round())),
        (Some(done), _) => format!("asked; done after {} ms", short((10.0 * done).round() / 10.0)),
        (None, Some(given_up)) => format!("asked; not done after {given_up:.0} ms"),
        (None, None) => "asked; not done".to_string(),
    }
}

/// The outline of the steps, closed at the bottom.
fn outline(it: &Course, x: &dyn Fn(f64) -> f64, y: &dyn Fn(f64) -> f64) -> String {
    let mut path = format!("M{} {}", px(x(it.from_ms)), px(BOTTOM));
    for (number, mops) in it.mops.iter().enumerate() {
        let from = it.from_ms + it.step_ms * number as f64;
        path += &format!("V{}H{}", px(y(*mops)), px(x(from + it.step_ms)));
    }
    path + &format!("V{}Z", px(BOTTOM))
}
