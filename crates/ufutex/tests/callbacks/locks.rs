//! Schedulers, wakers and guest memory, in PI locks and in robust lists.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::task::Poll;
use std::time::Duration;

use ufutex::{
    Error, GuestWord, Task, WaitOptions,
    pi::{LockPi, OWNER_DIED, Priority, TID_MASK, WAITERS},
    syscall::Pointers,
};

use crate::bomb::{Bomb, panics};
use crate::common::asleep::{Call, futex_call, thread_id, until};
use crate::common::futures::{pending_with, poll, poll_with};
use crate::guest::{Embedder, Memory, Notified};

type Locks<'t> = Pin<Box<LockPi<'static, 't, GuestWord<'static, Memory>>>>;

fn task(it: &Embedder, tid: u32, priority: u8) -> Task {
    let task = it.domain.task(tid).expect("the TID is free");
    task.set_priority(Priority::realtime(priority));
    task
}

fn locking<'t>(it: &Embedder, number: usize, task: &'t Task) -> (Locks<'t>, Arc<Notified>) {
    let (notified, waker) = Notified::new();
    let lock = pending_with(it.domain.lock_pi_async(it.target(number), task, &WaitOptions::new()), &waker);
    (lock, notified)
}

/// Checks that the last report to the scheduler is the present priority. A report counts even if the scheduler
/// panicked.
fn assert_reported(it: &Embedder, tasks: &[&Task]) {
    for task in tasks {
        assert_eq!(it.log.of(task.tid()), task.priority(), "task {}", task.tid());
    }
}

/// The lock is handed to the waiter with the higher priority, which has boosted the owner.
fn unlock(bomb: &mut Bomb) {
    let it = Embedder::new();
    let [owner, good, better] = [(1, 0), (2, 10), (3, 20)].map(|(tid, priority)| task(&it, tid, priority));
    let word = it.target(0);
    assert_eq!(it.domain.lock_pi(word, &owner), Ok(()));
    let (mut second, _) = locking(&it, 0, &good);
    let (mut first, notified) = locking(&it, 0, &better);
    assert_eq!(owner.priority(), Priority::realtime(20));
    let unlocked = bomb.during(|| it.domain.unlock_pi(word, &owner));
    if it.word(0).load(SeqCst) & TID_MASK == 1 {
        assert_eq!((unlocked, notified.times()), (None, 0), "nothing has happened");
        assert_eq!(it.domain.unlock_pi(word, &owner), Ok(()));
    }
    assert_eq!(it.word(0).load(SeqCst), WAITERS | 3);
    assert_eq!(notified.times(), 1, "the new owner was not notified");
    assert_reported(&it, &[&owner, &good, &better]);
    assert_eq!(poll(&mut first), Poll::Ready(Ok(())));
    assert_eq!(it.domain.unlock_pi(word, &better), Ok(()));
    assert_eq!(poll(&mut second), Poll::Ready(Ok(())));
    assert_eq!(it.domain.unlock_pi(word, &good), Ok(()));
    assert_reported(&it, &[&owner, &good, &better]);
    it.assert_free();
}

/// The next owner is a sleeping thread.
fn unlock_for_a_thread(bomb: &mut Bomb) {
    let it = Embedder::new();
    let word = it.target(0);
    let owner = task(&it, 1, 0);
    assert_eq!(it.domain.lock_pi(word, &owner), Ok(()));
    let (domain, heir) = (it.domain, task(&it, 2, 30));
    let (is_over, waits) = std::sync::mpsc::channel();
    let (announce, announced) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        announce.send(thread_id()).expect("the test waits for it");
        assert_eq!(domain.lock_pi(word, &heir), Ok(()));
        // Until then it makes no call, which might report the owner's priority.
        assert_eq!(waits.recv(), Ok(()));
        assert_eq!(domain.unlock_pi(word, &heir), Ok(()));
    });
    let thread_of_heir = announced.recv().expect("it has started");
    // The thread has reported what it lends before it sleeps. If it were still at that, it would report what the unlock
    // changes, too, and this thread would have nothing to report. (Other hosts do not show whether a thread sleeps.)
    let sleeps = || futex_call(thread_of_heir).is_some_and(Call::is_of_the_engine) || cfg!(not(target_os = "linux"));
    until("the heir sleeps", || owner.priority() == Priority::realtime(30) && sleeps());
    bomb.during(|| domain.unlock_pi(word, &owner));
    is_over.send(()).expect("the heir is there");
    thread.join().expect("it has the lock");
    assert_reported(&it, &[&owner]);
    it.assert_free();
}

