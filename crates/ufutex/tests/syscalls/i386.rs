//! The system calls of 32-bit programs, by the numbers of i386. The kernel gets them from this process, by `int 0x80`:
//! it decodes them as those of a 32-bit program, with the same code.
#![cfg(target_arch = "x86_64")]

use std::time::Duration;

use ufutex::{
    Domain, Task,
    pi::{OWNER_DIED, TID_MASK, WAITERS},
    syscall::Number,
};

use crate::common::arena::{Arena, PAGE, Rights};
use crate::common::asleep::{futex_call, sleeps_in, thread_id, until};
use crate::common::domains::domain;
use crate::common::errno::{EAGAIN, EFAULT, EINVAL, ENOSYS, ETIMEDOUT};
use crate::common::int_80::{int_80, lack};
use crate::common::kernel::now;
use crate::common::libc;
use crate::common::skipped::skip;

const FUTEX: u32 = 240;
const FUTEX_TIME64: u32 = 422;
const SET_ROBUST_LIST: u32 = 311;
const GET_ROBUST_LIST: u32 = 312;
const FUTEX_WAITV: u32 = 449;
const FUTEX_WAKE: u32 = 454;
const FUTEX_WAIT: u32 = 455;
const FUTEX_REQUEUE: u32 = 456;

const WAIT_PRIVATE: u32 = 128;
const WAKE_PRIVATE: u32 = 129;
const WAIT_BITSET_PRIVATE: u32 = 128 + 9;
const CMP_REQUEUE_PRIVATE: u32 = 128 + 4;
const PRIVATE_U32: u32 = 128 + 2;
const HEAD: u32 = 12;

/// What answers a thread's system calls: the kernel or the engine.
trait Machine: Sync {
    /// Makes a call for the calling thread.
    fn call(&self, number: u32, args: [u32; 6]) -> isize;
    /// The last call of a thread. On the engine it ends the thread's task, and returns when the robust lists have been
    /// walked. On the kernel it does nothing: the kernel walks them when the thread ends.
    fn exit(&self);
}

struct Kernel;

impl Machine for Kernel {
    fn call(&self, number: u32, args: [u32; 6]) -> isize {
        // SAFETY: the arguments are addresses in an arena, which is accessed by atomics, or not mapped.
        unsafe { int_80(number, args) }
    }
    fn exit(&self) {}
}

struct Engine {
    domain: Domain,
    memory: &'static Arena,
}

thread_local! {
    static TASK: std::cell::RefCell<Option<Task>> = const { std::cell::RefCell::new(None) };
}

impl Machine for Engine {
    fn call(&self, number: u32, args: [u32; 6]) -> isize {
        TASK.with_borrow_mut(|task| {
            let tid = thread_id() as u32;
            let task = task.get_or_insert_with(|| self.domain.task(tid).expect("the TID is free"));
            let number = Number::i386(number.into()).expect("a call of the engine's");
            self.domain.syscall(task, self.memory, number, args.map(u64::from))
        })
    }
    fn exit(&self) {
        if let Some(task) = TASK.take() {
            self.domain.exit(&task, self.memory).expect("it waits for nothing");
        }
    }
}

/// Memory whose addresses a 32-bit program can name, and which both machines use.
struct Memory {
    arena: &'static Arena,
    next: std::sync::atomic::AtomicU64,
}

impl Memory {
    fn new() -> Self {
        Self { arena: Box::leak(Box::new(Arena::low(8))), next: 0.into() }
    }
    fn bytes(&self, bytes: u64) -> u32 {
        let at = self.next.fetch_add(bytes.next_multiple_of(64), std::sync::atomic::Ordering::SeqCst);
        assert!(at + bytes <= 6 * PAGE, "the arena is full");
        u32::try_from(self.arena.at(at)).expect("it is low")
    }
    fn put(&self, at: u32, words: &[u32]) {
        for (word, i) in words.iter().zip(0..) {
            self.arena.write(u64::from(at) - self.arena.at(0) + 4 * i, &word.to_ne_bytes());
        }
    }
    fn get(&self, at: u32) -> u32 {
        self.arena.word(u64::from(at) - self.arena.at(0)).load(std::sync::atomic::Ordering::SeqCst)
    }
    fn with(&self, words: &[u32]) -> u32 {
        let at = self.bytes(4 * words.len() as u64);
        self.put(at, words);
        at
    }
}

