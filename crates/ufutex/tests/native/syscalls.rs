//! System calls as futures: results, timeouts that the embedder handles, interruptions and restarts.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::Poll;
use std::time::Duration;

use ufutex::{
    Cause, Clock, Domain, DomainOptions, System, SystemConfig, Task, Timeout,
    pi::{Priority, WAITERS},
    syscall::{ERESTART_RESTARTBLOCK, ERESTARTNOINTR, ERESTARTSYS, Number, Resume, Syscall, resume},
    timer::{Base, Clocks},
};

use crate::common::arena::{Arena, Rights};
use crate::common::domains::{domain, on_domains};
use crate::common::errno::{EAGAIN, EFAULT, EINTR, EINVAL, ENOSYS, ETIMEDOUT};
use crate::common::futures::{Boxed, at_once, pending, poll};
use crate::common::guest_memory::GuestMemory;
use crate::scheduler::tasks;

const PRIVATE: u64 = 128;
const REALTIME: u64 = 256;
const WAIT: u64 = PRIVATE;
const WAKE: u64 = PRIVATE | 1;
const CMP_REQUEUE: u64 = PRIVATE | 4;
const WAKE_OP: u64 = PRIVATE | 5;
const LOCK_PI: u64 = PRIVATE | 6;
const UNLOCK_PI: u64 = PRIVATE | 7;
const WAIT_BITSET: u64 = PRIVATE | 9;
const WAIT_REQUEUE_PI: u64 = PRIVATE | 11;
const LOCK_PI2: u64 = PRIVATE | 13;

/// Offsets of the words and of a `struct timespec`.
const WORD: u64 = 0;
const LOCK: u64 = 256;
const TIME: u64 = 1024;
const ARRAY: u64 = 2048;

type Call<'d, 't, 'm> = Syscall<'d, 't, 'm, GuestMemory>;

/// A guest program: its task and its memory.
struct Guest<'d, 't> {
    domain: &'d Domain,
    task: &'t Task,
    memory: &'t GuestMemory,
}

impl<'d, 't> Guest<'d, 't> {
    fn call(&self, number: Number, args: [u64; 6]) -> Call<'d, 't, 't> {
        self.domain.syscall_async(self.task, self.memory, number, args)
    }

    fn futex(&self, at: u64, op: u64, rest: [u64; 4]) -> Call<'d, 't, 't> {
        let [val, time, other, val3] = rest;
        self.call(Number::Futex, [self.memory.at(at), op, val, time, other, val3])
    }

    fn futex_now(&self, at: u64, op: u64, rest: [u64; 4]) -> isize {
        at_once(self.futex(at, op, rest))
    }

    fn with<'u>(&self, task: &'u Task) -> Guest<'d, 'u>
    where
        't: 'u,
    {
        Guest { domain: self.domain, task, memory: self.memory }
    }

    /// Writes a `struct timespec` of this many seconds and returns its address.
    fn time(&self, seconds: u64) -> u64 {
        self.memory.store(TIME, 8, seconds);
        self.memory.store(TIME + 8, 8, 0);
        self.memory.at(TIME)
    }

    /// Writes an array of `struct futex_waitv` for private words that hold 0, and returns its address.
    fn waitv(&self, words: &[u64]) -> u64 {
        for (i, word) in words.iter().enumerate() {
            let at = ARRAY + 24 * i as u64;
            self.memory.store(at, 8, 0);
            self.memory.store(at + 8, 8, self.memory.at(*word));
            self.memory.store(at + 16, 8, PRIVATE | 2);
        }
        self.memory.at(ARRAY)
    }
}

fn timeout_of(call: &Boxed<Call<'_, '_, '_>>) -> Option<Timeout> {
    call.as_ref().get_ref().timeout()
}

fn calls_that_do_not_block_are_made_before_the_first_poll() {
    let (domain, memory) = (domain(), GuestMemory::new());
    let task = domain.task(1).expect("it is free");
    let guest = Guest { domain: &domain, task: &task, memory: &memory };
    let mut wait = pending(guest.futex(WORD, WAIT, [0; 4]));
    drop(guest.futex(WORD, WAKE, [1, 0, 0, 0]));
    assert_eq!(poll(&mut wait), Poll::Ready(0));
    // A wait begins at the first poll.
    drop(guest.futex(WORD, WAIT, [0; 4]));
    let unpolled = guest.futex(WORD, WAIT, [0; 4]);
    assert_eq!(guest.futex_now(WORD, WAKE, [9, 0, 0, 0]), 0);
    drop(unpolled);
}

