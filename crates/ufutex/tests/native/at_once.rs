//! `syscall_at_once` does what `syscall_async` does, or nothing.

use std::future::Future;
use std::num::NonZeroU32;
use std::task::{Context, Poll, Waker};

use ufutex::syscall::Number;
use ufutex::{Access, Domain, DomainOptions, Fault, GuestWord, System, UserMemory, WaitOptions, Width};

use crate::common::random::Random;

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

/// Makes a call beside a waiter for each of four bits. Returns its result, unless it waits, and the bits of the waiters that
/// are left at the first word.
fn outcome(domain: &Domain, call: impl FnOnce() -> Option<isize>) -> (Option<isize>, u32) {
    let word = || GuestWord::new(&Memory, FIRST, Width::U32).expect("aligned");
    let bit = |bit: u32| NonZeroU32::new(1 << bit).expect("not zero");
    let mut waiters: Vec<_> =
        (0..4).map(|i| Box::pin(domain.wait_async(word(), 5, &WaitOptions::new().bitset(bit(i))))).collect();
    let mut context = Context::from_waker(Waker::noop());
    assert!(waiters.iter_mut().all(|waiter| waiter.as_mut().poll(&mut context).is_pending()));
    let result = call();
    let left = (0..4).map(|i| (domain.wake_bitset(word(), usize::MAX, bit(i)) as u32) << i).sum();
    (result, left)
}

#[test]
fn what_ends_at_once_ends_as_by_the_way_for_all_calls() {
    let numbers = [202, 454, 455, 449].map(|number| Number::x86_64(number).expect("a call of ours"));
    for early_return in [true, false] {
        let options = DomainOptions::new().early_return(early_return).counters(true);
        let domain = Domain::with_options(&System::new(), options);
        let task = domain.task(7).expect("the TID is free");
        let mut random = Random::new(1);
        let (mut at_once, mut left_alone) = ([0, 0], 0);
        for _ in 0..40_000 {
            let number = random.of(&numbers);
            let few = [0, 1, 2, 3, 4, 5, 9, 10, 128, 129, 130, 137, 138, 384, 385, 393, 394, 256, 0xffff_ffff];
            let args: [u64; 6] = std::array::from_fn(|i| {
                let high = if random.one_in(16) { 1 << 32 } else { 0 };
                match i {
                    0 => random.of(&[FIRST, FIRST, 0x1004, 0x1002, 0, 1 << 63]) | high,
                    1 | 2 if random.one_in(4) => 5,
                    3 if random.one_in(2) => 0,
                    _ => random.of(&few) | high,
                }
            });
            let by_all = || {
                let call = std::pin::pin!(domain.syscall_async(&task, &Memory, number, args));
                match call.poll(&mut Context::from_waker(Waker::noop())) {
                    Poll::Ready(result) => Some(result),
                    Poll::Pending => None,
                }
            };
            let before = domain.counters();
            let (result, left) = outcome(&domain, || domain.syscall_at_once(&Memory, number, &args));
            let counted = domain.counters().since(&before);
            if result.is_none() {
                assert_eq!(left, 0b1111, "{number:?} {args:x?}");
                left_alone += 1;
                continue;
            }
            at_once[usize::from(counted.mismatches == 0)] += 1;
            let before = domain.counters();
            assert_eq!(outcome(&domain, by_all), (result, left), "{number:?} {args:x?}");
            let by_all = domain.counters().since(&before);
            assert_eq!((counted.mismatches, counted.woken), (by_all.mismatches, by_all.woken), "{number:?} {args:x?}");
        }
        assert!(at_once[1] > 100 && (at_once[0] > 100) == early_return && left_alone > 100, "{at_once:?}");
    }
}
