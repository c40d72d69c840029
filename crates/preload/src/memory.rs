//! The program's own memory, at any address that it passes: a bad address causes `EFAULT`, as in the kernel, and no
//! crash.
//!
//! Each access below is one instruction whose address stands in a table. The handler of SIGSEGV and SIGBUS looks the
//! faulting instruction up there and continues at the address beside it; see [`fixup`].
//!
//! The program may serve a page itself (userfaultfd(2)). An access with a bucket locked must not wait for such a page,
//! since the thread that serves it may need the bucket. It does wait, but a thread that has waited for a bucket for long
//! interrupts it by a signal, and the access fails: see `stuck.rs`. The engine then unlocks the bucket, has the page
//! brought in, and starts again.

use core::arch::{asm, global_asm};
use std::vec::Vec;

use ufutex::{Access, Fault, UserMemory, Width};

/// The memory of this process.
pub struct Native;

/// An entry of the table. The first two fields are offsets from their own addresses.
#[repr(C)]
struct Line {
    faults: i32,
    resume: i32,
    /// [`WAITS`] or [`FAILS`].
    kind: u32,
}

/// The access waits for a page as long as necessary.
pub const WAITS: u32 = 0;
/// The access fails if it is interrupted. The engine repeats it after [`UserMemory::fault_in`].
const FAILS: u32 = 1;

// Hidden: other libraries may have a section with this name.
global_asm!(".hidden __start_ufutex_fixups", ".hidden __stop_ufutex_fixups");

unsafe extern "C" {
    /// The linker's names for the ends of the section.
    static __start_ufutex_fixups: [Line; 0];
    static __stop_ufutex_fixups: [Line; 0];
}

/// Where to continue after the instruction at `rip` has faulted. `None` if it is not an access of this file.
pub fn fixup(rip: u64) -> Option<u64> {
    access(rip).map(|(resume, _)| resume)
}

/// Where to continue if the instruction at `rip` is interrupted. `None` if it is not an access that may fail then.
pub fn interruption(rip: u64) -> Option<u64> {
    access(rip).filter(|(_, kind)| *kind == FAILS).map(|(resume, _)| resume)
}

fn access(rip: u64) -> Option<(u64, u32)> {
    let (mut line, end) = (&raw const __start_ufutex_fixups, &raw const __stop_ufutex_fixups);
    let target = |field: *const i32| {
        // SAFETY: a field of a line of the table, which is never changed.
        (field as u64).wrapping_add_signed(unsafe { *field }.into())
    };
    while line < end {
        let this = line.cast::<Line>();
        // SAFETY: `this` lies between the ends of the table.
        let (faults, resume, kind) = unsafe { (&raw const (*this).faults, &raw const (*this).resume, (*this).kind) };
        if target(faults) == rip {
            return Some((target(resume), kind));
        }
        line = this.wrapping_add(1).cast();
    }
    None
}

/// An instruction that may fault. `$fault` is 1 afterwards if it faulted, and 0 otherwise.
macro_rules! guarded {
    ($kind:expr, $instruction:literal, fault = $fault:ident, $($operands:tt)*) => {
        asm!(
            "mov {fault:e}, 1",
            concat!("2: ", $instruction),
            "mov {fault:e}, 0",
            "3:",
            ".pushsection ufutex_fixups, \"aR\"",
            ".balign 4",
            ".long 2b - .",
            ".long 3b - .",
            ".long {kind}",
            ".popsection",
            fault = out(reg) $fault,
            kind = const $kind,
            $($operands)*
            options(nostack)
        )
    };
}

/// Reads a word atomically.
#[inline(always)]
fn load<const KIND: u32>(address: u64, width: Width) -> Result<u64, Fault> {
    let (value, fault): (u64, u32);
    // [Pi]: on x86-64 every load is an acquire.
    // SAFETY: reads memory or goes to the end of the block.
    unsafe {
        match width {
            Width::U32 => {
                guarded!(KIND, "mov {value:e}, dword ptr [{at}]", fault = fault, at = in(reg) address, value = out(reg) value,)
            }
            Width::U8 => {
                guarded!(KIND, "movzx {value:e}, byte ptr [{at}]", fault = fault, at = in(reg) address, value = out(reg) value,)
            }
            Width::U16 => {
                guarded!(KIND, "movzx {value:e}, word ptr [{at}]", fault = fault, at = in(reg) address, value = out(reg) value,)
            }
            Width::U64 => {
                guarded!(KIND, "mov {value}, qword ptr [{at}]", fault = fault, at = in(reg) address, value = out(reg) value,)
            }
        }
    }
    if fault == 0 { Ok(value) } else { Err(Fault) }
}

