//! Decodes the requeues of futex(2), and requeues for it and for futex_requeue(2).

#[cfg(not(feature = "requeue"))]
use core::num::NonZeroU32;

use super::GuestCall;
use super::futex::{Args, not_negative};
use crate::error::Error;
#[cfg(not(feature = "requeue"))]
use crate::futex::key::Target;
#[cfg(feature = "requeue")]
use crate::futex::requeue::Requeue;
use crate::futex::word::Word;
use crate::sys::mem::{Access, UserMemory};
#[cfg(not(feature = "requeue"))]
use crate::sys::mem::{Fault, Faults};

impl<'m, M: UserMemory + ?Sized> GuestCall<'_, '_, 'm, M> {
    pub(super) fn requeue(&self, args: Args, expected: Option<u32>) -> Result<isize, Error> {
        let (wake, requeue) = (not_negative(args.val)?, not_negative(args.val2)?);
        let from = self.word(args.uaddr, args.is_private, Access::Read)?;
        let to = self.word(args.uaddr2, args.is_private, Access::Read)?;
        self.requeue_words(from, expected, to, wake, requeue)
    }

    #[cfg(feature = "requeue")]
    pub(super) fn requeue_words(
        &self,
        from: Word<'m, M>,
        expected: Option<u32>,
        to: Word<'m, M>,
        wake: usize,
        requeue: usize,
    ) -> Result<isize, Error> {
        let done = match expected {
            Some(expected) => self.domain.cmp_requeue(from, expected.into(), to, Requeue { wake, requeue })?,
            None => self.domain.requeue(from, to, Requeue { wake, requeue })?,
        };
        Ok((done.woken + done.requeued) as isize)
    }

    /// A build without requeues wakes the waiters that it cannot move. They see a wake that was not for them, which
    /// every user of futex(2) has to expect. C libraries take it for granted that a kernel has this call, and ignore
    /// its errors.
    #[cfg(not(feature = "requeue"))]
    pub(super) fn requeue_words(
        &self,
        from: Word<'m, M>,
        expected: Option<u32>,
        _to: Word<'m, M>,
        wake: usize,
        requeue: usize,
    ) -> Result<isize, Error> {
        let mut faults = Faults::default();
        while let Some(expected) = expected {
            match from.load() {
                Ok(value) if value == u64::from(expected) => break,
                Ok(_) => return Err(Error::Again),
                Err(Fault) => faults.resolve(|| from.fault_in(Access::Read))?,
            }
        }
        Ok(self.domain.try_wake_bitset(from, wake.saturating_add(requeue), NonZeroU32::MAX)? as isize)
    }
}
