//! What the instructions answer, and why they trap.

use core::fmt;

use crate::error::Error;

/// What `memory.atomic.wait32` and `wait64` push: `as i32` gives the number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(i32)]
pub enum Waited {
    /// "ok": it has waited, and a notify has come.
    Ok = 0,
    /// "not-equal": the word held another value.
    NotEqual = 1,
    /// "timed-out": no notify came in time.
    TimedOut = 2,
}

/// Why an instruction ends its guest's thread.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Trap {
    /// The address is not a multiple of the width; for a notify, of four.
    Unaligned,
    /// The word is not, or not as a whole, within the memory.
    OutOfBounds,
    /// A wait in a memory that is not shared.
    NotShared,
    /// The runtime has stopped the thread.
    Interrupted,
    /// Not foreseen by the specification: [`Error::NoMemory`] when as many wait as may
    /// ([`Options::max_waiters`](crate::Options::max_waiters)), [`Error::Busy`] when another thread waits with the same interrupt,
    /// [`Error::Fault`] when the memory says that the word will never be there.
    Refused(Error),
}

impl fmt::Display for Trap {
    /// In the words of the specification's tests, where they have some.
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
