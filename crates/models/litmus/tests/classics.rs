//! The checker's own tests: classic litmus tests with known verdicts. They need each part of each model.

use ufutex_litmus::program::Test;
use ufutex_litmus::{MODELS, Model};

/// Name, threads and outcome. All locations are 0 at first. Then the verdicts in RC11, x86-64, Armv8 and RISC-V: `A` if
/// the outcome is allowed, `F` if it is forbidden.
type Classic = (&'static str, &'static str, &'static str, &'static str);

#[rustfmt::skip]
const CLASSICS: &[Classic] = &[
    // Store buffering.
    ("SB", "P0 | P1 \n x = 1 | y = 1 \n a = y | b = x", "a == 0 && b == 0", "AAAA"),
    ("SB+rel-acq", "P0 | P1 \n x = 1 rel | y = 1 rel \n a = y acq | b = x acq", "a == 0 && b == 0", "AAAA"),
    ("SB+sc", "P0 | P1 \n x = 1 sc | y = 1 sc \n a = y sc | b = x sc", "a == 0 && b == 0", "FFFF"),
    ("SB+sc+one-acq", "P0 | P1 \n x = 1 sc | y = 1 sc \n a = y sc | b = x acq", "a == 0 && b == 0", "AFAA"),
    ("SB+fences", "P0 | P1 \n x = 1 | y = 1 \n fence sc | fence sc \n a = y | b = x", "a == 0 && b == 0", "FFFF"),
    ("SB+fence", "P0 | P1 \n x = 1 | y = 1 \n fence sc | \n a = y | b = x", "a == 0 && b == 0", "AAAA"),
    ("SB+acqrel-fences", "P0 | P1 \n x = 1 | y = 1 \n fence acqrel | fence acqrel \n a = y | b = x",
     "a == 0 && b == 0", "AAFA"),
    ("SB+rmws", "P0 | P1 \n x <- 1 acqrel | y <- 1 acqrel \n a = y | b = x", "a == 0 && b == 0", "AFAF"),
    ("SB+rmw-of-one-word", "P0 | P1 \n x = 1 | y = 1 \n z += 1 acqrel | z += 1 acqrel \n a = y | b = x",
     "a == 0 && b == 0", "FFFF"),
    ("SB+membarrier", "P0 | P1 \n x = 1 | y = 1 \n compiler fence | membarrier \n a = y | b = x",
     "a == 0 && b == 0", "FFFF"),
    // Message passing.
    ("MP", "P0 | P1 \n x = 1 | a = y \n y = 1 | b = x", "a == 1 && b == 0", "AFAA"),
    ("MP+rel+acq", "P0 | P1 \n x = 1 | a = y acq \n y = 1 rel | b = x", "a == 1 && b == 0", "FFFF"),
    ("MP+rel+rlx", "P0 | P1 \n x = 1 | a = y \n y = 1 rel | b = x", "a == 1 && b == 0", "AFAA"),
    ("MP+rlx+acq", "P0 | P1 \n x = 1 | a = y acq \n y = 1 | b = x", "a == 1 && b == 0", "AFAA"),
    ("MP+fences", "P0 | P1 \n x = 1 | a = y \n fence rel | fence acq \n y = 1 | b = x", "a == 1 && b == 0", "FFFF"),
    ("MP+ctrl", "P0 | P1 \n x = 1 | a = y \n y = 1 rel | if a == 1: b = x", "a == 1 && b == 0", "AFAA"),
    ("MP+na", "P0 | P1 \n x = 1 na | a = y acq \n y = 1 rel | if a == 1: b = x na", "a == 1 && b == 0", "FFFF"),
    ("MP+na+race", "P0 | P1 \n x = 1 na | a = y acq \n y = 1 | if a == 1: b = x na", "a == 1 && b == 7", "AFFF"),
    ("MP+sequence", "P0 | P1 | P2 \n x = 1 | y += 1 | a = y acq \n y = 1 rel | | b = x", "a == 2 && b == 0", "FFFF"),
    ("MP+sequence-of-exchange", "P0 | P1 | P2 \n x = 1 | await y == 1 | a = y acq \n y = 1 rel | y <- 2 | b = x",
     "a == 2 && b == 0", "FFFF"),
    // C++11 forbids it: in C++20 the second store ends the sequence.
    ("MP+store-after", "P0 | P1 \n x = 1 | a = y acq \n y = 1 rel | b = x \n y = 2 |", "a == 2 && b == 0", "AFFF"),
    ("MP+store-between", "P0 | P1 | P2 \n x = 1 | await y == 1 | a = y acq \n y = 1 rel | y = 2 | b = x",
     "a == 2 && b == 0", "AFFF"),
    // Load buffering. C++11 allows it; RC11 forbids cycles in program order and what is read.
    ("LB", "P0 | P1 \n a = x | b = y \n y = 1 | x = 1", "a == 1 && b == 1", "FFAA"),
    ("LB+acq", "P0 | P1 \n a = x acq | b = y acq \n y = 1 | x = 1", "a == 1 && b == 1", "FFFF"),
    ("LB+ctrls", "P0 | P1 \n a = x | b = y \n if a == 1: y = 1 | if b == 1: x = 1", "a == 1 && b == 1", "FFFF"),
    ("LB+rmw", "P0 | P1 \n a = x <- 2 | b = y \n y = 1 | x = 1", "a == 1 && b == 1", "FFAA"),
    ("LB+datas", "P0 | P1 \n a = x | b = y \n y = a | x = b", "a == 1 && b == 1", "FFFF"),
    ("LB+data+one", "P0 | P1 \n a = x | b = y \n y = a | x = 1", "a == 1 && b == 1", "FFAA"),
    ("LB+data+data", "P0 | P1 \n a = x | b = y \n c = z <- a | d = w <- b \n y = 1 | x = 1",
     "a == 1 && b == 1", "FFAA"),
    // Independent reads of independent writes.
    ("IRIW", "P0 | P1 | P2 | P3 \n x = 1 | y = 1 | a = x | c = y \n | | b = y | d = x",
     "a == 1 && b == 0 && c == 1 && d == 0", "AFAA"),
    ("IRIW+acq", "P0 | P1 | P2 | P3 \n x = 1 rel | y = 1 rel | a = x acq | c = y acq \n | | b = y acq | d = x acq",
     "a == 1 && b == 0 && c == 1 && d == 0", "AFFF"),
    ("IRIW+sc", "P0 | P1 | P2 | P3 \n x = 1 sc | y = 1 sc | a = x sc | c = y sc \n | | b = y sc | d = x sc",
     "a == 1 && b == 0 && c == 1 && d == 0", "FFFF"),
    // As the paper has it, to be compiled to Power: the first loads are Acquire.
    ("IRIW+acq-sc", "P0 | P1 | P2 | P3 \n x = 1 sc | y = 1 sc | a = x acq | c = y acq \n | | b = y sc | d = x sc",
     "a == 1 && b == 0 && c == 1 && d == 0", "AFFF"),
    ("IRIW+fences",
     "P0 | P1 | P2 | P3 \n x = 1 | y = 1 | a = x | c = y \n | | fence sc | fence sc \n | | b = y | d = x",
     "a == 1 && b == 0 && c == 1 && d == 0", "FFFF"),
    // Two writes each.
    ("2+2W", "P0 | P1 \n x = 1 | y = 1 \n y = 2 | x = 2", "x == 1 && y == 1", "AFAA"),
    ("2+2W+rel", "P0 | P1 \n x = 1 | y = 1 \n y = 2 rel | x = 2 rel", "x == 1 && y == 1", "AFFF"),
    ("2+2W+sc", "P0 | P1 \n x = 1 sc | y = 1 sc \n y = 2 sc | x = 2 sc", "x == 1 && y == 1", "FFFF"),
    ("2+2W+fences", "P0 | P1 \n x = 1 | y = 1 \n fence sc | fence sc \n y = 2 | x = 2", "x == 1 && y == 1", "FFFF"),
    // One location.
    ("CoRR", "P0 | P1 \n x = 1 | a = x \n | b = x", "a == 1 && b == 0", "FFFF"),
    ("CoRR2", "P0 | P1 | P2 | P3 \n x = 1 | x = 2 | a = x | c = x \n | | b = x | d = x",
     "a == 1 && b == 2 && c == 2 && d == 1", "FFFF"),
    ("CoWW", "P0 \n x = 1 \n x = 2", "x == 1", "FFFF"),
    ("CoWR", "P0 | P1 \n x = 1 | x = 2 \n a = x |", "a == 2 && x == 1", "FFFF"),
    ("CoRW1", "P0 \n a = x \n x = 1", "a == 1", "FFFF"),
    ("CoRW2", "P0 | P1 \n a = x | x = 2 \n x = 1 |", "a == 2 && x == 2", "FFFF"),
    // Read-modify-writes.
    ("RMW+RMW", "P0 | P1 \n a = x += 1 | b = x += 1", "a == 0 && b == 0", "FFFF"),
    ("RMW+store", "P0 | P1 \n a = x += 1 | x = 5", "a == 0 && x == 1", "FFFF"),
    ("RMW+store-between", "P0 | P1 \n a = x += 1 | x = 5 \n | b = x", "a == 0 && b == 5 && x == 1", "FFFF"),
    ("CAS+CAS", "P0 | P1 \n a = try x: 0 -> 1 | b = try x: 0 -> 2", "a == 0 && b == 0", "FFFF"),
    ("CAS+fails", "P0 | P1 \n a = try x: 0 -> 1 | b = try x: 0 -> 2", "a == 0 && b == 1 && x == 1", "AAAA"),
    // What a read-modify-write reads comes before what it writes, and what it writes before an Acquire load of it.
    ("RMW+causality", "P0 | P1 | P2 \n a = y <- 1 | b = y acq | c = z acq \n | z = 1 | y = 2",
     "a == 2 && b == 1 && c == 1", "FFFF"),
    ("SB+rmw-forwarded", "P0 | P1 \n y <- 1 | x = 1 \n a = y acq | fence sc \n b = x | c = y",
     "a == 1 && b == 0 && c == 0", "AFFF"),
    ("SB+cas-forwarded", "P0 | P1 \n y: 0 -> 1 | x = 1 \n a = y acq | fence sc \n b = x | c = y",
     "a == 1 && b == 0 && c == 0", "AFFF"),
    // Causality.
    ("WRC", "P0 | P1 | P2 \n x = 1 | a = x | b = y \n | y = 1 | c = x", "a == 1 && b == 1 && c == 0", "AFAA"),
    ("WRC+rel-acq", "P0 | P1 | P2 \n x = 1 | a = x acq | b = y acq \n | y = 1 rel | c = x",
     "a == 1 && b == 1 && c == 0", "FFFF"),
    ("ISA2", "P0 | P1 | P2 \n x = 1 | a = y acq | b = z acq \n y = 1 rel | z = 1 rel | c = x",
     "a == 1 && b == 1 && c == 0", "FFFF"),
    ("S", "P0 | P1 \n x = 2 | a = y acq \n y = 1 rel | x = 1", "a == 1 && x == 2", "FFFF"),
    ("S+rlx", "P0 | P1 \n x = 2 | a = y \n y = 1 | x = 1", "a == 1 && x == 2", "AFAA"),
    ("S+data", "P0 | P1 \n x = 2 | a = y \n y = 1 rel | x = a", "a == 1 && x == 2", "AFFF"),
    ("R", "P0 | P1 \n x = 1 | y = 2 \n y = 1 | a = x", "y == 2 && a == 0", "AAAA"),
    ("R+rel-acq", "P0 | P1 \n x = 1 | y = 2 rel \n y = 1 rel | a = x acq", "y == 2 && a == 0", "AAAA"),
    ("R+fences", "P0 | P1 \n x = 1 | y = 2 \n fence sc | fence sc \n y = 1 | a = x", "y == 2 && a == 0", "FFFF"),
    ("R+sc", "P0 | P1 \n x = 1 sc | y = 2 sc \n y = 1 sc | a = x sc", "y == 2 && a == 0", "FFFF"),
    // C++11 allows these two in spite of the fences; RC11 forbids them.
    ("RWC+fences", "P0 | P1 | P2 \n x = 1 | a = x | y = 1 \n | fence sc | fence sc \n | b = y | c = x",
     "a == 1 && b == 0 && c == 0", "FFFF"),
    ("W+RWC", "P0 | P1 | P2 \n x = 1 | a = y acq | z = 1 \n y = 1 rel | fence sc | fence sc \n | b = z | c = x",
     "a == 1 && b == 0 && c == 0", "FFFF"),
    ("RWC+acq", "P0 | P1 | P2 \n x = 1 rel | a = x acq | y = 1 rel \n | b = y acq | c = x acq",
     "a == 1 && b == 0 && c == 0", "AAAA"),
    // C++11 forbids it; RC11 allows it, as Power shows it when compiled as usual.
    ("Z6.U", "P0 | P1 | P2 \n x = 1 sc | b = y += 1 sc | y = 3 sc \n y = 1 rel | c = y | a = x sc",
     "b == 1 && c == 3 && a == 0", "AFFF"),
    // What an acquiring compare-and-swap lets pass on Armv8: the load that follows passes its store.
    ("SB+acquiring-cas", "P0 | P1 \n x: 0 -> 1 acq | y = 1 \n | fence sc \n a = y | b = x",
     "a == 0 && b == 0", "AFAA"),
];

