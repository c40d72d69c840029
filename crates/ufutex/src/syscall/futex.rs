//! futex(2): one system call with thirteen operations.

use core::num::NonZeroU32;

use super::{Calling, Number, Restart, Syscall, arguments};
use crate::error::Error;
use crate::futex::domain::Domain;
use crate::futex::key::Address;
use crate::futex::lock_word::TID_MASK;
#[cfg(feature = "pi")]
use crate::futex::pi::{lock::LockOperation, requeue::WaitRequeueOperation};
use crate::futex::requeue::Requeue;
use crate::futex::wake_op::{Compare, Modify, WakeOp};
use crate::futex::word::Word;
use crate::sys::clock::{Clock, Timeout};
use crate::sys::mem::{Access, UserMemory, Width, store};

const WAIT: u32 = 0;
const WAKE: u32 = 1;
const REQUEUE: u32 = 3;
const CMP_REQUEUE: u32 = 4;
const WAKE_OP: u32 = 5;
const LOCK_PI: u32 = 6;
const UNLOCK_PI: u32 = 7;
const TRYLOCK_PI: u32 = 8;
const WAIT_BITSET: u32 = 9;
const WAKE_BITSET: u32 = 10;
const WAIT_REQUEUE_PI: u32 = 11;
const CMP_REQUEUE_PI: u32 = 12;
const LOCK_PI2: u32 = 13;

const PRIVATE_FLAG: u32 = 128;
const CLOCK_REALTIME: u32 = 256;
/// Since Linux 7.2: the call includes the other steps of a robust unlock, so that a killed thread leaves nothing undone. A wake
/// also stores 0 in its word first. `uaddr2` points to the thread's `list_op_pending`, which the call clears.
const ROBUST_UNLOCK: u32 = 512;

/// Without a timeout the clock does not matter.
const WAIT_BITSET_REALTIME: u32 = WAIT_BITSET | CLOCK_REALTIME;

impl Domain {
    /// Makes a system call if it is one of those that programs make most, and ends at once: futex(2), for a wake of a private
    /// word, or for a wait that finds another value there. `None`: nothing has been done.
    ///
    /// It needs no task, and no room for a call that may wait. [`syscall`](Self::syscall) begins with it. For a guest thread
    /// that is no thread of the host, call it before [`syscall_async`](Self::syscall_async).
    ///
    /// ```
    /// use ufutex::{Domain, FlatMemory, System, syscall::Number};
    ///
    /// let (domain, word) = (Domain::new(&System::new()), std::sync::atomic::AtomicU32::new(7));
    /// // SAFETY: the calls below name only `word`.
    /// let memory = unsafe { FlatMemory::of_this_program() };
    /// let call = |op, value| domain.syscall_at_once(&memory, Number::Futex, &[word.as_ptr() as u64, op, value, 0, 0, 0]);
    /// assert_eq!(call(128, 8), Some(-11)); // FUTEX_WAIT_PRIVATE: EAGAIN
    /// assert_eq!(call(128, 7), None); // it would wait
    /// assert_eq!(call(129, 1), Some(0)); // FUTEX_WAKE_PRIVATE: nobody waits
    /// ```
    #[inline(always)]
    pub fn syscall_at_once<M: UserMemory + ?Sized>(
        &self,
        memory: &M,
        number: Number,
        &[uaddr, op, val, utime, _, val3]: &[u64; 6],
    ) -> Option<isize> {
        if number != Number::Futex {
            return None;
        }
        // `^` removes the flag. A call without it gets it here, and is none of these.
        let (command, val) = (op as u32 ^ PRIVATE_FLAG, val as u32);
        let bitset = match command {
            WAIT | WAKE => NonZeroU32::MAX,
            WAIT_BITSET | WAIT_BITSET_REALTIME | WAKE_BITSET => NonZeroU32::new(val3 as u32)?,
            _ => return None,
        };
        // An address that is refused is left to `syscall`, which has the kernel's order of errors.
        if !uaddr.is_multiple_of(4) || !memory.access_ok(uaddr, 4) {
            return None;
        }
        if matches!(command, WAKE | WAKE_BITSET) {
            let woken = self.try_wake_bitset(Address::at(uaddr), at_least_one(val), bitset);
            return Some(super::as_number(woken.map(|woken| woken as isize)));
        }
        let differs = utime == 0 && self.differs(|| memory.load(uaddr, Width::U32), val.into());
        differs.then(|| super::as_number(Err(Error::Again)))
    }
}

/// The arguments, with their names in the kernel.
#[derive(Clone, Copy)]
struct Args {
    uaddr: u64,
    command: u32,
    is_private: bool,
    is_realtime: bool,
    is_robust_unlock: bool,
    val: u32,
    /// The fourth argument, in operations that take no timeout.
    val2: u32,
    uaddr2: u64,
    val3: u32,
}

