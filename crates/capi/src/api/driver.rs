//! Functions on the driver of timers and timeouts, for an embedder that turns it.

use core::ffi::{c_int, c_long};

use crate::abi;
use crate::driver::base_of;
use crate::errno::{done, long};
use crate::objects::SystemObject;
use crate::registry::Held;
use crate::types::{UFUTEX_NO_DEADLINE, ufutex_system};

/// Starts the thread that expires timers and timeouts of the system's own PID namespace by the host's clocks, which the first
/// of them would start otherwise. Each further namespace has a thread of its own. Does
/// nothing if it runs already, or if the system has the embedder's clocks. The thread inherits what the caller may do:
/// to raise its priority later it needs a privilege.
///
/// Returns 0. -ENOMEM: the host refuses a thread or its file descriptors.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_driver_start(system: *mut ufutex_system) -> c_int {
    done(|| Ok(Held::<SystemObject>::new(system)?.0.driver().start()?))
}

/// When ufutex_driver_turn() is needed next: stores in *nanoseconds a time of UFUTEX_REALTIME, UFUTEX_MONOTONIC,
/// UFUTEX_BOOTTIME or UFUTEX_TAI that is not later than the earliest deadline by that clock, or UFUTEX_NO_DEADLINE if
/// there is none. It may be earlier than the deadline.
///
/// Returns 0. -EINVAL: another clock.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_driver_next(system: *mut ufutex_system, clock: u32, nanoseconds: *mut u64) -> c_int {
    done(|| {
        abi::check_out(nanoseconds)?;
        let held = Held::<SystemObject>::new(system)?;
        let at = held.0.driver().next(base_of(clock)?);
        let ns = at.map_or(UFUTEX_NO_DEADLINE, |at| u64::try_from(at.as_nanos()).unwrap_or(UFUTEX_NO_DEADLINE));
        // SAFETY: checked above; the program guarantees that it is valid for a write.
        unsafe { abi::store(nanoseconds, ns) }
    })
}

/// Expires the timers of all processes that are due, and delivers them. With the embedder's clocks the embedder calls
/// this at the time that ufutex_driver_next() says. Timers that become due meanwhile may be left for the next turn.
///
/// Returns the number of deadlines that have passed.
///
/// Several threads may turn at the same time. Functions of ufutex_timers_options are called by this thread.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_driver_turn(system: *mut ufutex_system) -> c_long {
    long(|| Ok(Held::<SystemObject>::new(system)?.0.driver().turn()))
}

/// Call this when the embedder's UFUTEX_REALTIME has been set, and UFUTEX_TAI with it. The next turn expires what is
/// due by the new time. The host's clocks need no such call.
///
/// Calls changed of ufutex_timer_clocks.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_driver_clock_was_set(system: *mut ufutex_system) -> c_int {
    done(|| Held::<SystemObject>::new(system).map(|held| held.0.driver().clock_was_set()))
}
