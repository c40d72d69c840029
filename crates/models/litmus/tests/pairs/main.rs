//! The pairs of ORDERING.md that no other checker covers, written out from the code.
//!
//! No model allows the outcome of a test. RC11 allows it if an ordering that the test calls needed is weakened. If
//! another labelled ordering is weakened, RC11 still forbids it, and the test says why the ordering is kept.
//! VERDICTS.md has the verdicts of all models on all weaker orderings. `UFUTEX_WRITE_VERDICTS=1` makes it anew.

mod around;
mod engine;

use std::fmt::Write as _;

use ufutex_litmus::MODELS;
use ufutex_litmus::program::Test;
use ufutex_litmus::weaken::{Weakened, verdicts, weakenings};

/// A pair of ORDERING.md.
struct Pair {
    name: &'static str,
    /// What the test is written out from: a file below `crates`, and a part of it.
    code: &'static [(&'static str, &'static str)],
    /// The locations with their first values.
    init: &'static str,
    /// The threads, a column each: see `ufutex_litmus::program`.
    program: &'static str,
    /// What must not happen.
    forbidden: &'static str,
    /// The labels of orderings that are needed as strong as they are. The harness weakens each by itself.
    needed: &'static [&'static str],
    /// Labels of orderings that this outcome does not need so strong; the weakest that it needs; and why the code has
    /// the stronger one.
    kept: &'static [(&'static str, &'static str, &'static str)],
}

impl Pair {
    fn test(&self) -> Test {
        Test::new(self.name, self.init, self.program, self.forbidden)
    }

    /// What is wrong with the pair.
    fn findings(&self, weaker: &[Weakened]) -> Vec<String> {
        let mut findings = Vec::new();
        for (model, allowed) in MODELS.iter().zip(verdicts(&self.test())) {
            if allowed {
                findings.push(format!("{}: {} allows the outcome", self.name, model.name));
            }
        }
        let mut labels: Vec<&str> = weaker.iter().map(|weakened| &*weakened.label).collect();
        labels.dedup();
        for label in &labels {
            let enough = weaker.iter().rev().find(|weakened| weakened.label == *label && !weakened.allowed[0]);
            let said = self.kept.iter().find(|(kept, ..)| kept == label).map(|(_, weakest, _)| *weakest);
            let is_said = self.needed.contains(label) || said.is_some();
            if enough.map(|weakened| weakened.to) != said || !is_said {
                let enough = enough.map_or("nothing weaker", |weakened| weakened.to);
                findings.push(format!("{}: {enough} is enough for [{label}] in RC11", self.name));
            }
        }
        let named = self.needed.iter().chain(self.kept.iter().map(|(label, ..)| label));
        findings
            .extend(named.filter(|label| !labels.contains(label)).map(|label| format!("{}: no [{label}]", self.name)));
        findings
    }

    fn write(&self, weaker: &[Weakened], text: &mut String) {
        write!(text, "\n## {}\n\n```text\n", self.name).expect("a string");
        let program = self.program.lines().map(|line| line.strip_prefix("        ").unwrap_or(line).trim_end());
        program.filter(|line| !line.is_empty()).for_each(|line| writeln!(text, "{line}").expect("a string"));
        writeln!(text, "```\n\nFirst: {}. Forbidden: {}.\n", self.init, self.forbidden).expect("a string");
        let head: Vec<_> = MODELS.iter().map(|model| model.name).collect();
        writeln!(text, "| ordering | weakened to | {} |\n|---|---|{}", head.join(" | "), "---|".repeat(head.len()))
            .expect("a string");
        for Weakened { label, to, allowed } in weaker {
            let verdicts = allowed.map(|allowed| if allowed { "**allowed**" } else { "forbidden" });
            writeln!(text, "| [{label}] | {to} | {} |", verdicts.join(" | ")).expect("a string");
        }
        if !self.kept.is_empty() {
            text.push('\n');
        }
        for (label, weakest, why) in self.kept {
            let enough = if *weakest == "none" { "nothing" } else { weakest };
            writeln!(text, "- [{label}]: {enough} is enough here. {why}.").expect("a string");
        }
    }
}

const HEAD: &str = "\
# Verdicts on the pairs of ORDERING.md

Made by `UFUTEX_WRITE_VERDICTS=1 cargo test -p ufutex-litmus`; a test fails while it is stale. The notation is that of
`src/program.rs`. No model allows an outcome with the orderings as they are. \"none\" is a fence, or a call of
membarrier(2), that is left out. Without a compiler fence, the compiler exchanges the two statements around it.

RC11 decides. The columns of processors show what the instructions do if the compiler reorders nothing. So a weaker
ordering that they forbid is no reason to weaken the code.
";

#[test]
fn each_pair_forbids_its_outcome_and_needs_what_it_calls_needed() {
    let (mut findings, mut text) = (Vec::new(), HEAD.to_string());
    for pair in engine::PAIRS.iter().chain(around::PAIRS) {
        let weaker = weakenings(&pair.test());
        findings.extend(pair.findings(&weaker));
        pair.write(&weaker, &mut text);
    }
    assert!(findings.is_empty(), "{} findings:\n{}", findings.len(), findings.join("\n"));
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/VERDICTS.md");
    if std::env::var_os("UFUTEX_WRITE_VERDICTS").is_some() {
        std::fs::write(path, &text).expect("VERDICTS.md can be written");
    }
    let stands = std::fs::read_to_string(path).expect("VERDICTS.md can be read");
    assert!(stands == text, "VERDICTS.md is stale: UFUTEX_WRITE_VERDICTS=1 cargo test -p ufutex-litmus");
}

/// A test shows nothing about the code once the code has another ordering.
#[test]
fn pairs_are_written_out_from_the_code() {
    let crates = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");
    for pair in engine::PAIRS.iter().chain(around::PAIRS) {
        assert!(!pair.code.is_empty(), "{}: from no code", pair.name);
        for (path, part) in pair.code {
            let text =
                std::fs::read_to_string(format!("{crates}{path}")).unwrap_or_else(|error| panic!("{path}: {error}"));
            assert!(text.contains(part), "{}: {path} does not have '{part}' any more", pair.name);
        }
    }
}

/// A pair is only as good as its outcome: it must be one that the program has without its orderings.
#[test]
fn findings_name_what_is_not_needed_and_what_is_allowed() {
    let of = |program: &'static str, needed| {
        let pair = Pair {
            name: "MP",
            code: &[],
            init: "x = 0, y = 0",
            program,
            forbidden: "a == 1 && b == 0",
            needed,
            kept: &[],
        };
        pair.findings(&weakenings(&pair.test()))
    };
    let good = "P0 | P1 \n x = 1 | a = y acq [B] \n y = 1 rel [A] | b = x";
    assert_eq!(of(good, &["A", "B"]).len(), 0);
    assert_eq!(of(good, &["A"]), ["MP: nothing weaker is enough for [B] in RC11"]);
    assert_eq!(of(good, &["A", "B", "C"]), ["MP: no [C]"]);
    let spare = "P0 | P1 \n x = 1 | a = y acq [B] \n y = 1 rel [A] | b = x acq [C]";
    assert_eq!(of(spare, &["A", "B", "C"]), ["MP: rlx is enough for [C] in RC11"]);
    assert_eq!(of("P0 | P1 \n x = 1 | a = y acq [B] \n y = 1 | b = x", &["B"]).len(), 3, "three models allow it");
}
