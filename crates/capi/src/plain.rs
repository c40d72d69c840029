//! Plain system calls: private waits without a timeout, and private wakes. Most futex calls of most programs are plain.
//!
//! The engine decodes them too, but into an operation with room for every call. Decoded here, they take the path of
//! `ufutex_wait` and `ufutex_wake`.

use core::num::NonZeroU32;

use engine::syscall::{Compat, Number};

const WAIT: u32 = 0;
const WAKE: u32 = 1;
const WAIT_BITSET: u32 = 9;
const WAKE_BITSET: u32 = 10;
const PRIVATE_FLAG: u32 = 128;
const CLOCK_REALTIME: u32 = 256;
pub(crate) const WAIT_BITSET_PRIVATE: u32 = WAIT_BITSET | PRIVATE_FLAG;
pub(crate) const WAIT_BITSET_PRIVATE_REALTIME: u32 = WAIT_BITSET_PRIVATE | CLOCK_REALTIME;
pub(crate) const WAIT_PRIVATE: u32 = WAIT | PRIVATE_FLAG;
pub(crate) const WAKE_PRIVATE: u32 = WAKE | PRIVATE_FLAG;
/// The flags of futex_wait and futex_wake: a private word of 32 bits, without a node.
const FUTEX2_PRIVATE_U32: u32 = 2 | 128;

/// The arguments of a plain call.
pub(crate) enum Plain {
    Wait { address: u64, expected: u32, bitset: NonZeroU32 },
    Wake { address: u64, count: usize, bitset: NonZeroU32 },
}

impl Plain {
    /// Decodes a call. `None` if it is not plain, or if its arguments are an error.
    #[inline(always)]
    pub fn of(number: Number, args: &[u64; 6]) -> Option<Self> {
        match number {
            Number::Futex => Self::of_futex(args),
            Number::FutexWait => Self::of_futex_wait(args),
            Number::FutexWake => Self::of_futex_wake(args),
            Number::Compat(call) => Self::of_compat(call, args),
            _ => None,
        }
    }

    /// Of the arguments of a 32-bit program the lower halves count.
    #[inline(never)]
    fn of_compat(call: Compat, args: &[u64; 6]) -> Option<Self> {
        let args = args.map(|register| u64::from(register as u32));
        match call {
            Compat::FutexTime32 | Compat::FutexTime64 => Self::of_futex(&args),
            Compat::FutexWait => Self::of_futex_wait(&args),
            Compat::FutexWake => Self::of_futex_wake(&args),
            _ => None,
        }
    }

    #[inline(always)]
    fn of_futex(&[address, op, value, timeout, _, bitset]: &[u64; 6]) -> Option<Self> {
        let op = op as u32;
        let command = op & !(PRIVATE_FLAG | CLOCK_REALTIME);
        let bitset = if matches!(command, WAIT | WAKE) { NonZeroU32::MAX } else { NonZeroU32::new(bitset as u32)? };
        match command {
            WAIT | WAIT_BITSET => {
                // Without a timeout the clock does not matter. `FUTEX_WAIT` does not take the flag.
                let takes_clock = command == WAIT_BITSET;
                let is_plain = op & PRIVATE_FLAG != 0 && (op & CLOCK_REALTIME == 0 || takes_clock) && timeout == 0;
                is_plain.then_some(Self::Wait { address, expected: value as u32, bitset })
            }
            WAKE | WAKE_BITSET if op & (PRIVATE_FLAG | CLOCK_REALTIME) == PRIVATE_FLAG => {
                Some(Self::Wake { address, count: at_least_one(value), bitset })
            }
            _ => None,
        }
    }

    #[inline(always)]
    fn of_futex_wait(&[address, value, mask, flags, timeout, _]: &[u64; 6]) -> Option<Self> {
        let bitset = NonZeroU32::new(u32::try_from(mask).ok()?)?;
        let expected = u32::try_from(value).ok()?;
        let is_plain = flags as u32 == FUTEX2_PRIVATE_U32 && timeout == 0;
        is_plain.then_some(Self::Wait { address, expected, bitset })
    }

    #[inline(always)]
    fn of_futex_wake(&[address, mask, count, flags, ..]: &[u64; 6]) -> Option<Self> {
        let bitset = NonZeroU32::new(u32::try_from(mask).ok()?)?;
        // A count of 0 wakes nobody, unlike that of futex(2).
        let is_plain = flags as u32 == FUTEX2_PRIVATE_U32 && count as u32 != 0;
        is_plain.then_some(Self::Wake { address, count: at_least_one(count), bitset })
    }
}

