//! Futex words of virtual threads, each in a line of its own.
//!
//! The kernel hashes words. Ours hashes the lines that they are in as long as a table is small, so that words of one line
//! share a bucket. Where the kernel's figures are modelled, a line for each word spreads both alike.

use ufutex_coherence::atomic::{AtomicU32, Ordering};
use ufutex_coherence::memory;
use ufutex_sim::{Access, Fault, Guest, UserMemory, Width};

/// Where the first word is, as the engine is told: the same each time.
const BASE: u64 = 0x7F00_0000_0000;
const LINE: u64 = 64;
const WORDS_OF_A_LINE: usize = 16;

/// The words.
pub struct Lines(Vec<AtomicU32>);

impl Lines {
    /// So many, all 0.
    pub fn new(count: usize) -> Lines {
        Lines(memory::by_line(|| (0..count * WORDS_OF_A_LINE).map(|_| AtomicU32::new(0)).collect()))
    }

    /// A word as the engine is told it.
    pub fn word(&self, number: usize) -> Guest<'_, Lines> {
        Guest::new(self, BASE + LINE * number as u64, Width::U32).expect("words lie at multiples of a line")
    }

    /// The same, as a program sees it.
    pub fn host(&self, number: usize) -> &AtomicU32 {
        &self.0[number * WORDS_OF_A_LINE]
    }

    fn at(&self, address: u64) -> Result<&AtomicU32, Fault> {
        let offset = address.checked_sub(BASE).ok_or(Fault)?;
        self.0.get(offset as usize / size_of::<AtomicU32>()).ok_or(Fault)
    }
}

impl UserMemory for Lines {
    fn load(&self, address: u64, _width: Width) -> Result<u64, Fault> {
        Ok(self.at(address)?.load(Ordering::Acquire).into())
    }

    fn compare_exchange(&self, address: u64, _width: Width, current: u64, new: u64) -> Result<Result<u64, u64>, Fault> {
        let (done, not) = (Ordering::AcqRel, Ordering::Acquire);
        let result = self.at(address)?.compare_exchange(current as u32, new as u32, done, not);
        Ok(result.map(u64::from).map_err(u64::from))
    }

    fn fault_in(&self, _address: u64, _access: Access) -> Result<(), Fault> {
        Err(Fault)
    }
}
