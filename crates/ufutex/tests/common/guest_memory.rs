//! A guest's memory for tests of the engine alone: words of this process, mapped at guest addresses. A test decides
//! which accesses fault.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use ufutex::{Access, Fault, GuestWord, UserMemory, Width};

/// The guest address of the first word. It fits into 32 bits.
const BASE: u64 = 0x10_0000;
const WORDS: usize = 4096;

/// The [`UserMemory`] function that the engine has called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    Load,
    CompareExchange,
    FaultIn(Access),
}

/// A test's code that runs in each call. It receives the address, and its result decides whether the call ends with
/// `Fault`.
///
/// `load` runs it after it has read the word. `compare_exchange` and `fault_in` run it first.
pub type Hook = fn(Event, u64) -> Result<(), Fault>;

type OnFault = Box<dyn FnOnce() + Send>;

/// Words that are 0 at first.
pub struct GuestMemory<F = Hook> {
    words: Arc<[AtomicU32]>,
    hook: F,
    /// Number of loads and number of exchanges so far.
    loads: AtomicUsize,
    exchanges: AtomicUsize,
    /// The loads and the exchanges that fault, by their number. 0 is the first load, or exchange, of all.
    faulty_loads: Mutex<Range<usize>>,
    faulty_exchanges: Mutex<Range<usize>>,
    /// The address at which every load faults. `0` means that no address is set.
    faulty_address: AtomicU64,
    /// Every access faults, and `fault_in` fails.
    is_lost: AtomicBool,
    /// Every access faults until the next `fault_in`.
    is_paged_out: AtomicBool,
    is_read_only: AtomicBool,
    /// `compare_exchange` fails although the word holds `current`, as a weak compare-and-swap is allowed to.
    fails_spuriously: AtomicBool,
    faulted_in: Mutex<Vec<(u64, Access)>>,
    on_fault: Mutex<Option<OnFault>>,
}

impl GuestMemory {
    pub fn new() -> Self {
        Self::with_hook(|_, _| Ok(()))
    }

    pub fn with_words(count: usize) -> Self {
        Self::with(zeroes(count), |_, _| Ok(()))
    }
}

fn zeroes(count: usize) -> Arc<[AtomicU32]> {
    (0..count).map(|_| AtomicU32::new(0)).collect()
}

impl<F: Fn(Event, u64) -> Result<(), Fault>> GuestMemory<F> {
    pub fn with_hook(hook: F) -> Self {
        Self::with(zeroes(WORDS), hook)
    }

    /// Another view of the words of `other`, with its own hook and its own faults.
    pub fn of_words<G>(other: &GuestMemory<G>, hook: F) -> Self {
        Self::with(other.words.clone(), hook)
    }

    fn with(words: Arc<[AtomicU32]>, hook: F) -> Self {
        Self {
            words,
            hook,
            loads: AtomicUsize::new(0),
            exchanges: AtomicUsize::new(0),
            faulty_loads: Mutex::default(),
            faulty_exchanges: Mutex::default(),
            faulty_address: AtomicU64::new(0),
            is_lost: AtomicBool::new(false),
            is_paged_out: AtomicBool::new(false),
            is_read_only: AtomicBool::new(false),
            fails_spuriously: AtomicBool::new(false),
            faulted_in: Mutex::default(),
            on_fault: Mutex::default(),
        }
    }

    /// The guest's address of the byte at `offset`.
    pub fn at(&self, offset: u64) -> u64 {
        BASE + offset
    }

    pub fn word(&self, offset: u64) -> &AtomicU32 {
        &self.words[offset as usize / 4]
    }

