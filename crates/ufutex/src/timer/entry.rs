//! One timer: memory that is a timer from when it is first made to when its process's table goes.
//!
//! Timers are found without a lock, so whoever holds a pointer to one may find that it has become another meanwhile. Its
//! `word` says which one it is. It changes with the timer's lock held; what has been looked up is locked and then looked at
//! again.

use core::cell;
use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};

use super::expire::told;
use super::{CpuClock, Notify, TimerClock};
use crate::expiry::Base;
use crate::expiry::wheel::Node;
use crate::sync::{AtomicPtr, AtomicU64, MODEL, Made, Mutant, Ordering, UnsafeCell, relaxed_in};
use crate::table::lock::{LIVE, StateLock};

/// Set in the upper half of a timer's word, over its ID, while the timer can be found.
const VALID: u32 = 1 << 31;

/// See the top of this file. What a look-up touches; the rest lies elsewhere in its chunk.
#[repr(C)]
pub struct Timer {
    /// Upper half: `VALID` and the ID. Lower half: the overrun of the last signal.
    word: AtomicU64,
    /// The next one of the same slot; written with the slot's lock.
    pub next: AtomicPtr<Timer>,
    lock: StateLock,
    rest: NonNull<Rest>,
    pub made: Made,
}

/// The rest of a timer.
#[repr(C, align(32))]
pub struct Rest {
    /// First: its queue has its address alone. Belongs to the queue's lock; while the timer is free, to that of its list.
    node: cell::UnsafeCell<Node>,
    /// Belongs to the timer's lock. Written when the timer is first made what it is to be, but for its `number`.
    state: UnsafeCell<MaybeUninit<State>>,
}

// SAFETY: each field is atomic or belongs to a lock, as it says.
unsafe impl Sync for Timer {}
// SAFETY: as above.
unsafe impl Send for Timer {}

#[cfg(not(any(feature = "loom", feature = "shuttle")))]
const _: () = assert!(size_of::<Timer>() == 32 && size_of::<Rest>() == 96);

/// What becomes of a timer when its time comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Status {
    /// Nothing: it was never set, was disarmed, or has expired for good. Or it tells nobody.
    Disarmed,
    /// It stands in a queue.
    Armed,
    /// It has expired, and goes on when its notice is taken.
    Pending,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    None,
    Signal,
    Thread,
}

/// What belongs to the timer's lock, and to its maker before it can be found.
pub struct State {
    /// Nanoseconds; 0: once.
    pub interval: u64,
    /// On the clock of `base`, or of CPU time.
    pub deadline: u64,
    /// Intervals that have passed since the last signal, and -1 before the first.
    pub overrun: i64,
    /// What a signal carries.
    pub value: u64,
    /// The CPU time that was last seen.
    pub cpu_seen: u64,
    pub clock: TimerClock,
    pub thread: i32,
    /// Another one whenever this has been armed or disarmed or its notice taken: tells expiries and notices that come too
    /// late. It goes on whatever timer this is.
    pub number: u32,
    pub signal: u8,
    pub kind: Kind,
    pub status: Status,
    /// The clock that `deadline` is on.
    pub base: Base,
}

impl State {
    /// Of a timer that is not set.
    #[inline(always)]
    fn new(clock: TimerClock, notify: Notify, number: u32) -> Self {
        // A signal's number is at most 64, as has been checked.
        let (kind, signal, value, thread) = match notify {
            Notify::None => (Kind::None, 0, 0, 0),
            Notify::Signal { signal, value } => (Kind::Signal, signal as u8, value, 0),
            Notify::Thread { signal, value, thread } => (Kind::Thread, signal as u8, value, thread),
        };
        Self {
            interval: 0,
            deadline: 0,
            overrun: -1,
            value,
            cpu_seen: 0,
            clock,
            thread,
            number,
            signal,
            kind,
            status: Status::Disarmed,
            base: Base::Monotonic,
        }
    }

    /// What is on its way comes too late.
    pub fn renumber(&mut self) -> u32 {
        self.number = self.number.wrapping_add(1);
        self.number
    }

    pub fn notify(&self) -> Notify {
        let (signal, value) = (self.signal.into(), self.value);
        match self.kind {
            Kind::None => Notify::None,
            Kind::Signal => Notify::Signal { signal, value },
            Kind::Thread => Notify::Thread { signal, value, thread: self.thread },
        }
    }

