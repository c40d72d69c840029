//! Random programs of calls with simulated clocks, on the engine and on a plain model. Each result must be equal to the
//! nanosecond.
//!
//! `UFUTEX_FUZZ_PROGRAMS` sets the number of programs, `UFUTEX_FUZZ_SEED` the seed.

mod generate;
mod model;
mod program;
mod run;

use std::panic::{AssertUnwindSafe, catch_unwind};

use program::Program;

use crate::common::random::Random;
use crate::number;

/// The failure of a program, if any. A panic is a failure.
fn failure(program: &Program) -> Option<String> {
    match catch_unwind(AssertUnwindSafe(|| run::run(program))) {
        Ok(result) => result.err(),
        Err(_) => Some("panicked".to_owned()),
    }
}

/// Removes steps as long as the program still fails.
fn shrink(mut program: Program) -> Program {
    let mut chunk = program.steps.len().div_ceil(2);
    while chunk > 0 {
        let mut at = 0;
        let mut has_shrunk = false;
        while at < program.steps.len() {
            let mut candidate = program.clone();
            candidate.steps.drain(at..(at + chunk).min(program.steps.len()));
            if failure(&candidate).is_some() {
                program = candidate;
                has_shrunk = true;
            } else {
                at += chunk;
            }
        }
        chunk = if has_shrunk { chunk } else { chunk / 2 };
    }
    program
}

#[test]
fn random_programs_agree_with_the_model() {
    let (seed, count) = (number("UFUTEX_FUZZ_SEED", 1), number("UFUTEX_FUZZ_PROGRAMS", 4000));
    for index in 0..count {
        let program = generate::program(Random::of_program(seed, index));
        if failure(&program).is_some() {
            let smallest = shrink(program);
            let failure = failure(&smallest).expect("it failed a moment ago");
            panic!("program {index} of seed {seed} fails, {failure}\n{smallest}");
        }
    }
}
