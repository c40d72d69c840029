//! POSIX timers: one suite for timer_create(2) and its family and for the engine. Each body is written once and runs in
//! a process of its own.
//!
//! A test is named `topic::machine::body`. The kernel is the oracle: a body that fails on the kernel is wrong.

#[path = "../common/mod.rs"]
mod common;

#[cfg_attr(not(target_os = "linux"), path = "alone_elsewhere.rs")]
mod alone;
mod clock;
mod engine;
mod grid;
#[cfg_attr(not(target_os = "linux"), path = "kernel_elsewhere.rs")]
mod kernel;
mod machine;
mod memory;

mod attacks;
#[cfg(target_os = "linux")] // no other host has CPU-time clocks
mod cpu;
mod create;
mod deliveries;
mod driving;
mod expiry;
#[cfg(target_os = "linux")] // compares with the kernel
mod far;
mod fuzz;
mod gettime;
mod handlers;
mod host;
#[cfg(target_arch = "x86_64")] // whose kernel runs 32-bit programs
mod i386;
mod ids;
mod jumps;
mod limits;
#[cfg(target_os = "linux")] // forks and executes
mod lives;
mod overrun;
mod settime;
mod shares;
mod stress;

/// Makes a `#[test]` of each `fn name(m: &Machine)` on every machine.
macro_rules! on_every_machine {
    ($($name:ident),* $(,)?) => {
        $crate::on_machines! { [$($name)*]
            kernel: $crate::kernel::machine();
            by_thread: $crate::engine::by_thread();
            by_turns: $crate::engine::by_turns();
        }
    };
}

/// As `on_every_machine`, without the machine that expires timers in another thread. Each use gives the reason.
macro_rules! on_machines_of_one_thread {
    ($($name:ident),* $(,)?) => {
        $crate::on_machines! { [$($name)*]
            kernel_alone: $crate::kernel::machine();
            by_turns_alone: $crate::engine::by_turns();
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
                    if stringify!($module).starts_with("kernel") && !$crate::kernel::is_as_described() {
                        return;
                    }
                    let name = concat!(module_path!(), "::", stringify!($name));
                    let (_crate, name) = name.split_once("::").expect("a path has a crate");
                    $crate::alone::alone(name, || super::$name(&$machine));
                }
            )*
        }
    };
}

pub(crate) use {on_every_machine, on_machine, on_machines, on_machines_of_one_thread};
