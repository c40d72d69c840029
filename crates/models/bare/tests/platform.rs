//! The engine without `std`, on platforms of these tests: one whose threads can lose their CPU at any time, and one
//! whose locks keep it.

use std::alloc::Layout;
use std::cell::Cell;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use ufutex_bare::platform::{Clock, Deadline, Platform};
use ufutex_bare::{
    Access, Domain, DomainOptions, Error, Fault, Key, System, SystemConfig, Target, Timeout, WaitOptions,
    pi::{Priority, Scheduler},
    platform::{NodeMemory, Topology},
};

/// Sleepers of all words, woken together.
static SLEEPERS: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());

fn sleep(word: &AtomicU32, expected: u32, deadline: Option<Deadline>) {
    let guard = SLEEPERS.0.lock().unwrap();
    if word.load(Acquire) != expected {
        return;
    }
    match deadline.map(|deadline| deadline.at.saturating_sub(now())) {
        None => drop(SLEEPERS.1.wait(guard).unwrap()),
        Some(left) => drop(SLEEPERS.1.wait_timeout(guard, left).unwrap()),
    }
}

fn wake() -> usize {
    let _guard = SLEEPERS.0.lock().unwrap();
    SLEEPERS.1.notify_all();
    0
}

fn now() -> Duration {
    static START: Mutex<Option<Instant>> = Mutex::new(None);
    START.lock().unwrap().get_or_insert_with(Instant::now).elapsed()
}

/// Threads sleep wherever they have to wait, also for a lock. Each test has its own, by number.
struct Preempted<const TEST: usize>;

/// The number of sleeps for a lock, for each test. A contender for a lock sleeps while a word is not 0, and a waiter
/// while its word is 0.
static SLEEPS_FOR_A_LOCK: [AtomicUsize; 3] = [const { AtomicUsize::new(0) }; 3];

impl<const TEST: usize> Platform for Preempted<TEST> {
    fn park(word: &AtomicU32, expected: u32, deadline: Option<Deadline>) {
        SLEEPS_FOR_A_LOCK[TEST].fetch_add(usize::from(expected != 0), Relaxed);
        sleep(word, expected, deadline);
    }
    fn unpark(_word: *const AtomicU32, _count: usize) -> usize {
        wake()
    }
    fn now(_clock: Clock) -> Duration {
        now()
    }
    fn enter() {
        panic!("its locks do not keep the CPU");
    }
    fn leave() {
        panic!("its locks do not keep the CPU");
    }
}

thread_local! {
    /// The number of sections that this thread is in.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    /// Whether the thread does nothing but wake.
    static IS_WAKER: Cell<bool> = const { Cell::new(false) };
}

fn depth() -> u32 {
    DEPTH.get()
}

/// As in a kernel: a thread that holds a lock keeps its CPU, and must not sleep. A wake that waits for a lock must not
/// sleep either.
struct KeepsCpu;

/// The number of sections that all threads have entered.
static ENTERED: AtomicUsize = AtomicUsize::new(0);

impl Platform for KeepsCpu {
    const KEEPS_CPU: bool = true;

    fn park(word: &AtomicU32, expected: u32, deadline: Option<Deadline>) {
        assert_eq!(depth(), 0, "a thread that holds a lock must not sleep");
        assert!(!IS_WAKER.get(), "a wake may be an interrupt handler's: it must not sleep");
        sleep(word, expected, deadline);
    }
    fn unpark(_word: *const AtomicU32, _count: usize) -> usize {
        wake()
    }
    fn now(_clock: Clock) -> Duration {
        now()
    }
    fn enter() {
        ENTERED.fetch_add(1, Relaxed);
        DEPTH.set(depth() + 1);
    }
    fn leave() {
        DEPTH.set(depth().checked_sub(1).expect("each leave follows an enter"));
    }
}

fn domain<P: Platform>(options: DomainOptions) -> Domain {
    let config = SystemConfig::new().cpus(2).hash_seed(1).global_slots(64).platform::<P>();
    Domain::with_options(&System::with_config(config).expect("there is memory"), options)
}

/// A word that notes at each look how deep in sections the thread is.
struct Watched<'w> {
    word: &'w AtomicU32,
    deepest: &'w AtomicU32,
    /// Runs at each look, with the bucket locked unless it is the early one.
    at_look: &'w (dyn Fn() + Sync),
}

impl Key for Watched<'_> {
    fn address(&self) -> u64 {
        self.word.as_ptr().addr() as u64
    }
}

