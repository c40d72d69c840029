//! Robust lists: set_robust_list(2), get_robust_list(2), and the walk of the list when a thread exits.
//!
//! The walk wakes shared waiters only, whatever the machine's words are. Therefore the tests wait with `shared` calls.

use crate::calls::{ANY, OWNER_DIED, WAITERS};
use crate::common::arena::Rights;
use crate::common::errno::{EFAULT, EINVAL, ESRCH};
#[cfg(target_os = "linux")]
use crate::common::kernel::syscall;
use crate::common::skipped::skip;
use crate::machine::{Machine, Pending, Thread};
use crate::memory::Word;
use crate::on_every_machine;
#[cfg(target_os = "linux")]
use crate::on_the_kernel;
use crate::robust_list::{HEAD, Lock, PI, RobustList};

/// `ROBUST_LIST_LIMIT`: maximum number of entries in a walk.
const LIMIT: usize = 2048;

fn length_must_be_that_of_a_head(m: &Machine) {
    let (t, head) = (m.thread(), m.bytes(HEAD));
    for length in [0, 8, 12, 23, 25, 32, 1 << 32 | HEAD] {
        assert_eq!(t.call(m.set_robust_list(head, length)), EINVAL, "{length}");
    }
    // The address may be anything.
    for head in [head, 0, 1, 1 << 63, u64::MAX] {
        assert_eq!(t.call(m.set_robust_list(head, HEAD)), 0, "{head:#x}");
    }
    assert_eq!(t.call(m.set_robust_list(0, HEAD)), 0);
}

fn list_can_be_asked_for_by_number(m: &Machine) {
    let ([a, b], [head, at, length]) = (m.threads(), [(); 3].map(|()| m.bytes(HEAD)));
    assert_eq!(a.call(m.set_robust_list(head, HEAD)), 0);
    assert_eq!(b.call(m.set_robust_list(0, HEAD)), 0);
    for (asks, tid, expected) in [(&a, 0, head), (&b, 0, 0), (&b, a.tid(), head), (&a, b.tid(), 0), (&a, a.tid(), head)]
    {
        m.put_u64(at, u64::MAX);
        m.put_u64(length, u64::MAX);
        assert_eq!(asks.call(m.get_robust_list(tid, at, length)), 0);
        assert_eq!((m.get_u64(at), m.get_u64(length)), (expected, HEAD));
    }
}

fn list_of_a_missing_thread_is_esrch(m: &Machine) {
    let (t, at) = (m.thread(), m.bytes(HEAD));
    for tid in [m.dead_tid(), 0x3fff_ffff, u32::MAX, 1 << 31, t.tid() | 1 << 30, t.tid() | 1 << 31, t.tid() | 3 << 30] {
        assert_eq!(t.call(m.get_robust_list(tid, at, at)), ESRCH, "{tid:#x}");
        assert_eq!(t.call(m.get_robust_list(tid, 0, 0)), ESRCH, "before anything is written");
    }
}

fn result_must_be_writable_and_the_length_is_written_first(m: &Machine) {
    let (t, at, page) = (m.thread(), m.bytes(HEAD), m.page(Rights::Read));
    for bad in [0, page, 1 << 63] {
        m.put_u64(at, 99);
        assert_eq!(t.call(m.get_robust_list(0, at, bad)), EFAULT);
        assert_eq!(m.get_u64(at), 99);
        assert_eq!(t.call(m.get_robust_list(0, bad, at)), EFAULT);
        assert_eq!(m.get_u64(at), HEAD);
    }
}

fn locks_of_a_dead_owner_become_owner_died(m: &Machine) {
    let t = m.thread();
    let (tid, list) = (t.tid(), RobustList::new(m, &t));
    let values = [tid, tid | WAITERS, tid | OWNER_DIED, tid | WAITERS | OWNER_DIED];
    let locks = values.map(|value| list.lock(value));
    list.link_plain(&locks);
    t.exit();
    let after = [OWNER_DIED, WAITERS | OWNER_DIED, OWNER_DIED, WAITERS | OWNER_DIED];
    assert_eq!(locks.map(|lock| lock.word.get()), after);
}

fn locks_of_other_threads_are_unchanged(m: &Machine) {
    let [t, other] = m.threads();
    let list = RobustList::new(m, &t);
    let values = [0, WAITERS, OWNER_DIED, other.tid(), other.tid() | WAITERS, OWNER_DIED | WAITERS];
    let locks = values.map(|value| list.lock(value));
    let last = list.lock(t.tid());
    list.link_plain(&[&locks[..], &[last]].concat());
    t.exit();
    assert_eq!(locks.map(|lock| lock.word.get()), values);
    assert_eq!(last.word.get(), OWNER_DIED, "they do not end the list");
}

