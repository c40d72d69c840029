//! Each memory ordering stronger than Relaxed has a label, and its area's ORDERING.md has an argument for each label. The
//! label is in a comment in the ordering's statement or directly above it, or in the documentation of its function.
//!
//! A label of the engine is `[A]` to `[Z]`. Outside of the engine each area has a capital letter, which a small
//! letter follows: `[Ca]`. Labels are read in comments only, so an array literal is none.

use super::File;
use super::source::{code, files};

/// Directories whose orderings have labels of one kind.
pub struct Area {
    pub directories: &'static [&'static str],
    /// The first of the two letters of a label. `None` for the engine, whose labels have one letter.
    letter: Option<char>,
    /// The file in which the labels are argued.
    pub argued: &'static str,
    /// Parts of the directories that are not checked. Each has its reason below.
    except: &'static [&'static str],
}

/// What is checked. `crates/designs`, `crates/models` and `crates/coherence` are not:
/// - `designs` are the kernel's timer tables and locks, rebuilt to be compared with ours. Their orderings are those of
///   the originals, or what a comparison is about.
/// - `models` are tests.
/// - `coherence`, and `crates/lab/sim` on it, simulate: all virtual threads of a simulation are coroutines of one
///   thread of the host. An ordering there says what an access costs, and orders no real threads.
pub const AREAS: [Area; 6] = [
    Area {
        directories: &["crates/ufutex/src", "crates/models/seam/files/schemes"],
        letter: None,
        argued: "ORDERING.md",
        except: &[],
    },
    Area { directories: &["crates/capi/src"], letter: Some('C'), argued: "crates/capi/ORDERING.md", except: &[] },
    Area { directories: &["crates/preload/src"], letter: Some('P'), argued: "crates/preload/ORDERING.md", except: &[] },
    Area {
        directories: &["crates/lab"],
        letter: Some('L'),
        argued: "crates/lab/ORDERING.md",
        except: &["crates/lab/sim/"],
    },
    // It has only Relaxed so far.
    Area {
        directories: &["crates/parking_lot_core/src", "crates/parking_lot_core/v0_9", "crates/parking_lot_core/v0_10"],
        letter: Some('K'),
        argued: "ORDERING.md",
        except: &[],
    },
    Area { directories: &["crates/program/src"], letter: Some('R'), argued: "crates/preload/ORDERING.md", except: &[] },
];

impl Area {
    /// All sources that are checked.
    pub fn files(&self) -> Vec<File> {
        let all = self.directories.iter().flat_map(|directory| files(directory));
        all.filter(|file| !self.except.iter().any(|part| file.path.starts_with(part))).collect()
    }

    /// Whether the label is one of this area's.
    fn has(&self, label: &str) -> bool {
        match self.letter {
            None => label.len() == 1,
            Some(letter) => label.len() == 2 && label.starts_with(letter),
        }
    }
}

const STRONG: [&str; 4] = ["Acquire", "Release", "AcqRel", "SeqCst"];

/// Orderings without a label of the area, and labels of any area that are not argued. `argued` has the texts of the areas'
/// files, in the order of [`AREAS`].
pub fn findings(area: &Area, file: &File, argued: &[String]) -> Vec<String> {
    if file.is_test() {
        return Vec::new();
    }
    let lines = file.lines();
    let mut findings = Vec::new();
    let mut is_import = false;
    for (number, line) in lines.iter().enumerate() {
        let here = || format!("{}:{}", file.path, number + 1);
        is_import |= begins_import(line);
        if !is_import && is_strong(code(line)) && !has_label(area, &lines, number) {
            findings.push(format!("{}: no label at '{}'", here(), line.trim()));
        }
        for label in comment(line).map(labels).into_iter().flatten() {
            let is_missing = |owner: &Area, text: &str| owner.has(label) && !text.contains(&format!("[{label}]"));
            findings.extend(
                AREAS
                    .iter()
                    .zip(argued)
                    .filter(|(owner, text)| is_missing(owner, text))
                    .map(|(owner, _)| format!("{}: [{label}] is not in {}", here(), owner.argued)),
            );
        }
        is_import &= !code(line).contains(';');
    }
    findings
}

/// Labels of the area with a row in `argued`, its file's text, that none of its sources has.
pub fn unused(area: &Area, files: &[File], argued: &str) -> Vec<String> {
    let comments = |file: &File| file.text.lines().filter_map(comment).collect::<Vec<_>>().join("\n");
    let comments: String = files.iter().map(comments).collect();
    let rows = argued.lines().filter_map(|line| line.strip_prefix("| [")?.split_once(']'));
    let labels = rows.filter(|(label, _)| area.has(label)).map(|(label, _)| format!("[{label}]"));
    labels
        .filter(|label| !comments.contains(label))
        .map(|label| format!("{label} is argued, and no ordering has it"))
        .collect()
}

