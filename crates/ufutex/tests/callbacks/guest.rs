//! An embedder whose every callback may panic: wakers, memory, clocks, scheduler, nodes.

use std::collections::HashMap;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{RawWaker, RawWakerVTable, Waker};
use std::time::Duration;

use ufutex::timer::{Base, Clocks, CpuClock, Driver};
use ufutex::{
    Access, Config, Domain, Fault, Guest, NodeMemory, Options, Priority, Scheduler, System, Topology, UserMemory, Width,
};

use crate::bomb::{Call, pass};

/// Counts what its wakers are told.
#[derive(Default)]
pub struct Told(AtomicUsize);

impl Told {
    pub fn new() -> (Arc<Self>, Waker) {
        let told = Arc::new(Self::default());
        // SAFETY: the table's functions count references to the `Arc`.
        let waker = unsafe { Waker::from_raw(raw(told.clone())) };
        (told, waker)
    }

    pub fn times(&self) -> usize {
        self.0.load(SeqCst)
    }
}

static TABLE: RawWakerVTable = RawWakerVTable::new(clone, wake, wake_by_ref, release);

fn raw(told: Arc<Told>) -> RawWaker {
    RawWaker::new(Arc::into_raw(told).cast(), &TABLE)
}

unsafe fn clone(told: *const ()) -> RawWaker {
    pass(Call::WakerClone);
    // SAFETY: from `raw`, and still counted.
    unsafe { Arc::increment_strong_count(told.cast::<Told>()) };
    RawWaker::new(told, &TABLE)
}

unsafe fn wake(told: *const ()) {
    // SAFETY: from `raw`, and this is the waker's own count.
    let told = unsafe { Arc::from_raw(told.cast::<Told>()) };
    told.0.fetch_add(1, SeqCst);
    pass(Call::WakerWake);
}

unsafe fn wake_by_ref(told: *const ()) {
    // SAFETY: from `raw`, and still counted.
    unsafe { (*told.cast::<Told>()).0.fetch_add(1, SeqCst) };
    pass(Call::WakerWake);
}

unsafe fn release(told: *const ()) {
    // SAFETY: from `raw`, and this is the waker's own count.
    drop(unsafe { Arc::from_raw(told.cast::<Told>()) });
    pass(Call::WakerDrop);
}

/// A page of words at `0x1000`.
pub struct Memory {
    words: [AtomicU32; 64],
    /// The next access faults, and is cured by `fault_in`.
    is_absent: AtomicBool,
}

impl Memory {
    pub fn new() -> &'static Self {
        Box::leak(Box::new(Self { words: [const { AtomicU32::new(0) }; 64], is_absent: AtomicBool::new(false) }))
    }

    pub fn vanish(&self) {
        self.is_absent.store(true, SeqCst);
    }

    /// The word at this number; every sixteenth has a line, and so a bucket, of its own.
    pub fn word(&self, number: usize) -> &AtomicU32 {
        &self.words[number]
    }

    pub fn target(&'static self, number: usize) -> Guest<'static, Self> {
        Guest::new(self, 0x1000 + 4 * number as u64, Width::U32).expect("aligned")
    }

    fn at(&self, address: u64) -> Result<&AtomicU32, Fault> {
        if self.is_absent.load(SeqCst) {
            return Err(Fault);
        }
        self.words.get((address.checked_sub(0x1000).ok_or(Fault)?) as usize / 4).ok_or(Fault)
    }
}

impl UserMemory for Memory {
    fn load(&self, address: u64, width: Width) -> Result<u64, Fault> {
        pass(Call::Load);
        let word = u64::from(self.at(address)?.load(SeqCst));
        Ok(word >> (address % 4 * 8) & width.max())
    }
    fn compare_exchange(&self, address: u64, width: Width, current: u64, new: u64) -> Result<Result<u64, u64>, Fault> {
        pass(Call::Exchange);
        let word = self.at(address)?;
        let shift = address % 4 * 8;
        loop {
            let before = word.load(SeqCst);
            let held = u64::from(before) >> shift & width.max();
            if held != current {
                return Ok(Err(held));
            }
            let after = u64::from(before) & !(width.max() << shift) | new << shift;
            if word.compare_exchange(before, after as u32, SeqCst, SeqCst).is_ok() {
                return Ok(Ok(held));
            }
        }
    }
    fn fault_in(&self, _address: u64, _access: Access) -> Result<(), Fault> {
        self.is_absent.store(false, SeqCst);
        pass(Call::FaultIn);
        Ok(())
    }
}

/// Clocks that stand still until they are set.
#[derive(Default)]
pub struct Time {
    now: AtomicU64,
    cpu: AtomicU64,
}

