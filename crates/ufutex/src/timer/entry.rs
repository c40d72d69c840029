//! One timer: memory that stays a timer from when it is first made until its process's table is freed.
//!
//! Timers are found without a lock, so the memory that a pointer refers to may have become another timer meanwhile. The
//! timer's `word` says which timer it is. The word changes with the timer's lock held. After a look-up the timer is
//! locked and its word is checked again.

use core::cell;
use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};

use super::expire::shown_overrun;
use super::{CpuClock, Notify, TimerClock};
use crate::expiry::Base;
use crate::expiry::wheel::WheelNode;
use crate::lock::{LIVE, StateLock};
use crate::sync::{AtomicPtr, AtomicU64, Made, Ordering, UnsafeCell};
use crate::sys::platform::PlatformRef;

/// A bit of the upper half of a timer's word, above its ID. It is set while the timer can be found.
const VALID: u32 = 1 << 31;

/// The hot part of a timer, which look-ups read. The [`ColdPart`] is elsewhere in the chunk.
#[repr(C)]
pub struct Timer {
    /// Upper half: `VALID` and the ID. Lower half: the overrun of the last signal.
    word: AtomicU64,
    /// The next timer in the chain of the slot; written with the lock of the slot's group held.
    pub next: AtomicPtr<Timer>,
    lock: StateLock,
    cold: NonNull<ColdPart>,
    pub made: Made,
}

/// The cold part of a timer, which look-ups do not read.
#[repr(C, align(32))]
pub struct ColdPart {
    /// First field, because a timer's queue knows only the node's address. Belongs to the queue's lock or, while the
    /// timer is free, to the shard that has it.
    node: cell::UnsafeCell<WheelNode>,
    /// Belongs to the timer's lock. Only its `number` is valid from the beginning; the rest is first written by `fill`.
    state: UnsafeCell<MaybeUninit<State>>,
}

// SAFETY: each field is atomic or belongs to a lock, as its comment says.
unsafe impl Sync for Timer {}
// SAFETY: as for `Sync`.
unsafe impl Send for Timer {}

#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<Timer>() == 32 && size_of::<ColdPart>() == 96);

/// The state of a timer between settings and expiries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Status {
    /// The timer was never set, was disarmed, or has expired for good; or it is a timer that notifies nobody.
    Disarmed,
    /// The timer is in a queue.
    Armed,
    /// The timer has expired, and is armed again when its notice is taken.
    Pending,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    None,
    Signal,
    Thread,
}

/// Belongs to the timer's lock. Before the timer can be found, it belongs to the thread that makes the timer.
pub struct State {
    /// In nanoseconds. 0 means that the timer expires once.
    pub interval: u64,
    /// On the clock of `base`, or in CPU time.
    pub deadline: u64,
    /// The intervals that have passed since the last signal; -1 before the first.
    pub overrun: i64,
    /// The value that a signal carries.
    pub value: u64,
    /// The CPU time that was last seen.
    pub cpu_seen: u64,
    pub clock: TimerClock,
    pub thread: i32,
    /// Changes whenever the timer is armed or disarmed or its notice is taken, so that an expiry or a notice with an
    /// older number is void. It keeps counting when this memory becomes another timer.
    pub number: u32,
    pub signal: u8,
    pub kind: Kind,
    pub status: Status,
    /// The clock that `deadline` is on.
    pub base: Base,
    /// Whether the clock of CPU time has said that its process or thread has ended. Final: the number may be of another
    /// one by now.
    pub is_orphan: bool,
}

impl State {
    /// The state of a new timer, which is not set.
    #[inline(always)]
    fn new(clock: TimerClock, notify: Notify, number: u32) -> Self {
        // The signal's number has been checked: it is at most 64.
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
            is_orphan: false,
        }
    }

    /// Changes the number, which makes expiries and notices that are on their way void.
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

    /// The clock of CPU time that the timer runs by, if it runs by one.
    pub fn cpu_clock(&self) -> Option<CpuClock> {
        if let TimerClock::Cpu(clock) = self.clock { Some(clock) } else { None }
    }
}

