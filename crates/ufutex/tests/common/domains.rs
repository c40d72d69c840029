//! Domains of every scheme.

use ufutex::platform::Platform;
use ufutex::scheme::Scheme;
use ufutex::{Domain, DomainOptions, System, SystemConfig};

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
pub fn domain<S: Scheme>() -> Domain<S> {
    Domain::with_options_in(&system(), DomainOptions::new())
}

/// Whether the scheme's table can be replaced by one of another size. If not, a request to do so is `Busy`.
pub fn can_resize<S: Scheme>() -> bool {
    S::NAME != "fixed"
}

/// Makes a `#[test]` of each generic function `fn name<S: Scheme>()` on every scheme that the package tests. A function
/// that hangs, because a lock is still held or a wake was lost, fails its test.
///
/// The package `ufutex` tests its own scheme, `ufutex-counted` tests those that it adds, and the packages of the other
/// layouts test all.
macro_rules! on_every_scheme {
    ($($name:ident),* $(,)?) => {
        #[cfg(any(not(feature = "counted"), feature = "packed", feature = "split"))]
        $crate::common::domains::on_schemes! { [$($name)*] live: Live; }
        #[cfg(feature = "counted")]
        $crate::common::domains::on_schemes! { [$($name)*] fixed: Fixed; atomic: Atomic; percpu: PerCpu; }
    };
}

/// As `on_every_scheme`, on the schemes whose tables can change their size.
macro_rules! on_every_resizable_scheme {
    ($($name:ident),* $(,)?) => {
        #[cfg(any(not(feature = "counted"), feature = "packed", feature = "split"))]
        $crate::common::domains::on_schemes! { [$($name)*] live_resizing: Live; }
        #[cfg(feature = "counted")]
        $crate::common::domains::on_schemes! { [$($name)*] atomic_resizing: Atomic; percpu_resizing: PerCpu; }
    };
}

macro_rules! on_schemes {
    ($names:tt $($module:ident: $scheme:ident;)*) => {
        $($crate::common::domains::on_scheme! { $module $scheme $names })*
    };
}

macro_rules! on_scheme {
    ($module:ident $scheme:ident [$($name:ident)*]) => {
        mod $module {
            $(
                #[test]
                fn $name() {
                    let test = super::$name::<ufutex::scheme::$scheme>;
                    $crate::common::patient::within_patience(stringify!($name), test);
                }
            )*
        }
    };
}

pub(crate) use {on_every_resizable_scheme, on_every_scheme, on_scheme, on_schemes};
