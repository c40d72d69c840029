//! Writes the table of where the engine's functions begin. Reports name functions, and the compiler only gives lines.

use std::path::Path;

mod functions;

fn main() {
    let source = Path::new("../../ufutex/src");
    println!("cargo::rerun-if-changed={}", source.display());
    let out = std::env::var_os("OUT_DIR").expect("cargo sets it");
    let table = functions::table_of(source).expect("the engine's source");
    std::fs::write(Path::new(&out).join("functions.rs"), table).expect("a file for the table");
}