fn locks_that_are_on_no_list_are_unchanged(m: &Machine) {
    let t = m.thread();
    let (tid, list) = (t.tid(), RobustList::new(m, &t));
    let [on, off] = [(); 2].map(|()| list.lock(tid));
    list.link_plain(&[on]);
    t.exit();
    assert_eq!((on.word.get(), off.word.get()), (OWNER_DIED, tid));
}

fn one_waiter_of_each_lock_is_woken(m: &Machine) {
    let [t, a, b] = m.threads();
    let list = RobustList::new(m, &t);
    let lock = list.lock(t.tid() | WAITERS);
    list.link_plain(&[lock]);
    let first = a.begin(m.wait(lock.word, t.tid() | WAITERS).shared());
    let second = b.begin(m.wait(lock.word, t.tid() | WAITERS).shared());
    t.exit();
    assert_eq!(first.finish(), 0);
    second.stays_asleep();
    assert_eq!(a.call(m.wake(lock.word, 1).shared()), 1);
    assert_eq!(second.finish(), 0);
}

/// Lets `waiter` wait on `word` and ends `t`. Returns whether the exit woke the waiter.
fn wakes(m: &Machine, t: Thread, waiter: &Thread, word: Word) -> bool {
    let waiting = waiter.begin(m.wait(word, word.get()).shared());
    t.exit();
    was_woken(m, waiting, word)
}

fn was_woken(m: &Machine, waiting: Pending<'_>, word: Word) -> bool {
    let left = m.thread().call(m.wake(word, 1).shared());
    assert_eq!(waiting.finish(), 0);
    left == 0
}

fn no_waiter_is_woken_without_the_waiters_flag(m: &Machine) {
    for (flags, expected) in [(0, false), (WAITERS, true), (OWNER_DIED, false), (OWNER_DIED | WAITERS, true)] {
        let [t, w] = m.threads();
        let list = RobustList::new(m, &t);
        let lock = list.lock(t.tid() | flags);
        list.link_plain(&[lock]);
        assert_eq!(wakes(m, t, &w, lock.word), expected, "{flags:#x}");
    }
}

fn waiters_of_any_bitset_are_woken(m: &Machine) {
    let [t, w] = m.threads();
    let list = RobustList::new(m, &t);
    let lock = list.lock(t.tid() | WAITERS);
    list.link_plain(&[lock]);
    let waiting = w.begin(m.wait_bitset(lock.word, t.tid() | WAITERS, 1 << 30).shared());
    t.exit();
    assert!(was_woken(m, waiting, lock.word));
}

fn wake_is_for_shared_waiters(m: &Machine) {
    let [t, a, b] = m.threads();
    let list = RobustList::new(m, &t);
    let lock = list.lock(t.tid() | WAITERS);
    list.link_plain(&[lock]);
    let private = a.begin(m.wait(lock.word, t.tid() | WAITERS).private());
    let shared = b.begin(m.wait(lock.word, t.tid() | WAITERS).shared());
    t.exit();
    assert_eq!(shared.finish(), 0);
    private.stays_asleep();
    assert_eq!(b.call(m.wake(lock.word, 1).private()), 1);
    assert_eq!(private.finish(), 0);
}

fn lock_in_shared_memory_wakes_a_waiter_at_another_mapping(m: &Machine) {
    let [t, w] = m.threads();
    // The entry lies in the object, too. The list's offset is relative to the entry.
    let list = RobustList::with_offset(m, &t, 64);
    let ([here, _], [word, twin]) = (m.twin_words(0), m.twin_words(t.tid() | WAITERS));
    assert_eq!(word.0, here.0 + 64);
    list.link_plain(&[Lock { node: here.0, word }]);
    let waiting = w.begin(m.wait(twin, t.tid() | WAITERS).shared());
    t.exit();
    assert_eq!(waiting.finish(), 0);
    assert_eq!(twin.get(), OWNER_DIED | WAITERS);
}

fn pi_lock_on_the_list_wakes_none(m: &Machine) {
    let [t, w] = m.threads();
    let list = RobustList::new(m, &t);
    let lock = list.lock(t.tid() | WAITERS);
    list.link(&[(lock, PI)]);
    let word = lock.word;
    assert!(!wakes(m, t, &w, word));
    assert_eq!(word.get(), OWNER_DIED | WAITERS);
}

