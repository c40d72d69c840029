//! The output of `compare`: a sentence, a table of the changes, and the rows without a partner.

use super::verdict::{Change, Findings, Verdict};
use crate::Compare;
use lab_terminal::table;
use serde_json::json;

/// At most this many rows without a partner are named. The rest is counted.
const NAMED_MAX: usize = 8;

/// The output for people.
pub fn text(args: &Compare, findings: &Findings) -> String {
    let mut text = format!("# ufutex compare {} {}\n\n", args.old.display(), args.new.display());
    text += &sentence(findings, args.threshold);
    for (verdict, title) in [(Verdict::Regression, "worse"), (Verdict::Improvement, "better")] {
        let mut changes: Vec<_> = findings.with(verdict).collect();
        changes.sort_by(|a, b| factor(b).total_cmp(&factor(a)));
        if !changes.is_empty() {
            text += &format!("\n## {title}\n{}\n", as_table(&changes));
        }
    }
    text += &without_partner("only in the old file", &findings.gone);
    text += &without_partner("only in the new file", &findings.added);
    text
}

/// One object for each figure in both files, then one for all.
pub fn json(findings: &Findings) -> String {
    let changed = findings.changes.iter().filter(|change| change.verdict != Verdict::Same);
    let mut lines: Vec<_> = changed.map(|change| json!(change).to_string()).collect();
    let count = |verdict| findings.with(verdict).count();
    let all = json!({
        "rows": findings.rows, "figures": findings.changes.len(), "regressions": count(Verdict::Regression),
        "improvements": count(Verdict::Improvement), "same": count(Verdict::Same),
        "only_old": findings.gone, "only_new": findings.added,
    });
    lines.push(all.to_string());
    lines.join("\n") + "\n"
}

fn sentence(findings: &Findings, threshold: f64) -> String {
    let count = |verdict| findings.with(verdict).count();
    let (worse, better) = (count(Verdict::Regression), count(Verdict::Improvement));
    let base = format!("{} rows with {} figures are in both files", findings.rows, findings.changes.len());
    if worse + better == 0 {
        return format!("{base}: none has changed beyond noise and {threshold} %.\n");
    }
    let mut text = format!("{base}: {worse} worse, {better} better beyond noise and {threshold} %.");
    let worst = findings.with(Verdict::Regression).max_by(|a, b| factor(a).total_cmp(&factor(b)));
    if let Some(worst) = worst {
        text += &format!(
            " The worst: {} of {} went from {} to {}{}.",
            worst.measure,
            worst.row,
            figure(worst.old),
            figure(worst.new),
            percent(worst).map_or_else(String::new, |percent| format!(" ({percent})"))
        );
    }
    text + &of_others(findings) + "\n"
}

/// The kernel and parking_lot are the same in both files. If their figures differ, so did the load of the machine.
fn of_others(findings: &Findings) -> String {
    let is_others = |change: &&Change| change.row.split(", ").any(|word| word == "kernel" || word == "parking_lot");
    let count = findings.changes.iter().filter(|change| change.verdict != Verdict::Same).filter(is_others).count();
    if count == 0 {
        return String::new();
    }
    format!(
        " Careful: {count} of these are of the kernel or of parking_lot. Unless they were updated, the machine had other \
        work in one of the two runs."
    )
}

/// The size of a change, as a factor of at least 1. A change from or to 0 is infinite.
fn factor(change: &Change) -> f64 {
    let factor = (change.new / change.old).abs();
    if factor.is_nan() { 1.0 } else { factor.max(1.0 / factor) }
}

fn as_table(changes: &[&Change]) -> String {
    let rows = changes.iter().map(|change| {
        let percent = percent(change).unwrap_or_else(table::dash);
        vec![change.row.clone(), change.measure.clone(), figure(change.old), figure(change.new), percent]
    });
    table::text(&["row", "figure", "before", "now", "change"], 2, rows)
}

fn percent(change: &Change) -> Option<String> {
    change.change_percent.filter(|percent| percent.is_finite()).map(|percent| format!("{percent:+.1} %"))
}

/// Four significant digits.
fn figure(value: f64) -> String {
    match value.abs() {
        size if size >= 1e15 || (size > 0.0 && size < 1e-4) => format!("{value:.3e}"),
        size if size >= 1000.0 || size == 0.0 => format!("{value:.0}"),
        size if size >= 100.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

fn without_partner(where_: &str, rows: &[String]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let named: Vec<_> = rows.iter().take(NAMED_MAX).map(|row| format!("  {row}\n")).collect();
    let more = rows.len().saturating_sub(NAMED_MAX);
    let more = if more > 0 { format!("  and {more} more\n") } else { String::new() };
    format!("\n{} rows {where_}:\n{}{more}", rows.len(), named.concat())
}
