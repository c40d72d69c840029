//! Seats: the word on which a thread of the program sleeps, in memory that is never used for anything else. A waker may
//! come late, when the thread has continued long ago. Its wake is then only a spurious one for the thread that has the
//! seat by then.

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::pin::Pin;
use core::ptr;
use core::sync::atomic::{AtomicU32, Ordering};
use core::task::{RawWaker, RawWakerVTable, Waker};

use crate::process::{SpinLock, process};
use crate::{profile, raw};

const WAIT_BITSET: u64 = (libc::FUTEX_WAIT_BITSET | libc::FUTEX_PRIVATE_FLAG) as u64;
const WAKE: u64 = (libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG) as u64;

/// The word, and room for the future of the call that sleeps. The seats of all threads are next to each other, so a
/// thread that wakes or moves many of them touches few pages. On the threads' stacks each would be on a page of its
/// own.
#[repr(C, align(64))]
pub struct Seat {
    /// `NOTIFIED` if the sleeper has been notified and has not seen it yet, `SPINNING` while it watches the word.
    word: AtomicU32,
    /// In a free seat: the next free seat. Guarded by the shard's lock.
    next: UnsafeCell<*mut Seat>,
    /// The future of the thread that has taken the seat.
    room: UnsafeCell<MaybeUninit<[u64; ROOM]>>,
}

/// The size of the largest future, in words of 64 bits, rounded up to the end of a cache line.
const ROOM: usize = 62;

const SHARDS: usize = 8;

/// All zeroes at first.
pub struct Seats([Shard; SHARDS]);

#[repr(C, align(64))]
struct Shard {
    lock: SpinLock,
    /// Guarded by `lock`.
    free: UnsafeCell<*mut Seat>,
}

/// A seat that a thread has taken. Dropping this frees the seat.
pub struct Taken {
    shard: &'static Shard,
    pub seat: &'static Seat,
}

impl Taken {
    /// Keeps `value` in the seat.
    pub fn put<T>(&self, value: T) -> Seated<'_, T> {
        const { assert!(size_of::<T>() <= size_of::<[u64; ROOM]>() && align_of::<T>() <= align_of::<u64>()) };
        let place = self.seat.room.get().cast::<T>();
        // SAFETY: large enough, aligned, and used only by the thread that has taken the seat.
        unsafe { place.write(value) };
        Seated { place, _seat: self }
    }
}

/// A value in a seat. It is dropped before the seat becomes free.
pub struct Seated<'s, T> {
    place: *mut T,
    _seat: &'s Taken,
}

impl<T> Seated<'_, T> {
    pub fn pin(&mut self) -> Pin<&mut T> {
        // SAFETY: written by `put`; it stays in its place until it is dropped there.
        unsafe { Pin::new_unchecked(&mut *self.place) }
    }
}

impl<T> Drop for Seated<'_, T> {
    fn drop(&mut self) {
        // SAFETY: written by `put`, and dropped only here.
        unsafe { self.place.drop_in_place() };
    }
}

impl Seats {
    /// Takes a free seat. `None` if there is no memory for one.
    pub fn take(&'static self) -> Option<Taken> {
        let here = 0u8;
        let mixed = (ptr::from_ref(&here).addr() as u64 >> 12).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let shard = &self.0[mixed as usize % SHARDS];
        let _locked = shard.lock.lock();
        let free = shard.free.get();
        // SAFETY: guarded by the lock that we hold; the memory of seats is never freed.
        unsafe {
            if (*free).is_null() {
                *free = more()?;
            }
            let seat = &**free;
            *free = *seat.next.get();
            seat.word.store(0, Ordering::Relaxed);
            Some(Taken { shard, seat })
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let _locked = self.shard.lock.lock();
        // SAFETY: guarded by the lock that we hold; this thread has the seat.
        unsafe {
            *self.seat.next.get() = *self.shard.free.get();
            *self.shard.free.get() = ptr::from_ref(self.seat).cast_mut();
        }
    }
}

/// Makes some pages of seats, as a list of free seats.
fn more() -> Option<*mut Seat> {
    const BYTES: usize = 1 << 16;
    let first = ptr::with_exposed_provenance_mut::<Seat>(raw::map(BYTES)? as usize);
    let count = BYTES / size_of::<Seat>();
    for i in 0..count - 1 {
        // SAFETY: within the mapping, which no other thread knows yet; a zeroed seat is valid.
        unsafe { *(*first.add(i)).next.get() = first.add(i + 1) };
    }
    Some(first)
}

const NOTIFIED: u32 = 1;
const SPINNING: u32 = 2;

impl Seat {
    /// Whether the sleeper has been notified. Resets that. The sleeper may sleep then: nobody takes it to be spinning.
    pub fn was_notified(&self) -> bool {
        // [Pc]: Acquire pairs with the Release of `notify`.
        self.word.load(Ordering::Relaxed) != 0 && self.word.swap(0, Ordering::Acquire) == NOTIFIED
    }

    /// For a sleeper that spins: whether it has been notified. From now on a waker makes no system call, until the sleeper calls
    /// [`was_notified`](Self::was_notified), as it does before it sleeps.
    pub fn watch(&self) -> bool {
        // [Pc]: of the exchange here and the one of a waker one is first. Relaxed: `was_notified` follows.
        let word = self.word.load(Ordering::Relaxed);
        word == NOTIFIED
            || word == 0
                && self.word.compare_exchange(0, SPINNING, Ordering::Relaxed, Ordering::Relaxed) == Err(NOTIFIED)
    }

    /// futex(2)'s arguments for a sleep at this seat, until `deadline`, the address of a `timespec`, or 0.
    pub fn sleep_call(&self, deadline: u64, is_realtime: bool) -> [u64; 6] {
        let clock = if is_realtime { libc::FUTEX_CLOCK_REALTIME as u64 } else { 0 };
        [self.word.as_ptr() as u64, WAIT_BITSET | clock, 0, deadline, raw::COOKIE, u32::MAX.into()]
    }

    /// The address of the word, which is 0 until the sleeper is notified.
    pub fn address(&self) -> u64 {
        self.word.as_ptr() as u64
    }

    fn notify(&self) {
        profile::wakes(self.address());
        // [Pc]: no store, which would hide what another waker has stored.
        if self.word.swap(NOTIFIED, Ordering::Release) == SPINNING {
            return;
        }
        // SAFETY: a private wake touches no memory.
        unsafe { raw::syscall6(libc::SYS_futex, [self.word.as_ptr() as u64, WAKE, 1, 0, raw::COOKIE, 0]) };
    }

    /// A waker that notifies the sleeper, at any time and from any thread.
    pub fn waker(&'static self) -> Waker {
        // SAFETY: the functions take the address of a seat, which stays a seat for ever, and need not drop anything.
        unsafe { Waker::from_raw(raw_waker(self)) }
    }
}

fn raw_waker(seat: *const Seat) -> RawWaker {
    const WAKER: RawWakerVTable = RawWakerVTable::new(|seat| raw_waker(seat.cast()), notify, notify, |_| ());
    RawWaker::new(seat.cast(), &WAKER)
}

/// # Safety
/// `seat` must be the address of a seat.
unsafe fn notify(seat: *const ()) {
    // SAFETY: the caller guarantees it.
    unsafe { (*seat.cast::<Seat>()).notify() };
}

/// The seats of this process.
pub fn seats() -> Option<&'static Seats> {
    process().map(|process| &process.seats)
}
