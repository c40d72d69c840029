//! Marks and text that all drawings use.

use super::px;
use crate::page::document::{Look, Mark};
use maud::{Markup, html};

/// A mark with the colour and shape of its series.
pub fn mark(look: Look, x: f64, y: f64) -> Markup {
    let size = 4.0;
    let path = |points: &[(f64, f64)]| {
        let text: Vec<_> =
            points.iter().map(|(dx, dy)| format!("{} {}", px(x + dx * size), px(y + dy * size))).collect();
        format!("M{}Z", text.join("L"))
    };
    let filled = |points: &[(f64, f64)]| html! { path.mark.(look.class) d=(path(points)) {} };
    match look.mark {
        Mark::Disc => html! { circle.mark.(look.class) cx=(px(x)) cy=(px(y)) r="4" {} },
        Mark::Ring => html! { circle.mark.hollow.(look.class) cx=(px(x)) cy=(px(y)) r="3.6" {} },
        Mark::Square => filled(&[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)]),
        Mark::Up => filled(&[(0.0, -1.15), (1.1, 0.85), (-1.1, 0.85)]),
        Mark::Down => filled(&[(0.0, 1.15), (1.1, -0.85), (-1.1, -0.85)]),
        Mark::Diamond => filled(&[(0.0, -1.25), (1.25, 0.0), (0.0, 1.25), (-1.25, 0.0)]),
        Mark::Cross => html! {
            path.mark.hollow.(look.class) d={
                "M" (px(x - 3.5)) " " (px(y - 3.5)) "L" (px(x + 3.5)) " " (px(y + 3.5))
                "M" (px(x - 3.5)) " " (px(y + 3.5)) "L" (px(x + 3.5)) " " (px(y - 3.5))
            } {}
        },
    }
}

/// Points joined by straight lines.
pub fn joined(points: &[(f64, f64)]) -> String {
    points.iter().map(|(x, y)| format!("{} {}", px(*x), px(*y))).collect::<Vec<_>>().join(" ")
}
