//! Blocks the signals of a thread while it starts the driver's thread, which inherits the mask.

/// Blocks the calling thread's signals until it is dropped.
pub struct Blocked(libc::sigset_t);

impl Blocked {
    pub fn new() -> Self {
        // SAFETY: `all` is a set of bits, which `sigfillset` sets; `before` is written by the call.
        unsafe {
            let (mut all, mut before) = (core::mem::zeroed(), core::mem::zeroed());
            libc::sigfillset(&raw mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
            Self(before)
        }
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // SAFETY: restores the mask from before.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, core::ptr::null_mut()) };
    }
}
