//! Prints the validation as a table, or as rows of JSON.

use super::Settings;
use super::{Finding, Verdict};
use anyhow::Result;
use lab_terminal::table;
use serde_json::json;

const HEADER: [&str; 6] = ["source", "comparison", "published", "here", "modelled", "the model is"];

/// All findings in the requested format.
pub fn text(findings: &[Finding], settings: &Settings) -> Result<String> {
    if settings.json {
        let rows: Result<Vec<String>, _> =
            findings.iter().map(|finding| serde_json::to_string(&row(finding))).collect();
        return Ok(rows?.join("\n"));
    }
    let cells = findings.iter().map(|finding| cells(finding).to_vec());
    let table = table::text(&HEADER, 2, cells);
    Ok(format!("{table}\n\n{}\n{}", notes(findings), summary(findings)))
}

fn cells(finding: &Finding) -> [String; 6] {
    let comparison = &finding.comparison;
    let here = finding.here.map_or_else(|| "-".to_string(), times);
    let verdict = finding.verdict.text().to_string();
    [
        comparison.source.to_string(),
        comparison.what.clone(),
        times(comparison.published()),
        here,
        times(finding.ratio()),
        verdict,
    ]
}

/// A ratio.
pub fn times(ratio: f64) -> String {
    if ratio >= 100.0 {
        format!("x {ratio:.0}")
    } else if ratio >= 0.1 {
        format!("x {ratio:.2}")
    } else {
        format!("x {ratio:.4}")
    }
}

fn notes(findings: &[Finding]) -> String {
    let mut notes: Vec<&str> = findings.iter().map(|finding| finding.comparison.note).collect();
    notes.sort_unstable();
    notes.dedup();
    notes.iter().filter(|note| !note.is_empty()).map(|note| format!("- {note}\n")).collect()
}

/// Counts the findings by verdict, in a sentence.
fn summary(findings: &[Finding]) -> String {
    let count = |verdict| findings.iter().filter(|finding| finding.verdict == verdict).count();
    let sized = findings.iter().filter(|finding| finding.comparison.is_sized).count();
    format!(
        "{} comparisons: {} right, {} noise where published; {} with the wrong direction, and of {sized} whose size counts \
         {} off by more than a factor of {}. Figures `here` are of our stand-ins on this machine, with two \
         threads at most.",
        findings.len(),
        count(Verdict::Right),
        count(Verdict::NoDirection),
        count(Verdict::DirectionMissed),
        count(Verdict::SizeMissed),
        super::verdict::FACTOR,
    )
}

fn row(finding: &Finding) -> serde_json::Value {
    let comparison = &finding.comparison;
    json!({
        "source": comparison.source.name(),
        "comparison": comparison.what,
        "published": [comparison.base.published, comparison.other.published],
        "published_ratio": comparison.published(),
        "here_ratio": finding.here,
        "modelled": [finding.modelled.0, finding.modelled.1],
        "modelled_ratio": finding.ratio(),
        "sized": comparison.is_sized,
        "verdict": finding.verdict.text(),
        "note": comparison.note,
    })
}