impl Target for Watched<'_> {
    type Value = u32;
    fn load(&self) -> Result<u32, Fault> {
        self.deepest.fetch_max(depth(), Relaxed);
        (self.at_look)();
        Ok(self.word.load(Acquire))
    }
    fn compare_exchange(&self, current: u32, new: u32) -> Result<Result<u32, u32>, Fault> {
        Ok(self.word.compare_exchange(current, new, AcqRel, Acquire))
    }
    fn fault_in(&self, _access: Access) -> Result<(), Fault> {
        Ok(())
    }
}

/// Each of `threads` threads locks a mutex `rounds` times, and adds 1 to a counter under it. Now and then it also makes
/// a wait that times out.
fn count_under_a_mutex(domain: &Domain, threads: usize, rounds: usize) {
    let (lock, count) = (AtomicU32::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                for round in 0..rounds {
                    let mut value = lock.compare_exchange(0, 1, Acquire, Relaxed).err();
                    while value.is_some() {
                        if value == Some(2) || lock.compare_exchange(1, 2, Acquire, Relaxed).is_ok() {
                            let _differs = domain.wait(&lock, 2);
                        }
                        value = lock.compare_exchange(0, 2, Acquire, Relaxed).err();
                    }
                    // No other thread is here.
                    count.store(count.load(Relaxed) + 1, Relaxed);
                    if lock.swap(0, Release) == 2 {
                        domain.wake(&lock, 1);
                    }
                    if round % 64 == 0 {
                        let soon = WaitOptions::new().timeout(Timeout::After(Duration::from_micros(50)));
                        assert_eq!(domain.wait_with(&AtomicU32::new(7), 7, &soon), Err(Error::TimedOut));
                    }
                }
                assert_eq!(depth(), 0, "an operation has not left");
            });
        }
    });
    assert_eq!(count.into_inner(), threads * rounds);
}

#[test]
fn threads_wait_on_a_platform_that_preempts() {
    count_under_a_mutex(&domain::<Preempted<0>>(DomainOptions::new()), 4, 500);
}

#[test]
fn threads_wait_on_a_platform_whose_locks_keep_the_cpu() {
    count_under_a_mutex(&domain::<KeepsCpu>(DomainOptions::new()), 4, 500);
}

#[test]
fn contender_sleeps_where_holders_can_be_preempted() {
    let domain = domain::<Preempted<1>>(DomainOptions::new().early_return(false));
    let (word, deepest) = (AtomicU32::new(0), AtomicU32::new(0));
    let is_held = AtomicBool::new(false);
    let hold = || {
        is_held.store(true, SeqCst);
        while SLEEPS_FOR_A_LOCK[1].load(Relaxed) == 0 {
            std::thread::yield_now();
        }
    };
    std::thread::scope(|scope| {
        let holder = scope.spawn(|| domain.wait(Watched { word: &word, deepest: &deepest, at_look: &hold }, 1));
        while !is_held.load(SeqCst) {
            std::thread::yield_now();
        }
        assert_eq!(domain.wake(&word, 1), 0, "it sleeps for the bucket, and finds nobody");
        assert_eq!(holder.join().unwrap(), Err(Error::Again));
    });
}

#[test]
fn contender_spins_and_stays_interruptible_where_holders_keep_their_cpu() {
    let domain = domain::<KeepsCpu>(DomainOptions::new().early_return(false));
    let (word, deepest) = (AtomicU32::new(0), AtomicU32::new(0));
    let is_held = AtomicBool::new(false);
    let hold = || {
        is_held.store(true, SeqCst);
        let before = ENTERED.load(Relaxed);
        while ENTERED.load(Relaxed) < before + 1000 {
            std::thread::yield_now();
        }
    };
    std::thread::scope(|scope| {
        let holder = scope.spawn(|| domain.wait(Watched { word: &word, deepest: &deepest, at_look: &hold }, 1));
        while !is_held.load(SeqCst) {
            std::thread::yield_now();
        }
        IS_WAKER.set(true);
        assert_eq!(domain.wake(&word, 1), 0);
        assert_eq!(depth(), 0, "a failed attempt has not left");
        assert_eq!(holder.join().unwrap(), Err(Error::Again));
    });
}

/// One node, whose memory notes how deep in sections the thread is that asks for it.
struct WatchedMemory;

static DEEPEST_ALLOCATION: AtomicU32 = AtomicU32::new(0);

