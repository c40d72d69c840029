//! PI locks of two domains without memory. An operation that needs memory fails before it has changed anything. Handing
//! a lock over or giving up a wait needs no memory.

use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::task::Poll;

use ufutex::{At, Cause, Domain, DomainOptions, Error, ObjectId, Task, WaitOptions, pi::TID_MASK};

use crate::allocator::{Failures, for_every_failure};
use crate::common::domains::{on_domains, system};
use crate::common::futures::poll;

/// Makes a task. If that fails for lack of memory, tries again with memory.
fn task(domain: &Domain, tid: u32, memory: &mut Failures) -> Task {
    match memory.during(|| domain.task(tid)) {
        Err(error) => {
            assert_eq!(error, Error::NoMemory);
            domain.task(tid).expect("the TID is free")
        }
        Ok(task) => task,
    }
}

/// Begins to wait. If that fails for lack of memory, tries again with memory.
fn wait<F: Future<Output = Result<(), Error>>>(make: impl Fn() -> F, memory: &mut Failures) -> Pin<Box<F>> {
    let mut future = Box::pin(make());
    if let Poll::Ready(result) = memory.during(|| poll(&mut future)) {
        assert_eq!(result, Err(Error::NoMemory));
        future = Box::pin(make());
        assert!(poll(&mut future).is_pending());
    }
    future
}

fn locks_of_two_domains_lose_no_waiter() {
    let failures = for_every_failure(|memory| {
        let system = system();
        let [here, there] = [(); 2].map(|()| Domain::with_options(&system, DomainOptions::new()));
        let (lock, condition) = (AtomicU32::new(0), AtomicU32::new(0));
        let object = |word, offset| At::object(word, ObjectId::new(1).expect("small enough"), offset);
        let (lock_word, lock, condition) = (&lock, object(&lock, 0), object(&condition, 64));
        let [a, c] = [1, 3].map(|tid| task(&here, tid, memory));
        let [b, d] = [2, 4].map(|tid| task(&there, tid, memory));
        assert_eq!(memory.during(|| here.lock_pi(lock, &a)), Ok(()));
        let mut b_waits = wait(|| there.lock_pi_async(lock, &b, &WaitOptions::new()), memory);
        let mut d_waits = wait(|| there.lock_pi_async(lock, &d, &WaitOptions::new()), memory);
        let mut c_waits = wait(|| here.wait_requeue_pi_async(condition, 0, lock, &c, &WaitOptions::new()), memory);
        match memory.during(|| there.cmp_requeue_pi(condition, 0, lock, 0)) {
            Err(error) => {
                assert_eq!(error, Error::NoMemory);
                assert_eq!(there.cmp_requeue_pi(condition, 0, lock, 0), Ok(1));
            }
            Ok(moved) => assert_eq!(moved, 1),
        }
        let failed = memory.has_failed();
        assert_eq!(memory.during(|| here.unlock_pi(lock, &a)), Ok(()));
        assert_eq!(memory.during(|| poll(&mut b_waits)), Poll::Ready(Ok(())));
        assert_eq!(memory.during(|| d_waits.as_mut().end(Cause::TimedOut)), Err(Error::TimedOut));
        drop((b_waits, d_waits));
        memory.during(|| drop((b, d, a)));
        assert_eq!(memory.during(|| poll(&mut c_waits)), Poll::Ready(Ok(())));
        assert_eq!(lock_word.load(Relaxed) & TID_MASK, 3);
        assert_eq!(memory.during(|| here.unlock_pi(lock, &c)), Ok(()));
        assert_eq!(memory.has_failed(), failed, "handing over or leaving needs no memory");
    });
    assert!(failures >= 8, "tasks, locks and waiters need memory: {failures}");
}

on_domains![locks_of_two_domains_lose_no_waiter];