fn timeouts_taken_by_the_embedder_are_not_handled_by_the_engine() {
    let (domain, memory) = (domain(), GuestMemory::new());
    let [owner, task] = tasks(&domain, [0; 2]);
    let guest = Guest { domain: &domain, task: &task, memory: &memory };
    assert_eq!(domain.lock_pi(memory.target(LOCK), &owner), Ok(()));
    let time = guest.time(77);
    let lock = memory.at(LOCK);
    let at = |clock| Some(Timeout::At(clock, Duration::from_secs(77)));
    let array = guest.waitv(&[WORD]);
    for (call, timeout) in [
        (guest.futex(WORD, WAIT, [0; 4]), None),
        (guest.futex(WORD, WAIT_BITSET, [0, time, 0, 1]), at(Clock::Monotonic)),
        (guest.futex(WORD, WAIT_BITSET | REALTIME, [0, time, 0, 1]), at(Clock::Realtime)),
        (guest.futex(LOCK, LOCK_PI, [0, time, 0, 0]), at(Clock::Realtime)),
        (guest.futex(LOCK, LOCK_PI2, [0, time, 0, 0]), at(Clock::Monotonic)),
        (guest.futex(LOCK, LOCK_PI2 | REALTIME, [0, time, 0, 0]), at(Clock::Realtime)),
        (guest.futex(WORD, WAIT_REQUEUE_PI, [0, time, lock, 0]), at(Clock::Monotonic)),
        (guest.call(Number::FutexWaitv, [array, 1, 0, time, 1, 0]), at(Clock::Monotonic)),
        (guest.call(Number::FutexWaitv, [array, 1, 0, 0, 9, 0]), None),
        (guest.call(Number::FutexWait, [memory.at(WORD), 0, 1, PRIVATE | 2, time, 0]), at(Clock::Realtime)),
    ] {
        // Most of these times have long passed. Only the embedder checks the clock.
        let mut call = call;
        assert_eq!(call.take_timeout(), timeout);
        let mut call = pending(call);
        assert_eq!(call.as_mut().end(Cause::TimedOut), ETIMEDOUT);
    }
    // A relative timeout is reported as an absolute time.
    let call = pending(guest.futex(WORD, WAIT, [0, time, 0, 0]));
    assert!(matches!(timeout_of(&call), Some(Timeout::At(Clock::Monotonic, _))));
    drop(call);
    assert_eq!(guest.futex_now(WORD, WAKE, [9, 0, 0, 0]), 0);
    assert_eq!(domain.unlock_pi(memory.target(LOCK), &owner), Ok(()));
    assert_eq!(memory.word(LOCK).load(Relaxed), 0, "no waiter is left there either");
}

fn interrupted_calls_return_how_they_are_restarted() {
    let (domain, memory) = (domain(), GuestMemory::new());
    let [owner, task] = tasks(&domain, [0; 2]);
    let guest = Guest { domain: &domain, task: &task, memory: &memory };
    assert_eq!(domain.lock_pi(memory.target(LOCK), &owner), Ok(()));
    let (time, lock, array) = (guest.time(1 << 33), memory.at(LOCK), guest.waitv(&[WORD]));
    for (call, result) in [
        (guest.futex(WORD, WAIT, [0; 4]), ERESTARTSYS),
        (guest.futex(WORD, WAIT_BITSET, [0, 0, 0, 1]), ERESTARTSYS),
        (guest.futex(WORD, WAIT, [0, time, 0, 0]), ERESTART_RESTARTBLOCK),
        (guest.futex(WORD, WAIT_BITSET, [0, time, 0, 1]), ERESTART_RESTARTBLOCK),
        (guest.futex(LOCK, LOCK_PI, [0; 4]), ERESTARTNOINTR),
        (guest.futex(LOCK, LOCK_PI2, [0, time, 0, 0]), ERESTARTNOINTR),
        (guest.futex(WORD, WAIT_REQUEUE_PI, [0, 0, lock, 0]), ERESTARTNOINTR),
        (guest.futex(WORD, WAIT_REQUEUE_PI, [0, time, lock, 0]), ERESTARTNOINTR),
        (guest.call(Number::FutexWaitv, [array, 1, 0, 0, 0, 0]), ERESTARTSYS),
        (guest.call(Number::FutexWaitv, [array, 1, 0, time, 1, 0]), ERESTARTSYS),
        (guest.call(Number::FutexWait, [memory.at(WORD), 0, 1, PRIVATE | 2, 0, 0]), ERESTARTSYS),
        (guest.call(Number::FutexWait, [memory.at(WORD), 0, 1, PRIVATE | 2, time, 0]), ERESTARTSYS),
    ] {
        assert_eq!(pending(call).as_mut().end(Cause::Interrupted), -result);
    }
    // After the requeue the call must not be restarted.
    let mut wait = pending(guest.futex(WORD, WAIT_REQUEUE_PI, [0, 0, lock, 0]));
    assert_eq!(domain.cmp_requeue_pi(memory.target(WORD), 0, memory.target(LOCK), 1), Ok(1));
    assert_eq!(wait.as_mut().end(Cause::Interrupted), EAGAIN);
}