impl Args {
    fn new([uaddr, op, val, utime, uaddr2, val3]: [u64; 6]) -> Self {
        let op = op as u32;
        let without_flags = op & !(PRIVATE_FLAG | CLOCK_REALTIME);
        let is_robust_unlock = matches!(without_flags ^ ROBUST_UNLOCK, WAKE | WAKE_BITSET | UNLOCK_PI);
        Self {
            uaddr,
            command: if is_robust_unlock { without_flags & !ROBUST_UNLOCK } else { without_flags },
            is_private: op & PRIVATE_FLAG != 0,
            is_realtime: op & CLOCK_REALTIME != 0,
            is_robust_unlock,
            val: val as u32,
            val2: utime as u32,
            uaddr2,
            val3: val3 as u32,
        }
    }
}

/// The number of waiters to wake. The kernel takes an `int`, and compares it only after it has woken one.
#[inline(always)]
pub(super) fn at_least_one(count: u32) -> usize {
    usize::try_from(count.cast_signed()).unwrap_or(0).max(1)
}

pub(super) fn not_negative(count: u32) -> Result<usize, Error> {
    usize::try_from(count.cast_signed()).map_err(|_| Error::Invalid)
}

impl<'d, 't, 'm, M: UserMemory + ?Sized> Syscall<'d, 't, 'm, M> {
    pub(super) fn futex(&mut self, registers: [u64; 6]) -> Result<Calling<'d, 't, 'm, M>, Error> {
        let args = Args::new(registers);
        let utime = registers[3];
        let takes_timeout = matches!(args.command, WAIT | LOCK_PI | LOCK_PI2 | WAIT_BITSET | WAIT_REQUEUE_PI);
        if takes_timeout && utime != 0 {
            let time = arguments::timespec(self.memory, utime, self.times)?;
            self.timeout = Some(match args.command {
                WAIT => {
                    self.relative = Some(time);
                    // It runs from now on, if there is a clock.
                    let now = self.domain.platform().now(Clock::Monotonic);
                    now.map_or(Timeout::After(time), |now| Timeout::At(Clock::Monotonic, now.saturating_add(time)))
                }
                _ if args.is_realtime || args.command == LOCK_PI => Timeout::At(Clock::Realtime, time),
                _ => Timeout::At(Clock::Monotonic, time),
            });
        }
        if args.is_realtime && !matches!(args.command, WAIT_BITSET | WAIT_REQUEUE_PI | LOCK_PI2) {
            return Err(Error::NoSuchOperation);
        }
        let bitset = if matches!(args.command, WAIT | WAKE) { u32::MAX } else { args.val3 };
        let bitset = NonZeroU32::new(bitset).ok_or(Error::Invalid);
        match args.command {
            WAIT | WAIT_BITSET => self.restartable_wait(args.uaddr, args.is_private, args.val, bitset?),
            WAKE | WAKE_BITSET => {
                let bitset = bitset?;
                let word = self.word(args.uaddr, args.is_private, Access::Read)?;
                if args.is_robust_unlock {
                    store(self.memory, args.uaddr, Width::U32, 0)?;
                    self.clear_pending(args.uaddr2)?;
                }
                let woken = self.domain.try_wake_bitset(word, at_least_one(args.val), bitset)?;
                Ok(Calling::done(woken as isize))
            }
            REQUEUE | CMP_REQUEUE => {
                let (wake, requeue) = (not_negative(args.val)?, not_negative(args.val2)?);
                let from = self.word(args.uaddr, args.is_private, Access::Read)?;
                let to = self.word(args.uaddr2, args.is_private, Access::Read)?;
                let expected = (args.command == CMP_REQUEUE).then_some(args.val3);
                self.requeue_words(from, expected, to, wake, requeue).map(Calling::done)
            }
            WAKE_OP => self.wake_op(args).map(Calling::done),
            #[cfg(feature = "pi")]
            _ => self.on_lock(args),
            // As a kernel without locks.
            #[cfg(not(feature = "pi"))]
            CMP_REQUEUE_PI => not_negative(args.val).and(not_negative(args.val2)).and(Err(Error::NoSuchOperation)),
            #[cfg(not(feature = "pi"))]
            _ => Err(Error::NoSuchOperation),
        }
    }

    /// The robust unlock is done. No other thread reads the pointer.
    fn clear_pending(&self, pointer: u64) -> Result<(), Error> {
        arguments::write(self.memory, pointer, &[0; 8])
    }

    /// Wakes up to `wake` waiters of `from`, if that holds `expected`, and has up to `requeue` more wait for `to`.
    pub(super) fn requeue_words(
        &self,
        from: Word<'m, M>,
        expected: Option<u32>,
        to: Word<'m, M>,
        wake: usize,
        requeue: usize,
    ) -> Result<isize, Error> {
        let most = Requeue { wake, requeue };
        let done = match expected {
            Some(expected) => self.domain.cmp_requeue(from, expected.into(), to, most)?,
            None => self.domain.requeue(from, to, most)?,
        };
        Ok((done.woken + done.requeued) as isize)
    }

    fn wake_op(&self, args: Args) -> Result<isize, Error> {
        let first = self.word(args.uaddr, args.is_private, Access::Read)?;
        let second = self.word(args.uaddr2, args.is_private, Access::Write)?;
        let modify = modification(args.val3).ok_or(Error::NoSuchOperation)?;
        let Some(compare) = comparison(args.val3) else {
            // The kernel changes the word before it decodes the comparison.
            let op = WakeOp { modify, compare: Compare::Eq(0) };
            self.domain.wake_op(first, 0, second, op, 0)?;
            return Err(Error::NoSuchOperation);
        };
        let (count, second_count) = (at_least_one(args.val), at_least_one(args.val2));
        Ok(self.domain.wake_op(first, count, second, WakeOp { modify, compare }, second_count)? as isize)
    }
}

