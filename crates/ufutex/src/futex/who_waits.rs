//! Lists the words that have waiters, by a walk of all queues, one bucket at a time.
//!
//! Each bucket is locked while its keys are copied, and no memory is allocated meanwhile: if there is not enough room, the walk
//! unlocks the bucket, makes room, and visits it again.
//! A resize may move private keys meanwhile. So the walk goes by hashes, each of which has exactly one live bucket: it copies
//! the keys of that bucket's range of hashes, and goes on behind the range. It meets a key that stays queued exactly once.

use alloc::vec::Vec;
use core::fmt;

use super::domain::Domain;
use super::entry::Entry;
use super::namespace::PidNamespace;
use super::place::{is_of_object, is_shared_of, scope_of};
use super::system::System;
use crate::sys::lazy::Lazy;
use crate::sys::mem::Scope;
use crate::table::Table;
use crate::table::bucket::Guard;
use crate::table::hash::TableKey;
use crate::table::live;
use crate::table::store::TableStore;

/// A word that has waiters.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct WaitedWord {
    /// The word's address. For a word in a shared object, its offset in the object.
    pub address: u64,
    /// The scope in which the word is shared.
    pub scope: Scope,
    /// How many threads wait to be woken.
    pub threads: usize,
    /// How many tasks and custom waiters wait to be woken: those with a waker.
    pub tasks: usize,
    /// How many threads and tasks wait for a lock with priority inheritance, which is handed to them.
    pub for_lock: usize,
    /// The union of the waiters' bitsets: a wake whose bitset has none of these bits wakes no waiter.
    pub bitset: u32,
}

impl WaitedWord {
    /// The number of waiters of all kinds.
    #[must_use]
    pub const fn waiters(&self) -> usize {
        self.threads + self.tasks + self.for_lock
    }
}

/// The words that have waiters: [`Domain::who_waits`], [`PidNamespace::who_waits`], [`System::who_waits`].
#[derive(Clone, Default)]
pub struct WhoWaits {
    words: Vec<WaitedWord>,
    /// The most words that the list may have: what the caller asked for, or less if there is no memory.
    max_words: usize,
    omitted: usize,
}

impl WhoWaits {
    /// The words, in no particular order.
    pub fn iter(&self) -> core::slice::Iter<'_, WaitedWord> {
        self.words.iter()
    }

    /// How many more words have waiters but were left out, because of the limit or because there was no memory.
    #[must_use]
    pub const fn omitted(&self) -> usize {
        self.omitted
    }

    fn new(max_words: usize) -> Self {
        Self { max_words, ..Self::default() }
    }

    fn of_objects(tables: impl Iterator<Item = Table>, max_words: usize) -> Self {
        let (mut found, uncounted) = (Self::new(max_words), Lazy::new());
        for table in tables {
            found.look_at_table(table, &uncounted, |key, _| is_of_object(key));
        }
        found
    }

    /// Copies the `wanted` keys of a table that is always live.
    fn look_at_table(&mut self, table: Table, store: &Lazy<TableStore>, wanted: impl Fn(TableKey, u32) -> bool) {
        for slot in 0..table.slots() {
            self.look(|found| match table.slot(slot).lock(store) {
                Some(mut guard) => found.take_in(&mut guard, &wanted),
                None => Ok(()),
            });
        }
    }

    /// Calls `look` for one bucket, and again, with more room or a lower limit, while it returns how many words do not fit.
    fn look<R>(&mut self, mut look: impl FnMut(&mut Self) -> Result<R, usize>) -> R {
        loop {
            match look(self) {
                Ok(result) => return result,
                Err(needed) => {
                    let more = needed.max(64).min(self.max_words - self.words.len());
                    if self.words.try_reserve(more).is_err() && self.words.try_reserve_exact(needed.min(more)).is_err()
                    {
                        self.max_words = self.words.capacity();
                    }
                }
            }
        }
    }

    /// Copies the `wanted` keys of a locked bucket, up to the limit. If there is no room for them yet, returns their number.
    fn take_in(&mut self, guard: &mut Guard<'_>, wanted: impl Fn(TableKey, u32) -> bool) -> Result<(), usize> {
        let (before, room) = (self.words.len(), self.words.capacity().min(self.max_words));
        let mut needed = 0;
        guard.for_each_key(|key, hash, waiters| {
            if !wanted(key, hash) {
                return;
            }
            needed += 1;
            if self.words.len() < room {
                let (address, scope) = (key.address, scope_of(key));
                let mut word = WaitedWord { address, scope, threads: 0, tasks: 0, for_lock: 0, bitset: 0 };
                waiters.for_each(|node| {
                    // SAFETY: every node of a queue is the first field of an entry, whose bucket is locked.
                    let entry = unsafe { node.cast::<Entry>().as_ref() };
                    // SAFETY: as above. The lock also guards the signal of a waiter that a wake may take.
                    match unsafe { entry.bitset().map(|bitset| (bitset, entry.signal.notifies_thread())) } {
                        Some((bitset, is_thread)) => {
                            word.bitset |= bitset.get();
                            *(if is_thread { &mut word.threads } else { &mut word.tasks }) += 1;
                        }
                        None => word.for_lock += 1,
                    }
                });
                self.words.push(word);
            }
        });
        let left_out = before + needed - self.words.len();
        if left_out > 0 && room < self.max_words {
            self.words.truncate(before);
            return Err(needed);
        }
        self.omitted += left_out;
        Ok(())
    }
}

