//! An embedder whose every callback may panic: wakers, memory, clocks, scheduler, nodes.

use std::collections::HashMap;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{RawWaker, RawWakerVTable, Waker};
use std::time::Duration;

use ufutex::timer::{Base, Clocks, CpuClock, Driver};
use ufutex::{
    Domain, DomainOptions, GuestWord, System, SystemConfig,
    pi::{Priority, Scheduler},
    platform::{NodeMemory, Topology},
};

use crate::bomb::{Call, pass};
use crate::common::guest_memory::{Event, GuestMemory};

/// Counts the calls of its wakers.
#[derive(Default)]
pub struct Notified(AtomicUsize);

impl Notified {
    pub fn new() -> (Arc<Self>, Waker) {
        let notified = Arc::new(Self::default());
        // SAFETY: the table's functions count references to the `Arc`.
        let waker = unsafe { Waker::from_raw(raw(notified.clone())) };
        (notified, waker)
    }

    pub fn times(&self) -> usize {
        self.0.load(SeqCst)
    }
}

static TABLE: RawWakerVTable = RawWakerVTable::new(clone, wake, wake_by_ref, release);

fn raw(notified: Arc<Notified>) -> RawWaker {
    RawWaker::new(Arc::into_raw(notified).cast(), &TABLE)
}

unsafe fn clone(notified: *const ()) -> RawWaker {
    pass(Call::WakerClone);
    // SAFETY: from `raw`, and still counted.
    unsafe { Arc::increment_strong_count(notified.cast::<Notified>()) };
    RawWaker::new(notified, &TABLE)
}

unsafe fn wake(notified: *const ()) {
    // SAFETY: from `raw`, and this is the waker's own count.
    let notified = unsafe { Arc::from_raw(notified.cast::<Notified>()) };
    notified.0.fetch_add(1, SeqCst);
    pass(Call::WakerWake);
}

unsafe fn wake_by_ref(notified: *const ()) {
    // SAFETY: from `raw`, and still counted.
    unsafe { (*notified.cast::<Notified>()).0.fetch_add(1, SeqCst) };
    pass(Call::WakerWake);
}

unsafe fn release(notified: *const ()) {
    // SAFETY: from `raw`, and this is the waker's own count.
    drop(unsafe { Arc::from_raw(notified.cast::<Notified>()) });
    pass(Call::WakerDrop);
}

/// Memory whose every function is a callback that may panic.
pub type Memory = GuestMemory;

fn new_memory() -> &'static Memory {
    Box::leak(Box::new(Memory::with_hook(|event, _| {
        pass(match event {
            Event::Load => Call::Load,
            Event::CompareExchange => Call::Exchange,
            Event::FaultIn(_) => Call::FaultIn,
        });
        Ok(())
    })))
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

    /// As `advance`, but CPU clocks stand still.
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

/// The last priority of each task that the scheduler was given.
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

// SAFETY: the memory is the global allocator's.
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
pub fn system_of_nodes() -> System {
    let config = SystemConfig::new().cpus(2).global_slots(64).hash_seed(1).topology(Arc::new(Node));
    System::with_config(config).expect("the memory is there")
}

/// A system with all of these callbacks.
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
        let config = SystemConfig::new().cpus(2).global_slots(64).hash_seed(1);
        let config = config.clocks(time.clone()).topology(Arc::new(Node));
        let system = System::with_scheduler(config, log.clone()).expect("the memory is there");
        // Without the early return, each load is made with the bucket locked.
        let options = DomainOptions::new().counters(true).early_return(false);
        let domain = Box::leak(Box::new(Domain::with_options(&system, options)));
        Self { system, domain, time, log, memory: new_memory() }
    }

    pub fn driver(&self) -> &Driver {
        self.system.driver()
    }

    /// The word with this number. Every sixteenth has a cache line, and so a bucket, of its own.
    pub fn word(&self, number: usize) -> &'static AtomicU32 {
        self.memory.word(4 * number as u64)
    }

    pub fn target(&self, number: usize) -> GuestWord<'static, Memory> {
        self.memory.target(4 * number as u64)
    }

    /// Checks that no lock is held and that there is no waiter. Another thread waits and wakes on each of the words,
    /// locks and unlocks them, resizes the table and turns the driver.
    pub fn assert_free(&self) {
        let (domain, system) = (self.domain, self.system.clone());
        let words = [0, 1, 16, 32].map(|number| (self.target(number), self.word(number)));
        let other = std::thread::spawn(move || {
            let task = domain.task(9999).expect("the TID is free");
            for (target, word) in words {
                assert_eq!(domain.wait(target, 12345), Err(ufutex::Error::Again));
                assert_eq!(domain.wake(target, usize::MAX), 0, "a waiter is left on a word");
                word.store(0, SeqCst);
                assert_eq!(domain.lock_pi(target, &task), Ok(()));
                assert_eq!(domain.unlock_pi(target, &task), Ok(()));
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
