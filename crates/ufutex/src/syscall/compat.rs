//! The calls of 32-bit programs: the same operations, behind arguments of another size.

use super::arguments::Timespec;
use super::number::Compat;
use super::{GuestCall, Started};
use crate::error::Error;
use crate::futex::robust::Pointers;
use crate::sys::mem::UserMemory;

impl<'d, 't, 'm, M: UserMemory + ?Sized> GuestCall<'d, 't, 'm, M> {
    pub fn compat(mut self, call: Compat, args: [u64; 6]) -> Result<Started<'d, 't, 'm, M>, Error> {
        let args = args.map(|register| u64::from(register as u32));
        self.times = if call == Compat::FutexTime32 { Timespec::Narrow } else { Timespec::Padded };
        match call {
            Compat::FutexTime32 | Compat::FutexTime64 => self.futex(args),
            Compat::FutexWaitv => self.futex_waitv(args),
            Compat::FutexWake => self.futex_wake(args).map(Started::done),
            Compat::FutexWait => self.futex_wait(args),
            Compat::FutexRequeue => self.futex_requeue(args).map(Started::done),
            Compat::SetRobustList => self.set_robust_list(Pointers::Narrow, args).map(Started::done),
            Compat::GetRobustList => self.get_robust_list(Pointers::Narrow, args).map(Started::done),
            Compat::SetTidAddress => Ok(Started::done(self.set_tid_address(args))),
        }
    }
}
