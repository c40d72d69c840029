//! The handles of the C interface as they ship, for models: `registry.rs` and `holds.rs` over shuttle's atomics.

#[path = "../../../capi/src/holds.rs"]
mod holds;
#[path = "../../../capi/src/mutants.rs"]
mod mutants;
#[path = "../../../capi/src/registry.rs"]
mod registry;

mod errno;
mod spin;
mod sync;

use std::sync::atomic::{
    AtomicUsize,
    Ordering::{Relaxed, SeqCst},
};

use crate::registry::{Counted, Held, Object};

pub use errno::Errno;
pub use mutants::Mutant;
pub use sync::with_mutant;

/// An object with a handle. It must not be dropped while it is used.
pub struct Thing {
    value: usize,
    users: AtomicUsize,
}

/// What a handle points to, as far as a program knows.
enum Opaque {}

// SAFETY: no other type here has this kind.
unsafe impl Object for Thing {
    type Opaque = Opaque;
    const KIND: u64 = 7;
}

impl Drop for Thing {
    fn drop(&mut self) {
        assert_eq!(*self.users.get_mut(), 0, "freed while it is in use");
    }
}

impl Thing {
    /// Uses the object: other threads run meanwhile.
    fn be_used(&self) -> usize {
        // The standard library's atomics, at which shuttle does not switch threads.
        self.users.fetch_add(1, Relaxed);
        shuttle::thread::yield_now();
        let value = self.value;
        self.users.fetch_sub(1, Relaxed);
        value
    }
}

/// A handle as a program has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Handle(usize);

impl Handle {
    /// Makes an object with this value.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn make(value: usize) -> Result<Self, Errno> {
        let thing = registry::boxed(Thing { value, users: AtomicUsize::new(0) })?;
        registry::insert(thing).map(|handle| Self(handle.addr()))
    }

    fn pointer(self) -> *mut Opaque {
        core::ptr::without_provenance_mut(self.0)
    }

    /// Holds the object, uses it, and returns its value.
    ///
    /// # Errors
    /// If the handle is not alive, or the object is being freed.
    pub fn hold(self) -> Result<usize, Errno> {
        Held::<Thing>::new(self.pointer()).map(|held| held.be_used())
    }

    /// As [`hold`](Self::hold), with `inner` called while the object is held.
    ///
    /// # Errors
    /// As for `hold`.
    pub fn hold_during<R>(self, inner: impl FnOnce() -> R) -> Result<(usize, R), Errno> {
        let held = Held::<Thing>::new(self.pointer())?;
        let result = inner();
        Ok((held.be_used(), result))
    }

    /// Holds the object, counts a use of it, stops holding it, and uses it.
    ///
    /// # Errors
    /// As for `hold`.
    pub fn hold_and_count(self) -> Result<usize, Errno> {
        let held = Held::<Thing>::new(self.pointer())?;
        let counted = held.count();
        drop(held);
        Ok(counted.be_used())
    }

    /// Counts a use of the object, as a signal handler does, and uses it.
    ///
    /// # Errors
    /// As for `hold`.
    pub fn count(self) -> Result<usize, Errno> {
        Counted::<Thing>::new(self.pointer()).map(|counted| counted.be_used())
    }

    /// Counts a use of the object, and frees it when all other counted uses have ended. No thread may hold it. Returns its
    /// value.
    ///
    /// # Errors
    /// As for `hold`, or if another thread is freeing it.
    pub fn take(self) -> Result<usize, Errno> {
        Counted::<Thing>::new(self.pointer())?.take().map(|thing| thing.value)
    }

    /// Frees the object. Returns its value.
    ///
    /// # Errors
    /// If the handle is not alive, or the object is in use.
    pub fn free(self) -> Result<usize, Errno> {
        registry::remove::<Thing>(self.pointer()).map(|thing| thing.value)
    }

    /// Whether the handle is alive now.
    #[must_use]
    pub fn is_alive(self) -> bool {
        registry::is_alive::<Thing>(self.pointer())
    }
}

/// Forgets all handles, the memory of their slots and all threads' records. Each execution of a model begins with this, so
/// that it makes chunks and records itself.
pub fn begin() {
    registry::SLOTS.iter().for_each(|chunk| chunk.store(core::ptr::null_mut(), SeqCst));
    holds::RECORDS.store(core::ptr::null_mut(), SeqCst);
    // SAFETY: the execution has one thread, which is in no operation.
    unsafe { registry::forget_all() };
    holds::prepare_again();
}
