//! Random calls of the C interface from many threads, most of them with bad handles. Two oracles check them: each bad
//! handle is refused as the header promises, and each counted wake is received.
//!
//! `UFUTEX_STORM_CALLS` sets the number of calls, 200,000 by default. `UFUTEX_STORM_SEED` sets the seed. A hundred
//! million calls take some minutes:
//!
//! `UFUTEX_STORM_CALLS=100000000 cargo test --release -p ufutex-capi --test storm -- --nocapture`

mod accounts;
mod caller;
mod calls;
mod embedder;
mod handles;
mod heap;
mod odd;
#[allow(dead_code, reason = "this test uses a part")]
#[path = "../../../ufutex/tests/common/random.rs"]
mod random;

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::{Duration, Instant};

use ufutex_capi::*;

use accounts::{Accounts, ZONES, Zone};
use caller::Caller;
use calls::handle;
use embedder::WORDS;
use handles::{Entry, History, Kind, LATE_CALLBACKS, Pool};
use random::{Random, number};

const THREADS: usize = 8;
/// If no call returns for this long, a thread hangs.
const PATIENCE: Duration = Duration::from_secs(30);
const SYSTEMS: usize = 3;
const DOMAINS: usize = 10;
const TASKS: usize = 24;
const WAITERS_OF_A_ZONE: usize = 16;
const TIMERS: usize = 8;
/// The most handles that are alive at a time: those in pools, those that are freed at the end, and two more for each
/// thread, which may be making one and ending one.
const MOST_HANDLES: usize = SYSTEMS + DOMAINS + TASKS + 3 * WAITERS_OF_A_ZONE + TIMERS + 4 + THREADS + 2 * THREADS;
/// Bytes that the library may keep when all objects are freed: slots of handles, and records of threads.
const KEPT_BYTES: isize = 64 << 10;
const FIRST_TID: u32 = 1000;

/// The state that all threads share.
struct Storm {
    seed: u64,
    systems: Pool,
    domains: Pool,
    tasks: Pool,
    waiters: [Pool; 3],
    timers: Pool,
    /// A task for each thread, in the domain that is freed last.
    tasks_of_threads: [Entry; THREADS],
    quiet: Entry,
    history: History,
    next_tid: AtomicU32,
    accounts: Accounts,
}

impl Storm {
    fn new(seed: u64) -> Arc<Self> {
        Arc::new(Self {
            seed,
            systems: Pool::new(SYSTEMS),
            domains: Pool::new(DOMAINS),
            tasks: Pool::new(TASKS),
            waiters: [(); 3].map(|()| Pool::new(WAITERS_OF_A_ZONE)),
            timers: Pool::new(TIMERS),
            tasks_of_threads: Default::default(),
            quiet: Entry::default(),
            history: History::new(),
            next_tid: AtomicU32::new(FIRST_TID),
            accounts: Accounts::default(),
        })
    }

    /// Makes the objects that are freed last: a system, a domain with a waiter, and a task in it for each thread.
    fn make_anchors(&self) {
        let (mut system, mut domain, mut waiter) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
        let mut timers = ptr::null_mut();
        let quiet = embedder::quiet();
        let context = ptr::from_ref(&self.quiet).cast_mut().cast();
        // SAFETY: all pointers are valid, and the word is in the arena.
        unsafe {
            assert_eq!(ufutex_system_new(ptr::null(), &mut system), 0);
            assert_eq!(ufutex_domain_new(system, ptr::null(), &mut domain), 0);
            let call = Some(handles::callback as _);
            let answer = ufutex_prepare_wait(domain, quiet, 0, UFUTEX_U32, ptr::null(), call, context, &mut waiter);
            assert_eq!(answer, -i64::from(libc::EINPROGRESS));
            assert_eq!(ufutex_timers_new(system, ptr::null(), &mut timers), 0);
        }
        self.history.set_anchor(Kind::System, system.addr() as u64);
        self.history.set_anchor(Kind::Domain, domain.addr() as u64);
        self.history.set_anchor(Kind::Waiter, waiter.addr() as u64);
        self.history.set_anchor(Kind::Timers, timers.addr() as u64);
        for entry in &self.tasks_of_threads {
            let mut task = ptr::null_mut();
            // SAFETY: see above.
            assert_eq!(unsafe { ufutex_task_new(domain, self.next_tid(), 0, &mut task) }, 0);
            self.history.set_anchor(Kind::Task, task.addr() as u64);
            entry.put(task.addr() as u64);
        }
    }

    fn next_tid(&self) -> u32 {
        FIRST_TID + self.next_tid.fetch_add(1, Relaxed) % (1 << 29)
    }

    /// The TID of a task that is alive, has ended, or is about to be made.
    fn some_tid(&self, random: &mut Random) -> u32 {
        self.next_tid.load(Relaxed).saturating_add(2).saturating_sub(random.below(64) as u32).max(1)
    }

