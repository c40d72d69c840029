//! The program's own memory, at whatever address it names: a bad one is `EFAULT`, as in the kernel, and no crash.
//!
//! Each access below is one instruction whose address stands in a table. The handler of SIGSEGV and SIGBUS looks the
//! faulting instruction up there and goes on where the table says; see [`fixup`].

use core::arch::{asm, global_asm};
use std::vec::Vec;

use ufutex::{Access, Fault, UserMemory, Width};

/// The memory of this process.
pub struct Native;

/// One line of the table: both relative to themselves.
#[repr(C)]
struct Line {
    faults: i32,
    resume: i32,
}

// Of this library, and not of whoever else has such a section.
global_asm!(".hidden __start_ufutex_fixups", ".hidden __stop_ufutex_fixups");

unsafe extern "C" {
    /// What the linker calls the ends of the section.
    static __start_ufutex_fixups: [Line; 0];
    static __stop_ufutex_fixups: [Line; 0];
}

/// Where to go on after the instruction at `rip` faulted; `None` when that is no access of this file.
pub fn fixup(rip: u64) -> Option<u64> {
    let (mut line, end) = (&raw const __start_ufutex_fixups, &raw const __stop_ufutex_fixups);
    let target = |field: *const i32| {
        // SAFETY: a field of a line of the table, which is never changed.
        (field as u64).wrapping_add_signed(unsafe { *field }.into())
    };
    while line < end {
        let this = line.cast::<Line>();
        // SAFETY: `this` lies between the ends of the table.
        let (faults, resume) = unsafe { (&raw const (*this).faults, &raw const (*this).resume) };
        if target(faults) == rip {
            return Some(target(resume));
        }
        line = this.wrapping_add(1).cast();
    }
    None
}

/// An instruction that may fault: `$fault` is 0 before it, and 1 when it did.
macro_rules! guarded {
    ($instruction:literal, fault = $fault:ident, $($operands:tt)*) => {
        asm!(
            "mov {fault:e}, 1",
            concat!("2: ", $instruction),
            "mov {fault:e}, 0",
            "3:",
            ".pushsection ufutex_fixups, \"aR\"",
            ".balign 4",
            ".long 2b - .",
            ".long 3b - .",
            ".popsection",
            fault = out(reg) $fault,
            $($operands)*
            options(nostack)
        )
    };
}

/// Reads what is there, in one piece.
#[inline(always)]
fn load(address: u64, width: Width) -> Result<u64, Fault> {
    let (value, fault): (u64, u32);
    // SAFETY: reads memory or goes to the end of the block; on x86-64 every load is an acquire.
    unsafe {
        match width {
            Width::U32 => {
                guarded!("mov {value:e}, dword ptr [{at}]", fault = fault, at = in(reg) address, value = out(reg) value,)
            }
            Width::U8 => {
                guarded!("movzx {value:e}, byte ptr [{at}]", fault = fault, at = in(reg) address, value = out(reg) value,)
            }
            Width::U16 => {
                guarded!("movzx {value:e}, word ptr [{at}]", fault = fault, at = in(reg) address, value = out(reg) value,)
            }
            Width::U64 => {
                guarded!("mov {value}, qword ptr [{at}]", fault = fault, at = in(reg) address, value = out(reg) value,)
            }
        }
    }
    if fault == 0 { Ok(value) } else { Err(Fault) }
}

/// Copies `len` bytes; the addresses may be anybody's.
///
/// # Safety
/// Whatever is written to must be the program's to give, if it is there at all.
unsafe fn copy(from: u64, to: u64, len: usize) -> Result<(), Fault> {
    let fault: u32;
    // SAFETY: writes what the caller says, or goes to the end of the block; the direction flag is clear by the ABI.
    unsafe {
        guarded!("rep movsb", fault = fault,
            inout("rsi") from => _, inout("rdi") to => _, inout("rcx") len => _,);
    }
    if fault == 0 { Ok(()) } else { Err(Fault) }
}

/// The `T` that the program points to.
pub fn read<T: Copy>(address: u64) -> Result<T, Fault> {
    let mut value = core::mem::MaybeUninit::<T>::uninit();
    // SAFETY: `value` is ours and as large; all of it is written when there is no fault. Callers name plain data only,
    // for which all bytes are good.
    unsafe {
        copy(address, value.as_mut_ptr() as u64, size_of::<T>())?;
        Ok(value.assume_init())
    }
}

/// The string at `address`, with its end; `None` when it is longer than `max`.
pub fn string(address: u64, max: usize) -> Result<Option<Vec<u8>>, Fault> {
    let mut string = Vec::new();
    while string.len() < max {
        let byte = load(address.wrapping_add(string.len() as u64), Width::U8)? as u8;
        string.push(byte);
        if byte == 0 {
            return Ok(Some(string));
        }
    }
    Ok(None)
}

/// Stores a `T` where the program points to.
pub fn write<T: Copy>(address: u64, value: &T) -> Result<(), Fault> {
    // SAFETY: it is the program that said where its system call is to store.
    unsafe { copy(core::ptr::from_ref(value) as u64, address, size_of::<T>()) }
}

impl UserMemory for Native {
    #[inline(always)]
    fn load(&self, address: u64, width: Width) -> Result<u64, Fault> {
        load(address, width)
    }

    fn compare_exchange(&self, address: u64, width: Width, current: u64, new: u64) -> Result<Result<u64, u64>, Fault> {
        let (mut found, fault): (u64, u32) = (current, 0);
        let mut result = fault;
        // SAFETY: changes the word that the program names in its call, or goes to the end of the block; a locked
        // instruction orders like SeqCst.
        unsafe {
            match width {
                Width::U32 => guarded!("lock cmpxchg dword ptr [{at}], {new:e}", fault = result,
                    at = in(reg) address, new = in(reg) new, inout("rax") found,),
                Width::U64 => guarded!("lock cmpxchg qword ptr [{at}], {new}", fault = result,
                    at = in(reg) address, new = in(reg) new, inout("rax") found,),
                Width::U16 => guarded!("lock cmpxchg word ptr [{at}], {new:x}", fault = result,
                    at = in(reg) address, new = in(reg) new, inout("rax") found,),
                Width::U8 => guarded!("lock cmpxchg byte ptr [{at}], {new}", fault = result,
                    at = in(reg) address, new = in(reg_byte) new as u8, inout("rax") found,),
            }
        }
        let (found, current) = (found & width.max(), current & width.max());
        if result != 0 {
            Err(Fault)
        } else if found == current {
            Ok(Ok(found))
        } else {
            Ok(Err(found))
        }
    }

    /// What is not there yet the access itself has brought in. What still faults is not allowed.
    fn fault_in(&self, address: u64, access: Access) -> Result<(), Fault> {
        match access {
            Access::Read => load(address, Width::U8).map(drop),
            // The value does not matter: 0 is replaced by 0, or nothing is.
            Access::Write => self.compare_exchange(address & !3, Width::U32, 0, 0).map(drop),
        }
    }

    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        // SAFETY: writes `into`.
        unsafe { copy(address, into.as_mut_ptr() as u64, into.len()) }
    }

    fn write(&self, address: u64, from: &[u8]) -> Result<(), Fault> {
        // SAFETY: it is the program that said where its system call is to store.
        unsafe { copy(from.as_ptr() as u64, address, from.len()) }
    }
}
