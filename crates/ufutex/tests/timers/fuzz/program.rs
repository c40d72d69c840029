//! What a random program does, step by step.

use std::fmt;

use ufutex::timer::{Notify, TimerClock};

/// Which timer a step is about: a number that is cut to those that there are, or an ID.
#[derive(Clone, Copy, Debug)]
pub enum Which {
    Known(usize),
    Id(i32),
}

#[derive(Clone, Debug)]
pub enum Step {
    Create(TimerClock, Option<Notify>),
    CreateAs(i32, TimerClock, Option<Notify>),
    /// Absolute or not; value and interval in nanoseconds. An absolute value is one from now, below 0 before now.
    Set(Which, Option<Absolute>, u64, u64),
    Get(Which),
    Overrun(Which),
    Delete(Which),
    /// Takes this one of the notices that have come, and keeps it or throws it away.
    Take(usize, Keep),
    /// All clocks go on.
    Advance(u64),
    /// All clocks go on, and so does the CPU time of a process and a thread of it.
    Spend(u64),
    /// Real time jumps, and TAI with it.
    Jump(i64),
    Turn,
    /// The thread ends whose CPU time there is.
    EndThread,
    Clear,
}

/// What an absolute value counts from.
#[derive(Clone, Copy, Debug)]
pub enum Absolute {
    Epoch,
    /// So many nanoseconds before what the clock shows.
    BeforeNow(u64),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Keep {
    Keep,
    Drop,
}

/// Steps, each of one of two processes that have the same driver.
#[derive(Clone)]
pub struct Program {
    pub max_timers: usize,
    pub max_id: i32,
    pub steps: Vec<(usize, Step)>,
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "at most {} timers in process 0, IDs up to {}", self.max_timers, self.max_id)?;
        self.steps.iter().try_for_each(|(process, step)| writeln!(f, "{process}: {step:?}"))
    }
}