impl Time {
    pub fn advance(&self, length: Duration) {
        self.now.fetch_add(length.as_nanos() as u64, SeqCst);
        self.cpu.fetch_add(length.as_nanos() as u64, SeqCst);
    }

    /// Nobody has CPU time meanwhile.
    pub fn advance_alone(&self, length: Duration) {
        self.now.fetch_add(length.as_nanos() as u64, SeqCst);
    }
}

impl Clocks for Time {
    fn now(&self, _base: Base) -> Duration {
        pass(Call::Now);
        Duration::from_nanos(self.now.load(SeqCst))
    }
    fn cpu_time(&self, _of: CpuClock) -> Option<Duration> {
        pass(Call::CpuTime);
        Some(Duration::from_nanos(self.cpu.load(SeqCst)))
    }
    fn changed(&self) {
        pass(Call::Changed);
    }
}

/// What it was told last of each task.
#[derive(Default)]
pub struct Log(Mutex<HashMap<u32, Priority>>);

impl Log {
    pub fn of(&self, tid: u32) -> Priority {
        let log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        log.get(&tid).copied().unwrap_or(Priority::NORMAL)
    }
}

impl Scheduler for Log {
    fn set_priority(&self, tid: u32, priority: Priority) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(tid, priority);
        pass(Call::SetPriority);
    }
}

/// One node.
struct Node;

impl Topology for Node {
    fn nodes(&self) -> usize {
        1
    }
    fn current_node(&self) -> u32 {
        pass(Call::CurrentNode);
        0
    }
    fn memory(&self) -> &'static dyn NodeMemory {
        &Tables
    }
}

struct Tables;

// SAFETY: the global allocator's promise, whose memory this is.
unsafe impl NodeMemory for Tables {
    fn allocate(&self, layout: std::alloc::Layout, _node: u32) -> *mut u8 {
        pass(Call::Allocate);
        // SAFETY: the layout's size is not 0, says the caller.
        unsafe { std::alloc::alloc_zeroed(layout) }
    }
    unsafe fn free(&self, memory: *mut u8, layout: std::alloc::Layout) {
        // SAFETY: from `allocate`, says the caller.
        unsafe { std::alloc::dealloc(memory, layout) }
    }
}

/// A system whose memory and nodes may panic.
pub fn system_of_nodes<L: ufutex::layout::Layout>() -> System<L> {
    let config = Config::new().cpus(2).global_slots(64).hash_seed(1).topology(Arc::new(Node));
    System::with_config(config).expect("the memory is there")
}

/// A system with all of these.
pub struct Embedder {
    pub system: System,
    pub domain: &'static Domain,
    pub time: Arc<Time>,
    pub log: Arc<Log>,
    pub memory: &'static Memory,
}

impl Embedder {
    pub fn new() -> Self {
        let (time, log) = (Arc::new(Time::default()), Arc::new(Log::default()));
        time.advance(Duration::from_secs(1));
        let config = Config::new().cpus(2).global_slots(64).hash_seed(1);
        let config = config.clocks(time.clone()).topology(Arc::new(Node));
        let system = System::with_scheduler(config, log.clone()).expect("the memory is there");
        // Without the early look each load is one under the lock.
        let options = Options::new().counters(true).early_return(false);
        let domain = Box::leak(Box::new(Domain::with_options(&system, options)));
        Self { system, domain, time, log, memory: Memory::new() }
    }

    pub fn driver(&self) -> &Driver {
        self.system.driver()
    }

    /// No lock is held: another thread waits and wakes on each of the words, locks and unlocks it, changes the table, sets
    /// and lets expire a timeout. Nobody waits.
    pub fn assert_free(&self) {
        let (domain, memory, system) = (self.domain, self.memory, self.system.clone());
        let other = std::thread::spawn(move || {
            let task = domain.task(9999).expect("the TID is free");
            for number in [0, 1, 16, 32] {
                assert_eq!(domain.wait(memory.target(number), 12345), Err(ufutex::Error::Again));
                assert_eq!(domain.wake(memory.target(number), usize::MAX), 0, "somebody waits for word {number}");
                memory.word(number).store(0, SeqCst);
                assert_eq!(domain.lock_pi(memory.target(number), &task, None), Ok(()));
                assert_eq!(domain.unlock_pi(memory.target(number), &task), Ok(()));
            }
            for slots in [64, 16] {
                assert_eq!(domain.set_slots(slots), Ok(()));
            }
            system.driver().turn();
        });
        assert!(other.join().is_ok(), "another thread's operations fail");
        assert_eq!(self.domain.waiting(), 0, "a waiter is counted that is gone");
        assert_eq!(self.domain.who_waits(100).iter().count(), 0);
    }
}
