//! Locks with priority inheritance, by futex(2).

use super::futex::Args;
#[cfg(feature = "requeue")]
use super::futex::not_negative;
use super::{Calling, GuestCall, Restart, arguments};
use crate::error::Error;
use crate::futex::lock_word::TID_MASK;
use crate::futex::wait::WaitOptions;
use crate::sys::mem::{Access, UserMemory};

impl<'d, 't, 'm, M: UserMemory + ?Sized> GuestCall<'d, 't, 'm, M> {
    pub(super) fn lock_pi(&mut self, args: Args) -> Result<Calling<'d, 't, 'm, M>, Error> {
        let word = self.word(args.uaddr, args.is_private, Access::Write)?;
        self.on_interrupt = Restart::Always;
        Ok(Calling::LockPi(self.domain.lock_pi_async(word, self.task, &WaitOptions::new())))
    }

    pub(super) fn try_lock_pi(&self, args: Args) -> Result<isize, Error> {
        let word = self.word(args.uaddr, args.is_private, Access::Write)?;
        self.domain.try_lock_pi(word, self.task).map(|()| 0)
    }

    pub(super) fn unlock_pi(&self, args: Args) -> Result<isize, Error> {
        // The kernel checks the owner before the alignment: an unlock of a misaligned word by another task is EPERM.
        let mut bytes = [0; 4];
        arguments::read(self.memory, args.uaddr, &mut bytes)?;
        if u32::from_le_bytes(bytes) & TID_MASK != self.task.tid() {
            return Err(Error::NotPermitted);
        }
        let word = self.word(args.uaddr, args.is_private, Access::Write)?;
        self.domain.unlock_pi(word, self.task)?;
        if args.is_robust_unlock {
            self.clear_pending(args.uaddr2)?;
        }
        Ok(0)
    }

    #[cfg(feature = "requeue")]
    pub(super) fn wait_requeue_pi(&mut self, args: Args) -> Result<Calling<'d, 't, 'm, M>, Error> {
        if args.uaddr == args.uaddr2 {
            return Err(Error::Invalid);
        }
        let lock = self.word(args.uaddr2, args.is_private, Access::Write)?;
        let from = self.word(args.uaddr, args.is_private, Access::Read)?;
        self.on_interrupt = Restart::Always;
        let wait = self.domain.wait_requeue_pi_async(from, args.val.into(), lock, self.task, &WaitOptions::new());
        Ok(Calling::WaitRequeuePi(wait))
    }

    #[cfg(feature = "requeue")]
    pub(super) fn cmp_requeue_pi(&self, args: Args) -> Result<isize, Error> {
        let (wake, requeue) = (not_negative(args.val)?, not_negative(args.val2)?);
        if args.uaddr == args.uaddr2 || wake != 1 {
            return Err(Error::Invalid);
        }
        let from = self.word(args.uaddr, args.is_private, Access::Read)?;
        let lock = self.word(args.uaddr2, args.is_private, Access::Write)?;
        Ok(self.domain.cmp_requeue_pi(from, args.val3.into(), lock, requeue)? as isize)
    }
}