fn ended_call_that_was_woken_returns_the_wake() {
    for cause in [Cause::TimedOut, Cause::Interrupted] {
        let (domain, memory) = (domain(), GuestMemory::new());
        let [owner, task] = tasks(&domain, [0; 2]);
        let guest = Guest { domain: &domain, task: &task, memory: &memory };
        let time = guest.time(1 << 33);
        let array = guest.waitv(&[LOCK, WORD]);
        for (call, result) in [
            (guest.futex(WORD, WAIT, [0; 4]), 0),
            (guest.futex(WORD, WAIT, [0, time, 0, 0]), 0),
            (guest.call(Number::FutexWaitv, [array, 2, 0, time, 1, 0]), 1),
        ] {
            let mut call = pending(call);
            assert_eq!(guest.futex_now(WORD, WAKE, [1, 0, 0, 0]), 1);
            assert_eq!(call.as_mut().end(cause), result);
        }
        assert_eq!(at_once(guest.call(Number::RestartSyscall, [0; 6])), EINTR, "nothing to be continued");
        assert_eq!(domain.lock_pi(memory.target(LOCK), &owner), Ok(()));
        let mut call = pending(guest.futex(LOCK, LOCK_PI, [0; 4]));
        assert_eq!(domain.unlock_pi(memory.target(LOCK), &owner), Ok(()));
        assert_eq!((call.as_mut().end(cause), memory.word(LOCK).load(Relaxed)), (0, WAITERS | 2));
    }
}

fn interrupted_wait_is_continued_with_the_same_deadline() {
    let (domain, memory) = (domain(), GuestMemory::new());
    let [task, other] = tasks(&domain, [0; 2]);
    let guest = Guest { domain: &domain, task: &task, memory: &memory };
    let time = guest.time(1 << 33);
    for op in [WAIT, WAIT_BITSET, WAIT_BITSET | REALTIME, WAIT & !PRIVATE] {
        let mut call = pending(guest.futex(WORD, op, [0, time, 0, 0b110]));
        let timeout = timeout_of(&call);
        for _ in 0..3 {
            assert_eq!(call.as_mut().end(Cause::Interrupted), -ERESTART_RESTARTBLOCK);
            assert_eq!(at_once(guest.with(&other).call(Number::RestartSyscall, [0; 6])), EINTR, "of another task");
            call = pending(guest.call(Number::RestartSyscall, [0; 6]));
            assert_eq!(timeout_of(&call), timeout);
        }
        // The restarted call keeps its bitset and its sharing.
        let private = op & PRIVATE;
        if op & !PRIVATE & !REALTIME == 9 {
            assert_eq!(guest.futex_now(WORD, private | 10, [1, 0, 0, 0b001]), 0);
        }
        assert_eq!(guest.futex_now(WORD, (private ^ PRIVATE) | 1, [1, 0, 0, 0]), 0);
        assert_eq!(guest.futex_now(WORD, private | 10, [1, 0, 0, 0b010]), 1);
        assert_eq!(poll(&mut call), Poll::Ready(0));
        assert_eq!(at_once(guest.call(Number::RestartSyscall, [0; 6])), EINTR, "once");
        // The word has changed before the restart.
        let mut call = pending(guest.futex(WORD, op, [0, time, 0, 1]));
        assert_eq!(call.as_mut().end(Cause::Interrupted), -ERESTART_RESTARTBLOCK);
        memory.word(WORD).store(1, Relaxed);
        assert_eq!(at_once(guest.call(Number::RestartSyscall, [0; 6])), EAGAIN);
        memory.word(WORD).store(0, Relaxed);
        // A handler ran before the restart.
        let mut call = pending(guest.futex(WORD, op, [0, time, 0, 1]));
        assert_eq!(call.as_mut().end(Cause::Interrupted), -ERESTART_RESTARTBLOCK);
        task.forget_restart();
        assert_eq!(at_once(guest.call(Number::RestartSyscall, [0; 6])), EINTR);
    }
    let mut call = pending(guest.futex(WORD, WAIT, [0, time, 0, 0]));
    assert_eq!(call.as_mut().end(Cause::Interrupted), -ERESTART_RESTARTBLOCK);
    let mut call = pending(guest.call(Number::RestartSyscall, [0; 6]));
    assert_eq!(call.as_mut().end(Cause::TimedOut), ETIMEDOUT);
}

