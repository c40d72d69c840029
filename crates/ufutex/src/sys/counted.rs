//! A counted reference: an `Arc` whose allocation may fail without aborting the process.

use alloc::alloc::{Layout, alloc, dealloc};
use core::ops::Deref;
use core::ptr::NonNull;

use crate::error::Error;
use crate::sync::{AtomicUsize, Ordering};

/// A handle of a `T`, which lives as long as any of its handles.
pub struct Counted<T: ?Sized> {
    inner: NonNull<Inner<T>>,
}

pub struct Inner<T: ?Sized> {
    handles: AtomicUsize,
    value: T,
}

// SAFETY: handles give out shared references alone, and the last one drops the value, as `Arc` does.
unsafe impl<T: Send + Sync + ?Sized> Send for Counted<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync + ?Sized> Sync for Counted<T> {}

impl<T> Counted<T> {
    /// Makes the first handle. `value` is called once there is memory, with its address. [`Error::NoMemory`].
    pub fn new(value: impl FnOnce(usize) -> T) -> Result<Self, Error> {
        // SAFETY: `Inner` has a count, so it is not zero-sized.
        let inner = NonNull::new(unsafe { alloc(Layout::new::<Inner<T>>()) }).ok_or(Error::NoMemory)?.cast();
        let value = value(inner.addr().get());
        // SAFETY: fresh memory of that type.
        unsafe { inner.write(Inner { handles: AtomicUsize::new(1), value }) };
        let _for_adopt = inner.as_ptr().expose_provenance();
        Ok(Self { inner })
    }

    /// # Safety
    /// `as_other` returns its argument, whose type the compiler coerces.
    pub unsafe fn coerce<U: ?Sized>(self, as_other: impl FnOnce(NonNull<Inner<T>>) -> NonNull<Inner<U>>) -> Counted<U> {
        Counted { inner: as_other(core::mem::ManuallyDrop::new(self).inner) }
    }

    /// The handle of `value` that was forgotten with `mem::forget`.
    ///
    /// # Safety
    /// Such a handle exists, and is adopted only once.
    pub unsafe fn adopt(value: NonNull<T>) -> Self {
        // A reference to the value gives no access to the count in front of it: use its address alone.
        let address = value.addr().get() - core::mem::offset_of!(Inner<T>, value);
        // SAFETY: the value lies in an allocation of `new`.
        Self { inner: unsafe { NonNull::new_unchecked(core::ptr::with_exposed_provenance_mut(address)) } }
    }
}

impl<T: ?Sized> Counted<T> {
    fn inner(&self) -> &Inner<T> {
        // SAFETY: valid as long as there is a handle.
        unsafe { self.inner.as_ref() }
    }

    pub fn memory(&self) -> NonNull<Inner<T>> {
        self.inner
    }

    /// One more handle, unless the last one is being dropped.
    ///
    /// # Safety
    /// `inner` came from a handle, and is still there: the value's own `drop`, by the last handle, waits for the caller.
    #[allow(deprecated, reason = "`try_update` needs Rust 1.95, and loom's atomics do not have it")]
    pub unsafe fn upgrade(inner: NonNull<Inner<T>>) -> Option<Self> {
        // SAFETY: the caller guarantees it.
        let handles = unsafe { &inner.as_ref().handles };
        let more = |n: usize| (n != 0).then(|| n + 1);
        handles.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok().map(|_| Self { inner })
    }

    #[cold]
    #[inline(never)]
    fn free(&mut self) {
        self.inner().handles.load(Ordering::Acquire); // [L]
        let layout = Layout::for_value(self.inner());
        // SAFETY: the last handle; allocated like this. Only the value is dropped: others may still read the count (`upgrade`).
        unsafe {
            (&raw mut (*self.inner.as_ptr()).value).drop_in_place();
            dealloc(self.inner.as_ptr().cast(), layout);
        }
    }
}

impl<T: ?Sized> Deref for Counted<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.inner().value
    }
}

impl<T: ?Sized> Clone for Counted<T> {
    fn clone(&self) -> Self {
        let handles = self.inner().handles.fetch_add(1, Ordering::Relaxed);
        // As with `Arc`: only leaked handles get here. If the count wrapped, the value would be freed in use.
        assert!(handles < isize::MAX as usize, "too many handles");
        Self { inner: self.inner }
    }
}

impl<T: ?Sized> Drop for Counted<T> {
    fn drop(&mut self) {
        // [L]: the thread that frees the value sees all uses of it. Pairs with the load below: no fence, for ThreadSanitizer.
        if self.inner().handles.fetch_sub(1, Ordering::Release) == 1 {
            self.free();
        }
    }
}
