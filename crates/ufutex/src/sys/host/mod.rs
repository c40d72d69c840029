//! The platform that the engine runs on if it is given no other: an operating system, the virtual cores of `sim`, what
//! a model checker has, or nothing.

#[cfg(feature = "_host")]
pub(crate) mod any_std;
#[cfg(all(feature = "_host", target_os = "linux"))]
mod linux;
#[cfg(all(feature = "std", target_os = "linux"))]
pub(crate) mod linux_nodes;
#[cfg(any(feature = "loom", feature = "shuttle"))]
mod model;
#[cfg(not(feature = "std"))]
mod nothing;
#[cfg(all(feature = "std", not(target_os = "linux")))]
pub(crate) mod one_node;
#[cfg(all(feature = "_host", not(any(unix, windows))))]
pub(crate) mod std_clocks;
#[cfg(all(feature = "_host", unix))]
pub(crate) mod unix_clocks;
#[cfg(feature = "sim")]
mod virtual_cores;
#[cfg(all(feature = "_host", windows))]
mod windows;
#[cfg(all(feature = "_host", windows))]
pub(crate) mod windows_clocks;

#[cfg(all(feature = "_host", not(any(target_os = "linux", windows))))]
use any_std as chosen;
#[cfg(all(feature = "_host", target_os = "linux"))]
use linux as chosen;
#[cfg(any(feature = "loom", feature = "shuttle"))]
use model as chosen;
#[cfg(not(feature = "std"))]
use nothing as chosen;
#[cfg(feature = "sim")]
use virtual_cores as chosen;
#[cfg(all(feature = "_host", windows))]
use windows as chosen;

#[cfg(all(feature = "_host", not(any(unix, windows))))]
pub(crate) use std_clocks as clocks;
#[cfg(all(feature = "_host", unix))]
pub(crate) use unix_clocks as clocks;
#[cfg(all(feature = "_host", windows))]
pub(crate) use windows_clocks as clocks;

#[cfg(all(feature = "std", target_os = "linux"))]
pub(crate) use linux_nodes as nodes;
#[cfg(all(feature = "std", not(target_os = "linux")))]
pub(crate) use one_node as nodes;

#[cfg(feature = "_host")]
use {
    super::clock::{Clock, Deadline},
    super::platform::Platform,
    core::sync::atomic::AtomicU32,
    core::time::Duration,
};

pub use chosen::{now, sleep, yield_now};
#[cfg(all(feature = "_host", target_os = "linux"))]
pub use linux::{WAKES_BY_BITS, park_with, unpark_bits};
#[cfg(not(all(feature = "_host", target_os = "linux")))]
pub const WAKES_BY_BITS: bool = false;
#[cfg(not(any(feature = "loom", feature = "shuttle", feature = "sim")))]
pub use chosen::{park, unpark};

/// The host's own platform. A system uses it unless [`Config::platform`](crate::Config::platform) names another. An
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
/// let system = ufutex::System::with_config(ufutex::Config::new().platform::<Traced>())?;
/// # let _ = system;
/// # Ok::<(), ufutex::Error>(())
/// ```
#[cfg(feature = "_host")]
#[derive(Clone, Copy, Debug)]
pub struct Host;

#[cfg(feature = "_host")]
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
