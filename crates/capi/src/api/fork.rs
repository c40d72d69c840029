//! The function that a child of fork(2) calls to give up what it inherited.

use crate::{holds, registry};

/// Forgets everything that was made before. Call it in a child of fork() before anything else. The child goes on with
/// objects that it makes itself.
///
/// The child has only the thread that called fork(). In its copy of the library's memory, locks may be held and objects
/// be in use by threads that it does not have. So no handle of the parent can be used in the child: a function that is
/// passed one returns -EBADF from now on. What was behind the handles is leaked, and timers among it do not expire
/// here. The parent is not affected.
///
/// Without this call the child must not use the library. A child that only calls exec() or _exit() needs no such call.
/// The calling thread must be the only one, and in no function of this library, and so in no callback of it.
///
/// Async-signal-safe.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_after_fork_child() {
    // SAFETY: the caller guarantees it.
    unsafe { registry::forget_all() };
    holds::prepare_again();
}
