//! `ufutex report`: measures part by part, and writes the report as a page and as rows.

mod document;
mod facts;
mod html;
mod modelled;
pub mod pictures;
mod published;
mod say;

use anyhow::{Result, ensure};
use document::{Document, Section};
use facts::Facts;
use lab_bench::survey::{Effort, memory, published as survey_published, resize, scaling, timers};
use lab_bench::{Lab, Settings};
use lab_measure::interrupt;
use lab_terminal::progress::Progress;
use lab_terminal::stderr;
use modelled::Modelled;
use serde::Serialize;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Instant;

/// Arguments of `ufutex report`, checked.
pub struct Report {
    /// File of the HTML page.
    pub html: Option<PathBuf>,
    /// File of the JSON rows.
    pub json: Option<PathBuf>,
    /// Directory of the pictures.
    pub svg: Option<PathBuf>,
    /// Directory of the figures from which the pictures are drawn. If it is given, nothing is measured.
    pub data: Option<PathBuf>,
    /// Print no progress.
    pub silent: bool,
    /// Take short samples.
    pub quick: bool,
}

/// Share of the usual time with `--quick`.
const QUICK: f64 = 0.02;

/// The parts in their order, and about how many seconds each takes.
const PARTS: [(&str, usize); 6] =
    [("scaling", 23), ("resize", 8), ("published", 32), ("memory", 1), ("timers", 47), ("model", 45)];

/// Results until now. Parts are independent.
struct Findings {
    facts: Facts,
    scaling: Option<scaling::Scaling>,
    resized: Option<Vec<resize::Resized>>,
    published: Option<survey_published::Published>,
    memory: Option<memory::Bytes>,
    timers: Option<timers::Found>,
    modelled: Option<Modelled>,
    /// What is missing and why.
    missing: Vec<String>,
    seconds: f64,
}

/// Measures, and writes the requested files. After Ctrl-C it writes the results until then.
pub fn run(report: &Report) -> Result<()> {
    if let (Some(data), Some(svg)) = (&report.data, &report.svg) {
        let written = pictures::draw(data, svg)?;
        if !report.silent {
            stderr::say(format_args!("wrote {}", written.join(", ")));
        }
        return Ok(());
    }
    let settings = Settings { silent: report.silent, ..Settings::default() };
    let effort = Effort { share: if report.quick { QUICK } else { 1.0 } };
    let findings = gather(&settings, effort);
    let document = document(&findings, effort);
    let (mut written, mut failures) = (Vec::new(), Vec::new());
    let mut write = |file: &Option<PathBuf>, text: &dyn Fn() -> String| {
        let Some(file) = file else { return };
        match std::fs::write(file, text()) {
            Ok(()) => written.push(file.display().to_string()),
            // If one file cannot be written, the others still are: the results took minutes.
            Err(error) => failures.push(format!("cannot write {}: {error}", file.display())),
        }
    };
    write(&report.html, &|| html::page(&document));
    write(&report.json, &|| lines(&findings));
    let resized = findings.resized.as_deref().filter(|found| !found.is_empty());
    if let (Some(svg), Some(resized)) = (&report.svg, resized) {
        let machine = format!("{}, {}", findings.facts.cpu, findings.facts.kernel);
        let courses: Vec<_> = resized.iter().filter_map(say::resize::course).collect();
        match pictures::draw_measured(&machine, resized[0].threads, &courses, svg) {
            Ok(file) => written.push(file),
            Err(error) => failures.push(format!("{error:#}")),
        }
    }
    ensure!(failures.is_empty(), "{}", failures.join("; "));
    if !report.silent {
        stderr::say(format_args!("wrote {} after {:.0} s", written.join(", "), findings.seconds));
    }
    if interrupt::requested() {
        stderr::say(format_args!("interrupted: {}", findings.missing.join("; ")));
    }
    Ok(())
}

