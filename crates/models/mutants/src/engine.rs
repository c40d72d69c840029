//! The engine's files, and the copy of the checkout that contains the mutants.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::mutant::Mutant;
use crate::{edit, find};

/// The engine's sources, below the checkout's root.
const ENGINE: &str = "crates/ufutex/src";

/// A source file of the engine that is compiled in some build, and its mutants.
pub struct Source {
    pub file: String,
    pub text: String,
    pub mutants: Vec<Mutant>,
    /// The number of the first one.
    first: usize,
}

impl Source {
    /// The mutants with their numbers.
    fn numbered(&self) -> Vec<(usize, Mutant)> {
        (self.first..).zip(self.mutants.iter().cloned()).collect()
    }
}

/// The checkout's root.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").canonicalize().expect("the checkout's root")
}

/// The engine's files, found as the compiler finds them: from `lib.rs`, by `mod`. Tests and the files of other hosts are not
/// among them.
pub fn sources(root: &Path) -> Vec<Source> {
    let mut all = Vec::new();
    add(&root.join(ENGINE), "lib.rs", "", &mut all);
    all
}

fn add(engine: &Path, file: &str, directory: &str, all: &mut Vec<Source>) {
    if file == "sync/backend.rs" {
        return; // it says how the engine is compiled
    }
    let text = fs::read_to_string(engine.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
    let found = find::find(file, &text);
    let first = all.last().map_or(0, |last| last.first + last.mutants.len());
    all.push(Source { file: file.to_string(), text, mutants: found.mutants, first });
    for module in found.modules {
        let below = format!("{directory}{module}");
        let file =
            [format!("{below}.rs"), format!("{below}/mod.rs")].into_iter().find(|file| engine.join(file).exists());
        if let Some(file) = file {
            add(engine, &file, &format!("{below}/"), all);
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
    sources.iter().for_each(|source| write_file(&engine, &source.file, &source.text, &source.numbered()));
    write(&engine.join("mutation.rs"), include_bytes!("switch.rs"));
    for (package, copy) in [("loom", ufutex_seam::loom()), ("shuttle", ufutex_seam::shuttle())] {
        // What the build script would make has the mutants already.
        let package = tree.join("crates/models").join(package);
        let features = copy.features().join("\", \"");
        let build = format!(
            "fn main() {{ ufutex_seam::Copy::of(concat!(env!(\"CARGO_MANIFEST_DIR\"), \"/engine\")).with_features(&[\"{features}\"]).write() }}\n"
        );
        write(&package.join("build.rs"), build.as_bytes());
        for file in &copy.files {
            let source = sources.iter().find(|source| source.file == file.path);
            let mut mutants = source.map(Source::numbered).unwrap_or_default();
            // Those of text that the copy does not have are left out.
            mutants.retain_mut(|(_, mutant)| file.place_of(mutant.at.clone()).map(|at| mutant.at = at).is_some());
            write_file(&package.join("engine"), &file.path, file.text(), &mutants);
        }
        write(&package.join("engine/mutation.rs"), include_bytes!("switch.rs"));
    }
}

/// Writes a file of the engine, with these mutants in it.
fn write_file(engine: &Path, path: &str, text: &str, mutants: &[(usize, Mutant)]) {
    let mut text = edit::insert(text, mutants);
    if path == "lib.rs" {
        // Parentheses around what is already in some would be hundreds of warnings.
        text = format!("#![allow(warnings)]\n{text}\npub mod mutation;\n");
    }
    write(&engine.join(path), text.as_bytes());
}

/// Writes a file that has other contents: Cargo compiles again what depends on a newer file.
fn write(path: &Path, bytes: &[u8]) {
    if fs::read(path).is_ok_and(|there| there == bytes) {
        return;
    }
    fs::create_dir_all(path.parent().expect("a file is in a directory")).expect("a directory can be made");
    fs::write(path, bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}
