//! A guest's memory: pages that appear when they are touched, and the register of a device.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Release, SeqCst};
use core::sync::atomic::{AtomicBool, AtomicU64};

use ufutex::{Access, Fault, UserMemory, Width};

use crate::checks::interrupt::{self, Moment};
use crate::scheduler;

/// The address of the first page.
pub const PAGES: u64 = 0x10000;
const PAGE_BYTES: u64 = 4096;

/// A register of a device, of 32 bits. A load may ring the device, which then interrupts the CPU that has loaded.
pub const DOORBELL: u64 = 0x80000;

pub struct Memory {
    pages: [Page; 2],
    doorbell: AtomicU64,
}

struct Page {
    is_there: AtomicBool,
    words: [AtomicU64; PAGE_BYTES as usize / 8],
}

impl Page {
    const fn new() -> Self {
        Self { is_there: AtomicBool::new(false), words: [const { AtomicU64::new(0) }; PAGE_BYTES as usize / 8] }
    }
}

impl Memory {
    pub const fn new() -> Self {
        Self { pages: [const { Page::new() }; 2], doorbell: AtomicU64::new(0) }
    }

    /// For the device: changes its register, which rings nothing.
    pub fn count_doorbell(&self) {
        self.doorbell.fetch_add(1, SeqCst);
    }

    /// As a driver sees the register, which rings nothing.
    pub fn doorbell(&self) -> u32 {
        self.doorbell.load(SeqCst) as u32
    }

    fn page(&self, address: u64) -> Result<&Page, Fault> {
        let offset = address.checked_sub(PAGES).ok_or(Fault)?;
        self.pages.get((offset / PAGE_BYTES) as usize).ok_or(Fault)
    }

    /// The 64 bits that the address is in, and the first of its own bits among them.
    fn bits(&self, address: u64) -> Result<(&AtomicU64, u64), Fault> {
        if address == DOORBELL {
            return Ok((&self.doorbell, 0));
        }
        let page = self.page(address)?;
        let is_there = page.is_there.load(Acquire);
        is_there.then(|| (&page.words[(address % PAGE_BYTES / 8) as usize], address % 8 * 8)).ok_or(Fault)
    }
}

impl UserMemory for Memory {
    fn load(&self, address: u64, width: Width) -> Result<u64, Fault> {
        let (bits, first) = self.bits(address)?;
        let value = bits.load(Acquire) >> first & width.max();
        if address == DOORBELL {
            interrupt::ring(Moment::Look);
        }
        Ok(value)
    }

    fn compare_exchange(&self, address: u64, width: Width, current: u64, new: u64) -> Result<Result<u64, u64>, Fault> {
        let ((bits, first), max) = (self.bits(address)?, width.max());
        let replaced = |all: u64| (all >> first & max == current).then_some(all & !(max << first) | new << first);
        let result = bits.fetch_update(AcqRel, Acquire, replaced);
        Ok(result.map(|all| all >> first & max).map_err(|all| all >> first & max))
    }

    fn fault_in(&self, address: u64, _: Access) -> Result<(), Fault> {
        let page = self.page(address)?;
        // It is called with nothing locked, so it may take its time, as if the page came from a disk.
        scheduler::reschedule();
        page.is_there.store(true, Release);
        Ok(())
    }
}
