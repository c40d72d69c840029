//! The engine's files, and the copy of the checkout that contains the mutants.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cfg::Builds;
use crate::mutant::Mutant;
use crate::{edit, find};

/// The engine's sources, below the checkout's root.
const ENGINE: &str = "crates/ufutex/src";

/// A source file of the engine that is compiled in some build, and its mutants.
pub struct Source {
    pub file: String,
    pub text: String,
    pub mutants: Vec<Mutant>,
}

/// The checkout's root.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").canonicalize().expect("the checkout's root")
}

/// The engine's files, found as the compiler finds them: from `lib.rs`, by `mod`. Tests and the files of other hosts are not
/// among them, nor are those that say how the engine is compiled: the atomics and the engine's own faults.
pub fn sources(root: &Path) -> Vec<Source> {
    let mut all = Vec::new();
    add(&root.join(ENGINE), "lib.rs", "", Builds::ALL, &mut all);
    all
}

fn add(engine: &Path, file: &str, directory: &str, builds: Builds, all: &mut Vec<Source>) {
    const APART: [&str; 2] = ["sync/backend.rs", "sync/mutants.rs"];
    if APART.contains(&file) {
        return;
    }
    let text = fs::read_to_string(engine.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
    let found = find::find(file, &text, builds);
    all.push(Source { file: file.to_string(), text, mutants: found.mutants });
    for (module, builds) in found.modules {
        let below = format!("{directory}{module}");
        let file =
            [format!("{below}.rs"), format!("{below}/mod.rs")].into_iter().find(|file| engine.join(file).exists());
        if let Some(file) = file {
            add(engine, &file, &format!("{below}/"), builds, all);
        }
    }
}

/// Writes the copy of the checkout to `tree`, with all mutants in it.
pub fn write_copy(root: &Path, tree: &Path, sources: &[Source]) {
    let mut git = Command::new("git");
    git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).current_dir(root);
    let listed = git.output().expect("git runs");
    let changed: BTreeSet<String> = sources.iter().map(|source| format!("{ENGINE}/{}", source.file)).collect();
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    for file in listed.split('\0').filter(|file| !file.is_empty() && !changed.contains(*file)) {
        if let Ok(bytes) = fs::read(root.join(file)) {
            write(&tree.join(file), &bytes);
        }
    }
    let engine = tree.join(ENGINE);
    let mut number = 0;
    for source in sources {
        let mut text = edit::insert(&source.text, &source.mutants, number);
        if source.file == "lib.rs" {
            // Parentheses around what is already in some would be hundreds of warnings.
            text = format!("#![allow(warnings)]\n{text}\npub mod mutation;\n");
        }
        write(&engine.join(&source.file), text.as_bytes());
        number += source.mutants.len();
    }
    write(&engine.join("mutation.rs"), include_bytes!("switch.rs"));
}

/// Writes a file that has other contents: Cargo compiles again what depends on a newer file.
fn write(path: &Path, bytes: &[u8]) {
    if fs::read(path).is_ok_and(|there| there == bytes) {
        return;
    }
    fs::create_dir_all(path.parent().expect("a file is in a directory")).expect("a directory can be made");
    fs::write(path, bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}
