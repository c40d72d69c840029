//! Objects that threads find without a lock.

#[cfg(any(feature = "loom", feature = "shuttle"))]
use super::UnsafeCell;

/// A member of objects that threads find without a lock. In a model it is a cell, and the model reports a thread that
/// finds the object before its initialisation is visible. In other builds it is empty.
pub struct Made(#[cfg(any(feature = "loom", feature = "shuttle"))] UnsafeCell<bool>);

#[cfg(any(feature = "loom", feature = "shuttle"))]
// SAFETY: only the thread that makes it writes it, before other threads can find it. A model reports a thread that
// finds it too early.
unsafe impl Sync for Made {}

impl Made {
    /// The object counts as initialised from now on or, if [`finish`](Self::finish) is called, from the first such call
    /// on.
    pub fn new() -> Self {
        Self(
            #[cfg(any(feature = "loom", feature = "shuttle"))]
            UnsafeCell::new(false),
        )
    }

    /// Call this right before the object is published, each time. In a model the object counts as initialised only from
    /// the first call on. Between `new` and this call a model executes fences that other builds do not have, and these
    /// fences would hide a missing Release.
    #[inline(always)]
    pub fn finish(&self) {
        #[cfg(any(feature = "loom", feature = "shuttle"))]
        // SAFETY: only its maker has it until it is finished. After that it is only read.
        if !self.0.with(|is_finished| unsafe { *is_finished }) {
            // SAFETY: only its maker writes, and no other thread has found it yet.
            self.0.with_mut(|is_finished| unsafe { *is_finished = true });
        }
    }

    /// Call this when the object has been found: in a model, checks that its initialisation is visible.
    #[inline(always)]
    pub fn see(&self) {
        #[cfg(any(feature = "loom", feature = "shuttle"))]
        self.0.with(|_| ());
    }
}

/// Makes the constructor `const`, but in builds for model checkers, whose atomics cannot be made in a constant.
macro_rules! const_unless_modelled {
    ($(#[$attribute:meta])* pub fn $name:ident($($parameters:tt)*) -> Self $body:block) => {
        $(#[$attribute])*
        #[cfg(not(any(feature = "loom", feature = "shuttle")))]
        #[must_use]
        pub const fn $name($($parameters)*) -> Self $body

        $(#[$attribute])*
        #[cfg(any(feature = "loom", feature = "shuttle"))]
        #[must_use]
        pub fn $name($($parameters)*) -> Self $body
    };
}

pub(crate) use const_unless_modelled;
