//! Messages on stderr. `eprintln!` panics if stderr cannot be written, because the disk is full or the reader has gone
//! (`2>&1 | head -1`). These functions ignore such errors: the exit status still reports a failure.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};

/// Prints a line that begins with this program's name.
pub fn say(line: impl Display) {
    text(&format!("ufutex: {line}\n"));
}

/// Prints text as it is.
pub fn text(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// Prints a command's only result. Unlike a message, its loss is an error, but not if the reader has closed the pipe on purpose.
pub fn result(text: &[u8]) -> io::Result<()> {
    match io::stderr().write_all(text) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}
