//! Sites: the `syscall` instructions that are replaced, and the jumps that may replace them.
//!
//! A `syscall` is two bytes long. A jump is five, or six with a REX prefix, which has no effect here. A `syscall` and the
//! bytes after it, `0f 05 aa bb cc dd`, can become one of two forms of a jump. In the second, one byte may be anything.
//!
//! ```text
//! 48 e9 aa bb cc dd      jmp end + (i32) 0xddccbbaa
//! e9 .. aa bb cc         jmp end + (i32) 0xccbbaa..
//! ```

use core::ffi::{c_int, c_void};
use core::ptr;

use memchr::memmem;
use std::vec::Vec;

/// A `syscall` instruction.
pub struct Site {
    /// Its address.
    pub at: u64,
    /// The bytes after it.
    pub tail: [u8; TAIL_LEN],
}

/// How many bytes after the instruction a jump may take.
pub const TAIL_LEN: usize = 4;

/// A jump that takes the place of a `syscall` instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Jump {
    /// The bytes that are written over the instruction.
    pub bytes: [u8; 2],
    /// The distance from the jump's first byte to its target.
    pub distance: i64,
}

/// The number of forms of a jump.
pub const FORMS: usize = 2;

/// The jumps that may replace a `syscall` with this tail, by form.
pub fn jumps([a, b, c, d]: [u8; TAIL_LEN]) -> [Jump; FORMS] {
    /// Any value works.
    const ANY: u8 = 0x80;
    [
        Jump { bytes: [0x48, 0xe9], distance: 6 + i64::from(i32::from_le_bytes([a, b, c, d])) },
        Jump { bytes: [0xe9, ANY], distance: 5 + i64::from(i32::from_le_bytes([ANY, a, b, c])) },
    ]
}

const SYSCALL: [u8; 2] = [0x0f, 0x05];
/// `mov eax, 202`
const LOAD: [u8; 5] = [0xb8, libc::SYS_futex as u8, 0, 0, 0];
/// `cmp rax, -4096`: how C libraries look for an error.
const COMPARISON: [u8; 6] = [0x48, 0x3d, 0x00, 0xf0, 0xff, 0xff];

/// `int3`, which a debugger writes over the first byte of an instruction. In a displacement it would be wrong as soon as
/// the debugger takes it away.
const BREAKPOINT: u8 = 0xcc;

/// How far before a `syscall` with a comparison the call's number may be loaded. Compilers load it before a loop that
/// makes the call. If that load belongs to another `syscall`, this one is replaced by mistake. That is harmless: the
/// stub compares eax, and makes every other call itself.
const REACH: usize = 256;

/// The offsets of the `syscall` instructions in `text` that seem to make futex calls, in ascending order, each with its
/// tail.
///
/// The two bytes alone might be part of another instruction. So `LOAD` must stand right before them, or `COMPARISON`
/// right after them and a load within `REACH` before them.
fn find(text: &[u8]) -> impl Iterator<Item = (usize, [u8; TAIL_LEN])> {
    memmem::find_iter(text, &SYSCALL).filter_map(|at| {
        let (before, after) = (&text[at.saturating_sub(REACH)..at], &text[at + 2..]);
        let is_site = before.ends_with(&LOAD) || after.starts_with(&COMPARISON) && loads_number(before);
        let tail = after.first_chunk().filter(|tail| is_site && !tail.contains(&BREAKPOINT))?;
        Some((at, *tail))
    })
}

/// Whether this code loads futex(2)'s number into a register.
fn loads_number(code: &[u8]) -> bool {
    const NUMBER: [u8; 4] = (libc::SYS_futex as u32).to_le_bytes();
    // mov r32, imm32
    code.windows(5).any(|instruction| matches!(instruction[0], 0xb8..=0xbf) && instruction[1..] == NUMBER)
}

/// The sites of libc, in ascending order.
pub fn of_libc() -> Vec<Site> {
    // A function of pthreads that no sanitizer replaces by its own.
    // SAFETY: a string, and the handle that means the libraries after this one.
    let function = unsafe { libc::dlsym(libc::RTLD_NEXT, c"pthread_getconcurrency".as_ptr()) };
    let text = text_around(function.addr());
    let begins = text.as_ptr().expose_provenance() as u64;
    find(text).map(|(offset, tail)| Site { at: begins + offset as u64, tail }).collect()
}

