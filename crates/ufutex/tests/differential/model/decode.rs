//! Decodes system call arguments.

use super::requeue::Requeue;
use super::vector::Waiter;
use super::wait::Wait;
use super::{Answer, Deadline, Model, OnSignal, errno};
use crate::program::{Cmd, Number, PRIVATE, REALTIME};
use crate::resolve::Raw;

/// The size in the flags of the newer calls. Linux defines sizes other than 32 bits but rejects them.
const SIZE_MASK: u32 = 3;
const SIZE_32: u32 = 2;
/// `FUTEX2_NUMA` and `FUTEX2_MPOL`, which the model does not implement.
const NUMA_AND_MPOL: u32 = 12;
/// A flag of futex(2) since Linux 7.2 ([robust-unlock]). The engine implements it, the host kernel may not.
const ROBUST_UNLOCK: u32 = 512;

/// Checks that the value argument of a newer call fits into a 32-bit word.
pub(super) fn check_value(value: u64) -> Answer<u32> {
    u32::try_from(value).or_else(|_| errno(libc::EINVAL))
}

impl Model {
    pub(super) fn decode(&mut self, worker: usize, raw: &Raw) -> Answer {
        match raw.number {
            Number::Futex => self.futex(worker, raw.args),
            // After a handler has run, no call is left to restart.
            Number::Restart => errno(libc::EINTR),
            Number::Waitv => self.futex_waitv(worker, raw.args),
            Number::Wake2 => self.futex_wake2(raw.args),
            Number::Wait2 => self.futex_wait2(worker, raw.args),
            Number::Requeue2 => self.futex_requeue2(raw.args),
        }
    }

    fn futex(&mut self, worker: usize, args: [u64; 6]) -> Answer {
        let [address, op, value, time, address2, value3] = args;
        let (op, value, value2, value3) = (op as u32, value as u32, time as u32, value3 as u32);
        if op & ROBUST_UNLOCK != 0 {
            self.is_defined.set(false);
        }
        let (is_private, is_realtime) = (op & PRIVATE != 0, op & REALTIME != 0);
        let cmd = Cmd::from_number(op & !(PRIVATE | REALTIME));

        let deadline = match cmd {
            Cmd::Wait | Cmd::LockPi | Cmd::LockPi2 | Cmd::WaitBitset | Cmd::WaitRequeuePi => self.deadline(time)?,
            _ => Deadline::None,
        };
        if is_realtime && !matches!(cmd, Cmd::WaitBitset | Cmd::WaitRequeuePi | Cmd::LockPi2) {
            return errno(libc::ENOSYS);
        }
        let wait = |bitset| Wait {
            address,
            is_private,
            value,
            bitset,
            deadline,
            on_signal: match deadline {
                Deadline::None => OnSignal::RestartsIfAsked,
                _ => OnSignal::Interrupts,
            },
        };
        let requeue = |value| Requeue { from: address, to: address2, is_private, value };
        let (wake_count, count2) = (value.cast_signed(), value2.cast_signed());
        match cmd {
            Cmd::Wait => self.wait(worker, wait(u32::MAX)),
            Cmd::WaitBitset => self.wait(worker, wait(value3)),
            Cmd::Wake => self.wake(address, is_private, wake_count, u32::MAX, false),
            Cmd::WakeBitset => self.wake(address, is_private, wake_count, value3, false),
            Cmd::Requeue => self.requeue(requeue(None), wake_count, count2),
            Cmd::CmpRequeue => self.requeue(requeue(Some(value3)), wake_count, count2),
            Cmd::WakeOp => self.wake_op([address, address2], is_private, [wake_count, count2], value3),
            Cmd::LockPi | Cmd::LockPi2 => self.lock_pi(worker, address, is_private, deadline),
            Cmd::TrylockPi => self.trylock_pi(worker, address, is_private),
            Cmd::UnlockPi => self.unlock_pi(worker, address, is_private),
            Cmd::WaitRequeuePi => self.wait_requeue_pi(worker, wait(u32::MAX), address2),
            Cmd::CmpRequeuePi => self.requeue_pi(requeue(Some(value3)), wake_count, count2),
            Cmd::Fd | Cmd::Unknown(_) => errno(libc::ENOSYS),
        }
    }