    /// Wakes all threads that sleep at a word and interrupts all tasks, so that waits without a timeout end.
    fn deliver(&self) {
        let anchor = self.history.anchor(Kind::Domain);
        for domain in self.domains.iter().filter_map(Entry::get).chain([anchor]) {
            for (zone, number) in ZONES.into_iter().flat_map(|zone| (0..WORDS as usize).map(move |n| (zone, n))) {
                for flags in calls::FLAGS {
                    // SAFETY: any number may be passed as a handle. The word is in the arena.
                    let answer =
                        unsafe { ufutex_wake(handle(domain), embedder::word(zone, number), u32::MAX, u32::MAX, flags) };
                    self.accounts.counted(zone, answer.into());
                }
            }
        }
        for task in self.tasks.iter().chain(&self.tasks_of_threads).filter_map(Entry::get) {
            // SAFETY: any number may be passed as a handle.
            unsafe { ufutex_task_interrupt(handle(task)) };
        }
    }

    /// Ends and frees all objects after the threads have ended, when nothing is in use any more.
    fn free_all(self: &Arc<Self>) {
        let mut caller = Caller::new(self, THREADS, Random::new(self.seed));
        let quiet = self.history.anchor(Kind::Waiter);
        assert!(caller.end_waiter(&self.quiet, Zone::Any, quiet, 2), "seed {}: it waits", self.seed);
        for (zone, pool) in std::iter::zip(ZONES, &self.waiters) {
            for entry in pool.iter() {
                let Some(waiter) = entry.get() else { continue };
                assert!(caller.end_waiter(entry, zone, waiter, 2), "seed {}: {waiter:#x} is no waiter", self.seed);
            }
        }
        for entry in self.timers.iter() {
            let Some(timers) = entry.take() else { continue };
            // The driver's thread may be in the function of the timers, and use them.
            let mut timers = Some(timers);
            while let Some(handle) = timers {
                timers = if caller.free_taken(Kind::Timers, entry, handle) { None } else { entry.take() };
            }
        }
        let tasks: Vec<_> = self.tasks.iter().chain(&self.tasks_of_threads).collect();
        for (kind, entries) in [
            (Kind::Task, tasks),
            (Kind::Domain, self.domains.iter().collect()),
            (Kind::System, self.systems.iter().collect()),
        ] {
            for entry in entries {
                let Some(object) = entry.take() else { continue };
                assert!(caller.free_taken(kind, entry, object), "seed {}: the {kind:?} is in use", self.seed);
            }
        }
        for kind in [Kind::Timers, Kind::Domain, Kind::System] {
            let (name, answer) = caller.free(kind, self.history.anchor(kind));
            assert_eq!(answer, 0, "seed {}: {name}", self.seed);
        }
    }
}

#[test]
fn bad_handles_are_refused_and_every_wake_is_received_whatever_threads_call() {
    let (calls, seed) = (number("UFUTEX_STORM_CALLS", 200_000), number("UFUTEX_STORM_SEED", 1));
    // Printed first, because a crash prints no seed.
    println!("{calls} calls with seed {seed}");
    let before = heap::live_bytes();
    let storm = Storm::new(seed);
    storm.make_anchors();
    run(&storm, calls);
    storm.free_all();
    println!("{} calls: {}", storm.accounts.calls(), storm.accounts);
    storm.accounts.balance(seed);
    assert_eq!(LATE_CALLBACKS.load(SeqCst), 0, "seed {seed}: callbacks of waiters that had ended");
    let slots = storm.history.slots();
    assert!(slots <= MOST_HANDLES as u64, "seed {seed}: {slots} slots for at most {MOST_HANDLES} handles at a time");
    drop(storm);
    let kept = heap::live_bytes() - before;
    println!("{slots} slots of handles; {kept} bytes are kept");
    assert!(kept <= KEPT_BYTES, "seed {seed}: {kept} bytes are kept when all is freed");
}

/// Runs the threads until they have made `calls` calls.
fn run(storm: &Arc<Storm>, calls: u64) {
    let seed = storm.seed;
    let threads: Vec<_> = (0..THREADS)
        .map(|thread| {
            let storm = storm.clone();
            std::thread::spawn(move || {
                let mut caller = Caller::new(&storm, thread, Random::new(seed << 8 | thread as u64));
                while storm.accounts.calls() < calls {
                    caller.call();
                }
                caller.report();
            })
        })
        .collect();
    let (mut last, mut since, mut said) = (0, Instant::now(), Instant::now());
    // A thread that ends too soon has panicked, and the others may wait for it.
    let has_panicked = || threads.iter().any(|thread| thread.is_finished()) && storm.accounts.calls() < calls;
    while threads.iter().any(|thread| !thread.is_finished()) && !has_panicked() {
        storm.deliver();
        std::thread::sleep(Duration::from_millis(1));
        let made = storm.accounts.calls();
        if made != last {
            (last, since) = (made, Instant::now());
        }
        assert!(since.elapsed() < PATIENCE, "a thread hangs after {made} calls of seed {seed}: {}", storm.accounts);
        if said.elapsed() >= Duration::from_secs(10) {
            said = Instant::now();
            println!("{made} of {calls} calls: {}", storm.accounts);
        }
    }
    assert!(!has_panicked(), "seed {seed}: a thread has panicked after {} calls", storm.accounts.calls());
    for thread in threads {
        if let Err(panic) = thread.join() {
            println!("seed {seed}: {}", storm.accounts);
            std::panic::resume_unwind(panic);
        }
    }
}
