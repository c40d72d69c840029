//! How files begin: with a sentence about what they do. So `grep -rm1 '^//!' crates/ufutex/src | sort` prints a map.

use super::source::File;

/// Files that `include!` takes. They cannot begin with `//!`, and have `//`.
const INCLUDED: [&str; 3] = [
    "crates/models/linear/tests/futex/native.rs",
    "crates/parking_lot_core/tests/deadlock/bodies.rs",
    "crates/ufutex/tests/common/engine.rs",
];

/// A Rust file does not begin with a sentence.
pub fn finding(file: &File) -> Option<String> {
    let is_included = INCLUDED.contains(&file.path.as_str());
    finding_in(&file.path, &file.text, if is_included { "// " } else { "//! " })
}

/// A manifest of a model does not begin with a sentence.
pub fn finding_in_manifest((path, text): &(String, String)) -> Option<String> {
    path.starts_with("crates/models/").then(|| finding_in(path, text, "# ")).flatten()
}

/// Looks for the end of a sentence in the lines that begin with `mark`.
fn finding_in(path: &str, text: &str, mark: &str) -> Option<String> {
    let mut paragraph = text.lines().map_while(|line| line.strip_prefix(mark));
    let ends_one = |line: &str| line.split_whitespace().any(|word| word.len() > 1 && word.ends_with(['.', ':', '?']));
    (!paragraph.any(ends_one)).then(|| format!("{path}: does not begin with what it does, behind '{mark}'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_do_not_begin_with_a_sentence_are_found() {
        let of = |path: &str, text: &str| finding(&File { path: path.to_string(), text: text.to_string() });
        let found = |path, mark| Some(format!("{path}: does not begin with what it does, behind '{mark}'"));
        assert_eq!(of("crates/a/src/b.rs", "//! Adds, and\n//! subtracts. Fast.\n\nuse c;\n"), None);
        for text in
            ["", "use c;\n//! Adds.\n", "// Adds.\n", "//! Adds\n", "//! Adds\n//!\n//! Two things.\n", "//! .\n"]
        {
            assert_eq!(of("crates/a/src/b.rs", text), found("crates/a/src/b.rs", "//! "), "{text}");
        }
        assert_eq!(of(INCLUDED[0], "// Adds.\n"), None);
        assert_eq!(of(INCLUDED[0], "use c;\n"), found(INCLUDED[0], "// "));
    }

    #[test]
    fn manifests_of_models_that_do_not_begin_with_a_sentence_are_found() {
        let of = |path: &str, text: &str| finding_in_manifest(&(path.to_string(), text.to_string()));
        let (path, text) = ("crates/models/a/Cargo.toml", "# Adds.\n[package]\n");
        assert_eq!(of(path, text), None);
        assert!(of(path, "[package]\n").is_some());
        assert_eq!(of("crates/a/Cargo.toml", "[package]\n"), None);
    }
}
