//! A guest's calls in builds with some of the parts: each call of a part that is there does its work, and each call of
//! another part returns what docs/EMBEDDING.md says. Without features this is the engine without any part; `.ci/features`
//! runs it with one part after the other.

use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};

use ufutex_least::syscall::Number;
use ufutex_least::{Access, Domain, Fault, System, Task, UserMemory, Width};

const BASE: u64 = 0x1000;
const WAIT_PRIVATE: u64 = 128;
const WAKE_PRIVATE: u64 = 1 | 128;
const REQUEUE_PRIVATE: u64 = 3 | 128;
const CMP_REQUEUE_PRIVATE: u64 = 4 | 128;
const LOCK_PI_PRIVATE: u64 = 6 | 128;
const UNLOCK_PI_PRIVATE: u64 = 7 | 128;
const WAIT_REQUEUE_PI_PRIVATE: u64 = 11 | 128;
const ENOSYS: isize = -38;
const EAGAIN: isize = -11;

/// Words of 32 bits at [`BASE`].
struct Words([AtomicU32; 4]);

impl Words {
    /// The word that the address is in.
    fn word(&self, address: u64) -> Result<&AtomicU32, Fault> {
        self.0.get(address.wrapping_sub(BASE) as usize / 4).ok_or(Fault)
    }
}

impl UserMemory for Words {
    fn load(&self, address: u64, width: Width) -> Result<u64, Fault> {
        let word = self.word(address)?.load(SeqCst);
        Ok(u64::from(word) >> (address % 4 * 8) & width.max())
    }
    fn compare_exchange(&self, address: u64, width: Width, current: u64, new: u64) -> Result<Result<u64, u64>, Fault> {
        assert_eq!(width, Width::U32, "these calls change no others");
        let exchanged = self.word(address)?.compare_exchange(current as u32, new as u32, SeqCst, SeqCst);
        Ok(exchanged.map(u64::from).map_err(u64::from))
    }
    fn fault_in(&self, _address: u64, _: Access) -> Result<(), Fault> {
        Err(Fault)
    }
}

/// A guest with two words and a task.
struct Guest {
    domain: Domain,
    task: Task,
    memory: Words,
}

const FIRST: u64 = BASE;
const SECOND: u64 = BASE + 4;

impl Guest {
    fn new() -> Self {
        let domain = Domain::new(&System::new());
        let task = domain.task(100).expect("the TID is free");
        Self { domain, task, memory: Words([const { AtomicU32::new(0) }; 4]) }
    }

    fn futex(&self, args: [u64; 6]) -> isize {
        let futex = Number::x86_64(202).expect("futex(2)");
        self.domain.syscall(&self.task, &self.memory, futex, args)
    }

    /// Requeues `count` waiters by `op` while two tasks wait for the first word, and wakes what waits for the second.
    /// Returns the results of the two calls, and how many of the tasks have ended.
    fn requeue(&self, op: u64, count: u64) -> (isize, isize, usize) {
        let futex = Number::x86_64(202).expect("futex(2)");
        let tasks = [201, 202].map(|tid| self.domain.task(tid).expect("the TID is free"));
        let mut context = Context::from_waker(Waker::noop());
        let [a, b] = tasks
            .each_ref()
            .map(|task| self.domain.syscall_async(task, &self.memory, futex, [FIRST, WAIT_PRIVATE, 0, 0, 0, 0]));
        let mut waits = [pin!(a), pin!(b)];
        for wait in &mut waits {
            assert_eq!(wait.as_mut().poll(&mut context), Poll::Pending);
        }
        let requeued = self.futex([FIRST, op, 0, count, SECOND, 0]);
        let woken = self.futex([SECOND, WAKE_PRIVATE, 9, 0, 0, 0]);
        let mut ended = 0;
        for wait in &mut waits {
            if let Poll::Ready(result) = wait.as_mut().poll(&mut context) {
                assert_eq!(result, 0);
                ended += 1;
            }
        }
        (requeued, woken, ended)
    }
}

#[test]
fn wait_and_wake_are_always_there() {
    let guest = Guest::new();
    assert_eq!(guest.futex([FIRST, WAIT_PRIVATE, 1, 0, 0, 0]), EAGAIN);
    assert_eq!(guest.futex([FIRST, WAKE_PRIVATE, 1, 0, 0, 0]), 0);
}

#[test]
fn requeue_moves_waiters() {
    for op in [REQUEUE_PRIVATE, CMP_REQUEUE_PRIVATE] {
        // The wake of the second word finds the waiters that were moved there.
        assert_eq!(Guest::new().requeue(op, 1), (1, 1, 1));
        assert_eq!(Guest::new().requeue(op, 9), (2, 2, 2));
    }
    let guest = Guest::new();
    assert_eq!(guest.futex([FIRST, CMP_REQUEUE_PRIVATE, 0, 1, SECOND, 7]), EAGAIN, "the word is not 7");
}

#[test]
fn locks_are_there_with_pi() {
    let guest = Guest::new();
    let is_there = cfg!(feature = "pi");
    let (done, owner) = if is_there { (0, 100) } else { (ENOSYS, 0) };
    assert_eq!(guest.futex([FIRST, LOCK_PI_PRIVATE, 0, 0, 0, 0]), done);
    assert_eq!(guest.memory.0[0].load(SeqCst), owner);
    assert_eq!(guest.futex([FIRST, UNLOCK_PI_PRIVATE, 0, 0, 0, 0]), done);
    assert_eq!(guest.memory.0[0].load(SeqCst), 0);
}

#[test]
fn waits_to_be_requeued_to_a_lock_are_there_with_pi() {
    let guest = Guest::new();
    let expected = if cfg!(feature = "pi") { EAGAIN } else { ENOSYS };
    assert_eq!(guest.futex([FIRST, WAIT_REQUEUE_PI_PRIVATE, 1, 0, SECOND, 0]), expected);
}

#[test]
fn robust_lists_are_there_always() {
    let guest = Guest::new();
    let set_robust_list = Number::x86_64(273).expect("it is one of futex's");
    let result = guest.domain.syscall(&guest.task, &guest.memory, set_robust_list, [0x2000, 24, 0, 0, 0, 0]);
    assert_eq!(result, 0);
}
