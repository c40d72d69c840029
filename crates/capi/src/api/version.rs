//! The version of the library.

use core::ffi::c_char;

const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");

/// The version of the running library, as "0.1.0".
///
/// Async-signal-safe.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub extern "C" fn ufutex_version() -> *const c_char {
    VERSION.as_ptr().cast()
}

const fn part(text: &str) -> u32 {
    match u32::from_str_radix(text, 10) {
        Ok(number) => number,
        Err(_) => panic!("a version is made of numbers"),
    }
}

/// The version of the running library as a number: major << 16 | minor << 8 | patch.
///
/// Async-signal-safe.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub extern "C" fn ufutex_version_number() -> u32 {
    const {
        part(env!("CARGO_PKG_VERSION_MAJOR")) << 16
            | part(env!("CARGO_PKG_VERSION_MINOR")) << 8
            | part(env!("CARGO_PKG_VERSION_PATCH"))
    }
}
