//! One timer, and the chunks that timers lie in. The memory stays a timer until its process's table is freed.
//!
//! Timers are found without a lock, so the memory behind a pointer may have become another timer. The timer's `word` says which
//! one it is, and changes with the timer's lock held: after a look-up the timer is locked and its word checked again.
//!
//! Look-ups read a quarter of a timer. These quarters lie side by side, two to a cache line, so that a CPU's cache holds more.

use alloc::alloc::{Layout, alloc, dealloc};
use core::cell;
use core::mem::{MaybeUninit, offset_of};
use core::ptr::{self, NonNull};

use super::expire::shown_overrun;
use super::{CpuClock, Notify, TimerClock};
use crate::expiry::Base;
use crate::expiry::wheel::WheelNode;
use crate::lock::{LIVE, StateLock};
use crate::sync::{AtomicPtr, AtomicU64, Made, Ordering, UnsafeCell};
use crate::sys::platform::PlatformRef;

/// The bit above the ID in a timer's word: the timer can be found.
const VALID: u32 = 1 << 31;

/// The hot part of a timer, which look-ups read.
#[repr(C, align(32))]
pub struct Timer {
    /// Upper half: `VALID` and the ID. Lower half: the overrun of the last signal.
    word: AtomicU64,
    /// In the chain of the slot; written with the lock of the slot's group held.
    pub next: AtomicPtr<Timer>,
    lock: StateLock,
    cold: NonNull<ColdPart>,
    pub made: Made,
}

#[repr(C, align(32))]
struct ColdPart {
    /// First field: a queue knows only the node's address. Belongs to the queue's lock or, if the timer is free, to its shard.
    node: cell::UnsafeCell<WheelNode>,
    /// Belongs to the timer's lock. Before the first `fill` only its `number` is valid.
    state: UnsafeCell<MaybeUninit<State>>,
}

// SAFETY: each field is atomic or belongs to a lock.
unsafe impl Sync for Timer {}
// SAFETY: as for `Sync`.
unsafe impl Send for Timer {}

const _: () = assert!(usize::BITS != 64 || size_of::<Timer>() == 32 && size_of::<ColdPart>() == 96);

/// Before the timer can be found, this belongs to the thread that makes it.
pub struct State {
    /// In nanoseconds. 0 means that the timer expires once.
    pub interval: u64,
    /// On the clock of `base`, or in CPU time.
    pub deadline: u64,
    /// The intervals that have passed since the last signal; -1 before the first.
    pub overrun: i64,
    pub value: u64,
    pub cpu_seen: u64,
    pub clock: TimerClock,
    /// The thread that gets the signal; `None` for the process.
    pub thread: Option<i32>,
    /// Changes when the timer is armed or disarmed or its notice taken. Voids older expiries and notices; never starts anew.
    pub number: u32,
    /// 0 if the timer notifies nobody.
    pub signal: u8,
    /// Whether the timer is in a queue, or has left it to expire.
    pub is_armed: bool,
    pub base: Base,
    /// The process or thread whose CPU time counts has ended. Final, because its number may be another's by now.
    pub is_orphan: bool,
}

impl State {
    /// Makes expiries and notices that are on their way void.
    pub fn renumber(&mut self) -> u32 {
        self.number = self.number.wrapping_add(1);
        self.number
    }

    /// As [`Timers::disarm`](super::Timers::disarm), but leaves the timer in its queue, and returns that queue's clock.
    #[inline(always)]
    pub fn stand_down(&mut self) -> Option<Base> {
        self.renumber();
        core::mem::take(&mut self.is_armed).then_some(self.base)
    }

    pub fn is_silent(&self) -> bool {
        self.signal == 0
    }

    pub fn notify(&self) -> Notify {
        let (signal, value) = (self.signal.into(), self.value);
        match self.thread {
            _ if self.is_silent() => Notify::None,
            None => Notify::Signal { signal, value },
            Some(thread) => Notify::Thread { signal, value, thread },
        }
    }

    pub fn cpu_clock(&self) -> Option<CpuClock> {
        if let TimerClock::Cpu(clock) = self.clock { Some(clock) } else { None }
    }
}

impl Timer {
    #[inline(always)]
    pub fn node(&self) -> *mut WheelNode {
        self.cold.as_ptr().cast()
    }

    #[inline(always)]
    fn state(&self) -> &UnsafeCell<MaybeUninit<State>> {
        // SAFETY: the cold part is in the same chunk.
        unsafe { &(*self.cold.as_ptr()).state }
    }

    /// The overrun of the last signal, if the timer can be found as `id`.
    #[inline(always)]
    pub fn overrun_of(&self, id: u32) -> Option<i32> {
        self.made.see();
        let word = self.word.load(Ordering::Acquire); // [Q]
        ((word >> 32) as u32 == id | VALID).then_some(word as u32 as i32)
    }

    /// A timer that is being made has its ID already.
    pub fn id(&self) -> u32 {
        (self.word.load(Ordering::Relaxed) >> 32) as u32 & !VALID
    }

    pub fn is_valid(&self) -> bool {
        self.word.load(Ordering::Acquire) >> 63 != 0 // [Q]
    }

    /// Gives the timer its ID. It cannot be found from here on.
    pub fn invalidate_as(&self, id: u32) {
        self.word.store(u64::from(id) << 32, Ordering::Relaxed);
    }

