//! The platform that the engine runs on if it is given no other: an operating system, or nothing.

#[cfg(feature = "std")]
pub(crate) mod any_std;
#[cfg(all(feature = "std", target_os = "linux"))]
mod linux;
#[cfg(all(feature = "std", target_os = "linux"))]
pub(crate) mod linux_nodes;
#[cfg(not(feature = "std"))]
mod nothing;
#[cfg(not(all(feature = "std", target_os = "linux")))]
pub(crate) mod one_node;
#[cfg(all(feature = "std", not(any(unix, windows))))]
pub(crate) mod std_clocks;
#[cfg(all(feature = "std", unix))]
pub(crate) mod unix_clocks;
#[cfg(all(feature = "std", windows))]
mod windows;
#[cfg(all(feature = "std", windows))]
pub(crate) mod windows_clocks;

#[cfg(all(feature = "std", not(any(target_os = "linux", windows))))]
use any_std as chosen;
#[cfg(all(feature = "std", target_os = "linux"))]
use linux as chosen;
#[cfg(not(feature = "std"))]
use nothing as chosen;
#[cfg(all(feature = "std", windows))]
use windows as chosen;

#[cfg(all(feature = "std", not(any(unix, windows))))]
pub(crate) use std_clocks as clocks;
#[cfg(all(feature = "std", unix))]
pub(crate) use unix_clocks as clocks;
#[cfg(all(feature = "std", windows))]
pub(crate) use windows_clocks as clocks;

#[cfg(all(feature = "std", target_os = "linux"))]
pub(crate) use linux_nodes as nodes;
#[cfg(not(all(feature = "std", target_os = "linux")))]
pub(crate) use one_node as nodes;

use core::time::Duration;
#[cfg(feature = "std")]
use {super::clock::Deadline, super::platform::Platform, core::sync::atomic::AtomicU32};

use super::clock::Clock;

pub use chosen::{park, sleep, unpark, yield_now};
#[cfg(all(feature = "std", target_os = "linux"))]
pub use linux::{WAKES_BY_BITS, park_with, unpark_bits};
#[cfg(not(all(feature = "std", target_os = "linux")))]
pub const WAKES_BY_BITS: bool = false;

/// The time of `clock` since its epoch. `None` without a host.
pub fn now(clock: Clock) -> Option<Duration> {
    #[cfg(feature = "std")]
    return Some(clocks::time(clock));
    #[cfg(not(feature = "std"))]
    {
        let _no_clock = clock;
        None
    }
}

/// The host's own platform. A system uses it unless [`SystemConfig::platform`](crate::SystemConfig::platform) names another. An
/// embedder's platform can add something to it, and call it for the rest.
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
///     fn unpark(word: *const AtomicU32, count: usize) -> usize {
///         Host::unpark(word, count)
///     }
///     fn now(clock: Clock) -> Duration {
///         Host::now(clock)
///     }
///     fn yield_now() {
///         Host::yield_now();
///     }
/// }
///
/// let system = ufutex::System::with_config(ufutex::SystemConfig::new().platform::<Traced>())?;
/// # let _ = system;
/// # Ok::<(), ufutex::Error>(())
/// ```
#[cfg(feature = "std")]
#[derive(Clone, Copy, Debug)]
pub struct Host;

#[cfg(feature = "std")]
impl Platform for Host {
    fn park(word: &AtomicU32, expected: u32, deadline: Option<Deadline>) {
        let _engine_looks_itself = chosen::park(word, expected, deadline.as_ref());
    }
    fn unpark(word: *const AtomicU32, count: usize) -> usize {
        chosen::unpark(word, count)
    }
    fn now(clock: Clock) -> Duration {
        clocks::time(clock)
    }
    fn yield_now() {
        chosen::yield_now();
    }
}
