//! Checks litmus tests: small programs of two to four threads with an outcome that a memory model allows or forbids.
//!
//! [`program`] reads a test in the notation of ORDERING.md, a column a thread. [`candidates`] enumerates its candidate
//! executions: what each load reads, and in which order the stores to each location come. [`rc11`] and [`hardware`] say
//! which of them are consistent with a memory model. [`weaken`] weakens each labelled ordering and checks again. The
//! pairs of ORDERING.md are in `tests/pairs`, and the checker's own tests in `tests/classics.rs`.

pub mod candidates;
pub mod hardware;
pub mod program;
pub mod rc11;
pub mod relation;
pub mod weaken;

use candidates::Execution;
use program::Test;

/// A memory model: its name, and its axioms.
#[derive(Clone, Copy)]
pub struct Model {
    /// As it is printed.
    pub name: &'static str,
    /// The parts that can be left out, to prove that the classic tests need each of them. The axioms "per location" and
    /// "atomicity" are checked by the enumeration.
    pub parts: &'static [&'static str],
    /// Whether an execution is consistent, with one part left out.
    consistent: fn(&Execution, Option<&str>) -> bool,
    /// Whether a consistent execution has a data race, which allows every outcome.
    races: fn(&Execution) -> bool,
}

/// The models that each test is checked in: the language first.
pub const MODELS: [Model; 4] = [rc11::RC11, hardware::X86, hardware::ARMV8, hardware::RVWMO];

impl Model {
    /// Whether the model allows the outcome of `test`.
    pub fn allows(&self, test: &Test) -> bool {
        self.allows_without(None, test)
    }

    /// As [`allows`](Self::allows), with a part of the model left out.
    pub fn allows_without(&self, part: Option<&str>, test: &Test) -> bool {
        test.placements().iter().any(|test| {
            candidates::any(test, part, |execution, has_outcome| {
                (has_outcome || execution.has_plain) && (self.consistent)(execution, part) && {
                    has_outcome || (self.races)(execution)
                }
            })
        })
    }
}
