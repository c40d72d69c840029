//! The results of the instructions, and the reasons for which they trap.

use core::fmt;

use crate::error::Error;

/// The result of `memory.atomic.wait32` and `wait64`. `as i32` gives the number that the instruction pushes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(i32)]
pub enum Waited {
    /// "ok": the thread waited, and a notify has come.
    Ok = 0,
    /// "not-equal": the word held another value.
    NotEqual = 1,
    /// "timed-out": no notify came in time.
    TimedOut = 2,
}

/// Why an instruction traps.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Trap {
    /// The address is not a multiple of the width. For a notify the width is 4.
    Unaligned,
    /// The word is not entirely within the memory.
    OutOfBounds,
    /// A wait in a memory that is not shared.
    NotShared,
    /// The runtime has stopped the thread.
    Interrupted,
    /// A failure that the specification does not have: [`Error::NoMemory`] if the domain has
    /// [`DomainOptions::max_waiters`](crate::DomainOptions::max_waiters) waiters already, [`Error::Busy`] if another thread waits
    /// with the same interrupt, [`Error::Fault`] if the memory reports that the word can never be read.
    Refused(Error),
}

impl fmt::Display for Trap {
    /// With the texts of the specification's tests, where they have one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unaligned => f.write_str("unaligned atomic"),
            Self::OutOfBounds => f.write_str("out of bounds memory access"),
            Self::NotShared => f.write_str("expected shared memory"),
            Self::Interrupted => f.write_str("the wait was interrupted"),
            Self::Refused(error) => write!(f, "the wait was refused: {error}"),
        }
    }
}

impl core::error::Error for Trap {}

/// The outcome of a wait, in WebAssembly's terms.
#[inline(always)]
pub(super) fn of(result: Result<(), Error>) -> Result<Waited, Trap> {
    match result {
        Ok(()) => Ok(Waited::Ok),
        Err(Error::Again) => Ok(Waited::NotEqual),
        Err(Error::TimedOut) => Ok(Waited::TimedOut),
        Err(Error::Interrupted) => Err(Trap::Interrupted),
        Err(refusal) => Err(Trap::Refused(refusal)),
    }
}
