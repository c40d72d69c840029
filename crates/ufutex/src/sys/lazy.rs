//! Values that are made when they are first needed.

use core::marker::PhantomData;
use core::ptr::{self, NonNull};

use super::counted::Counted;
use crate::error::Error;
use crate::sync::{AtomicPtr, Made, Ordering};

/// A value that the first thread to need it makes, in memory of its own. No thread waits for another: each that finds no value
/// makes one, and all use the one that was stored first.
pub struct Lazy<T> {
    /// Null until the value is made, then a counted handle; or [`NEVER`].
    kept: AtomicPtr<(Made, T)>,
    _owns: PhantomData<T>,
}

/// No value will be made. The address of every value is higher.
const NEVER: usize = 1;

impl<T> Lazy<T> {
    pub const fn new() -> Self {
        Self { kept: AtomicPtr::new(ptr::null_mut()), _owns: PhantomData }
    }

    #[inline(always)]
    pub fn get(&self) -> Option<&T> {
        let kept = self.kept.load(Ordering::Acquire); // [W]
        if kept.addr() <= NEVER {
            return None;
        }
        // SAFETY: the handle is kept until `self` is dropped.
        let (made, value) = unsafe { &*kept };
        made.see();
        Some(value)
    }

    pub fn has_given_up(&self) -> bool {
        self.kept.load(Ordering::Acquire).addr() == NEVER // [W]
    }

    /// If there is no value, `value` makes it, unless another thread is faster. [`Error::NoMemory`] also after `give_up`.
    #[inline]
    pub fn get_or_make(&self, value: impl FnOnce() -> Result<T, Error>) -> Result<&T, Error> {
        self.get().map_or_else(|| self.make(value), Ok)
    }

    #[cold]
    fn make(&self, value: impl FnOnce() -> Result<T, Error>) -> Result<&T, Error> {
        let made = value().and_then(|value| Counted::new(|_| (Made::new(), value))).map(|kept| {
            kept.0.finish();
            let ours = ptr::from_ref::<(Made, T)>(&kept).cast_mut();
            // [W]
            if self.kept.compare_exchange(ptr::null_mut(), ours, Ordering::Release, Ordering::Relaxed).is_ok() {
                core::mem::forget(kept); // `drop` gives this handle back
            }
        });
        // Another thread may have been faster, and have had the last memory.
        self.get().ok_or(made.err().unwrap_or(Error::NoMemory))
    }

    /// If there is no value yet, there will never be one.
    #[cold]
    pub fn give_up(&self) {
        let never = ptr::without_provenance_mut(NEVER);
        let _was = self.kept.compare_exchange(ptr::null_mut(), never, Ordering::Release, Ordering::Relaxed); // [W]
    }

    /// # Safety
    /// No thread has a reference to the value.
    pub unsafe fn forget(&self) {
        self.kept.store(ptr::null_mut(), Ordering::Release); // [W]
    }
}

impl<T> Drop for Lazy<T> {
    fn drop(&mut self) {
        let kept = self.kept.load(Ordering::Acquire); // [W]
        if let Some(kept) = NonNull::new(kept).filter(|kept| kept.addr().get() != NEVER) {
            // SAFETY: the handle that `make` has forgotten.
            drop(unsafe { Counted::adopt(kept) });
        }
    }
}
