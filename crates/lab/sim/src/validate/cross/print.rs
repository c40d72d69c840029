//! Prints the predictions as tables, as Markdown, or as rows of JSON.

use super::super::print::times;
use super::fit;
use super::{Found, Settings, host, messages, others};
use anyhow::Result;
use lab_terminal::table;
use serde_json::{Value, json};

const LEFT_OUT: [&str; 8] = ["source", "comparison", "published", "left out", "off by", "fitted", "off by", "chosen"];
const HERE: [&str; 8] =
    ["workload", "target", "measured: 1 thread, ns", "2", "predicted: 1", "2", "2 threads off by", "2 by 1 off by"];
const OTHERS: [&str; 7] = ["source", "machine", "operation", "threads", "published, ns", "predicted, ns", "off by"];

/// All findings in the requested format.
pub fn text(found: &Found, settings: &Settings) -> Result<String> {
    if settings.json {
        let rows: Result<Vec<String>, _> = rows(found).iter().map(serde_json::to_string).collect();
        return Ok(rows?.join("\n"));
    }
    let table = |header: &[&str], cells: Vec<Vec<String>>, words: usize| match settings.markdown {
        true => table::markdown(header, cells),
        false => table::text(header, words, cells),
    };
    let mut parts = Vec::new();
    if !found.left_out.is_empty() {
        parts.push("Each message predicted by a fit to the others, and beside it by a fit to all:".to_string());
        parts.push(table(&LEFT_OUT, found.left_out.iter().map(left_out).collect(), 2));
        parts.push(fits(found));
        parts.push(mean_off(found));
    }
    if !found.here.is_empty() {
        parts.push("This machine, two threads, predicted from its latencies:".to_string());
        parts.push(table(&HERE, found.here.iter().map(here).collect(), 2));
        parts.push(found.latencies.text());
    }
    if !found.others.is_empty() {
        parts.push("Results of others, predicted from published latencies:".to_string());
        parts.push(table(&OTHERS, found.others.iter().map(other).collect(), 3));
    }
    Ok(parts.join("\n\n"))
}

/// By which factor a prediction is off, and to which side.
fn off(predicted: f64, published: f64) -> String {
    times(predicted / published)
}

fn left_out(row: &messages::Row) -> Vec<String> {
    let messages::Row { source, what, published, left_out, fitted, chosen } = row;
    vec![
        source.to_string(),
        what.clone(),
        times(*published),
        times(*left_out),
        off(*left_out, *published),
        times(*fitted),
        off(*fitted, *published),
        times(*chosen),
    ]
}

fn here(row: &host::Row) -> Vec<String> {
    let ns = |ns: f64| format!("{ns:.1}");
    vec![
        row.workload.into(),
        row.target.into(),
        ns(row.alone.measured),
        ns(row.both.measured),
        ns(row.alone.predicted),
        ns(row.both.predicted),
        times(row.off),
        times(row.off_to_one),
    ]
}

fn other(row: &others::Row) -> Vec<String> {
    let ns = |ns: f64| if ns < 1000.0 { format!("{ns:.1}") } else { format!("{ns:.0}") };
    vec![
        row.source.clone(),
        row.machine.clone(),
        row.operation.into(),
        row.threads.to_string(),
        ns(row.published),
        ns(row.predicted),
        off(row.predicted, row.published),
    ]
}

/// The values at which the fits ended.
fn fits(found: &Found) -> String {
    let line = |(without, point): &(Option<crate::published::Source>, fit::Point)| {
        let values = fit::values(*point);
        let values: Vec<String> =
            fit::NAMES.iter().zip(values).map(|(name, value)| format!("{name} {value}")).collect();
        let what = without.map_or("- fitted to all".to_string(), |source| format!("- without {source}"));
        format!("{what}: {}", values.join("; "))
    };
    found.fits.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// The typical error of the three columns.
fn mean_off(found: &Found) -> String {
    let factor = |of: fn(&messages::Row) -> f64| {
        let squares = found.left_out.iter().map(|row| (of(row) / row.published).ln().powi(2));
        (squares.sum::<f64>() / found.left_out.len() as f64).sqrt().exp()
    };
    format!(
        "{} ratios of {} messages. Off by a factor of {:.2} where left out, {:.2} where fitted, {:.2} as chosen for `sim \
         validate` (root mean square of the logarithms).",
        found.left_out.len(),
        found.fits.len() - 1,
        factor(|row| row.left_out),
        factor(|row| row.fitted),
        factor(|row| row.chosen),
    )
}

fn rows(found: &Found) -> Vec<Value> {
    let left_out = found.left_out.iter().map(|row| {
        json!({
            "part": "left-out",
            "source": row.source.name(),
            "comparison": row.what,
            "published_ratio": row.published,
            "left_out_ratio": row.left_out,
            "fitted_ratio": row.fitted,
            "chosen_ratio": row.chosen,
        })
    });
    let here = found.here.iter().map(|row| {
        json!({
            "part": "here",
            "workload": row.workload,
            "target": row.target,
            "measured_ns": [row.alone.measured, row.both.measured],
            "predicted_ns": [row.alone.predicted, row.both.predicted],
            "off_by": row.off,
            "off_by_relative_to_one": row.off_to_one,
        })
    });
    let others = found.others.iter().map(|row| {
        json!({
            "part": "others",
            "source": row.source,
            "machine": row.machine,
            "operation": row.operation,
            "threads": row.threads,
            "published_ns": row.published,
            "predicted_ns": row.predicted,
            "off_by": row.predicted / row.published,
        })
    });
    left_out.chain(here).chain(others).collect()
}
