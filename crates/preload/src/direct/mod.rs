//! `--trap` without the signal: futex instructions of libc that jump to the engine.
//!
//! A trapped call costs a signal, which takes longer than the call. So before the program makes its first thread, the
//! `syscall` instructions of libc that make futex calls are replaced by jumps. Calls of all other instructions go on
//! being trapped, and so do these if the jumps cannot be made.
//!
//! A jump is longer than the instruction. Its last bytes are those of the instructions behind, which stay as they are
//! ([punning]; `site.rs`). So a thread that is in the kernel at that moment, and a branch to the instruction behind,
//! find that instruction in its place. The bytes that stay say where the jump goes to. There a stub is mapped. If
//! something else is mapped there, the instruction is not replaced.
//!
//! [punning]: docs/REFERENCES.md, "instruction-punning"

mod entry;
mod site;

use core::ffi::{c_int, c_void};
use core::ops::Range;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::vec::Vec;

use crate::gate::{self, RAW_THREADS};
use crate::process::{self, process};
use crate::real::REAL;
use crate::signals::Context;
use crate::{raw, settings, timers, trap};
use site::{Jump, STUB, TAIL};

/// Whether the program has installed a seccomp filter by a function of libc. Such a filter may end the process for a
/// call that makes memory executable.
static IS_FILTERED: AtomicBool = AtomicBool::new(false);

/// Notes that the program installs a seccomp filter.
pub fn note_filter() {
    IS_FILTERED.store(true, Ordering::Relaxed);
}

/// Replaces libc's futex instructions, if `--trap` is on. Only the first call does anything.
///
/// Called by the thread that is about to make another one. While a process has one thread, no other CPU executes the
/// code that changes.
pub fn before_thread() {
    static TRIED: AtomicBool = AtomicBool::new(false);
    if !trap::is_on() || settings::get().unpatched || TRIED.swap(true, Ordering::Relaxed) {
        return;
    }
    let mask = gate::block_all();
    if may_replace() && entry::begin() {
        replace(&sites());
    }
    gate::set_mask(mask);
}

/// Whether this process may change its code. Otherwise, or if some threads have no storage of their own, all calls go
/// on being trapped.
fn may_replace() -> bool {
    let is_alone = process::threads().is_some_and(|threads| threads == 1 + timers::own_threads());
    let is_borrowed = process().is_none_or(process::Process::is_borrowed);
    is_alone && !is_borrowed && !RAW_THREADS.load(Ordering::Relaxed) && !IS_FILTERED.load(Ordering::Relaxed)
}

/// A `syscall` instruction of libc.
#[derive(Clone, Copy)]
struct Site {
    at: u64,
    /// The bytes behind it.
    tail: [u8; TAIL],
}

/// The instructions of libc that make futex calls, in ascending order.
fn sites() -> Vec<Site> {
    let text = text_around(REAL.pthread_create.load(Ordering::Relaxed) as usize);
    let begins = text.as_ptr().expose_provenance() as u64;
    site::find(text).map(|(offset, tail)| Site { at: begins + offset as u64, tail }).collect()
}

/// How far from `pthread_create` futex calls are looked for. libc's functions for threads lie together. A search of all
/// of libc takes three times as long as all the rest.
const AROUND: usize = 256 << 10;

/// The code around an address, from the library that contains it. Empty if there is none.
fn text_around(address: usize) -> &'static [u8] {
    let mut found: (usize, &[u8]) = (address, &[]);
    unsafe extern "C" fn look(info: *mut libc::dl_phdr_info, _: usize, found: *mut c_void) -> c_int {
        // SAFETY: the loader's description of a library, and the `found` below. The segment is mapped, and readable.
        unsafe {
            let (info, found) = (&*info, &mut *found.cast::<(usize, &[u8])>());
            for header in core::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) {
                let begins = info.dlpi_addr.wrapping_add(header.p_vaddr) as usize;
                let has_flags = header.p_flags & (libc::PF_X | libc::PF_R) == libc::PF_X | libc::PF_R;
                if header.p_type == libc::PT_LOAD
                    && has_flags
                    && (begins..begins + header.p_memsz as usize).contains(&found.0)
                {
                    let first = begins.max(found.0.saturating_sub(AROUND));
                    let end = (begins + header.p_memsz as usize).min(found.0 + AROUND);
                    found.1 = core::slice::from_raw_parts(ptr::with_exposed_provenance(first), end - first);
                    return 1;
                }
            }
        }
        0
    }
    // SAFETY: `look` gets `found`, for which it was written.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut found).cast()) };
    found.1
}

const PAGE: u64 = 4096;

/// A site, with the jump that will replace it and the jump's target.
struct Placed {
    site: Site,
    jump: Jump,
    stub: u64,
}

