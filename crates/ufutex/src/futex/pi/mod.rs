//! Locks that are handed over in order of priority, and boost their owner to their waiters' priority: `FUTEX_LOCK_PI` and
//! its family.
//!
//! # States
//!
//! The lock's word is the user's: 0, or the owner's TID, with WAITERS if a task waits, and OWNER_DIED after an owner has
//! ended without unlocking ([`lock_word`](super::lock_word)). The engine keeps a lock in the [`graph`] from the time
//! when the first waiter comes until the last one goes. The user may write anything to the word at any time, so each
//! operation first compares the word with the graph. In the table, TID and DIED are read from the word under the lock
//! of its bucket; "queued" is the first waiter in the word's queue; "owner" is the graph's.
//!
//! | state | queued | owner | TID | DIED | means | lock_pi |
//! |---|---|---|---|---|---|---|
//! | [S1] | no waiter | | 0 | any | free, perhaps after a death | takes it; DIED stays |
//! | [S2] | no waiter | | not 0 | any | owned, no task waits yet | sets WAITERS and waits for that task; no such task: `ESRCH`; a task of the kernel: `EPERM` |
//! | [S3] | one that waits for no lock | | any | any | misused as two kinds of futex | `EINVAL` |
//! | [S4] | a waiter | none: it died | 0 | yes | the first waiter has inherited the lock, and is about to write its TID | waits |
//! | [S5] | a waiter | none | not 0 | yes | the program changed the word | `EINVAL` |
//! | [S6] | a waiter | a task | 0 | yes | the task is ending, its robust list has been walked | waits |
//! | [S7] | a waiter | none | any | no | the program changed the word | `EINVAL` |
//! | [S8] | a waiter | a task | the task's | any | owned and waited for | waits |
//! | [S9] | a waiter | a task | 0 | no | the program changed the word | `EINVAL` |
//! | [S10] | a waiter | a task | another's | any | the program changed the word | `EINVAL` |
//!
//! Before any state is checked, the result is `EDEADLK` if the TID is the caller's own. It is also `EDEADLK` for a
//! wait that would close a circle, or make a chain longer than the system allows. A queued waiter of another PID
//! namespace is `EINVAL` for every caller ([`namespace`](super::namespace)). WAITERS stays set if `lock_pi` fails after
//! setting it, and if the last waiter gives up: the owner's unlock then finds no waiter, and writes 0. These are the
//! kernel's states, with its numbers.
//!
//! # Changes
//!
//! - **Unlock** ([`unlock`]) of [S8] writes `WAITERS | TID` of the first waiter, makes it the owner and takes it off
//!   the queue, in one step under the locks of bucket and graph. The new owner has the lock before it runs; no task
//!   can steal it. In [S1] and [S2] unlock writes 0. In every other state the owner is not the caller: `EPERM` by the
//!   word, else `EINVAL`.
//! - **Death of the owner** ([`task`]) makes the first waiter the holder without writing the word, because the
//!   task that ends may map the word elsewhere, or not at all any more. That waiter stays queued and is prodded. It
//!   then writes its own TID with WAITERS and DIED ([`waiter`]): from [S4] to [S8]. If it is dropped before, the next
//!   waiter takes its place.
//! - **Giving up** takes a waiter out of queue and graph. A waiter that has been handed the lock before it gives up has
//!   the lock.
//!
//! # Locks
//!
//! One lock guards the [`graph`] of a namespace, which has the tasks and locks of all its domains, and the [TIDs](super::tids).
//! So an owner that is found by its TID cannot have gone. An operation on a lock holds it together with the lock of a bucket,
//! or of two. No thread waits for either with the other held: one of them is only tried ([`lock_both`](Domain::lock_both)).
//!
//! - A bucket of a [`SharedObject`](super::objects::SharedObject) is used by other namespaces. If a thread waited for its graph
//!   with such a bucket locked, or the other way round, threads of one guest would wait for one of another, which may have
//!   lost its CPU or be at a long requeue.
//! - In buckets that only one namespace uses, plain waits and wakes do not wait for operations on locks elsewhere.
//!
//! A contender of either lock is handed it after half a millisecond ([`lock`](crate::lock)). So threads that keep a bucket
//! busy delay an operation only while other tasks of the operation's own namespace keep the graph busy too.
//!
//! A queued waiter's signal is guarded by the graph's lock, not by the bucket's, because the death of an owner locks no
//! bucket. Schedulers, wakers and faults come after all these locks have been released.

mod graph;
pub(crate) mod lock;
pub(crate) mod requeue;
pub(crate) mod scheduler;
mod slab;
mod spin;
mod task;
mod unlock;
mod waiter;

use self::graph::LockId;
pub(super) use self::graph::{Graph as PiGraph, TaskId};
pub(super) use self::scheduler::{Pi, PiSettings};
pub(super) use self::spin::Spins;
use super::domain::Domain;
use super::namespace::Tasks;
use crate::lock::LockGuard;

impl Domain {
    /// Locks a bucket, or a pair of them, and the graph: see "Locks" above. `wait` locks the bucket, `attempt` only tries.
    fn lock_both<B>(&self, wait: impl Fn() -> B, attempt: impl Fn() -> Option<B>) -> (B, LockGuard<'_, Tasks>) {
        let tasks = &self.namespace().tasks;
        loop {
            let bucket = wait();
            if let Some(graph) = tasks.try_lock() {
                return (bucket, graph);
            }
            drop(bucket);
            let graph = tasks.lock();
            if let Some(bucket) = attempt() {
                return (bucket, graph);
            }
        }
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;
    use crate::System;

    /// The lock of a bucket.
    enum Bucket<'d> {
        /// Meanwhile another operation has the graph.
        Waited {
            _graph: Option<LockGuard<'d, Tasks>>,
        },
        Tried,
    }

    #[test]
    fn both_locks_are_kept_once_both_are_held() {
        let domain: Domain = Domain::new(&System::new());
        for is_busy in [false, true] {
            let waits = core::cell::Cell::new(0);
            let wait = || {
                waits.set(waits.get() + 1);
                assert_eq!(waits.get(), 1, "the bucket was held, or could be had, with the graph");
                let graph = is_busy.then(|| domain.namespace().tasks.try_lock().expect("no operation has it"));
                Bucket::Waited { _graph: graph }
            };
            let attempt = || {
                assert!(is_busy, "the bucket was held already");
                assert!(domain.namespace().tasks.try_lock().is_none(), "the graph is kept");
                Some(Bucket::Tried)
            };
            let (bucket, graph) = domain.lock_both(wait, attempt);
            assert_eq!(matches!(bucket, Bucket::Tried), is_busy);
            drop(graph);
            assert!(domain.namespace().tasks.try_lock().is_some());
        }
    }
}
