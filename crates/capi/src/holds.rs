//! Records the objects that each thread is using, so that none is freed meanwhile: hazard pointers, with an asymmetric
//! pair of barriers.
//!
//! A thread stores a handle in its own record, and then checks that the handle is alive [Ci]. The thread that frees a
//! handle marks it as closing, makes every thread of the process pass a full barrier by membarrier(2), and then reads
//! all records [Ci]. So each using thread has either seen the mark, or is seen in its record. A use costs two plain
//! stores in a cache line that no other thread writes.
//!
//! Without membarrier(2), each use costs a fence. Whether it exists is found out before the first handle is made.

use std::cell::Cell;
use std::ptr;

use crate::mutants::Mutant;
use crate::registry::boxed;
use crate::sync::{
    AtomicBool, AtomicPtr, AtomicU64, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst},
    compiler_fence, fence, mutant, thread_local,
};

/// How many nested operations of one thread a record has room for: a callback may wake a waiter whose callback wakes
/// another. Deeper ones count themselves in the slot.
const NESTED_MAX: usize = 8;

/// The handles that one thread holds. Records are never freed. When a thread ends, another thread takes over its
/// record.
#[repr(align(128))]
pub(crate) struct Record {
    handles: [AtomicU64; NESTED_MAX],
    /// Elements from here on are empty. Only the record's thread uses this.
    top: AtomicUsize,
    is_taken: AtomicBool,
    next: AtomicPtr<Record>,
}

pub(crate) static RECORDS: AtomicPtr<Record> = AtomicPtr::new(ptr::null_mut());

/// 0 means that it is not known yet. Otherwise one of the constants below.
static BARRIER: AtomicUsize = AtomicUsize::new(0);
const MEMBARRIER: usize = 1;
const FENCES: usize = 2;

thread_local! {
    static RECORD: Cell<Option<&'static Record>> = const { Cell::new(None) };
    /// Gives the record back when the thread ends.
    static OWNER: Owner = const { Owner(Cell::new(None)) };
}

