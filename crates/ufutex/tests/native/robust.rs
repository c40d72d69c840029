//! Robust lists, which are walked when their task exits.

use std::sync::atomic::Ordering::Relaxed;
use std::task::Poll;

use ufutex::{
    At, Domain, DomainOptions, Error, Scope, System, SystemConfig, Task, WaitOptions,
    pi::OWNER_DIED,
    syscall::{Number, Pointers},
};

use crate::common::domains::{domain, on_domains};
use crate::common::futures::{at_once, pending, poll};
use crate::common::guest_memory::GuestMemory;

const BOTH: [Pointers; 2] = [Pointers::Narrow, Pointers::Wide];
const TID: u32 = 5;
/// The offset of the list's head, and the distance from an entry to its word.
const HEAD: u64 = 64;
const OFFSET: u64 = 16;

/// Exits the task and drops it.
fn end(domain: &Domain, task: Task, memory: &GuestMemory) {
    assert_eq!(domain.exit(&task, memory), Ok(()));
}

/// A robust list in a guest's memory.
struct List<'m> {
    memory: &'m GuestMemory,
    bytes: usize,
    pointers: Pointers,
}

impl<'m> List<'m> {
    fn new(memory: &'m GuestMemory, pointers: Pointers) -> Self {
        let bytes = if pointers == Pointers::Narrow { 4 } else { 8 };
        Self { memory, bytes, pointers }
    }

    /// Writes a robust list with entries at these offsets and this `list_op_pending`, and registers it for `task`. The
    /// lowest bit of an offset marks a PI lock.
    fn link(&self, task: &Task, entries: &[u64], pending: u64) {
        let at = |offset: u64| self.memory.at(offset);
        let mut from = HEAD;
        for &entry in entries {
            self.memory.store(from, self.bytes, at(entry));
            from = entry & !1;
        }
        self.memory.store(from, self.bytes, at(HEAD));
        self.memory.store(HEAD + self.bytes as u64, self.bytes, OFFSET);
        let pending = if pending == 0 { 0 } else { at(pending) };
        self.memory.store(HEAD + 2 * self.bytes as u64, self.bytes, pending);
        let length = 3 * self.bytes as u64;
        assert_eq!(task.set_robust_list(self.pointers, at(HEAD), length), Ok(()));
    }

    fn set(&self, entry: u64, word: u32) {
        self.memory.word(entry + OFFSET).store(word, Relaxed);
    }

    fn word(&self, entry: u64) -> u32 {
        self.memory.word(entry + OFFSET).load(Relaxed)
    }
}

fn lengths_of_heads_are_checked_and_heads_are_kept() {
    let domain = domain();
    let task = domain.task(TID).expect("it is free");
    for (pointers, length) in [(Pointers::Narrow, 12), (Pointers::Wide, 24)] {
        assert_eq!((pointers.head_bytes(), task.robust_list(pointers)), (length, 0));
        for wrong in [0, length - 1, length + 1, 36 - length, u64::MAX] {
            assert_eq!(task.set_robust_list(pointers, 0x1000, wrong), Err(Error::Invalid));
        }
        assert_eq!(task.set_robust_list(pointers, 0x1000 + length, length), Ok(()));
    }
    assert_eq!(BOTH.map(|pointers| task.robust_list(pointers)), [0x1000 + 12, 0x1000 + 24]);
}

/// A system that walks at most `entries` entries of a list.
fn limited(entries: usize) -> System {
    System::with_config(SystemConfig::new().max_robust(entries)).expect("the memory is there")
}

fn list_longer_than_the_limit_is_cut_and_counted() {
    for pointers in BOTH {
        let (system, memory) = (limited(3), GuestMemory::new());
        let domain = Domain::with_options(&system, DomainOptions::new());
        let entries = [0x100, 0x200, 0x300, 0x400];
        let list = List::new(&memory, pointers);
        for length in 0..=4 {
            let task = domain.task(TID).expect("it is free");
            list.link(&task, &entries[..length], 0x500);
            for entry in entries.into_iter().chain([0x500]) {
                list.set(entry, TID);
            }
            let before = system.robust_lists_cut();
            end(&domain, task, &memory);
            let released = entries.iter().filter(|&&entry| list.word(entry) == OWNER_DIED).count();
            assert_eq!(released, length.min(3));
            assert_eq!(system.robust_lists_cut() - before, u64::from(length > 3), "{length} of 3");
            assert_eq!(list.word(0x500), OWNER_DIED, "the pending operation all the same");
        }
    }
}

