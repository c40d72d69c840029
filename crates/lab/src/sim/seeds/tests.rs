//! What is said of findings, whatever the model finds today.

use super::hash::{Case, Scheme};
use super::here::Here;
use super::model::Figures;
use super::published::{Comparison, Figure};
use super::verdict::Verdict;
use super::{Finding, conclude, find, print};
use crate::cli::sim_more::SeedsSettings;
use crate::cli::{self, Command};

/// Published as twice the base, and modelled as so many times it.
fn finding(modelled: f64) -> Finding {
    let figure = |published| Figure { published, model: Case::new("here", 1, 16).into() };
    let (base, other) = (figure(100.0), figure(200.0));
    let comparison =
        Comparison { seed: "000", what: format!("x {modelled}"), base, other, is_sized: true, note: "odd" };
    let verdict = Verdict::of(&comparison, modelled);
    Finding { comparison, here: None, modelled: (1e6, modelled * 1e6), verdict }
}

fn settings(flags: &[&str]) -> SeedsSettings {
    let arguments = ["ufutex", "sim", "seeds"].iter().chain(flags).map(Into::into);
    match cli::parse(arguments) {
        Ok(Command::SimSeeds(settings)) => settings,
        _ => panic!("{flags:?}"),
    }
}

fn text(findings: &[Finding], flags: &[&str]) -> String {
    print::text(findings, &settings(flags)).expect("text")
}

#[test]
fn only_the_documents_asked_for_are_wanted() {
    let wanted = |flags: &[&str]| -> Vec<&str> {
        let settings = settings(flags);
        ["000", "001", "001+", "004"].into_iter().filter(|seed| settings.wants(seed)).collect()
    };
    assert_eq!(wanted(&[]), ["000", "001", "001+", "004"]);
    assert_eq!(wanted(&["--only", "001"]), ["001"]);
    assert_eq!(wanted(&["--only", "004,001+"]), ["001+", "004"]);
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
    assert_eq!(lines[0], ["seed", "comparison", "published", "here", "modelled", "the model is"], "{text}");
    assert_eq!(lines[2], ["000", "x 2.5", "x 2.00", "x 1.25", "x 2.50", "right"], "{text}");
    assert_eq!(lines[3], ["000", "x 0.05", "x 2.00", "-", "x 0.0500", "DIRECTION MISSED"], "{text}");
    assert_eq!(lines[4], ["000", "x 300", "x 2.00", "-", "x 300", "SIZE MISSED"], "{text}");
    assert_eq!(text.matches("- odd").count(), 1, "each note once: {text}");
    let summary = text.lines().last().unwrap_or_default();
    let said =
        "3 comparisons: 1 right, 0 noise where published; 1 with the wrong direction, and of 3 whose size counts 1 off";
    assert!(summary.starts_with(said), "{summary}");
}

#[test]
fn a_page_has_the_same_cells() {
    let findings = [finding(2.0), finding(0.5)];
    let page = text(&findings, &["--markdown"]);
    let lines: Vec<_> = page.lines().collect();
    assert_eq!(lines[0], "| seed | comparison | published | here | modelled | the model is |");
    assert_eq!(lines[2], "| 000 | x 2 | x 2.00 | - | x 2.00 | right |");
    assert_eq!(lines[3], "| 000 | x 0.5 | x 2.00 | - | x 0.50 | DIRECTION MISSED |");
    let rows = text(&findings, &["--json"]);
    assert_eq!(rows.lines().count(), 2, "{rows}");
}

#[test]
fn what_this_machine_says_is_left_out_with_no_measure() {
    let one = "hash -t 1 --targets fixed --layout lean -b 16 --stride 64";
    let find = |flags: &[&str]| {
        let mut here = Here::knowing(&[(one, "create", 5e6)]);
        find(finding(2.0).comparison, &settings(flags), &mut here, &mut Figures::default()).expect("a finding").here
    };
    assert_eq!((find(&[]), find(&["--no-measure"])), (Some(1.0), None));
}

/// Of one thread, modelled.
fn rate(case: Case) -> f64 {
    Figures::default().get(&case.into()).expect("all threads end")
}

#[test]
fn a_table_whose_resize_stalls_is_slower_than_one_that_is_not_resized() {
    // So many that the count is never zero.
    let table = Case::new("skylake-2s", 56, 256);
    let (stalled, sized) = (rate(table.by(Scheme::Stalled)), rate(table.by(Scheme::PerCpu)));
    assert!(stalled < 0.8 * sized, "{stalled} and {sized}");
}

#[test]
fn processes_have_a_table_each() {
    // Four threads fight for four buckets, and not sixteen for the same four.
    let (apart, together) = (rate(Case::new("ivb-4s", 4, 4).processes(4)), rate(Case::new("ivb-4s", 16, 4)));
    assert!(apart > 1.5 * together, "{apart} and {together}");
}
