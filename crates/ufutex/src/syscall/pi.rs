//! Decodes the operations of futex(2) on locks with priority inheritance.

use super::futex::Args;
#[cfg(feature = "requeue")]
use super::futex::not_negative;
use super::{Calling, GuestCall, Restart, Started};
use crate::error::Error;
use crate::futex::lock_word::TID_MASK;
use crate::futex::pi::lock::LockOperation;
#[cfg(feature = "requeue")]
use crate::futex::pi::requeue::WaitRequeueOperation;
use crate::sys::clock::Timeout;
use crate::sys::mem::{Access, UserMemory};

impl<'d, 't, 'm, M: UserMemory + ?Sized> GuestCall<'d, 't, 'm, M> {
    pub(super) fn lock_pi(&self, args: Args, until: Option<Timeout>) -> Result<Started<'d, 't, 'm, M>, Error> {
        let word = self.word(args.uaddr, args.is_private, Access::Write)?;
        Ok(Started {
            calling: Calling::LockPi(LockOperation::new(self.domain, word, self.task, None)),
            timeout: until,
            relative: None,
            on_interrupt: Restart::Always,
        })
    }

    pub(super) fn try_lock_pi(&self, args: Args) -> Result<isize, Error> {
        let word = self.word(args.uaddr, args.is_private, Access::Write)?;
        self.domain.try_lock_pi(word, self.task).map(|()| 0)
    }

    pub(super) fn unlock_pi(&self, args: Args) -> Result<isize, Error> {
        // The kernel checks the owner before the alignment: an unlock of a misaligned word by another task is EPERM.
        let mut bytes = [0; 4];
        if !self.memory.access_ok(args.uaddr, 4) {
            return Err(Error::Fault);
        }
        self.memory.read(args.uaddr, &mut bytes)?;
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
    pub(super) fn wait_requeue_pi(&self, args: Args, until: Option<Timeout>) -> Result<Started<'d, 't, 'm, M>, Error> {
        if args.uaddr == args.uaddr2 {
            return Err(Error::Invalid);
        }
        let lock = self.word(args.uaddr2, args.is_private, Access::Write)?;
        let from = self.word(args.uaddr, args.is_private, Access::Read)?;
        let wait = WaitRequeueOperation::new(self.domain, from, args.val.into(), lock, self.task, None);
        Ok(Started {
            calling: Calling::WaitRequeuePi(wait),
            timeout: until,
            relative: None,
            on_interrupt: Restart::Always,
        })
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
