//! Requeues by futex(2) and futex_requeue(2).

use super::Caller;
use super::futex::{Args, not_negative};
use crate::error::Error;
use crate::futex::requeue::Requeue;
use crate::futex::word::Word;
use crate::sys::mem::{Access, UserMemory};
use crate::table::refs::Scheme;

impl<'m, M: UserMemory + ?Sized, S: Scheme> Caller<'_, '_, 'm, M, S> {
    pub(super) fn requeue(&self, args: Args, expected: Option<u32>) -> Result<isize, Error> {
        let (wake, requeue) = (not_negative(args.val)?, not_negative(args.val2)?);
        let from = self.word(args.uaddr, args.is_private, Access::Read)?;
        let to = self.word(args.uaddr2, args.is_private, Access::Read)?;
        self.requeue_words(from, expected, to, wake, requeue)
    }

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
}
