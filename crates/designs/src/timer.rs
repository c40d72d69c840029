//! The timer of the four designs, and the memory that it comes from.
//!
//! All fields of a timer are atomic, and most accesses are relaxed, which costs nothing. Look-ups take no lock of the
//! table, so they may find a timer that is just being deleted or made into another one. Its memory stays a timer as
//! long as the sample lasts.

use crate::Notify;
use crate::spin::{Held, Spin};
use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::sync::{AtomicI32, AtomicI64, AtomicU32, AtomicU64, AtomicUsize};
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

/// A bit of `owner`: the timer is reserved and not valid yet, or no longer valid. Processes have even addresses.
pub const INVALID: usize = 1;

/// The fields that a timer needs. It has as many bytes as the engine's timer.
#[repr(C, align(128))]
#[derive(Default)]
pub struct Timer {
    /// The next link of the chain: see `chain.rs`.
    pub next: AtomicUsize,
    /// The address of the link that points to this timer.
    pub before: AtomicUsize,
    /// The address of the process; with [`INVALID`] if the timer is not valid; 0 if it has no process.
    pub owner: AtomicUsize,
    /// Unique within its process.
    pub id: AtomicI32,
    lock: Spin,
    /// Links of the process's list of timers, as the chain's; guarded by the process's lock.
    list_next: AtomicUsize,
    list_before: AtomicUsize,
    clock: AtomicI32,
    notify: AtomicI32,
    signal: AtomicI32,
    thread: AtomicI32,
    value: AtomicU64,
    overrun: AtomicI64,
    overrun_last: AtomicI64,
    interval: AtomicU64,
    deadline: AtomicU64,
    armed: AtomicU32,
    sequence: AtomicU32,
    /// The next free timer of a thread.
    free: AtomicUsize,
}

const _: () = assert!(size_of::<Timer>() == 128);

impl Timer {
    /// The offset of the lock, for the names in the model.
    #[cfg(feature = "sim")]
    pub(crate) const LOCK: usize = std::mem::offset_of!(Timer, lock);
    /// The offset of the links in the process's list.
    #[cfg(feature = "sim")]
    pub(crate) const LIST: usize = std::mem::offset_of!(Timer, list_next);

    /// The timer at an address that a link holds.
    ///
    /// # Safety
    /// The address belongs to a [`Timer`] of a [`Memory`] that lives as long as `'a`.
    #[inline]
    pub unsafe fn at<'a>(address: usize) -> &'a Timer {
        // SAFETY: the caller guarantees it. All fields of a timer are atomic, so only shared references exist.
        unsafe { &*std::ptr::with_exposed_provenance::<Timer>(address) }
    }

    /// The address that links hold.
    #[inline]
    pub fn address(&self) -> usize {
        std::ptr::from_ref(self).expose_provenance()
    }

    /// Locks the timer: its owner and its state do not change meanwhile.
    #[inline]
    pub fn lock(&self) -> Held<'_> {
        self.lock.lock()
    }

    /// Whether this is the valid timer with this owner and ID.
    #[inline]
    pub fn is(&self, owner: usize, id: i32) -> bool {
        self.owner.load(Acquire) == owner && self.id.load(Relaxed) == id
    }

    /// Whether this is the timer with this owner and ID, valid or only reserved.
    #[inline]
    pub fn holds(&self, owner: usize, id: i32) -> bool {
        self.owner.load(Relaxed) & !INVALID == owner && self.id.load(Relaxed) == id
    }

    /// Sets the timer's future owner and ID. It cannot be found yet.
    #[inline]
    pub fn reserve(&self, owner: usize, id: i32) {
        self.id.store(id, Relaxed);
        self.owner.store(owner | INVALID, Relaxed);
    }

    /// Sets all fields that timer_create(2) gives a timer.
    #[inline]
    pub fn fill(&self, clock: i32, notify: Notify) {
        self.clock.store(clock, Relaxed);
        self.notify.store(notify.number(), Relaxed);
        self.signal.store(libc::SIGALRM, Relaxed);
        self.thread.store(0, Relaxed);
        self.value.store(self.id.load(Relaxed) as u64, Relaxed);
        self.overrun.store(0, Relaxed);
        self.overrun_last.store(0, Relaxed);
        self.interval.store(0, Relaxed);
        self.deadline.store(0, Relaxed);
        self.armed.store(0, Relaxed);
        self.sequence.store(0, Relaxed);
    }

    /// The result of timer_getoverrun(2). The caller has locked the timer.
    #[inline]
    pub fn overrun(&self) -> i32 {
        self.overrun_last.load(Relaxed).min(i64::from(i32::MAX)) as i32
    }
}

/// A process's list of its timers. All methods are called with the process's lock held.
#[derive(Default)]
pub struct List(AtomicUsize);

