//! Seats: memory for the waiters of sleeping threads, next to each other and not on the threads' stacks.
//!
//! The stacks of threads lie pages apart: a wake or requeue of a thousand waiters there would spend most of its time on address
//! translation. So a system keeps its threads' waiters together, in chunks that are freed when it is dropped. A thread takes
//! and gives back a seat under a shard's lock, which it holds for a few instructions.
//! Threads of all guests use the shards, and a holder may lose its CPU. So no thread waits for a shard. If it is locked, or
//! there is no memory for a chunk, the waiter lies on the stack. A seat whose shard is locked goes to a list of returned seats,
//! which the shard takes when it has no free seat. No seat moves to another shard, where no thread may need it.

use alloc::alloc::{Layout, alloc, dealloc};
use core::pin::Pin;
use core::ptr::{self, NonNull};

use super::domain::Domain;
use super::wait::WaitOptions;
use super::waiter::{Matched, Queued, Waiter};
use crate::error::Error;
use crate::lock::Lock;
use crate::signal::group::{Group, Members};
use crate::signal::{Receiver, Signal};
use crate::sync::{AtomicPtr, Ordering, thread_shard};
use crate::sys::clock::Deadline;
use crate::sys::lazy::Lazy;
use crate::sys::platform::PlatformRef;

/// Memory for a waiter, on two cache lines of its own, and what a free seat has there.
#[repr(align(128))]
struct Seat {
    next: *mut Self,
    /// The seat's group, and the bit with which a thread in this seat sleeps there.
    member: Members,
}

/// The unit in which seats are allocated: 4 KiB. Its threads sleep as members of one group.
#[repr(C)]
struct SeatChunk {
    // These two are on cache lines that no seat shares.
    group: Group,
    next: *mut SeatChunk,
    seats: [Seat; SEATS],
}

/// Number of seats in a chunk. A group has room for 32 members.
const SEATS: usize = 31;

const SHARDS: usize = 8;

/// The seats of a system, made for the first thread that sleeps.
pub(super) type Seats = Lazy<[SeatShard; SHARDS]>;

#[repr(align(64))]
pub(super) struct SeatShard {
    free: Lock<Free>,
    /// The seats that were given back while the shard was locked, linked as the free ones are. Null if there are none.
    returned: AtomicPtr<Seat>,
}

struct Free {
    first: *mut Seat,
    chunks: *mut SeatChunk,
}

// SAFETY: the pointers are to free seats and to the headers of chunks, which nothing else accesses.
unsafe impl Send for Free {}

impl Seats {
    /// A free seat of that shard. `None` if the shard is locked, or there is no memory.
    fn take(&self, on: PlatformRef, shard: usize) -> Option<TakenSeat<'_>> {
        let make = |_| SeatShard {
            free: Lock::new(on, Free { first: ptr::null_mut(), chunks: ptr::null_mut() }),
            returned: AtomicPtr::new(ptr::null_mut()),
        };
        let shard = &self.get_or_make(|| Ok(core::array::from_fn(make))).ok()?[shard];
        let (seat, member) = shard.free.try_lock()?.with(|free| free.take(&shard.returned))?;
        Some(TakenSeat { shard, seat, member })
    }
}

impl SeatShard {
    #[cold]
    fn give_back_behind_lock(&self, seat: NonNull<Seat>, member: Members) {
        let mut next = self.returned.load(Ordering::Relaxed);
        loop {
            // SAFETY: the caller has the seat, and does not use it any more.
            unsafe { seat.write(Seat { next, member }) };
            // Seats leave this list all at once, so if it begins with `next`, that seat has the rest behind it.
            match self.returned.compare_exchange(next, seat.as_ptr(), Ordering::Release, Ordering::Relaxed) {
                // [X]
                Ok(_) => return,
                Err(now) => next = now,
            }
        }
    }
}

impl Free {
    fn take(&mut self, returned: &AtomicPtr<Seat>) -> Option<(NonNull<Seat>, Members)> {
        if self.first.is_null() {
            self.first = returned.swap(ptr::null_mut(), Ordering::Acquire); // [X]
        }
        if self.first.is_null() {
            self.add_chunk()?;
        }
        let seat = NonNull::new(self.first)?;
        // SAFETY: a free seat, in a chunk of ours.
        let Seat { next, member } = unsafe { seat.read() };
        self.first = next;
        Some((seat, member))
    }

