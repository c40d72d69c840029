//! Locks that are handed over in order of priority, and lend their waiters' priority to their owner: `FUTEX_LOCK_PI` and
//! its family.
//!
//! # States
//!
//! The lock's word is the user's: 0, or the owner's TID, with [`WAITERS`] when somebody waits, and [`OWNER_DIED`] after an
//! owner has ended without unlocking. What the engine knows is a lock in the [`graph`], from the first waiter to the last.
//! The user may write anything at any time, so each operation first compares the two. `TID` and `DIED` are read from the
//! word under the lock of its bucket; "queued" is the first waiter in the word's queue; `owner` is the graph's.
//!
//! | state | queued | owner | TID | DIED | means | lock_pi |
//! |---|---|---|---|---|---|---|
//! | [S1] | nobody | | 0 | any | free, perhaps after a death | takes it; DIED stays |
//! | [S2] | nobody | | not 0 | any | owned, nobody waits yet | sets WAITERS and waits for that task; none such: `ESRCH`; a kernel's: `EPERM` |
//! | [S3] | one that waits for no lock | | any | any | misused as two kinds of futex | `EINVAL` |
//! | [S4] | a waiter | none: it died | 0 | yes | the first waiter has the lock, and is about to write its TID | waits |
//! | [S5] | a waiter | none | not 0 | yes | somebody else wrote the word | `EINVAL` |
//! | [S6] | a waiter | a task | 0 | yes | the task is ending, its robust list has been walked | waits |
//! | [S7] | a waiter | none | any | no | somebody else wrote the word | `EINVAL` |
//! | [S8] | a waiter | a task | the task's | any | owned and waited for | waits |
//! | [S9] | a waiter | a task | 0 | no | somebody else wrote the word | `EINVAL` |
//! | [S10] | a waiter | a task | another's | any | somebody else wrote the word | `EINVAL` |
//!
//! Before all of them: a TID that is the caller's own is `EDEADLK`; so is a wait that would close a circle, or a chain
//! longer than the system allows. WAITERS stays set when `lock_pi` fails after setting it, and when the last waiter
//! gives up: then the owner's unlock finds nobody, and writes 0. These are the kernel's states, numbered as there.
//!
//! # Changes
//!
//! - **Unlock** ([`unlock`]) of [S8] writes `WAITERS | TID` of the first waiter, makes it the owner and takes it off the
//!   queue, in one step under the locks of bucket and graph. It has the lock before it runs; nobody can steal it. In
//!   [S1] and [S2] it writes 0. In every other state the owner is not the caller: `EPERM` by the word, else `EINVAL`.
//! - **Death of the owner** (`Task`'s drop) makes the first waiter the holder, without the word: who dies may map it
//!   elsewhere or not any more. That waiter stays queued, is prodded, and writes its own TID with WAITERS and DIED
//!   ([`waiter`]): from [S4] to [S8]. If it is dropped before, the next waiter takes its place.
//! - **Giving up** takes a waiter out of queue and graph. One that has been handed the lock by then has it.
//!
//! # Locks
//!
//! A bucket's, then the graph's. What a waiter is told by belongs to the graph's lock as long as it is queued, since
//! the death of an owner locks no bucket. Schedulers, wakers and faults come after both.

mod entry;
pub(crate) mod graph;
pub(crate) mod lock;
pub(crate) mod requeue;
pub(crate) mod scheduler;
mod slab;
pub(crate) mod task;
mod unlock;
mod waiter;

pub(crate) use entry::EntryRef;

/// In a lock's word: somebody waits for it.
pub const WAITERS: u32 = 0x8000_0000;
/// In a lock's word: an owner has ended without unlocking it.
pub const OWNER_DIED: u32 = 0x4000_0000;
/// The bits of a lock's word that hold the owner's TID.
pub const TID_MASK: u32 = 0x3fff_ffff;
