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

use crate::common::random::{Random, fewest, number};

/// The failure of a program, if any. A panic is a failure.
fn failure(program: &Program) -> Option<String> {
    match catch_unwind(AssertUnwindSafe(|| run::run(program))) {
        Ok(result) => result.err(),
        Err(_) => Some("panicked".to_owned()),
    }
}

#[test]
fn random_programs_agree_with_the_model() {
    let (seed, count) = (number("UFUTEX_FUZZ_SEED", 1), number("UFUTEX_FUZZ_PROGRAMS", 4000));
    for index in 0..count {
        let program = generate::program(Random::of_program(seed, index));
        if failure(&program).is_some() {
            let with = |steps: &[_]| Program { steps: steps.to_vec(), ..program };
            let smallest = with(&fewest(program.steps.clone(), |steps| failure(&with(steps)).is_some()));
            let failure = failure(&smallest).expect("it failed a moment ago");
            panic!("program {index} of seed {seed} fails, {failure}\n{smallest}");
        }
    }
}
