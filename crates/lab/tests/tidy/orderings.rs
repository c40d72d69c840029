//! Each memory ordering stronger than Relaxed has a label near it, and each label is argued in ORDERING.md.

use super::File;
use super::source::code;

const STRONG: [&str; 4] = ["Acquire", "Release", "AcqRel", "SeqCst"];
/// A label stands this many lines before the ordering at most, or right behind it, where rustfmt puts comments.
const BEFORE: usize = 8;
const BEHIND: usize = 2;

/// Orderings without a label, and labels that `argued` lacks.
pub fn findings(file: &File, argued: &str) -> Vec<String> {
    if file.is_test() {
        return Vec::new();
    }
    let lines = file.lines();
    let mut findings = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        let here = || format!("{}:{}", file.path, number + 1);
        if is_strong(code(line)) && !has_label(&lines, number) {
            findings.push(format!("{}: no label at '{}'", here(), line.trim()));
        }
        for label in comment(line).map(labels).into_iter().flatten() {
            if !argued.contains(&format!("[{label}]")) {
                findings.push(format!("{}: [{label}] is not in ORDERING.md", here()));
            }
        }
    }
    findings
}

fn is_strong(code: &str) -> bool {
    let is_import = code.trim_start().starts_with("use ") || code.trim_start().starts_with("pub use ");
    let mut words = code.split(|c: char| !c.is_alphanumeric() && c != '_');
    !is_import && words.any(|word| STRONG.contains(&word))
}

fn comment(line: &str) -> Option<&str> {
    Some(&line[line.find("//")?..])
}

/// `[A]` to `[Z]` in a comment.
fn labels(comment: &str) -> impl Iterator<Item = char> {
    let bracket = |rest: &str| match rest.as_bytes() {
        [label @ b'A'..=b'Z', b']', ..] => Some(char::from(*label)),
        _ => None,
    };
    comment.split('[').skip(1).filter_map(bracket)
}

fn has_label(lines: &[&str], number: usize) -> bool {
    let has = |line: &&str| comment(line).is_some_and(|comment| labels(comment).next().is_some());
    let near = lines[..=number].iter().rev().take(BEFORE + 1).take_while(|line| !line.trim().is_empty());
    let behind = lines[number + 1..].iter().take(BEHIND);
    near.chain(behind).any(has) || documentation(lines, number).iter().any(has)
}

/// The documentation of the function that a line is in.
fn documentation<'a>(lines: &'a [&'a str], number: usize) -> &'a [&'a str] {
    let is_head = |line: &&str| line.contains("fn ") && !line.trim_start().starts_with("//");
    let Some(head) = lines[..=number].iter().rposition(is_head) else { return &[] };
    let is_above = |line: &&&str| line.trim_start().starts_with("///") || line.trim_start().starts_with("#[");
    let above = lines[..head].iter().rev().take_while(is_above).count();
    &lines[head - above..head]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(text: &str) -> usize {
        findings(&File { path: "lock.rs".to_string(), text: text.to_string() }, "[E] and [V]").len()
    }

    #[test]
    fn an_ordering_without_a_label_is_found() {
        assert_eq!(count("fn f() {\n    word.store(1, Ordering::Release);\n}\n"), 1);
        assert_eq!(count("fn f() {\n    word.store(1, Ordering::Release); // [E]\n}\n"), 0);
        assert_eq!(count("fn f() {\n    // [E]: why\n    word.store(1, Ordering::Release);\n}\n"), 0);
        assert_eq!(count("fn f() {\n    if word.load(Acquire) {\n        // [V]\n    }\n}\n"), 0);
        assert_eq!(count("/// [E] is for this.\nfn f() {\n\n    fence(SeqCst);\n}\n"), 0);
        assert_eq!(
            count("/// [E] is for this.\nfn f() {}\n\nfn g() {\n    fence(SeqCst);\n}\n"),
            1,
            "another function's"
        );
        assert_eq!(count("use core::sync::atomic::Ordering::Acquire;\n// Acquire is strong\n"), 0);
    }

    #[test]
    fn a_label_that_nobody_argues_is_found() {
        assert_eq!(count("fn f() {\n    word.store(1, Ordering::Release); // [Q]\n}\n"), 1);
        assert_eq!(count("let [A] = array; // no label: [a]\n"), 0);
    }
}