/// The first poll of a wait for a lock panics. The wait is queued or not, and a second poll continues it.
fn lock(bomb: &mut Bomb) {
    let it = Embedder::new();
    let [owner, waiter] = [(1, 0), (2, 20)].map(|(tid, priority)| task(&it, tid, priority));
    let word = it.target(0);
    assert_eq!(it.domain.lock_pi(word, &owner), Ok(()));
    let (notified, waker) = Notified::new();
    let mut lock = Box::pin(it.domain.lock_pi_async(word, &waiter, &WaitOptions::new()));
    it.memory.page_out();
    bomb.during(|| poll_with(&mut lock, &waker));
    assert_eq!(poll_with(&mut lock, &waker), Poll::Pending);
    assert_eq!(it.domain.waiting(), 1);
    assert_reported(&it, &[&owner, &waiter]);
    assert_eq!(it.domain.unlock_pi(word, &owner), Ok(()));
    assert!(notified.times() >= 1);
    assert_eq!(poll_with(&mut lock, &waker), Poll::Ready(Ok(())));
    assert_eq!(it.domain.unlock_pi(word, &waiter), Ok(()));
    it.assert_free();
}

/// The first poll of a wait with a timeout panics: the wait has ended, and the owner is not boosted any more. Otherwise
/// nothing would watch its timeout.
fn lock_with_a_timeout(bomb: &mut Bomb) {
    let it = Embedder::new();
    let [owner, waiter] = [(1, 0), (2, 20)].map(|(tid, priority)| task(&it, tid, priority));
    let word = it.target(0);
    let (_, waker) = Notified::new();
    assert_eq!(it.domain.lock_pi(word, &owner), Ok(()));
    let options = WaitOptions::new().timeout(Duration::from_secs(1));
    let mut lock = Box::pin(it.domain.lock_pi_async(word, &waiter, &options));
    it.memory.page_out();
    let polled = bomb.during(|| poll_with(&mut lock, &waker));
    assert_eq!(it.domain.waiting(), usize::from(polled.is_some()));
    let again = catch_unwind(AssertUnwindSafe(|| poll_with(&mut lock, &waker)));
    assert_eq!(again.is_ok(), polled.is_some());
    assert_eq!(it.domain.unlock_pi(word, &owner), Ok(()));
    drop(lock);
    assert_eq!(it.domain.lock_pi(word, &owner), Ok(()));
    assert_eq!(owner.priority(), Priority::NORMAL);
    assert_eq!(it.domain.unlock_pi(word, &owner), Ok(()));
    it.assert_free();
}

/// A wait for a lock is dropped: it leaves the queue, or gives up the lock that it was handed.
fn dropped(bomb: &mut Bomb) {
    for is_handed in [false, true] {
        let it = Embedder::new();
        let [owner, waiter, next] = [(1, 0), (2, 20), (3, 10)].map(|(tid, priority)| task(&it, tid, priority));
        let word = it.target(0);
        assert_eq!(it.domain.lock_pi(word, &owner), Ok(()));
        let (lock, _) = locking(&it, 0, &waiter);
        let (mut behind, notified) = locking(&it, 0, &next);
        if is_handed {
            assert_eq!(it.domain.unlock_pi(word, &owner), Ok(()));
        }
        bomb.during(|| drop(lock));
        assert_reported(&it, &[&owner, &waiter, &next]);
        if it.word(0).load(SeqCst) & TID_MASK == 2 {
            // The access to memory panicked, so the task still owns the lock.
            assert!(is_handed);
            assert_eq!(it.domain.unlock_pi(word, &waiter), Ok(()));
        }
        if !is_handed {
            assert_eq!(it.domain.unlock_pi(word, &owner), Ok(()));
        }
        assert_eq!(notified.times(), 1);
        assert_eq!(poll(&mut behind), Poll::Ready(Ok(())));
        assert_eq!(it.domain.unlock_pi(word, &next), Ok(()));
        it.assert_free();
    }
}

