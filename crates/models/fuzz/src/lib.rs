//! Fuzz targets: functions of an input, which panic if an invariant does not hold.
//!
//! Each is a program that the input chooses: a sequence of calls with hostile arguments, or a file. Nothing depends on
//! the time, on chance or on addresses, so that an input does the same each time.

#![cfg(all(target_os = "linux", target_pointer_width = "64"))]

mod bytes;
pub mod capi;
pub mod elf;
mod errno;
pub mod futex;
mod memory;
pub mod rows;
pub mod timer;
pub mod topology;

/// A name, and a function of an input.
pub type Target = (&'static str, fn(&[u8]));

/// The targets by their names, which are also those of their corpora.
pub const TARGETS: [Target; 7] = [
    ("futex", futex::calls),
    ("faults", futex::calls_with_faults),
    ("timer", timer::calls),
    ("capi", capi::calls),
    ("elf", elf::file),
    ("topology", topology::text),
    ("rows", rows::files),
];
