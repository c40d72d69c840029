//! The repository's rules: imports, labels of memory orderings, statics, lengths of functions.
//!
//! Each rule is a function from source text to findings, so that its test can pass a violation.

mod engine;
mod lengths;
mod orderings;
mod rooms;
mod source;

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
    let argued = source::read("ORDERING.md");
    let mut all = orderings::strangers(&argued);
    for area in orderings::AREAS {
        let files = area.files();
        assert!(!files.is_empty(), "the sources are not where they were: {:?}", area.directories);
        all.extend(files.iter().flat_map(|file| orderings::findings(&area, file, &argued)));
        all.extend(orderings::unused(&area, &files, &argued));
    }
    assert_none(all);
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