/// Measures one part after another. A part that fails is noted, and the others go on.
fn gather(settings: &Settings, effort: Effort) -> Findings {
    let start = Instant::now();
    let lab = Lab::new(settings);
    let facts = Facts::gather(&lab);
    let mut missing = Vec::new();
    let progress = Progress::start("report", PARTS.iter().map(|(_, seconds)| seconds).sum(), settings.silent);
    let mut part = |name: &str| {
        progress.reach(PARTS.iter().take_while(|(part, _)| *part != name).map(|(_, seconds)| seconds).sum());
        progress.part(&format!("report: {name}"));
        !interrupt::requested() || {
            missing.push(format!("{name} was not reached"));
            false
        }
    };
    let mut failures = Vec::new();
    let scaling = part("scaling").then(|| scaling::run(&lab, effort));
    let resized = part("resize").then(|| resize::run(&lab, effort));
    let published = part("published").then(|| survey_published::run(&lab, effort));
    let memory = part("memory").then(|| memory::run(&lab));
    let timers = part("timers").then(|| timers::run(settings.silent, effort));
    let modelled = part("model").then(|| modelled::run(settings.silent, effort));
    drop(progress);
    let findings = Findings {
        facts,
        scaling: kept("scaling", scaling, &mut failures),
        resized: kept("resize", resized, &mut failures),
        published: kept("published", published, &mut failures),
        memory: kept("memory", memory, &mut failures),
        timers: kept("timers", timers, &mut failures),
        modelled: kept("model", modelled, &mut failures),
        missing,
        seconds: start.elapsed().as_secs_f64(),
    };
    Findings { missing: findings.missing.into_iter().chain(failures).collect(), ..findings }
}

fn kept<T>(name: &str, part: Option<Result<T>>, failures: &mut Vec<String>) -> Option<T> {
    match part? {
        Ok(found) => Some(found),
        Err(error) => {
            failures.push(format!("{name} failed: {error:#}"));
            None
        }
    }
}

fn document(findings: &Findings, effort: Effort) -> Document {
    let facts = &findings.facts;
    let mut warnings = say::machine::warnings(facts);
    if effort.is_quick() {
        warnings.push("this page was made with --quick: its samples are too short to be meaningful.".to_string());
    }
    if !findings.missing.is_empty() {
        warnings.push(format!("this page is not complete: {}.", findings.missing.join("; ")));
    }
    let sections = sections(findings);
    Document {
        title: "What futexes and timers cost on this machine".to_string(),
        subtitle: format!(
            "{}, {} CPUs allowed, {}; measured {} by ufutex {} in {:.0} seconds",
            facts.cpu, facts.cpus_allowed, facts.kernel, facts.when, facts.version, findings.seconds
        ),
        warnings,
        // The summary is the sections' titles. The machine's section has no finding.
        summary: sections.iter().filter(|one| one.id != "machine").map(|one| format!("{}.", one.title)).collect(),
        sections,
    }
}

fn sections(findings: &Findings) -> Vec<Section> {
    let cpus = findings.facts.cpus_allowed;
    let from = say::published::Sources {
        measured: findings.published.as_ref(),
        resized: findings.resized.as_deref(),
        timers: findings.timers.as_ref(),
        modelled: findings.modelled.as_ref(),
        cpus,
    };
    let modelled = findings.modelled.as_ref();
    let all = [
        Some(say::machine::section(&findings.facts)),
        findings
            .scaling
            .as_ref()
            .filter(|found| !found.measured.is_empty())
            .map(|found| say::scaling::section(found, cpus)),
        findings.resized.as_deref().filter(|found| !found.is_empty()).map(say::resize::section),
        Some(say::published::section(from)),
        modelled.and_then(say::modelled::scaling),
        modelled.and_then(say::modelled::fields),
        findings.memory.as_ref().map(say::memory::section),
        findings.timers.as_ref().filter(|found| !found.rows.is_empty()).map(say::timers::section),
    ];
    all.into_iter().flatten().collect()
}

/// All rows, one object on a line. The field `report` names the part.
fn lines(findings: &Findings) -> String {
    let mut rows = vec![row("machine", &findings.facts)];
    if let Some(found) = &findings.scaling {
        rows.extend(found.measured.iter().map(|one| row("scaling", &one.row)));
    }
    if let Some(found) = &findings.resized {
        rows.extend(found.iter().filter_map(resize::Resized::row).map(|one| row("resize", &one)));
    }
    if let Some(found) = &findings.published {
        rows.extend(found.sides.iter().map(|one| row("published", &one.row)));
        rows.extend(found.table.iter().map(|one| row("published-private-hash", &one.row)));
    }
    if let Some(found) = &findings.memory {
        rows.extend(found.rows().iter().map(|one| row("memory", one)));
    }
    if let Some(found) = &findings.timers {
        rows.extend(found.rows.iter().map(|one| row("timers", one)));
    }
    if let Some(found) = &findings.modelled {
        rows.extend(found.cores.iter().map(|one| row("modelled", one)));
        rows.extend(found.published.iter().map(|one| row("modelled-published", one)));
    }
    rows.iter().map(|row| format!("{row}\n")).collect()
}

fn row(part: &str, it: &impl Serialize) -> Value {
    let mut all = json!({ "report": part });
    if let (Value::Object(all), Value::Object(row)) = (&mut all, json!(it)) {
        all.extend(row);
    }
    all
}
