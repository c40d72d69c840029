//! The platform that the engine runs on if it is given no other: an operating system, or nothing.

#[cfg(feature = "std")]
pub(crate) mod any_std;
#[cfg(any(not(feature = "std"), target_os = "linux", windows))]
#[cfg_attr(not(feature = "std"), path = "nothing.rs")]
#[cfg_attr(all(feature = "std", target_os = "linux"), path = "linux.rs")]
#[cfg_attr(all(feature = "std", windows), path = "windows.rs")]
mod chosen;
#[cfg(feature = "std")]
#[cfg_attr(unix, path = "unix_clocks.rs")]
#[cfg_attr(not(unix), path = "std_clocks.rs")]
pub(crate) mod clocks;
#[cfg_attr(all(feature = "std", target_os = "linux"), path = "linux_nodes.rs")]
#[cfg_attr(not(all(feature = "std", target_os = "linux")), path = "one_node.rs")]
pub(crate) mod nodes;

#[cfg(all(feature = "std", not(any(target_os = "linux", windows))))]
use any_std as chosen;

use core::time::Duration;
#[cfg(feature = "std")]
use {super::clock::Deadline, super::platform::Platform, core::num::NonZeroU32, core::sync::atomic::AtomicU32};

use super::clock::Clock;

#[cfg(all(feature = "std", target_os = "linux"))]
pub use chosen::{OWN_CALL, timespec};
pub use chosen::{online, park, sleep, unpark, yield_now};

/// Whether `unpark` wakes only sleepers that gave `park` one of its bits. Other hosts wake any.
pub const WAKES_BY_BITS: bool = cfg!(all(feature = "std", target_os = "linux"));

/// `None` without a host.
pub fn now(clock: Clock) -> Option<Duration> {
    #[cfg(feature = "std")]
    return Some(clocks::time(clock));
    #[cfg(not(feature = "std"))]
    {
        let _no_clock = clock;
        None
    }
}

/// The host's own platform, which a system uses unless [`SystemConfig::platform`](crate::SystemConfig::platform) names another.
/// An embedder's platform can add something to it.
///
/// ```
/// use core::{sync::atomic::AtomicU32, time::Duration};
/// use ufutex::platform::{Clock, Deadline, Host, Platform};
///
/// struct Traced;
///
/// impl Platform for Traced {
///     fn park(word: &AtomicU32, expected: u32, deadline: Option<Deadline>) {
///         // Note here that the thread sleeps.
///         Host::park(word, expected, deadline);
///     }
///     fn unpark(word: *const AtomicU32, count: usize) -> usize { Host::unpark(word, count) }
///     fn now(clock: Clock) -> Duration { Host::now(clock) }
///     fn yield_now() { Host::yield_now() }
/// }
/// ```
#[cfg(feature = "std")]
#[derive(Clone, Copy, Debug)]
pub struct Host;

#[cfg(feature = "std")]
impl Platform for Host {
    fn park(word: &AtomicU32, expected: u32, deadline: Option<Deadline>) {
        let _engine_looks_itself = chosen::park(word, expected, deadline.as_ref(), NonZeroU32::MAX);
    }
    fn unpark(word: *const AtomicU32, count: usize) -> usize {
        chosen::unpark(word, count, NonZeroU32::MAX)
    }
    fn now(clock: Clock) -> Duration {
        clocks::time(clock)
    }
    fn yield_now() {
        chosen::yield_now();
    }
}
