//! The summary after several workloads: a line for each, so that the result fits one screen.

use crate::rows::{Shown, against, is_contradiction, join};
use lab_terminal::table;

/// The summary line of one workload.
pub struct Line {
    /// The meaning and the unit of the figures.
    pub what: &'static str,
    /// The figure of `live`.
    pub ours: f64,
    /// The figure of the kernel.
    pub kernel: Option<f64>,
    /// The figure of parking_lot.
    pub parking_lot: Option<f64>,
    /// The comparison in words.
    pub so: String,
}

impl Line {
    /// The line of the first row of `live`, which is the simplest. `None` if `live` was not measured.
    pub fn first<R: Shown, C: PartialEq>(what: &'static str, rows: &[R], case: impl Fn(&R) -> C) -> Option<Line> {
        Self::about(what, of(rows, "live").next()?, rows, case)
    }

    /// The line of the last row of `live`, which has the most threads.
    pub fn last<R: Shown, C: PartialEq>(what: &'static str, rows: &[R], case: impl Fn(&R) -> C) -> Option<Line> {
        Self::about(what, of(rows, "live").last()?, rows, case)
    }

    fn about<R: Shown, C: PartialEq>(what: &'static str, ours: &R, rows: &[R], case: impl Fn(&R) -> C) -> Option<Line> {
        let rival = |target| of(rows, target).find(|row| case(row) == case(ours)).map(Shown::time);
        let (kernel, parking_lot) = (rival("kernel"), rival("parking_lot"));
        let time = ours.time();
        let so = ours.over().into_iter().map(|(name, ratio)| {
            let rival = if name == "the kernel" { kernel } else { parking_lot };
            match (ratio, rival.map(|rival| time / rival)) {
                // The row has both medians, and a reader would ask which of the two to believe.
                (Some(ratio), Some(quotient)) if is_contradiction(ratio, quotient) => {
                    Some(format!("no clear difference from {name}"))
                }
                _ => against(ratio, name),
            }
        });
        Some(Line { what, ours: time, kernel, parking_lot, so: join(so) })
    }
}

fn of<'a, R: Shown>(rows: &'a [R], target: &'a str) -> impl Iterator<Item = &'a R> {
    rows.iter().filter(move |row| row.variant().is_none() && row.head().target == target)
}

/// The table of all lines. If it does not fit, what the figures are and the comparisons are sentences below it.
pub fn text(lines: &[(&'static str, Line)]) -> String {
    within(table::width(), lines)
}

fn within(room: Option<usize>, lines: &[(&'static str, Line)]) -> String {
    const HEADER: [&str; 6] = ["workload", "live", "kernel", "parking_lot", "what", "live is"];
    let number = |figure: f64| if figure < 100.0 { format!("{figure:.1}") } else { format!("{figure:.0}") };
    let cells = |(name, line): &(&'static str, Line)| {
        let rivals = [line.kernel, line.parking_lot].map(|rival| rival.map_or_else(table::dash, number));
        let [kernel, parking_lot] = rivals;
        [name.to_string(), number(line.ours), kernel, parking_lot, line.what.to_string(), line.so.clone()]
    };
    let rows = || lines.iter().map(cells);
    let whole = table::text(&HEADER, 1, rows().map(Vec::from));
    if room.is_none_or(|room| whole.lines().all(|line| line.chars().count() <= room)) {
        return whole;
    }
    let figures = table::fitted(&HEADER[..4], 1, rows().map(|row| row[..4].to_vec()).collect(), &[]);
    let sentence = |row: [String; 6]| {
        let [name, .., what, so] = row;
        if so.is_empty() { format!("\n- {name}: {what}") } else { format!("\n- {name}: {what}; live is {so}") }
    };
    figures + &rows().map(sentence).collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::shown;
    use crate::{Head, Lab, Ratios, Settings};
    use lab_targets::Name;

    struct Row {
        head: Head,
        ns: f64,
        ratios: Ratios,
    }

    shown!(Row, |row| row.ns, row.ratios.over());

    /// The line of `live` with 100 ns beside the kernel with `kernel_ns`, and the median `ratio` of the rounds.
    fn line(kernel_ns: f64, ratio: f64) -> Line {
        let settings = Settings::default();
        let lab = Lab::new(&settings);
        let row = |name, ns, kernel| {
            let ratios = Ratios { kernel: Some(kernel), parking_lot: None };
            Row { head: Head::new(&lab, "hash", name, 1), ns, ratios }
        };
        let rows = [row(Name::Live, 100.0, ratio), row(Name::Kernel, kernel_ns, 1.0)];
        Line::first("a wait, ns", &rows, |row| row.head.threads).expect("live was measured")
    }

    #[test]
    fn a_sentence_that_contradicts_the_columns_says_no_clear_difference() {
        assert_eq!(line(200.0, 0.5).so, "2.0 times as fast as the kernel");
        assert_eq!(line(80.0, 1.25).so, "at 1.25 times the time of the kernel");
        assert_eq!(line(80.0, 0.8).so, "no clear difference from the kernel");
        assert_eq!(line(200.0, 1.2).so, "no clear difference from the kernel");
    }

    #[test]
    fn a_summary_that_does_not_fit_has_its_sentences_below() {
        let lines = [("hash", line(200.0, 0.5)), ("wake", Line { so: String::new(), ..line(80.0, 0.8) })];
        let wide = within(None, &lines);
        assert_eq!(wide.lines().count(), 4, "{wide}");
        assert_eq!(within(Some(200), &lines), wide);
        let narrow = within(Some(60), &lines);
        assert!(
            narrow.ends_with("\n- hash: a wait, ns; live is 2.0 times as fast as the kernel\n- wake: a wait, ns"),
            "{narrow}"
        );
        assert!(narrow.lines().filter(|line| line.starts_with('|')).all(|line| line.len() <= 60), "{narrow}");
    }
}
