//! How an operation reaches the live bucket of its key while the table may be replaced. Nothing keeps a table in place.
//!
//! Invariant: for every key one bucket is live, whichever table it is in, except within a mover's step, where its old and its
//! new bucket both are; and no bucket's memory is freed before the domain is dropped. If the bucket in the table that an
//! operation believes to be in use is not live, the key has moved: to `next`, or `current` has changed.

use super::bucket::{Bucket, Guard};
use super::mover::IfLocked;
use super::tables::{Current, Progress, Tables};
use crate::error::Error;
use crate::sync::spin_loop;

/// After this many naps, or if it cannot sleep, a resize no longer passes over locked buckets, and waits for the lock of
/// each in turn. Otherwise it might find some bucket locked in every pass.
const PATIENCE: u32 = 10;

/// The number of attempts to find the live bucket if its lock is only tried.
const ATTEMPTS: u32 = 100;

/// The number of steps that an operation takes of a move that it did not request.
const STEPS_AT_ONCE: u32 = 8;

pub type Locked<'t> = Guard<'t>;

/// The result of trying to lock a bucket, perhaps while another one is locked.
pub enum Second<'t> {
    Locked(Locked<'t>),
    Same,
    /// Another thread holds the bucket, or the domain has no table yet, or the bucket is no longer live.
    Busy,
}

impl<'t> Second<'t> {
    pub fn of(bucket: &'t Bucket, first: Option<&Bucket>) -> Self {
        if first.is_some_and(|first| core::ptr::eq(bucket, first)) {
            return Self::Same;
        }
        bucket.try_lock().map_or(Self::Busy, Self::Locked)
    }
}

/// Locks the live bucket of `hash`; `None` if the domain has no table yet.
#[inline(always)]
pub fn lock(tables: &Tables, hash: u32) -> Option<Locked<'_>> {
    if let Some(table) = tables.current_private()
        && let Some(guard) = tables.lock_in(table, hash)
    {
        return Some(guard);
    }
    lock_elsewhere(tables, hash)
}

/// Tries to lock the live bucket of `hash` without waiting. If the caller has locked a bucket, it is `first`.
pub fn try_lock<'t>(tables: &'t Tables, hash: u32, first: Option<&Bucket>) -> Second<'t> {
    // A bucket may be not live because the mover is in the middle of a step. The caller holds another lock, so this must not
    // sleep until the step ends. After `Busy` the caller sleeps, when it locks this bucket first.
    for _ in 0..ATTEMPTS {
        let found = search(tables, hash, |bucket| match Second::of(bucket, first) {
            Second::Busy if !bucket.is_live() => None,
            second => Some(second),
        });
        match found {
            Some(second) => return second,
            None if tables.has_none() => break,
            None => spin_loop(),
        }
    }
    Second::Busy
}

/// Whether a lock-free emptiness check proves that no waiter is queued for `hash`. The caller has executed [B].
#[inline(always)]
pub fn proves_empty(tables: &Tables, hash: u32) -> bool {
    match tables.current_private() {
        // A bucket that is not live proves nothing: the key has moved.
        Some(table) => table.bucket(hash).proves_empty(),
        None => proves_empty_elsewhere(tables, hash),
    }
}

/// Moves all waiters to a table with `1 << slots_log2` buckets, or to the global table for `None`. The caller keeps all others
/// from requesting a move meanwhile, and the size policy from beginning one.
pub fn resize(tables: &Tables, slots_log2: Option<u32>) -> Result<(), Error> {
    let (mut round, mut insist) = (0, false);
    while !go_on(tables, slots_log2, insist)? {
        // Other threads' operations may take the rest of the steps. If this thread slept on a bucket, it would be woken
        // together with all its contenders, and wait for a CPU behind them.
        insist = !tables.platform().nap(&mut round) || round >= PATIENCE;
    }
    Ok(())
}

/// Begins a move to a table with `1 << slots_log2` buckets, if it is larger, there is memory, and `is_wanted`, which is called
/// under `resize`, agrees. `false` if another move is going on, so nothing was decided.
#[cold]
pub fn grow(tables: &Tables, slots_log2: u32, is_wanted: &dyn Fn() -> bool) -> bool {
    let Some(mut resize) = tables.resize.try_lock() else { return false };
    resize.with(|going_on| {
        let is_free = going_on.is_none();
        if is_free
            && (1..1 << slots_log2).contains(&tables.slots())
            && is_wanted()
            && let Ok(Some(planned)) = tables.plan(Some(slots_log2))
        {
            tables.announce(planned);
            *going_on = Some(Progress::default());
        }
        advance(tables, going_on, STEPS_AT_ONCE);
        is_free
    })
}

#[inline(always)]
pub fn help(tables: &Tables) {
    if tables.moving() {
        help_slowly(tables);
    }
}

#[cold]
fn help_slowly(tables: &Tables) {
    // If a bucket that the last pass left is still locked, the move cannot go on: its holder has probably lost its CPU. Until
    // that runs, all operations on moved keys come here. They read a few words that no thread writes meanwhile (a hint: the
    // words may belong to different moves), and leave the lock of the resize alone.
    if let (Some(step), Some(planned)) = (tables.left_step(), tables.going_on())
        && step < planned.steps()
        && planned.is_locked(step)
    {
        return;
    }
    if let Some(mut resize) = tables.resize.try_lock() {
        resize.with(|going_on| advance(tables, going_on, STEPS_AT_ONCE));
    }
}

