//! The repository's rules: imports, labels of memory orderings, statics, lengths of functions, how files begin, promises
//! and their tests, dependencies.
//!
//! Each rule is a function from source text to findings, so that its test can pass a violation.

mod beginnings;
mod commands;
mod dependencies;
mod engine;
mod figures;
mod lengths;
mod links;
mod orderings;
mod promises;
mod rooms;
#[path = "../../../ufutex/tests/common/skipped.rs"]
mod skipped;
mod skips;
mod source;

use skipped::skip;
use source::{File, files};

/// Fails with all findings in one message.
#[track_caller]
fn assert_none(findings: Vec<String>) {
    assert!(findings.is_empty(), "{} findings:\n{}", findings.len(), findings.join("\n"));
}

#[test]
fn packages_of_the_lab_import_downwards_only() {
    assert_none(rooms::findings());
}

#[test]
fn modules_of_the_engine_import_downwards_only() {
    let all = files("crates/ufutex/src");
    assert!(all.len() > 100, "the engine's sources are not where they were");
    assert_none(all.iter().flat_map(engine::upward_imports).collect());
}

#[test]
fn engine_has_no_statics() {
    assert_none(files("crates/ufutex/src").iter().flat_map(engine::statics).collect());
}

#[test]
fn orderings_have_labels_that_are_argued() {
    let argued = orderings::AREAS.map(|area| source::read(area.argued));
    let mut all = Vec::new();
    for (area, text) in orderings::AREAS.iter().zip(&argued) {
        let files = area.files();
        assert!(!files.is_empty(), "the sources are not where they were: {:?}", area.directories);
        all.extend(files.iter().flat_map(|file| orderings::findings(area, file, &argued)));
        all.extend(orderings::unused(area, &files, text));
        all.extend(orderings::strangers(area, text));
    }
    assert_none(all);
}

#[test]
fn each_file_begins_with_what_it_does() {
    let (all, manifests) = (files("crates"), source::manifests());
    assert!(all.len() > 1000, "sources are not where they were");
    let of_manifests = manifests.iter().filter_map(beginnings::finding_in_manifest);
    assert_none(all.iter().filter_map(beginnings::finding).chain(of_manifests).collect());
}

#[test]
fn functions_are_short() {
    let all = files("crates");
    assert!(all.len() > 600, "sources are not where they were");
    assert_none(lengths::findings(&all));
}

/// Clippy checks for SAFETY comments in packages that use the workspace's lints.
#[test]
fn each_package_has_the_lints_of_the_workspace() {
    let manifests = source::manifests();
    assert!(manifests.len() > 15, "{manifests:?}");
    let without = manifests.iter().filter(|(_, text)| !text.contains("[lints]\nworkspace = true"));
    assert_none(without.map(|(path, _)| format!("{path}: no '[lints] workspace = true'")).collect());
    let workspace = source::read("Cargo.toml");
    for lint in ["undocumented_unsafe_blocks = ", "unsafe_op_in_unsafe_fn = "] {
        assert!(workspace.contains(lint), "the workspace has no lint {lint}");
    }
}

#[test]
fn promises_have_tests_that_name_them_and_commands_that_run_these() {
    let (security, proof) = (source::read("SECURITY.md"), source::read("docs/PROOF.md"));
    let packages = commands::packages(&source::manifests());
    assert_none(promises::findings(&security, &proof, &files("crates"), &packages));
}

#[test]
fn commands_of_the_proof_name_what_is_there() {
    let (proof, files) = (source::read("docs/PROOF.md"), files("crates"));
    let packages = commands::packages(&source::manifests());
    let all = commands::commands(&proof);
    assert!(all.len() > 30, "{} commands", all.len());
    assert_none(all.iter().flat_map(|command| command.missing(&files, &packages, source::exists)).collect());
}

#[test]
fn links_of_pages_lead_somewhere() {
    let pages = source::pages();
    assert!(pages.len() > 40, "the pages are not where they were");
    assert_none(pages.iter().flat_map(|page| links::dead(page, source::file_or_directory)).collect());
}

#[test]
fn pages_have_the_figures_of_the_reference_run() {
    assert_none(figures::other(&source::read("docs/data/report.csv"), source::read));
}

#[test]
fn what_is_skipped_is_counted() {
    assert_none(files("crates").iter().flat_map(skips::findings).collect());
}

#[test]
fn each_dependency_of_users_has_a_word() {
    let compiled = match dependencies::compiled() {
        Ok(compiled) => compiled,
        Err(error) => return skip(format_args!("cargo cannot read the packages of other hosts here: {error}")),
    };
    assert!(compiled.len() > 5, "{compiled:?}");
    assert_none(dependencies::findings(&source::read("docs/DEPENDENCIES.md"), &compiled));
}
