//! Hostile guest memory: accesses fault at random, and values change between accesses.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use ufutex::{Access, Fault, ObjectId, Scope, UserMemory, Width};

use crate::accounts::Zone;
use crate::common::random::Random;

/// Number of words in a page.
pub const WORDS: u64 = 64;
const PAGE: u64 = 4 * WORDS;
const BASE: u64 = 0x1_0000;
/// Counted words hold values below this, and loads of them return such values: never a TID or a flag of a PI lock.
const VALUES: u32 = 3;

/// The pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Area {
    /// Words with exact counts, of this guest only.
    Own,
    /// Words with exact counts, in an object that all guests map.
    Object,
    /// Words for waits on several words and for futures that are dropped.
    Loose,
    /// Words for any operation.
    Any,
    /// Arguments in memory: timeouts, arrays, robust lists.
    Arguments,
}

const AREAS: [Area; 5] = [Area::Own, Area::Object, Area::Loose, Area::Any, Area::Arguments];

impl Area {
    /// The address of the word with this number.
    pub fn word(self, number: u64) -> u64 {
        BASE + self as u64 * PAGE + number % WORDS * 4
    }

    pub fn zone(self) -> Zone {
        match self {
            Self::Own | Self::Object => Zone::Exact,
            Self::Loose => Zone::Loose,
            Self::Any | Self::Arguments => Zone::Any,
        }
    }
}

pub struct Page([AtomicU32; WORDS as usize]);

impl Page {
    pub fn new() -> Self {
        Self([const { AtomicU32::new(0) }; WORDS as usize])
    }
}

pub struct Memory {
    pages: [Arc<Page>; AREAS.len()],
    object: ObjectId,
}

thread_local! {
    /// Decides which accesses of the thread fault and which return a wrong value.
    static CHANCE: RefCell<Random> = const { RefCell::new(Random::new(1)) };
}

/// A random number below `end`, from the calling thread's generator.
fn chance(end: u32) -> u32 {
    CHANCE.with_borrow_mut(|random| random.below(end as usize) as u32)
}

impl Memory {
    /// Memory that maps `object`, whose page is `shared`.
    pub fn new(shared: &Arc<Page>, object: ObjectId) -> Self {
        let page = |area: &Area| if *area == Area::Object { shared.clone() } else { Arc::new(Page::new()) };
        Self { pages: AREAS.each_ref().map(page), object }
    }

    fn word(&self, address: u64) -> Result<(Area, &AtomicU32), Fault> {
        let at = address.checked_sub(BASE).ok_or(Fault)?;
        let index = (at / PAGE) as usize;
        let area = *AREAS.get(index).ok_or(Fault)?;
        Ok((area, &self.pages[index].0[(at % PAGE / 4) as usize]))
    }

    /// Writes a word as a plain store of the guest.
    pub fn store(&self, address: u64, value: u64) {
        if let Ok((area, word)) = self.word(address) {
            word.store(fitting(area, value as u32), SeqCst);
        }
    }

    /// Writes two words that form one 64-bit word.
    pub fn store_wide(&self, address: u64, value: u64) {
        self.store(address, value & u64::from(u32::MAX));
        self.store(address + 4, value >> 32);
    }
}

/// Reduces `value` to one that words of this area may hold.
fn fitting(area: Area, value: u32) -> u32 {
    if area.zone() == Zone::Any { value } else { value % VALUES }
}

impl UserMemory for Memory {
    fn load(&self, address: u64, width: Width) -> Result<u64, Fault> {
        if chance(64) == 0 {
            return Err(Fault);
        }
        let (area, word) = self.word(address)?;
        let value = word.load(SeqCst);
        match width {
            Width::U32 if chance(64) == 0 => Ok(fitting(area, chance(u32::MAX)).into()),
            Width::U32 => Ok(value.into()),
            Width::U64 => {
                let (_, above) = self.word(address + 4)?;
                Ok(u64::from(above.load(SeqCst)) << 32 | u64::from(value))
            }
            Width::U16 => Ok(u64::from(value >> (address % 4 * 8)) & 0xffff),
            Width::U8 => Ok(u64::from(value >> (address % 4 * 8)) & 0xff),
        }
    }

    fn compare_exchange(&self, address: u64, width: Width, current: u64, new: u64) -> Result<Result<u64, u64>, Fault> {
        if chance(64) == 0 {
            return Err(Fault);
        }
        let (area, word) = self.word(address)?;
        if width == Width::U64 {
            self.word(address + 4)?;
            self.store_wide(address, new);
            return Ok(Ok(current));
        }
        if chance(64) == 0 {
            word.store(fitting(area, chance(u32::MAX)), SeqCst);
        }
        let result = word.compare_exchange(current as u32, fitting(area, new as u32), SeqCst, SeqCst);
        Ok(result.map(u64::from).map_err(u64::from))
    }

    fn fault_in(&self, address: u64, _: Access) -> Result<(), Fault> {
        match chance(16) {
            0 => return Err(Fault),
            1 => std::thread::sleep(Duration::from_micros(10)),
            _ => {}
        }
        self.word(address).map(|_| ())
    }

    fn scope(&self, address: u64, _: Access) -> Result<Scope, Fault> {
        let (area, _) = self.word(address)?;
        match area {
            Area::Object => Ok(Scope::Object { id: self.object, offset: address % PAGE }),
            _ if chance(64) == 0 => Err(Fault),
            _ => Ok(Scope::AddressSpace),
        }
    }
}