impl<'a> IntoIterator for &'a WhoWaits {
    type Item = &'a WaitedWord;
    type IntoIter = core::slice::Iter<'a, WaitedWord>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Debug for WhoWaits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut list = f.debug_list();
        list.entries(self);
        if self.omitted > 0 {
            list.entry(&format_args!("and {} words more", self.omitted));
        }
        list.finish()
    }
}

impl fmt::Debug for WaitedWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, scope, threads, tasks, for_lock, bitset } = *self;
        match scope {
            Scope::Private => write!(f, "{address:#x} private:")?,
            Scope::AddressSpace => write!(f, "{address:#x} shared:")?,
            Scope::Object { id, offset } => write!(f, "{offset:#x} in object {:#x}:", id.get())?,
        }
        for (count, what) in [(threads, "threads"), (tasks, "tasks"), (for_lock, "for the lock")] {
            if count > 0 {
                write!(f, " {count} {what}")?;
            }
        }
        if threads + tasks > 0 { write!(f, ", bits {bitset:#x}") } else { Ok(()) }
    }
}

impl Domain {
    /// Lists at most `max_words` words on which this domain has waiters: private words, and words shared by address
    /// space. For words of objects, which belong to no domain, see [`PidNamespace::who_waits`] and [`System::who_waits`].
    ///
    /// A waiter that waits for one word during the whole call is reported exactly once; one that comes or leaves meanwhile,
    /// perhaps. Only one bucket at a time is locked. [`omitted`](WhoWaits::omitted) counts words for which there is no memory.
    ///
    /// To count the waiters of one word, requeue it to itself, which moves nobody:
    /// `domain.requeue(&word, &word, Requeue { wake: 0, requeue: usize::MAX })?.requeued`.
    ///
    /// ```
    /// use std::{pin::pin, sync::atomic::AtomicU32, task::Waker};
    /// use ufutex::{Domain, System, WaitOptions, Waiter};
    ///
    /// let domain = Domain::new(&System::new());
    /// let word = AtomicU32::new(0);
    /// let mut waiter = pin!(Waiter::new());
    /// let queued = domain.prepare_with(waiter.as_mut(), &word, 0, &WaitOptions::new(), Waker::noop().clone())?;
    /// let who = domain.who_waits(1000);
    /// println!("{who:#?}");
    /// assert_eq!(who.iter().map(|word| word.tasks).sum::<usize>(), 1);
    /// # drop(queued);
    /// # Ok::<(), ufutex::Error>(())
    /// ```
    #[must_use]
    pub fn who_waits(&self, max_words: usize) -> WhoWaits {
        let mut found = WhoWaits::new(max_words);
        let space = self.tables.space;
        let mut left = Some(0);
        while let Some(first) = left {
            left = found.look(|found| {
                let Some(mut locked) = live::lock(&self.tables, first) else { return Ok(None) };
                let last = self.tables.last_hash_of(locked.bucket(), first);
                found.take_in(&mut locked, |key, hash| key.space == space && (first..=last).contains(&hash))?;
                Ok(last.checked_add(1))
            });
        }
        for table in self.namespace().globals.tables() {
            found.look_at_table(table, &self.tables.store, |key, _| is_shared_of(key, space));
        }
        found
    }
}

impl PidNamespace {
    /// As [`Domain::who_waits`], for words of the namespace's own objects, and with the waiters of all its domains.
    #[must_use]
    pub fn who_waits(&self, max_words: usize) -> WhoWaits {
        WhoWaits::of_objects(self.inner.globals.tables(), max_words)
    }
}

impl System {
    /// As [`Domain::who_waits`], for words of [`SharedObject`](crate::SharedObject)s with the waiters of all domains, and
    /// for words of the objects of the system's own namespace.
    #[must_use]
    pub fn who_waits(&self, max_words: usize) -> WhoWaits {
        WhoWaits::of_objects(self.globals().tables().chain(self.inner.objects.tables()), max_words)
    }
}
