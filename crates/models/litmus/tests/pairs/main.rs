//! Pairs of ORDERING.md, written out from the code. The models of loom cover some of them too, such as [A] and [B].
//!
//! No model allows the outcome of a test. RC11 allows it if an ordering that the test calls needed is weakened. If
//! another labelled ordering is weakened, RC11 still forbids it, and the test says why the ordering is kept.
//! `verdicts.txt` has the verdicts of all models on all weaker orderings. `UFUTEX_WRITE_VERDICTS=1` makes it anew.

mod around;
mod engine;

use std::collections::BTreeSet;

use ufutex_litmus::program::Test;
use ufutex_litmus::weaken::{Weakened, verdicts, weakenings};
use ufutex_litmus::{MODELS, Model};

/// A file below `crates`, a function, and parts of it in their order.
type Code = (&'static str, &'static str, &'static [&'static str]);

/// A pair of ORDERING.md.
struct Pair {
    name: &'static str,
    /// What the test is written out from.
    code: &'static [Code],
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
        *text += &format!("\n== {}\n", self.name);
        let program = self.program.lines().map(|line| line.strip_prefix("        ").unwrap_or(line).trim_end());
        program.filter(|line| !line.is_empty()).for_each(|line| *text += &format!("{line}\n"));
        *text += &format!("first: {}\nforbidden: {}\nweakened to, and allowed by:\n", self.init, self.forbidden);
        for Weakened { label, to, allowed } in weaker {
            let model = |(model, allowed): (&Model, &bool)| format!("{:<7}", if *allowed { model.name } else { "-" });
            let models: Vec<_> = MODELS.iter().zip(allowed).map(model).collect();
            let row = format!("{:<20} {to:<18} {}", format!("[{label}]"), models.join(" "));
            *text += &format!("{}\n", row.trim_end());
        }
        for (label, weakest, why) in self.kept {
            let enough = if *weakest == "none" { "nothing" } else { weakest };
            *text += &format!("[{label}]: {enough} is enough here. {why}.\n");
        }
    }
}

const HEAD: &str = "\
# What memory models say about the pairs of ORDERING.md if one labelled ordering is weaker.
#
# Made by `UFUTEX_WRITE_VERDICTS=1 cargo test -p ufutex-litmus`. A test fails while this file is stale.
#
# A pair is a program with a column for each thread, in the notation of `src/program.rs`, the first values of its locations, and an
# outcome that must not be. No model allows the outcome with the orderings as they are. A row weakens one ordering, and names the models
# that then allow the outcome. \"none\" leaves out a fence or a call of membarrier(2). Without a compiler fence, the compiler exchanges
# the two statements around it.
#
# RC11 is the memory model of the language, and decides. x86-64, Armv8 and RISC-V are what the processors' instructions do if the
# compiler reorders nothing. So a processor that forbids the outcome is no reason to weaken an ordering.
#
";

/// The totals of all pairs, and the labels whose orderings none of them needs.
fn totals(all: &[Vec<Weakened>]) -> String {
    let rows = || all.iter().flatten();
    let count = |is: &dyn Fn(&Weakened) -> bool| rows().filter(|row| is(row)).count();
    let by_model = MODELS.iter().enumerate().map(|(model, Model { name, .. })| {
        let allowed = count(&|row| row.allowed[model]);
        format!("{name} in {allowed}")
    });
    let by_model = by_model.collect::<Vec<_>>().join(", ");
    let by_first_alone = count(&|row| row.allowed[0] && !row.allowed[1..].contains(&true));
    let (needed, spare): (Vec<_>, Vec<_>) = rows().partition(|row| row.allowed.contains(&true));
    let spare = spare.iter().filter(|row| needed.iter().all(|needed| needed.label != row.label));
    let labels: BTreeSet<_> = spare.map(|row| format!("[{}]", row.label)).collect();
    let lines: Vec<_> = labels.into_iter().collect::<Vec<_>>().chunks(8).map(|line| line.join(", ")).collect();
    format!(
        "# {} pairs, {} rows. The outcome is allowed by {by_model}; by {} alone in {by_first_alone}.\n\
         # No model needs the orderings of these labels in any pair. The lines below a pair's rows say why the code has them:\n\
         # {}.\n",
        all.len(),
        rows().count(),
        MODELS[0].name,
        lines.join(",\n# ")
    )
}

#[test]
fn each_pair_forbids_its_outcome_and_needs_what_it_calls_needed() {
    let (mut findings, mut pairs, mut all) = (Vec::new(), String::new(), Vec::new());
    for pair in engine::PAIRS.iter().chain(around::PAIRS) {
        let weaker = weakenings(&pair.test());
        findings.extend(pair.findings(&weaker));
        pair.write(&weaker, &mut pairs);
        all.push(weaker);
    }
    assert!(findings.is_empty(), "{} findings:\n{}", findings.len(), findings.join("\n"));
    let text = format!("{HEAD}{}{pairs}", totals(&all));
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/verdicts.txt");
    if std::env::var_os("UFUTEX_WRITE_VERDICTS").is_some() {
        std::fs::write(path, &text).expect("verdicts.txt can be written");
    }
    let stands = std::fs::read_to_string(path).expect("verdicts.txt can be read");
    assert!(stands == text, "verdicts.txt is stale: UFUTEX_WRITE_VERDICTS=1 cargo test -p ufutex-litmus");
}

