//! Names of functions by line of source. The compiler gives a caller's file and line, and people want to read names.

/// Files by their paths below the source's root, each with the lines where functions begin, in order.
pub type Table = &'static [(&'static str, &'static [(u32, &'static str)])];

/// The function that `line` of `file` is in. `file` is a path as it was given to the compiler.
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

#[cfg(test)]
mod tests {
    use super::*;

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
