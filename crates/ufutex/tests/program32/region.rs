//! The region: memory that the guest and the supervisor map. The guest's futex words lie in it, and the entries of its
//! robust lists.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use ufutex::{Fault, Width};

/// The region's address in the guest.
pub const BASE: u64 = 0x2000_0000;
/// Its size in bytes.
pub const SIZE: usize = 1 << 20;

/// The supervisor's mapping of the region.
pub struct Region {
    file: OwnedFd,
    bytes: *mut u8,
}

// SAFETY: the memory is accessed by atomics alone, and is mapped as long as the `Region` lives.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// A region full of zeroes.
    pub fn new() -> Self {
        // SAFETY: the name is a string, and the descriptor is new, so that nothing else owns it.
        let file = unsafe {
            let file = libc::memfd_create(c"program32".as_ptr(), libc::MFD_CLOEXEC);
            assert!(file >= 0, "memfd_create: {}", std::io::Error::last_os_error());
            OwnedFd::from_raw_fd(file)
        };
        // SAFETY: a new mapping, placed by the kernel, of a file that has the mapping's size.
        let bytes = unsafe {
            assert_eq!(libc::ftruncate(file.as_raw_fd(), SIZE as libc::off_t), 0);
            let rights = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(std::ptr::null_mut(), SIZE, rights, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        assert_ne!(bytes, libc::MAP_FAILED, "mmap: {}", std::io::Error::last_os_error());
        Self { file, bytes: bytes.cast() }
    }

    /// The file that the guest maps.
    pub fn file(&self) -> &OwnedFd {
        &self.file
    }

    /// The offset of a guest's address, if it is in the region.
    pub fn offset(address: u64) -> Option<u64> {
        address.checked_sub(BASE).filter(|&offset| offset < SIZE as u64)
    }

    fn word(&self, address: u64, width: Width) -> Result<*mut u8, Fault> {
        let offset = Self::offset(address).filter(|_| address.is_multiple_of(width.bytes())).ok_or(Fault)?;
        Ok(self.bytes.wrapping_add(offset as usize))
    }
}

/// Evaluates the body with an atomic of the width at the pointer.
macro_rules! by_width {
    ($width:expr, $pointer:expr, $atomic:ident => $body:expr) => {
        // SAFETY: `word` has found the word in the mapping, and aligned. So it is wholly in it.
        unsafe {
            match $width {
                Width::U8 => {
                    let $atomic = AtomicU8::from_ptr($pointer);
                    $body
                }
                Width::U16 => {
                    let $atomic = AtomicU16::from_ptr($pointer.cast());
                    $body
                }
                Width::U32 => {
                    let $atomic = AtomicU32::from_ptr($pointer.cast());
                    $body
                }
                Width::U64 => {
                    let $atomic = AtomicU64::from_ptr($pointer.cast());
                    $body
                }
            }
        }
    };
}

impl Region {
    pub fn load(&self, address: u64, width: Width) -> Result<u64, Fault> {
        let pointer = self.word(address, width)?;
        #[allow(clippy::useless_conversion, reason = "for the widest")]
        let value = by_width!(width, pointer, word => word.load(Ordering::SeqCst).into());
        Ok(value)
    }

    pub fn compare_exchange(&self, address: u64, width: Width, old: u64, new: u64) -> Result<Result<u64, u64>, Fault> {
        let pointer = self.word(address, width)?;
        #[allow(clippy::unnecessary_cast, reason = "for the widest")]
        let result = by_width!(width, pointer, word => {
            let result = word.compare_exchange(old as _, new as _, Ordering::SeqCst, Ordering::SeqCst);
            result.map(|v| v as u64).map_err(|v| v as u64)
        });
        Ok(result)
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: `new` has mapped it, and references into it do not outlive their functions.
        unsafe { libc::munmap(self.bytes.cast(), SIZE) };
    }
}