/// The functions of this name, with their bodies. Assumes rustfmt's layout: a function ends with a brace in its column.
fn bodies<'t>(text: &'t str, name: &str) -> Vec<&'t str> {
    let is_head = |line: &str| {
        let code = line.trim_start();
        let named = code
            .split_once("fn ")
            .is_some_and(|(_, rest)| rest.strip_prefix(name).is_some_and(|rest| rest.starts_with(['(', '<'])));
        named && !code.starts_with("//")
    };
    let (mut bodies, mut at) = (Vec::new(), 0);
    for line in text.split_inclusive('\n') {
        if is_head(line) {
            let indent = &line[..line.len() - line.trim_start().len()];
            let rest = &text[at..];
            let end = format!("\n{indent}}}\n");
            bodies.push(rest.find(&end).map_or(rest, |length| &rest[..length + end.len()]));
        }
        at += line.len();
    }
    bodies
}

/// The first of the parts that is not behind the part before it. `None` if all are in order.
fn misplaced<'p>(body: &str, parts: &[&'p str]) -> Option<&'p str> {
    let mut rest = body;
    parts.iter().copied().find(|part| match rest.split_once(part) {
        Some((_, behind)) => {
            rest = behind;
            false
        }
        None => true,
    })
}

/// What of the code is not as the pair says.
fn changed(text: &str, name: &str, parts: &[&str]) -> Option<String> {
    let missing: Vec<_> = bodies(text, name).into_iter().map(|body| misplaced(body, parts)).collect();
    if missing.iter().any(Option::is_none) {
        return None;
    }
    let first = missing.into_iter().flatten().next();
    Some(first.map_or_else(|| format!("no function {name}"), |part| format!("{name}: '{part}' is not in its place")))
}

/// A test shows nothing about the code once the code has another ordering, or another order.
#[test]
fn pairs_are_written_out_from_the_code() {
    let crates = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");
    let mut findings = Vec::new();
    for pair in engine::PAIRS.iter().chain(around::PAIRS) {
        assert!(!pair.code.is_empty(), "{}: from no code", pair.name);
        for (path, function, parts) in pair.code {
            let text =
                std::fs::read_to_string(format!("{crates}{path}")).unwrap_or_else(|error| panic!("{path}: {error}"));
            let found = changed(&text, function, parts);
            findings.extend(found.map(|found| format!("{}: {path}, {found}", pair.name)));
        }
    }
    assert!(findings.is_empty(), "{} findings:\n{}", findings.len(), findings.join("\n"));
}

#[test]
fn statement_that_is_moved_or_gone_is_found() {
    let of = |body: &str| {
        let text =
            format!("impl A {{\n    fn before() {{\n        look();\n    }}\n\n    fn f<T>() {{\n{body}    }}\n}}\n");
        changed(&text, "f", &["lock(", "barrier();", "look()"])
    };
    assert_eq!(of("        lock(1);\n        barrier();\n        if look() {\n        }\n"), None);
    let moved = of("        lock(1);\n        if look() {\n        }\n        barrier();\n");
    assert_eq!(moved.as_deref(), Some("f: 'look()' is not in its place"));
    let gone = of("        lock(1);\n        look();\n");
    assert_eq!(gone.as_deref(), Some("f: 'barrier();' is not in its place"));
    assert_eq!(changed("fn g() {\n}\n", "f", &[]).as_deref(), Some("no function f"));
    // Of several functions of the name one has to have all parts.
    let two = "fn f() {\n    a();\n}\n\nfn f() {\n    b();\n}\n";
    assert_eq!(changed(two, "f", &["b()"]), None);
    assert!(changed(two, "f", &["a()", "b()"]).is_some());
}

/// The lines of the engine on which [A] and [L] rest, moved behind what they have to precede.
#[test]
fn barrier_that_is_moved_behind_the_load_is_found_in_the_engine() {
    let crates = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");
    let moved = |path: &str, function: &str, line: &str, behind: &str| {
        let text = std::fs::read_to_string(format!("{crates}{path}")).expect("it is there");
        let without = text.replacen(line, "", 1);
        assert_ne!(text, without, "{path} has no '{line}'");
        let text = without.replacen(behind, &format!("{behind}{line}"), 1);
        let codes = engine::PAIRS.iter().flat_map(|pair| pair.code);
        let of_function = |code: &&Code| code.0 == path && code.1 == function;
        codes.filter(of_function).filter_map(|(_, name, parts)| changed(&text, name, parts)).count()
    };
    let a = "            wait_barrier(); // [A] pairs with [B]\n";
    assert_ne!(moved("ufutex/src/futex/waiter.rs", "lock_and_compare", a, "match target.load() {\n"), 0);
    let l = "        self.inner().handles.load(Ordering::Acquire); // [L]\n";
    assert_ne!(moved("ufutex/src/sys/counted.rs", "free", l, "dealloc(self.inner.as_ptr().cast(), layout);\n"), 0);
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
