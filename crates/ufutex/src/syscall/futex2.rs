//! futex_waitv, futex_wake, futex_wait and futex_requeue: a system call for each operation, with flags that describe the word.

use alloc::vec::Vec;
use core::num::NonZeroU32;

use super::futex::{at_least_one, not_negative};
use super::{Calling, Syscall, Words, arguments};
use crate::error::Error;
use crate::futex::numa::NodeFlags;
use crate::futex::wait_any::WaitAnyOperation;
use crate::futex::word::Word;
use crate::sys::clock::{Clock, Timeout};
use crate::sys::mem::{Access, UserMemory};

/// The bits that hold the word's size. 2 means 32 bits, the only size that the kernel supports.
const SIZE_MASK: u32 = 3;
const SIZE_U32: u32 = 2;
const NUMA: u32 = 4;
const MPOL: u32 = 8;
const PRIVATE: u32 = 128;

fn valid(flags: u32) -> Result<u32, Error> {
    let is_known = flags & !(SIZE_MASK | NUMA | MPOL | PRIVATE) == 0;
    if is_known && flags & SIZE_MASK == SIZE_U32 { Ok(flags) } else { Err(Error::Invalid) }
}

impl<'d, 't, 'm, M: UserMemory + ?Sized> Syscall<'d, 't, 'm, M> {
    pub(super) fn futex_waitv(&mut self, args: [u64; 6]) -> Result<Calling<'d, 't, 'm, M>, Error> {
        let [waiters, count, flags, timeout, clock, _] = args;
        let (count, flags) = (count as u32 as usize, flags as u32);
        if flags != 0 || !self.domain.allows_words(count) || waiters == 0 {
            return Err(Error::Invalid);
        }
        self.timeout = self.timeout_on(timeout, clock)?;
        let mut parsed = Vec::new();
        let mut words: Words<'m, M> = Vec::new();
        parsed.try_reserve_exact(count).map_err(|_| Error::NoMemory)?;
        words.try_reserve_exact(count).map_err(|_| Error::NoMemory)?;
        for i in 0..count {
            parsed.push(self.waitv(waiters, i)?);
        }
        for (val, uaddr, flags) in parsed {
            words.push((self.word_of(uaddr, flags, Access::Read)?, val.into()));
        }
        Ok(Calling::WaitAny(WaitAnyOperation::new(self.domain, words, &self.options())))
    }

    pub(super) fn futex_wake(&self, args: [u64; 6]) -> Result<isize, Error> {
        let [uaddr, mask, count, flags, ..] = args;
        let flags = valid(flags as u32)?;
        let mask = u32::try_from(mask).ok().and_then(NonZeroU32::new).ok_or(Error::Invalid)?;
        let word = self.word_of(uaddr, flags, Access::Read)?;
        // Unlike in futex(2), a count of 0 wakes no waiter. A negative count wakes one, as there.
        if count as u32 == 0 {
            return Ok(0);
        }
        Ok(self.domain.try_wake_bitset(word, at_least_one(count as u32), mask)? as isize)
    }

    pub(super) fn futex_wait(&mut self, args: [u64; 6]) -> Result<Calling<'d, 't, 'm, M>, Error> {
        let [uaddr, val, mask, flags, timeout, clock] = args;
        let flags = valid(flags as u32)?;
        let (Ok(val), Ok(mask)) = (u32::try_from(val), u32::try_from(mask)) else {
            return Err(Error::Invalid);
        };
        self.timeout = self.timeout_on(timeout, clock)?;
        let mask = NonZeroU32::new(mask).ok_or(Error::Invalid)?;
        let word = self.word_of(uaddr, flags, Access::Read)?;
        Ok(self.wait_for(word, val, mask))
    }

    pub(super) fn futex_requeue(&self, args: [u64; 6]) -> Result<isize, Error> {
        let [waiters, flags, wake, requeue, ..] = args;
        if flags as u32 != 0 || waiters == 0 {
            return Err(Error::Invalid);
        }
        let ((expected, from, flags), (_, to, flags_of_to)) = (self.waitv(waiters, 0)?, self.waitv(waiters, 1)?);
        if flags != flags_of_to {
            return Err(Error::Invalid);
        }
        let (wake, requeue) = (not_negative(wake as u32)?, not_negative(requeue as u32)?);
        let (from, to) = (self.word_of(from, flags, Access::Read)?, self.word_of(to, flags, Access::Read)?);
        self.requeue_words(from, Some(expected), to, wake, requeue)
    }

    /// The absolute timeout at `address`, on this clock. `None` if `address` is 0, whatever the clock.
    fn timeout_on(&self, address: u64, clock: u64) -> Result<Option<Timeout>, Error> {
        if address == 0 {
            return Ok(None);
        }
        let clock = match clock as i32 {
            0 => Clock::Realtime,
            1 => Clock::Monotonic,
            _ => return Err(Error::Invalid),
        };
        Ok(Some(Timeout::At(clock, arguments::timespec(self.memory, address, self.times)?)))
    }

    /// Reads and checks element `i` of an array of `struct futex_waitv`: value, address and flags.
    fn waitv(&self, array: u64, i: usize) -> Result<(u32, u64, u32), Error> {
        let address = array.checked_add(24 * i as u64).ok_or(Error::Fault)?;
        let [val, uaddr, flags_and_reserved] = arguments::read_words(self.memory, address)?;
        if flags_and_reserved >> 32 != 0 {
            return Err(Error::Invalid);
        }
        let flags = valid(flags_and_reserved as u32)?;
        Ok((u32::try_from(val).map_err(|_| Error::Invalid)?, uaddr, flags))
    }

    fn word_of(&self, uaddr: u64, flags: u32, access: Access) -> Result<Word<'m, M>, Error> {
        let node_flags = NodeFlags { numa: flags & NUMA != 0, mpol: flags & MPOL != 0 };
        let node = self.domain.system.resolve_node(self.memory, uaddr, node_flags)?;
        Ok(self.word(uaddr, flags & PRIVATE != 0, access)?.on_node(node))
    }
}
