//! The environment entries that a program needs for the library to be loaded into it and to find its settings.
//!
//! The command writes them. If a program gives a child another environment, the library adds them.

use core::ffi::{CStr, c_char};

/// The variable with the settings: [`Settings`](crate::settings::Settings).
pub const SETTINGS: &str = "UFUTEX_RUN";
/// The loader's variable: a list of libraries, separated by colons or spaces.
pub const PRELOAD: &str = "LD_PRELOAD";
/// The variable from which the command takes the library's path.
pub const LIBRARY: &str = "UFUTEX_PRELOAD";
/// The library's file name.
pub const LIBRARY_NAME: &str = "libufutex_preload.so";
/// The symbol by which the command knows a file as the library.
pub const LIBRARY_SYMBOL: &str = "UFUTEX_PRELOAD_LIBRARY";

/// The value, if the environment entry `NAME=value` is one of the variable `name`.
#[must_use]
pub fn value_of<'e>(entry: &'e [u8], name: &str) -> Option<&'e [u8]> {
    entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=")
}

/// Whether a value of `LD_PRELOAD` names the library with exactly this path.
#[must_use]
pub fn preloads(list: &[u8], library: &[u8]) -> bool {
    list.split(is_separator).any(|one| one == library)
}

/// Whether the loader would read the path literally: its lists have no escapes, and `$` begins a token of its own.
#[must_use]
pub fn can_be_preloaded(library: &[u8]) -> bool {
    !library.is_empty() && !library.iter().any(|byte| is_separator(byte) || *byte == b'$')
}

fn is_separator(byte: &u8) -> bool {
    matches!(byte, b':' | b' ')
}

/// The entry of `LD_PRELOAD` with the library first and the previous list after it, in pieces. A caller without an
/// allocator copies them into a buffer.
///
/// ```
/// use ufutex_program::environment::preload_entry;
///
/// assert_eq!(preload_entry(b"/lib/u.so", None).concat(), b"LD_PRELOAD=/lib/u.so");
/// assert_eq!(preload_entry(b"/lib/u.so", Some(b"a.so:b.so")).concat(), b"LD_PRELOAD=/lib/u.so:a.so:b.so");
/// ```
#[must_use]
pub const fn preload_entry<'a>(library: &'a [u8], before: Option<&'a [u8]>) -> [&'a [u8]; 4] {
    match before {
        Some(list) if !list.is_empty() => [b"LD_PRELOAD=", library, b":", list],
        _ => [b"LD_PRELOAD=", library, b"", b""],
    }
}

/// The entries that an environment lacks for the library to be loaded and to find its settings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Missing<'e> {
    /// Not `None` if `LD_PRELOAD` does not name the library. The inner value is the list in `LD_PRELOAD`, `None`
    /// without one.
    pub preload: Option<Option<&'e [u8]>>,
    /// True if there is no `UFUTEX_RUN`.
    pub settings: bool,
}

/// Searches an environment. A program may change the value of `UFUTEX_RUN`, so any value is accepted. Of several
/// entries with one name the loader uses the last. Allocates nothing.
pub fn missing<'e>(entries: impl Iterator<Item = &'e [u8]>, library: &[u8]) -> Missing<'e> {
    let mut list = None;
    let mut settings = false;
    for entry in entries {
        list = value_of(entry, PRELOAD).or(list);
        settings |= value_of(entry, SETTINGS).is_some();
    }
    let there = list.is_some_and(|list| preloads(list, library));
    Missing { preload: (!there).then_some(list), settings: !settings }
}

/// The entries of an environment as `execve` takes it. A null pointer means an empty environment, as for the kernel.
///
/// # Safety
/// `environment` is null, or a list of strings that ends with a null pointer and does not change during `'e`.
pub unsafe fn entries<'e>(environment: *const *const c_char) -> impl Iterator<Item = &'e [u8]> {
    let mut next = environment;
    core::iter::from_fn(move || {
        if next.is_null() {
            return None;
        }
        // SAFETY: the caller guarantees the list. `next` has not passed the null pointer that ends it, or we would have
        // stopped there.
        let entry = unsafe { next.read() };
        if entry.is_null() {
            next = core::ptr::null();
            return None;
        }
        // SAFETY: this entry is not the null pointer, so another entry follows.
        next = unsafe { next.add(1) };
        // SAFETY: the caller guarantees a string that ends with NUL and does not change.
        Some(unsafe { CStr::from_ptr(entry) }.to_bytes())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr;

    const OURS: &[u8] = b"/opt/libufutex_preload.so";

    fn of<'e>(list: &[&'e [u8]]) -> Missing<'e> {
        missing(list.iter().copied(), OURS)
    }

    #[test]
    fn an_empty_environment_lacks_both() {
        assert_eq!(of(&[]), Missing { preload: Some(None), settings: true });
    }

    #[test]
    fn the_environment_that_the_command_writes_is_complete() {
        for before in [None, Some(&b""[..]), Some(b"a.so"), Some(b"a.so:b.so c.so")] {
            let entry = preload_entry(OURS, before).concat();
            assert_eq!(of(&[b"HOME=/", &entry, b"UFUTEX_RUN=trap"]), Missing { preload: None, settings: false });
        }
    }

    #[test]
    fn another_library_whose_path_contains_ours_is_not_ours() {
        let other = &b"LD_PRELOAD=/opt/libufutex_preload.so.1:/chroot/opt/libufutex_preload.so"[..];
        let list = value_of(other, PRELOAD);
        assert_eq!(of(&[other]), Missing { preload: Some(list), settings: true });
        assert_eq!(of(&[b"XLD_PRELOAD=/opt/libufutex_preload.so"]).preload, Some(None));
    }

    #[test]
    fn the_loader_separates_by_colon_and_space_and_takes_the_last_entry() {
        assert_eq!(of(&[b"LD_PRELOAD=a.so /opt/libufutex_preload.so"]).preload, None);
        assert_eq!(of(&[b"LD_PRELOAD=/opt/libufutex_preload.so", b"LD_PRELOAD="]).preload, Some(Some(&b""[..])));
    }

    #[test]
    fn a_path_that_the_loader_would_take_apart_is_known() {
        assert!(can_be_preloaded(OURS));
        for path in [&b"/a b/u.so"[..], b"/a:b/u.so", b"/$LIB/u.so", b""] {
            assert!(!can_be_preloaded(path));
        }
    }

    #[test]
    fn entries_end_with_the_null_pointer_and_a_null_list_is_empty() {
        let list = [c"A=1".as_ptr(), c"B".as_ptr(), ptr::null(), c"C=3".as_ptr()];
        // SAFETY: a list of string literals that a null pointer ends.
        assert_eq!(unsafe { entries(list.as_ptr()) }.collect::<Vec<_>>(), [&b"A=1"[..], b"B"]);
        // SAFETY: null is accepted.
        assert_eq!(unsafe { entries(ptr::null()) }.count(), 0);
    }
}
