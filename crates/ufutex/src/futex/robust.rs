//! Robust lists, of the locks that a thread holds, in its program's memory. The engine walks them when the thread ends.

use super::domain::Domain;
use super::key::Target;
use super::lock_word::{OWNER_DIED, TID_MASK, WAITERS};
use super::system::System;
use super::task::Task;
use super::word;
use crate::error::Error;
use crate::sync::Ordering;
use crate::sys::mem::{Access, Fault, Faults, UserMemory, Width, check_access};
use core::num::NonZeroU32;

/// The width of the pointers in a robust list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum Pointers {
    /// 32-bit pointers, in 32-bit programs. The list's head is three of them.
    Narrow,
    /// 64-bit pointers. The list's head is three of them.
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

impl Task {
    /// Sets the address of the head of the task's robust list: `set_robust_list`. `0` means that there is no list.
    ///
    /// # Errors
    /// [`Error::Invalid`] if `length` is not the size of a head.
    pub fn set_robust_list(&self, pointers: Pointers, head: u64, length: u64) -> Result<(), Error> {
        if length != pointers.head_bytes() {
            return Err(Error::Invalid);
        }
        self.named.robust_lists[pointers as usize].store(head, Ordering::Relaxed);
        Ok(())
    }

    /// The address that [`set_robust_list`](Self::set_robust_list) has set last. `0` means that there is no list.
    #[must_use]
    pub fn robust_list(&self, pointers: Pointers) -> u64 {
        self.named.robust_lists[pointers as usize].load(Ordering::Relaxed)
    }
}

impl System {
    /// How many robust lists were longer than [`max_robust`](crate::SystemConfig::max_robust), and walked no further.
    #[must_use]
    pub fn robust_lists_cut(&self) -> u64 {
        self.inner.robust_lists_cut.load(Ordering::Relaxed)
    }
}

impl Domain {
    pub(crate) fn robust_list_of(&self, tid: u32, pointers: Pointers) -> Result<u64, Error> {
        self.namespace().tasks.lock().with(|tasks| {
            let task = tasks.by_tid.get(tid).ok_or(Error::NoTask)?;
            // A task may read only the lists of its own process.
            if task.space != self.tables.space {
                return Err(Error::NotPermitted);
            }
            Ok(task.robust_lists[pointers as usize].load(Ordering::Relaxed))
        })
    }

    /// Ends the task: walks its robust lists, and then hands its locks to the tasks that wait for them.
    ///
    /// In each word on a list that holds the task's TID, [`OWNER_DIED`] takes the place of the TID. If the word has [`WAITERS`]
    /// too, and is not a lock of [`lock_pi`](Self::lock_pi), one waiter is woken, as in Linux without `FUTEX_PRIVATE_FLAG`: no
    /// waiter with that flag notices. The walk ends where the list cannot be read, and after
    /// [`max_robust`](crate::SystemConfig::max_robust) entries.
    /// Then 0 is stored in the word of [`Task::set_clear_child_tid`], if it is aligned and can be written, and one waiter is
    /// woken, also without the flag. (Linux does so only in processes with several threads.) The task's TID is free again. Each
    /// later operation that takes the task for a lock, and each later `exit`, is [`Error::Invalid`].
    ///
    /// # Errors
    /// [`Error::Invalid`] if the task belongs to another domain or has ended; [`Error::Busy`] if it waits for a lock:
    /// interrupt it first. `Busy` has changed nothing, as long as the task's thread does not begin a wait during the call.
    pub fn exit<M: UserMemory + ?Sized>(&self, task: &Task, memory: &M) -> Result<(), Error> {
        if !task.belongs_to(self) {
            return Err(Error::Invalid);
        }
        // Before the walk: a task that goes on keeps its robust locks.
        task.can_end()?;
        for pointers in [Pointers::Wide, Pointers::Narrow] {
            let head = task.robust_list(pointers);
            if head != 0 {
                let _ = ListWalk { domain: self, task, memory, pointers }.run(head);
            }
        }
        task.end()?;
        let clear_child_tid = task.clear_child_tid.load(Ordering::Relaxed);
        if clear_child_tid != 0 {
            // The word may be misaligned, or not writable.
            let _ = self.clear_tid(memory, clear_child_tid);
        }
        Ok(())
    }

