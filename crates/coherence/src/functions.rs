//! Which function a line of source is in. The compiler tells a caller's file and line, and people want to read names.

use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};

/// Files by their paths below the source's root, each with the lines where functions begin, in order.
pub type Table = &'static [(&'static str, &'static [(u32, &'static str)])];

/// The function that `line` of `file` is in. `file` is a path as the compiler was given it.
#[must_use]
pub fn at(table: Table, file: &str, line: u32) -> Option<&'static str> {
    let (_, begins) = table.iter().filter(|(path, _)| ends_with(file, path)).max_by_key(|(path, _)| path.len())?;
    let before = begins.partition_point(|(begin, _)| *begin <= line);
    Some(begins.get(before.checked_sub(1)?)?.1)
}

/// The path of `file` below the root, if the table has it.
#[must_use]
pub fn path_of(table: Table, file: &str) -> Option<&'static str> {
    table.iter().map(|(path, _)| *path).filter(|path| ends_with(file, path)).max_by_key(|path| path.len())
}

fn ends_with(file: &str, path: &str) -> bool {
    file.strip_suffix(path).is_some_and(|before| before.is_empty() || before.ends_with('/'))
}

/// The table of all sources below `root`, as an expression of Rust: for a build script.
///
/// # Errors
/// What reading them ends with.
pub fn table_of(root: &Path) -> io::Result<String> {
    let mut files = Vec::new();
    find(root, &mut files)?;
    files.sort();
    let mut table = String::from("&[\n");
    for file in files {
        let path = file.strip_prefix(root).unwrap_or(&file).display().to_string();
        let begins: String = begins(&std::fs::read_to_string(&file)?)
            .into_iter()
            .map(|(line, name)| format!("({line}, {name:?}), "))
            .collect();
        let _ = writeln!(table, "    ({path:?}, &[{begins}]),");
    }
    table.push(']');
    Ok(table)
}

fn find(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            find(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

/// The lines of `source` where functions begin, and their names.
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

    #[test]
    fn a_line_is_in_the_function_that_began_last_in_the_file_that_fits_best() {
        static TABLE: Table =
            &[("lock.rs", &[(1, "outer")]), ("table/lock.rs", &[(10, "lock"), (20, "unlock")]), ("b.rs", &[])];
        assert_eq!(at(TABLE, "some/where/table/lock.rs", 19), Some("lock"));
        assert_eq!(at(TABLE, "some/where/table/lock.rs", 20), Some("unlock"));
        assert_eq!(at(TABLE, "some/where/table/lock.rs", 9), None);
        assert_eq!(at(TABLE, "some/lock.rs", 9), Some("outer"));
        assert_eq!(at(TABLE, "some/padlock.rs", 9), None);
        assert_eq!(path_of(TABLE, "some/where/table/lock.rs"), Some("table/lock.rs"));
    }
}
