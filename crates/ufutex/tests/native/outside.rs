//! Addresses that a guest may not name, although its embedder's functions could access them: another guest's memory, or
//! the kernel's.
//!
//! Promise: hostile calls

use std::sync::atomic::Ordering::Relaxed;

use ufutex::syscall::{Number, Pointers};
use ufutex::timer::{Caller, CompatTimerCall, TimerCall, TimerOptions, Timers};
use ufutex::{Access, Domain, Fault, System, Task, UserMemory, Width, pi::OWNER_DIED};

use crate::common::domains::{domain, on_domains};
use crate::common::errno::EFAULT;
use crate::common::futures::at_once;
use crate::common::guest_memory::GuestMemory;

const PRIVATE: u64 = 128;
const TID: u32 = 5;

/// The offset behind the last byte that the guest may name.
const END: u64 = 2048;
/// Offsets of words inside and outside.
const INSIDE: u64 = 256;
const OUTSIDE: u64 = 4096;

/// Memory in which every access succeeds, and `access_ok` alone refuses.
struct Fenced(GuestMemory);

impl UserMemory for Fenced {
    fn load(&self, address: u64, width: Width) -> Result<u64, Fault> {
        self.0.load(address, width)
    }

    fn compare_exchange(&self, address: u64, width: Width, current: u64, new: u64) -> Result<Result<u64, u64>, Fault> {
        self.0.compare_exchange(address, width, current, new)
    }

    fn fault_in(&self, address: u64, access: Access) -> Result<(), Fault> {
        self.0.fault_in(address, access)
    }

    fn access_ok(&self, address: u64, bytes: u64) -> bool {
        address.checked_add(bytes).is_some_and(|end| end <= self.0.at(END))
    }
}

impl Fenced {
    fn new() -> Self {
        Self(GuestMemory::new())
    }

    fn word(&self, offset: u64) -> u32 {
        self.0.word(offset).load(Relaxed)
    }

    fn set(&self, offset: u64, value: u32) {
        self.0.word(offset).store(value, Relaxed);
    }
}

fn call(domain: &Domain, task: &Task, memory: &Fenced, number: Number, args: [u64; 6]) -> isize {
    at_once(domain.syscall_async(task, memory, number, args))
}

fn words_outside_are_neither_read_nor_written() {
    let (domain, memory) = (domain(), Fenced::new());
    let task = domain.task(TID).expect("it is free");
    let [inside, outside] = [INSIDE, OUTSIDE].map(|offset| memory.0.at(offset));
    // The last word is inside, and the one that crosses the end is not.
    let last = memory.0.at(END - 4);
    let futex = |op: u64, at, other| call(&domain, &task, &memory, Number::Futex, [at, PRIVATE | op, 1, 1, other, 0]);
    assert_eq!((futex(1, last, 0), futex(1, last + 4, 0)), (0, EFAULT));
    const NAMED: [(u64, &str); 8] = [
        (0, "wait"),
        (1, "wake"),
        (3, "requeue"),
        (5, "wake_op"),
        (6, "lock_pi"),
        (7, "unlock_pi"),
        (8, "trylock_pi"),
        (11, "wait_requeue_pi"),
    ];
    // It would be the owner, so that an unlock would be possible.
    memory.set(OUTSIDE, TID);
    for (op, name) in NAMED {
        assert_eq!(futex(op, outside, inside), EFAULT, "{name}");
    }
    // EPERM would say what it holds.
    assert_eq!(futex(7, outside + 64, 0), EFAULT, "unlock_pi of another's word");
    for (op, name) in [(3, "requeue"), (5, "wake_op")] {
        assert_eq!(futex(op, inside, outside), EFAULT, "the second word of {name}");
    }
    assert_eq!((memory.word(OUTSIDE), memory.word(INSIDE)), (TID, 0));
}

fn arguments_outside_are_neither_read_nor_written() {
    let (domain, memory) = (domain(), Fenced::new());
    let task = domain.task(TID).expect("it is free");
    let [inside, outside] = [INSIDE, OUTSIDE].map(|offset| memory.0.at(offset));
    let call = |number, args| call(&domain, &task, &memory, number, args);
    // A timeout of 0 seconds: if it were read, the wait would end with ETIMEDOUT.
    assert_eq!(call(Number::Futex, [inside, PRIVATE, 0, outside, 0, 0]), EFAULT);
    // It begins inside.
    assert_eq!(call(Number::Futex, [inside, PRIVATE, 0, memory.0.at(END - 8), 0, 0]), EFAULT);
    // An array for one private word that does not hold 1.
    memory.0.store(OUTSIDE, 8, 1);
    memory.0.store(OUTSIDE + 8, 8, inside);
    memory.0.store(OUTSIDE + 16, 8, PRIVATE | 2);
    assert_eq!(call(Number::FutexWaitv, [outside, 1, 0, 0, 0, 0]), EFAULT);
    // The head and its length are written to where the caller says. This memory has no exchange of 64-bit words.
    assert_eq!(task.set_robust_list(Pointers::Wide, inside, 24), Ok(()));
    memory.set(OUTSIDE + 64, 7);
    for [head, length] in [[outside + 64, inside + 4], [inside + 4, outside + 64]] {
        assert_eq!(call(Number::GetRobustList, [0, head, length, 0, 0, 0]), EFAULT);
    }
    assert_eq!(memory.word(OUTSIDE + 64), 7);
}