impl List {
    /// Puts a timer first.
    #[inline]
    pub fn push(&self, timer: &Timer) {
        let first = self.0.load(Relaxed);
        timer.list_next.store(first, Relaxed);
        timer.list_before.store(0, Relaxed);
        if first != 0 {
            // SAFETY: the list holds timers of this sample's memory.
            unsafe { Timer::at(first) }.list_before.store(timer.address(), Relaxed);
        }
        self.0.store(timer.address(), Relaxed);
    }

    /// The number of timers in the list.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        // SAFETY: the list holds timers of this sample's memory.
        let next = |link: &usize| Some(unsafe { Timer::at(*link) }.list_next.load(Relaxed)).filter(|link| *link != 0);
        std::iter::successors(Some(self.0.load(Relaxed)).filter(|link| *link != 0), next).count()
    }

    /// Removes a timer that is in the list.
    #[inline]
    pub fn remove(&self, timer: &Timer) {
        let (before, next) = (timer.list_before.load(Relaxed), timer.list_next.load(Relaxed));
        match before {
            0 => self.0.store(next, Relaxed),
            // SAFETY: the list holds timers of this sample's memory.
            before => unsafe { Timer::at(before) }.list_next.store(next, Relaxed),
        }
        if next != 0 {
            // SAFETY: the list holds timers of this sample's memory.
            unsafe { Timer::at(next) }.list_before.store(before, Relaxed);
        }
    }
}

/// The memory of all timers of a sample. It stays valid until the sample ends, because look-ups without a lock need it.
///
/// The kernel's allocator keeps slabs, with free objects of each CPU that are taken without a lock. This memory does
/// the same: a thread keeps the timers that it frees, and asks for a slab when it has none. Asking the general
/// allocator for each timer would take longer.
#[derive(Default)]
pub struct Memory {
    slabs: Mutex<Vec<NonNull<Timer>>>,
}

/// The size that the kernel gives its slabs.
const SLAB: Layout = match Layout::array::<Timer>(SLAB_TIMERS) {
    Ok(layout) => layout,
    Err(_) => panic!("a slab fits into memory"),
};
const SLAB_TIMERS: usize = 32 * 1024 / size_of::<Timer>();

impl Memory {
    fn slab(&self) -> NonNull<Timer> {
        // SAFETY: the layout is not empty.
        let slab = unsafe { alloc_zeroed(SLAB) }.cast::<Timer>();
        let Some(slab) = NonNull::new(slab) else { handle_alloc_error(SLAB) };
        slab.as_ptr().expose_provenance();
        #[cfg(feature = "sim")]
        crate::names::timers(slab.as_ptr().addr(), SLAB_TIMERS);
        self.slabs.lock().unwrap_or_else(PoisonError::into_inner).push(slab);
        slab
    }
}

// SAFETY: the pointers own the slabs, which are freed only with the whole, when no other thread uses it.
unsafe impl Send for Memory {}
// SAFETY: the list of slabs is behind a lock.
unsafe impl Sync for Memory {}

impl Drop for Memory {
    fn drop(&mut self) {
        for slab in self.slabs.get_mut().unwrap_or_else(PoisonError::into_inner) {
            // SAFETY: the slab was allocated with this layout, and links to its timers end with this sample.
            unsafe { dealloc(slab.as_ptr().cast(), SLAB) };
        }
    }
}

/// Free timers of one thread.
#[derive(Default)]
pub struct FreeTimers {
    /// The address of the first freed timer, which links to the next; the most recently freed is first. 0 if there is
    /// none.
    freed: usize,
    /// The timers of the last slab that were never used: the address of the first one, and their number.
    fresh: (usize, usize),
}

impl FreeTimers {
    /// Takes a timer for the calling thread alone.
    #[inline]
    pub fn take<'a>(&mut self, memory: &'a Memory) -> &'a Timer {
        if self.freed != 0 {
            // SAFETY: timers that were freed here came from this memory.
            let timer = unsafe { Timer::at(self.freed) };
            self.freed = timer.free.load(Relaxed);
            return timer;
        }
        if self.fresh.1 == 0 {
            self.fresh = (memory.slab().as_ptr().addr(), SLAB_TIMERS);
        }
        let address = self.fresh.0;
        self.fresh = (address + size_of::<Timer>(), self.fresh.1 - 1);
        // SAFETY: it is in the slab, where all zeroes are a valid timer.
        unsafe { Timer::at(address) }
    }

    /// Frees a timer. Its links stay, for look-ups that still read them.
    #[inline]
    pub fn put(&mut self, timer: &Timer) {
        timer.owner.store(0, Release);
        timer.free.store(self.freed, Relaxed);
        self.freed = timer.address();
    }
}
