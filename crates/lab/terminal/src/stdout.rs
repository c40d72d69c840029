//! Results on stdout.

use anyhow::{Context, Result};
use std::io::{self, Write};

/// Prints `text` and a line feed, at once. Prints nothing if `text` is empty.
pub fn print(text: &str) -> Result<()> {
    if !text.is_empty() {
        let mut out = io::stdout().lock();
        writeln!(out, "{text}").and_then(|()| out.flush()).context("stdout cannot be written")?;
    }
    Ok(())
}

/// Whether the error means that the reader of stdout has gone, which is not a failure of this program.
pub fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