struct Owner(Cell<Option<&'static Record>>);

impl Drop for Owner {
    fn drop(&mut self) {
        let _it_may_be_gone = RECORD.try_with(|record| record.set(None));
        if let Some(record) = self.0.get() {
            // Operations that the thread left without returning, with pthread_exit in a callback, do not use their
            // objects any more [Cj].
            record.handles.iter().for_each(|handle| handle.store(0, Release));
            record.top.store(0, Relaxed);
            record.is_taken.store(false, Release); // [Ck]
        }
    }
}

/// Called before a handle is made: finds out whether membarrier(2) exists.
pub(crate) fn prepare() {
    if BARRIER.load(Relaxed) == 0 {
        // SAFETY: membarrier(2) reads and writes no memory of ours.
        let registered =
            unsafe { libc::syscall(libc::SYS_membarrier, libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0 };
        let found = if registered { MEMBARRIER } else { FENCES };
        // [Ci]: handles reach other threads through some synchronisation, and this store with them.
        // The first answer stays: a filter may forbid membarrier(2) to some threads only, and both sides must agree.
        let _first = BARRIER.compare_exchange(0, found, SeqCst, Relaxed);
    }
}

/// Called in a child of fork(2), whether or not it has inherited its parent's registration for membarrier(2).
pub(crate) fn prepare_again() {
    if BARRIER.load(Relaxed) == MEMBARRIER {
        // SAFETY: membarrier(2) reads and writes no memory of ours.
        unsafe { libc::syscall(libc::SYS_membarrier, libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) };
    }
}

/// Enters `handle` in the calling thread's record. `None` if the thread has no record, or the record is full.
#[inline(always)]
pub(crate) fn enter(handle: u64) -> Option<(&'static Record, usize)> {
    let record = match RECORD.with(Cell::get) {
        Some(record) => record,
        None => take_record()?,
    };
    let index = record.top.load(Relaxed);
    let free = record.handles.get(index)?;
    record.top.store(index + 1, Relaxed);
    // [Cj]: a thread that frees the object which was here before, and sees this handle in its place, sees its uses as
    // well.
    free.store(handle, Release);
    light_barrier();
    Some((record, index))
}

/// [Ci] pairs with the barriers of `is_held`.
#[inline(always)]
fn light_barrier() {
    if BARRIER.load(Relaxed) == MEMBARRIER {
        compiler_fence(SeqCst);
    } else {
        fence(SeqCst);
    }
}

impl Record {
    /// Takes the record for the calling thread, if no thread has it.
    fn take(&self) -> bool {
        if mutant(Mutant::SharesRecord) {
            let is_free = !self.is_taken.load(Relaxed);
            self.is_taken.store(true, Relaxed);
            return is_free;
        }
        !self.is_taken.swap(true, AcqRel) // [Ck]
    }

    /// Removes a handle from the record.
    #[inline(always)]
    pub fn leave(&self, index: usize) {
        // [Cj]: the uses of the object happen before it is freed.
        self.handles[index].store(0, Release);
        if self.top.load(Relaxed) == index + 1 {
            // Elements below may have been left already, if handles are not released in reverse order. Mostly there are
            // none.
            let mut top = index;
            while top > 0 && self.handles[top - 1].load(Relaxed) == 0 {
                top -= 1;
            }
            self.top.store(top, Relaxed);
        }
    }
}

/// Whether any thread holds `handle`, which has been marked as closing. Also returns `true` if that can no longer be
/// found out.
pub(crate) fn is_held(handle: u64) -> bool {
    fence(SeqCst); // [Ci]: between the mark and the look at the records
    if BARRIER.load(Relaxed) == MEMBARRIER {
        // SAFETY: membarrier(2) reads and writes no memory of ours.
        let done = unsafe { libc::syscall(libc::SYS_membarrier, libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0 };
        if !done {
            // A filter has forbidden the call since. A thread may hold the handle without being seen.
            return true;
        }
    }
    records().any(|record| record.handles.iter().any(|held| held.load(Acquire) == handle)) // [Cj]
}

fn records() -> impl Iterator<Item = &'static Record> {
    // SAFETY: records are never freed, and are initialised before they are in the list.
    let deref = |record: *mut Record| unsafe { record.as_ref() };
    // [Ck]: a record in the list is initialised.
    core::iter::successors(deref(RECORDS.load(Acquire)), move |record| deref(record.next.load(Relaxed)))
}

/// A record for the calling thread. `None` if the thread is already ending, or if there is no memory.
#[cold]
fn take_record() -> Option<&'static Record> {
    OWNER
        .try_with(|owner| {
            // [Ck]: the thread that takes a record sees that it is empty.
            let record = records().find(|record| record.take()).or_else(add_record)?;
            owner.0.set(Some(record));
            RECORD.with(|own| own.set(Some(record)));
            Some(record)
        })
        .ok()
        .flatten()
}

fn add_record() -> Option<&'static Record> {
    let record = Box::leak(
        boxed(Record {
            handles: [const { AtomicU64::new(0) }; NESTED_MAX],
            top: AtomicUsize::new(0),
            is_taken: AtomicBool::new(true),
            next: AtomicPtr::new(ptr::null_mut()),
        })
        .ok()?,
    );
    let mut first = RECORDS.load(Relaxed);
    loop {
        record.next.store(first, Relaxed);
        // [Ck]: publishes the record's contents. A thread is in the list before it enters a handle. If `is_held`
        // does not see a record in the list, its thread's first check of a handle comes later, and sees the mark [Ci].
        match RECORDS.compare_exchange_weak(first, record, SeqCst, Relaxed) {
            Ok(_) => return Some(record),
            Err(now) => first = now,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    /// The freeing thread must see every holder that has not seen the mark. Runs both sides of the barriers again and
    /// again.
    #[test]
    fn a_holder_that_has_seen_no_mark_is_found() {
        const HANDLE: u64 = 0x7abc;
        prepare();
        let (marked, claimed, over) = (AtomicBool::new(false), AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Relaxed) {
                    let (record, index) = enter(HANDLE).expect("a record");
                    if !marked.load(Acquire) {
                        for _ in 0..50 {
                            assert!(!claimed.load(Relaxed), "it is freed while this thread holds it");
                        }
                    }
                    record.leave(index);
                }
            });
            let until = Instant::now() + Duration::from_millis(300);
            while Instant::now() < until {
                marked.store(true, SeqCst);
                if !is_held(HANDLE) {
                    claimed.store(true, Relaxed);
                    (0..200).for_each(|_| std::hint::spin_loop());
                    claimed.store(false, SeqCst);
                }
                marked.store(false, SeqCst);
            }
            over.store(true, Relaxed);
        });
    }
}
