//! The table of the engine's functions, a `ufutex_coherence::functions::Table`: reports name functions, and the compiler
//! only gives lines.

use std::fmt::Write;

use crate::File;

/// The table of all functions of `files`, as a Rust expression.
pub fn table_of(files: &[File]) -> String {
    let mut files: Vec<_> = files.iter().map(|file| (&file.path, file.text())).collect();
    files.sort_unstable();
    let mut table = String::from("&[\n");
    for (path, text) in files {
        let begins: String = begins(text).into_iter().map(|(line, name)| format!("({line}, {name:?}), ")).collect();
        let _ = writeln!(table, "    ({path:?}, &[{begins}]),");
    }
    table.push(']');
    table
}

/// The lines of `source` in which functions begin, with their names.
fn begins(source: &str) -> Vec<(u32, &str)> {
    let line = |(number, line): (usize, &'_ str)| {
        let line = line.trim_start();
        let words = line.split_inclusive(' ');
        let mut at = 0;
        for word in words {
            if word == "fn " {
                let rest = &line[at + word.len()..];
                let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
                return (end > 0).then_some((number as u32 + 1, at + word.len(), end));
            }
            let is_qualifier = ["pub", "const", "async", "unsafe", "extern", "\"C\""].contains(&word.trim_end());
            if !(is_qualifier || word.starts_with("pub(")) {
                return None;
            }
            at += word.len();
        }
        None
    };
    let lines = source.lines().enumerate();
    lines
        .filter_map(|(number, text)| {
            let (number, begin, end) = line((number, text))?;
            Some((number, &text.trim_start()[begin..begin + end]))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_by_their_lines() {
        let source = "\
fn first() {
    // fn not_this()
    let fn_like = 1;
}
impl Some {
    pub(super) unsafe fn second<T>(&self) {}
    pub const fn third(
    ) {}
    let pointer: fn(u32);
}
";
        assert_eq!(begins(source), [(1, "first"), (6, "second"), (7, "third")]);
    }
}
