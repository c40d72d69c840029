//! Locks that are handed over in order of priority, and boost their owner to their waiters' priority: `FUTEX_LOCK_PI` and
//! its family.
//!
//! # States
//!
//! The word is the user's: 0, or the owner's TID, with WAITERS if a task waits, and OWNER_DIED after an owner has ended without
//! unlocking ([`lock_word`](super::lock_word)). The engine keeps a lock in the [`graph`] while it has waiters. The user may
//! write anything to the word at any time, so each operation compares it with the graph first. In the table, TID and DIED are
//! read from the word under its bucket's lock; "queued" is the first waiter in the word's queue; "owner" is the graph's.
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
//! Before any state is checked, the result is `EDEADLK` if the TID is the caller's own. It is also `EDEADLK` for a wait that
//! would close a circle, or make a chain longer than the system allows. A queued waiter of another PID namespace is `EINVAL`
//! for every caller ([`namespace`](super::namespace)). WAITERS stays set if `lock_pi` fails after setting it, and if the last
//! waiter gives up: the owner's unlock then finds no waiter, and writes 0. These are the kernel's states, with its numbers.
//!
//! # Changes
//!
//! - **Unlock** ([`unlock`]) of [S8] writes `WAITERS | TID` of the first waiter, makes it the owner and takes it off the queue,
//!   in one step under the locks of bucket and graph: the new owner has the lock before it runs, and no task can steal it. In
//!   [S1] and [S2] unlock writes 0. In every other state the owner is not the caller: `EPERM` by the word, else `EINVAL`.
//! - **Death of the owner** ([`task`]) makes the first waiter the holder without writing the word, which the ending task may
//!   map elsewhere, or not at all any more. That waiter stays queued and is notified. It then writes its own TID with WAITERS
//!   and DIED ([`waiter`]): from [S4] to [S8]. If it is dropped before, the next waiter takes its place.
//! - **Giving up** takes a waiter out of queue and graph. A waiter that was handed the lock before it gave up has it.
//!
//! # Locks
//!
//! One lock guards the [`graph`] of a namespace, which has the tasks and locks of all its domains, and the [TIDs](super::tids):
//! an owner that is found by its TID cannot have gone. It also guards the signals of queued waiters, because the death of an
//! owner locks no bucket. An operation on a lock holds it together with the lock of one bucket or two. No thread waits for
//! either with the other held: one of them is only tried ([`lock_both`](Domain::lock_both)).
//!
//! If a thread waited for one with the other held, then in a bucket of a [`SharedObject`](super::objects::SharedObject) threads
//! of one guest would wait for a thread of another, which may have lost its CPU or be at a long requeue. In all other buckets
//! plain waits and wakes would wait for operations on locks elsewhere. A contender of a bucket or of the graph
//! [is handed it](crate::lock) after half a millisecond. So a busy bucket delays an operation for long only if the graph of its
//! own namespace is busy too.
//!
//! Schedulers, wakers and faults come after all these locks have been released.

mod graph;
pub(crate) mod lock;
pub(crate) mod requeue;
pub(crate) mod scheduler;
mod slab;
mod task;
mod unlock;
mod waiter;

use self::graph::LockId;
pub(super) use self::graph::{Graph as PiGraph, TaskId};
pub(super) use self::scheduler::{Pi, PiSettings};
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
