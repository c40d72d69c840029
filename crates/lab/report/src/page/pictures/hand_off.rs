//! A hand-off between two threads: a bar for each way, on one CPU and on two.

use super::tables::{Table, machine};
use super::{Picture, WIDTH, top};
use crate::page::document::Look;
use crate::page::html::scale::linear;
use anyhow::Result;
use lab_page::px;
use maud::{Markup, html};

const LEFT: f64 = 94.0;
/// Space to the right of the longest bar, for its value.
const RIGHT: f64 = 74.0;
const LINE: f64 = 24.0;
/// Lines below the title.
const LINES: usize = 3;

/// Nanoseconds of a hand-off.
struct Bar {
    name: String,
    cpus: usize,
    median: f64,
    p10: f64,
    p90: f64,
}

impl Bar {
    fn value(&self) -> String {
        format!("{:.1} \u{b5}s", self.median / 1000.0)
    }
}

/// The picture of a file of figures.
pub fn of_file(text: &str) -> Result<String> {
    let bars = Table::find(text, "The hand-off")?.rows(|cell| {
        let number = |name: &str| anyhow::Ok(cell(name)?.parse::<f64>()?);
        Ok(Bar {
            name: cell("target")?.to_string(),
            cpus: cell("CPUs")?.parse()?,
            median: number("median")?,
            p10: number("p10")?,
            p90: number("p90")?,
        })
    })?;
    Ok(picture(&machine(text)?, &bars))
}

fn picture(machine: &str, bars: &[Bar]) -> String {
    let (end, _) = linear(bars.iter().map(|bar| bar.p90).fold(0.0, f64::max));
    let scale = (WIDTH - LEFT - RIGHT) / end;
    let mut y = top(LINES) + 4.0;
    let mut groups = Vec::new();
    for (cpus, name) in [(1, "on one CPU"), (2, "on two CPUs")] {
        let of: Vec<_> = bars.iter().filter(|bar| bar.cpus == cpus).collect();
        groups.push(group(name, &of, scale, y));
        y += LINE * (of.len() + 1) as f64 + 8.0;
    }
    let found = bars.iter().map(|bar| format!("{} on {} {}", bar.name, bar.cpus, bar.value()));
    let description = format!("Microseconds from a wake to the next. {}.", found.collect::<Vec<_>>().join("; "));
    let inside = html! { @for group in groups { (group) } };
    Picture {
        title: "A hand-off between two threads",
        description: &description,
        lines: &[
            "From a wake to the next: median, and a line from p10 to p90",
            "plain: the engine; spinning: it spins before it sleeps",
            machine,
        ],
        height: y + 2.0,
        inside,
    }
    .svg()
}

fn group(name: &str, bars: &[&Bar], scale: f64, top: f64) -> Markup {
    html! {
        text.label.strong x="8" y=(px(top + 14.0)) { (name) }
        @for (number, bar) in bars.iter().enumerate() {
            @let y = top + LINE * (number + 1) as f64;
            @let class = Look::of(if ["plain", "spinning"].contains(&bar.name.as_str()) { "live" } else { &bar.name }).class;
            @let at = |ns: f64| px(LEFT + ns * scale);
            text.label.end x=(LEFT - 7.0) y=(px(y + 13.0)) { (bar.name) }
            rect.bar.(class) x=(LEFT) y=(px(y + 1.0)) width=(px((bar.median * scale).max(1.0))) height="16" {}
            line.range x1=(at(bar.p10)) x2=(at(bar.p90)) y1=(px(y + 9.0)) y2=(px(y + 9.0)) {}
            text.value x=(px(LEFT + bar.median.max(bar.p90) * scale + 6.0)) y=(px(y + 13.5)) { (bar.value()) }
        }
    }
}
