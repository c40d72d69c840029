//! Futex calls of a handler that this library has not seen being installed, and that interrupts its thread inside the
//! engine.
//!
//! The program may install a handler by the instruction, which is not seen without `--trap`. Such a handler runs wherever
//! its thread is, also where the thread holds a bucket that the handler's call needs. So a call that wakes or requeues is
//! made when the thread leaves the engine, and its result is 0: nobody woken so far. A call that waits ends at once, as
//! if it had been woken without a cause. If it has a timeout, the kernel makes it, which compares the word and ends it in
//! time.
//!
//! While the thread sleeps it holds nothing, and a handler's calls are made at once.

use core::cell::UnsafeCell;
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering, compiler_fence};

use crate::calls::{self, Route, SYS_FUTEX_WAIT, SYS_FUTEX_WAKE};
use crate::engine::{self, Inside};
use crate::gate::{self, Gate};
use crate::process::process;
use crate::raw;

/// A place for a call that is made later. All zeroes at first.
pub struct Late {
    /// The gate of the thread that has the place. Null if it is free. [`MAKING`] while its call is read.
    gate: AtomicPtr<Gate>,
    /// The call's number and arguments. Accessed by the thread that has the place.
    call: UnsafeCell<(i64, [u64; 6])>,
}

const WAKE: u32 = (libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG) as u32;
const WAKE_BITSET: u32 = (libc::FUTEX_WAKE_BITSET | libc::FUTEX_PRIVATE_FLAG) as u32;

/// The gate of a place whose thread is about to make the call. No handler adds to that call any more.
const MAKING: *mut Gate = ptr::without_provenance_mut(1);

/// The places of a process. All zeroes at first.
pub struct Places {
    first: [Late; AT_FIRST],
    /// More, each page with as many as it has room for. Null until a handler needs one.
    more: AtomicPtr<Page>,
}

/// The number of places that take no memory of their own.
const AT_FIRST: usize = 16;

#[repr(C)]
struct Page {
    places: [Late; PAGE / size_of::<Late>() - 1],
    next: AtomicPtr<Page>,
}

const PAGE: usize = 4096;
const _: () = assert!(size_of::<Page>() <= PAGE);

impl Places {
    fn all(&'static self) -> impl Iterator<Item = &'static Late> {
        // [Pj]: a page that is found is all zeroes, or in use.
        // SAFETY: pages are never unmapped.
        let page = |at: &'static AtomicPtr<Page>| unsafe { at.load(Ordering::Acquire).as_ref() };
        let pages = core::iter::successors(page(&self.more), move |before| page(&before.next));
        self.first.iter().chain(pages.flat_map(|page| &page.places))
    }

    /// Makes more places. Returns `false` if there is no memory.
    fn add(&'static self) -> bool {
        let Some(at) = raw::map(PAGE) else { return false };
        let page = ptr::with_exposed_provenance_mut::<Page>(at as usize);
        let mut first = self.more.load(Ordering::Acquire); // [Pj]
        loop {
            // SAFETY: new memory, whose zeroes are places that are free.
            unsafe { (*page).next.store(first, Ordering::Relaxed) };
            // [Pj]
            match self.more.compare_exchange(first, page, Ordering::Release, Ordering::Acquire) {
                Ok(_) => return true,
                Err(now) => first = now,
            }
        }
    }
}

/// What a futex call does that a handler makes while its thread is inside.
pub enum Instead {
    /// It returns this.
    Return(i64),
    /// The kernel makes it.
    Kernel,
}

/// Notes a call, or says what it does at once.
///
/// # Safety
/// The gate is the calling thread's own, and busy.
#[cold]
pub unsafe fn call(gate: *mut Gate, number: i64, args: [u64; 6]) -> Instead {
    match calls::route_of(number, &args) {
        Route::Ours(_, _, false) => {}
        Route::Ours(..) => {
            let has_timeout = args[if number == SYS_FUTEX_WAIT { 4 } else { 3 }] != 0;
            return if has_timeout { Instead::Kernel } else { Instead::Return(0) };
        }
        _ => return Instead::Kernel,
    }
    // Another such handler must not interrupt this.
    let mask = gate::block_all();
    // SAFETY: as the caller guarantees.
    unsafe { note(gate, number, args) };
    gate::set_mask(mask);
    Instead::Return(0)
}

/// # Safety
/// As for [`call`].
unsafe fn note(gate: *mut Gate, number: i64, args: [u64; 6]) {
    let Some(places) = process().map(|process| &process.late) else { return };
    // The thread may be interrupted often at one place. A place for each call would take much memory.
    let mut mine = places.all().filter(|place| place.gate.load(Ordering::Relaxed) == gate);
    // SAFETY: this thread has the place.
    if mine.any(|place| add(unsafe { &mut *place.call.get() }, number, &args)) {
        return;
    }
    let take = |place: &&Late| {
        // [Pj]
        place.gate.compare_exchange(ptr::null_mut(), gate, Ordering::Acquire, Ordering::Relaxed).is_ok()
    };
    let place = loop {
        if let Some(place) = places.all().find(take) {
            break place;
        }
        if !places.add() {
            raw::die(&["no memory for the wakes of signal handlers that were installed by an instruction"]);
        }
    };
    // SAFETY: this thread has taken the place. The gate is as the caller guarantees.
    unsafe {
        *place.call.get() = (number, args);
        Gate::note_late(gate);
    }
}

/// Adds a wake to a noted one of the same waiters. Returns `false` if it is another call.
fn add((noted, theirs): &mut (i64, [u64; 6]), number: i64, args: &[u64; 6]) -> bool {
    // What says which waiters: the address, and the bitset where it stands.
    let waiters = |args: &[u64; 6]| match (number, args[1] as u32) {
        (libc::SYS_futex, WAKE) => Some([args[0], u64::from(u32::MAX)]),
        (libc::SYS_futex, WAKE_BITSET) => Some([args[0], args[5] as u32 as u64]),
        (SYS_FUTEX_WAKE, _) => Some([args[0], args[1]]),
        _ => None,
    };
    let is_same = *noted == number && waiters(args).is_some_and(|these| waiters(theirs) == Some(these));
    if is_same {
        let [before, more] = [theirs[2], args[2]].map(|count| (count as i32).max(1));
        theirs[2] = before.saturating_add(more) as u64;
    }
    is_same
}

/// Makes the calls that handlers of the calling thread have left.
///
/// # Safety
/// The gate is the calling thread's own. The thread is inside, and holds nothing.
#[inline(never)] // because of its clean-ups: signals interrupt its caller (see `signals::decide`)
pub unsafe fn make(gate: *mut Gate) {
    let Some(places) = process().map(|process| &process.late) else { return };
    for place in places.all().filter(|place| place.gate.load(Ordering::Relaxed) == gate) {
        // A handler that interrupts this thread from here on takes another place. If it added to this call after the call
        // has been read, its wake would be lost.
        place.gate.store(MAKING, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst); // [Ph]: the call is not read before
        // SAFETY: this thread has the place.
        let (number, args) = unsafe { *place.call.get() };
        place.gate.store(ptr::null_mut(), Ordering::Release); // [Pj]
        if let Route::Ours(number, _, may_sleep) = calls::route_of(number, &args) {
            engine::call(number, args, may_sleep, &Inside { gate, mask: ptr::null() });
        }
    }
}