fn locks_are_handled_in_list_order_and_the_pending_one_last(m: &Machine) {
    // The third entry is misaligned and ends the walk, so only the entries before it are handled, and not the pending
    // lock.
    let [t, w] = m.threads();
    let list = RobustList::new(m, &t);
    let [a, b, c, pending] = [(); 4].map(|()| list.lock(t.tid()));
    list.link_plain(&[c, a, Lock { node: b.node + 2, word: b.word }]);
    m.put_u64(b.node + 2, list.head);
    list.pending(pending, 0);
    let tid = t.tid();
    t.exit();
    assert_eq!([c, a].map(|lock| lock.word.get()), [OWNER_DIED; 2]);
    assert_eq!([b, pending].map(|lock| lock.word.get()), [tid; 2], "a misaligned word ends it all");
    drop(w);
}

fn negative_offset_is_good(m: &Machine) {
    let t = m.thread();
    let list = RobustList::with_offset(m, &t, -16);
    let locks = [(); 3].map(|()| list.lock(t.tid() | WAITERS));
    assert_eq!(locks[0].word.0, locks[0].node - 16);
    list.link_plain(&locks);
    t.exit();
    assert_eq!(locks.map(|lock| lock.word.get()), [OWNER_DIED | WAITERS; 3]);
}

/// A list that is longer than the limit. Each entry and its word take 16 bytes.
fn long_list<'m>(m: &'m Machine, t: &Thread, count: usize) -> (RobustList<'m>, Vec<Word>) {
    let list = RobustList::with_offset(m, t, 8);
    let at = m.bytes(16 * count as u64);
    let locks = (0..count as u64).map(|i| Lock { node: at + 16 * i, word: Word(at + 16 * i + 8) });
    let locks: Vec<Lock> = locks.inspect(|lock| lock.word.set(t.tid())).collect();
    list.link_plain(&locks);
    let words = locks.iter().map(|lock| lock.word).collect();
    (list, words)
}

fn only_2048_entries_are_walked(m: &Machine) {
    let t = m.thread();
    let (tid, (list, words)) = (t.tid(), long_list(m, &t, LIMIT + 2));
    let pending = list.lock(tid);
    list.pending(pending, 0);
    t.exit();
    assert!(words[..LIMIT].iter().all(|word| word.get() == OWNER_DIED));
    assert_eq!([words[LIMIT].get(), words[LIMIT + 1].get()], [tid; 2]);
    assert_eq!(pending.word.get(), OWNER_DIED, "in addition to the limit");
}

fn list_that_never_ends_ends(m: &Machine) {
    let t = m.thread();
    let list = RobustList::new(m, &t);
    let [a, b, pending] = [(); 3].map(|()| list.lock(t.tid()));
    list.link_plain(&[a, b]);
    m.put_u64(b.node, a.node);
    list.pending(pending, 0);
    t.exit();
    assert_eq!([a, b, pending].map(|lock| lock.word.get()), [OWNER_DIED; 3]);
}

fn list_with_an_unmapped_end_is_walked_up_to_there(m: &Machine) {
    for end in [0, 8, 1 << 63] {
        let t = m.thread();
        let (tid, list) = (t.tid(), RobustList::new(m, &t));
        let [a, b, pending] = [(); 3].map(|()| list.lock(tid));
        list.link_plain(&[a, b]);
        m.put_u64(b.node, end);
        list.pending(pending, 0);
        t.exit();
        assert_eq!([a, b, pending].map(|lock| lock.word.get()), [OWNER_DIED, OWNER_DIED, tid], "{end:#x}");
    }
}

fn unmapped_head_is_ignored(m: &Machine) {
    for head in [8, m.page(Rights::Nothing), 1 << 63, u64::MAX] {
        let t = m.thread();
        assert_eq!(t.call(m.set_robust_list(head, HEAD)), 0);
        t.exit();
    }
    // A head that is only partly mapped is ignored.
    let (t, page) = (m.thread(), m.page(Rights::ReadWrite));
    m.page(Rights::Nothing);
    let head = page + 4096 - 16;
    Word(page + 16).set(t.tid());
    m.put_u64(page, head);
    m.put_u64(head, page);
    m.put_u64(head + 8, 16);
    assert_eq!(t.call(m.set_robust_list(head, HEAD)), 0);
    let tid = t.tid();
    t.exit();
    assert_eq!(Word(page + 16).get(), tid);
}

fn lock_that_cannot_be_written_ends_the_walk(m: &Machine) {
    let t = m.thread();
    let (tid, list) = (t.tid(), RobustList::new(m, &t));
    let page = m.page(Rights::ReadWrite);
    let [a, b] = [(); 2].map(|()| list.lock(tid));
    let faulty = Lock { node: page, word: Word(page + 16) };
    faulty.word.set(tid);
    list.link_plain(&[a, faulty, b]);
    m.protect(page, Rights::Read);
    t.exit();
    assert_eq!([a, faulty, b].map(|lock| lock.word.get()), [OWNER_DIED, tid, tid]);
}