/// Runs `body` on the kernel and on the engine.
fn on_both(body: impl Fn(&dyn Machine, &Memory)) {
    for is_kernel in [true, false] {
        let memory = Memory::new();
        if !is_kernel {
            let engine = Engine { domain: domain(), memory: memory.arena };
            body(&engine, &memory);
            engine.exit();
        } else if let Some(reason) = lack() {
            skip(reason);
        } else {
            body(&Kernel, &memory);
        }
    }
}

/// The two fields of a time, as 32-bit words.
fn narrow(time: Duration) -> [u32; 2] {
    [time.as_secs() as u32, time.subsec_nanos()]
}

/// As [`narrow`], with fields of 64 bits and rubbish in the padding.
fn padded(time: Duration) -> [u32; 4] {
    [time.as_secs() as u32, 0, time.subsec_nanos(), 0xdead_beef]
}

#[test]
fn words_are_compared_and_woken_by_every_number() {
    on_both(|m, memory| {
        let word = memory.with(&[7]);
        for number in [FUTEX, FUTEX_TIME64] {
            assert_eq!(m.call(number, [word, WAIT_PRIVATE, 8, 0, 0, 0]), EAGAIN);
            assert_eq!(m.call(number, [word, WAKE_PRIVATE, 1, 0, 0, 0]), 0);
            assert_eq!(m.call(number, [word + 1, WAKE_PRIVATE, 1, 0, 0, 0]), EINVAL);
            assert_eq!(m.call(number, [word, 99, 1, 0, 0, 0]), ENOSYS);
            assert_eq!(m.call(number, [word, CMP_REQUEUE_PRIVATE, 0, 0, word + 4, 8]), EAGAIN);
        }
        assert_eq!(m.call(FUTEX_WAIT, [word, 8, u32::MAX, PRIVATE_U32, 0, 0]), EAGAIN);
        assert_eq!(m.call(FUTEX_WAKE, [word, u32::MAX, 1, PRIVATE_U32, 0, 0]), 0);
        let pair = memory.with(&[8, 0, word, 0, PRIVATE_U32, 0, 8, 0, word + 4, 0, PRIVATE_U32, 0]);
        assert_eq!(m.call(FUTEX_WAITV, [pair, 1, 0, 0, 1, 0]), EAGAIN);
        assert_eq!(m.call(FUTEX_REQUEUE, [pair, 0, 1, 1, 0, 0]), EAGAIN);
        memory.put(pair, &[7]);
        assert_eq!(m.call(FUTEX_REQUEUE, [pair, 0, 1, 1, 0, 0]), 0);
    });
}

#[test]
fn narrow_times_are_read_as_signed_fields_of_32_bits() {
    on_both(|m, memory| {
        let word = memory.with(&[0]);
        for time in [[u32::MAX, 0], [0, 1_000_000_000], [0, u32::MAX], [1 << 31, 5]] {
            let at = memory.with(&time);
            assert_eq!(m.call(FUTEX, [word, WAIT_PRIVATE, 0, at, 0, 0]), EINVAL, "{time:?}");
        }
        // What comes behind the eight bytes is not read.
        let soon = memory.with(&[0, 1_000_000, u32::MAX, u32::MAX]);
        assert_eq!(m.call(FUTEX, [word, WAIT_PRIVATE, 0, soon, 0, 0]), ETIMEDOUT);
        let past = memory.with(&narrow(now(libc::CLOCK_MONOTONIC)));
        assert_eq!(m.call(FUTEX, [word, WAIT_BITSET_PRIVATE, 0, past, 0, 1]), ETIMEDOUT);
        let gone = u32::try_from(memory.arena.at(7 * PAGE)).expect("it is low");
        memory.arena.protect(7 * PAGE, Rights::Nothing);
        for at in [gone, gone - 4, u32::MAX - 3] {
            assert_eq!(m.call(FUTEX, [word, WAIT_PRIVATE, 0, at, 0, 0]), EFAULT, "{at:#x}");
        }
        let last = gone - 8;
        memory.put(last, &[0, 1000]);
        assert_eq!(m.call(FUTEX, [word, WAIT_PRIVATE, 0, last, 0, 0]), ETIMEDOUT, "eight bytes are enough");
    });
}

