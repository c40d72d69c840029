//! Puts the faults that real threads can have into the engine below the current directory, for `.ci/switched-mutants`.

use std::fs;
use std::path::Path;

fn main() {
    for folder in ["crates/ufutex/src", "crates/models/seam/files/schemes"] {
        ufutex_seam::Copy::of(folder).with_named_mutants().write_to(Path::new(folder));
    }
    // The engine on virtual cores, a part of `ufutex`, is made from these sources with a `sync` of its own.
    let sync = Path::new("crates/models/seam/files/sim/sync/mod.rs");
    let switches = "\nmod mutants;\npub use mutants::{Mutant, mutant};\n";
    let text = fs::read_to_string(sync).expect("the file of a checkout");
    fs::write(sync, text + switches).expect("a copy of a checkout can be written");
}
