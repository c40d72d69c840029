//! Reads files of rows, and matches the rows of two files.

use super::measure;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;

/// One row of a file.
pub type Row = Map<String, Value>;

/// The fields that identify a row, as text. Rows with equal identities belong together.
pub type Identity = String;

/// The matched rows of two files.
pub struct Matched<'a> {
    /// Rows in both files, in the order of the new file.
    pub pairs: Vec<(Identity, &'a Row, &'a Row)>,
    /// Rows in the old file only.
    pub gone: Vec<Identity>,
    /// Rows in the new file only.
    pub added: Vec<Identity>,
}

/// The rows of a file: one object on each line, or one array of objects.
pub fn parse(path: &Path, text: &str) -> Result<Vec<Row>, String> {
    let rows = if text.trim_start().starts_with('[') { array(text) } else { lines(text) };
    let rows = rows.map_err(|what| refused(path, &what))?;
    if rows.is_empty() { Err(refused(path, "has no rows")) } else { Ok(rows) }
}

/// What a user is told of a file that cannot be read.
pub fn unreadable(path: &Path, error: &std::io::Error) -> String {
    refused(path, &format!("cannot be read: {error}"))
}

fn refused(path: &Path, what: &str) -> String {
    format!("{} {what}; accepted: JSON objects, one per line or in an array", path.display())
}

/// Whether a row has a result that can be compared.
pub fn has_figures(row: &Row) -> bool {
    !measure::all(row).is_empty()
}

fn array(text: &str) -> Result<Vec<Row>, String> {
    let values: Vec<Value> = serde_json::from_str(text).map_err(|error| {
        format!("has a malformed line {}, at column {}: {}", error.line(), error.column(), plain(&error))
    })?;
    let rows = values.into_iter().enumerate().map(|(number, value)| match value {
        Value::Object(row) => Ok(row),
        other => Err(format!("has an element {} that is not an object: {}", number + 1, short(&other.to_string()))),
    });
    rows.collect()
}

fn lines(text: &str) -> Result<Vec<Row>, String> {
    let filled = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let rows = filled.map(|(number, line)| match serde_json::from_str(line) {
        Ok(Value::Object(row)) => Ok(row),
        Ok(_) => Err(format!("has a line {} that is not an object: {}", number + 1, short(line))),
        Err(error) => Err(format!("has a malformed line {}, {}: {}", number + 1, plain(&error), short(line))),
    });
    rows.collect()
}

/// The message without line and column, which are relative to the parsed text.
fn plain(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or_default().to_string()
}

/// At most 60 characters of a text, escaped, so that it fits one line.
fn short(text: &str) -> String {
    let text: String = text.chars().take(60).collect();
    format!("'{}'", text.escape_default())
}

/// The size of a table: where it settled, or a size that was copied from such a table.
const SIZES: [&str; 2] = ["buckets", "policy"];

/// Matches the rows of two files by identity. Rows of equal identity are matched in their order.
///
/// A table's size may be a setting or a result. So rows that differ only in their size are matched too, if there is one
/// such row in each file.
pub fn matched<'a>(old: &'a [Row], new: &'a [Row]) -> Matched<'a> {
    let mut waiting = by_identity(old.iter().enumerate(), &[]);
    let (mut pairs, mut late) = (Vec::new(), Vec::new());
    for (place, row) in new.iter().enumerate().filter(|(_, row)| has_figures(row)) {
        match waiting.get_mut(&identity(row, &[])).and_then(VecDeque::pop_front) {
            Some((_, before)) => pairs.push((place, before, row)),
            None => late.push((place, row)),
        }
    }
    let mut left: Vec<_> = waiting.into_values().flatten().collect();
    left.sort_by_key(|(place, _)| *place);
    let mut waiting = by_identity(left.into_iter(), &SIZES);
    let candidates = by_identity(late.iter().copied(), &SIZES);
    let mut added = Vec::new();
    for (place, row) in late {
        let loosely = identity(row, &SIZES);
        let is_alone = candidates.get(&loosely).is_some_and(|rows| rows.len() == 1);
        let alone = waiting.get_mut(&loosely).filter(|rows| is_alone && rows.len() == 1);
        match alone.and_then(VecDeque::pop_front).map(|(_, before)| before) {
            Some(before) => pairs.push((place, before, row)),
            None => added.push(identity(row, &[])),
        }
    }
    pairs.sort_by_key(|(place, ..)| *place);
    let pairs = pairs.into_iter().map(|(_, before, row)| (identity(row, &[]), before, row)).collect();
    let gone = waiting.into_values().flatten().map(|(_, row)| identity(row, &[])).collect();
    Matched { pairs, gone, added }
}

/// The field with the busy loops beside which a row was measured.
const NOISE: &str = "noise";

/// The noise of two files without a common row, if some rows have the same identity but for it.
pub fn noise_alone_differs(old: &[Row], new: &[Row]) -> Option<[String; 2]> {
    let quiet = |rows: &[Row]| {
        let mut rows = rows.to_vec();
        rows.iter_mut().for_each(|row| drop(row.remove(NOISE)));
        rows
    };
    (!matched(&quiet(old), &quiet(new)).pairs.is_empty()).then(|| [noise(old), noise(new)])
}