    fn give_back(&mut self, seat: NonNull<Seat>, member: Members) {
        // SAFETY: `take` returned this seat, and it is not used any more.
        unsafe { seat.write(Seat { next: self.first, member }) };
        self.first = seat.as_ptr();
    }

    #[cold]
    fn add_chunk(&mut self) -> Option<()> {
        // SAFETY: the size of a chunk is not zero.
        let chunk = NonNull::new(unsafe { alloc(Layout::new::<SeatChunk>()) })?.cast::<SeatChunk>().as_ptr();
        // SAFETY: new memory of that size. Each seat is written before it is free.
        unsafe {
            (&raw mut (*chunk).group).write(Group::new());
            (&raw mut (*chunk).next).write(self.chunks);
            self.chunks = chunk;
            let group = NonNull::new_unchecked(&raw mut (*chunk).group);
            let seats = (&raw mut (*chunk).seats).cast::<Seat>();
            // From the last to the first, so that `take` returns them in the order of their addresses.
            for i in (0..SEATS).rev() {
                self.give_back(NonNull::new_unchecked(seats.add(i)), Members::one(group, i as u32));
            }
        }
        Some(())
    }
}

impl Drop for Free {
    fn drop(&mut self) {
        while !self.chunks.is_null() {
            let chunk = self.chunks;
            // SAFETY: `add_chunk` allocated the chunk. The system is being dropped, so no seat is in use.
            unsafe {
                self.chunks = (*chunk).next;
                dealloc(chunk.cast(), Layout::new::<SeatChunk>());
            }
        }
    }
}

struct TakenSeat<'s> {
    shard: &'s SeatShard,
    seat: NonNull<Seat>,
    member: Members,
}

impl Drop for TakenSeat<'_> {
    fn drop(&mut self) {
        match self.shard.free.try_lock() {
            Some(mut free) => free.with(|free| free.give_back(self.seat, self.member)),
            None => self.shard.give_back_behind_lock(self.seat, self.member),
        }
    }
}

impl Domain {
    /// Queues the calling thread and sleeps, as a member of the seat's group, or on the word of its entry. Not inlined: a wait
    /// that ends before has no part in its stack frame.
    #[inline(never)]
    pub(super) fn block<'d>(
        &'d self,
        matched: Matched<'d>,
        options: &WaitOptions,
        deadline: Option<Deadline>,
    ) -> Result<(), Error> {
        let hash = matched.place.hash;
        let queue_and_sleep = |waiter: Pin<&Waiter<'d>>, member: Option<Members>| {
            let signal = Signal::new(member.map_or(Receiver::Thread(self.platform()), Receiver::Member));
            let queued = Queued::new(self.queue(matched, waiter, options, signal)?, deadline, Some(hash));
            queued.finish_in(member)
        };
        let Some(taken) = self.system.inner.seats.take(self.platform(), thread_shard(SHARDS)) else {
            return queue_and_sleep(core::pin::pin!(Waiter::new()).into_ref(), None);
        };
        let member = self.platform().wakes_by_bits().then_some(taken.member);
        // SAFETY: the seat is ours until `taken` is dropped, large enough, and aligned to two cache lines.
        let waiter = unsafe {
            let waiter = taken.seat.cast::<Waiter<'d>>();
            waiter.write(Waiter::new());
            Pin::new_unchecked(waiter.as_ref())
        };
        // Its `Queued` makes the waiter idle again, also by its drop. An idle waiter need not be dropped.
        queue_and_sleep(waiter, member)
    }
}