/// How far from a pthread function futex calls are looked for. libc's pthread functions lie together, and a search of
/// all of libc takes three times as long.
const AROUND: usize = 256 << 10;

/// The code around an address, from the library that contains it. Empty if there is none.
fn text_around(address: usize) -> &'static [u8] {
    let mut found: (usize, &[u8]) = (address, &[]);
    // SAFETY: `look` gets `found`, for which it was written.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut found).cast()) };
    found.1
}

unsafe extern "C" fn look(info: *mut libc::dl_phdr_info, _: usize, found: *mut c_void) -> c_int {
    // SAFETY: the loader's description of a library, and the `found` above.
    let (info, found) = unsafe { (&*info, &mut *found.cast::<(usize, &[u8])>()) };
    // SAFETY: the loader's.
    let headers = unsafe { core::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    for header in headers {
        let begins = info.dlpi_addr.wrapping_add(header.p_vaddr) as usize;
        let ends = begins + header.p_memsz as usize;
        let is_code = header.p_flags & (libc::PF_X | libc::PF_R) == libc::PF_X | libc::PF_R;
        if header.p_type == libc::PT_LOAD && is_code && (begins..ends).contains(&found.0) {
            let (first, end) = (begins.max(found.0.saturating_sub(AROUND)), ends.min(found.0 + AROUND));
            // SAFETY: the loader keeps the segment mapped and readable. `patch` changes it when this slice is no longer
            // used.
            found.1 = unsafe { core::slice::from_raw_parts(ptr::with_exposed_provenance(first), end - first) };
            return 1;
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [usize; 0] = [];
    const TAILS: [[u8; TAIL_LEN]; 4] =
        [[0x48, 0x3d, 0x00, 0xf0], [0x89, 0xdf, 0x48, 0x89], [0xc3, 0x66, 0x2e, 0x0f], [0x83, 0xf8, 0xda, 0x74]];

    /// Reads the jump at the start of `text`, as a CPU does, and returns its distance.
    fn decode(text: &[u8]) -> i64 {
        let prefix = usize::from(text[0] == 0x48);
        assert_eq!(text[prefix], 0xe9);
        let distance = i32::from_le_bytes(text[prefix + 1..][..4].try_into().unwrap());
        (prefix + 5) as i64 + i64::from(distance)
    }

    #[test]
    fn a_jump_has_the_distance_that_its_tail_says() {
        for tail in TAILS {
            for jump in jumps(tail) {
                assert_eq!(decode(&[&jump.bytes[..], &tail].concat()), jump.distance);
            }
        }
    }

    #[test]
    fn a_site_has_a_load_before_it_or_a_comparison_after_it() {
        let find = |parts: &[&[u8]]| find(&parts.concat()).map(|(at, _)| at).collect::<Vec<_>>();
        assert_eq!(find(&[&LOAD, &SYSCALL, &COMPARISON]), [5]);
        assert_eq!(find(&[&LOAD, &SYSCALL, &[0x90; 4]]), [5]);
        assert_eq!(find(&[&LOAD, &SYSCALL, &[0x90; 3]]), NONE, "no room for a jump");
        assert_eq!(find(&[&LOAD, &SYSCALL, &[BREAKPOINT; 4]]), NONE, "a debugger's breakpoint");
        assert_eq!(find(&[&[0x41, 0xbd], &LOAD[1..], &[0x90; 200], &SYSCALL, &COMPARISON]), [206]);
        assert_eq!(find(&[&LOAD, &[0x90; 300], &SYSCALL, &COMPARISON]), NONE, "too far");
        assert_eq!(find(&[&[0xe8], &LOAD[1..], &SYSCALL, &COMPARISON]), NONE, "a call, not a load");
        assert_eq!(find(&[&[0xb8, 0xcb, 0, 0, 0], &SYSCALL, &COMPARISON]), NONE, "another number");
        assert_eq!(find(&[&LOAD, &[0x90], &SYSCALL, &COMPARISON[..5], &[0xfe]]), NONE, "another comparison");
        assert_eq!(find(&[]), NONE);
    }
}
