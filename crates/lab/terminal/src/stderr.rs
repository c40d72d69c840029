//! Messages on stderr. `eprintln!` panics if stderr cannot be written, because the disk is full or the reader has gone
//! (`2>&1 | head -1`). These functions ignore such errors: the exit status still reports a failure.

use std::fmt::Display;
use std::io::Write;

/// Prints a line that begins with this program's name.
pub fn say(line: impl Display) {
    text(&format!("ufutex: {line}\n"));
}

/// Prints text as it is.
pub fn text(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}
