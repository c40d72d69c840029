//! The seam between the engine and what proves it: where the one is joined to the other.
//!
//! The engine's source names no model checker, and has none of the faults that a model must catch. A model is a copy
//! of it that a build script makes. In a copy
//!
//! - whole files of `files` stand in place of the engine's own, or beside them: other atomics, another way to sleep;
//! - edits replace a piece of text by another: a table of one slot in place of 64, so that a model stays small, and
//!   each fault of `mutants.toml`, behind a condition that a test switches on.
//!
//! An edit whose text is no longer found, or is found twice and `behind` does not say which is meant, fails the build.

mod edit;
mod file;
mod functions;
mod mutants;

use std::fs;
use std::path::{Path, PathBuf};

pub use edit::Edit;
pub use file::File;
pub use mutants::{Fault, faults};

/// The engine's source.
const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../ufutex/src");
/// This package, with folders of files that stand in place of the engine's.
const SEAM: &str = env!("CARGO_MANIFEST_DIR");
/// The engine's parts.
const PARTS: [&str; 2] = ["timers", "pi"];

/// A copy of the engine's source on its way: see the top of this file.
pub struct Copy {
    /// All files.
    pub files: Vec<File>,
    features: Vec<&'static str>,
}

/// For loom: its atomics, sizes of one, and all faults.
#[must_use]
pub fn loom() -> Copy {
    model("loom").with_edits("loom.toml").with_mutants()
}

/// For shuttle, as for loom.
#[must_use]
pub fn shuttle() -> Copy {
    model("shuttle").with_mutants()
}

fn model(checker: &str) -> Copy {
    any_scheme()
        .without_tests()
        .with_files("model")
        .with_files(checker)
        .with_edits("model.toml")
        .with_features(&["parking"])
}

/// For the host, with one of the schemes that are there to be compared: the type `name` in the file of this name in
/// `files/schemes/schemes`. The file's name is a feature too, beside `counted`. The scheme's unit tests stay; those of the
/// engine have run as its own.
#[must_use]
pub fn scheme(file: &'static str, name: &str) -> Copy {
    let chosen = format!("//! The scheme of this copy.\n\npub use super::{file}::{{{name} as Chosen, Pin}};\n");
    let mut copy = schemes().with_features(&["std", "probes", "counted", file]);
    copy.files.push(File::another("schemes/chosen.rs", chosen));
    copy
}

/// For the host, with another layout of buckets: `packed` or `split`, which is a feature too.
#[must_use]
pub fn layout(name: &'static str) -> Copy {
    Copy::of(SOURCE)
        .without_tests()
        .with_edits(&format!("{name}.toml"))
        .with_features(&PARTS)
        .with_features(&["std", "probes", name])
}

/// For virtual cores, with all schemes.
#[must_use]
pub fn sim() -> Copy {
    any_scheme().without_tests().with_files("sim").with_edits("sim.toml")
}

/// With all schemes: a domain's options name one.
fn any_scheme() -> Copy {
    schemes().with_files("any").with_edits("any.toml")
}

/// Without what says which scheme a domain has.
fn schemes() -> Copy {
    Copy::of(SOURCE).without_tests().with_files("schemes").with_edits("schemes.toml").with_features(&PARTS)
}

impl Copy {
    /// The source below `folder` as it is.
    ///
    /// # Panics
    /// If it cannot be read.
    #[must_use]
    pub fn of(folder: &str) -> Self {
        let mut texts = Vec::new();
        read(Path::new(folder), Path::new(folder), &mut texts);
        let files = texts.into_iter().map(|(path, text)| File::new(&path, text)).collect();
        Self { files, features: Vec::new() }
    }

    fn file(&mut self, path: &str) -> &mut File {
        let found = self.files.iter_mut().find(|file| file.path == path);
        found.unwrap_or_else(|| panic!("there is no {path} in the engine"))
    }

