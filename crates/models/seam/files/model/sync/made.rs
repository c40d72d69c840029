//! Objects that threads find without a lock.

use super::UnsafeCell;

/// A member of objects that threads find without a lock: a cell, so that the checker reports a thread that finds the
/// object before its initialisation is visible.
pub struct Made(UnsafeCell<bool>);

// SAFETY: only the thread that makes it writes it, before other threads can find it. A model reports a thread that
// finds it too early.
unsafe impl Sync for Made {}

impl Made {
    pub fn new() -> Self {
        Self(UnsafeCell::new(false))
    }

    /// Call this right before the object is published, each time. The object counts as initialised only from the first
    /// call on. Between `new` and this call the checker executes fences that the engine does not have, and these fences
    /// would hide a missing Release.
    pub fn finish(&self) {
        // SAFETY: only its maker has it until it is finished. After that it is only read.
        if !self.0.with(|is_finished| unsafe { *is_finished }) {
            // SAFETY: only its maker writes, and no other thread has found it yet.
            self.0.with_mut(|is_finished| unsafe { *is_finished = true });
        }
    }

    /// Call this when the object has been found: checks that its initialisation is visible.
    pub fn see(&self) {
        self.0.with(|_| ());
    }
}
