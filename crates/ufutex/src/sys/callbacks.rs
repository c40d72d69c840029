//! Objects of an embedder that a system, a driver or timers keep and call.

use alloc::sync::Arc;
use core::fmt;
use core::ops::Deref;

use super::counted::Counted;
use crate::error::Error;

/// A handle of an embedder's callbacks, such as a [`Deliver`](crate::timer::Deliver) or [`Clocks`](crate::timer::Clocks).
/// Functions that take one also take an `Arc`, but `Arc::new` ends the program if there is no memory.
///
/// ```
/// use ufutex::{Callbacks, timer::{Callback, Driver, Expired, Timers}};
///
/// let deliver = Callbacks::try_new(Callback(|_: &Timers, expired: Expired| println!("{} expired", expired.id)))?;
/// let timers = Timers::new(&Driver::host()?, deliver)?;
/// # Ok::<(), ufutex::Error>(())
/// ```
pub struct Callbacks<T: ?Sized>(pub(crate) Kept<T>);

pub(crate) enum Kept<T: ?Sized> {
    Given(Arc<T>),
    Made(Counted<T>),
}

impl<T> Callbacks<T> {
    /// Moves `callbacks` to the heap.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub fn try_new(callbacks: T) -> Result<Self, Error> {
        Ok(Self(Kept::Made(Counted::new(|_| callbacks)?)))
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

/// Makes `Callbacks<dyn $callbacks>` from handles of what implements it.
macro_rules! callbacks {
    ($callbacks:path) => {
        impl<T: $callbacks + 'static> From<alloc::sync::Arc<T>> for $crate::sys::callbacks::Callbacks<dyn $callbacks> {
            fn from(callbacks: alloc::sync::Arc<T>) -> Self {
                Self($crate::sys::callbacks::Kept::Given(callbacks))
            }
        }

        impl From<alloc::sync::Arc<dyn $callbacks>> for $crate::sys::callbacks::Callbacks<dyn $callbacks> {
            fn from(callbacks: alloc::sync::Arc<dyn $callbacks>) -> Self {
                Self($crate::sys::callbacks::Kept::Given(callbacks))
            }
        }

        impl<T: $callbacks + 'static> From<$crate::sys::callbacks::Callbacks<T>>
            for $crate::sys::callbacks::Callbacks<dyn $callbacks>
        {
            fn from(callbacks: $crate::sys::callbacks::Callbacks<T>) -> Self {
                use $crate::sys::{callbacks::Kept, counted::Inner};
                Self(match callbacks.0 {
                    Kept::Given(given) => Kept::Given(given),
                    // SAFETY: the closure returns its argument.
                    Kept::Made(made) => Kept::Made(unsafe {
                        made.coerce(|inner| -> core::ptr::NonNull<Inner<dyn $callbacks>> { inner })
                    }),
                })
            }
        }
    };
}
pub(crate) use callbacks;