    /// The futex word at `offset`, of 32 bits.
    pub fn target(&self, offset: u64) -> GuestWord<'_, Self> {
        self.target_of(offset, Width::U32)
    }

    pub fn target_of(&self, offset: u64, width: Width) -> GuestWord<'_, Self> {
        GuestWord::new(self, self.at(offset), width).expect("aligned")
    }

    /// Stores a number of 4 or 8 bytes.
    pub fn store(&self, offset: u64, bytes: usize, value: u64) {
        for (i, half) in [value as u32, (value >> 32) as u32].into_iter().take(bytes / 4).enumerate() {
            self.word(offset + 4 * i as u64).store(half, SeqCst);
        }
    }

    /// Number of loads so far.
    pub fn loads(&self) -> usize {
        self.loads.load(SeqCst)
    }

    /// Makes the loads with these numbers fault. 0 is the first load of all.
    pub fn fault_loads(&self, numbers: Range<usize>) {
        *self.faulty_loads.lock().expect("not poisoned") = numbers;
    }

    pub fn fault_next_loads(&self, count: usize) {
        let next = self.loads();
        self.fault_loads(next..next.saturating_add(count));
    }

    pub fn fault_next_exchanges(&self, count: usize) {
        let next = self.exchanges.load(SeqCst);
        *self.faulty_exchanges.lock().expect("not poisoned") = next..next.saturating_add(count);
    }

    /// Makes every load of the word at `offset` fault, and no load of another word.
    pub fn fault_loads_of(&self, offset: u64) {
        self.faulty_address.store(BASE + offset, SeqCst);
    }

    pub fn fault_loads_of_none(&self) {
        self.faulty_address.store(0, SeqCst);
    }

    /// Makes every access fault, and every `fault_in` fail.
    pub fn lose(&self) {
        self.is_lost.store(true, SeqCst);
    }

    /// Undoes [`lose`](Self::lose).
    pub fn restore(&self) {
        self.is_lost.store(false, SeqCst);
    }

    /// Makes every access fault until the next `fault_in`.
    pub fn page_out(&self) {
        self.is_paged_out.store(true, SeqCst);
    }

    pub fn make_read_only(&self, is_read_only: bool) {
        self.is_read_only.store(is_read_only, SeqCst);
    }

    /// Makes every `compare_exchange` fail although the word holds `current`.
    pub fn fail_spuriously(&self) {
        self.fails_spuriously.store(true, SeqCst);
    }

    /// Runs `on_fault` in the next call of `fault_in` only.
    pub fn on_fault(&self, on_fault: impl FnOnce() + Send + 'static) {
        *self.on_fault.lock().expect("not poisoned") = Some(Box::new(on_fault));
    }

    /// The calls of `fault_in` since the last call of this function.
    pub fn faulted_in(&self) -> Vec<(u64, Access)> {
        std::mem::take(&mut *self.faulted_in.lock().expect("not poisoned"))
    }

    /// The index of the word that contains `address`, and the shift of the value at `address` within that word.
    fn find(&self, address: u64, width: Width) -> Result<(usize, u64), Fault> {
        let offset = address.checked_sub(BASE).ok_or(Fault)?;
        let is_there = offset / 4 < self.words.len() as u64 && address.is_multiple_of(width.bytes());
        if is_there { Ok((offset as usize / 4, 8 * (offset % 4))) } else { Err(Fault) }
    }

    fn check(&self, number: usize, faulty: &Mutex<Range<usize>>) -> Result<(), Fault> {
        let is_absent = self.is_lost.load(SeqCst) || self.is_paged_out.load(SeqCst);
        let is_faulty = faulty.lock().expect("not poisoned").contains(&number);
        if is_absent || is_faulty { Err(Fault) } else { Ok(()) }
    }
}

impl<F: Fn(Event, u64) -> Result<(), Fault>> UserMemory for GuestMemory<F> {
    fn load(&self, address: u64, width: Width) -> Result<u64, Fault> {
        let number = self.loads.fetch_add(1, SeqCst);
        let value = self.find(address, width).map(|(index, shift)| {
            // The two halves of a 64-bit word are read one after the other. Tests do not change them meanwhile.
            let high = if width == Width::U64 { self.words[index + 1].load(SeqCst) } else { 0 };
            (u64::from(high) << 32 | u64::from(self.words[index].load(SeqCst))) >> shift & width.max()
        });
        (self.hook)(Event::Load, address)?;
        self.check(number, &self.faulty_loads)?;
        if address == self.faulty_address.load(SeqCst) { Err(Fault) } else { value }
    }

    fn compare_exchange(&self, address: u64, width: Width, current: u64, new: u64) -> Result<Result<u64, u64>, Fault> {
        assert_ne!(width, Width::U64, "words of 64 bits cannot be exchanged here");
        (self.hook)(Event::CompareExchange, address)?;
        self.check(self.exchanges.fetch_add(1, SeqCst), &self.faulty_exchanges)?;
        let (index, shift) = self.find(address, width)?;
        if self.is_read_only.load(SeqCst) {
            return Err(Fault);
        }
        if self.fails_spuriously.load(SeqCst) {
            return Ok(Err(current));
        }
        let (word, mask) = (&self.words[index], (width.max() as u32) << shift);
        let mut whole = word.load(SeqCst);
        loop {
            let now = u64::from((whole & mask) >> shift);
            if now != current {
                return Ok(Err(now));
            }
            match word.compare_exchange(whole, whole & !mask | (new as u32) << shift, SeqCst, SeqCst) {
                Ok(_) => return Ok(Ok(current)),
                Err(changed) => whole = changed,
            }
        }
    }

    fn fault_in(&self, address: u64, access: Access) -> Result<(), Fault> {
        self.faulted_in.lock().expect("not poisoned").push((address, access));
        self.is_paged_out.store(false, SeqCst);
        (self.hook)(Event::FaultIn(access), address)?;
        let on_fault = self.on_fault.lock().expect("not poisoned").take();
        if let Some(on_fault) = on_fault {
            on_fault();
        }
        self.find(address, Width::U8)?;
        let is_refused = access == Access::Write && self.is_read_only.load(SeqCst);
        if self.is_lost.load(SeqCst) || is_refused { Err(Fault) } else { Ok(()) }
    }
}
