//! The summary, and the list of mutants that may live.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use crate::judge::{Outcome, Verdict};
use crate::mutant::{Kind, Mutant};

/// At most this many of a hundred mutants may live unexplained.
const MOST_UNEXPLAINED: usize = 2;

/// The list of mutants that may live, below the checkout's root. Its head says what its lines are.
pub const LIVED: &str = "crates/models/mutants/lived.txt";

/// The reasons in such a list, by the mutant's ID.
pub fn explanations(text: &str) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    let (mut ids, mut reason) = (Vec::new(), Vec::new());
    for line in text.lines().filter(|line| !line.starts_with('#')).chain([""]) {
        if let Some(part) = line.strip_prefix("    ") {
            assert!(!ids.is_empty(), "a reason without a mutant: {part}");
            reason.push(part);
            continue;
        }
        if line.is_empty() || !reason.is_empty() {
            for id in ids.drain(..) {
                let before = all.insert(id, reason.join(" "));
                assert!(
                    before.is_none(),
                    "a mutant is listed twice, the first time for this reason: {}",
                    before.unwrap_or_default()
                );
            }
            reason.clear();
        }
        ids.extend((!line.is_empty()).then(|| line.to_string()));
    }
    all
}

/// What the list of explanations says wrong: mutants that are not there, and entries without a reason.
pub fn stale(explained: &BTreeMap<String, String>, mutants: &[Mutant]) -> Vec<String> {
    let known: BTreeSet<&str> = mutants.iter().map(|mutant| mutant.id.as_str()).collect();
    let gone = explained.keys().filter(|id| !known.contains(id.as_str())).map(|id| format!("no such mutant: {id}"));
    let bare = explained.iter().filter(|(_, reason)| reason.is_empty()).map(|(id, _)| format!("no reason: {id}"));
    gone.chain(bare).collect()
}

/// The summary in Markdown.
pub struct Summary {
    pub text: String,
    /// Whether too many mutants live unexplained.
    pub is_bad: bool,
}

/// Sums the verdicts up. `mutants` are all that there are.
pub fn summary(mutants: &[Mutant], verdicts: &[Verdict], explained: &BTreeMap<String, String>) -> Summary {
    let mut text = String::from(
        "| kind | mutants | run | killed | of these by a hang | lived, explained | lived, unexplained | of these not reached |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for kind in Kind::ALL {
        let of_kind: Vec<&Verdict> = verdicts.iter().filter(|verdict| verdict.kind == kind).collect();
        row(&mut text, kind.name(), mutants.iter().filter(|mutant| mutant.kind == kind).count(), &of_kind, explained);
    }
    let all: Vec<&Verdict> = verdicts.iter().collect();
    row(&mut text, "all", mutants.len(), &all, explained);
    let lived: Vec<&Verdict> = all.iter().copied().filter(|verdict| !verdict.outcome.is_noticed()).collect();
    let unexplained: Vec<&Verdict> =
        lived.iter().copied().filter(|verdict| !explained.contains_key(&verdict.id)).collect();
    let _ = writeln!(text, "\n## Lived, unexplained\n");
    for verdict in &unexplained {
        let _ = writeln!(
            text,
            "- {}\n  line {}, {}, {} tests",
            verdict.id,
            verdict.line,
            verdict.outcome.name(),
            verdict.tests
        );
    }
    let _ = writeln!(text, "\n## Explained, and killed nevertheless\n");
    for verdict in all.iter().filter(|verdict| verdict.outcome.is_noticed() && explained.contains_key(&verdict.id)) {
        let _ = writeln!(text, "- {}\n  by {}", verdict.id, verdict.by);
    }
    let is_bad = unexplained.len() * 100 > verdicts.len() * MOST_UNEXPLAINED;
    let share = 100.0 * unexplained.len() as f64 / verdicts.len().max(1) as f64;
    let _ = writeln!(
        text,
        "\n{share:.1} % of {} mutants lived unexplained; accepted: {MOST_UNEXPLAINED} %",
        verdicts.len()
    );
    Summary { text, is_bad }
}

fn row(text: &mut String, name: &str, mutants: usize, run: &[&Verdict], explained: &BTreeMap<String, String>) {
    let count = |is: &dyn Fn(&Verdict) -> bool| run.iter().filter(|verdict| is(verdict)).count();
    let noticed = count(&|verdict| verdict.outcome.is_noticed());
    let hung = count(&|verdict| verdict.outcome == Outcome::Hung);
    let is_open = |verdict: &Verdict| !verdict.outcome.is_noticed() && !explained.contains_key(&verdict.id);
    let open = count(&is_open);
    let unreached = count(&|verdict| is_open(verdict) && verdict.outcome == Outcome::Unreached);
    let known = run.len() - noticed - open;
    let _ =
        writeln!(text, "| {name} | {mutants} | {} | {noticed} | {hung} | {known} | {open} | {unreached} |", run.len());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine;

    fn mutant(id: &str) -> Mutant {
        let (file, before, after) = (String::new(), String::new(), String::new());
        Mutant { file, kind: Kind::Fence, id: id.to_string(), line: 1, at: 0..0, before, after }
    }

    fn verdict(id: &str, outcome: Outcome) -> Verdict {
        Verdict { id: id.to_string(), kind: Kind::Fence, line: 1, outcome, by: String::new(), tests: 3 }
    }

    #[test]
    fn a_reason_is_that_of_all_mutants_above_it() {
        let list =
            "# Head\n\none `a`\n# not this\nanother\n    is only\n    a hint\nthree\n    is late\n\ntwo\n\n# End\n";
        let explained = explanations(list);
        assert_eq!((&*explained["one `a`"], &*explained["another"]), ("is only a hint", "is only a hint"));
        assert_eq!(explained["three"], "is late");
        let all = ["one `a`", "another", "three"].map(mutant);
        assert_eq!(stale(&explained, &all), ["no such mutant: two", "no reason: two"]);
    }

    #[test]
    #[should_panic = "a reason without a mutant: is lost"]
    fn a_reason_below_an_empty_line_is_an_error() {
        explanations("one\n\n    is lost\n");
    }

    #[test]
    fn mutants_that_may_live_are_there_and_have_reasons() {
        let root = engine::root();
        let explained = explanations(&std::fs::read_to_string(root.join(LIVED)).expect("the list is there"));
        assert!(explained.len() > 50, "{} mutants may live", explained.len());
        let mutants: Vec<Mutant> = engine::sources(&root).into_iter().flat_map(|source| source.mutants).collect();
        assert_eq!(stale(&explained, &mutants), [""; 0]);
    }

    #[test]
    fn more_than_two_in_a_hundred_unexplained_are_too_many() {
        let mut verdicts: Vec<Verdict> = (0..97).map(|n| verdict(&n.to_string(), Outcome::Killed)).collect();
        verdicts.extend(["a", "b", "c"].map(|id| verdict(id, Outcome::Lived)));
        let mutants: Vec<Mutant> = verdicts.iter().map(|verdict| mutant(&verdict.id)).collect();
        assert!(summary(&mutants, &verdicts, &BTreeMap::new()).is_bad);
        let explained = BTreeMap::from([("a".to_string(), "a hint".to_string())]);
        let two = summary(&mutants, &verdicts, &explained);
        assert!(!two.is_bad);
        assert!(two.text.contains("| fence | 100 | 100 | 97 | 0 | 1 | 2 | 0 |"), "{}", two.text);
        assert!(two.text.contains("- b\n  line 1, lived, 3 tests"), "{}", two.text);
    }
}
