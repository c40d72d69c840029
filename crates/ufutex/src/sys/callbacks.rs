//! Objects of an embedder that a system, a driver or timers keep and call.

use alloc::sync::Arc;
use core::fmt;
use core::ops::Deref;

use super::counted::Counted;
use crate::error::Error;

/// A handle of an embedder's callbacks, such as a [`Deliver`](crate::timer::Deliver) or
/// [`Clocks`](crate::timer::Clocks).
///
/// An `Arc` of them becomes one by `into()`, which every function that takes callbacks calls. `Arc::new` ends the
/// program if there is no memory. Where that must not happen, [`try_new`](Self::try_new) makes the handle.
///
/// ```
/// use ufutex::{Callbacks, timer::{Callback, Driver, Expired, Timers}};
///
/// let deliver = Callbacks::try_new(Callback(|_: &Timers, expired: Expired| println!("{} expired", expired.id)))?;
/// let timers = Timers::new(&Driver::host()?, deliver)?;
/// # Ok::<(), ufutex::Error>(())
/// ```
pub struct Callbacks<T: ?Sized>(Kept<T>);

enum Kept<T: ?Sized> {
    Given(Arc<T>),
    Made(Counted<T>),
}

impl<T> Callbacks<T> {
    /// Moves `callbacks` to the heap.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub fn try_new(callbacks: T) -> Result<Self, Error> {
        Counted::new(|_| callbacks).map(Self::made)
    }
}

impl<T: ?Sized> Callbacks<T> {
    pub(crate) fn given(callbacks: Arc<T>) -> Self {
        Self(Kept::Given(callbacks))
    }

    pub(crate) fn made(callbacks: Counted<T>) -> Self {
        Self(Kept::Made(callbacks))
    }
}

impl<T: ?Sized> Deref for Callbacks<T> {
    type Target = T;

    fn deref(&self) -> &T {
        match &self.0 {
            Kept::Given(callbacks) => callbacks,
            Kept::Made(callbacks) => callbacks,
        }
    }
}

impl<T: ?Sized> Clone for Callbacks<T> {
    fn clone(&self) -> Self {
        Self(match &self.0 {
            Kept::Given(callbacks) => Kept::Given(callbacks.clone()),
            Kept::Made(callbacks) => Kept::Made(callbacks.clone()),
        })
    }
}

impl<T: ?Sized> fmt::Debug for Callbacks<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Callbacks").finish_non_exhaustive()
    }
}

impl<T> Callbacks<T> {
    /// Turns it into a handle of a trait's object. `given` and `made` return their argument; the compiler coerces its
    /// type.
    pub(crate) fn coerce<U: ?Sized>(
        self,
        given: impl FnOnce(Arc<T>) -> Arc<U>,
        made: impl FnOnce(Counted<T>) -> Counted<U>,
    ) -> Callbacks<U> {
        Callbacks(match self.0 {
            Kept::Given(callbacks) => Kept::Given(given(callbacks)),
            Kept::Made(callbacks) => Kept::Made(made(callbacks)),
        })
    }
}

/// Lets handles of everything that implements `$callbacks` become handles of its object.
macro_rules! callbacks {
    ($callbacks:path) => {
        impl<T: $callbacks + 'static> From<alloc::sync::Arc<T>> for $crate::sys::callbacks::Callbacks<dyn $callbacks> {
            fn from(callbacks: alloc::sync::Arc<T>) -> Self {
                Self::given(callbacks)
            }
        }

        impl From<alloc::sync::Arc<dyn $callbacks>> for $crate::sys::callbacks::Callbacks<dyn $callbacks> {
            fn from(callbacks: alloc::sync::Arc<dyn $callbacks>) -> Self {
                Self::given(callbacks)
            }
        }

        impl<T: $callbacks + 'static> From<$crate::sys::callbacks::Callbacks<T>>
            for $crate::sys::callbacks::Callbacks<dyn $callbacks>
        {
            fn from(callbacks: $crate::sys::callbacks::Callbacks<T>) -> Self {
                type Inner<T> = core::ptr::NonNull<$crate::sys::counted::Inner<T>>;
                callbacks.coerce(
                    |given| -> alloc::sync::Arc<dyn $callbacks> { given },
                    // SAFETY: the closure returns its argument.
                    |made| unsafe { made.coerce(|inner| -> Inner<dyn $callbacks> { inner }) },
                )
            }
        }
    };
}
pub(crate) use callbacks;