/// Rows of the area's file, whose text is `argued`, with a label that belongs to no area of that file.
pub fn strangers(area: &Area, argued: &str) -> Vec<String> {
    let rows = argued.lines().filter_map(|line| line.strip_prefix("| [")?.split_once(']'));
    let is_here = |label: &str| AREAS.iter().any(|other| other.argued == area.argued && other.has(label));
    rows.filter(|(label, _)| !is_here(label))
        .map(|(label, _)| format!("{}: [{label}] is a label of no area that is argued there", area.argued))
        .collect()
}

/// Whether an import begins on the line. It may go on in the lines behind.
fn begins_import(line: &str) -> bool {
    let code = code(line).trim_start();
    code.starts_with("use ") || code.starts_with("pub") && code.contains(" use ")
}

fn is_strong(code: &str) -> bool {
    let mut words = code.split(|c: char| !c.is_alphanumeric() && c != '_');
    words.any(|word| STRONG.contains(&word))
}

fn comment(line: &str) -> Option<&str> {
    Some(&line[line.find("//")?..])
}

/// The labels in a comment: `[A]` to `[Z]`, and those of two letters that begin with the letter of an area.
fn labels(comment: &str) -> impl Iterator<Item = &str> {
    let is_letter = |first: u8| AREAS.iter().any(|area| area.letter == Some(char::from(first)));
    let bracket = move |rest| match str::as_bytes(rest) {
        [b'A'..=b'Z', b']', ..] => Some(&rest[..1]),
        [first, b'a'..=b'z', b']', ..] if is_letter(*first) => Some(&rest[..2]),
        _ => None,
    };
    comment.split('[').skip(1).filter_map(bracket)
}

fn has_label(area: &Area, lines: &[&str], number: usize) -> bool {
    let has = |line: &&str| comment(line).is_some_and(|comment| labels(comment).any(|label| area.has(label)));
    statement(lines, number).iter().any(has) || documentation(lines, number).iter().any(has)
}