const _: () = assert!(size_of::<Seat>() == 128);
const _: () = assert!(size_of::<SeatChunk>() == 4096);
const _: () = assert!(size_of::<Waiter<'_>>() <= size_of::<Seat>());

#[cfg(test)]
mod tests {
    //! Promise: sleep in a group
    //! Promise: namespaces apart

    use super::*;
    use crate::futex::waiter::Queued;
    use crate::signal::{Receiver, Signal};
    use std::vec::Vec;

    /// Wakes a member until the thread has ended, as wakes of other members would.
    fn disturb<T>(member: Members, thread: &std::thread::ScopedJoinHandle<'_, T>, times: usize) {
        for _ in (0..times).take_while(|_| !thread.is_finished()) {
            member.wake();
            std::thread::sleep(core::time::Duration::from_micros(50));
        }
    }

    #[test]
    fn thread_does_not_sleep_in_a_group_that_keeps_it_awake() {
        let group = Group::new();
        // SAFETY: the group stays where it is until the thread has ended.
        let member = unsafe { Members::one(NonNull::from(&group), 3) };
        std::thread::scope(|scope| {
            let thread = scope.spawn(move || Signal::new(Receiver::Member(member)).sleep_in_group(member, None));
            disturb(member, &thread, usize::MAX);
            assert_eq!(thread.join().expect("it does not panic"), None);
        });
    }

    #[test]
    fn wake_finds_a_thread_that_has_left_its_group() {
        let domain = Domain::new(&crate::System::new());
        let (word, group) = (core::sync::atomic::AtomicU32::new(0), Group::new());
        // SAFETY: as above.
        let member = unsafe { Members::one(NonNull::from(&group), 0) };
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let waiter = core::pin::pin!(Waiter::new());
                let matched = domain.lock_if_equal(&&word, 0)?;
                let signal = Signal::new(Receiver::Member(member));
                let waiter = domain.queue(matched, waiter.into_ref(), &crate::WaitOptions::new(), signal)?;
                Queued::new(waiter, None, Some(0)).finish_in(Some(member))
            });
            disturb(member, &thread, 100);
            while domain.wake(&word, 1) == 0 {
                std::thread::yield_now();
            }
            assert_eq!(thread.join().expect("it does not panic"), Ok(()));
        });
    }

    #[test]
    fn seats_are_apart_and_used_again() {
        let seats = Seats::new();
        let take = || seats.take(PlatformRef::HOST, 3).expect("there is memory, and no other thread");
        let taken: Vec<_> = (0..100).map(|_| take()).collect();
        let mut addresses: Vec<_> = taken.iter().map(|taken| taken.seat.addr().get()).collect();
        addresses.sort_unstable();
        assert!(addresses.windows(2).all(|pair| pair[1] - pair[0] >= 128), "{addresses:x?}");
        drop(taken);
        let again: Vec<_> = (0..100).map(|_| take()).collect();
        let mut again: Vec<_> = again.iter().map(|taken| taken.seat.addr().get()).collect();
        again.sort_unstable();
        assert_eq!(addresses, again);
    }

    #[test]
    fn no_thread_waits_for_a_shard() {
        let seats = Seats::new();
        let seat = seats.take(PlatformRef::HOST, 3).expect("there is memory");
        let holder = seat.shard.free.lock();
        assert!(seats.take(PlatformRef::HOST, 3).is_none(), "the shard's holder may have lost its CPU");
        drop(seat);
        drop(holder);
        assert!(seats.take(PlatformRef::HOST, 3).is_some());
    }

    fn chunks(shard: &SeatShard) -> usize {
        shard.free.lock().with(|free| {
            // SAFETY: chunks are valid as long as the shard.
            let next = |chunk: &*mut SeatChunk| unsafe { chunk.as_ref() }.map(|chunk| chunk.next);
            core::iter::successors(Some(free.chunks), next).filter(|chunk| !chunk.is_null()).count()
        })
    }

    #[test]
    fn seat_that_is_given_back_while_its_shard_is_locked_is_used_again() {
        let seats = Seats::new();
        for _ in 0..10 {
            // More than a chunk has, and given back in two parts.
            let mut taken: Vec<_> =
                (0..SEATS + 9).map(|_| seats.take(PlatformRef::HOST, 3).expect("there is memory")).collect();
            let shard = taken[0].shard;
            let holder = shard.free.lock();
            taken.truncate(20);
            drop(holder);
            drop(taken);
            assert_eq!(chunks(shard), 2);
        }
        let others = seats.get().expect("they were made").iter().filter(|shard| chunks(shard) != 0);
        assert_eq!(others.count(), 1);
    }

    #[test]
    fn threads_of_one_shard_need_no_more_seats_than_they_use() {
        const TIMES: usize = if cfg!(miri) { 100 } else { 100_000 };
        let seats = Seats::new();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..TIMES).for_each(|_| drop(seats.take(PlatformRef::HOST, 3))));
            }
        });
        let made: usize = seats.get().expect("they were made").iter().map(chunks).sum();
        assert_eq!(made, 1);
    }
}