#[test]
fn wide_times_have_padding_above_their_nanoseconds() {
    on_both(|m, memory| {
        let word = memory.with(&[0]);
        let soon = memory.with(&padded(Duration::from_millis(1)));
        assert_eq!(m.call(FUTEX_TIME64, [word, WAIT_PRIVATE, 0, soon, 0, 0]), ETIMEDOUT);
        let past = memory.with(&padded(now(libc::CLOCK_MONOTONIC)));
        assert_eq!(m.call(FUTEX_WAIT, [word, 0, 1, PRIVATE_U32, past, 1]), ETIMEDOUT);
        let one = memory.with(&[0, 0, word, 0, PRIVATE_U32, 0]);
        assert_eq!(m.call(FUTEX_WAITV, [one, 1, 0, past, 1, 0]), ETIMEDOUT);
        // The upper half of the seconds counts, so the first time is negative. The second has too many nanoseconds.
        for (time, result) in [([1, 1 << 31, 0, 0], EINVAL), ([0, 0, 1_000_000_000, 0], EINVAL)] {
            let at = memory.with(&time);
            assert_eq!(m.call(FUTEX_TIME64, [word, WAIT_PRIVATE, 0, at, 0, 0]), result, "{time:?}");
        }
    });
}

#[test]
fn wait_by_one_number_is_woken_by_another() {
    on_both(|m, memory| {
        let pairs = [(FUTEX, FUTEX_TIME64), (FUTEX_TIME64, FUTEX_WAKE), (FUTEX_WAIT, FUTEX), (FUTEX_WAITV, FUTEX)];
        for (wait, wake) in pairs {
            let word = memory.with(&[3]);
            let one = memory.with(&[3, 0, word, 0, PRIVATE_U32, 0]);
            let args = match wait {
                FUTEX_WAIT => [word, 3, u32::MAX, PRIVATE_U32, 0, 0],
                FUTEX_WAITV => [one, 1, 0, 0, 1, 0],
                _ => [word, WAIT_PRIVATE, 3, 0, 0, 0],
            };
            let sleeper = std::sync::atomic::AtomicI32::new(0);
            std::thread::scope(|scope| {
                let waiter = scope.spawn(|| {
                    sleeper.store(thread_id(), std::sync::atomic::Ordering::SeqCst);
                    let result = m.call(wait, args);
                    m.exit();
                    result
                });
                let is_asleep = || match sleeper.load(std::sync::atomic::Ordering::SeqCst) {
                    0 => false,
                    tid => sleeps_in(tid).is_some() || futex_call(tid).is_some(),
                };
                until("the thread sleeps", is_asleep);
                let wake_args = match wake {
                    FUTEX_WAKE => [word, u32::MAX, 1, PRIVATE_U32, 0, 0],
                    _ => [word, WAKE_PRIVATE, 1, 0, 0, 0],
                };
                // A sleep may be one for memory: the wake is repeated until it finds the waiter.
                until("the waiter is woken", || m.call(wake, wake_args) == 1);
                assert_eq!(waiter.join().expect("it does not panic"), 0, "{wait}");
            });
        }
    });
}

#[test]
fn robust_list_has_pointers_of_32_bits() {
    on_both(|m, memory| {
        let (head, at, length) = (memory.bytes(12), memory.with(&[9, 9]), memory.with(&[9, 9]));
        memory.put(head, &[head, 0, 0]);
        for bad in [0, 8, 24] {
            assert_eq!(m.call(SET_ROBUST_LIST, [head, bad, 0, 0, 0, 0]), EINVAL, "{bad}");
        }
        assert_eq!(m.call(GET_ROBUST_LIST, [0, 0, length, 0, 0, 0]), EFAULT);
        assert_eq!([memory.get(length), memory.get(length + 4)], [HEAD, 9], "the length is written first");
        assert_eq!(m.call(SET_ROBUST_LIST, [head, HEAD, 0, 0, 0, 0]), 0);
        assert_eq!(m.call(GET_ROBUST_LIST, [0, at, length, 0, 0, 0]), 0);
        assert_eq!([memory.get(at), memory.get(at + 4)], [head, 9]);
        assert_eq!(m.call(SET_ROBUST_LIST, [0, HEAD, 0, 0, 0, 0]), 0);
        // A thread with two locks: the word lies 4 bytes before each entry. The pending one is not on the list.
        let (first, pending) = (memory.bytes(8), memory.bytes(8));
        let tid = std::thread::scope(|scope| {
            let owner = scope.spawn(|| {
                let tid = thread_id() as u32;
                memory.put(first, &[tid | WAITERS, head]);
                memory.put(pending, &[tid, 0]);
                memory.put(head, &[first + 4, 4u32.wrapping_neg(), pending + 4]);
                assert_eq!(m.call(SET_ROBUST_LIST, [head, HEAD, 0, 0, 0, 0]), 0);
                m.exit();
                tid
            });
            owner.join().expect("it does not panic")
        });
        assert_eq!(tid & TID_MASK, tid);
        let died = || [memory.get(first), memory.get(pending)] == [WAITERS | OWNER_DIED, OWNER_DIED];
        until("the owner has died", died);
    });
}