fn test((name, program, outcome, _): &Classic) -> Test {
    Test::new(name, "x = 0, y = 0, z = 0, w = 0", program, outcome)
}

fn wrong(classic: &Classic, model: &Model, verdict: char, without: Option<&str>) -> Option<String> {
    let allowed = model.allows_without(without, &test(classic));
    (allowed != (verdict == 'A'))
        .then(|| format!("{}: {} {}", classic.0, model.name, if allowed { "allows it" } else { "forbids it" }))
}

#[test]
fn classic_tests_have_their_known_verdicts() {
    let of = |classic: &'static Classic| {
        MODELS.iter().zip(classic.3.chars()).filter_map(|(model, verdict)| wrong(classic, model, verdict, None))
    };
    let wrong: Vec<_> = CLASSICS.iter().flat_map(of).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn classic_tests_need_each_part_of_each_model() {
    let mut idle = Vec::new();
    for (place, model) in MODELS.iter().enumerate() {
        for part in model.parts {
            let verdict = |classic: &Classic| classic.3.chars().nth(place).expect("one for each model");
            let fails = |classic: &&Classic| wrong(classic, model, verdict(classic), Some(part)).is_some();
            let found: Vec<_> = CLASSICS.iter().filter(fails).map(|classic| classic.0).collect();
            println!("{} without '{part}': {} are wrong: {}", model.name, found.len(), found.join(" "));
            idle.extend(found.is_empty().then(|| format!("{}: {part}", model.name)));
        }
    }
    assert!(idle.is_empty(), "no classic test needs these parts:\n{}", idle.join("\n"));
}
