//! The engine without timers and priority inheritance: what there is works. A guest's calls for the rest are refused.

#![cfg(not(any(feature = "timers", feature = "pi")))]

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use ufutex_least::pi::Priority;
use ufutex_least::syscall::Number;
use ufutex_least::{Access, Domain, Error, Fault, System, Task, Timeout, UserMemory, WaitOptions, Width};

const EAGAIN: isize = -11;
const EFAULT: isize = -14;
const EINVAL: isize = -22;
const ENOSYS: isize = -38;
const PRIVATE: u64 = 128;

/// Words from address 0 on.
struct Memory([AtomicU32; 8]);

impl Memory {
    fn new() -> Self {
        Self([const { AtomicU32::new(0) }; 8])
    }

    fn word(&self, address: u64) -> Result<&AtomicU32, Fault> {
        self.0.get(address as usize / 4).ok_or(Fault)
    }
}

impl UserMemory for Memory {
    fn load(&self, address: u64, width: Width) -> Result<u64, Fault> {
        assert_eq!(width, Width::U32);
        Ok(self.word(address)?.load(SeqCst).into())
    }
    fn compare_exchange(&self, address: u64, _: Width, current: u64, new: u64) -> Result<Result<u64, u64>, Fault> {
        let exchanged = self.word(address)?.compare_exchange(current as u32, new as u32, SeqCst, SeqCst);
        Ok(exchanged.map(u64::from).map_err(u64::from))
    }
    fn fault_in(&self, _: u64, _: Access) -> Result<(), Fault> {
        Err(Fault)
    }
    fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), Fault> {
        for (i, byte) in bytes.iter_mut().enumerate() {
            let at = address + i as u64;
            *byte = self.word(at)?.load(SeqCst).to_le_bytes()[at as usize % 4];
        }
        Ok(())
    }
}

fn guest() -> (Domain, Task, Memory) {
    let domain = Domain::new(&System::new());
    let task = domain.task(1).expect("the first task");
    (domain, task, Memory::new())
}

#[test]
fn calls_for_the_parts_that_are_not_there_are_unknown() {
    let (domain, task, memory) = guest();
    // FUTEX_LOCK_PI, UNLOCK_PI, TRYLOCK_PI, WAIT_REQUEUE_PI, CMP_REQUEUE_PI, LOCK_PI2
    for operation in [6, 7, 8, 11, 12, 13] {
        for number in [Number::x86_64(202), Number::i386(240), Number::i386(422)] {
            let number = number.expect("futex(2)");
            let result = domain.syscall(&task, &memory, number, [0, operation | PRIVATE, 1, 0, 4, 0]);
            assert_eq!(result, ENOSYS, "operation {operation} of {number:?}");
        }
    }
    // FUTEX_CMP_REQUEUE_PI: as in the kernel, the counts are checked first.
    for [wake, requeue] in [[u64::MAX, 0], [1, u64::MAX]] {
        let futex = Number::x86_64(202).expect("futex(2)");
        assert_eq!(domain.syscall(&task, &memory, futex, [0, 12 | PRIVATE, wake, requeue, 4, 0]), EINVAL);
    }
}

#[test]
fn mistakes_of_requeues_are_found() {
    let (domain, task, memory) = guest();
    let futex = Number::x86_64(202).expect("futex(2)");
    let requeue2 = Number::x86_64(456).expect("futex_requeue(2)");
    let call = |task: &Task, args: [u64; 6]| domain.syscall(task, &memory, futex, args);
    // FUTEX_REQUEUE and FUTEX_CMP_REQUEUE: from, operation, to wake, to move, to, the expected value.
    assert_eq!(call(&task, [0, 4 | PRIVATE, 0, 1, 4, 7]), EAGAIN);
    assert_eq!(call(&task, [64, 4 | PRIVATE, 0, 1, 4, 7]), EFAULT);
    assert_eq!(call(&task, [0, 3 | PRIVATE, 0, 1, 3, 0]), EINVAL, "a misaligned target");
    assert_eq!(call(&task, [0, 3 | PRIVATE, u64::MAX, 1, 4, 0]), EINVAL);
    assert_eq!(domain.syscall(&task, &memory, requeue2, [0, 0, 1, 1, 0, 0]), EINVAL, "no array");
}

#[test]
fn waits_and_wakes_by_number_work() {
    let (domain, task, memory) = guest();
    let futex = Number::x86_64(202).expect("futex(2)");
    let call = |task: &Task, operation: u64, value: u64, timeout: u64| {
        domain.syscall(task, &memory, futex, [0, operation | PRIVATE, value, timeout, 0, 0])
    };
    assert_eq!(call(&task, 0, 7, 0), -11, "EAGAIN");
    memory.0[4].store(1_000_000, SeqCst); // at 8: no seconds, and at 16 a millisecond in nanoseconds
    assert_eq!(call(&task, 0, 0, 8), -110, "ETIMEDOUT");
    let sleeper = domain.task(2).expect("a free TID");
    thread::scope(|scope| {
        let waits = scope.spawn(|| call(&sleeper, 0, 0, 0));
        while call(&task, 1, 1, 0) == 0 {
            thread::yield_now();
        }
        assert_eq!(waits.join().unwrap(), 0);
        let waits = scope.spawn(|| call(&sleeper, 0, 0, 0));
        sleeper.interrupt().raise();
        assert_eq!(waits.join().unwrap(), -512, "ERESTARTSYS");
    });
}

#[test]
fn a_tid_is_free_again_when_its_task_has_been_dropped() {
    let (domain, task, _) = guest();
    assert_eq!(domain.task(1).err(), Some(Error::Busy));
    drop(task);
    assert_eq!(domain.task(1).expect("it is free").tid(), 1);
    assert_eq!(domain.task(0).err(), Some(Error::Invalid));
}

#[test]
fn a_task_runs_with_its_own_priority() {
    let (_domain, task, _) = guest();
    task.set_priority(Priority::realtime(7));
    assert_eq!([task.priority(), task.own_priority()], [Priority::realtime(7); 2]);
}

struct Unpark(thread::Thread, AtomicBool);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.1.store(true, SeqCst);
        self.0.unpark();
    }
}

#[test]
fn the_driver_ends_the_wait_of_a_task_without_timers() {
    let domain = Domain::new(&System::new());
    let word = AtomicU32::new(0);
    let options = WaitOptions::new().timeout(Timeout::After(Duration::from_millis(2)));
    let mut wait = pin!(domain.wait_async(&word, 0, &options));
    let unpark = Arc::new(Unpark(thread::current(), AtomicBool::new(false)));
    let waker = Waker::from(unpark.clone());
    let mut context = Context::from_waker(&waker);
    let mut polled = wait.as_mut().poll(&mut context);
    while polled.is_pending() {
        while !unpark.1.swap(false, SeqCst) {
            thread::park();
        }
        polled = wait.as_mut().poll(&mut context);
    }
    assert_eq!(polled, Poll::Ready(Err(Error::TimedOut)));
}
