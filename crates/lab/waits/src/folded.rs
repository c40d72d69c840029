//! The output for programs that draw flame graphs: a line for each stack, the outermost frame first, and the time that threads
//! waited there, in nanoseconds.

use crate::report::Line;
use std::io::{self, Write};

/// Writes the stacks of a word, with the word's name as the innermost frame.
pub fn write(to: &mut dyn Write, line: &Line) -> io::Result<()> {
    for site in &line.sites {
        let mut frames: Vec<String> =
            site.stack.iter().rev().map(|frame| frame.to_string().replace(';', ",")).collect();
        frames.push(line.name.replace(';', ","));
        writeln!(to, "{} {}", frames.join(";"), site.total_ns)?;
    }
    Ok(())
}
