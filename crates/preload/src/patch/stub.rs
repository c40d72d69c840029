//! Stubs: what the jumps lead to. A stub passes futex calls on to `call.rs`, and makes all other calls itself.

use core::ptr;
use core::sync::atomic::{AtomicU64, Ordering};

use std::vec::Vec;

use super::{PAGE, Site, call, site};
use crate::raw;
use crate::signals::Context;

/// A site, the bytes that will be written there, and the stub that they lead to.
pub struct Patch {
    pub site: u64,
    pub bytes: [u8; 2],
    stub: u64,
}

impl Patch {
    /// A jump of this form at `site`.
    pub fn new(site: &Site, form: usize) -> Self {
        let jump = site::jumps(site.tail)[form];
        Self { site: site.at, bytes: jump.bytes, stub: site.at.wrapping_add_signed(jump.distance) }
    }
}

/// Makes the stubs of the patches, where nothing is mapped. Adds the patches whose stubs were made to `made`.
pub fn make(mut wanted: Vec<Patch>, made: &mut Vec<Patch>) {
    wanted.sort_unstable_by_key(|patch| patch.stub);
    let mut groups: Vec<Vec<Patch>> = Vec::new();
    for patch in wanted {
        match groups.last_mut().map(|group| (group[group.len() - 1].stub + LEN as u64, group)) {
            // It overlaps the stub before it: the site gets a jump of the other form, or stays as it is.
            Some((end, _)) if patch.stub < end => {}
            // On the same page, or the next one: one mapping for both.
            Some((end, group)) if patch.stub <= (end - 1) / PAGE * PAGE + 2 * PAGE - LEN as u64 => group.push(patch),
            _ => groups.push(std::vec![patch]),
        }
    }
    made.extend(groups.into_iter().filter_map(make_group).flatten());
}

/// Makes stubs that lie together. `None` if they cannot be made.
fn make_group(group: Vec<Patch>) -> Option<Vec<Patch>> {
    let begins = group[0].stub & !(PAGE - 1);
    let ends = (group[group.len() - 1].stub + LEN as u64).next_multiple_of(PAGE);
    let code: Option<Vec<_>> =
        group.iter().map(|patch| code(patch.stub, patch.site, call::from_stub as *const () as u64)).collect();
    let (code, memory) = (code?, map_at(begins, ends - begins)?);
    for (patch, code) in group.iter().zip(code) {
        memory[(patch.stub - begins) as usize..][..LEN].copy_from_slice(&code);
    }
    // SAFETY: mapped above. The code is written, and no jump leads to it yet.
    unsafe {
        if !raw::protect(&(begins..ends), libc::PROT_READ | libc::PROT_EXEC) {
            raw::unmap(begins, ends - begins);
            return None;
        }
    }
    Some(group)
}

/// Whether the first thread's stack may grow to this address.
fn is_for_the_stack(at: u64) -> bool {
    // SAFETY: reads the kernel's auxiliary vector, whose random bytes lie above the stack.
    let top = unsafe { libc::getauxval(libc::AT_RANDOM) };
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: stores into `limit`.
    unsafe { raw::own(libc::SYS_getrlimit, [libc::RLIMIT_STACK.into(), (&raw mut limit) as u64]) };
    // At least 1 GiB, because the program may raise the limit. No limit counts as 1 TiB: libraries are further away then.
    let most = limit.rlim_cur.clamp(1 << 30, 1 << 40);
    (top.saturating_sub(most)..top).contains(&at)
}

/// Maps memory at this address. `None` if something is mapped there, or if the stack may grow to there.
fn map_at(at: u64, len: u64) -> Option<&'static mut [u8]> {
    if is_for_the_stack(at) {
        return None;
    }
    let access = (libc::PROT_READ | libc::PROT_WRITE) as u64;
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE) as u64;
    // SAFETY: the kernel maps nothing over another mapping.
    let got = unsafe { raw::syscall6(libc::SYS_mmap, [at, len, access, flags, u64::MAX, 0]) };
    if got < 0 {
        return None;
    }
    if got as u64 != at {
        // Kernels before Linux 4.17 do not know the last flag.
        // SAFETY: mapped above.
        unsafe { raw::unmap(got as u64, len) };
        return None;
    }
    // SAFETY: mapped above, and not used otherwise.
    Some(unsafe { core::slice::from_raw_parts_mut(ptr::with_exposed_provenance_mut(at as usize), len as usize) })
}

const LEN: usize = 35;
/// The offset in a stub of its own `syscall`.
const OWN_CALL: usize = 28;
/// The offset after it.
const AFTER_CALL: usize = OWN_CALL + 2;

