//! `resize`.

use crate::rows::{self, Shown, capital, join, shown};
use crate::summary::Line;
use lab_bench::Lab;
use lab_bench::resize::{GIVE_UP, Row};
use lab_terminal::table;

shown!(Row, |row| row.resize_us, ["the kernel": row.ratio_kernel]);

/// The table, and the sentence below it.
pub fn text(_: &Lab<'_>, rows: &[Row]) -> String {
    let Some(first) = rows.first() else { return String::new() };
    let resize = format!("{} to {}, us", first.from, first.to);
    let mut table = table::new(&[
        "target",
        "threads",
        &resize,
        "p90",
        "returns",
        "completed",
        "rate meanwhile",
        "missed, us",
        "op p99, us",
        "max",
        "/ kernel",
    ]);
    for row in rows {
        let given_up = row.time() >= GIVE_UP.as_micros() as f64 && !row.completed;
        let time = |us: f64| if given_up { format!("> {:.0}", GIVE_UP.as_micros()) } else { format!("{us:.0}") };
        let mut cells = vec![rows::target(row), rows::threads(&row.head)];
        cells.extend([row.time(), row.resize_p90_us, row.returned_us].map(time));
        cells.extend([completed(row), format!("{:.2}", row.rate_meanwhile), format!("{:.0}", row.missed_us)]);
        cells.extend(rows::tail(&row.op_pause_us).into_iter().skip(1));
        cells.push(table::ratio(row.ratio_kernel.filter(|_| !given_up)));
        table.add_row(table::align(cells, 1));
    }
    format!("{}\n{}", table::finish(table), sentence(rows))
}

fn completed(row: &Row) -> String {
    match row.completed_share {
        _ if row.completed => "yes".to_string(),
        share if share > 0.0 => format!("{:.0} % of {}", 100.0 * share, row.head.repeat),
        _ => "no".to_string(),
    }
}

fn sentence(rows: &[Row]) -> String {
    let say = |row: &Row| {
        let (target, share) = (row.head.target, 100.0 * row.completed_share);
        match row.completed {
            true => format!("{target} in {:.0} us", row.resize_us),
            false => format!("{target} in {share:.0} % of the tries within {} ms", GIVE_UP.as_millis()),
        }
    };
    let mut threads: Vec<_> = rows.iter().map(|row| row.head.threads).collect();
    threads.dedup();
    let sentence = threads.iter().map(|threads| {
        let these = rows.iter().filter(|row| row.head.threads == *threads).map(|row| Some(say(row)));
        format!("under {threads} hammering threads the resize completes: {}", join(these))
    });
    capital(&(sentence.collect::<Vec<_>>().join("; ") + "."))
}

/// The summary line.
pub fn line(rows: &[Row]) -> Option<Line> {
    Line::first("a new table size, us", rows, |row| row.head.threads)
}
