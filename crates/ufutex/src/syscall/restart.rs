//! What becomes of a call that a signal has ended: it fails, is made again, or continues by restart_syscall(2).

use core::num::NonZeroU32;

use super::{Calling, Syscall};
use crate::error::Error;
use crate::futex::task::Task;
pub use crate::futex::wait::RestartBlock;
use crate::sys::mem::{Access, UserMemory};

/// The call was interrupted. It is made again if the signal's handler has `SA_RESTART`, or if there was none.
pub const ERESTARTSYS: isize = 512;
/// The call was interrupted. It is made again in any case.
pub const ERESTARTNOINTR: isize = 513;
/// The call was interrupted. If no handler ran, it is continued with [`Number::RestartSyscall`](super::Number::RestartSyscall),
/// which keeps the call's deadline.
pub const ERESTART_RESTARTBLOCK: isize = 516;

/// What an embedder has to do with the result of a system call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Resume {
    /// The program gets this result.
    Return(isize),
    /// The same call is made again, after the handler if one runs.
    Again,
    /// `restart_syscall` is called in place of that call.
    Continue,
}

/// What to do with the `result` of a system call. `handler` is `None` if no signal handler runs. Otherwise it says whether the
/// handler has `SA_RESTART`; then call [`Task::forget_restart`] too.
///
/// ```
/// use ufutex::syscall::{ERESTARTSYS, Resume, resume};
///
/// assert_eq!(resume(-ERESTARTSYS, Some(true)), Resume::Again);
/// assert_eq!(resume(-ERESTARTSYS, Some(false)), Resume::Return(-4)); // EINTR
/// assert_eq!(resume(0, Some(false)), Resume::Return(0));
/// ```
#[must_use]
pub const fn resume(result: isize, handler: Option<bool>) -> Resume {
    let interrupted = Resume::Return(-(Error::Interrupted.errno() as isize));
    match (result.wrapping_neg(), handler) {
        (ERESTARTNOINTR, _) | (ERESTARTSYS, None | Some(true)) => Resume::Again,
        (ERESTARTSYS, Some(false)) | (ERESTART_RESTARTBLOCK, Some(_)) => interrupted,
        (ERESTART_RESTARTBLOCK, None) => Resume::Continue,
        _ => Resume::Return(result),
    }
}

/// How a call goes on after an interruption.
#[derive(Clone, Copy, Debug)]
pub(super) enum Restart {
    Always,
    /// As `ERESTARTSYS`.
    IfAsked,
    Continue(RestartBlock),
}

impl Restart {
    /// The result of an interrupted call of `task`, which notes how a call is to be continued.
    pub fn leave(self, task: &Task) -> isize {
        match self {
            Self::Always => -ERESTARTNOINTR,
            Self::IfAsked => -ERESTARTSYS,
            Self::Continue(wait) => {
                task.set_restart(Some(wait));
                -ERESTART_RESTARTBLOCK
            }
        }
    }
}

impl<'d, 't, 'm, M: UserMemory + ?Sized> Syscall<'d, 't, 'm, M> {
    /// `restart_syscall`.
    pub(super) fn restart(&mut self) -> Result<Calling<'d, 't, 'm, M>, Error> {
        let RestartBlock { address, expected, bitset, is_private, timeout } =
            self.task.take_restart().ok_or(Error::Interrupted)?;
        self.timeout = Some(timeout);
        self.restartable_wait(address, is_private, expected, bitset)
    }

    pub(super) fn restartable_wait(
        &mut self,
        address: u64,
        is_private: bool,
        expected: u32,
        bitset: NonZeroU32,
    ) -> Result<Calling<'d, 't, 'm, M>, Error> {
        let word = self.word(address, is_private, Access::Read)?;
        if let Some(timeout) = self.timeout {
            self.on_interrupt = Restart::Continue(RestartBlock { address, expected, bitset, is_private, timeout });
        }
        Ok(self.wait_for(word, expected, bitset))
    }
}
