//! Reads and writes structs that cross the interface. Each begins with its size, so that programs and libraries of
//! different versions work together: fields that an older program lacks are 0, and fields that an older library does
//! not know must be 0.

use core::mem::MaybeUninit;
use core::ptr;

use crate::errno::Errno;

/// A struct of the interface that a program may pass.
///
/// # Safety
/// The type is `repr(C)` and begins with its size, a `usize`. Every pattern of bits is a valid value.
pub(crate) unsafe trait Versioned: Copy {
    /// Its size in the first version of the interface.
    const FIRST_SIZE: usize = size_of::<Self>();
}

/// A greater size means that the program has not set the size: no struct will ever be that large.
const LARGEST: usize = 4096;

/// The size in the first field of the struct at `at`.
///
/// # Safety
/// `at` is null, or valid for reading the number of bytes in its first field.
unsafe fn said_size<T: Versioned>(at: *const T) -> Result<usize, Errno> {
    if at.is_null() || !at.is_aligned() {
        return Err(Errno::INVALID);
    }
    // SAFETY: the caller guarantees it.
    let size = unsafe { at.cast::<usize>().read() };
    match size {
        _ if size < T::FIRST_SIZE => Err(Errno::INVALID),
        _ if size > LARGEST => Err(Errno::TOO_BIG),
        // No version's struct ends within a pointer, half of which would be read.
        _ if !size.is_multiple_of(align_of::<u64>()) => Err(Errno::INVALID),
        _ => Ok(size),
    }
}

/// Reads a program's struct. `None` for a null pointer.
///
/// # Errors
/// [`Errno::INVALID`] if the size is less than in the first version or no multiple of the alignment of `u64`.
/// [`Errno::TOO_BIG`] if the program sets a field that this library does not know.
///
/// # Safety
/// `from` is null, or valid for reading the number of bytes in its first field.
pub(crate) unsafe fn read<T: Versioned>(from: *const T) -> Result<Option<T>, Errno> {
    if from.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller guarantees it.
    let size = unsafe { said_size(from)? };
    let known = size.min(size_of::<T>());
    let mut value = MaybeUninit::<T>::zeroed();
    // SAFETY: both have at least `known` bytes.
    unsafe { ptr::copy_nonoverlapping(from.cast::<u8>(), value.as_mut_ptr().cast::<u8>(), known) };
    // SAFETY: the caller guarantees `size` bytes.
    if (known..size).any(|i| unsafe { from.cast::<u8>().add(i).read() } != 0) {
        return Err(Errno::TOO_BIG);
    }
    // SAFETY: every pattern of bits is a value.
    Ok(Some(unsafe { value.assume_init() }))
}

/// Fills in the fields of a program's struct that both sides know. Its size stays, and the rest becomes 0.
///
/// # Errors
/// As for [`read`]; [`Errno::INVALID`] for a null pointer.
///
/// # Safety
/// `to` is null, or valid for reading and writing the number of bytes in its first field.
pub(crate) unsafe fn write<T: Versioned>(to: *mut T, value: &T) -> Result<(), Errno> {
    // SAFETY: the caller guarantees it.
    let size = unsafe { said_size(to)? };
    let known = size.min(size_of::<T>());
    let head = size_of::<usize>();
    // SAFETY: both have at least `known` bytes, and the program's struct has `size`.
    unsafe {
        let (to, from) = (to.cast::<u8>(), ptr::from_ref(value).cast::<u8>());
        ptr::copy_nonoverlapping(from.add(head), to.add(head), known - head);
        ptr::write_bytes(to.add(known), 0, size - known);
    }
    Ok(())
}

/// Stores a result in the program's memory.
///
/// # Safety
/// `to` is null, or valid for a write if it is aligned.
pub(crate) unsafe fn store<T>(to: *mut T, value: T) -> Result<(), Errno> {
    check_out(to)?;
    // SAFETY: not null and aligned, as checked above; the caller guarantees the rest.
    unsafe { to.write(value) };
    Ok(())
}

/// Checks that a result can be stored at `to`.
pub(crate) fn check_out<T>(to: *mut T) -> Result<(), Errno> {
    if to.is_null() || !to.is_aligned() { Err(Errno::INVALID) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, PartialEq, Debug)]
    #[repr(C)]
    struct Newer {
        size: usize,
        old: u64,
        new: u64,
    }
    // SAFETY: `repr(C)`, begins with its size, and is made of integers.
    unsafe impl Versioned for Newer {
        const FIRST_SIZE: usize = 16;
    }

    #[test]
    fn fields_that_an_older_program_lacks_are_zero() {
        let older = Newer { size: 16, old: 7, new: 9 };
        // SAFETY: valid for 16 bytes and more.
        assert_eq!(unsafe { read(&older) }, Ok(Some(Newer { size: 16, old: 7, new: 0 })));
        let mut answer = Newer { size: 16, old: 0, new: 5 };
        // SAFETY: as above.
        assert_eq!(unsafe { write(&mut answer, &Newer { size: 24, old: 1, new: 2 }) }, Ok(()));
        assert_eq!(answer, Newer { size: 16, old: 1, new: 5 }, "what lies behind it is not written");
    }

    #[test]
    fn unknown_fields_of_a_newer_program_are_refused_unless_zero() {
        for (beyond, result) in [(0, true), (1, false)] {
            let newer = [32u64, 1, 2, beyond];
            // SAFETY: valid for the 32 bytes that it says.
            let value = unsafe { read(newer.as_ptr().cast::<Newer>()) };
            assert_eq!(value.is_ok(), result);
            assert!(result || value == Err(Errno::TOO_BIG));
        }
        let mut answer = [32u64, 9, 9, 9];
        // SAFETY: as above.
        assert_eq!(unsafe { write(answer.as_mut_ptr().cast(), &Newer { size: 24, old: 1, new: 2 }) }, Ok(()));
        assert_eq!(answer, [32, 1, 2, 0]);
    }

    #[test]
    fn sizes_that_no_struct_has_are_refused() {
        for (size, errno) in [(0, Errno::INVALID), (15, Errno::INVALID), (4097, Errno::TOO_BIG)] {
            let value = Newer { size, old: 0, new: 0 };
            // SAFETY: nothing beyond the size is read.
            assert_eq!(unsafe { read(&value) }, Err(errno));
        }
        // SAFETY: null.
        assert_eq!(unsafe { write(ptr::null_mut(), &Newer { size: 24, old: 1, new: 2 }) }, Err(Errno::INVALID));
        let misaligned = [0u64; 4].as_ptr().cast::<u8>().wrapping_add(1).cast::<Newer>();
        // SAFETY: not read, as it is misaligned.
        assert_eq!(unsafe { read(misaligned) }, Err(Errno::INVALID));
    }
}
