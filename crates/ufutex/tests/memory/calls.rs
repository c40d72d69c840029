//! System calls by their numbers, in a guest's memory.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::task::Poll;

use ufutex::syscall::Number;
use ufutex::timer::{Caller, TimerCall, TimerOptions, Timers};
use ufutex::wasm::{Atomics, LinearMemory, Waited};
use ufutex::{Access, Domain, Fault, UserMemory, Width};

use crate::allocator::{Memory, for_every_failure};
use crate::works::{at_last, poll, system, system_with_clocks, words, works};

const AGAIN: isize = -11;
const NO_MEMORY: isize = -12;
const TIMED_OUT: isize = -110;

/// 512 words of a guest.
pub struct Words([AtomicU32; 512]);

impl Words {
    const BASE: u64 = 0x1000;

    pub fn new() -> Self {
        Self(words())
    }

    /// The address of the word with this number.
    pub fn at(word: u64) -> u64 {
        Self::BASE + 4 * word
    }

    fn word(&self, address: u64) -> Result<&AtomicU32, Fault> {
        self.0.get((address.checked_sub(Self::BASE).ok_or(Fault)? / 4) as usize).ok_or(Fault)
    }

    pub fn load32(&self, address: u64) -> u32 {
        self.word(address).expect("a word").load(Relaxed)
    }

    pub fn store32(&self, address: u64, value: u32) {
        self.word(address).expect("a word").store(value, Relaxed);
    }

    pub fn store64(&self, address: u64, value: u64) {
        self.store32(address, value as u32);
        self.store32(address + 4, (value >> 32) as u32);
    }
}

impl UserMemory for Words {
    fn load(&self, address: u64, width: Width) -> Result<u64, Fault> {
        let low = self.word(address)?.load(Relaxed);
        match width {
            Width::U64 => Ok(u64::from(self.word(address + 4)?.load(Relaxed)) << 32 | u64::from(low)),
            Width::U32 => Ok(low.into()),
            _ => Ok(u64::from(low) >> (8 * (address % 4)) & if width == Width::U8 { 0xff } else { 0xffff }),
        }
    }

    fn compare_exchange(&self, at: u64, width: Width, current: u64, new: u64) -> Result<Result<u64, u64>, Fault> {
        match width {
            Width::U32 => {
                let result = self.word(at)?.compare_exchange(current as u32, new as u32, Relaxed, Relaxed);
                Ok(result.map(u64::from).map_err(u64::from))
            }
            _ => {
                let now = self.load(at, width)?;
                if now != current {
                    return Ok(Err(now));
                }
                let bits = width.bytes() * 8;
                let mask = u64::MAX >> (64 - bits);
                let shift = 8 * (at % 4);
                let wide = u64::from(self.word(at)?.load(Relaxed));
                let value = wide & !(mask << shift) | (new & mask) << shift;
                self.word(at)?.store(value as u32, Relaxed);
                if width == Width::U64 {
                    self.word(at + 4)?.store((new >> 32) as u32, Relaxed);
                }
                Ok(Ok(current))
            }
        }
    }

    fn fault_in(&self, address: u64, _: Access) -> Result<(), Fault> {
        self.word(address).map(drop)
    }
}

/// The result of a call: `expected`, or `without` if there is no memory.
fn returns(memory: &mut Memory, call: impl Fn() -> isize, expected: isize, without: isize) {
    let result = memory.during(&call);
    if result != expected {
        assert_eq!((result, memory.has_just_failed()), (without, true));
        assert_eq!(call(), expected);
    }
}

