//! A guest's memory whose accesses fault as the input says.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use ufutex::{Access, Fault, ObjectId, Scope, UserMemory, Width};

use crate::bytes::Bytes;

/// Number of 64-bit words.
const WORDS: usize = 128;
const BASE: u64 = 0x1000;
/// The first address behind the futex words. From here on lie arguments.
const ARGUMENTS: u64 = BASE + 64;
const END: u64 = BASE + 8 * WORDS as u64;

pub struct Memory {
    words: [AtomicU64; WORDS],
    /// Each access takes the lowest bit. 1 is a fault.
    faults: AtomicU64,
    /// Each `fault_in` takes the lowest bit. 1 is a fault that does not go away.
    lost: AtomicU64,
    /// The object whose words these are, which other memories map too.
    object: Option<ObjectId>,
}

fn takes_bit(bits: &AtomicU64) -> bool {
    let now = bits.load(Relaxed);
    bits.store(now >> 1, Relaxed);
    now & 1 != 0
}

impl Memory {
    pub fn new(object: Option<ObjectId>) -> Self {
        let words = [const { AtomicU64::new(0) }; WORDS];
        Self { words, faults: AtomicU64::new(0), lost: AtomicU64::new(0), object }
    }

    pub fn set_faults(&self, faults: u64, lost: u64) {
        self.faults.store(faults, Relaxed);
        self.lost.store(lost, Relaxed);
    }

    /// The address of a futex word.
    pub fn word(number: usize) -> u64 {
        BASE + 4 * (number % 16) as u64
    }

    /// The address of an argument.
    pub fn argument(number: usize) -> u64 {
        ARGUMENTS + 8 * (number as u64 % ((END - ARGUMENTS) / 8))
    }

    /// An address: mostly of an argument, sometimes of a word, 0, or any.
    pub fn pointer(bytes: &mut Bytes) -> u64 {
        match bytes.byte() {
            0..32 => 0,
            argument @ 32..200 => Self::argument(usize::from(argument - 32) % 64),
            word @ 200..230 => Self::word(word.into()),
            230..240 => END - 4,
            240..245 => Self::word(3) + 2,
            _ => bytes.any(),
        }
    }

    /// Writes as a plain store of the guest.
    pub fn store(&self, address: u64, value: u64) {
        if let Some(word) = self.find(address) {
            word.store(value, Relaxed);
        }
    }

    pub fn load_plainly(&self, address: u64, width: Width) -> Option<u64> {
        let shift = 8 * (address % 8);
        let word = self.find(address)?.load(Relaxed);
        Some(word >> shift & mask(width))
    }

    fn find(&self, address: u64) -> Option<&AtomicU64> {
        self.words.get(usize::try_from(address.checked_sub(BASE)? / 8).ok()?)
    }
}

fn mask(width: Width) -> u64 {
    u64::MAX >> (64 - 8 * width.bytes())
}

impl UserMemory for Memory {
    fn load(&self, address: u64, width: Width) -> Result<u64, Fault> {
        assert!(address.is_multiple_of(width.bytes()), "the engine aligns its accesses: {address:x}");
        if takes_bit(&self.faults) { Err(Fault) } else { self.load_plainly(address, width).ok_or(Fault) }
    }

    fn compare_exchange(&self, address: u64, width: Width, current: u64, new: u64) -> Result<Result<u64, u64>, Fault> {
        let now = self.load(address, width)?;
        if now != current {
            return Ok(Err(now));
        }
        let word = self.find(address).ok_or(Fault)?;
        let shift = 8 * (address % 8);
        word.store(word.load(Relaxed) & !(mask(width) << shift) | (new & mask(width)) << shift, Relaxed);
        Ok(Ok(now))
    }

    fn fault_in(&self, address: u64, _: Access) -> Result<(), Fault> {
        if takes_bit(&self.lost) { Err(Fault) } else { self.find(address).map(drop).ok_or(Fault) }
    }

    fn scope(&self, address: u64, _: Access) -> Result<Scope, Fault> {
        self.find(address).ok_or(Fault)?;
        Ok(self.object.map_or(Scope::AddressSpace, |id| Scope::Object { id, offset: address - BASE }))
    }
}