/// The lines of the statement that contains a line, with the comment directly above it. If the statement
/// opens a block, the comment at the begin of that block counts too: rustfmt moves comments there.
fn statement<'a>(lines: &'a [&'a str], number: usize) -> &'a [&'a str] {
    let is_comment = |line: &&&str| line.trim_start().starts_with("//");
    let ends = |line: &&&str| {
        let code = code(line).trim();
        code.is_empty() || code.ends_with([';', '{', '}', ','])
    };
    let first = number - lines[..number].iter().rev().take_while(|line| !ends(line)).count();
    let first = first - lines[..first].iter().rev().take_while(is_comment).count();
    let last = number + lines[number..].iter().take_while(|line| !ends(line)).count();
    let end = (last + 1).min(lines.len());
    let opens = lines.get(last).is_some_and(|line| code(line).trim_end().ends_with('{'));
    let inner = if opens { lines[end..].iter().take_while(is_comment).count() } else { 0 };
    &lines[first..end + inner]
}

/// The documentation of the function that contains a line.
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

    const ENGINE: &Area = &AREAS[0];
    const CAPI: &Area = &AREAS[1];

    fn count_in(area: &Area, text: &str) -> usize {
        let file = File { path: "lock.rs".to_string(), text: text.to_string() };
        findings(area, &file, &["[E] and [V]", "[Ca]", "[Pa]", "", "", ""].map(String::from)).len()
    }

    fn count(text: &str) -> usize {
        count_in(ENGINE, text)
    }

    #[test]
    fn an_ordering_without_a_label_is_found() {
        assert_eq!(count("fn f() {\n    word.store(1, Ordering::Release);\n}\n"), 1);
        assert_eq!(count("fn f() {\n    word.store(1, Ordering::Release); // [E]\n}\n"), 0);
        assert_eq!(count("fn f() {\n    // [E]: why\n    word.store(1, Ordering::Release);\n}\n"), 0);
        assert_eq!(count("fn f() {\n    if word.load(Acquire) {\n        // [V]\n    }\n}\n"), 0);
        assert_eq!(count("/// [E] is for this.\nfn f() {\n\n    fence(SeqCst);\n}\n"), 0);
        assert_eq!(count("fn f() {\n    // [E]\n    word\n        .load(\n            Acquire,\n        );\n}\n"), 0);
        let twice = |first: &str, second: &str| count(&format!("fn f() {{\n    {first}\n    {second}\n}}\n"));
        let (labelled, bare) = ("a.load(Acquire); // [E]", "b.load(Acquire);");
        assert_eq!([twice(labelled, bare), twice(bare, labelled)], [1; 2], "the label of the line beside it");
        assert_eq!(twice("// [E]\n    a.load(Relaxed);", bare), 1, "the comment above another statement");
        assert_eq!(twice(bare, "// [E]\n    a.load(Relaxed);"), 1, "and below");
        assert_eq!(
            count("/// [E] is for this.\nfn f() {}\n\nfn g() {\n    fence(SeqCst);\n}\n"),
            1,
            "another function's"
        );
        assert_eq!(count("use core::sync::atomic::Ordering::Acquire;\n// Acquire is strong\n"), 0);
    }

    #[test]
    fn an_import_of_several_lines_needs_no_label_and_hides_nothing_behind_it() {
        let import =
            |head: &str| format!("{head} atomic::{{\n    AtomicU32,\n    Ordering::{{Acquire, SeqCst}},\n}};\n");
        for head in ["use", "pub use", "pub(crate) use", "    pub(in a::b) use"] {
            assert_eq!(count(&import(head)), 0, "{head}");
            assert_eq!(count(&format!("{}fence(SeqCst);\n", import(head))), 1, "{head}");
        }
        assert_eq!(count("user(\n    Acquire,\n);\n"), 1);
        assert_eq!(count("pub fn user() { word.load(Acquire); }\n"), 1);
    }

    #[test]
    fn an_ordering_outside_of_the_engine_needs_a_label_of_its_own_area() {
        let here = |label: &str| format!("word.store(1, Release); // {label}\n");
        assert_eq!(count_in(CAPI, &here("[Ca]")), 0);
        assert_eq!(count_in(CAPI, &here("[Ca], as the engine's [E]")), 0);
        assert_eq!(count_in(CAPI, &here("")), 1);
        assert_eq!(count_in(CAPI, &here("[E]")), 1, "the engine's");
        assert_eq!(count_in(CAPI, &here("[Pa]")), 1, "another area's");
        assert_eq!(count(&here("[Ca]")), 1, "not the engine's");
        assert_eq!(count_in(CAPI, &here("[Cb]")), 1, "it has no argument");
        assert_eq!(count_in(CAPI, &here("[Ca], as the engine's [Q]")), 1, "the engine's has no argument");
        assert_eq!(count_in(CAPI, &here("[ca]")), 1, "an array");
        assert_eq!(count_in(CAPI, &here("[Ok]")), 1, "a letter of no area");
        assert_eq!(count_in(CAPI, "let two = [Ca]; word.store(1, Release);\n"), 1, "an array literal");
        assert_eq!(count_in(CAPI, "let two = [Zz, Cz]; // no label: [Ok], [Cap], [C1]\n"), 0);
    }

    #[test]
    fn areas_do_not_share_a_letter() {
        let letters: std::collections::BTreeSet<_> = AREAS.iter().map(|area| area.letter).collect();
        assert_eq!(letters.len(), AREAS.len());
    }

    #[test]
    fn parts_that_are_left_out_exist() {
        for part in AREAS.iter().flat_map(|area| area.except) {
            assert!(!files(part).is_empty(), "{part}");
        }
    }

    #[test]
    fn a_row_with_a_label_of_no_area_is_found() {
        let argued = "| label | what |\n|---|---|\n| [E] | a |\n| [Ka] | b |\n| [Zz] | c |\n";
        assert_eq!(strangers(ENGINE, argued), ["ORDERING.md: [Zz] is a label of no area that is argued there"]);
    }

    #[test]
    fn a_row_in_the_file_of_another_area_is_found() {
        let (own, other) = ("| [Ca] | a | b |\n", "| [E] | a | b |\n");
        let finding = "crates/capi/ORDERING.md: [E] is a label of no area that is argued there";
        assert_eq!(strangers(CAPI, &format!("{own}{other}")), [finding]);
        assert_eq!(strangers(ENGINE, own), ["ORDERING.md: [Ca] is a label of no area that is argued there"]);
    }

    #[test]
    fn an_argued_label_that_no_ordering_has_is_found() {
        let file = File { path: "lock.rs".to_string(), text: "word.store(1, Release); // [E]\n".to_string() };
        let argued = "| label | what |\n|---|---|\n| [E] | a | b |\n| [Q] | c | d |\n| [Cb] | e | f |\n";
        assert_eq!(unused(ENGINE, &[file], argued), ["[Q] is argued, and no ordering has it"]);
        let file = File { path: "bell.rs".to_string(), text: "word.store(1, Release); // [Ca], [Q]\n".to_string() };
        assert_eq!(unused(CAPI, &[file], argued), ["[Cb] is argued, and no ordering has it"]);
    }

    #[test]
    fn a_label_without_an_argument_is_found() {
        assert_eq!(count("fn f() {\n    word.store(1, Ordering::Release); // [Q]\n}\n"), 1);
        assert_eq!(count("let [A] = array; // no label: [a]\n"), 0);
    }
}
