//! The steps of random programs.

use std::fmt;

use ufutex::timer::{Notify, TimerClock};

/// The timer of a step: a number modulo the known timers, or an ID.
#[derive(Clone, Copy, Debug)]
pub enum Which {
    Known(usize),
    Id(i32),
}

#[derive(Clone, Debug)]
pub enum Step {
    Create(TimerClock, Option<Notify>),
    CreateAs(i32, TimerClock, Option<Notify>),
    /// The timer, absolute or not, value and interval in nanoseconds. An absolute value is relative to the current
    /// time.
    Set(Which, Option<Absolute>, u64, u64),
    Get(Which),
    Overrun(Which),
    Delete(Which),
    /// Takes the notice with this index, and keeps or discards it.
    Take(usize, Keep),
    /// Advances all clocks.
    Advance(u64),
    /// Advances all clocks and the CPU times of the process and its thread.
    Spend(u64),
    /// Sets the realtime clock, and TAI with it.
    Jump(i64),
    Turn,
    /// Ends the thread with the CPU-time clock.
    EndThread,
    Clear,
}

/// The base of an absolute value.
#[derive(Clone, Copy, Debug)]
pub enum Absolute {
    Epoch,
    /// This many nanoseconds before the clock's current time.
    BeforeNow(u64),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Keep {
    Keep,
    Drop,
}

/// Steps, each with the index of one of two processes that share a driver.
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
