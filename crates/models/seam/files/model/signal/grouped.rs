//! A group and the signals of its threads, for models of [Y].

use alloc::boxed::Box;

use core::ptr::NonNull;

use super::group::{Group, Members};
use super::{PendingWake, Receiver, Signal};
use crate::sys::platform::PlatformRef;

/// `N` threads, each with a signal.
pub struct Grouped<const N: usize> {
    /// In a box, because its members point to it.
    _group: Box<Group>,
    members: [Members; N],
    signals: [Signal; N],
}

impl<const N: usize> Default for Grouped<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const N: usize> Grouped<N> {
    /// A group that nobody sleeps in.
    pub fn new() -> Self {
        let group = Box::new(Group::new());
        // SAFETY: the group stays in its box for as long as the members exist.
        let members = core::array::from_fn(|i| unsafe { Members::one(NonNull::from(&*group), i as u32) });
        let signals = members.map(|member| Signal::new(Receiver::Member(member)));
        Self { _group: group, members, signals }
    }

    /// Sleeps as thread number `i` until its wake has come. `None` if other wakes have kept it from sleeping.
    pub fn sleep(&self, i: usize) -> Option<bool> {
        self.signals[i].sleep_in_group(self.members[i], None)
    }

    /// As `sleep`, after a spin.
    pub fn spin_and_sleep(&self, i: usize) -> Option<bool> {
        self.signals[i].spin(PlatformRef::HOST, 1, None);
        self.sleep(i)
    }

    /// Wakes these threads, which no other call wakes.
    pub fn wake(&self, which: &[usize]) {
        // SAFETY: each signal is woken once, and its thread leaves the signal alone until then.
        let mut all = which.iter().map(|&i| unsafe { Signal::wake(&raw const self.signals[i]) });
        let Some(mut first) = all.next() else { return };
        for mut other in all {
            let members = first.members().zip(other.members());
            if members.is_some_and(|(first, other)| first.join(*other)) {
                core::mem::forget(other); // `first` does its work
            }
        }
        drop::<PendingWake>(first);
    }
}