/// The embedder provides the guest's clock. A relative timeout is added to the current time of that clock.
fn relative_timeout_uses_the_embedders_clock() {
    let (domain, memory) = (domain(), GuestMemory::new());
    let [task] = tasks(&domain, [0; 1]);
    let guest = Guest { domain: &domain, task: &task, memory: &memory };
    let time = guest.time(77);
    let now = Duration::from_secs(1000);
    let mut call = guest.futex(WORD, WAIT, [0, time, 0, 0]);
    call.begin_at(now);
    let timeout = Some(Timeout::At(Clock::Monotonic, Duration::from_secs(1077)));
    assert_eq!(call.take_timeout(), timeout);
    assert_eq!(pending(call).as_mut().end(Cause::Interrupted), -ERESTART_RESTARTBLOCK);
    let mut call = guest.call(Number::RestartSyscall, [0; 6]);
    call.begin_at(now + now);
    assert_eq!(call.timeout(), timeout, "it is a point in time by now");
    drop(call);
    let mut call = guest.futex(WORD, WAIT_BITSET, [0, time, 0, 1]);
    call.begin_at(now);
    assert_eq!(call.take_timeout(), Some(Timeout::At(Clock::Monotonic, Duration::from_secs(77))));
    assert_eq!(pending(call).as_mut().end(Cause::TimedOut), ETIMEDOUT);
}

/// The system has clocks. A relative timeout runs by these, also if the host has another time.
fn relative_timeout_uses_the_systems_clocks() {
    struct Given;
    impl Clocks for Given {
        fn now(&self, _: Base) -> Duration {
            Duration::from_secs(5)
        }
        fn changed(&self) {}
    }
    let system = System::with_config(SystemConfig::new().clocks(Arc::new(Given))).expect("a valid configuration");
    let (domain, memory) = (Domain::new(&system), GuestMemory::new());
    let [task] = tasks(&domain, [0; 1]);
    let guest = Guest { domain: &domain, task: &task, memory: &memory };
    let call = guest.futex(WORD, WAIT, [0, guest.time(77), 0, 0]);
    assert_eq!(call.timeout(), Some(Timeout::At(Clock::Monotonic, Duration::from_secs(82))));
    drop(call);
    let call = guest.futex(WORD, WAIT_BITSET, [0, guest.time(77), 0, 1]);
    assert_eq!(call.timeout(), Some(Timeout::At(Clock::Monotonic, Duration::from_secs(77))));
}

/// Since Linux 7.2 ([robust-unlock]), bit 512 makes the kernel do the unlock of a robust mutex in the same call.
/// Whether a call that waits looks for its wake before it sleeps, if a task with this real-time priority makes it.
fn spins(priority: u8) -> bool {
    let system = System::with_config(SystemConfig::new().cpus(2)).unwrap();
    let domain = Domain::with_options(&system, DomainOptions::new().spin(Duration::from_millis(1)));
    let (task, memory) = (domain.task(1).unwrap(), GuestMemory::new());
    if priority != 0 {
        task.set_priority(Priority::realtime(priority));
    }
    let guest = Guest { domain: &domain, task: &task, memory: &memory };
    let mut call = pending(guest.futex(WORD, WAIT, [0; 4]));
    let looks = AtomicUsize::new(0);
    let is_woken = || looks.fetch_add(1, Relaxed) == 100;
    assert_eq!(call.as_mut().sleep(None, is_woken, || Err::<(), _>("slept")), Err("slept"));
    assert_eq!(call.as_mut().end(Cause::Interrupted), -ERESTARTSYS);
    looks.into_inner() != 0
}

#[test]
fn task_with_a_real_time_priority_does_not_spin() {
    assert!(spins(0));
    assert!(!spins(1));
}