#[cfg(feature = "pi")]
impl<'d, 't, 'm, M: UserMemory + ?Sized> Syscall<'d, 't, 'm, M> {
    fn on_lock(&mut self, args: Args) -> Result<Calling<'d, 't, 'm, M>, Error> {
        match args.command {
            LOCK_PI | LOCK_PI2 => {
                let word = self.word(args.uaddr, args.is_private, Access::Write)?;
                self.on_interrupt = Restart::Always;
                Ok(Calling::LockPi(LockOperation::new(self.domain, word, self.task, None)))
            }
            TRYLOCK_PI => {
                let word = self.word(args.uaddr, args.is_private, Access::Write)?;
                self.domain.try_lock_pi(word, self.task).map(|()| Calling::done(0))
            }
            UNLOCK_PI => self.unlock_pi(args).map(|()| Calling::done(0)),
            WAIT_REQUEUE_PI => {
                if args.uaddr == args.uaddr2 {
                    return Err(Error::Invalid);
                }
                let lock = self.word(args.uaddr2, args.is_private, Access::Write)?;
                let from = self.word(args.uaddr, args.is_private, Access::Read)?;
                self.on_interrupt = Restart::Always;
                let wait = WaitRequeueOperation::new(self.domain, from, args.val.into(), lock, self.task, None);
                Ok(Calling::WaitRequeuePi(wait))
            }
            CMP_REQUEUE_PI => self.cmp_requeue_pi(args).map(|count| Calling::done(count as isize)),
            _ => Err(Error::NoSuchOperation),
        }
    }

    fn unlock_pi(&self, args: Args) -> Result<(), Error> {
        // The kernel checks the owner before the alignment: an unlock of a misaligned word by another task is EPERM.
        let mut bytes = [0; 4];
        arguments::read(self.memory, args.uaddr, &mut bytes)?;
        if u32::from_le_bytes(bytes) & TID_MASK != self.task.tid() {
            return Err(Error::NotPermitted);
        }
        let word = self.word(args.uaddr, args.is_private, Access::Write)?;
        self.domain.unlock_pi(word, self.task)?;
        if args.is_robust_unlock { self.clear_pending(args.uaddr2) } else { Ok(()) }
    }

    fn cmp_requeue_pi(&self, args: Args) -> Result<usize, Error> {
        let (wake, requeue) = (not_negative(args.val)?, not_negative(args.val2)?);
        if args.uaddr == args.uaddr2 || wake != 1 {
            return Err(Error::Invalid);
        }
        let from = self.word(args.uaddr, args.is_private, Access::Read)?;
        let lock = self.word(args.uaddr2, args.is_private, Access::Write)?;
        self.domain.cmp_requeue_pi(from, args.val3.into(), lock, requeue)
    }
}

/// Of 12 bits.
fn sign_extended(bits: u32) -> i32 {
    (bits << 20).cast_signed() >> 20
}

/// The operation of `FUTEX_WAKE_OP` is in bits 28 to 30, its argument in bits 12 to 23. If bit 31 is set, the argument
/// is the number of a bit. `None` for an unknown operation.
fn modification(encoded: u32) -> Option<Modify> {
    let mut arg = sign_extended(encoded >> 12 & 0xfff).cast_unsigned();
    if encoded >> 31 != 0 {
        arg = 1 << (arg & 31);
    }
    match encoded >> 28 & 7 {
        0 => Some(Modify::Set(arg)),
        1 => Some(Modify::Add(arg)),
        2 => Some(Modify::Or(arg)),
        3 => Some(Modify::AndNot(arg)),
        4 => Some(Modify::Xor(arg)),
        _ => None,
    }
}

/// The comparison of `FUTEX_WAKE_OP` is in bits 24 to 27, its argument in bits 0 to 11. `None` for an unknown comparison.
fn comparison(encoded: u32) -> Option<Compare> {
    let arg = sign_extended(encoded & 0xfff);
    match encoded >> 24 & 15 {
        0 => Some(Compare::Eq(arg)),
        1 => Some(Compare::Ne(arg)),
        2 => Some(Compare::Lt(arg)),
        3 => Some(Compare::Le(arg)),
        4 => Some(Compare::Gt(arg)),
        5 => Some(Compare::Ge(arg)),
        _ => None,
    }
}