impl Timer {
    /// Makes a timer that cannot be found yet.
    pub fn new(cold: NonNull<ColdPart>) -> Self {
        let (word, next) = (AtomicU64::new(0), AtomicPtr::new(ptr::null_mut()));
        Self { word, next, lock: StateLock::new(LIVE), cold, made: Made::new() }
    }

    #[inline(always)]
    pub fn node(&self) -> *mut WheelNode {
        self.cold.as_ptr().cast()
    }

    #[inline(always)]
    fn state(&self) -> &UnsafeCell<MaybeUninit<State>> {
        // SAFETY: the cold part is in the same chunk, so it is valid as long as the timer.
        unsafe { &(*self.cold.as_ptr()).state }
    }

    /// The overrun of the timer's last signal, if the timer can be found as `id`.
    #[inline(always)]
    pub fn overrun_of(&self, id: u32) -> Option<i32> {
        self.made.see();
        let word = self.word.load(Ordering::Acquire); // [Q]
        ((word >> 32) as u32 == id | VALID).then_some(word as u32 as i32)
    }

    /// The timer's ID. A timer that is being made has it already.
    pub fn id(&self) -> u32 {
        (self.word.load(Ordering::Relaxed) >> 32) as u32 & !VALID
    }

    pub fn is_valid(&self) -> bool {
        self.word.load(Ordering::Acquire) >> 63 != 0 // [Q]
    }

    /// Names the timer, and makes sure that it cannot be found: before it enters the table, or while it is taken out.
    pub fn invalidate_as(&self, id: u32) {
        self.word.store(u64::from(id) << 32, Ordering::Relaxed);
    }

    /// Makes the timer valid, with `overrun` as the overrun of its last signal. It can be found from here on.
    pub fn publish(&self, id: u32, overrun: i64) {
        let overrun = shown_overrun(overrun) as u32;
        self.word.store(u64::from(id | VALID) << 32 | u64::from(overrun), Ordering::Release); // [Q]
    }

    /// Locks the memory, whichever timer it is by now.
    #[inline]
    pub fn lock<'t>(&'t self, on: &'t PlatformRef) -> LockedTimer<'t> {
        self.lock.lock_live(on);
        LockedTimer(self, on)
    }

    /// Writes the state of a new timer, which is not set yet.
    ///
    /// # Safety
    /// The timer belongs to the caller alone: it was taken from the free timers and has not been published.
    #[inline(always)]
    pub unsafe fn fill(&self, clock: TimerClock, notify: Notify) {
        self.state().with_mut(|state| {
            // SAFETY: a thread with a stale pointer locks the timer and reads the word, but not the state, because the
            // timer is not valid. The number has been valid since the memory was made.
            unsafe {
                let number = (&raw const (*state.cast::<State>()).number).read();
                state.cast::<State>().write(State::new(clock, notify, number));
            }
        });
    }
}

impl ColdPart {
    /// Initializes, in place, the cold part of the timer with this index in its chunk. The timer is free, and `next` is
    /// the next one in the free list. The fields are written one by one, which compiles to no call.
    ///
    /// # Safety
    /// `this` is valid for writes, and belongs to the caller alone.
    pub unsafe fn make(this: NonNull<Self>, index: u16, next: *mut Timer) {
        let this = this.as_ptr();
        // SAFETY: the caller guarantees it.
        unsafe {
            (&raw mut (*this).node).write(cell::UnsafeCell::new(WheelNode::keeping(index, next)));
            (*this).state.with_mut(|state| (&raw mut (*state.cast::<State>()).number).write(0));
        }
    }
}

/// A locked timer. Unlocks when dropped.
pub struct LockedTimer<'t>(&'t Timer, &'t PlatformRef);

impl<'t> LockedTimer<'t> {
    pub fn timer(&self) -> &'t Timer {
        self.0
    }

    pub fn with<R>(&mut self, f: impl FnOnce(&mut State) -> R) -> R {
        // SAFETY: this guard holds the lock, and `&mut self` rules out a second reference. A timer that has been found
        // valid has its state.
        self.0.state().with_mut(|state| f(unsafe { (*state).assume_init_mut() }))
    }
}

impl Drop for LockedTimer<'_> {
    #[inline]
    fn drop(&mut self) {
        // The lock's holder may hold a queue too, so it keeps its CPU.
        self.0.lock.unlock_and_stay(self.1, LIVE);
    }
}
