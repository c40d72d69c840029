//! Puts the faults that real threads can have into the engine below the current directory, for `.ci/switched-mutants`.

use std::path::Path;

fn main() {
    for folder in ["crates/ufutex/src", "crates/models/seam/files/schemes"] {
        ufutex_seam::Copy::of(folder).with_named_mutants().write_to(Path::new(folder));
    }
}
