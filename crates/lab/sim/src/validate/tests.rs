//! Tests of the output and the verdicts, which do not depend on the model's present figures.

use super::figures::{Figures, runs};
use super::hash::{Case, Scheme};
use super::here::Here;
use super::model::{Measure, Model};
use super::published::{Comparison, Figure};
use super::verdict::Verdict;
use super::{Finding, Settings, conclude, find, print};
use crate::published::Source;
use std::sync::atomic::{AtomicUsize, Ordering};
use strum::VariantArray;

/// A comparison that was published as 2 and modelled as `modelled`.
fn finding(modelled: f64) -> Finding {
    let figure = |published| Figure { published, model: Case::new("here", 1, 16).into() };
    let (base, other) = (figure(100.0), figure(200.0));
    let comparison = Comparison {
        source: Source::ImmutableHash,
        what: format!("x {modelled}"),
        base,
        other,
        is_sized: true,
        note: "odd",
        id: None,
    };
    let verdict = Verdict::of(&comparison, modelled);
    Finding { comparison, here: None, modelled: (1e6, modelled * 1e6), verdict }
}

/// The settings of `sim validate` with these flags.
fn settings(flags: &[&str]) -> Settings {
    let has = |flag| flags.contains(&flag);
    let only = flags.iter().skip_while(|flag| **flag != "--only").nth(1);
    Settings {
        only: only.map_or_else(Vec::new, |only| only.split(',').map(|one| one.parse().expect("a source")).collect()),
        measures: !has("--no-measure"),
        silent: false,
        json: has("--json"),
    }
}

fn text(findings: &[Finding], flags: &[&str]) -> String {
    print::text(findings, &settings(flags)).expect("text")
}

#[test]
fn only_the_sources_asked_for_are_wanted() {
    use Source::{FalseSharing, PrivRemoved, TimerHash};
    let wanted = |flags: &[&str]| -> Vec<Source> {
        let settings = settings(flags);
        Source::VARIANTS.iter().copied().filter(|source| settings.wants(*source)).collect()
    };
    assert_eq!(wanted(&[]), Source::VARIANTS);
    assert_eq!(wanted(&["--only", "false-sharing"]), [FalseSharing]);
    assert_eq!(wanted(&["--only", "timer-hash,priv-removed"]), [PrivRemoved, TimerHash]);
    assert_eq!(wanted(&["--only", "004,001+"]), [PrivRemoved, TimerHash], "the former numbers");
}

#[test]
fn one_miss_fails_the_command_and_none_does_not() {
    let settings = settings(&["--json"]);
    let conclude = |findings: &[Finding]| {
        conclude(findings, &settings, |rows| {
            assert_eq!(rows.lines().count(), findings.len(), "all of them, whatever comes of it");
            Ok(())
        })
    };
    assert!(conclude(&[]).is_ok() && conclude(&[finding(2.0), finding(1.5), finding(2.9)]).is_ok());
    for miss in [0.5, 1.2, 3.5] {
        let error = conclude(&[finding(2.0), finding(miss), finding(2.1)]).expect_err("a miss");
        assert_eq!(error.to_string(), "the model misses 1 of 3 published comparisons", "{miss}");
    }
}

#[test]
fn the_table_has_three_columns_that_are_never_mixed() {
    let findings = [Finding { here: Some(1.25), ..finding(2.5) }, finding(0.05), finding(300.0)];
    let text = text(&findings, &[]);
    let cells = |line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().to_string()).collect::<Vec<_>>();
    let lines: Vec<_> = text.lines().map(cells).collect();
    assert_eq!(lines[0], ["source", "comparison", "published", "here", "modelled", "the model is"], "{text}");
    assert_eq!(lines[2], ["immutable-hash", "x 2.5", "x 2.00", "x 1.25", "x 2.50", "right"], "{text}");
    assert_eq!(lines[3], ["immutable-hash", "x 0.05", "x 2.00", "-", "x 0.0500", "DIRECTION MISSED"], "{text}");
    assert_eq!(lines[4], ["immutable-hash", "x 300", "x 2.00", "-", "x 300", "SIZE MISSED"], "{text}");
    assert_eq!(text.matches("- odd").count(), 1, "each note once: {text}");
    let summary = text.lines().last().unwrap_or_default();
    let said =
        "3 comparisons: 1 right, 0 noise where published; 1 with the wrong direction, and of 3 whose size counts 1 off";
    assert!(summary.starts_with(said), "{summary}");
}