fn robust_unlock_is_one_call() {
    const ROBUST_UNLOCK: u64 = 512;
    let (domain, memory) = (domain(), Arena::new(1));
    let [owner, other] = tasks(&domain, [0; 2]);
    let (word, pending_op) = (memory.at(0), memory.at(64));
    let call =
        |task, op, val| at_once(domain.syscall_async(task, &memory, Number::Futex, [word, op, val, 0, pending_op, 0]));
    let is_cleared = || memory.word(64).load(Relaxed) == 0 && memory.word(68).load(Relaxed) == 0;
    let set_pending = || memory.write(64, &0x0123_4567_89ab_cdef_u64.to_le_bytes());

    memory.word(0).store(owner.tid() | WAITERS, Relaxed);
    set_pending();
    let value = u64::from(owner.tid() | WAITERS);
    let mut wait = pending(domain.syscall_async(&other, &memory, Number::Futex, [word, WAIT, value, 0, 0, 0]));
    assert_eq!(call(&owner, WAKE | ROBUST_UNLOCK, 1), 1);
    assert_eq!((poll(&mut wait), memory.word(0).load(Relaxed)), (Poll::Ready(0), 0));
    assert!(is_cleared());

    assert_eq!(call(&owner, LOCK_PI, 0), 0);
    set_pending();
    assert_eq!(call(&other, UNLOCK_PI | ROBUST_UNLOCK, 0), -1, "not its lock");
    assert!(!is_cleared());
    assert_eq!(call(&owner, UNLOCK_PI | ROBUST_UNLOCK, 0), 0);
    assert_eq!(memory.word(0).load(Relaxed), 0);
    assert!(is_cleared());

    for op in [WAIT, LOCK_PI, CMP_REQUEUE, WAKE_OP] {
        assert_eq!(call(&owner, op | ROBUST_UNLOCK, 0), ENOSYS);
    }

    // Of a pointer that is a multiple of 4 only, exactly the eight bytes are cleared.
    (60..84).step_by(4).for_each(|offset| memory.word(offset).store(u32::MAX, Relaxed));
    let unaligned = memory.at(68);
    let unlock = [word, WAKE | ROBUST_UNLOCK, 1, 0, unaligned, 0];
    assert_eq!(at_once(domain.syscall_async(&owner, &memory, Number::Futex, unlock)), 0);
    let left: Vec<u32> = (60..84).step_by(4).map(|offset| memory.word(offset).load(Relaxed)).collect();
    assert_eq!(left, [u32::MAX, u32::MAX, 0, 0, u32::MAX, u32::MAX]);

    memory.protect(0, Rights::Read);
    assert_eq!(call(&owner, WAKE | ROBUST_UNLOCK, 1), EFAULT);
}

fn waits_for_too_many_words_are_refused_and_counted() {
    let (domain, memory) = (domain(), GuestMemory::new());
    let task = domain.task(1).expect("it is free");
    let guest = Guest { domain: &domain, task: &task, memory: &memory };
    assert_eq!(at_once(guest.call(Number::FutexWaitv, [memory.at(ARRAY), 0, 0, 0, 0, 0])), EINVAL);
    assert_eq!(domain.counters().refused_waitv, 0);
    assert_eq!(at_once(guest.call(Number::FutexWaitv, [memory.at(ARRAY), 129, 0, 0, 0, 0])), EINVAL);
    assert_eq!(domain.counters().refused_waitv, 1);
}

on_domains![
    robust_unlock_is_one_call,
    waits_for_too_many_words_are_refused_and_counted,
    calls_that_do_not_block_are_made_before_the_first_poll,
    timeouts_taken_by_the_embedder_are_not_handled_by_the_engine,
    interrupted_calls_return_how_they_are_restarted,
    ended_call_that_was_woken_returns_the_wake,
    interrupted_wait_is_continued_with_the_same_deadline,
    relative_timeout_uses_the_embedders_clock,
    relative_timeout_uses_the_systems_clocks,
];

#[test]
fn result_of_a_call_tells_how_the_program_continues() {
    let eintr = Resume::Return(EINTR);
    for (result, no_handler, without_restart, with_restart) in [
        (-ERESTARTSYS, Resume::Again, eintr, Resume::Again),
        (-ERESTARTNOINTR, Resume::Again, Resume::Again, Resume::Again),
        (-ERESTART_RESTARTBLOCK, Resume::Continue, eintr, eintr),
    ] {
        assert_eq!(resume(result, None), no_handler);
        assert_eq!(resume(result, Some(false)), without_restart);
        assert_eq!(resume(result, Some(true)), with_restart);
    }
    for result in [0, 1, 512, 513, 516, -1, EINTR, EAGAIN, ETIMEDOUT, -511, -514, -515, isize::MAX, isize::MIN + 1] {
        for handler in [None, Some(false), Some(true)] {
            assert_eq!(resume(result, handler), Resume::Return(result));
        }
    }
}
