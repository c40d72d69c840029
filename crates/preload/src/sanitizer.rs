//! The options that AddressSanitizer asks this library for when it starts.

use core::ffi::{CStr, c_char};

/// The default options, which the program's own options override. AddressSanitizer would end a program whose first
/// library is not AddressSanitizer itself, and it finds this library first. Functions that both libraries replace call
/// ours first and then AddressSanitizer's.
#[unsafe(no_mangle)]
pub extern "C" fn __asan_default_options() -> *const c_char {
    const OPTIONS: &CStr = c"verify_asan_link_order=0";
    OPTIONS.as_ptr()
}