pub fn futexes() -> usize {
    const WAIT: u64 = 128;
    const WAKE: u64 = 129;
    const LOCK_PI: u64 = 134;
    const UNLOCK_PI: u64 = 135;
    for_every_failure(|memory| {
        let (domain, words) = (Domain::new(&system()), Words::new());
        let task = at_last(memory, || domain.task(7));
        let [futex, waitv, wake2, wait2, requeue2] =
            [202, 449, 454, 455, 456].map(|number| Number::x86_64(number).expect("a call"));
        let word = Words::at(0);
        // A microsecond, and a moment that has passed: both are a `timespec` at this address.
        let time = Words::at(400);
        words.store64(time + 8, 1000);
        let call = |number, args| domain.syscall(&task, &words, number, args);
        returns(memory, || call(futex, [word, WAIT, 0, time, 0, 0]), TIMED_OUT, NO_MEMORY);
        returns(memory, || call(futex, [word, WAIT, 1, time, 0, 0]), AGAIN, NO_MEMORY);
        returns(memory, || call(futex, [word, WAKE, 1, 0, 0, 0]), 0, NO_MEMORY);
        // Ten structs of 24 bytes: value, address, flags.
        for i in 0..10 {
            let waiter = Words::at(100 + 6 * i);
            words.store64(waiter + 8, Words::at(i));
            words.store32(waiter + 16, 0x82);
        }
        let monotonic = 1;
        returns(memory, || call(waitv, [Words::at(100), 10, 0, time, monotonic, 0]), TIMED_OUT, NO_MEMORY);
        // futex2: private words of 32 bits, and a requeue from the first to the second of those above.
        let (private, all) = (0x82, u32::MAX.into());
        returns(memory, || call(wait2, [word, 0, all, private, time, monotonic]), TIMED_OUT, NO_MEMORY);
        returns(memory, || call(wake2, [word, all, 1, private, 0, 0]), 0, NO_MEMORY);
        returns(memory, || call(requeue2, [Words::at(100), 0, 1, 1, 0, 0]), 0, NO_MEMORY);
        returns(memory, || call(futex, [word, LOCK_PI, 0, 0, 0, 0]), 0, NO_MEMORY);
        returns(memory, || call(futex, [word, UNLOCK_PI, 0, 0, 0, 0]), 0, NO_MEMORY);
        works(&domain);
    })
}

impl LinearMemory for Words {
    fn bytes(&self) -> u64 {
        4 * self.0.len() as u64
    }

    fn load32(&self, address: u64) -> Result<u32, Fault> {
        self.load(Self::BASE + address, Width::U32).map(|value| value as u32)
    }

    fn load64(&self, address: u64) -> Result<u64, Fault> {
        self.load(Self::BASE + address, Width::U64)
    }
}

/// WebAssembly's wait and notify, of a thread and of a future. Neither needs memory.
pub fn wasm() -> usize {
    for_every_failure(|memory| {
        let (domain, words) = (Domain::new(&system()), Words::new());
        let atomics = Atomics::new(&domain, &words);
        assert_eq!(memory.during(|| atomics.wait32(8, 1, -1)), Ok(Waited::NotEqual));
        assert_eq!(memory.during(|| atomics.wait64(8, 0, 1000)), Ok(Waited::TimedOut));
        let mut wait = Box::pin(atomics.wait32_async(8, 0, -1).expect("it may wait"));
        assert!(memory.during(|| poll(&mut wait)).is_pending());
        assert_eq!(memory.during(|| atomics.notify(8, 2)), Ok(1));
        assert_eq!(memory.during(|| poll(&mut wait)), Poll::Ready(Ok(Waited::Ok)));
        drop(wait);
        works(&domain);
    })
}

pub fn timers() -> usize {
    for_every_failure(|memory| {
        let (system, _) = system_with_clocks();
        let (timers, expiries) = at_last(memory, || Timers::channel(system.driver(), TimerOptions::new()));
        let words = Words::new();
        let [create, settime, gettime, getoverrun, delete] =
            [222, 223, 224, 225, 226].map(|number| TimerCall::x86_64(number).expect("a call"));
        let call = |number, args| timers.syscall(Caller { process: 1, thread: 1 }, &words, number, args);
        let [id, setting] = [Words::at(0), Words::at(10)];
        words.store64(setting + 16, 5);
        returns(memory, || call(create, [1, 0, id, 0, 0, 0]), 0, AGAIN);
        let timer = words.load32(id).into();
        returns(memory, || call(settime, [timer, 0, setting, 0, 0, 0]), 0, AGAIN);
        returns(memory, || call(gettime, [timer, setting, 0, 0, 0, 0]), 0, 0);
        returns(memory, || call(getoverrun, [timer, 0, 0, 0, 0, 0]), 0, 0);
        returns(memory, || call(delete, [timer, 0, 0, 0, 0, 0]), 0, 0);
        assert_eq!((timers.count(), expiries.try_recv()), (0, None));
    })
}
