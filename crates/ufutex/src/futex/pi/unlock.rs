//! Unlocking.

use super::TID_MASK;
use super::WAITERS;
use super::entry::{EntryRef, Purpose};
use super::graph::Graph;
use super::lock::Refused;
use super::task::Task;
use crate::error::Error;
use crate::futex::domain::{Domain, Hashed};
use crate::futex::key::Target;
use crate::sync::{Mutant, mutant, spin_loop};
use crate::sys::mem::Faults;
use crate::table::bucket::Guard;
use crate::table::hash::Key;
use crate::table::layout::Layout;
use crate::table::refs::Scheme;
use crate::wait::{Rest, Signal};

impl<S: Scheme<L>, L: Layout> Domain<S, L> {
    /// Unlocks `word`, which `task` owns, and hands it to the first waiter: `FUTEX_UNLOCK_PI`.
    ///
    /// # Errors
    /// [`Error::NotPermitted`] when the word does not name the task; [`Error::Invalid`] when somebody waits who waits for
    /// no lock, or the word and its waiters do not belong together, when it is not of 32 bits, or the task of another domain;
    /// [`Error::Again`] when the word changes meanwhile; [`Error::Fault`].
    #[inline]
    pub fn unlock_pi<T: Target>(&self, word: T, task: &Task<L>) -> Result<(), Error> {
        self.unlock_word(&word, task)
    }

    #[inline]
    pub(super) fn unlock_word<T: Target>(&self, word: &T, task: &Task<L>) -> Result<(), Error> {
        self.check_lock(word, task)?;
        let place = self.hashed(word);
        let tid = task.tid();
        // What a program does itself, when the word holds nothing but its TID. Not when somebody is queued.
        if self.nobody_waits(&place) {
            let seen = if mutant(Mutant::UnlockTrustsGlance) { word.load32()? } else { tid };
            if matches!(word.compare_exchange32(seen, 0), Ok(Ok(_))) {
                return Ok(());
            }
        }
        self.unlock_slowly(word, &place, task)
    }

    /// Unlocks for a task that was given the lock and does not know of it: there is nobody to whom `Again` could be said.
    pub(super) fn give_back<T: Target>(&self, word: &T, task: &Task<L>) {
        // A word that cannot be written any more has nobody to be unlocked for.
        while !mutant(Mutant::DropKeepsLock) && self.unlock_word(word, task) == Err(Error::Again) {
            spin_loop();
        }
    }

    #[cold]
    fn unlock_slowly<T: Target>(&self, word: &T, place: &Hashed, task: &Task<L>) -> Result<(), Error> {
        let mut faults = Faults::default();
        loop {
            let mut locked = self.lock_or_make(place);
            let key = self.key(place.address, place.shared_space);
            let result = self.system.graph().lock().with(|g| hand_over(&mut locked.guard, g, key, word, task));
            drop(locked);
            match result {
                Ok(rest) => {
                    // Before it runs: others may lend it their priority.
                    self.system.tell_scheduler();
                    rest.finish();
                    return Ok(());
                }
                Err(refused) => refused.resolve(word, &mut faults)?,
            }
        }
    }
}

/// Writes the next owner's TID, or 0, and makes it the owner. Bucket and graph are locked.
///
/// The word is read under them, so that a waiter which sets [`WAITERS`] meanwhile does not matter. The kernel reads it
/// before, and so says `EINVAL` or `EAGAIN` in races.
fn hand_over<T: Target, L: Layout>(
    bucket: &mut Guard<'_, L>,
    graph: &mut Graph<EntryRef>,
    key: Key,
    word: &T,
    task: &Task<L>,
) -> Result<Rest, Refused> {
    let value = word.load32()?;
    if value & TID_MASK != task.tid() {
        return Err(Error::NotPermitted.into());
    }
    let Some(first) = bucket.first(key) else {
        return match word.compare_exchange32(value, 0)? {
            Ok(_) => Ok(Rest::Nothing),
            Err(_) => Err(Error::Again.into()),
        };
    };
    // SAFETY: queued, and the bucket is locked.
    let purpose = unsafe { EntryRef::of(first).map(|entry| entry.get().purpose()) };
    let Some(Purpose::Lock(lock)) = purpose else {
        return Err(Error::Invalid.into()); // [S3]
    };
    if graph.owner(lock) != Some(task.id()) {
        return Err(Error::Invalid.into());
    }
    let heir = graph.first_waiter(lock).and_then(|heir| graph.blocked_on(heir).map(|(_, entry)| (heir, entry)));
    let Some((heir, entry)) = heir else {
        return Err(Error::Invalid.into());
    };
    if word.compare_exchange32(value, WAITERS | graph.tid(heir))?.is_err() {
        return Err(Error::Invalid.into());
    }
    if !mutant(Mutant::HandOverKeepsOwner) {
        graph.hand_over(lock);
    }
    // SAFETY: the entry waits for this lock, so it is queued by its key, in this bucket.
    unsafe { bucket.remove(entry.node()) };
    // SAFETY: taken off queue and graph; not used afterwards.
    Ok(unsafe { Signal::wake(&raw const (*entry.0.as_ptr()).entry.signal) })
}