fn lock_of_another_that_cannot_be_written_does_not_end_the_walk(m: &Machine) {
    let t = m.thread();
    let (tid, list) = (t.tid(), RobustList::new(m, &t));
    let page = m.page(Rights::ReadWrite);
    let [a, b] = [(); 2].map(|()| list.lock(tid));
    let others = Lock { node: page, word: Word(page + 16) };
    others.word.set(tid + 1);
    list.link_plain(&[a, others, b]);
    m.protect(page, Rights::Read);
    t.exit();
    assert_eq!([a, others, b].map(|lock| lock.word.get()), [OWNER_DIED, tid + 1, OWNER_DIED]);
}

fn entry_with_an_unreadable_next_pointer_is_the_last(m: &Machine) {
    let t = m.thread();
    let page = m.page(Rights::ReadWrite);
    // The words lie before their entries. The last entry's pointer is on an inaccessible page, its word is not.
    m.page(Rights::Nothing);
    let list = RobustList::with_offset(m, &t, -16);
    let a = list.lock(t.tid());
    let last = Lock { node: page + 4096, word: Word(page + 4096 - 16) };
    last.word.set(t.tid());
    m.put_u64(list.head, a.node);
    m.put_u64(a.node, last.node);
    t.exit();
    assert_eq!([a, last].map(|lock| lock.word.get()), [OWNER_DIED; 2]);
}

fn pending_lock_is_handled_like_the_others(m: &Machine) {
    for (flags, mark, woken) in [(0, 0, false), (WAITERS, 0, true), (WAITERS, PI, false), (OWNER_DIED, 0, false)] {
        let [t, w] = m.threads();
        let list = RobustList::new(m, &t);
        let lock = list.lock(t.tid() | flags);
        list.pending(lock, mark);
        assert_eq!(wakes(m, t, &w, lock.word), woken, "{flags:#x} {mark}");
        assert_eq!(lock.word.get(), flags & WAITERS | OWNER_DIED);
    }
}

fn pending_lock_that_is_on_the_list_is_handled_once(m: &Machine) {
    let [t, a, b] = m.threads();
    let list = RobustList::new(m, &t);
    let lock = list.lock(t.tid() | WAITERS);
    list.link_plain(&[lock]);
    list.pending(lock, 0);
    let first = a.begin(m.wait(lock.word, t.tid() | WAITERS).shared());
    let second = b.begin(m.wait(lock.word, t.tid() | WAITERS).shared());
    t.exit();
    assert_eq!(first.finish(), 0);
    second.stays_asleep();
    assert!(!was_woken(m, second, lock.word));
}

/// Ends a thread whose pending lock holds `value`. Returns whether the waiter is woken, and the word afterwards.
fn given_up(m: &Machine, mark: u64, value: u32) -> (bool, u32) {
    let [t, w] = m.threads();
    let list = RobustList::new(m, &t);
    let lock = list.lock(value);
    list.pending(lock, mark);
    (wakes(m, t, &w, lock.word), lock.word.get())
}

fn pending_lock_that_is_free_wakes_one_and_is_unchanged(m: &Machine) {
    for value in [0, WAITERS, OWNER_DIED, WAITERS | OWNER_DIED] {
        assert_eq!(given_up(m, 0, value), (true, value), "{value:#x}");
        assert_eq!(given_up(m, PI, value), (false, value), "{value:#x}");
    }
}

/// The pending lock was released in user space, and another thread has taken it since.
fn pending_lock_that_another_thread_has_taken_wakes_none(m: &Machine) {
    let other = m.thread();
    for flags in [0, WAITERS, OWNER_DIED, WAITERS | OWNER_DIED] {
        for mark in [0, PI] {
            let value = other.tid() | flags;
            assert_eq!(given_up(m, mark, value), (false, value), "{flags:#x} {mark}");
        }
    }
}

fn free_pending_lock_on_the_list_causes_no_second_wake(m: &Machine) {
    let [t, w] = m.threads();
    let list = RobustList::new(m, &t);
    let lock = list.lock(0);
    list.link_plain(&[lock]);
    assert!(!wakes(m, t, &w, lock.word));
}

