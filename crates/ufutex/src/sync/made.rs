//! Lets a model detect that a thread finds an object before its initialisation is visible. Does nothing here.

/// A member of objects that threads find without a lock. In a model it is a cell.
pub struct Made;

impl Made {
    /// Initialised from now on or, if [`finish`](Self::finish) is called, from the first such call on.
    pub fn new() -> Self {
        Self
    }

    /// Call this right before the object is published, each time.
    #[inline(always)]
    pub fn finish(&self) {}

    /// Call this when the object has been found.
    #[inline(always)]
    pub fn see(&self) {}
}
