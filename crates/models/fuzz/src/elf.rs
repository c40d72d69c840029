//! Files that a program executes.

use std::ffi::CStr;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use ufutex_program::elf::{Reason, check};

/// Checks a file with these contents, which `execveat` would run.
pub fn file(input: &[u8]) {
    let mut file = std::fs::File::from(executable_file());
    file.write_all(input).expect("there is memory");
    let empty: &CStr = c"";
    match check(file.as_raw_fd(), empty) {
        Ok(()) => assert!(is_script(input) || is_loaded_by_glibc(input), "nothing can be preloaded here"),
        Err(refusal) => {
            let about = refusal.about(b"program").to_string();
            assert!(about.lines().count() == 1, "{about:?}");
            match refusal.reason {
                Reason::NotRunnable(errno) | Reason::NotReadable(errno) => assert!(errno > 0),
                Reason::Machine(_) | Reason::Bits32 | Reason::Static | Reason::Musl | Reason::Loader => {
                    assert!(is_script(input) || input.starts_with(b"\x7fELF"), "{:?}", refusal.reason);
                }
                _ => {}
            }
        }
    }
}

/// A new file in memory. Linux before 6.3 does not know the flag that says that it may be executed.
fn executable_file() -> OwnedFd {
    // SAFETY: a name.
    let made = [libc::MFD_EXEC, 0].map(|flag| unsafe { libc::memfd_create(c"program".as_ptr(), flag) });
    let [first, second] = made.map(|file| {
        // SAFETY: a new file that nothing else owns.
        (file >= 0).then(|| unsafe { OwnedFd::from_raw_fd(file) })
    });
    first.or(second).expect("the kernel makes a file in memory")
}

fn is_script(input: &[u8]) -> bool {
    input.starts_with(b"#!")
}

/// A 64-bit little-endian x86 file that names glibc's loader.
fn is_loaded_by_glibc(input: &[u8]) -> bool {
    input.starts_with(b"\x7fELF\x02\x01") && input[18] == 62 && {
        input.windows(21).any(|window| window == b"ld-linux-x86-64.so.2\0")
    }
}