    fn clear_tid<M: UserMemory + ?Sized>(&self, memory: &M, address: u64) -> Result<(), Error> {
        let word = word::shared(memory, address, Access::Write)?;
        let mut faults = Faults::default();
        while !matches!(word.load().and_then(|value| word.compare_exchange(value, 0)), Ok(Ok(_))) {
            // It has faulted, or has changed meanwhile. `faults` bounds the number of tries.
            faults.resolve(|| word.fault_in(Access::Write))?;
        }
        self.wake_bitset(word, 1, NonZeroU32::MAX);
        Ok(())
    }
}

struct ListWalk<'a, M: ?Sized> {
    domain: &'a Domain,
    task: &'a Task,
    memory: &'a M,
    pointers: Pointers,
}

impl<M: UserMemory + ?Sized> ListWalk<'_, M> {
    fn run(&self, head: u64) -> Result<(), Fault> {
        let bytes = self.pointers.bytes();
        let mut link = self.link(head)?;
        let offset = self.pointer(head.wrapping_add(bytes))?;
        let (pending, is_pi_pending) = self.link(head.wrapping_add(2 * bytes))?;
        let mut left = self.domain.system.config().max_robust;
        while link.0 != head {
            if left == 0 {
                self.domain.system.inner.robust_lists_cut.fetch_add(1, Ordering::Relaxed);
                break;
            }
            left -= 1;
            let (entry, is_pi) = link;
            // Read before the entry's word is released: its memory may be freed from then on.
            let next = self.link(entry);
            // The pending operation's entry may be on the list already. It is released after the walk.
            if entry != pending {
                self.release(entry.wrapping_add(offset), is_pi, false)?;
            }
            link = next?;
        }
        if pending != 0 { self.release(pending.wrapping_add(offset), is_pi_pending, true) } else { Ok(()) }
    }

    fn pointer(&self, address: u64) -> Result<u64, Fault> {
        check_access(self.memory, address, self.pointers.bytes())?;
        let mut bytes = [0; 8];
        self.memory.read(address, &mut bytes[..self.pointers.bytes() as usize])?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// The entry that the pointer at `address` names, and the pointer's lowest bit: the entry is a lock of `lock_pi`.
    fn link(&self, address: u64) -> Result<(u64, bool), Fault> {
        let pointer = self.pointer(address)?;
        Ok((pointer & !1, pointer & 1 != 0))
    }

    /// As the kernel's `handle_futex_death`. `is_pending`: the task was locking or unlocking the word when it died.
    fn release(&self, mut address: u64, is_pi: bool, is_pending: bool) -> Result<(), Fault> {
        if self.pointers == Pointers::Narrow {
            address = u64::from(address as u32);
        }
        if !address.is_multiple_of(4) || !self.memory.access_ok(address, 4) {
            return Err(Fault);
        }
        let mut faults = Faults::default();
        let has_waiters = loop {
            let Ok(value) = self.memory.load(address, Width::U32) else {
                faults.resolve(|| self.memory.fault_in(address, Access::Read))?;
                continue;
            };
            let value = value as u32;
            let owner = value & TID_MASK;
            if is_pending && !is_pi && owner == 0 {
                // The task may have released the word without its wake, or have been woken without taking the lock.
                break true;
            }
            if owner != self.task.tid() {
                return Ok(());
            }
            let released = value & WAITERS | OWNER_DIED;
            match self.memory.compare_exchange(address, Width::U32, value.into(), released.into()) {
                Ok(Ok(_)) => break value & WAITERS != 0,
                Ok(Err(_)) => {}
                Err(Fault) => faults.resolve(|| self.memory.fault_in(address, Access::Write))?,
            }
        };
        // As in the kernel the word is shared, because the list does not say whether its waiters are private.
        if has_waiters
            && !is_pi
            && let Ok(word) = word::shared(self.memory, address, Access::Read)
        {
            self.domain.wake_bitset(word, 1, NonZeroU32::MAX);
        }
        Ok(())
    }
}