/// "with --noise 1" or "without --noise". If the rows of a file differ, all that they have.
fn noise(rows: &[Row]) -> String {
    let of = |row: &Row| row.get(NOISE).map_or("without --noise".to_string(), |loops| format!("with --noise {loops}"));
    let all: BTreeSet<_> = rows.iter().filter(|row| has_figures(row)).map(of).collect();
    plain_text(&all.into_iter().collect::<Vec<_>>().join(" and "))
}

/// Rows without a partner yet, each with its position in its file.
type Waiting<'a> = BTreeMap<Identity, VecDeque<(usize, &'a Row)>>;

fn by_identity<'a>(rows: impl Iterator<Item = (usize, &'a Row)>, without: &[&str]) -> Waiting<'a> {
    let mut all = Waiting::new();
    for (place, row) in rows.filter(|(_, row)| has_figures(row)) {
        all.entry(identity(row, without)).or_default().push_back((place, row));
    }
    all
}

/// The words come first, the most important ones at the front; then the numbers by name.
fn identity(row: &Row, without: &[&str]) -> Identity {
    const FIRST: [&str; 7] = ["report", "workload", "section", "test", "case", "figure", "target"];
    const UNSAID: [&str; 3] = ["shared", "early_return", "spin"];
    let mut words = Vec::new();
    for name in FIRST {
        words.extend(row.get(name).and_then(Value::as_str).map(str::to_string));
    }
    for (name, value) in row.iter().filter(|(name, value)| measure::is_identity(name, value)) {
        let is_usual = UNSAID.contains(&name.as_str()) && *value == Value::Bool(false);
        // The policies `load` and `threads` are always settings.
        let is_size = value.is_number() || value.as_str().is_some_and(|text| text.parse::<u64>().is_ok());
        if FIRST.contains(&name.as_str()) || without.contains(&name.as_str()) && is_size || is_usual {
            continue;
        }
        match value {
            Value::String(text) => words.push(format!("{name} {text}")),
            Value::Bool(true) => words.push(name.clone()),
            other => words.push(format!("{name} {other}")),
        }
    }
    plain_text(&words.join(", "))
}

/// Replaces control characters of a file, so that they neither reach the terminal nor end a line of the table.
fn plain_text(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str) -> Vec<Row> {
        lines(text).expect("rows")
    }

    #[test]
    fn rows_are_matched_by_what_they_measured_in_any_order() {
        let old = rows(
            "{\"workload\":\"hash\",\"threads\":1,\"ops_per_sec\":5}\n{\"workload\":\"hash\",\"threads\":2,\"ops_per_sec\":6}",
        );
        let new = rows(
            "{\"threads\":2,\"ops_per_sec\":7,\"workload\":\"hash\"}\n\n{\"workload\":\"wake\",\"threads\":1,\"ops_per_sec\":9}",
        );
        let matched = matched(&old, &new);
        assert_eq!(matched.pairs.len(), 1);
        assert_eq!(matched.pairs[0].0, "hash, threads 2");
        assert_eq!((matched.gone, matched.added), (vec!["hash, threads 1".into()], vec!["wake, threads 1".into()]));
    }

    #[test]
    fn a_table_that_settled_at_another_size_is_still_the_same_row() {
        let old = rows("{\"workload\":\"hash\",\"buckets\":512,\"ops_per_sec\":5}");
        let new = rows("{\"workload\":\"hash\",\"buckets\":1024,\"ops_per_sec\":5}");
        assert_eq!(matched(&old, &new).pairs.len(), 1);
        let policy = |size| rows(&format!("{{\"workload\":\"hash\",\"policy\":\"{size}\",\"ops_per_sec\":5}}"));
        assert_eq!(matched(&policy("2048"), &policy("4096")).pairs.len(), 1, "as large as another one had become");
        assert!(matched(&policy("load"), &policy("4096")).pairs.is_empty(), "a choice is a choice");
        let both = [policy("64"), policy("256")].concat();
        assert!(matched(&policy("16"), &both).pairs.is_empty(), "the partner is ambiguous");
        let sizes = rows(
            "{\"workload\":\"hash\",\"buckets\":16,\"ops_per_sec\":1}\n{\"workload\":\"hash\",\"buckets\":1024,\"ops_per_sec\":2}",
        );
        let both = matched(&sizes, &sizes);
        assert!(both.pairs.iter().all(|(_, before, now)| before == now), "sizes that both have are told apart");
    }

    #[test]
    fn a_malformed_line_is_named() {
        let refusal = lines("{\"a\":1}\n\n{\"a\":").expect_err("not JSON");
        assert!(refusal.contains("line 3"), "{refusal}");
        let refusal = lines("{\"a\":1}\n7").expect_err("no object");
        assert!(refusal.contains("line 2"), "{refusal}");
        let refusal = array("[{\"a\":1},\n{]").expect_err("not JSON");
        assert!(refusal.contains("line 2"), "{refusal}");
        assert!(array("[{\"a\":1}, 5]").expect_err("no object").contains("element 2"));
    }
}