    /// Makes the timer valid: it can be found from here on, with `overrun` as that of its last signal.
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

    /// Writes the state of a new timer. `signal` is 0 if it notifies nobody.
    ///
    /// # Safety
    /// The timer belongs to the caller alone: it was free and has not been published.
    #[inline(always)]
    pub unsafe fn fill(&self, clock: TimerClock, signal: u8, value: u64, thread: Option<i32>) {
        self.state().with_mut(|state| {
            let state = state.cast::<State>();
            // SAFETY: threads with stale pointers read the state of valid timers only. The number is valid from the beginning.
            unsafe {
                let number = (&raw const (*state).number).read();
                state.write(State {
                    interval: 0,
                    deadline: 0,
                    overrun: -1,
                    value,
                    cpu_seen: 0,
                    clock,
                    thread,
                    number,
                    signal,
                    is_armed: false,
                    base: Base::Monotonic,
                    is_orphan: false,
                });
            }
        });
    }
}

pub struct LockedTimer<'t>(&'t Timer, &'t PlatformRef);

impl<'t> LockedTimer<'t> {
    pub fn timer(&self) -> &'t Timer {
        self.0
    }

    pub fn with<R>(&mut self, f: impl FnOnce(&mut State) -> R) -> R {
        // SAFETY: this guard holds the lock, and `&mut self` rules out a second reference. A valid timer has its state.
        self.0.state().with_mut(|state| f(unsafe { (*state).assume_init_mut() }))
    }
}

impl Drop for LockedTimer<'_> {
    #[inline]
    fn drop(&mut self) {
        // No yield after it: the thread may hold a queue too.
        self.0.lock.unlock(self.1, LIVE);
    }
}

pub const TIMERS: usize = 63;

/// Memory of timers: the hot parts side by side, then the cold parts.
#[repr(C, align(64))]
pub struct Chunk {
    pub next: *mut Chunk,
    memory: NonNull<u8>,
    timers: [Timer; TIMERS],
    cold_parts: [ColdPart; TIMERS],
}

/// A chunk begins at the first cache line in what is allocated: allocators take longer to align memory.
const LAYOUT: Layout = {
    const ALIGN: usize = 2 * size_of::<usize>();
    match Layout::from_size_align(size_of::<Chunk>() + align_of::<Chunk>() - ALIGN, ALIGN) {
        Ok(layout) => layout,
        Err(_) => panic!("a chunk fits into memory"),
    }
};

const _: () = assert!(usize::BITS != 64 || LAYOUT.size() == 8176);

impl Chunk {
    pub const BYTES: usize = LAYOUT.size();

    /// The timers cannot be found yet. `None` if there is no memory.
    pub fn make() -> Option<NonNull<Self>> {
        // SAFETY: the size of the layout is not zero.
        let memory = NonNull::new(unsafe { alloc(LAYOUT) })?;
        // SAFETY: within the new memory, which has room for a chunk. Cold parts are written by fields, without a call.
        unsafe {
            let chunk = memory.byte_add(memory.align_offset(align_of::<Self>())).cast::<Self>();
            (&raw mut (*chunk.as_ptr()).next).write(ptr::null_mut());
            (&raw mut (*chunk.as_ptr()).memory).write(memory);
            let cold = |index| chunk.byte_add(offset_of!(Self, cold_parts)).cast::<ColdPart>().add(index);
            // In memory order, in which a CPU fetches ahead.
            for index in 0..TIMERS {
                let (word, next) = (AtomicU64::new(0), AtomicPtr::new(ptr::null_mut()));
                let lock = StateLock::new(LIVE);
                Self::timer(chunk, index).write(Timer { word, next, lock, cold: cold(index), made: Made::new() });
            }
            for index in 0..TIMERS {
                let this = cold(index).as_ptr();
                let mut node = WheelNode::new();
                node.index = index as u16;
                (&raw mut (*this).node).write(cell::UnsafeCell::new(node));
                (*this).state.with_mut(|state| (&raw mut (*state.cast::<State>()).number).write(0));
            }
            Some(chunk)
        }
    }

    /// # Safety
    /// [`make`](Self::make) made the chunk, and no thread uses its timers any more.
    pub unsafe fn free(chunk: NonNull<Self>) {
        // SAFETY: the caller guarantees it.
        unsafe {
            let memory = (*chunk.as_ptr()).memory;
            chunk.drop_in_place();
            dealloc(memory.as_ptr(), LAYOUT);
        }
    }

    /// # Safety
    /// The index is less than `TIMERS`.
    pub unsafe fn timer(chunk: NonNull<Self>, index: usize) -> NonNull<Timer> {
        // SAFETY: within the chunk.
        unsafe { chunk.byte_add(offset_of!(Self, timers)).cast::<Timer>().add(index) }
    }

    /// # Safety
    /// `node` is the node of a timer, and the pointer comes from it.
    pub unsafe fn timer_of(node: *mut WheelNode) -> NonNull<Timer> {
        // SAFETY: the node is its cold part's first field, and has the timer's index. The pointer is good for the whole chunk.
        unsafe {
            let index = usize::from((*node).index);
            let cold = NonNull::new_unchecked(node).cast::<ColdPart>();
            Self::timer(cold.sub(index).byte_sub(offset_of!(Self, cold_parts)).cast(), index)
        }
    }
}