/// The code of the stub at `stub` for the `syscall` at `site`. A futex call goes on at `futex`, with the address after
/// the site in r11, which `syscall` overwrites too. All other calls are made here, without touching the stack: a
/// vfork(2) shares it, and a clone(2) changes it. `None` if the stub is too far from the site.
fn code(stub: u64, site: u64, futex: u64) -> Option<[u8; LEN]> {
    let after = site + 2;
    let distance = |from: usize| {
        let distance = after.wrapping_sub(stub + from as u64).cast_signed();
        Some(i32::try_from(distance).ok()?.to_le_bytes())
    };
    let mut code = [0; LEN];
    code[..5].copy_from_slice(&[0x3d, libc::SYS_futex as u8, 0, 0, 0]); // cmp eax, 202
    code[5..7].copy_from_slice(&[0x75, OWN_CALL as u8 - 7]); // jne to the syscall below
    code[7..10].copy_from_slice(&[0x4c, 0x8d, 0x1d]); // lea r11, [rip + …]
    code[10..14].copy_from_slice(&distance(14)?);
    code[14..20].copy_from_slice(&[0xff, 0x25, 0, 0, 0, 0]); // jmp [rip]
    code[20..OWN_CALL].copy_from_slice(&futex.to_le_bytes());
    code[OWN_CALL..AFTER_CALL].copy_from_slice(&[0x0f, 0x05]); // syscall
    code[AFTER_CALL] = 0xe9; // jmp
    code[AFTER_CALL + 1..LEN].copy_from_slice(&distance(LEN)?);
    Some(code)
}

/// The offset from the site at which a thread continues that was interrupted at this offset in the stub: 0 if the stub
/// has not made its call, 2 if it has. `None` if the offset is outside the stub.
fn offset_from_site(offset: usize) -> Option<u64> {
    match offset {
        0..AFTER_CALL => Some(0), // the jump is executed once more
        AFTER_CALL..LEN => Some(2),
        _ => None,
    }
}

/// Each stub's address and its site's, in ascending order.
struct Stubs {
    first: AtomicU64,
    count: AtomicU64,
}

static STUBS: Stubs = Stubs { first: AtomicU64::new(0), count: AtomicU64::new(0) };

/// Tells handlers which stubs there are.
pub fn publish(patches: &mut [Patch]) {
    patches.sort_unstable_by_key(|patch| patch.stub);
    let stubs: Vec<(u64, u64)> = patches.iter().map(|patch| (patch.stub, patch.site)).collect();
    let stubs = stubs.leak();
    // Relaxed, both: this is the only thread of the program, and the threads that it makes see what it wrote.
    STUBS.first.store(stubs.as_ptr().expose_provenance() as u64, Ordering::Relaxed);
    STUBS.count.store(stubs.len() as u64, Ordering::Relaxed);
}

impl Stubs {
    fn get(&self) -> &'static [(u64, u64)] {
        let count = self.count.load(Ordering::Relaxed) as usize;
        if count == 0 {
            return &[];
        }
        let first = ptr::with_exposed_provenance(self.first.load(Ordering::Relaxed) as usize);
        // SAFETY: stored once, and never freed.
        unsafe { core::slice::from_raw_parts(first, count) }
    }
}

/// If the signal has interrupted its thread in a stub, sets the context's rip to the place in libc that the stub stands
/// for. So handlers and their unwinders find the thread in libc.
pub fn move_to_site(context: &Context) {
    let rip = context.register(libc::REG_RIP);
    let stubs = STUBS.get();
    if let Some(before) = stubs.partition_point(|(stub, _)| *stub <= rip).checked_sub(1)
        && let (stub, site) = stubs[before]
        && let Some(offset) = offset_from_site((rip - stub) as usize)
    {
        context.set_register(libc::REG_RIP, site + offset);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stub_leads_to_the_engine_and_back() {
        let (at, futex) = (0x7000_0000_0000_u64, 0x1234_5678_9abc);
        for site in [at + 0x1000_0000, at - 0x7fff_0000] {
            let stub = code(at, site, futex).unwrap();
            let word = |at: usize| i32::from_le_bytes(stub[at..at + 4].try_into().unwrap());
            let target = |end: usize| (at + end as u64).wrapping_add_signed(word(end - 4).into());
            assert_eq!(target(14), site + 2);
            assert_eq!(stub[20..OWN_CALL], futex.to_le_bytes());
            assert_eq!(target(LEN), site + 2);
            assert_eq!(7 + usize::from(stub[6]), OWN_CALL);
            assert_eq!(stub[OWN_CALL..][..2], [0x0f, 0x05]);
        }
        assert_eq!(code(at, at + (1 << 31) + 12, futex), None);
        assert_eq!(code(at, at - (1 << 31), futex), None);
    }

    #[test]
    fn an_interrupted_stub_has_made_its_call_or_not() {
        let places = [0, OWN_CALL, AFTER_CALL, LEN - 1, LEN];
        assert_eq!(places.map(offset_from_site), [Some(0), Some(0), Some(2), Some(2), None]);
    }
}
