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

/// The memory behind handles.
pub struct Inner<T: ?Sized> {
    handles: AtomicUsize,
    value: T,
}

// SAFETY: handles give out shared references alone, and the last one drops the value, as `Arc` does.
unsafe impl<T: Send + Sync + ?Sized> Send for Counted<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync + ?Sized> Sync for Counted<T> {}

impl<T> Counted<T> {
    /// Makes the first handle. `value` is called once there is memory, with the address of the memory.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub fn new(value: impl FnOnce(usize) -> T) -> Result<Self, Error> {
        // SAFETY: `Inner` is not zero-sized, because of its count.
        let inner = NonNull::new(unsafe { alloc(Layout::new::<Inner<T>>()) }).ok_or(Error::NoMemory)?.cast();
        let value = value(inner.addr().get());
        // SAFETY: fresh memory of that type.
        unsafe { inner.write(Inner { handles: AtomicUsize::new(1), value }) };
        let _for_adopt = inner.as_ptr().expose_provenance();
        Ok(Self { inner })
    }

    /// Turns it into a handle of another type of the same value, such as a trait's object.
    ///
    /// # Safety
    /// `as_other` returns its argument. The compiler coerces its type.
    pub unsafe fn coerce<U: ?Sized>(self, as_other: impl FnOnce(NonNull<Inner<T>>) -> NonNull<Inner<U>>) -> Counted<U> {
        Counted { inner: as_other(core::mem::ManuallyDrop::new(self).inner) }
    }

    /// The handle of the value at `value` that was forgotten with `mem::forget`.
    ///
    /// # Safety
    /// Such a handle exists, and is adopted only once.
    pub unsafe fn adopt(value: NonNull<T>) -> Self {
        // A reference to the value gives no access to the count in front of it, so only its address is used.
        let address = value.addr().get() - core::mem::offset_of!(Inner<T>, value);
        // SAFETY: the value lies in an allocation of `new`, so the address is not null.
        Self { inner: unsafe { NonNull::new_unchecked(core::ptr::with_exposed_provenance_mut(address)) } }
    }
}

impl<T: ?Sized> Counted<T> {
    fn inner(&self) -> &Inner<T> {
        // SAFETY: valid as long as there is a handle.
        unsafe { self.inner.as_ref() }
    }

    /// The value's memory, which is no handle: see [`upgrade`](Self::upgrade).
    pub fn memory(&self) -> NonNull<Inner<T>> {
        self.inner
    }

    /// One more handle of the value in `inner`, unless the last one is being dropped.
    ///
    /// # Safety
    /// `inner` came from a handle, and is still there: the thread that drops the last handle waits for the caller
    /// somewhere in the value's own `drop`.
    #[allow(deprecated, reason = "`try_update` needs Rust 1.95, and loom's atomics do not have it")]
    pub unsafe fn upgrade(inner: NonNull<Inner<T>>) -> Option<Self> {
        // SAFETY: the caller guarantees that the memory is there.
        let handles = unsafe { &inner.as_ref().handles };
        let more = |n: usize| (n != 0).then(|| n + 1);
        handles.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok().map(|_| Self { inner })
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
        // As with `Arc`: only leaked handles can get here. If the count wrapped, the value would be freed in use.
        assert!(handles < isize::MAX as usize, "too many handles");
        Self { inner: self.inner }
    }
}

impl<T: ?Sized> Drop for Counted<T> {
    fn drop(&mut self) {
        // [L]: the thread that frees the value sees all earlier uses of it. Pairs with the load below, which is no fence
        // because ThreadSanitizer does not understand fences.
        if self.inner().handles.fetch_sub(1, Ordering::Release) != 1 {
            return;
        }
        self.inner().handles.load(Ordering::Acquire); // [L]
        let layout = Layout::for_value(self.inner());
        // SAFETY: this was the last handle; the memory was allocated like this in `new`. Only the value is dropped
        // through the pointer, since other threads may read the count meanwhile (`upgrade`).
        unsafe {
            (&raw mut (*self.inner.as_ptr()).value).drop_in_place();
            dealloc(self.inner.as_ptr().cast(), layout);
        }
    }
}
