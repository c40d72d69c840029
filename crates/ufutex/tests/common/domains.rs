//! Domains of every scheme and layout.

use ufutex::layout::Layout;
use ufutex::platform::Platform;
use ufutex::scheme::Scheme;
use ufutex::{Config, Domain, Options, System};

use super::platforms::watched;

/// A system of two CPUs with a fixed hash seed.
pub fn system<L: Layout>() -> System<L> {
    System::with_config_in(watched(config())).expect("the memory is there")
}

/// As `system`, on a platform.
pub fn system_on<P: Platform, L: Layout>() -> System<L> {
    System::with_config_in(config().platform::<P>()).expect("the memory is there")
}

fn config() -> Config {
    Config::new().cpus(2).global_slots(64).hash_seed(1)
}

/// A domain of a system of its own.
pub fn domain<S: Scheme<L>, L: Layout>() -> Domain<S, L> {
    Domain::with_options_in(&system(), Options::new())
}

/// Makes a `#[test]` of each generic function `fn name<S: Scheme<L>, L: Layout>()` on every scheme and layout. A
/// function that hangs, because a lock is still held or a wake was lost, fails its test.
macro_rules! on_every_domain {
    ($($name:ident),* $(,)?) => {
        $crate::common::domains::on_domains! { [$($name)*]
            live_lean: Live, Lean; live_packed: Live, Packed; live_split: Live, Split;
            fixed_lean: Fixed, Lean; fixed_packed: Fixed, Packed; fixed_split: Fixed, Split;
            atomic_lean: Atomic, Lean; atomic_packed: Atomic, Packed; atomic_split: Atomic, Split;
            percpu_lean: PerCpu, Lean; percpu_packed: PerCpu, Packed; percpu_split: PerCpu, Split;
        }
    };
}

/// As `on_every_domain`, on the schemes whose tables can change their size.
macro_rules! on_every_resizable_domain {
    ($($name:ident),* $(,)?) => {
        $crate::common::domains::on_domains! { [$($name)*]
            live_lean: Live, Lean; live_packed: Live, Packed; live_split: Live, Split;
            atomic_lean: Atomic, Lean; atomic_packed: Atomic, Packed; atomic_split: Atomic, Split;
            percpu_lean: PerCpu, Lean; percpu_packed: PerCpu, Packed; percpu_split: PerCpu, Split;
        }
    };
}

/// As `on_every_domain`, on every scheme but with one layout only: for behaviour that does not depend on the layout.
macro_rules! on_every_scheme {
    ($($name:ident),* $(,)?) => {
        $crate::common::domains::on_domains! { [$($name)*]
            live: Live, Lean; fixed: Fixed, Lean; atomic: Atomic, Lean; percpu: PerCpu, Lean;
        }
    };
}

/// As `on_every_scheme`, on the schemes whose tables can change their size.
macro_rules! on_every_resizable_scheme {
    ($($name:ident),* $(,)?) => {
        $crate::common::domains::on_domains! { [$($name)*]
            live_resizing: Live, Lean; atomic_resizing: Atomic, Lean; percpu_resizing: PerCpu, Lean;
        }
    };
}

macro_rules! on_domains {
    ($names:tt $($module:ident: $scheme:ident, $layout:ident;)*) => {
        $($crate::common::domains::on_domain! { $module $scheme $layout $names })*
    };
}

macro_rules! on_domain {
    ($module:ident $scheme:ident $layout:ident [$($name:ident)*]) => {
        mod $module {
            $(
                #[test]
                fn $name() {
                    let test = super::$name::<ufutex::scheme::$scheme, ufutex::layout::$layout>;
                    $crate::common::patient::within_patience(stringify!($name), test);
                }
            )*
        }
    };
}

pub(crate) use {
    on_domain, on_domains, on_every_domain, on_every_resizable_domain, on_every_resizable_scheme, on_every_scheme,
};
