//! Robust lists: what a thread says that it has locked, walked when it ends.

use super::domain::Domain;
use super::pi::task::Task;
use super::pi::{OWNER_DIED, TID_MASK, WAITERS};
use super::word::Word;
use crate::error::Error;
use crate::sys::mem::{Access, Fault, Faults, UserMemory, Width};
use crate::table::layout::Layout;
use crate::table::refs::Scheme;
use core::num::NonZeroU32;

/// How a program lays out a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum Pointers {
    /// Three words of 32 bits: programs of 32 bits.
    Narrow,
    /// Three words of 64 bits.
    Wide,
}

impl Pointers {
    /// The size of a list's head in bytes.
    #[must_use]
    pub const fn head_bytes(self) -> u64 {
        3 * self.bytes()
    }

    pub(crate) const fn bytes(self) -> u64 {
        match self {
            Self::Narrow => 4,
            Self::Wide => 8,
        }
    }
}

impl<L: Layout> Task<L> {
    /// The address of the head of its robust list: `set_robust_list`. 0 for none.
    ///
    /// # Errors
    /// [`Error::Invalid`] when `length` is not that of a head.
    pub fn set_robust_list(&self, pointers: Pointers, head: u64, length: u64) -> Result<(), Error> {
        if length != pointers.head_bytes() {
            return Err(Error::Invalid);
        }
        self.with_lists(|lists| lists[pointers as usize] = head);
        Ok(())
    }

    /// What [`set_robust_list`](Self::set_robust_list) was given last.
    #[must_use]
    pub fn robust_list(&self, pointers: Pointers) -> u64 {
        self.with_lists(|lists| lists[pointers as usize]).unwrap_or(0)
    }
}

impl<S: Scheme<L>, L: Layout> Domain<S, L> {
    /// The head of the robust list of 64-bit code of another task.
    pub(crate) fn robust_list_of(&self, tid: u32) -> Result<u64, Error> {
        let home = self.names().home_of(tid).ok_or(Error::NoTask)?;
        // A task may look only at the lists of its own process.
        if !self.has_home(home) {
            return Err(Error::NotPermitted);
        }
        let head = self.system.in_region(home, |g| {
            let task = g.find(home.number(), tid)?;
            Some(g.robust_lists(task)[Pointers::Wide as usize])
        });
        head.flatten().ok_or(Error::NoTask)
    }

    /// The task ends: its robust lists are walked, and then its locks go to those who wait for them.
    ///
    /// Each word on a list that holds the task's TID gets [`OWNER_DIED`] in place of it, and if it has [`WAITERS`] and is
    /// not a lock of [`lock_pi`](Self::lock_pi) one waiter is woken. A list is the program's own and may be anything: what cannot be
    /// read ends the walk, as does the system's [`max_robust`](crate::Config::max_robust).
    ///
    /// The task does nothing more: what it is asked for afterwards is [`Error::Invalid`]. Its TID is free again.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a task of another domain, or one that has ended; [`Error::Busy`] while it waits: interrupt it
    /// first.
    pub fn exit<M: UserMemory + ?Sized>(&self, task: &Task<L>, memory: &M) -> Result<(), Error> {
        if !task.belongs_to(self) {
            return Err(Error::Invalid);
        }
        for pointers in [Pointers::Wide, Pointers::Narrow] {
            let head = task.robust_list(pointers);
            if head != 0 {
                // A walk that ends early has done what it could.
                let _ = Walk { domain: self, task, memory, pointers }.run(head);
            }
        }
        task.end()
    }
}

/// A walk of one list.
struct Walk<'a, M: ?Sized, S: Scheme<L>, L: Layout> {
    domain: &'a Domain<S, L>,
    task: &'a Task<L>,
    memory: &'a M,
    pointers: Pointers,
}

/// What a pointer of a list says.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Link {
    entry: u64,
    /// Its lowest bit: a lock of `lock_pi`.
    is_pi: bool,
}

impl<M: UserMemory + ?Sized, S: Scheme<L>, L: Layout> Walk<'_, M, S, L> {
    fn run(&self, head: u64) -> Result<(), Fault> {
        let bytes = self.pointers.bytes();
        let mut link = self.link(head)?;
        let offset = self.pointer(head.wrapping_add(bytes))?;
        let pending = self.link(head.wrapping_add(2 * bytes))?;
        let mut left = self.domain.system.limits().max_robust;
        while link.entry != head {
            // Before the entry's word is released: its memory may go with it.
            let next = self.link(link.entry);
            // The operation under way may be on the list already.
            if link.entry != pending.entry {
                self.release(link, offset, false)?;
            }
            link = next?;
            left = left.saturating_sub(1);
            if left == 0 {
                if link.entry != head {
                    self.domain.system.note_robust_list_cut();
                }
                break;
            }
        }
        if pending.entry != 0 { self.release(pending, offset, true) } else { Ok(()) }
    }

    fn pointer(&self, address: u64) -> Result<u64, Fault> {
        if !self.memory.access_ok(address, self.pointers.bytes()) {
            return Err(Fault);
        }
        let mut bytes = [0; 8];
        self.memory.read(address, &mut bytes[..self.pointers.bytes() as usize])?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn link(&self, address: u64) -> Result<Link, Fault> {
        let pointer = self.pointer(address)?;
        Ok(Link { entry: pointer & !1, is_pi: pointer & 1 != 0 })
    }

    /// The word of one entry: the kernel's handle_futex_death.
    fn release(&self, link: Link, offset: u64, is_pending: bool) -> Result<(), Fault> {
        let mut address = link.entry.wrapping_add(offset);
        if self.pointers == Pointers::Narrow {
            address = u64::from(address as u32);
        }
        if !address.is_multiple_of(4) || !self.memory.access_ok(address, 4) {
            return Err(Fault);
        }
        let mut faults = Faults::default();
        loop {
            let value = match self.memory.load(address, Width::U32) {
                Ok(value) => value as u32,
                Err(Fault) => {
                    faults.resolve(|| self.memory.fault_in(address, Access::Read))?;
                    continue;
                }
            };
            let owner = value & TID_MASK;
            // The unlock had given up the word, and may not have come to its wake; or a waiter was woken, and has not
            // come to take the lock. Either way that wake is owed to somebody.
            if is_pending && !link.is_pi && owner == 0 {
                self.wake_one(address);
                return Ok(());
            }
            if owner != self.task.tid() {
                return Ok(());
            }
            let released = value & WAITERS | OWNER_DIED;
            match self.memory.compare_exchange(address, Width::U32, value.into(), released.into()) {
                Ok(Ok(_)) => {
                    if !link.is_pi && value & WAITERS != 0 {
                        self.wake_one(address);
                    }
                    return Ok(());
                }
                Ok(Err(_)) => {}
                Err(Fault) => faults.resolve(|| self.memory.fault_in(address, Access::Write))?,
            }
        }
    }

    /// Always as for a shared word, whatever its waiters used: nothing here says which. As the kernel does it.
    fn wake_one(&self, address: u64) {
        if let Ok(word) = Word::shared(self.memory, address, Access::Read) {
            self.domain.wake_bitset(word, 1, NonZeroU32::MAX);
        }
    }
}
