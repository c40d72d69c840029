//! The first line of a script, read as the kernel reads it; and short paths without an allocator.

use core::ffi::{CStr, c_int};

/// How much of a file the kernel reads to find out what it is.
pub const HEAD_BYTES: usize = 256;

/// A path that ends with NUL, or is empty.
#[derive(Clone, Copy)]
pub struct Name {
    bytes: [u8; HEAD_BYTES],
}

impl Name {
    pub const fn none() -> Self {
        Self { bytes: [0; HEAD_BYTES] }
    }

    /// Sets the name to `path`, which is shorter than a script's head.
    pub fn set(&mut self, path: &[u8]) {
        self.bytes.fill(0);
        self.bytes[..path.len()].copy_from_slice(path);
    }

    pub fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or_default()
    }
}

/// The interpreter of a script that begins with `head`. If the file is shorter than `head`, the rest of `head` is
/// zeroes. The path is empty if the file ends before it. `None` if this is not a script to the kernel: the line is
/// empty, or the path may go on beyond the head.
pub fn interpreter(head: &[u8; HEAD_BYTES]) -> Option<&[u8]> {
    let line = &head[2..];
    let line = &line[..line.iter().position(|byte| *byte == b'\n').unwrap_or(line.len())];
    let ended = line.len() < HEAD_BYTES - 2;
    let start = line.iter().position(|byte| !is_blank(byte))?;
    let path = &line[start..];
    let path = match path.iter().position(|byte| is_blank(byte) || *byte == 0) {
        Some(end) => &path[..end],
        None if ended => path,
        None => return None,
    };
    // If only blanks and zeroes follow, the path is empty, which to the kernel is the working directory. `File::open`
    // refuses it.
    Some(path)
}

fn is_blank(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// The path `/proc/self/fd/N`.
pub fn descriptor_link(descriptor: c_int) -> Name {
    const DIRECTORY: &[u8] = b"/proc/self/fd/";
    let mut name = Name::none();
    name.set(DIRECTORY);
    let mut rest = descriptor.unsigned_abs();
    let digits = rest.checked_ilog10().unwrap_or(0) as usize + 1;
    for place in name.bytes[DIRECTORY.len()..][..digits].iter_mut().rev() {
        *place = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(start: &[u8]) -> Option<Vec<u8>> {
        let mut head = [0; HEAD_BYTES];
        head[..start.len()].copy_from_slice(start);
        interpreter(&head).map(<[u8]>::to_vec)
    }

    #[test]
    fn an_interpreter_ends_at_a_blank_at_the_end_of_the_line_or_of_the_file() {
        for line in ["#!/bin/sh\nx", "#!/bin/sh", "#! /bin/sh -e\n", "#!\t /bin/sh\t-e -u\n", "#!/bin/sh \n"] {
            assert_eq!(of(line.as_bytes()).as_deref(), Some(&b"/bin/sh"[..]), "{line:?}");
        }
    }

    #[test]
    fn an_empty_line_has_none() {
        for line in ["#!\n/bin/sh", "#!  \t\n"] {
            assert_eq!(of(line.as_bytes()), None, "{line:?}");
        }
        for file in ["#!", "#! \t"] {
            assert_eq!(of(file.as_bytes()).as_deref(), Some(&b""[..]), "{file:?}");
        }
    }

    #[test]
    fn a_path_that_reaches_the_end_of_the_head_is_no_interpreter() {
        let long = |path: usize, end: &[u8]| of(&[b"#!/", &[b'a'].repeat(path - 1)[..], end].concat());
        assert_eq!(long(254, b""), None);
        assert_eq!(long(253, b"\n").map(|path| path.len()), Some(253));
        assert_eq!(long(253, b" ").map(|path| path.len()), Some(253));
    }

    #[test]
    fn a_descriptor_is_written_in_decimal() {
        for number in [0, 9, 10, 4095, c_int::MAX] {
            assert_eq!(descriptor_link(number).as_c_str().to_str(), Ok(&*format!("/proc/self/fd/{number}")));
        }
    }
}
