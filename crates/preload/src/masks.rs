//! Masks that programs sleep with (sigsuspend, ppoll, pselect, epoll_pwait), SIGSYS apart. They lie at an address that is
//! the same in every process, so that the filter knows by it that we have looked; and they stay, since the kernel
//! reads them when nobody knows any more that they are in use. Programs have few of them.

use core::ptr;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::process::process;
use crate::raw;

/// Where they lie: between what is loaded low and what is mapped high.
pub const PLACE: u64 = 0x6600_7566_0000;
/// So many bytes.
pub const BYTES: u64 = 1 << 16;

#[repr(C)]
struct Kept {
    mask: AtomicU64,
    /// What pselect6(2) takes: where the mask is, and its size.
    pair: [AtomicU64; 2],
}

const ROOM: usize = BYTES as usize / size_of::<Kept>();

static LEN: AtomicUsize = AtomicUsize::new(0);

/// A mask that is kept.
#[derive(Clone, Copy)]
pub struct Place(&'static Kept);

impl Place {
    /// Where the mask is.
    pub fn mask(self) -> u64 {
        self.0.mask.as_ptr() as u64
    }

    /// Where the pair for pselect6(2) is.
    pub fn pair(self) -> u64 {
        self.0.pair.as_ptr() as u64
    }
}

/// Makes the place, before the program begins.
pub fn map() {
    let (access, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE);
    // SAFETY: new memory, where there is none.
    let place = unsafe { raw::syscall6(libc::SYS_mmap, [PLACE, BYTES, access as u64, flags as u64, u64::MAX, 0]) };
    if place as u64 != PLACE {
        raw::die(&["--trap needs the address 0x660075660000, where this program has something already"]);
    }
}

/// The place of a mask, a new one if need be; `None` when there is no room.
pub fn keep(mask: u64) -> Option<Place> {
    let _locked = process()?.actions.lock();
    // SAFETY: mapped by `map`, zeroed, and never unmapped; zeroes are good for atomics.
    let kept: &'static [Kept; ROOM] = unsafe { &*ptr::with_exposed_provenance(PLACE as usize) };
    let len = LEN.load(Ordering::Relaxed);
    if let Some(known) = kept[..len].iter().find(|kept| kept.mask.load(Ordering::Relaxed) == mask) {
        return Some(Place(known));
    }
    let new = kept.get(len)?;
    new.mask.store(mask, Ordering::Relaxed);
    new.pair[0].store(new.mask.as_ptr() as u64, Ordering::Relaxed);
    new.pair[1].store(size_of::<u64>() as u64, Ordering::Relaxed);
    LEN.store(len + 1, Ordering::Relaxed);
    Some(Place(new))
}
