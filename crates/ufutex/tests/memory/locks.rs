//! Tasks and their locks, with priority inheritance, and robust lists.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::task::Poll;

use ufutex::pi::{OWNER_DIED, Priority, Scheduler, TID_MASK};
use ufutex::syscall::Pointers;
use ufutex::{At, Callbacks, Cause, Domain, Error, ObjectId, System, Task, WaitOptions};

use crate::allocator::for_every_failure;
use crate::calls::Words;
use crate::works::{at_last, begun, config, poll, system, works};

pub fn tasks() -> usize {
    for_every_failure(|memory| {
        let domain = Domain::new(&system());
        // TIDs whose first bits differ, so that each needs new memory in the map of TIDs.
        let tasks: Vec<Task> =
            (0..100).map(|i| at_last(memory, || domain.task(1 + i * 0x0101_0101 % 0x3fff_ffff))).collect();
        assert_eq!(domain.task(1).err(), Some(Error::Busy));
        memory.during(|| drop(tasks));
        drop(domain.task(1).expect("the TID is free again"));
        works(&domain);
    })
}

fn unlocked(word: &AtomicU32) {
    assert_eq!(word.load(Relaxed), 0);
}

pub fn lock_and_unlock() -> usize {
    for_every_failure(|memory| {
        let system = system();
        let [here, there] = [(); 2].map(|()| Domain::new(&system));
        let word = AtomicU32::new(0);
        let lock = At::object(&word, ObjectId::new(1).expect("small enough"), 0);
        let [a, c] = [1, 3].map(|tid| at_last(memory, || here.task(tid)));
        let [b, d] = [2, 4].map(|tid| at_last(memory, || there.task(tid)));
        at_last(memory, || here.lock_pi(lock, &a));
        let tried = memory.during(|| there.try_lock_pi(lock, &b));
        assert!(tried == Err(Error::Again) || tried == Err(Error::NoMemory) && memory.has_just_failed(), "{tried:?}");
        let mut waits = [
            begun(memory, || there.lock_pi_async(lock, &b, &WaitOptions::new())),
            begun(memory, || here.lock_pi_async(lock, &c, &WaitOptions::new())),
            begun(memory, || there.lock_pi_async(lock, &d, &WaitOptions::new())),
        ];
        let failed = memory.has_failed();
        assert_eq!(memory.during(|| waits[2].as_mut().end(Cause::TimedOut)), Err(Error::TimedOut));
        for (domain, owner, wait) in [(&here, &a, 0), (&there, &b, 1)] {
            assert_eq!(memory.during(|| domain.unlock_pi(lock, owner)), Ok(()));
            assert_eq!(memory.during(|| poll(&mut waits[wait])), Poll::Ready(Ok(())));
        }
        assert_eq!(memory.during(|| here.unlock_pi(lock, &c)), Ok(()));
        assert_eq!(memory.has_failed(), failed, "handing over needs no memory");
        unlocked(&word);
        drop(waits);
        works(&here);
        works(&there);
    })
}

pub fn requeue_to_a_lock() -> usize {
    for_every_failure(|memory| {
        let domain = Domain::new(&system());
        let (lock, condition) = (AtomicU32::new(0), AtomicU32::new(0));
        let tasks: Vec<_> = (1..=30).map(|tid| at_last(memory, || domain.task(tid))).collect();
        let mut waits: Vec<_> = tasks[1..]
            .iter()
            .map(|task| begun(memory, || domain.wait_requeue_pi_async(&condition, 0, &lock, task, &WaitOptions::new())))
            .collect();
        at_last(memory, || domain.lock_pi(&lock, &tasks[0]));
        // What it has moved before it fails stays moved.
        let mut moved = 0;
        while moved < waits.len() {
            match memory.during(|| domain.cmp_requeue_pi(&condition, 0, &lock, usize::MAX)) {
                Ok(0) => break,
                Ok(more) => moved += more,
                Err(error) => assert_eq!((error, memory.has_just_failed()), (Error::NoMemory, true)),
            }
            if memory.has_failed() {
                memory.is_plenty();
            }
        }
        for (task, wait) in tasks.iter().zip(&mut waits) {
            assert_eq!(memory.during(|| domain.unlock_pi(&lock, task)), Ok(()));
            assert_eq!(memory.during(|| poll(wait)), Poll::Ready(Ok(())));
        }
        assert_eq!(domain.unlock_pi(&lock, &tasks[29]), Ok(()));
        unlocked(&lock);
        drop(waits);
        works(&domain);
    })
}

pub fn end_of_a_task() -> usize {
    for_every_failure(|memory| {
        let (domain, words) = (Domain::new(&system()), Words::new());
        let task = at_last(memory, || domain.task(7));
        // A list with one entry: its word is 8 bytes behind its pointer.
        let [head, entry] = [Words::at(0), Words::at(8)];
        words.store64(head, entry);
        words.store64(head + 8, 8);
        words.store64(entry, head);
        words.store32(entry + 8, 7);
        assert_eq!(memory.during(|| task.set_robust_list(Pointers::Wide, head, 24)), Ok(()));
        assert_eq!(memory.during(|| domain.exit(&task, &words)), Ok(()));
        assert_eq!(words.load32(entry + 8), OWNER_DIED);
        assert_eq!(domain.exit(&task, &words), Err(Error::Invalid));
        works(&domain);
    })
}

struct Ignores;

impl Scheduler for Ignores {
    fn set_priority(&self, _: u32, _: Priority) {}
}

/// Waiters of 40 priorities lend them to the owner, who then ends.
pub fn priorities() -> usize {
    for_every_failure(|memory| {
        let scheduler = Callbacks::try_new(Ignores).expect("there is memory");
        let system = System::with_scheduler(config(), scheduler).expect("there is memory");
        let (domain, lock) = (Domain::new(&system), AtomicU32::new(0));
        let owner = at_last(memory, || domain.task(1));
        at_last(memory, || domain.lock_pi(&lock, &owner));
        let tasks: Vec<_> = (2..42).map(|tid| at_last(memory, || domain.task(tid))).collect();
        for (task, priority) in tasks.iter().zip(1..) {
            memory.during(|| task.set_priority(Priority::realtime(priority)));
        }
        let mut waits: Vec<_> =
            tasks.iter().map(|task| begun(memory, || domain.lock_pi_async(&lock, task, &WaitOptions::new()))).collect();
        assert_eq!(owner.priority(), Priority::realtime(40));
        memory.during(|| drop(owner));
        for (task, wait) in tasks.iter().zip(&mut waits).rev() {
            assert_eq!(memory.during(|| poll(wait)), Poll::Ready(Ok(())));
            assert_eq!(lock.load(Relaxed) & TID_MASK, task.tid());
            assert_eq!(memory.during(|| domain.unlock_pi(&lock, task)), Ok(()));
        }
        drop(waits);
        works(&domain);
    })
}