    /// With these features of the engine.
    #[must_use]
    pub fn with_features(mut self, features: &[&'static str]) -> Self {
        self.features.extend(features);
        self
    }

    /// The features that it has.
    #[must_use]
    pub fn features(&self) -> &[&'static str] {
        &self.features
    }

    /// Leaves out the unit tests of all files that are here by now, and what is checked while the engine is compiled, such
    /// as sizes: both are about the engine itself.
    #[must_use]
    pub fn without_tests(mut self) -> Self {
        const NEVER: &str = "#[cfg(any())]\n";
        for file in &mut self.files {
            for mark in ["#[cfg(test)]", "#[cfg(all(test,", "const _: () ="] {
                let places: Vec<_> = file.text().match_indices(mark).map(|(at, _)| at).collect();
                places.into_iter().rev().for_each(|at| file.insert(at, NEVER));
            }
        }
        self
    }

    /// Puts the files of a folder of `crates/models/seam/files` in place of the engine's.
    ///
    /// # Panics
    /// If they cannot be read.
    #[must_use]
    pub fn with_files(mut self, folder: &str) -> Self {
        let root = Path::new(SEAM).join("files").join(folder);
        let mut files = Vec::new();
        read(&root, &root, &mut files);
        for (path, text) in files {
            self.files.retain(|file| file.path != path);
            self.files.push(File::another(&path, text));
        }
        self
    }

    /// Makes the edits of a file in `crates/models/seam`.
    ///
    /// # Panics
    /// If a text is not found, or is found twice.
    #[must_use]
    pub fn with_edits(mut self, file: &str) -> Self {
        edit::read(&Path::new(SEAM).join(file)).iter().for_each(|edit| self.edit(edit));
        self
    }

    /// Puts in all faults of `mutants.toml`, and `sync/mutants.rs`, by which a test switches one on.
    ///
    /// # Panics
    /// As [`with_edits`](Self::with_edits).
    #[must_use]
    pub fn with_mutants(mut self) -> Self {
        let faults = faults(&Path::new(SEAM).join("mutants.toml"));
        self = self.with_edits("let_go.toml");
        faults.iter().for_each(|fault| self.edit(&fault.as_edit()));
        self.with_switches(&faults)
    }

    /// As [`with_mutants`](Self::with_mutants), for real threads: the faults that they can have, in the files that are
    /// here. The environment names the one that is switched on.
    ///
    /// # Panics
    /// As `with_mutants`.
    #[must_use]
    pub fn with_named_mutants(mut self) -> Self {
        let faults = faults(&Path::new(SEAM).join("mutants.toml"));
        for fault in faults.iter().filter(|fault| !fault.only_in_models) {
            if self.files.iter().any(|file| file.path == fault.file) {
                self.edit(&fault.as_edit());
            }
        }
        if self.files.iter().any(|file| file.path == "table/bucket.rs") {
            self = self.with_edits("let_go.toml");
        }
        if self.files.iter().any(|file| file.path == "lib.rs") {
            self = self.with_files("named").with_switches(&faults);
        }
        self
    }

    /// Writes the names of the faults into `sync/mutants.rs`.
    fn with_switches(mut self, faults: &[Fault]) -> Self {
        let switches = mutants::switches(self.file("sync/mutants.rs").text(), faults);
        *self.file("sync/mutants.rs") = File::another("sync/mutants.rs", switches);
        self
    }

    fn edit(&mut self, edit: &Edit) {
        edit.make(self.file(&edit.file)).unwrap_or_else(|reason| panic!("{reason}: {edit:#?}"));
    }

    /// Adds the table of where the copy's functions begin: `FUNCTIONS` of a simulated engine.
    ///
    /// # Panics
    /// If it cannot be written.
    #[must_use]
    pub fn with_functions(self) -> Self {
        fs::write(out().join("functions.rs"), functions::table_of(&self.files)).expect("a file for the table");
        self
    }

    /// Writes the copy to where `crates/models/seam/copy.rs` includes it from, and switches on its features.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn write(mut self) {
        println!("cargo::rustc-check-cfg=cfg(feature, values(any()))");
        self.features.iter().for_each(|feature| println!("cargo::rustc-cfg=feature=\"{feature}\""));
        for folder in [SOURCE, SEAM] {
            println!("cargo::rerun-if-changed={folder}");
        }
        remove_inner_attributes(self.file("lib.rs"));
        let out = out().join("engine");
        // Files that are gone must not stay. It fails where there is no copy yet.
        let _was_none = fs::remove_dir_all(&out);
        self.write_to(&out);
    }

    /// Writes the copy to `folder`.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn write_to(&self, folder: &Path) {
        for file in &self.files {
            let path = folder.join(&file.path);
            fs::create_dir_all(path.parent().expect("below `out`")).expect("a folder for the copy");
            fs::write(path, file.text()).expect("a file of the copy");
        }
    }
}

/// Where a build script writes.
fn out() -> PathBuf {
    PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"))
}

/// Reads all sources below `folder`, by their paths below `root`.
fn read(root: &Path, folder: &Path, texts: &mut Vec<(String, String)>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for entry in entries {
        let path = entry.expect("an entry of a folder").path();
        if path.is_dir() {
            read(root, &path, texts);
        } else {
            let below = path.strip_prefix(root).expect("below the root");
            let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            texts.push((below.to_str().expect("UTF-8").replace('\\', "/"), text));
        }
    }
}

/// Takes out of `lib.rs` what an included file cannot have: attributes and documentation of the whole crate.
fn remove_inner_attributes(lib: &mut File) {
    let (mut begin, mut inside) = (0, false);
    for line in lib.text().to_string().split_inclusive('\n') {
        inside |= line.starts_with("#![");
        if inside || line.starts_with("//!") {
            lib.replace(begin..begin + line.len(), "");
        } else {
            begin += line.len();
        }
        inside &= !line.trim_end().ends_with(']');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_of_the_crate_go() {
        let text = "//! Docs.\n#![no_std]\n#![cfg_attr(\n    a,\n    allow(b)\n)]\nmod c; // c\n#[cfg(d)]\nmod e;\n";
        let mut lib = File::new("lib.rs", text.into());
        remove_inner_attributes(&mut lib);
        assert_eq!(lib.text(), "mod c; // c\n#[cfg(d)]\nmod e;\n");
    }
}
