//! A guest's memory of a few pages that faults when it is told to.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use ufutex::{Access, Fault, Guest, UserMemory, Width};

/// Where it begins: low enough for pointers of 32 bits.
const BASE: u64 = 0x10_0000;
const WORDS: usize = 4096;

type Hook = Box<dyn FnOnce() + Send>;

/// Words that are 0 to begin with.
pub struct Memory {
    words: Box<[AtomicU32]>,
    /// How many of the next reads, and of the next changes, fault.
    faulty_reads: AtomicUsize,
    faulty_writes: AtomicUsize,
    /// An address whose reads all fault, until a cure says otherwise.
    faulty_address: AtomicU64,
    /// No access comes through, and none is made to.
    is_lost: AtomicBool,
    is_read_only: AtomicBool,
    faulted_in: Mutex<Vec<(u64, Access)>>,
    on_fault: Mutex<Option<Hook>>,
}

impl Memory {
    pub fn new() -> Self {
        Self {
            words: (0..WORDS).map(|_| AtomicU32::new(0)).collect(),
            faulty_reads: AtomicUsize::new(0),
            faulty_writes: AtomicUsize::new(0),
            faulty_address: AtomicU64::new(0),
            is_lost: AtomicBool::new(false),
            is_read_only: AtomicBool::new(false),
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

    pub fn target(&self, offset: u64) -> Guest<'_, Self> {
        Guest::new(self, self.at(offset), Width::U32).expect("aligned")
    }

    /// Stores a pointer of so many bytes.
    pub fn store(&self, offset: u64, bytes: usize, value: u64) {
        for (i, half) in [value as u32, (value >> 32) as u32].into_iter().take(bytes / 4).enumerate() {
            self.word(offset + 4 * i as u64).store(half, Ordering::SeqCst);
        }
    }

    pub fn fault_next_reads(&self, count: usize) {
        self.faulty_reads.store(count, Ordering::SeqCst);
    }

    pub fn fault_next_writes(&self, count: usize) {
        self.faulty_writes.store(count, Ordering::SeqCst);
    }

    /// Reads of the word at `offset` fault, and of no other.
    pub fn fault_reads_of(&self, offset: u64) {
        self.faulty_address.store(offset.wrapping_add(BASE), Ordering::SeqCst);
    }

    /// From now on every access faults, and cannot be cured.
    pub fn lose(&self) {
        self.is_lost.store(true, Ordering::SeqCst);
    }

    /// It is there again.
    pub fn find(&self) {
        self.is_lost.store(false, Ordering::SeqCst);
    }

    pub fn make_read_only(&self, is_read_only: bool) {
        self.is_read_only.store(is_read_only, Ordering::SeqCst);
    }

    /// Has `hook` run when the next fault is to be cured.
    pub fn on_fault(&self, hook: impl FnOnce() + Send + 'static) {
        *self.on_fault.lock().expect("nobody panics with it") = Some(Box::new(hook));
    }

    /// What was to be cured since this was asked last.
    pub fn faulted_in(&self) -> Vec<(u64, Access)> {
        std::mem::take(&mut *self.faulted_in.lock().expect("nobody panics with it"))
    }

    fn access(&self, address: u64, width: Width, faulty: &AtomicUsize) -> Result<(&AtomicU32, u64), Fault> {
        let is_faulty = faulty.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_ok();
        if is_faulty || self.is_lost.load(Ordering::SeqCst) || !address.is_multiple_of(width.bytes()) {
            return Err(Fault);
        }
        let offset = address.checked_sub(BASE).ok_or(Fault)?;
        let word = self.words.get(offset as usize / 4).ok_or(Fault)?;
        Ok((word, 8 * (offset % 4)))
    }
}

impl UserMemory for Memory {
    fn load(&self, address: u64, width: Width) -> Result<u64, Fault> {
        if address == self.faulty_address.load(Ordering::SeqCst) {
            return Err(Fault);
        }
        let (word, shift) = self.access(address, width, &self.faulty_reads)?;
        assert_ne!(width, Width::U64, "the engine reads its arguments in smaller pieces");
        Ok(u64::from(word.load(Ordering::SeqCst)) >> shift & width.max())
    }

    fn compare_exchange(&self, address: u64, width: Width, current: u64, new: u64) -> Result<Result<u64, u64>, Fault> {
        if self.is_read_only.load(Ordering::SeqCst) {
            return Err(Fault);
        }
        let (word, shift) = self.access(address, width, &self.faulty_writes)?;
        assert_ne!(width, Width::U64, "the engine writes its results in smaller pieces");
        let mask = (width.max() as u32) << shift;
        let mut whole = word.load(Ordering::SeqCst);
        loop {
            let now = u64::from((whole & mask) >> shift);
            if now != current {
                return Ok(Err(now));
            }
            let wanted = whole & !mask | (new as u32) << shift;
            match word.compare_exchange(whole, wanted, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => return Ok(Ok(current)),
                Err(changed) => whole = changed,
            }
        }
    }

    fn fault_in(&self, address: u64, access: Access) -> Result<(), Fault> {
        self.faulted_in.lock().expect("nobody panics with it").push((address, access));
        let hook = self.on_fault.lock().expect("nobody panics with it").take();
        if let Some(hook) = hook {
            hook();
        }
        let is_there = (BASE..BASE + 4 * WORDS as u64).contains(&address);
        let is_refused = access == Access::Write && self.is_read_only.load(Ordering::SeqCst);
        if self.is_lost.load(Ordering::SeqCst) || !is_there || is_refused { Err(Fault) } else { Ok(()) }
    }
}
