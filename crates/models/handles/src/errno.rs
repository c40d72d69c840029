//! The errors of handles, as in the C interface.

/// An error number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Errno(pub i32);

impl Errno {
    /// The handle is not alive.
    pub const BAD_HANDLE: Self = Self(libc::EBADF);
    /// The object is in use, or is being freed.
    pub const BUSY: Self = Self(libc::EBUSY);
    /// The handle is null.
    pub const INVALID: Self = Self(libc::EINVAL);
    /// There is no memory.
    pub const NO_MEMORY: Self = Self(libc::ENOMEM);
}