/// As `dropped`, while the stack unwinds. A second panic must not abort the process.
fn dropped_in_a_panic(bomb: &mut Bomb) {
    let it = Embedder::new();
    let [owner, waiter, next] = [(1, 0), (2, 20), (3, 10)].map(|(tid, priority)| task(&it, tid, priority));
    let word = it.target(0);
    assert_eq!(it.domain.lock_pi(word, &owner), Ok(()));
    let (lock, _) = locking(&it, 0, &waiter);
    let (mut behind, notified) = locking(&it, 0, &next);
    assert_eq!(it.domain.unlock_pi(word, &owner), Ok(()));
    struct InPanic<F: FnMut()>(F);
    impl<F: FnMut()> Drop for InPanic<F> {
        fn drop(&mut self) {
            (self.0)();
        }
    }
    let mut lock = Some(lock);
    let unwinding = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _drops = InPanic(|| assert_eq!(bomb.during(|| drop(lock.take())), Some(())));
        std::panic::resume_unwind(Box::new(()));
    }));
    assert!(unwinding.is_err());
    if it.word(0).load(SeqCst) & TID_MASK == 2 {
        assert_eq!(it.domain.unlock_pi(word, &waiter), Ok(()));
    }
    assert_eq!(notified.times(), 1);
    assert_eq!(poll(&mut behind), Poll::Ready(Ok(())));
    assert_eq!(it.domain.unlock_pi(word, &next), Ok(()));
    assert_reported(&it, &[&owner, &waiter, &next]);
    it.assert_free();
}

type Wait<'t> = Pin<Box<dyn Future<Output = Result<(), Error>> + 't>>;

/// A wait on word 0 that is to be requeued to the lock in word 16.
fn to_be_requeued<'t>(it: &Embedder, task: &'t Task) -> (Wait<'t>, Arc<Notified>) {
    let (notified, waker) = Notified::new();
    let [from, to] = [0, 16].map(|number| it.target(number));
    let mut wait: Wait<'t> = Box::pin(it.domain.wait_requeue_pi_async(from, 0, to, task, &WaitOptions::new()));
    assert_eq!(poll_with(&mut wait, &waker), Poll::Pending);
    (wait, notified)
}

/// Waiters of a word are requeued to a free lock, which the first of them gets.
fn requeue_to_a_lock(bomb: &mut Bomb) {
    let it = Embedder::new();
    let tasks = [(1, 30), (2, 20), (3, 10)].map(|(tid, priority)| task(&it, tid, priority));
    let [from, to] = [0, 16].map(|number| it.target(number));
    let mut waits = tasks.each_ref().map(|task| to_be_requeued(&it, task));
    it.memory.page_out();
    let requeued = bomb.during(|| it.domain.cmp_requeue_pi(from, 0, to, 9));
    if it.word(16).load(SeqCst) == 0 {
        assert_eq!((requeued, it.domain.counters().requeues), (None, 0), "nothing has happened");
        assert_eq!(it.domain.cmp_requeue_pi(from, 0, to, 9), Ok(3));
    }
    let counters = it.domain.counters();
    assert_eq!((counters.requeues, counters.woken, counters.requeued), (1, 1, 2));
    for (i, task) in tasks.iter().enumerate() {
        assert_eq!(it.word(16).load(SeqCst) & TID_MASK, task.tid());
        let (wait, notified) = &mut waits[i];
        assert_eq!(notified.times(), 1, "task {} has the lock and was not notified", task.tid());
        assert_eq!(poll(wait), Poll::Ready(Ok(())));
        assert_eq!(it.domain.unlock_pi(to, task), Ok(()));
    }
    assert_reported(&it, &tasks.each_ref());
    it.assert_free();
}

/// As `requeue_to_a_lock`. The second waiter, whose priority was raised after it had queued, boosts the first.
fn requeue_that_boosts(bomb: &mut Bomb) {
    let it = Embedder::new();
    let [heir, lender] = [(1, 30), (2, 20)].map(|(tid, priority)| task(&it, tid, priority));
    let [from, to] = [0, 16].map(|number| it.target(number));
    let mut waits = [&heir, &lender].map(|task| to_be_requeued(&it, task));
    lender.set_priority(Priority::realtime(40));
    let requeued = bomb.during(|| it.domain.cmp_requeue_pi(from, 0, to, 9));
    assert!(requeued.is_none_or(|requeued| requeued == Ok(2)));
    assert_eq!(it.word(16).load(SeqCst), WAITERS | 1);
    assert_eq!(heir.priority(), Priority::realtime(40), "no priority was inherited");
    assert_reported(&it, &[&heir, &lender]);
    for (task, (wait, notified)) in [&heir, &lender].into_iter().zip(&mut waits) {
        assert_eq!(notified.times(), 1, "task {} has the lock and was not notified", task.tid());
        assert_eq!(poll(wait), Poll::Ready(Ok(())));
        assert_eq!(it.domain.unlock_pi(to, task), Ok(()));
    }
    assert_reported(&it, &[&heir, &lender]);
    it.assert_free();
}

