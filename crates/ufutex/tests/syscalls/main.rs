//! One suite for the system calls. Each body is written once and runs on futex(2) and on the engine with every scheme:
//! with private and shared words, in every table, with the early return of a wait and without.
//!
//! A test is named `topic::machine::body`. The kernel is the oracle: a body that fails on the kernel is wrong.
//!
//! Promise: hostile calls

include!("../common/engine.rs");

#[path = "../common/mod.rs"]
mod common;

mod call;
mod calls;
mod engine;
#[cfg_attr(not(target_os = "linux"), path = "kernel_elsewhere.rs")]
mod kernel;
mod machine;
mod memory;
mod robust_list;
#[cfg(target_os = "linux")] // by ptrace(2)
mod tracer;

mod futex2;
mod i386;
mod interruption;
mod keys;
mod lock_pi;
#[cfg(target_os = "linux")] // compares with its kernel
mod nodes;
mod numa;
mod order_of_checks;
mod owner_death;
mod peers;
mod pi_deadlock;
mod pi_faults;
mod pi_priority;
mod pi_states;
mod races;
mod requeue;
mod requeue_pi;
mod robust;
mod timeouts;
mod unlock_pi;
mod wait;
mod waitv;
mod wake;
mod wake_op;

/// Makes a `#[test]` of each `fn name(m: &Machine)` on every machine: on the kernel in the package `ufutex` alone.
macro_rules! on_every_machine {
    ($($name:ident),* $(,)?) => {
        #[cfg(not(feature = "counted"))]
        $crate::on_machines! { [$($name)*]
            kernel: $crate::kernel::machine(crate::machine::Sharing::Private);
            kernel_shared: $crate::kernel::machine(crate::machine::Sharing::Object);
            kernel_shared_address_space: $crate::kernel::machine(crate::machine::Sharing::AddressSpace);
        }
        $crate::on_machines! { [$($name)*]
            private: $crate::engine::machine(crate::machine::Sharing::Private);
            private_by_bucket: $crate::engine::by_bucket(crate::machine::Sharing::Private);
            shared: $crate::engine::machine(crate::machine::Sharing::Object);
            shared_by_bucket: $crate::engine::by_bucket(crate::machine::Sharing::Object);
            shared_address_space: $crate::engine::machine(crate::machine::Sharing::AddressSpace);
            global: $crate::engine::global();
            spinning: $crate::engine::spinning();
            on_any_std: $crate::engine::machine_on::<crate::common::platforms::Watched>();
        }
    };
}

/// Makes a `#[test]` of each `fn name(m: &Machine)` on the kernel only. Each use gives the reason.
#[cfg(target_os = "linux")]
macro_rules! on_the_kernel {
    ($($name:ident),* $(,)?) => {
        $crate::on_machines! { [$($name)*]
            kernel_only: $crate::kernel::machine(crate::machine::Sharing::Private);
        }
    };
}

macro_rules! on_machines {
    ($names:tt $($module:ident: $machine:expr;)*) => {
        $($crate::on_machine! { $module ($machine) $names })*
    };
}

macro_rules! on_machine {
    ($module:ident ($machine:expr) [$($name:ident)*]) => {
        mod $module {
            $(
                #[test]
                fn $name() {
                    if stringify!($module).starts_with("kernel") && !$crate::kernel::is_there() {
                        return;
                    }
                    super::$name(&$machine);
                }
            )*
        }
    };
}

#[cfg(target_os = "linux")]
pub(crate) use on_the_kernel;
pub(crate) use {on_every_machine, on_machine, on_machines};