/// Replaces the instructions, as far as there is room for their stubs.
fn replace(sites: &[Site]) {
    let (Some(first), Some(last)) = (sites.first(), sites.last()) else { return };
    let pages = first.at & !(PAGE - 1)..(last.at + 2).next_multiple_of(PAGE);
    // Some systems allow no process to change its code.
    if !protect(&pages, libc::PROT_WRITE | libc::PROT_EXEC) {
        return;
    }
    let mut placed: Vec<Placed> = Vec::new();
    for kind in 0..site::JUMPS {
        let left = sites.iter().filter(|site| placed.iter().all(|one| one.site.at != site.at));
        let mut wanted: Vec<Placed> = left
            .map(|&site| {
                let jump = site::jumps(site.tail)[kind];
                Placed { site, jump, stub: site.at.wrapping_add_signed(jump.distance) }
            })
            .collect();
        wanted.sort_unstable_by_key(|one| one.stub);
        place(wanted, &mut placed);
    }
    placed.sort_unstable_by_key(|one| one.stub);
    // A handler must know the way back out of a stub before the first jump.
    STUBS.set(placed.iter().map(|one| (one.stub, one.site.at)).collect());
    for one in &placed {
        // SAFETY: code of libc that was made writable above. No other thread executes it.
        unsafe { ptr::with_exposed_provenance_mut::<[u8; 2]>(one.site.at as usize).write(one.jump.bytes) };
    }
    protect(&pages, libc::PROT_EXEC);
}

/// Stubs with fewer bytes than this between them get one mapping.
const NEAR: u64 = 1 << 20;

/// Makes the stubs, which are in ascending order, where nothing is mapped. Adds those that were made to `placed`.
fn place(wanted: Vec<Placed>, placed: &mut Vec<Placed>) {
    let mut groups: Vec<Vec<Placed>> = Vec::new();
    for one in wanted {
        match groups.last_mut().map(|group| (group[group.len() - 1].stub, group)) {
            Some((last, _)) if one.stub - last < STUB as u64 => {}
            Some((last, group)) if one.stub - last < NEAR => group.push(one),
            _ => groups.push(std::vec![one]),
        }
    }
    for group in groups {
        let begins = group[0].stub & !(PAGE - 1);
        let ends = (group[group.len() - 1].stub + STUB as u64).next_multiple_of(PAGE);
        let Some(memory) = map(begins, ends - begins) else { continue };
        let mut all = true;
        for one in &group {
            let code = site::stub(one.stub, one.site.at, entry::futex as *const () as u64);
            all &= code.is_some();
            memory[(one.stub - begins) as usize..][..STUB].copy_from_slice(&code.unwrap_or([0; STUB]));
        }
        if all && protect(&(begins..ends), libc::PROT_EXEC) {
            placed.extend(group);
        } else {
            unmap(begins, ends - begins);
        }
    }
}

/// How much of the address space below the stack is left alone, because the stack may grow.
const STACK: u64 = 1 << 30;

/// Maps memory at this address, if nothing is mapped there.
fn map(at: u64, len: u64) -> Option<&'static mut [u8]> {
    let stack = (&raw const at).expose_provenance() as u64;
    if (stack.saturating_sub(STACK)..stack).contains(&at) {
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
        unmap(got as u64, len); // kernels before Linux 4.17 do not know the last flag
        return None;
    }
    // SAFETY: mapped above, and not used otherwise.
    Some(unsafe { core::slice::from_raw_parts_mut(ptr::with_exposed_provenance_mut(at as usize), len as usize) })
}

/// Unmaps memory that [`map`] has mapped.
fn unmap(at: u64, len: u64) {
    // SAFETY: nothing refers to it any more.
    unsafe { raw::own(libc::SYS_munmap, [at, len]) };
}

/// Makes pages readable, and what `access` says.
fn protect(pages: &Range<u64>, access: c_int) -> bool {
    let access = (libc::PROT_READ | access) as u64;
    // SAFETY: code of libc, which stays readable and executable, and our own stubs.
    unsafe { raw::own(libc::SYS_mprotect, [pages.start, pages.end - pages.start, access]) == 0 }
}

/// Each stub's address and its site's, in ascending order.
struct Stubs {
    first: AtomicU64,
    count: AtomicU64,
}

static STUBS: Stubs = Stubs { first: AtomicU64::new(0), count: AtomicU64::new(0) };

impl Stubs {
    fn set(&self, stubs: Vec<(u64, u64)>) {
        let stubs = stubs.leak();
        // Relaxed, both: this is the only thread of the process, and the threads that it makes see what it wrote.
        self.first.store(stubs.as_ptr().expose_provenance() as u64, Ordering::Relaxed);
        self.count.store(stubs.len() as u64, Ordering::Relaxed);
    }

    fn get(&self) -> &'static [(u64, u64)] {
        let count = self.count.load(Ordering::Relaxed) as usize;
        if count == 0 {
            return &[];
        }
        let first = ptr::with_exposed_provenance(self.first.load(Ordering::Relaxed) as usize);
        // SAFETY: set once, and never freed.
        unsafe { core::slice::from_raw_parts(first, count) }
    }
}

/// Makes the context of a thread that a signal has interrupted in a stub the context that the thread would have at the
/// instruction that the stub stands for. So handlers and unwinders find the thread in libc.
pub fn complete(context: &Context) {
    let rip = context.register(libc::REG_RIP);
    let stubs = STUBS.get();
    if let Some(before) = stubs.partition_point(|(stub, _)| *stub <= rip).checked_sub(1)
        && let (stub, site) = stubs[before]
        && let Some(after) = site::counterpart((rip - stub) as usize)
    {
        context.set_register(libc::REG_RIP, site + after);
    }
}
