//! The rate of threads through a resize: before the request, until it returned, and after it. One line for each target.

use super::tables::{Table, machine};
use super::{Picture, WIDTH, top};
use crate::page::document::{Look, Mark};
use crate::page::html::marks::{joined, mark};
use crate::page::html::scale::{LogScale, apart, short};
use anyhow::{Context, Result};
use lab_bench::survey::resize::{AFTER_MS, BEFORE_MS, SIZES};
use lab_page::px;
use maud::{Markup, html};

const HEIGHT: f64 = 396.0;
const LEFT: f64 = 34.0;
const RIGHT: f64 = WIDTH - 146.0;
const BOTTOM: f64 = HEIGHT - 42.0;
/// Lines below the title.
const LINES: usize = 4;

/// The resize of one target. Rates are in million operations a second.
pub struct Course {
    /// The target.
    pub target: String,
    /// Time until the request returned, or was given up.
    pub took_ms: f64,
    /// Rate before the request.
    pub before: f64,
    /// Rate until it returned.
    pub under_way: f64,
    /// Rate after it. `None` if the request was given up.
    pub after: Option<f64>,
}

/// The picture of a report's file of figures.
pub fn of_file(text: &str) -> Result<String> {
    let table = Table::find(text, "A resize from ")?;
    let number = |text: &str| text.parse::<f64>().with_context(|| format!("'{text}' is no number"));
    let courses = table.rows(|cell| {
        let time = cell("median time")?.trim_start_matches("> ");
        let after = cell("after")?;
        Ok(Course {
            target: cell("target")?.to_string(),
            took_ms: number(time.strip_suffix(" ms").with_context(|| format!("'{time}' is no time in ms"))?)?,
            before: number(cell("before")?)?,
            under_way: number(cell("under way")?)?,
            after: if after == "-" { None } else { Some(number(after)?) },
        })
    })?;
    let threads = table.title.split_once(" while ").and_then(|(_, rest)| rest.split(' ').next()?.parse().ok());
    Ok(picture(&machine(text)?, threads.context("the number of threads")?, &courses))
}

/// The picture of measured resizes.
pub fn picture(machine: &str, threads: usize, courses: &[Course]) -> String {
    let rates = || courses.iter().flat_map(|one| [Some(one.before), Some(one.under_way), one.after]).flatten();
    let low = rates().fold(f64::INFINITY, f64::min);
    let y = LogScale::around(low, rates().fold(0.0, f64::max), BOTTOM, top(LINES) + 12.0);
    let x = |ms: f64| LEFT + (ms + BEFORE_MS) / (AFTER_MS + BEFORE_MS) * (RIGHT - LEFT);
    let ends: Vec<_> = courses.iter().map(|one| y.at(one.after.unwrap_or(one.under_way))).collect();
    let labels = apart(&ends, 17.0, top(LINES) + 12.0, BOTTOM);
    let inside = html! {
        @for tick in y.ticks() {
            line.grid x1=(LEFT) x2=(px(RIGHT)) y1=(px(y.at(tick))) y2=(px(y.at(tick))) {}
            text.tick.end x=(LEFT - 5.0) y=(px(y.at(tick) + 4.0)) { (short(tick)) }
        }
        line.asked x1=(px(x(0.0))) x2=(px(x(0.0))) y1=(top(LINES) + 4.0) y2=(BOTTOM) {}
        @for number in 0..=(AFTER_MS / 50.0) as usize {
            @let ms = 50.0 * number as f64;
            text.tick.middle x=(px(x(ms))) y=(BOTTOM + 18.0) { (ms) }
        }
        text.axis.middle x=(px((LEFT + RIGHT) / 2.0)) y=(HEIGHT - 7.0) { "milliseconds since the request" }
        @for ((one, end), label) in courses.iter().zip(&ends).zip(&labels) { (course(one, &x, &y, *end, *label)) }
    };
    let (from, to) = SIZES;
    let found = courses.iter().map(|one| match one.after {
        Some(after) => format!(
            "{}: {} before, {} until the request returned after {} ms, {} after it",
            one.target, one.before, one.under_way, one.took_ms, after
        ),
        None => format!(
            "{}: {} before, {} until the request was given up after {} ms",
            one.target, one.before, one.under_way, one.took_ms
        ),
    });
    let description = format!("Million operations a second. {}.", found.collect::<Vec<_>>().join("; "));
    Picture {
        title: &format!("{threads} threads through a resize, {from} to {to} buckets"),
        description: &description,
        lines: &[
            "Million operations a second of all threads",
            "live: the engine; atomic, percpu: stand-ins of ours",
            "\u{25cf} the request returned   \u{d7} it was given up",
            machine,
        ],
        height: HEIGHT,
        inside,
    }
    .svg()
}

fn course(one: &Course, x: &dyn Fn(f64) -> f64, y: &LogScale, end: f64, label: f64) -> Markup {
    let look = Look::of(&one.target);
    let took = x(one.took_ms.min(AFTER_MS));
    let mut points = vec![(x(-BEFORE_MS), y.at(one.before)), (x(0.0), y.at(one.before))];
    points.extend([(x(0.0), y.at(one.under_way)), (took, y.at(one.under_way))]);
    if let Some(after) = one.after {
        points.extend([(took, y.at(after)), (RIGHT, y.at(after))]);
    }
    let ended = Look { mark: if one.after.is_some() { Mark::Disc } else { Mark::Cross }, ..look };
    let verdict = match one.after {
        Some(_) => format!("{}: {} ms", one.target, short(one.took_ms)),
        None => format!("{}: given up", one.target),
    };
    let from = if one.after.is_some() { RIGHT } else { took + 8.0 };
    html! {
        polyline.curve.(look.class) points=(joined(&points)) stroke-dasharray=[(!look.dash.is_empty()).then_some(look.dash)] {}
        (mark(ended, took, y.at(one.under_way)))
        line.leader.(look.class) x1=(px(from)) y1=(px(end)) x2=(px(RIGHT + 10.0)) y2=(px(label)) {}
        text.label.(look.class) x=(px(RIGHT + 13.0)) y=(px(label + 4.5)) { (verdict) }
    }
}