/// Completes the move that is going on, and then the requested one. `false` if a step cannot be taken yet, for which it waits
/// if it is to `insist`.
fn go_on(tables: &Tables, slots_log2: Option<u32>, insist: bool) -> Result<bool, Error> {
    tables.resize.lock().with(|going_on| {
        loop {
            // Two passes: the first may only be the rest of a pass that another thread has begun.
            advance(tables, going_on, u32::MAX);
            advance(tables, going_on, u32::MAX);
            let Some(planned) = going_on.as_ref().and_then(|_| tables.going_on()) else {
                let Some(planned) = tables.plan(slots_log2)? else { return Ok(true) };
                tables.announce(planned);
                *going_on = Some(Progress::default());
                continue;
            };
            match planned.first_left() {
                Some(step) if insist => _ = planned.step(step, IfLocked::Wait),
                Some(_) => return Ok(false),
                None => {}
            }
        }
    })
}

/// Continues a move for up to `limit` steps, and ends it when all are done. Passes over locked buckets, most of which are
/// unlocked by the next pass. At the end of a pass it notes one of them for [`help`].
fn advance(tables: &Tables, going_on: &mut Option<Progress>, limit: u32) {
    let Some(progress) = going_on else { return };
    let Some(planned) = tables.going_on() else { return };
    let steps = planned.steps() as u32;
    let end = steps.min(progress.next_step.saturating_add(limit));
    tables.note_left_step(None);
    for step in progress.next_step..end {
        let is_done = planned.step(step as usize, IfLocked::Skip);
        progress.skipped |= !is_done;
    }
    if end < steps {
        progress.next_step = end;
        return;
    }
    progress.next_step = 0;
    if core::mem::take(&mut progress.skipped) {
        tables.note_left_step(planned.first_left());
    } else {
        tables.end(planned);
        *going_on = None;
    }
}

#[cold]
fn lock_elsewhere(tables: &Tables, hash: u32) -> Option<Guard<'_>> {
    help(tables);
    let mut round = 0;
    loop {
        match search(tables, hash, |bucket| bucket.lock(&tables.store)) {
            Some(guard) => return Some(guard),
            None if tables.has_none() => return None,
            None => tables.platform().wait_for_holder(&mut round),
        }
    }
}

/// Looks once through the tables that may have the live bucket of `hash`. `None` if the domain has no table yet, the key is on
/// its way to another table, or `lock` found no live bucket.
fn search<'t, L>(tables: &'t Tables, hash: u32, lock: impl Fn(&'t Bucket) -> Option<L>) -> Option<L> {
    // `next` is read first: see `Tables::publish`.
    let next = tables.next();
    let current = tables.current();
    for place in [current, next] {
        if let Current::Private(table) = place
            && let Some(locked) = lock(table.bucket(hash))
        {
            return Some(locked);
        }
    }
    if let (Current::Global, _) | (_, Current::Global) = (current, next) {
        return lock(tables.global.get_or_make().bucket(hash)).filter(|_locked| is_in_global(tables, hash));
    }
    // The table changed between the two loads. The thread that changed it has published more by now.
    None
}

/// Whether the key is in the global bucket, whose lock the caller holds. If so, it stays there until the caller unlocks: a
/// mover that takes it to a private table needs that lock to take the waiters and to finish.
///
/// A private bucket may be not live because the key has not arrived yet, or has been there and left. Only if no move has begun
/// meanwhile does the bucket's state belong to the `next` and `current` that were read.
fn is_in_global(tables: &Tables, hash: u32) -> bool {
    let moves = tables.moves();
    let next = tables.next();
    let current = tables.current();
    let live_in = |place| matches!(place, Current::Private(table) if table.bucket(hash).is_live());
    let uses_global = matches!(current, Current::Global) || matches!(next, Current::Global);
    let is_elsewhere = live_in(current) || live_in(next);
    uses_global && !is_elsewhere && tables.moves() == moves
}

/// Whether all waiters with a key of `hash` are in `bucket`. The caller holds its lock, and one of them is queued there.
///
/// In a private bucket they are: it is locked while they come or go. If the key is not in its global bucket, a move has taken
/// some of them, and its next piece needs the caller's lock.
#[cfg(feature = "parking")]
pub fn has_whole_queue(tables: &Tables, bucket: &Bucket, hash: u32) -> bool {
    !tables.global.contains(bucket, hash) || is_in_global(tables, hash)
}

fn proves_empty_elsewhere(tables: &Tables, hash: u32) -> bool {
    let moves = tables.moves();
    let next = tables.next();
    match (tables.current(), next) {
        // A table is published before its first waiter reads the word. [A] and [B] do the rest.
        (Current::None, _) => true,
        // A global bucket is live whether the key is in it or not. Suppose a waiter of the key got its lock in a
        // private table and missed the new value of the word. Then its [A] came before this thread's [B], and it had
        // seen that private table, so this thread sees that table too. And if the key has left the global bucket since,
        // and perhaps come back, this thread sees that move's number.
        (Current::Global, Current::None) => {
            tables.global.get_or_make().bucket(hash).proves_empty() && tables.moves() == moves
        }
        _ => false,
    }
}
