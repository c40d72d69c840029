//! `--trap` without the signal: futex instructions of libc that jump to the engine. Without `--trap`, two of libc's
//! functions jump to this library (`detour.rs`).
//!
//! A trapped call costs a signal, which takes longer than the call. So before the first `pthread_create`, the `syscall`
//! instructions of libc that make futex calls are replaced by jumps. All other instructions go on being trapped, and so
//! do these if the jumps cannot be made.
//!
//! A jump is longer than a `syscall`. Only the two bytes of the `syscall` are written. The bytes after it stay, and are
//! both the jump's displacement and valid instructions ([instruction-punning] in docs/REFERENCES.md; `site.rs`).
//! Execution still reaches them: from the stub, by a branch, and when a signal handler returns. Because the
//! displacement is given, so is the address of the stub (`stub.rs`). If it is occupied for both forms of the jump, the
//! instruction is not replaced.

pub mod call;
mod detour;
mod site;
mod stub;

use core::ops::Range;
use core::sync::atomic::{AtomicBool, Ordering};
use std::vec::Vec;

use crate::gate::{self, RAW_THREADS};
use crate::process::{self, process};
use crate::{raw, settings, timers, trap};
pub use detour::detour_libc;
use site::Site;
use stub::Patch;
pub use stub::move_to_site;

/// Whether the program may have installed a seccomp filter by a function of libc.
static IS_FILTERED: AtomicBool = AtomicBool::new(false);

/// Notes that the program installs a seccomp filter.
pub fn note_filter() {
    IS_FILTERED.store(true, Ordering::Relaxed);
}

/// Whether the program may have installed a seccomp filter by a function of libc.
pub fn is_filtered() -> bool {
    IS_FILTERED.load(Ordering::Relaxed)
}

/// Called before the program makes a thread. Replaces libc's futex instructions, if `--trap` is on. Tries once; calls in
/// a process that borrows its parent's memory do not count.
pub fn patch_libc_once() {
    static TRIED: AtomicBool = AtomicBool::new(false);
    // A filter of the program may end the process for any of the calls below, so this is asked first.
    let is_wanted = trap::is_on() && !settings::get().no_patch && !is_filtered();
    if !is_wanted || TRIED.load(Ordering::Relaxed) || process().is_none_or(process::Process::is_borrowed) {
        return;
    }
    TRIED.store(true, Ordering::Relaxed);
    // Handlers take the allocator's lock too, so none may run while this thread holds it.
    let mask = gate::block_all();
    if may_patch() && call::find_registers() {
        patch(&site::of_libc());
    }
    gate::set_mask(mask);
}

/// Whether the instructions may be replaced: the program has one thread, and has made none by a raw clone.
///
/// The timers' thread may run too. It executes code of this library only, which makes its futex calls by instructions
/// of its own.
fn may_patch() -> bool {
    let is_alone = process::threads().is_some_and(|threads| threads == 1 + timers::own_threads());
    is_alone && !RAW_THREADS.load(Ordering::Relaxed)
}

const PAGE: u64 = 4096;

/// Replaces the instructions at the sites, which are in ascending order, as far as there is room for their stubs.
fn patch(sites: &[Site]) {
    let (Some(first), Some(last)) = (sites.first(), sites.last()) else { return };
    let pages = first.at & !(PAGE - 1)..(last.at + 2).next_multiple_of(PAGE);
    if !make_writable(&pages) {
        return;
    }
    let mut made: Vec<Patch> = Vec::new();
    for form in 0..site::FORMS {
        let left = sites.iter().filter(|site| made.iter().all(|patch| patch.site != site.at));
        stub::make(left.map(|site| Patch::new(site, form)).collect(), &mut made);
    }
    // Published before the first jump is written, because handlers look interrupted threads up in this list.
    stub::publish(&mut made);
    for patch in &made {
        // SAFETY: code of libc that was made writable above, and that no thread executes: see `may_patch`.
        unsafe { core::ptr::with_exposed_provenance_mut::<[u8; 2]>(patch.site as usize).write(patch.bytes) };
    }
    protect(&pages);
}

const CODE: i32 = libc::PROT_READ | libc::PROT_EXEC;

/// Makes pages of code writable, until [`protect`]. Some systems allow no process to change its code: then it returns
/// `false`.
fn make_writable(pages: &Range<u64>) -> bool {
    // The first call changes nothing, and shows whether the change can be taken back.
    // SAFETY: nothing is forbidden that was allowed.
    unsafe { raw::protect(pages, CODE) && raw::protect(pages, CODE | libc::PROT_WRITE) }
}

/// Makes such pages read-only again.
fn protect(pages: &Range<u64>) {
    // SAFETY: code, which nobody else writes to.
    unsafe { raw::protect(pages, CODE) };
}
