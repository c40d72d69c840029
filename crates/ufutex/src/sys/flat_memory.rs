//! Guest memory that is memory of this program.

use core::ptr::with_exposed_provenance_mut;
use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use super::mem::{Access, Fault, UserMemory, Width};

/// A guest's memory in one piece of this program's: the guest's addresses from `first` on are the bytes from `base` on, which
/// never fault. Words have the host's byte order: a guest with the other needs a [`UserMemory`] that swaps bytes.
///
/// ```
/// use std::sync::atomic::AtomicU64;
/// use ufutex::{Domain, FlatMemory, System, syscall::Number};
///
/// let bytes = [const { AtomicU64::new(5) }; 512];
/// // SAFETY: the bytes outlive the memory, and are accessed by atomic operations alone.
/// let memory = unsafe { FlatMemory::new(bytes.as_ptr().cast_mut().cast(), 0x10_0000, 4096) };
/// let domain = Domain::new(&System::new());
/// let (task, futex) = (domain.task(1)?, Number::x86_64(202).expect("futex(2)"));
/// const WAIT_PRIVATE: u64 = 128;
/// assert_eq!(domain.syscall(&task, &memory, futex, [0x10_0000, WAIT_PRIVATE, 4, 0, 0, 0]), -11); // EAGAIN: it is 5
/// assert_eq!(domain.syscall(&task, &memory, futex, [0x10_1000, WAIT_PRIVATE, 4, 0, 0, 0]), -14); // EFAULT
/// # Ok::<(), ufutex::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct FlatMemory {
    base: usize,
    first: u64,
    length: u64,
}

impl FlatMemory {
    /// `length` bytes from `base` on, for the guest's addresses from `first` on.
    ///
    /// # Safety
    /// They can be read and written while the memory is used. This program accesses those that the guest passes to the engine
    /// by atomics alone. `base` and `first` are equally aligned, to 8 bytes.
    pub unsafe fn new(base: *mut u8, first: u64, length: u64) -> Self {
        debug_assert_eq!(base.addr() as u64 % 8, first % 8, "base and first are equally aligned");
        Self { base: base.expose_provenance(), first, length }
    }

    /// The memory of a guest whose addresses are this program's own, except those of the first page.
    ///
    /// # Safety
    /// Each address that the guest passes can be read, and written if the call writes. This program uses atomics alone there.
    pub const unsafe fn of_this_program() -> Self {
        const PAGE: usize = 4096;
        Self { base: PAGE, first: PAGE as u64, length: (usize::MAX - PAGE) as u64 }
    }

    /// The caller checks the alignment, as the engine has.
    fn place(&self, address: u64, width: Width) -> Result<*mut (), Fault> {
        let offset = address.checked_sub(self.first).ok_or(Fault)?;
        let is_inside = self.length.checked_sub(width.bytes()).is_some_and(|last| offset <= last);
        if is_inside { Ok(with_exposed_provenance_mut(self.base.wrapping_add(offset as usize))) } else { Err(Fault) }
    }
}

macro_rules! with_word {
    ($place:ident, $width:ident, $word:ident => $body:expr) => {
        with_word!(@ $place, $width, $word => $body, U8 AtomicU8, U16 AtomicU16, U32 AtomicU32, U64 AtomicU64)
    };
    (@ $place:ident, $width:ident, $word:ident => $body:expr, $($bits:ident $atomic:ident),*) => {
        match $width {
            $(Width::$bits => {
                // SAFETY: valid, as the constructor's caller has promised; aligned, as `UserMemory` promises.
                let $word = unsafe { $atomic::from_ptr($place.cast()) };
                $body
            })*
        }
    };
}

#[expect(clippy::useless_conversion, reason = "one of the four widths is 64 bits itself")]
impl UserMemory for FlatMemory {
    #[inline]
    fn load(&self, address: u64, width: Width) -> Result<u64, Fault> {
        let place = self.place(address, width)?;
        Ok(with_word!(place, width, word => word.load(Ordering::Acquire).into())) // [M]
    }

    #[inline]
    fn compare_exchange(&self, address: u64, width: Width, current: u64, new: u64) -> Result<Result<u64, u64>, Fault> {
        let place = self.place(address, width)?;
        Ok(with_word!(place, width, word => {
            let result = word.compare_exchange(current as _, new as _, Ordering::AcqRel, Ordering::Acquire); // [M], [P]
            result.map(u64::from).map_err(u64::from)
        }))
    }

    fn fault_in(&self, _address: u64, _access: Access) -> Result<(), Fault> {
        Err(Fault)
    }
}
