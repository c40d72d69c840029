//! Robust lists: walked when their task ends.

use std::sync::atomic::Ordering::Relaxed;
use std::task::Poll;

use ufutex::layout::Layout;
use ufutex::scheme::Scheme;
use ufutex::{Config, Domain, Error, Guest, OWNER_DIED, Options, Pointers, Shared, System, Task, WAITERS, Wait};

use crate::common::domains::{domain, on_every_scheme};
use crate::futures::{Boxed, pending, poll};
use crate::memory::Memory;

const BOTH: [Pointers; 2] = [Pointers::Narrow, Pointers::Wide];
const TID: u32 = 5;
/// Where the head is, and how far behind an entry its word is.
const HEAD: u64 = 64;
const OFFSET: u64 = 16;

/// A list in a guest's memory.
struct List<'m> {
    memory: &'m Memory,
    bytes: usize,
    pointers: Pointers,
}

impl<'m> List<'m> {
    fn new(memory: &'m Memory, pointers: Pointers) -> Self {
        let bytes = if pointers == Pointers::Narrow { 4 } else { 8 };
        Self { memory, bytes, pointers }
    }

    /// Writes a list of entries at these offsets and an operation that is pending; the lowest bit of each says that
    /// it is a lock of lock_pi. `task` has it then.
    fn link<L: Layout>(&self, task: &Task<L>, entries: &[u64], pending: u64) {
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

    /// A future that waits for an entry's word as the wakes of a walk mean it.
    fn waiter<'d, S: Scheme<L>, L: Layout>(
        &self,
        domain: &'d Domain<S, L>,
        entry: u64,
    ) -> Boxed<Wait<'d, Shared<Guest<'m, Memory>>, S, L>> {
        let word = Shared::address_space(self.memory.target(entry + OFFSET));
        pending(domain.wait_async(word, self.word(entry).into(), Default::default()))
    }
}