/// Copies `len` bytes. Either address may be the program's, and may be bad.
///
/// # Safety
/// If the destination is mapped, it must be memory that may be written.
unsafe fn copy(from: u64, to: u64, len: usize) -> Result<(), Fault> {
    let fault: u32;
    // SAFETY: writes to the caller's destination, or continues at the end of the block; the direction flag is clear by
    // the ABI.
    unsafe {
        guarded!(WAITS, "rep movsb", fault = fault,
            inout("rsi") from => _, inout("rdi") to => _, inout("rcx") len => _,);
    }
    if fault == 0 { Ok(()) } else { Err(Fault) }
}

/// Reads the `T` at the program's `address`.
pub fn read<T: Copy>(address: u64) -> Result<T, Fault> {
    let mut value = core::mem::MaybeUninit::<T>::uninit();
    // SAFETY: `value` is our own and has the right size; all of it is written if there is no fault. Callers use only
    // plain data, for which all bytes are valid.
    unsafe {
        copy(address, value.as_mut_ptr() as u64, size_of::<T>())?;
        Ok(value.assume_init())
    }
}

/// The string at `address`, with its NUL. `None` if it is longer than `max`.
pub fn string(address: u64, max: usize) -> Result<Option<Vec<u8>>, Fault> {
    let mut string = Vec::new();
    while string.len() < max {
        let byte = load::<WAITS>(address.wrapping_add(string.len() as u64), Width::U8)? as u8;
        string.push(byte);
        if byte == 0 {
            return Ok(Some(string));
        }
    }
    Ok(None)
}

/// Stores a `T` at the program's `address`.
pub fn write<T: Copy>(address: u64, value: &T) -> Result<(), Fault> {
    // SAFETY: the program has given the address for its system call to store to.
    unsafe { copy(core::ptr::from_ref(value) as u64, address, size_of::<T>()) }
}

/// As [`UserMemory::compare_exchange`].
fn exchange<const KIND: u32>(address: u64, width: Width, current: u64, new: u64) -> Result<Result<u64, u64>, Fault> {
    let (mut found, fault): (u64, u32) = (current, 0);
    let mut result = fault;
    // [Pi]: a locked instruction orders like SeqCst.
    // SAFETY: changes the word that the program names in its call, or goes to the end of the block.
    unsafe {
        match width {
            Width::U32 => guarded!(KIND, "lock cmpxchg dword ptr [{at}], {new:e}", fault = result,
            at = in(reg) address, new = in(reg) new, inout("rax") found,),
            Width::U64 => guarded!(KIND, "lock cmpxchg qword ptr [{at}], {new}", fault = result,
            at = in(reg) address, new = in(reg) new, inout("rax") found,),
            Width::U16 => guarded!(KIND, "lock cmpxchg word ptr [{at}], {new:x}", fault = result,
            at = in(reg) address, new = in(reg) new, inout("rax") found,),
            Width::U8 => guarded!(KIND, "lock cmpxchg byte ptr [{at}], {new}", fault = result,
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

impl UserMemory for Native {
    #[inline(always)]
    fn load(&self, address: u64, width: Width) -> Result<u64, Fault> {
        load::<FAILS>(address, width)
    }

    fn compare_exchange(&self, address: u64, width: Width, current: u64, new: u64) -> Result<Result<u64, u64>, Fault> {
        exchange::<FAILS>(address, width, current, new)
    }

    /// Repeats the access: a page that is missing but allowed has then been brought in. If it still faults, it is not
    /// allowed.
    fn fault_in(&self, address: u64, access: Access) -> Result<(), Fault> {
        match access {
            Access::Read => load::<WAITS>(address, Width::U8).map(drop),
            // The value does not matter: 0 is replaced by 0, or the word stays as it is.
            Access::Write => exchange::<WAITS>(address & !3, Width::U32, 0, 0).map(drop),
        }
    }

    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        // SAFETY: writes `into`.
        unsafe { copy(address, into.as_mut_ptr() as u64, into.len()) }
    }

    fn write(&self, address: u64, from: &[u8]) -> Result<(), Fault> {
        // SAFETY: the program has given the address for its system call to store to.
        unsafe { copy(from.as_ptr() as u64, address, from.len()) }
    }
}