/// `FUTEX_ROBUST_UNLOCK`: the word and the pointer behind it are cleared by the call.
fn a_robust_unlock_clears_nothing_outside() {
    let (domain, memory) = (domain(), Fenced::new());
    let task = domain.task(TID).expect("it is free");
    let [inside, outside] = [INSIDE, OUTSIDE].map(|offset| memory.0.at(offset));
    memory.set(OUTSIDE, 9);
    const ROBUST_UNLOCK: u64 = 512;
    // Aligned, and not.
    for pending in [outside, outside + 1] {
        let args = [inside, PRIVATE | ROBUST_UNLOCK | 1, 1, 0, pending, 0];
        assert_eq!(call(&domain, &task, &memory, Number::Futex, args), EFAULT);
    }
    assert_eq!(memory.word(OUTSIDE), 9);
}

fn the_walk_of_a_robust_list_ends_where_the_guest_may_not_read() {
    const HEAD: u64 = 64;
    /// From an entry to its word.
    const DISTANCE: u64 = 16;
    for pointers in [Pointers::Narrow, Pointers::Wide] {
        let bytes = if pointers == Pointers::Narrow { 4 } else { 8 };
        // The list leads out of the guest's memory; only the word of an entry is there; the head itself is.
        for (head, entries, distance, released) in [
            (HEAD, [INSIDE, OUTSIDE], DISTANCE, true),
            (HEAD, [INSIDE, INSIDE + 64], OUTSIDE, false),
            (OUTSIDE + 512, [INSIDE, INSIDE + 64], DISTANCE, false),
        ] {
            let (domain, memory) = (domain(), Fenced::new());
            let task = domain.task(TID).expect("it is free");
            for (from, to) in [(head, entries[0]), (entries[0], entries[1]), (entries[1], head)] {
                memory.0.store(from, bytes, memory.0.at(to));
            }
            memory.0.store(head + bytes as u64, bytes, distance);
            for entry in entries {
                memory.set(entry + distance, TID);
            }
            let at = memory.0.at(head);
            assert_eq!(task.set_robust_list(pointers, at, 3 * bytes as u64), Ok(()));
            assert_eq!(domain.exit(&task, &memory), Ok(()));
            let words = entries.map(|entry| memory.word(entry + distance));
            let first = if released { OWNER_DIED } else { TID };
            assert_eq!(words, [first, TID], "{pointers:?}, head at {head}, {distance} to the words");
        }
    }
}

#[test]
fn arguments_of_timers_outside_are_neither_read_nor_written() {
    let (memory, system) = (Fenced::new(), System::new());
    let (timers, _) = Timers::channel(system.driver(), TimerOptions::new()).expect("there is memory");
    let call = |call: TimerCall, args: [u64; 4]| {
        let [a, b, c, d] = args;
        timers.syscall(Caller { process: 1, thread: 1 }, &memory, call, [a, b, c, d, 0, 0])
    };
    let both = [TimerCall::Create, TimerCall::Compat(CompatTimerCall::Create)];
    const MONOTONIC: u64 = 1;
    const SIGEV_NONE: u64 = 1;
    /// `struct sigevent`, of which a 32-bit program's first 16 bytes are read.
    const EVENT: u64 = 64;
    let [inside, outside] = [INSIDE, OUTSIDE].map(|offset| memory.0.at(offset));
    for create in both {
        for (event, result) in [(END - EVENT, 0), (END - EVENT + 4, EFAULT), (END - 16, EFAULT), (OUTSIDE, EFAULT)] {
            let how = if create == TimerCall::Create { 12 } else { 8 };
            memory.0.store(event + how, 4, SIGEV_NONE);
            let before = timers.count();
            assert_eq!(call(create, [MONOTONIC, memory.0.at(event), inside, 0]), result, "{create:?}, {event}");
            assert_eq!(timers.count() - before, usize::from(result == 0));
        }
        let before = timers.count();
        memory.set(OUTSIDE, 77);
        assert_eq!(call(create, [MONOTONIC, 0, outside, 0]), EFAULT);
        assert_eq!((timers.count(), memory.word(OUTSIDE)), (before, 77));
    }
    let timer = memory.word(INSIDE).into();
    assert_eq!(call(TimerCall::Settime, [timer, 0, outside, 0]), EFAULT);
    assert_eq!(call(TimerCall::Settime, [timer, 0, inside + 64, outside]), EFAULT);
    assert_eq!(call(TimerCall::Gettime, [timer, outside, 0, 0]), EFAULT);
    assert_eq!(memory.word(OUTSIDE), 77);
}

on_domains![
    words_outside_are_neither_read_nor_written,
    arguments_outside_are_neither_read_nor_written,
    a_robust_unlock_clears_nothing_outside,
    the_walk_of_a_robust_list_ends_where_the_guest_may_not_read,
];