impl Topology for WatchedMemory {
    fn nodes(&self) -> usize {
        1
    }
    fn current_node(&self) -> u32 {
        0
    }
    fn memory(&self) -> &'static dyn NodeMemory {
        &Self
    }
}

// SAFETY: the memory is the global allocator's.
unsafe impl NodeMemory for WatchedMemory {
    fn allocate(&self, layout: Layout, _node: u32) -> *mut u8 {
        DEEPEST_ALLOCATION.fetch_max(depth(), Relaxed);
        // SAFETY: no layout of a table is empty.
        unsafe { std::alloc::alloc_zeroed(layout) }
    }
    unsafe fn free(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller passes what `allocate` has returned.
        unsafe { std::alloc::dealloc(memory, layout) };
    }
}

#[test]
fn tables_are_allocated_outside_of_sections() {
    let config = SystemConfig::new().cpus(2).hash_seed(1).platform::<KeepsCpu>().topology(Arc::new(WatchedMemory));
    let domain: Domain =
        Domain::with_options(&System::with_config(config).expect("there is memory"), DomainOptions::new());
    for slots in [64, 16, 1024] {
        domain.set_slots(slots).expect("there is memory");
    }
    assert_eq!(DEEPEST_ALLOCATION.load(Relaxed), 0);
    assert_eq!(depth(), 0);
}

#[test]
fn word_is_compared_with_one_section_entered_and_all_are_left() {
    let domain = domain::<KeepsCpu>(DomainOptions::new().early_return(false));
    let (word, deepest) = (AtomicU32::new(0), AtomicU32::new(0));
    let watched = || Watched { word: &word, deepest: &deepest, at_look: &|| {} };
    assert_eq!(domain.wait(watched(), 1), Err(Error::Again));
    assert_eq!(deepest.swap(0, AcqRel), 1, "the bucket's");
    let soon = WaitOptions::new().timeout(Timeout::After(Duration::from_millis(1)));
    assert_eq!(domain.wait_with(watched(), 0, &soon), Err(Error::TimedOut));
    assert_eq!(depth(), 0);
    for slots in [64, 16, 0, 256] {
        domain.set_slots(slots).expect("there is memory");
        assert_eq!(depth(), 0, "{slots} slots");
    }
    let task = domain.task(1).expect("the TID is free");
    let lock = AtomicU32::new(0);
    domain.lock_pi(&lock, &task).expect("it is free");
    domain.unlock_pi(&lock, &task).expect("it is ours");
    drop(task);
    assert_eq!(depth(), 0, "after a lock with priority inheritance");
}

/// A scheduler that counts its calls outside of sections.
#[derive(Default)]
struct CallsOutside(AtomicU32);

impl Scheduler for CallsOutside {
    fn set_priority(&self, _tid: u32, _priority: Priority) {
        self.0.fetch_add(u32::from(depth() == 0), Relaxed);
    }
}

#[test]
fn scheduler_is_called_in_a_section_where_holders_keep_their_cpu() {
    let scheduler = Arc::new(CallsOutside::default());
    let config = SystemConfig::new().cpus(2).hash_seed(1).platform::<KeepsCpu>();
    let system = System::with_scheduler(config, scheduler.clone()).expect("there is memory");
    let domain = Domain::with_options(&system, DomainOptions::new());
    let [owner, heir] = [1, 2].map(|tid| domain.task(tid).expect("the TID is free"));
    heir.set_priority(Priority::realtime(10));
    let lock = AtomicU32::new(0);
    domain.lock_pi(&lock, &owner).expect("it is free");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            domain.lock_pi(&lock, &heir).expect("it is handed over");
            assert_eq!(depth(), 0);
        });
        while owner.priority() == Priority::NORMAL {
            std::thread::yield_now();
        }
        domain.unlock_pi(&lock, &owner).expect("it is ours");
        assert_eq!(depth(), 0);
    });
    drop((owner, heir));
    assert_eq!(depth(), 0);
    assert_eq!(scheduler.0.load(Relaxed), 0, "a reporter could be preempted");
}

#[test]
fn timeout_by_the_platforms_clock_does_not_come_early() {
    let domain = domain::<Preempted<2>>(DomainOptions::new());
    let length = Duration::from_millis(5);
    let begin = Instant::now();
    let by = WaitOptions::new().timeout(Timeout::At(Clock::Monotonic, now() + length));
    assert_eq!(domain.wait_with(&AtomicU32::new(0), 0, &by), Err(Error::TimedOut));
    assert!(begin.elapsed() >= length);
}
