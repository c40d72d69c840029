//! What is said on stderr. `eprintln!` panics where nothing can be written there: a full disk, a reader that has gone
//! (`2>&1 | head -1`). What could not be said is missed by nobody then; the exit status says the rest.

use std::fmt::Display;
use std::io::Write;

/// A line with this program's name before it.
pub fn say(line: impl Display) {
    text(&format!("ufutex: {line}\n"));
}

/// As it is.
pub fn text(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}
