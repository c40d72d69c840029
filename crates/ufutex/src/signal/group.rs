//! Groups: words that several threads sleep on, each thread with a bit of its own, so that one system call wakes any set
//! of them. The threads of a group are those whose entries lie side by side.
//!
//! The word counts the group's wakes. A waiter loads it, checks its own signal, and sleeps while it has not changed. A waker
//! stores `WOKEN` in the signals, counts, and makes the call. So a waiter that misses `WOKEN` does not sleep, or is asleep by
//! then ([Y]).

use core::num::NonZeroU32;
use core::ptr::NonNull;

use super::Signal;
use crate::sync::{AtomicU32, Ordering};
use crate::sys::clock::Deadline;
use crate::sys::park::{ParkEnd, Parker};
use crate::sys::platform::PlatformRef;

pub(crate) struct Group {
    /// How many wakes there have been, modulo 2^32.
    wakes: Parker,
    /// This group's index in the list of pending wakes of the waker that stored it last: a waker checks the element.
    index: AtomicU32,
}

impl Group {
    pub(crate) fn new() -> Self {
        Self { wakes: Parker::new(0), index: AtomicU32::new(0) }
    }
}

/// A set of members of one group, by their bits. The group outlives it: a waker has borrowed a domain of the group's system.
#[derive(Clone, Copy)]
pub(crate) struct Members {
    group: NonNull<Group>,
    bits: NonZeroU32,
}

// SAFETY: a group is accessed by atomics, and outlives its members.
unsafe impl Send for Members {}
// SAFETY: as above.
unsafe impl Sync for Members {}

impl Members {
    /// # Safety
    /// The group stays where it is for as long as there are values of this type for it.
    pub(crate) unsafe fn one(group: NonNull<Group>, bit: u32) -> Self {
        Self { group, bits: NonZeroU32::new(1 << bit).unwrap_or(NonZeroU32::MAX) }
    }

    fn group(&self) -> &Group {
        // SAFETY: it outlives its members.
        unsafe { self.group.as_ref() }
    }

    pub(crate) fn join(&mut self, others: Self) -> bool {
        let is_same = self.group == others.group;
        if is_same {
            self.bits |= others.bits;
        }
        is_same
    }

    /// Where the caller's list may have an element of this group: see `Group::index`.
    pub(crate) fn index(self) -> usize {
        self.group().index.load(Ordering::Relaxed) as usize
    }

    pub(crate) fn set_index(self, index: usize) {
        self.group().index.store(index as u32, Ordering::Relaxed);
    }

    /// Wakes these members. The caller has stored `WOKEN` in their signals.
    pub(crate) fn wake(self) {
        self.group().wakes.count_and_wake(self.bits);
    }
}

impl Signal {
    /// As [`sleep`](Self::sleep), on the word of the member's group. `None` if wakes of other members have ended `TRIES`
    /// attempts. The caller then sleeps on a word of its own, so that another domain's wakes cannot keep it awake.
    pub(crate) fn sleep_in_group(&self, member: Members, deadline: Option<&Deadline>) -> Option<bool> {
        const TRIES: u32 = 8;
        if deadline.is_some_and(|deadline| PlatformRef::HOST.has_passed(deadline)) {
            return Some(self.is_woken());
        }
        let wakes = &member.group().wakes;
        for _ in 0..TRIES {
            let before = wakes.load(Ordering::Acquire); // [Y]: before the check of the signal
            if self.is_woken() {
                return Some(true);
            }
            if wakes.park_with(before, deadline, member.bits) == ParkEnd::TimedOut {
                return Some(self.is_woken());
            }
        }
        self.is_woken().then_some(true)
    }
}