fn lengths_of_heads_are_checked_and_heads_are_kept<S: Scheme<L>, L: Layout>() {
    let domain = domain::<S, L>();
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

fn words_that_name_the_task_are_released_and_one_waiter_of_each_is_woken<S: Scheme<L>, L: Layout>() {
    for pointers in BOTH {
        let (domain, memory) = (domain::<S, L>(), Memory::new());
        let task = domain.task(TID).expect("it is free");
        let list = List::new(&memory, pointers);
        let entries = [0x100, 0x200, 0x300, 0x400];
        let words = [TID, WAITERS | TID, WAITERS | 6, WAITERS | OWNER_DIED | TID];
        let after = [OWNER_DIED, WAITERS | OWNER_DIED, WAITERS | 6, WAITERS | OWNER_DIED];
        let woken = [false, true, false, true];
        list.link(&task, &entries, 0);
        for (entry, word) in std::iter::zip(entries, words) {
            list.set(entry, word);
        }
        let mut waits = entries.map(|entry| [(); 2].map(|()| list.waiter(&domain, entry)));
        assert_eq!(domain.exit(&task, &memory), Ok(()));
        assert_eq!(entries.map(|entry| list.word(entry)), after, "{pointers:?}");
        let ready = waits.each_mut().map(|waits| waits.each_mut().map(|wait| poll(wait).is_ready()));
        assert_eq!(ready, woken.map(|first| [first, false]), "{pointers:?}");
        assert_eq!(domain.task(TID).map(|task| task.tid()), Ok(TID), "the TID is free");
    }
}

fn entry_of_lock_pi_is_released_and_not_woken<S: Scheme<L>, L: Layout>() {
    for pointers in BOTH {
        let (domain, memory) = (domain::<S, L>(), Memory::new());
        let [task, heir] = [TID, 6].map(|tid| domain.task(tid).expect("it is free"));
        let list = List::new(&memory, pointers);
        list.link(&task, &[0x100 | 1, 0x200 | 1], 0);
        let lock = memory.target(0x100 + OFFSET);
        assert_eq!(domain.lock_pi(lock, &task, None), Ok(()));
        let mut waits = pending(domain.lock_pi_async(lock, &heir));
        // This one is none: whoever waits there is not woken.
        list.set(0x200, WAITERS | TID);
        let mut plain = list.waiter(&domain, 0x200);
        assert_eq!(domain.exit(&task, &memory), Ok(()));
        assert_eq!(list.word(0x100), WAITERS | OWNER_DIED, "until the heir looks");
        assert_eq!((poll(&mut waits), list.word(0x100)), (Poll::Ready(Ok(())), WAITERS | OWNER_DIED | 6));
        assert_eq!((poll(&mut plain), list.word(0x200)), (Poll::Pending, WAITERS | OWNER_DIED));
    }
}

/// The pending operation of a task that ended between two steps of its own.
fn pending_operation_is_released_or_its_wake_is_made_up_for<S: Scheme<L>, L: Layout>() {
    for pointers in BOTH {
        // What its word holds, whether it is of lock_pi; what it holds afterwards, and whether a waiter is woken.
        for (word, is_pi, after, is_woken) in [
            (TID, 0, OWNER_DIED, false),
            (WAITERS | TID, 0, WAITERS | OWNER_DIED, true),
            (0, 0, 0, true),
            (WAITERS, 0, WAITERS, true),
            (0, 1, 0, false),
            (6, 0, 6, false),
            (WAITERS | TID, 1, WAITERS | OWNER_DIED, false),
        ] {
            let (domain, memory) = (domain::<S, L>(), Memory::new());
            let task = domain.task(TID).expect("it is free");
            let list = List::new(&memory, pointers);
            list.link(&task, &[0x100], 0x200 | is_pi);
            list.set(0x100, TID);
            list.set(0x200, word);
            let mut waits = [(); 2].map(|()| list.waiter(&domain, 0x200));
            assert_eq!(domain.exit(&task, &memory), Ok(()));
            let case = format!("{pointers:?}, {word:#x}, of lock_pi: {is_pi}");
            assert_eq!((list.word(0x100), list.word(0x200)), (OWNER_DIED, after), "{case}");
            assert_eq!(waits.each_mut().map(|wait| poll(wait).is_ready()), [is_woken, false], "{case}");
        }
    }
}

fn pending_entry_that_is_on_the_list_is_released_once_and_last<S: Scheme<L>, L: Layout>() {
    for pointers in BOTH {
        let (domain, memory) = (domain::<S, L>(), Memory::new());
        let task = domain.task(TID).expect("it is free");
        let list = List::new(&memory, pointers);
        list.link(&task, &[0x100, 0x200, 0x300], 0x200);
        for entry in [0x100, 0x200, 0x300] {
            list.set(entry, WAITERS | TID);
        }
        let mut waits = [(); 2].map(|()| list.waiter(&domain, 0x200));
        assert_eq!(domain.exit(&task, &memory), Ok(()));
        assert_eq!([0x100, 0x200, 0x300].map(|entry| list.word(entry)), [WAITERS | OWNER_DIED; 3]);
        assert_eq!(waits.each_mut().map(|wait| poll(wait).is_ready()), [true, false]);
    }
}

/// A system whose lists are walked for so many entries.
fn limited<L: Layout>(entries: usize) -> System<L> {
    System::with_config(Config::new().max_robust(entries)).expect("the memory is there")
}

fn list_longer_than_the_system_allows_is_cut_and_counted<S: Scheme<L>, L: Layout>() {
    for pointers in BOTH {
        let (system, memory) = (limited(3), Memory::new());
        let domain = Domain::<S, L>::with_options(&system, Options::new());
        let entries = [0x100, 0x200, 0x300, 0x400];
        let list = List::new(&memory, pointers);
        for length in [0, 1, 2, 4] {
            let task = domain.task(TID).expect("it is free");
            list.link(&task, &entries[..length], 0x500);
            for entry in entries.into_iter().chain([0x500]) {
                list.set(entry, TID);
            }
            let before = system.robust_lists_cut();
            assert_eq!(domain.exit(&task, &memory), Ok(()));
            let released = entries.iter().filter(|&&entry| list.word(entry) == OWNER_DIED).count();
            assert_eq!(released, length.min(3));
            assert_eq!(system.robust_lists_cut() - before, u64::from(length > 3), "{length} of 3");
            assert_eq!(list.word(0x500), OWNER_DIED, "the pending operation all the same");
        }
    }
}

fn list_of_just_as_many_entries_as_allowed_is_not_cut<S: Scheme<L>, L: Layout>() {
    for pointers in BOTH {
        let (system, memory) = (limited(3), Memory::new());
        let domain = Domain::<S, L>::with_options(&system, Options::new());
        let task = domain.task(TID).expect("it is free");
        let list = List::new(&memory, pointers);
        let entries = [0x100, 0x200, 0x300];
        list.link(&task, &entries, 0);
        for entry in entries {
            list.set(entry, TID);
        }
        assert_eq!(domain.exit(&task, &memory), Ok(()));
        assert_eq!(entries.map(|entry| list.word(entry)), [OWNER_DIED; 3]);
        assert_eq!(system.robust_lists_cut(), 0);
    }
}

fn list_that_goes_in_a_circle_ends<S: Scheme<L>, L: Layout>() {
    for pointers in BOTH {
        let (domain, memory) = (domain::<S, L>(), Memory::new());
        let task = domain.task(TID).expect("it is free");
        let list = List::new(&memory, pointers);
        list.link(&task, &[0x100, 0x200], 0);
        memory.store(0x200, list.bytes, memory.at(0x100));
        [0x100, 0x200].into_iter().for_each(|entry| list.set(entry, TID));
        assert_eq!(domain.exit(&task, &memory), Ok(()));
        assert_eq!([0x100, 0x200].map(|entry| list.word(entry)), [OWNER_DIED; 2]);
    }
}

fn what_cannot_be_read_ends_the_walk<S: Scheme<L>, L: Layout>() {
    for pointers in BOTH {
        let memory = Memory::new();
        let domain = domain::<S, L>();
        let list = List::new(&memory, pointers);
        // The second points nowhere: what stood before it has been released.
        let task = domain.task(TID).expect("it is free");
        list.link(&task, &[0x100, 0x200, 0x300], 0);
        memory.store(0x200, list.bytes, 0x10);
        for entry in [0x100, 0x200, 0x300] {
            list.set(entry, TID);
        }
        assert_eq!(domain.exit(&task, &memory), Ok(()));
        assert_eq!([0x100, 0x200, 0x300].map(|entry| list.word(entry)), [OWNER_DIED, OWNER_DIED, TID]);
        // The head itself; its task ends all the same.
        let task = domain.task(TID).expect("it is free");
        assert_eq!(task.set_robust_list(pointers, 0x10, pointers.head_bytes()), Ok(()));
        assert_eq!(domain.exit(&task, &memory), Ok(()));
        // A word that is misaligned.
        let task = domain.task(TID).expect("it is free");
        list.link(&task, &[0x100, 0x300], 0);
        memory.store(HEAD + list.bytes as u64, list.bytes, OFFSET + 1);
        assert_eq!(domain.exit(&task, &memory), Ok(()));
        assert_eq!(list.word(0x300), TID);
        assert!(domain.task(TID).is_ok());
    }
}

fn faults_of_a_list_and_its_words_are_cured<S: Scheme<L>, L: Layout>() {
    for pointers in BOTH {
        let (domain, memory) = (domain::<S, L>(), Memory::new());
        let task = domain.task(TID).expect("it is free");
        let list = List::new(&memory, pointers);
        list.link(&task, &[0x100, 0x200], 0);
        [0x100, 0x200].into_iter().for_each(|entry| list.set(entry, TID));
        memory.fault_next_reads(20);
        memory.fault_next_writes(20);
        assert_eq!(domain.exit(&task, &memory), Ok(()));
        assert_eq!([0x100, 0x200].map(|entry| list.word(entry)), [OWNER_DIED; 2]);
    }
}

fn both_lists_are_walked_and_a_task_without_leaves_memory_alone<S: Scheme<L>, L: Layout>() {
    let (domain, memory) = (domain::<S, L>(), Memory::new());
    let task = domain.task(TID).expect("it is free");
    let (wide, narrow) = (List::new(&memory, Pointers::Wide), List::new(&memory, Pointers::Narrow));
    wide.link(&task, &[0x100], 0);
    // The same head cannot be both, so the other list is empty but for its pending operation.
    memory.store(0x800, 4, memory.at(0x800));
    memory.store(0x804, 4, OFFSET);
    memory.store(0x808, 4, memory.at(0x200));
    assert_eq!(task.set_robust_list(Pointers::Narrow, memory.at(0x800), 12), Ok(()));
    [0x100, 0x200].into_iter().for_each(|entry| narrow.set(entry, TID));
    assert_eq!(domain.exit(&task, &memory), Ok(()));
    assert_eq!([0x100, 0x200].map(|entry| wide.word(entry)), [OWNER_DIED; 2]);
    memory.lose();
    assert_eq!(domain.exit(&domain.task(TID).expect("it is free"), &memory), Ok(()));
    assert_eq!(memory.faulted_in(), []);
}

on_every_scheme![
    lengths_of_heads_are_checked_and_heads_are_kept,
    words_that_name_the_task_are_released_and_one_waiter_of_each_is_woken,
    entry_of_lock_pi_is_released_and_not_woken,
    pending_operation_is_released_or_its_wake_is_made_up_for,
    pending_entry_that_is_on_the_list_is_released_once_and_last,
    list_longer_than_the_system_allows_is_cut_and_counted,
    list_of_just_as_many_entries_as_allowed_is_not_cut,
    list_that_goes_in_a_circle_ends,
    what_cannot_be_read_ends_the_walk,
    faults_of_a_list_and_its_words_are_cured,
    both_lists_are_walked_and_a_task_without_leaves_memory_alone,
];