    /// Checks the flags of the newer calls.
    pub(super) fn check_flags2(&self, flags: u32) -> Answer<()> {
        if flags & !(SIZE_MASK | NUMA_AND_MPOL | PRIVATE) != 0 || flags & SIZE_MASK != SIZE_32 {
            return errno(libc::EINVAL);
        }
        if flags & NUMA_AND_MPOL != 0 {
            self.is_defined.set(false);
        }
        Ok(())
    }

    fn futex_waitv(&mut self, worker: usize, args: [u64; 6]) -> Answer {
        const MOST: u32 = 128;
        let [waiters, count, flags, time, clock, _] = args;
        let (count, flags) = (count as u32, flags as u32);
        if flags != 0 || count == 0 || count > MOST || waiters == 0 {
            return errno(libc::EINVAL);
        }
        let deadline = self.deadline2(time, clock)?;
        let waiters = self.vector(waiters, count)?;
        self.wait_for_any(worker, &waiters, deadline)
    }

    fn futex_wake2(&mut self, args: [u64; 6]) -> Answer {
        let [address, mask, count, flags, ..] = args;
        self.check_flags2(flags as u32)?;
        let mask = check_value(mask)?;
        self.wake(address, flags as u32 & PRIVATE != 0, (count as u32).cast_signed(), mask, true)
    }

    fn futex_wait2(&mut self, worker: usize, args: [u64; 6]) -> Answer {
        let [address, value, mask, flags, time, clock] = args;
        self.check_flags2(flags as u32)?;
        let (value, bitset) = (check_value(value)?, check_value(mask)?);
        let deadline = self.deadline2(time, clock)?;
        let is_private = flags as u32 & PRIVATE != 0;
        // The timeout is absolute, so the call can be restarted, unlike `FUTEX_WAIT` with a relative timeout.
        let on_signal = OnSignal::RestartsIfAsked;
        self.wait(worker, Wait { address, is_private, value, bitset, deadline, on_signal })
    }

    fn futex_requeue2(&mut self, args: [u64; 6]) -> Answer {
        let [waiters, flags, wake_count, requeue_count, ..] = args;
        if flags as u32 != 0 || waiters == 0 {
            return errno(libc::EINVAL);
        }
        let both = self.vector(waiters, 2)?;
        let [Waiter { address: from, is_private, value }, Waiter { address: to, .. }] = both[..] else {
            unreachable!("two were asked for")
        };
        if is_private != both[1].is_private {
            return errno(libc::EINVAL);
        }
        let requeue = Requeue { from, to, is_private, value: Some(value) };
        self.requeue(requeue, (wake_count as u32).cast_signed(), (requeue_count as u32).cast_signed())
    }

    /// Reads the timeout at this address.
    fn deadline(&self, address: u64) -> Answer<Deadline> {
        if address == 0 {
            return Ok(Deadline::None);
        }
        let Ok(bytes) = self.memory.read::<16>(address) else { return errno(libc::EFAULT) };
        let half = |at: usize| i64::from_ne_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        let (seconds, nanoseconds) = (half(0), half(8));
        if seconds < 0 || !(0..1_000_000_000).contains(&nanoseconds) {
            return errno(libc::EINVAL);
        }
        // Any other timeout comes from words that are misread as a timespec. It may expire at any moment.
        if !matches!((seconds, nanoseconds), (0, 0 | 1) | (4_000_000_000.., _)) {
            self.is_defined.set(false);
        }
        Ok(if seconds == 0 { Deadline::Passed } else { Deadline::Far })
    }

    /// Reads the timeout of a newer call, which checks the clock only if there is a timeout.
    fn deadline2(&self, address: u64, clock: u64) -> Answer<Deadline> {
        let clock = clock as i32;
        if address != 0 && clock != libc::CLOCK_REALTIME && clock != libc::CLOCK_MONOTONIC {
            return errno(libc::EINVAL);
        }
        self.deadline(address)
    }
}