fn faults_of_a_list_and_its_words_are_resolved() {
    for pointers in BOTH {
        let (domain, memory) = (domain(), GuestMemory::new());
        let task = domain.task(TID).expect("it is free");
        let list = List::new(&memory, pointers);
        list.link(&task, &[0x100, 0x200], 0);
        [0x100, 0x200].into_iter().for_each(|entry| list.set(entry, TID));
        memory.fault_next_loads(20);
        memory.fault_next_exchanges(20);
        end(&domain, task, &memory);
        assert_eq!([0x100, 0x200].map(|entry| list.word(entry)), [OWNER_DIED; 2]);
    }
}

fn both_lists_are_walked_and_a_task_without_leaves_memory_alone() {
    let (domain, memory) = (domain(), GuestMemory::new());
    let task = domain.task(TID).expect("it is free");
    let (wide, narrow) = (List::new(&memory, Pointers::Wide), List::new(&memory, Pointers::Narrow));
    wide.link(&task, &[0x100], 0);
    // One head cannot serve both lists, so the second list has only a pending operation.
    memory.store(0x800, 4, memory.at(0x800));
    memory.store(0x804, 4, OFFSET);
    memory.store(0x808, 4, memory.at(0x200));
    assert_eq!(task.set_robust_list(Pointers::Narrow, memory.at(0x800), 12), Ok(()));
    [0x100, 0x200].into_iter().for_each(|entry| narrow.set(entry, TID));
    end(&domain, task, &memory);
    assert_eq!([0x100, 0x200].map(|entry| wide.word(entry)), [OWNER_DIED; 2]);
    memory.lose();
    end(&domain, domain.task(TID).expect("it is free"), &memory);
    assert_eq!(memory.faulted_in(), []);
}

fn task_that_has_ended_takes_no_lock_and_makes_other_calls() {
    let (domain, memory) = (domain(), GuestMemory::new());
    let [task, heir] = [TID, 6].map(|tid| domain.task(tid).expect("it is free"));
    let (lock, condition) = (memory.target(0), memory.target(256));
    assert_eq!(domain.lock_pi(lock, &task), Ok(()));
    let mut waits = pending(domain.lock_pi_async(lock, &heir, &WaitOptions::new()));
    assert_eq!(domain.exit(&heir, &memory), Err(Error::Busy), "it waits");
    assert_eq!(domain.exit(&task, &memory), Ok(()));
    assert_eq!(poll(&mut waits), Poll::Ready(Ok(())), "inherited before the task is dropped");
    assert_eq!(domain.exit(&task, &memory), Err(Error::Invalid), "twice");
    assert_eq!(domain.lock_pi(condition, &task), Err(Error::Invalid));
    assert_eq!(domain.try_lock_pi(condition, &task), Err(Error::Invalid));
    assert_eq!(
        at_once(domain.wait_requeue_pi_async(condition, 0, lock, &task, &WaitOptions::new())),
        Err(Error::Invalid)
    );
    let futex = |op, value| {
        let number = Number::x86_64(202).expect("futex(2)");
        domain.syscall(&task, &memory, number, [memory.at(256), op, value, 0, 0, 0])
    };
    const PRIVATE: u64 = 128;
    assert_eq!(futex(6 | PRIVATE, 0), -22, "FUTEX_LOCK_PI");
    assert_eq!(futex(7 | PRIVATE, 0), -1, "FUTEX_UNLOCK_PI of a word that does not name it");
    assert_eq!(futex(PRIVATE, 1), -11, "FUTEX_WAIT for another value");
    let mut waits = pending(domain.wait_async(condition, 0, &WaitOptions::new()));
    assert_eq!(futex(1 | PRIVATE, 1), 1, "FUTEX_WAKE");
    assert_eq!(poll(&mut waits), Poll::Ready(Ok(())));
    memory.word(256).store(TID, Relaxed);
    assert_eq!(domain.lock_pi(condition, &heir), Err(Error::NoTask), "the task is gone");
}

