//! The instructions that are replaced, and the bytes that replace them.
//!
//! A `syscall` is two bytes long, and a jump five or, with a prefix that has no meaning here, six. A jump over
//! `0f 05 aa bb cc dd` is one of these, where `..` may be any byte:
//!
//! ```text
//! 48 e9 aa bb cc dd      jmp +0xddccbbaa
//! e9 .. aa bb cc         jmp +0xccbbaa..
//! ```

use memchr::memmem;

/// A jump that takes the place of a `syscall` instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Jump {
    /// The bytes that are written over the instruction.
    pub bytes: [u8; 2],
    /// The distance from the instruction to the jump's target.
    pub distance: i64,
}

/// How many bytes behind the instruction a jump may take.
pub const TAIL: usize = 4;

/// How many jumps may replace a `syscall`.
pub const JUMPS: usize = 2;

/// The jumps that may replace a `syscall` with these bytes behind it.
pub fn jumps([a, b, c, d]: [u8; TAIL]) -> [Jump; JUMPS] {
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

/// How far before a call with a comparison its number may be loaded. Compilers load it before a loop that makes the
/// call. If the number belongs to another call, the stub makes the other call.
const REACH: usize = 256;

/// The offsets of the `syscall` instructions in `text` that seem to make futex calls, in ascending order, each with the
/// bytes behind it.
///
/// The two bytes alone might be part of another instruction. So one of two instructions must stand beside them.
pub fn find(text: &[u8]) -> impl Iterator<Item = (usize, [u8; TAIL])> {
    memmem::find_iter(text, &SYSCALL).filter_map(|at| {
        let (before, behind) = (&text[at.saturating_sub(REACH)..at], &text[at + 2..]);
        let is_site = before.ends_with(&LOAD) || behind.starts_with(&COMPARISON) && loads_number(before);
        behind.first_chunk().filter(|_| is_site).map(|tail| (at, *tail))
    })
}

/// Whether this code loads futex(2)'s number into a register.
fn loads_number(code: &[u8]) -> bool {
    const NUMBER: [u8; 4] = (libc::SYS_futex as u32).to_le_bytes();
    // mov r32, imm32
    code.windows(5).any(|instruction| matches!(instruction[0], 0xb8..=0xbf) && instruction[1..] == NUMBER)
}

/// The length of a stub.
pub const STUB: usize = 42;
/// The offset in a stub of the program's own `syscall`.
const OWN_CALL: usize = 35;

/// The code at `stub` for the `syscall` at `site`. A futex call goes on at `futex`, with the address behind the site in
/// r11 and that of the stub's own `syscall` in rcx, which are the two registers that `syscall` overwrites. All other
/// calls are made here, without touching the stack: a vfork(2) shares it, and a clone(2) changes it. `None` if the
/// stub is too far from the site.
pub fn stub(stub: u64, site: u64, futex: u64) -> Option<[u8; STUB]> {
    let after = site + 2;
    let distance = |from: usize| {
        let distance = after.wrapping_sub(stub + from as u64).cast_signed();
        Some(i32::try_from(distance).ok()?.to_le_bytes())
    };
    let mut code = [0; STUB];
    code[..5].copy_from_slice(&[0x3d, libc::SYS_futex as u8, 0, 0, 0]); // cmp eax, 202
    code[5..7].copy_from_slice(&[0x75, OWN_CALL as u8 - 7]); // jne to the syscall below
    code[7..14].copy_from_slice(&[0x48, 0x8d, 0x0d, OWN_CALL as u8 - 14, 0, 0, 0]); // lea rcx, [rip + …]
    code[14..17].copy_from_slice(&[0x4c, 0x8d, 0x1d]); // lea r11, [rip + …]
    code[17..21].copy_from_slice(&distance(21)?);
    code[21..27].copy_from_slice(&[0xff, 0x25, 0, 0, 0, 0]); // jmp [rip]
    code[27..35].copy_from_slice(&futex.to_le_bytes());
    code[OWN_CALL..37].copy_from_slice(&[0x0f, 0x05]); // syscall
    code[37] = 0xe9; // jmp
    code[38..STUB].copy_from_slice(&distance(STUB)?);
    Some(code)
}

/// The offset from the site at which a thread would be if no stub existed, for a thread at this offset in a stub.
/// `None` if it is not in the stub.
pub fn counterpart(offset: usize) -> Option<u64> {
    const MADE: usize = OWN_CALL + 2;
    match offset {
        0..MADE => Some(0), // the jump is executed once more
        MADE..STUB => Some(2),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    const NONE: [usize; 0] = [];
    const TAILS: [[u8; TAIL]; 4] =
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
    fn a_site_is_a_loaded_or_a_compared_call() {
        let find = |parts: &[&[u8]]| find(&parts.concat()).map(|(at, _)| at).collect::<Vec<_>>();
        assert_eq!(find(&[&LOAD, &SYSCALL, &COMPARISON]), [5], "both, found once");
        assert_eq!(find(&[&LOAD, &SYSCALL, &[0x90; 4]]), [5]);
        assert_eq!(find(&[&LOAD, &SYSCALL, &[0x90; 3]]), NONE, "no room for a jump");
        assert_eq!(find(&[&[0x41, 0xbd], &LOAD[1..], &[0x90; 200], &SYSCALL, &COMPARISON]), [206]);
        assert_eq!(find(&[&LOAD, &[0x90; 300], &SYSCALL, &COMPARISON]), NONE, "too far");
        assert_eq!(find(&[&[0xe8], &LOAD[1..], &SYSCALL, &COMPARISON]), NONE, "a call, not a load");
        assert_eq!(find(&[&[0xb8, 0xcb, 0, 0, 0], &SYSCALL, &COMPARISON]), NONE, "another number");
        assert_eq!(find(&[&LOAD, &[0x90], &SYSCALL, &COMPARISON[..5], &[0xfe]]), NONE, "another comparison");
        assert_eq!(find(&[]), NONE);
    }

    #[test]
    fn a_stub_leads_to_the_engine_and_back() {
        let (at, futex) = (0x7000_0000_0000_u64, 0x1234_5678_9abc);
        for site in [at + 0x1000_0000, at - 0x7fff_0000] {
            let stub = stub(at, site, futex).unwrap();
            let word = |at: usize| i32::from_le_bytes(stub[at..at + 4].try_into().unwrap());
            let target = |end: usize| (at + end as u64).wrapping_add_signed(word(end - 4).into());
            assert_eq!(target(14), at + OWN_CALL as u64);
            assert_eq!(target(21), site + 2);
            assert_eq!(stub[27..35], futex.to_le_bytes());
            assert_eq!(target(STUB), site + 2);
            assert_eq!(7 + usize::from(stub[6]), OWN_CALL);
            assert_eq!(stub[OWN_CALL..][..2], [0x0f, 0x05]);
        }
        assert_eq!(stub(at, at + (1 << 31) + 19, futex), None);
        assert_eq!(stub(at, at - (1 << 31), futex), None);
    }

    #[test]
    fn an_interrupted_stub_is_before_or_behind_its_instruction() {
        let places = [0, OWN_CALL, OWN_CALL + 2, STUB - 1, STUB];
        assert_eq!(places.map(counterpart), [Some(0), Some(0), Some(2), Some(2), None]);
    }
}