/// As `requeue_that_boosts`, in a global table, with more waiters than are moved there in one piece.
fn requeue_of_many_that_boosts(bomb: &mut Bomb) {
    const OTHERS: u32 = 300;
    let it = Embedder::new();
    assert_eq!(it.domain.set_slots(0), Ok(()));
    let [heir, lender] = [(1, 30), (2, 20)].map(|(tid, priority)| task(&it, tid, priority));
    let others: Vec<Task> = (3..3 + OTHERS).map(|tid| task(&it, tid, 1)).collect();
    let [from, to] = [0, 16].map(|number| it.target(number));
    let waits: Vec<_> = [&heir, &lender].into_iter().chain(&others).map(|task| to_be_requeued(&it, task)).collect();
    lender.set_priority(Priority::realtime(40));
    let requeued = bomb.during(|| it.domain.cmp_requeue_pi(from, 0, to, usize::MAX));
    assert!(requeued.is_none_or(|requeued| requeued == Ok(waits.len())));
    let counters = it.domain.counters();
    assert_eq!((counters.requeues, counters.woken, counters.requeued), (1, 1, u64::from(OTHERS) + 1));
    assert_reported(&it, &[&heir, &lender]);
    drop(waits);
    it.assert_free();
}

/// The owner of two locks dies.
fn death(bomb: &mut Bomb) {
    let it = Embedder::new();
    let [owner, one, two] = [(1, 0), (2, 20), (3, 10)].map(|(tid, priority)| task(&it, tid, priority));
    for number in [0, 16] {
        assert_eq!(it.domain.lock_pi(it.target(number), &owner), Ok(()));
    }
    let (mut first, told_first) = locking(&it, 0, &one);
    let (mut second, told_second) = locking(&it, 16, &two);
    bomb.during(|| drop(owner));
    assert_eq!((told_first.times(), told_second.times()), (1, 1), "a new owner was not notified");
    for (lock, task, number) in [(&mut first, &one, 0), (&mut second, &two, 16)] {
        it.memory.page_out();
        let polled = bomb.during(|| poll(lock));
        if polled.is_none() {
            assert_eq!(poll(lock), Poll::Ready(Ok(())));
        }
        assert_eq!(it.word(number).load(SeqCst), OWNER_DIED | WAITERS | task.tid());
        assert_eq!(it.domain.unlock_pi(it.target(number), task), Ok(()));
        it.word(number).store(0, SeqCst);
    }
    assert_reported(&it, &[&one, &two]);
    assert!(it.domain.task(1).is_ok(), "the TID of the dead is free");
    it.assert_free();
}

/// The owner of a lock dies, and the only waiter is dropped before it is polled. It leaves its queue, also if the word cannot
/// be written.
fn last_heir_dropped(bomb: &mut Bomb) {
    let it = Embedder::new();
    let [owner, heir] = [(1, 0), (2, 20)].map(|(tid, priority)| task(&it, tid, priority));
    assert_eq!(it.domain.lock_pi(it.target(0), &owner), Ok(()));
    let (lock, _) = locking(&it, 0, &heir);
    drop(owner);
    it.memory.page_out();
    let dropped = bomb.during(|| drop(lock));
    let word = it.word(0).load(SeqCst);
    assert!(word == OWNER_DIED || dropped.is_none() && word == WAITERS | 1, "{word:x}");
    assert_eq!(it.domain.waiting(), 0);
    it.word(0).store(0, SeqCst);
    assert_eq!(it.domain.lock_pi(it.target(0), &heir), Ok(()));
    assert_eq!(it.domain.unlock_pi(it.target(0), &heir), Ok(()));
    assert_reported(&it, &[&heir]);
    it.assert_free();
}

