//! The operations of programs, and calls of them with their results.

use std::fmt;

use crate::common::libc;

/// A setting in nanoseconds: value, interval.
pub type Setting = (u64, u64);

/// An operation that has been made, with its result or errno.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Made {
    Create(Result<i32, i32>),
    /// The timer, whether the value is absolute, the new setting, the old one.
    Set(i32, bool, Setting, Result<Setting, i32>),
    Get(i32, Result<Setting, i32>),
    Overrun(i32, Result<i32, i32>),
    Delete(i32, Result<(), i32>),
    /// Takes the notice with this number, of this timer. The overrun, or `None` if the notice is void.
    Take(usize, i32, Option<i32>),
    /// Advances the clock.
    Advance(u64),
    /// Expires the timers that are due.
    Turn,
    /// A turn delivers the notice with this number, of this timer.
    Expire(usize, i32),
}

/// As futex(2) and timer_create(2) are written: a number, or an error's name.
struct Shown<'r, T>(&'r Result<T, i32>);

impl<T: fmt::Debug> fmt::Display for Shown<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Ok(value) => write!(f, "{value:?}"),
            Err(libc::EINVAL) => f.write_str("EINVAL"),
            Err(libc::EAGAIN) => f.write_str("EAGAIN"),
            Err(errno) => write!(f, "errno {errno}"),
        }
    }
}

impl fmt::Display for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create(id) => write!(f, "create = {}", Shown(id)),
            Self::Set(id, is_absolute, new, old) => {
                write!(f, "set timer {id} {} {new:?} = {}", if *is_absolute { "to" } else { "after" }, Shown(old))
            }
            Self::Get(id, setting) => write!(f, "get timer {id} = {}", Shown(setting)),
            Self::Overrun(id, overrun) => write!(f, "overrun of timer {id} = {}", Shown(overrun)),
            Self::Delete(id, done) => write!(f, "delete timer {id} = {}", Shown(done)),
            Self::Take(notice, id, overrun) => write!(f, "take notice {notice} of timer {id} = {overrun:?}"),
            Self::Advance(by) => write!(f, "advance by {by}"),
            Self::Turn => f.write_str("turn"),
            Self::Expire(notice, id) => write!(f, "notice {notice}: timer {id} expires"),
        }
    }
}
