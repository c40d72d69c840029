//! Real-time programs keep all others from their CPUs for most of a second, again and again. `.ci/run` has the tests of two
//! users at once, so a measurement of one could meet such programs of the other: schbench then had 6,000 requests a second
//! where it has 131,000 alone. They take turns by a lock of a file that both users can open.

use std::fs::File;

fn file() -> File {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    File::open(path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// For a test that measures: while the result lives, no real-time program runs.
pub fn without_real_time_programs() -> File {
    let file = file();
    file.lock_shared().expect("a local file can be locked");
    file
}

/// For a real-time program: while the result lives, no other one runs and no test measures.
pub fn real_time_program() -> File {
    let file = file();
    file.lock().expect("a local file can be locked");
    file
}