/// A thread's robust list has two words with waiters. After a panic, a second `exit` continues the first.
fn robust_list(bomb: &mut Bomb) {
    let it = Embedder::new();
    let dying = it.domain.task(7).expect("the TID is free");
    // A list with 32-bit pointers: the head is at word 48, entries are at words 0 and 16, and their futex words lie 8
    // bytes behind them.
    let at = |number: u64| it.memory.at(4 * number) as u32;
    for (number, value) in [(48, at(0)), (49, 8), (50, 0), (0, at(16)), (16, at(48))] {
        it.word(number as usize).store(value, SeqCst);
    }
    let shared = |number| ufutex::At::address_space(it.target(number));
    let mut waits: Vec<_> = [2, 18]
        .map(|number| {
            it.word(number).store(WAITERS | 7, SeqCst);
            let (notified, waker) = Notified::new();
            let expected = u64::from(WAITERS | 7);
            let wait = pending_with(it.domain.wait_async(shared(number), expected, &WaitOptions::new()), &waker);
            (wait, notified)
        })
        .into();
    assert_eq!(dying.set_robust_list(Pointers::Narrow, at(48).into(), 12), Ok(()));
    it.memory.page_out();
    let mut exits = 0;
    loop {
        match bomb.during(|| it.domain.exit(&dying, it.memory)) {
            Some(ended) => break assert_eq!(ended, Ok(())),
            None if exits < 3 => exits += 1,
            None => break assert_eq!(it.domain.exit(&dying, it.memory), Ok(())),
        }
    }
    for (wait, notified) in &mut waits {
        assert_eq!(notified.times(), 1, "a waiter of a robust futex was not notified");
        assert_eq!(poll(wait), Poll::Ready(Ok(())));
    }
    for number in [2, 18] {
        assert_eq!(it.word(number).load(SeqCst), OWNER_DIED | WAITERS);
        it.word(number).store(0, SeqCst);
    }
    it.assert_free();
}

fn try_lock(bomb: &mut Bomb) {
    let it = Embedder::new();
    let [owner, other] = [(1, 0), (2, 0)].map(|(tid, priority)| task(&it, tid, priority));
    let word = it.target(0);
    assert_eq!(it.domain.lock_pi(word, &owner), Ok(()));
    it.memory.page_out();
    let tried = bomb.during(|| it.domain.try_lock_pi(word, &other));
    assert!(tried.is_none_or(|tried| tried == Err(Error::Again)));
    assert_eq!(it.domain.unlock_pi(word, &owner), Ok(()));
    it.assert_free();
}

/// The scheduler panics in the first of two reports, and still gets the second.
#[test]
fn scheduler_that_panics_gets_the_other_reports() {
    crate::bomb::for_every(crate::bomb::Call::SetPriority, 3, |bomb| {
        let it = Embedder::new();
        let [last, middle, first] = [(1, 0), (2, 0), (3, 50)].map(|(tid, priority)| task(&it, tid, priority));
        assert_eq!(it.domain.lock_pi(it.target(0), &last), Ok(()));
        assert_eq!(it.domain.lock_pi(it.target(16), &middle), Ok(()));
        let (lock, _) = locking(&it, 0, &middle);
        let mut chained = Box::pin(it.domain.lock_pi_async(it.target(16), &first, &WaitOptions::new()));
        // Both owners are boosted to 50. Then the waiter with the highest priority gets a lower one.
        let polled = bomb.during(|| poll(&mut chained));
        assert!(polled.is_none_or(|polled| polled == Poll::Pending));
        assert_eq!(last.priority(), Priority::realtime(50));
        assert_reported(&it, &[&last, &middle, &first]);
        bomb.during(|| first.set_priority(Priority::realtime(5)));
        assert_reported(&it, &[&last, &middle, &first]);
        drop((lock, chained));
        assert_reported(&it, &[&last, &middle, &first]);
    });
}

mod tests {
    super::panics! {
        unlock: SetPriority 1, WakerWake 1, Load 1, Exchange 1;
        unlock_for_a_thread: SetPriority 1;
        lock: SetPriority 1, WakerClone 1, Load 1, FaultIn 1, Exchange 1;
        lock_with_a_timeout: SetPriority 1, WakerClone 2, Load 1, FaultIn 1, Exchange 1, Now 1, Changed 1;
        dropped: SetPriority 1, WakerDrop 1, WakerWake 1, Load 1, Exchange 1;
        dropped_in_a_panic: WakerWake 1, Load 1, Exchange 1;
        requeue_to_a_lock: Load 3, FaultIn 1, Exchange 1, WakerWake 1;
        requeue_that_boosts: SetPriority 1;
        requeue_of_many_that_boosts: SetPriority 1;
        last_heir_dropped: Load 1, Exchange 1, FaultIn 1;
        death: SetPriority 1, WakerWake 2, Load 1, Exchange 1, FaultIn 1;
        robust_list: Load 5, Exchange 2, FaultIn 1, WakerWake 2;
        try_lock: Load 1, Exchange 1, FaultIn 1;
    }
}