fn pending_wake_wakes_one(m: &Machine) {
    let [t, a, b] = m.threads();
    let list = RobustList::new(m, &t);
    let lock = list.lock(0);
    list.pending(lock, 0);
    let first = a.begin(m.wait_bitset(lock.word, 0, 2).shared());
    let second = b.begin(m.wait_bitset(lock.word, 0, ANY).shared());
    t.exit();
    assert_eq!(first.finish(), 0);
    second.stays_asleep();
    assert!(!was_woken(m, second, lock.word));
}

fn misaligned_pending_lock_is_ignored(m: &Machine) {
    let t = m.thread();
    let list = RobustList::new(m, &t);
    let [lock, pending] = [(); 2].map(|()| list.lock(t.tid()));
    list.link_plain(&[lock]);
    m.put_u64(list.head + 16, pending.node + 2);
    let tid = t.tid();
    t.exit();
    assert_eq!((lock.word.get(), pending.word.get()), (OWNER_DIED, tid));
}

fn unregistered_list_is_not_walked(m: &Machine) {
    let t = m.thread();
    let (tid, list) = (t.tid(), RobustList::new(m, &t));
    let lock = list.lock(tid);
    list.link_plain(&[lock]);
    assert_eq!(t.call(m.set_robust_list(0, HEAD)), 0);
    t.exit();
    assert_eq!(lock.word.get(), tid);
}

/// On the kernel only, because permissions between processes are not part of the futex subsystem.
#[cfg(target_os = "linux")]
fn list_of_an_inaccessible_process_is_eperm(m: &Machine) {
    let [head, length] = [(); 2].map(|()| m.bytes(8));
    const NOBODY: u64 = 65534;
    let result = std::thread::spawn(move || {
        // SAFETY: the call changes the user ID of this thread only, which ends afterwards.
        let is_changed = unsafe { syscall(libc::SYS_setresuid, [NOBODY, NOBODY, NOBODY, 0, 0, 0]) } == 0;
        // SAFETY: the list's head and length are written to an arena.
        is_changed.then(|| unsafe { syscall(libc::SYS_get_robust_list, [1, head, length, 0, 0, 0]) })
    });
    match result.join().expect("it does not panic") {
        Some(result) => assert_eq!(result, crate::common::errno::EPERM),
        None => skip("a thread cannot become another user's here"),
    }
}

fn word_of_set_tid_address_is_cleared_and_woken_as_a_shared_word(m: &Machine) {
    let ([a, b, c], word) = (m.threads(), m.word(5));
    let private = a.begin(m.wait(word, 5).private());
    let shared = b.begin(m.wait(word, 5).shared());
    assert_eq!(c.call(m.set_tid_address(word)), c.tid() as isize);
    c.exit_unjoined();
    assert_eq!(shared.finish(), 0);
    assert_eq!(word.get(), 0);
    private.stays_asleep();
    assert_eq!(b.call(m.wake(word, 1).private()), 1);
    assert_eq!(private.finish(), 0);
}

#[cfg(target_os = "linux")]
on_the_kernel![list_of_an_inaccessible_process_is_eperm];

on_every_machine![
    word_of_set_tid_address_is_cleared_and_woken_as_a_shared_word,
    length_must_be_that_of_a_head,
    list_can_be_asked_for_by_number,
    list_of_a_missing_thread_is_esrch,
    result_must_be_writable_and_the_length_is_written_first,
    locks_of_a_dead_owner_become_owner_died,
    locks_of_other_threads_are_unchanged,
    locks_that_are_on_no_list_are_unchanged,
    one_waiter_of_each_lock_is_woken,
    no_waiter_is_woken_without_the_waiters_flag,
    waiters_of_any_bitset_are_woken,
    wake_is_for_shared_waiters,
    lock_in_shared_memory_wakes_a_waiter_at_another_mapping,
    pi_lock_on_the_list_wakes_none,
    locks_are_handled_in_list_order_and_the_pending_one_last,
    negative_offset_is_good,
    only_2048_entries_are_walked,
    list_that_never_ends_ends,
    list_with_an_unmapped_end_is_walked_up_to_there,
    unmapped_head_is_ignored,
    lock_that_cannot_be_written_ends_the_walk,
    lock_of_another_that_cannot_be_written_does_not_end_the_walk,
    entry_with_an_unreadable_next_pointer_is_the_last,
    pending_lock_is_handled_like_the_others,
    pending_lock_that_is_on_the_list_is_handled_once,
    pending_lock_that_is_free_wakes_one_and_is_unchanged,
    pending_lock_that_another_thread_has_taken_wakes_none,
    free_pending_lock_on_the_list_causes_no_second_wake,
    pending_wake_wakes_one,
    misaligned_pending_lock_is_ignored,
    unregistered_list_is_not_walked,
];
