//! A robust list in memory: a head of three words, and entries that point to the next.

use crate::machine::{Machine, Thread};
use crate::memory::Word;

/// The length of a head, which is the second argument of set_robust_list(2).
pub const HEAD: u64 = 24;

/// The bit in the pointer to an entry that marks the entry as a PI futex.
pub const PI: u64 = 1;

/// An entry: a pointer to the next entry, and the futex word at the list's offset from the entry.
#[derive(Clone, Copy)]
pub struct Lock {
    pub node: u64,
    pub word: Word,
}

pub struct RobustList<'m> {
    m: &'m Machine,
    pub head: u64,
    offset: i64,
}

impl<'m> RobustList<'m> {
    /// An empty list, registered for `thread`.
    pub fn new(m: &'m Machine, thread: &Thread) -> Self {
        Self::with_offset(m, thread, 16)
    }

    /// An empty list whose words lie at `offset` from their entries.
    pub fn with_offset(m: &'m Machine, thread: &Thread, offset: i64) -> Self {
        let head = m.bytes(HEAD);
        m.put_u64(head, head);
        m.put_u64(head + 8, offset as u64);
        m.put_u64(head + 16, 0);
        assert_eq!(thread.call(m.set_robust_list(head, HEAD)), 0);
        Self { m, head, offset }
    }

    /// A new entry whose word holds `value`. `link` puts it on the list.
    pub fn lock(&self, value: u32) -> Lock {
        assert!(self.offset.unsigned_abs() < 64 && self.offset.unsigned_abs() >= 8, "it must fit between two others");
        let node = self.m.bytes(192) + 64;
        let word = Word(node.wrapping_add_signed(self.offset));
        word.set(value);
        Lock { node, word }
    }

    /// Replaces the list by these entries, each with the mark [`PI`] or 0. The last entry points back to the head.
    pub fn link(&self, entries: &[(Lock, u64)]) {
        let mut from = self.head;
        for &(lock, mark) in entries {
            self.m.put_u64(from, lock.node | mark);
            from = lock.node;
        }
        self.m.put_u64(from, self.head);
    }

    /// Replaces the list by these entries, none of them a PI futex.
    pub fn link_plain(&self, locks: &[Lock]) {
        self.link(&locks.iter().map(|&lock| (lock, 0)).collect::<Vec<_>>());
    }

    /// Sets `list_op_pending`.
    pub fn pending(&self, lock: Lock, mark: u64) {
        self.m.put_u64(self.head + 16, lock.node | mark);
    }
}
