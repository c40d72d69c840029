//! Unlocks a lock with priority inheritance: hands it to the first waiter, or clears its word.

use super::lock::Refused;
use crate::error::Error;
use crate::futex::domain::Domain;
use crate::futex::entry::notify_one;
use crate::futex::key::Target;
use crate::futex::lock_word::{TID_MASK, WAITERS};
use crate::futex::namespace::Tasks;
use crate::futex::place::Place;
use crate::futex::task::Task;
use crate::signal::PendingWake;
use crate::sync::spin_loop;
use crate::sys::mem::Faults;
use crate::sys::unwind::Otherwise;
use crate::table::bucket::Guard;

impl Domain {
    /// Unlocks `word`, which `task` owns, and hands it to the first waiter: `FUTEX_UNLOCK_PI`.
    ///
    /// # Errors
    /// [`Error::NotPermitted`] if the word does not name the task. [`Error::Invalid`] if a waiter of the word waits for no lock
    /// or belongs to another [`PidNamespace`](crate::PidNamespace), if the word and its waiters do not belong together, if the
    /// word is not of 32 bits, or if `task` belongs to another domain. [`Error::Again`] if the word changes meanwhile;
    /// [`Error::Fault`].
    #[inline]
    pub fn unlock_pi<T: Target>(&self, word: T, task: &Task) -> Result<(), Error> {
        self.check_lock(&word, task)?;
        let place = self.place(&word);
        let tid = task.tid();
        // As a program does itself if the word holds only its TID. Not if waiters are queued.
        if self.nobody_waits(&place) && matches!(word.compare_exchange32(tid, 0), Ok(Ok(_))) {
            return Ok(());
        }
        self.unlock_slowly(&word, &place, task)
    }

    /// Unlocks a word whose lock was handed to a task that no longer wants it.
    pub(super) fn give_back<T: Target>(&self, word: &T, task: &Task) {
        let place = self.place(word);
        // A word that can no longer be written stays, and so does one whose task has ended. `Again`: another operation has
        // changed the word, and so made progress; there is no lock to wait for.
        let unlock = || self.check_lock(word, task).and_then(|()| self.unlock_slowly(word, &place, task));
        while unlock() == Err(Error::Again) {
            spin_loop();
        }
    }

    #[cold]
    fn unlock_slowly<T: Target>(&self, word: &T, place: &Place, task: &Task) -> Result<(), Error> {
        let mut faults = Faults::default();
        loop {
            let (mut locked, mut tasks) = self.lock_both(|| self.lock_or_make(place), || self.try_lock(place));
            // Keeps the CPU until the heir is woken: another thread may report meanwhile that this one has lost its boost.
            let section = self.platform().section();
            let result = tasks.with(|tasks| self.hand_over(&mut locked, tasks, place, word, task));
            drop((tasks, locked));
            match result {
                Ok(pending) => {
                    // After the heir is woken. Otherwise, once the scheduler knows that this thread has lost the heir's
                    // priority, threads of priorities in between could keep the lock from it. Also if the heir's waker panics.
                    let _reported = Otherwise::new(|| self.system.report_priorities(self.namespace()));
                    let _section = (!pending.calls_waker()).then_some(section);
                    drop(pending);
                    return Ok(());
                }
                Err(refused) => {
                    drop(section);
                    refused.resolve(word, &mut faults)?;
                }
            }
        }
    }

    /// Writes the next owner's TID, or 0, and makes that task the owner. Bucket and graph are locked.
    ///
    /// Unlike in the kernel, the bucket is locked, so a waiter that sets [`WAITERS`] meanwhile does not make this fail.
    fn hand_over<T: Target>(
        &self,
        bucket: &mut Guard<'_>,
        tasks: &mut Tasks,
        place: &Place,
        word: &T,
        task: &Task,
    ) -> Result<PendingWake, Refused> {
        let value = word.load32()?;
        if value & TID_MASK != task.tid() {
            return Err(Error::NotPermitted.into());
        }
        let Some(first) = bucket.first(self.key(place), place.hash) else {
            return match word.compare_exchange32(value, 0)? {
                Ok(_) => Ok(PendingWake::NOTHING),
                Err(_) => Err(Error::Again.into()),
            };
        };
        let lock = self.lock_of(first)?;
        let graph = &mut tasks.graph;
        let heir = graph.first_waiter(lock).filter(|_| graph.owner(lock) == Some(task.named.id));
        let Some((heir, entry)) = heir else { return Err(Error::Invalid.into()) };
        match word.compare_exchange32(value, WAITERS | graph.tid(heir))? {
            Ok(_) => {}
            // As in the kernel: the word had the TID alone, and the guest has set a bit.
            Err(now) if now & TID_MASK == value => return Err(Refused::Retry),
            Err(_) => return Err(Error::Invalid.into()),
        }
        graph.hand_over(lock);
        // SAFETY: the entry waits for this lock, so it is queued here. It leaves queue and graph, and is not used any more.
        unsafe {
            bucket.remove(entry.node());
            entry.get().entry.waker.with_mut(|c| *c = self.observe(|observer| observer.waker_id()));
            Ok(notify_one(entry.node()))
        }
    }
}
