//! Domains.

use ufutex::platform::Platform;
use ufutex::{Domain, DomainOptions, Error, System, SystemConfig};

use super::platforms::watched;

/// A system of two CPUs with a fixed hash seed.
pub fn system() -> System {
    System::with_config(watched(config())).expect("the memory is there")
}

/// As `system`, on a platform.
pub fn system_on<P: Platform>() -> System {
    System::with_config(config().platform::<P>()).expect("the memory is there")
}

pub fn config() -> SystemConfig {
    SystemConfig::new().cpus(2).global_slots(64).hash_seed(1)
}

/// A domain of a system of its own.
pub fn domain() -> Domain {
    Domain::with_options(&system(), DomainOptions::new())
}

/// Whether the table can be replaced by one of another size. If not, a request to do so is `Busy`.
pub fn can_resize() -> bool {
    !cfg!(feature = "fixed")
}

/// Sets the number of slots. A scheme that has to wait for a moment without operations gives up after 5 ms: `TimedOut`.
#[cfg(feature = "counted")]
pub fn set_slots(domain: &Domain, slots: usize) -> Result<(), Error> {
    let begin = std::time::Instant::now();
    domain.set_slots_while(slots, || begin.elapsed() < std::time::Duration::from_millis(5))
}
#[cfg(not(feature = "counted"))]
pub fn set_slots(domain: &Domain, slots: usize) -> Result<(), Error> {
    domain.set_slots(slots)
}

/// Asserts that a resize was successful, or given up by a scheme that may.
pub fn assert_resized(result: Result<(), Error>) {
    assert!(result == Ok(()) || cfg!(feature = "counted") && result == Err(Error::TimedOut), "{result:?}");
}

/// Makes a `#[test]` of each function. One that hangs, because a lock is still held or a wake was lost, fails its test.
macro_rules! on_domains {
    ($($name:ident),* $(,)?) => {
        $crate::common::domains::tests_on_domains! { tests [] $($name)* }
    };
}

/// As `on_domains`, for tables that are replaced by others of another size.
macro_rules! on_resizable_domains {
    ($($name:ident),* $(,)?) => {
        $crate::common::domains::tests_on_domains! {
            on_resizable [#[cfg_attr(feature = "fixed", ignore = "the table is set once")]] $($name)*
        }
    };
}

macro_rules! tests_on_domains {
    ($module:ident $attributes:tt $($name:ident)*) => {
        mod $module {
            $(
                $crate::common::domains::test_on_domains! { $attributes $name }
            )*
        }
    };
}

macro_rules! test_on_domains {
    ([$(#[$attribute:meta])*] $name:ident) => {
        #[test]
        $(#[$attribute])*
        fn $name() {
            $crate::common::patient::within_patience(stringify!($name), super::$name);
        }
    };
}

pub(crate) use {on_domains, on_resizable_domains, test_on_domains, tests_on_domains};
