//! A spin lock that is held in a section, so that its holder keeps its CPU, and interrupt handlers may lock it too.

use core::cell::UnsafeCell;
use core::hint::spin_loop;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::{Acquire, Release};

use crate::cpu;

pub struct Lock<T> {
    is_held: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: one guard at a time reaches the value.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T> Lock<T> {
    pub const fn new(value: T) -> Self {
        Self { is_held: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    pub fn lock(&self) -> Guard<'_, T> {
        cpu::enter();
        while self.is_held.swap(true, Acquire) {
            spin_loop();
        }
        Guard(self)
    }

    /// Locks if the lock is free within so many looks.
    pub fn try_lock_for(&self, looks: u32) -> Option<Guard<'_, T>> {
        cpu::enter();
        for _ in 0..looks {
            if !self.is_held.swap(true, Acquire) {
                return Some(Guard(self));
            }
            spin_loop();
        }
        cpu::leave();
        None
    }

    /// Unlocks for a guard that was forgotten, or is on the stack of a thread that this CPU has left.
    ///
    /// # Safety
    /// The lock is held, and nobody uses its guard any more.
    pub unsafe fn unlock(&self) {
        self.is_held.store(false, Release);
        cpu::leave();
    }
}

pub struct Guard<'l, T>(&'l Lock<T>);

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the guard holds the lock.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard holds the lock.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        // SAFETY: this was the guard.
        unsafe { self.0.unlock() };
    }
}
