//! Faults that the models must catch.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use serde::Deserialize;

use crate::Edit;

/// A fault at one place of the engine.
#[derive(Clone, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// Faults at several places that are switched on together have one name.
    pub name: String,
    /// What is wrong, as a sentence. At the first place of the name.
    #[serde(default)]
    pub is: String,
    /// The model that must catch it, as `loom lock`: the checker, and the file of the test. At the first place.
    #[serde(default)]
    pub caught_by: String,
    /// It is in a model's own file, or real threads cannot have it.
    #[serde(default)]
    pub only_in_models: bool,
    /// As in an [`Edit`].
    pub file: String,
    /// As in an [`Edit`].
    pub behind: Option<String>,
    /// What is right: an expression or statements.
    pub text: String,
    /// What stands in its place if the fault is switched on. With the word `MUTANT`, it stands there in any case, and
    /// `MUTANT` is the condition.
    pub with: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Faults {
    mutant: Vec<Fault>,
}

/// All faults of a file.
///
/// # Panics
/// If it cannot be read, or says something else.
#[must_use]
pub fn faults(path: &Path) -> Vec<Fault> {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    toml::from_str::<Faults>(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display())).mutant
}

impl Fault {
    /// The edit that puts the fault into the engine, behind its condition.
    #[must_use]
    pub fn as_edit(&self) -> Edit {
        let condition = format!("crate::sync::mutant(crate::sync::Mutant::{})", self.name);
        let (text, with) = (self.text.trim(), self.with.trim());
        let with = if with.contains("MUTANT") {
            with.replace("MUTANT", &condition)
        } else if with.is_empty() {
            format!("if !{condition} {{ TEXT }}")
        } else if text.ends_with([';', '}']) {
            format!("if !{condition} {{ TEXT }} else {{ {with} }}")
        } else {
            format!("(if !{condition} {{ TEXT }} else {{ {with} }})")
        };
        Edit { file: self.file.clone(), behind: self.behind.clone(), text: self.text.clone(), with }
    }
}

/// `frame`, with the names of all faults in place of its line `// The faults.`
pub fn switches(frame: &str, faults: &[Fault]) -> String {
    let mut names = String::new();
    let mut seen: Vec<&str> = Vec::new();
    for fault in faults {
        if !seen.contains(&&*fault.name) {
            seen.push(&fault.name);
            let _ = writeln!(names, "    /// {}\n    {},", fault.is, fault.name);
        }
    }
    let mark = "    // The faults.\n";
    assert!(frame.contains(mark), "sync/mutants.rs has no place for the names of faults");
    frame.replace(mark, &names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_fault_is_told_and_named_by_the_models_that_must_catch_it() {
        let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut seen = BTreeSet::new();
        for fault in faults(&Path::new(env!("CARGO_MANIFEST_DIR")).join("mutants.toml")) {
            if !seen.insert(fault.name.clone()) {
                continue;
            }
            assert!(fault.is.ends_with('.'), "{}: what is wrong?", fault.name);
            for model in fault.caught_by.split(", ") {
                let (checker, file) = model.split_once(' ').unwrap_or_else(|| panic!("{}: which model?", fault.name));
                let test = models.join(checker).join("tests/models").join(file).with_extension("rs");
                let text = fs::read_to_string(&test).unwrap_or_else(|error| panic!("{}: {error}", test.display()));
                let is_named = text.split(|c: char| !c.is_alphanumeric()).any(|word| word == fault.name);
                assert!(is_named, "{} does not name {}", test.display(), fault.name);
            }
        }
    }

    #[test]
    fn right_text_stays_and_the_fault_is_behind_its_condition() {
        let fault = |text: &str, with: &str| {
            let fault = Fault {
                name: "Name".into(),
                is: String::new(),
                caught_by: String::new(),
                only_in_models: false,
                file: String::new(),
                behind: None,
                text: text.into(),
                with: with.into(),
            };
            fault.as_edit().with.replace("crate::sync::mutant(crate::sync::Mutant::Name)", "M")
        };
        assert_eq!(fault("f();", ""), "if !M { TEXT }");
        assert_eq!(fault("f();", "g();"), "if !M { TEXT } else { g(); }");
        assert_eq!(fault("f()", "g()"), "(if !M { TEXT } else { g() })");
        assert_eq!(fault("f()", "TEXT && MUTANT"), "TEXT && M");
    }
}