/// The number of waiters to wake: the kernel takes an `int`, and compares it only after it has woken one.
#[inline(always)]
pub(crate) fn at_least_one(count: u64) -> usize {
    (count as i32).max(1) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::future::Future;
    use core::task::{Context, Poll, Waker};
    use engine::{Access, Domain, Fault, GuestWord, System, UserMemory, WaitOptions, Width};

    /// Two words, which hold 5 and 0. Everything else faults.
    struct Memory;
    const FIRST: u64 = 0x1000;

    impl UserMemory for Memory {
        fn load(&self, address: u64, width: Width) -> Result<u64, Fault> {
            match address {
                FIRST if width == Width::U32 => Ok(5),
                0x1004 if width == Width::U32 => Ok(0),
                _ => Err(Fault),
            }
        }
        fn compare_exchange(&self, _: u64, _: Width, _: u64, _: u64) -> Result<Result<u64, u64>, Fault> {
            Err(Fault)
        }
        fn fault_in(&self, _: u64, _: Access) -> Result<(), Fault> {
            Err(Fault)
        }
    }

    fn number<T: TryInto<isize>>(result: Result<T, engine::Error>) -> isize {
        result.map_or_else(|error| -(error.errno() as isize), |value| value.try_into().unwrap_or(isize::MAX))
    }

    /// What a call leaves: its result, unless it waits, and the bits of the waiters that are left at the first word.
    type Outcome = (Option<isize>, u32);

    /// Runs `call` beside a waiter for each of four bits.
    fn outcome<F: Future<Output = isize>>(domain: &Domain, call: impl FnOnce() -> F) -> Outcome {
        let mut context = Context::from_waker(Waker::noop());
        let mut waiters: Vec<_> = (0..4)
            .map(|bit| {
                let options = WaitOptions::new().bitset(NonZeroU32::new(1 << bit).unwrap());
                Box::pin(domain.wait_async(GuestWord::new(&Memory, FIRST, Width::U32).unwrap(), 5, &options))
            })
            .collect();
        assert!(waiters.iter_mut().all(|waiter| waiter.as_mut().poll(&mut context).is_pending()));
        let mut call = Box::pin(call());
        let result = match call.as_mut().poll(&mut context) {
            Poll::Ready(result) => Some(result),
            Poll::Pending => None,
        };
        let mut left = 0;
        for bit in (0..32).map(|bit| NonZeroU32::new(1 << bit).unwrap()) {
            let woken = domain.wake_bitset(GuestWord::new(&Memory, FIRST, Width::U32).unwrap(), usize::MAX, bit);
            assert!(woken <= 2);
            left = left << 1 | u32::from(woken != 0);
        }
        (result, left)
    }

    /// Makes the plain call with the engine's native functions.
    async fn natively(domain: &Domain, plain: Plain) -> isize {
        let (Plain::Wait { address, .. } | Plain::Wake { address, .. }) = plain;
        let word = match GuestWord::new(&Memory, address, Width::U32) {
            Ok(_) if !Memory.access_ok(address, 4) => return -14,
            Ok(word) => word,
            Err(error) => return number::<isize>(Err(error)),
        };
        match plain {
            Plain::Wait { expected, bitset, .. } => {
                let options = WaitOptions::new().bitset(bitset);
                number(domain.wait_async(word, expected.into(), &options).await.map(|()| 0isize))
            }
            Plain::Wake { count, bitset, .. } => number(domain.try_wake_bitset(word, count, bitset)),
        }
    }

    #[test]
    fn plain_calls_are_decoded_as_the_engine_decodes_them() {
        let numbers = [202, 454, 455, 449].map(|number| Number::x86_64(number).unwrap());
        let narrow = [240, 422, 454, 455, 449, 311].map(|number| Number::i386(number).unwrap());
        let numbers = [&numbers[..], &narrow[..]].concat();
        let domain = Domain::new(&System::new());
        let task = domain.task(7).unwrap();
        let mut state = 1u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % below
        };
        let (mut plain_ones, mut waited) = ([0, 0], 0);
        for _ in 0..40_000 {
            let number = numbers[random(numbers.len() as u64) as usize];
            let few = [0, 1, 2, 3, 4, 5, 9, 10, 128, 129, 130, 137, 138, 384, 385, 393, 394, 256, 0xffff_ffff];
            let args: [u64; 6] = core::array::from_fn(|i| {
                let high = if random(16) == 0 { 1 << 32 } else { 0 };
                match i {
                    0 => [FIRST, FIRST, 0x1004, 0x1002, 0, 1 << 63][random(6) as usize] | high,
                    1 | 2 if random(4) == 0 => 5,
                    3 if random(2) == 0 => [0, 130][random(2) as usize],
                    _ => few[random(few.len() as u64) as usize] | high,
                }
            });
            let Some(plain) = Plain::of(number, &args) else { continue };
            plain_ones[usize::from(matches!(plain, Plain::Wake { .. }))] += 1;
            let by_engine = outcome(&domain, || domain.syscall_async(&task, &Memory, number, args));
            assert_eq!(outcome(&domain, || natively(&domain, plain)), by_engine, "{number:?} {args:x?}");
            waited += usize::from(by_engine.0.is_none());
        }
        assert!(plain_ones.iter().all(|count| *count > 100) && waited > 20, "{plain_ones:?}, {waited} waited");
    }
}
