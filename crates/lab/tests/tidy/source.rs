//! Reads source files and separates code from comments.

use std::fs;
use std::path::{Path, PathBuf};

/// A source file, by its path below the workspace's root.
pub struct File {
    pub path: String,
    pub text: String,
}

impl File {
    /// The lines of the file without its unit tests, which are at its end.
    pub fn lines(&self) -> Vec<&str> {
        let code = self.text.split("\nmod tests {").next().unwrap_or_default();
        code.lines().collect()
    }

    /// Whether the whole file is tests.
    pub fn is_test(&self) -> bool {
        self.path.contains("/tests/") || self.path.ends_with("/tests.rs")
    }
}

/// The workspace's root.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace's root")
}

/// The text of a file of the workspace.
pub fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Whether the workspace has this file.
pub fn exists(path: &str) -> bool {
    root().join(path).exists()
}

/// All Rust files below a directory of the workspace.
pub fn files(directory: &str) -> Vec<File> {
    let mut all = Vec::new();
    find(&root().join(directory), &mut |path| {
        if path.extension().is_some_and(|extension| extension == "rs") {
            all.push(below_root(path));
        }
    });
    all
}

/// All pages: files in Markdown.
pub fn pages() -> Vec<File> {
    let mut all = Vec::new();
    find(&root(), &mut |path| {
        if path.extension().is_some_and(|extension| extension == "md") {
            all.push(below_root(path));
        }
    });
    all
}

/// The text of a file of the workspace, or the name of a directory.
pub fn file_or_directory(path: &str) -> Option<String> {
    let at = root().join(path);
    if at.is_dir() {
        Some(path.to_string())
    } else {
        fs::read(at).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// The manifests of the workspace's packages.
pub fn manifests() -> Vec<(String, String)> {
    let mut all = Vec::new();
    find(&root().join("crates"), &mut |path| {
        if path.file_name().is_some_and(|name| name == "Cargo.toml") {
            let file = below_root(path);
            // Leaves out packages with a workspace of their own, which tests build, and patches of parking_lot_core.
            let is_patch = file.path.starts_with("crates/parking_lot_core/v0_");
            if !file.text.contains("[workspace]") && !is_patch {
                all.push((file.path, file.text));
            }
        }
    });
    all
}

fn below_root(path: &Path) -> File {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let path = path.strip_prefix(root()).expect("below the root").display().to_string();
    File { path, text }
}

fn find(directory: &Path, found: &mut impl FnMut(&Path)) {
    let entries = fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    for entry in entries {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            if path.file_name().is_some_and(|name| name != "target") {
                find(&path, found);
            }
        } else {
            found(&path);
        }
    }
}

/// The part of a line before a comment.
pub fn code(line: &str) -> &str {
    line.split("//").next().unwrap_or_default()
}