    /// The clock of CPU time that it runs by, if it does.
    pub fn cpu_clock(&self) -> Option<CpuClock> {
        if let TimerClock::Cpu(clock) = self.clock { Some(clock) } else { None }
    }
}

impl Timer {
    /// A timer that nobody can find.
    pub fn new(rest: NonNull<Rest>) -> Self {
        let (word, next) = (AtomicU64::new(0), AtomicPtr::new(ptr::null_mut()));
        Self { word, next, lock: StateLock::new(LIVE), rest, made: Made::new() }
    }

    #[inline(always)]
    pub fn node(&self) -> *mut Node {
        self.rest.as_ptr().cast()
    }

    #[inline(always)]
    fn state(&self) -> &UnsafeCell<MaybeUninit<State>> {
        // SAFETY: it lies in the same chunk.
        unsafe { &(*self.rest.as_ptr()).state }
    }

    /// Whether the timer can be found as `id`, and then the overrun of its last signal.
    #[inline(always)]
    pub fn overrun_of(&self, id: u32) -> Option<i32> {
        self.made.see();
        let word = self.word.load(Ordering::Acquire); // [Q]
        ((word >> 32) as u32 == id | VALID).then_some(word as u32 as i32)
    }

    /// The ID that the timer has, or is to have.
    pub fn id(&self) -> u32 {
        (self.word.load(Ordering::Relaxed) >> 32) as u32 & !VALID
    }

    pub fn is_valid(&self) -> bool {
        self.word.load(Ordering::Acquire) >> 63 != 0 // [Q]
    }

    /// Names it, before it is in the table or while it is taken out: it cannot be found.
    pub fn reserve(&self, id: u32) {
        self.word.store(u64::from(id) << 32, Ordering::Relaxed);
    }

    /// It can be found from here on, with this overrun of its last signal.
    pub fn publish(&self, id: u32, overrun: i64) {
        let overrun = told(overrun) as u32;
        let order = relaxed_in(Mutant::TimerRelaxed, Ordering::Release); // [Q]
        self.word.store(u64::from(id | VALID) << 32 | u64::from(overrun), order);
    }

    /// Locks it, whichever timer it is.
    #[inline]
    pub fn lock(&self) -> Locked<'_> {
        self.lock.lock_live();
        Locked(self)
    }

    /// Makes of it what it is to be; it is not set yet.
    ///
    /// # Safety
    /// It is the caller's alone: taken from the free ones, and not published.
    #[inline(always)]
    pub unsafe fn fill(&self, clock: TimerClock, notify: Notify) {
        self.state().with_mut(|state| {
            // SAFETY: who comes by a stale pointer to it locks it and reads the word, but no state: it is not valid. The
            // number has been there since the timer was made.
            unsafe {
                let number = (&raw const (*state.cast::<State>()).number).read();
                state.cast::<State>().write(State::new(clock, notify, number));
            }
        });
    }
}

impl Rest {
    /// Makes the rest of the timer with this index in its chunk, which is free as `next` is; in place, and part by part,
    /// which is no call.
    ///
    /// # Safety
    /// `this` is valid for writes, and nobody else's.
    pub unsafe fn make(this: NonNull<Self>, index: u16, next: *mut Timer) {
        let this = this.as_ptr();
        // SAFETY: the caller guarantees it.
        unsafe {
            (&raw mut (*this).node).write(cell::UnsafeCell::new(Node::keeping(index, next)));
            if MODEL {
                // Elsewhere there is nothing to write.
                (&raw mut (*this).state).write(UnsafeCell::new(MaybeUninit::uninit()));
            }
            (*this).state.with_mut(|state| (&raw mut (*state.cast::<State>()).number).write(0));
        }
    }
}

/// A timer, locked.
pub struct Locked<'t>(&'t Timer);

impl<'t> Locked<'t> {
    pub fn timer(&self) -> &'t Timer {
        self.0
    }

    pub fn with<R>(&mut self, f: impl FnOnce(&mut State) -> R) -> R {
        // SAFETY: we hold the lock, and `&mut self` keeps a second reference away. A timer that has been found valid is
        // filled.
        self.0.state().with_mut(|state| f(unsafe { (*state).assume_init_mut() }))
    }
}

impl Drop for Locked<'_> {
    #[inline]
    fn drop(&mut self) {
        // Whoever holds it may hold a queue too, and so keeps its CPU.
        self.0.lock.unlock_and_stay(LIVE);
    }
}
