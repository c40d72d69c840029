//! The platform that the engine runs on if it is given no other: an operating system, the virtual cores of `sim`, what
//! a model checker has, or nothing.

#[cfg(feature = "_host")]
pub(crate) mod any_std;
#[cfg(all(feature = "_host", target_os = "linux"))]
mod linux;
#[cfg(any(feature = "loom", feature = "shuttle"))]
mod model;
#[cfg(not(feature = "std"))]
mod nothing;
#[cfg(feature = "sim")]
mod virtual_cores;

#[cfg(all(feature = "_host", not(target_os = "linux")))]
use any_std as chosen;
#[cfg(all(feature = "_host", target_os = "linux"))]
use linux as chosen;
#[cfg(any(feature = "loom", feature = "shuttle"))]
use model as chosen;
#[cfg(not(feature = "std"))]
use nothing as chosen;
#[cfg(feature = "sim")]
use virtual_cores as chosen;

pub use chosen::{now, sleep, yield_now};
#[cfg(not(any(feature = "loom", feature = "shuttle", feature = "sim")))]
pub use chosen::{park, unpark};