#[test]
fn with_json_each_finding_is_a_row() {
    assert_eq!(text(&[finding(2.0), finding(0.5)], &["--json"]).lines().count(), 2);
}

#[test]
fn with_no_measure_this_machine_is_left_out() {
    let one = "hash -t 1 --targets fixed --layout lean -b 16 --stride 64";
    let find = |flags: &[&str]| {
        let mut here = Here::knowing(&[(one, "create", 5e6)]);
        let comparison = finding(2.0).comparison;
        let figures = figures([comparison.base.model, comparison.other.model]);
        find(comparison, &settings(flags), &mut here, &figures).expect("a finding").here
    };
    assert_eq!((find(&[]), find(&["--no-measure"])), (Some(1.0), None));
}

fn figures(models: impl IntoIterator<Item = Model>) -> Figures {
    Figures::of(models, || ()).expect("all threads end")
}

/// The modelled rate of one thread.
fn rate(case: impl Into<Model>) -> f64 {
    let model = case.into();
    figures([model]).get(&model).expect("the figure asked for")
}

#[test]
fn a_table_whose_resize_stalls_is_slower_than_one_that_is_not_resized() {
    // This many threads keep the count from ever reaching zero.
    let table = Case::new("skylake-2s", 56, 256);
    let (stalled, sized) = (rate(table.by(Scheme::Stalled)), rate(table.by(Scheme::PerCpu)));
    assert!(stalled < 0.8 * sized, "{stalled} and {sized}");
}

#[test]
fn processes_have_a_table_each() {
    // Four threads contend for each process's four buckets, not sixteen threads for one process's four.
    let (apart, together) = (rate(Case::new("ivb-4s", 4, 4).processes(4)), rate(Case::new("ivb-4s", 16, 4)));
    assert!(apart > 1.5 * together, "{apart} and {together}");
}

/// In the rows that the constants are fitted to, the modelled average time of an operation is the published one.
#[test]
fn an_operation_of_2016_takes_what_was_published() {
    const THREADS: [usize; 5] = [1, 2, 4, 8, 16];
    let mean = |ns: &dyn Fn(usize) -> f64| THREADS.into_iter().map(ns).sum::<f64>() / THREADS.len() as f64;
    for (column, buckets) in [("256", 256), ("0", 0)] {
        let row = |threads: usize| 1e9 / crate::published::figure("by-threads", &threads.to_string(), column);
        let case = |threads| Model::Kernel(Case::new("ivb-4s", threads, buckets));
        let (published, modelled) = (mean(&row), mean(&|threads| 1e9 / rate(case(threads))));
        assert!((published - modelled).abs() < 0.005 * published, "{buckets}: {published} and {modelled}");
    }
}

#[test]
fn figures_come_out_of_as_few_runs_as_can_be() {
    let timers = |measure| Model::timers("global-lock", 2, true, 10, measure);
    let all = [Measure::Create, Measure::Getoverrun, Measure::CreateDelete].map(timers);
    let steps = AtomicUsize::new(0);
    let figures = Figures::of(all, || _ = steps.fetch_add(1, Ordering::Relaxed)).expect("all threads end");
    assert_eq!(steps.into_inner() as u64, 1 + all[2].runs(), "both calls of a run at once");
    all.iter().for_each(|model| assert!(figures.get(model).is_some_and(|ns| ns > 0.0), "{model:?}"));
    assert_eq!(figures.get(&Model::timers("radix", 2, true, 10, Measure::Create)), None, "it was not requested");
}

#[test]
fn a_queue_for_one_lock_is_run_several_times_and_averaged() {
    let timers = |design, apart| Model::timers(design, 3, apart, 20, Measure::CreateDelete);
    let one_lock = timers("global-lock", true);
    assert_eq!(runs([timers("scaled", true), timers("global-lock", false)]).len(), 2);
    let seeds: Vec<u64> = runs([one_lock, one_lock]).iter().map(|run| run.seed).collect();
    assert_eq!(seeds, (1..=10).collect::<Vec<_>>(), "each once");
    let alone = |seed| one_lock.run(seed).expect("all threads end")[0].1;
    let all: Vec<f64> = seeds.into_iter().map(alone).collect();
    assert!(all.iter().any(|ns| *ns != all[0]), "chance is the run's own: {all:?}");
    let mean = all.iter().sum::<f64>() / 10.0;
    let figure = figures([one_lock]).get(&one_lock).expect("the figure asked for");
    assert!((figure - mean).abs() < 1e-6 * mean, "{figure} and {mean}");
}