/// The end of a task that waits is refused before a robust lock has been released.
fn task_whose_end_is_refused_keeps_its_robust_locks() {
    let (domain, memory) = (domain(), GuestMemory::new());
    let [owner, waiter] = [6, TID].map(|tid| domain.task(tid).expect("it is free"));
    let (lock, list) = (memory.target(0), List::new(&memory, Pointers::Wide));
    list.link(&waiter, &[0x100], 0);
    list.set(0x100, TID);
    assert_eq!(domain.lock_pi(lock, &owner), Ok(()));
    let mut waits = pending(domain.lock_pi_async(lock, &waiter, &WaitOptions::new()));
    assert_eq!(domain.exit(&waiter, &memory), Err(Error::Busy));
    assert_eq!(list.word(0x100), TID);
    assert_eq!(domain.unlock_pi(lock, &owner), Ok(()));
    assert_eq!(poll(&mut waits), Poll::Ready(Ok(())));
    drop(waits);
    assert_eq!(domain.exit(&waiter, &memory), Ok(()));
    assert_eq!(list.word(0x100), OWNER_DIED);
}

fn task_of_another_domain_is_not_ended() {
    let (domain, other, memory) = (domain(), domain(), GuestMemory::new());
    let task = domain.task(TID).expect("it is free");
    assert_eq!(other.exit(&task, &memory), Err(Error::Invalid));
    assert_eq!(domain.lock_pi(memory.target(0), &task), Ok(()));
}

fn word_of_set_tid_address_is_cleared_and_its_shared_waiter_woken() {
    let calls = [Number::x86_64(218), Number::generic(96), Number::i386(258), Number::arm(256), Number::riscv32(96)];
    for call in [None].into_iter().chain(calls.map(|call| Some(call.expect("set_tid_address(2)")))) {
        let (domain, memory) = (domain(), GuestMemory::new());
        let task = domain.task(TID).expect("it is free");
        memory.word(64).store(TID, Relaxed);
        match call {
            None => task.set_clear_child_tid(memory.at(64)),
            Some(call) => {
                assert_eq!(domain.syscall(&task, &memory, call, [memory.at(64), 0, 0, 0, 0, 0]), TID as isize);
            }
        }
        let word = memory.target(64);
        let wait = |is_shared| {
            let scope = if is_shared { Scope::AddressSpace } else { Scope::Private };
            pending(domain.wait_async(At::new(word, scope), TID.into(), &WaitOptions::new()))
        };
        let [mut first, mut second, mut private] = [true, true, false].map(wait);
        memory.page_out();
        end(&domain, task, &memory);
        assert_eq!(memory.word(64).load(Relaxed), 0, "{call:?}");
        let ready = [&mut first, &mut second, &mut private].map(|wait| poll(wait).is_ready());
        assert_eq!(ready, [true, false, false], "{call:?}");
    }
}

fn word_of_set_tid_address_may_be_anything() {
    let (domain, memory) = (domain(), GuestMemory::new());
    for address in [1, memory.at(2), u64::MAX - 3, 1 << 40] {
        let task = domain.task(TID).expect("it is free");
        task.set_clear_child_tid(address);
        end(&domain, task, &memory);
    }
    memory.word(64).store(TID, Relaxed);
    memory.make_read_only(true);
    let task = domain.task(TID).expect("it is free");
    task.set_clear_child_tid(memory.at(64));
    end(&domain, task, &memory);
    assert_eq!(memory.word(64).load(Relaxed), TID);
}

on_domains![
    word_of_set_tid_address_is_cleared_and_its_shared_waiter_woken,
    word_of_set_tid_address_may_be_anything,
    task_that_has_ended_takes_no_lock_and_makes_other_calls,
    task_whose_end_is_refused_keeps_its_robust_locks,
    task_of_another_domain_is_not_ended,
    lengths_of_heads_are_checked_and_heads_are_kept,
    list_longer_than_the_limit_is_cut_and_counted,
    faults_of_a_list_and_its_words_are_resolved,
    both_lists_are_walked_and_a_task_without_leaves_memory_alone,
];
