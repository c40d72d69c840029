//! A change of the engine.

use std::ops::Range;

/// What a mutant does to the code.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// A memory ordering is the next weaker one.
    Ordering,
    /// A fence or a barrier is not there.
    Fence,
    /// An `if` that returns, breaks or continues never does.
    Recheck,
    /// An operand of a condition, or a comparison, is negated.
    Condition,
}

impl Kind {
    pub const ALL: [Self; 4] = [Self::Ordering, Self::Fence, Self::Recheck, Self::Condition];

    pub fn name(self) -> &'static str {
        match self {
            Self::Ordering => "ordering",
            Self::Fence => "fence",
            Self::Recheck => "recheck",
            Self::Condition => "condition",
        }
    }
}

/// One change of the engine: two insertions around a piece of its text.
#[derive(Clone, PartialEq, Debug)]
pub struct Mutant {
    /// The file, below `crates/ufutex/src`.
    pub file: String,
    pub kind: Kind,
    /// File, function, kind and change. It contains no number of a line, so it lasts while other code changes.
    pub id: String,
    pub line: usize,
    /// The bytes that it changes.
    pub at: Range<usize>,
    /// What is inserted before and behind them. `{active}` and `{number}` stand for its switch and its number.
    pub before: String,
    pub after: String,
}
