//! Random system calls from many threads in several domains, with hostile memory and an oracle that counts wakes. The
//! last domain is in a PID namespace of its own, where the same TIDs exist again.
//!
//! `UFUTEX_STORM_CALLS` sets the total number of calls; the default is 200,000. `UFUTEX_STORM_SEED` sets the seed. A hundred
//! million calls take some minutes:
//!
//! `UFUTEX_STORM_CALLS=100000000 cargo test --release -p ufutex --test storm -- --nocapture`
//!
//! Promise: hostile calls

#[path = "../common/mod.rs"]
mod common;

mod accounts;
mod caller;
mod memory;

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ufutex::{Domain, DomainOptions, PidNamespace, SharedObject, System, SystemConfig, Task};

use accounts::Accounts;
use caller::Caller;
use common::PATIENCE;
use common::random::{Random, number};
use memory::{Memory, Page};

const DOMAINS: usize = 3;
const THREADS: usize = 12;
/// The first TID. Counted words never hold a value in the range of TIDs.
const FIRST_TID: u32 = 1000;

/// A guest.
struct Guest {
    domain: Domain,
    memory: Memory,
}

/// The state that all threads share.
struct Storm {
    guests: Vec<Guest>,
    /// The current task of each thread, followed by one task in each domain for `deliver`.
    tasks: Vec<Mutex<Arc<Task>>>,
    /// The next TID of each guest's namespace.
    next_tids: [Arc<AtomicU32>; DOMAINS],
    accounts: Accounts,
    /// All guests map it.
    _object: SharedObject,
}

impl Storm {
    fn new(seed: u64) -> Self {
        // Few global buckets, so that unrelated words often share one.
        let config = SystemConfig::new().global_slots(8).hash_seed(seed);
        let system = System::with_config(config).expect("these settings are valid");
        let (object, page) = (SharedObject::new(&system).expect("the memory is there"), Arc::new(Page::new()));
        let (common, own) = (system.pid_namespace(), PidNamespace::new(&system).expect("the memory is there"));
        let domains = [&common, &common, &own].map(|namespace| Domain::in_namespace(namespace, DomainOptions::new()));
        let [tids, own_tids] = [(); 2].map(|()| Arc::new(AtomicU32::new(FIRST_TID)));
        let mut storm = Self {
            guests: domains.map(|domain| Guest { domain, memory: Memory::new(&page, object.id()) }).into(),
            tasks: Vec::new(),
            next_tids: [tids.clone(), tids, own_tids],
            accounts: Accounts::default(),
            _object: object,
        };
        storm.tasks = (0..THREADS + DOMAINS).map(|thread| Mutex::new(storm.new_task(thread))).collect();
        storm
    }

    /// The guest of a thread, or of a task of `deliver`.
    fn guest(&self, thread: usize) -> &Guest {
        &self.guests[thread % DOMAINS]
    }

    fn new_task(&self, thread: usize) -> Arc<Task> {
        let tid = self.next_tids[thread % DOMAINS].fetch_add(1, Relaxed);
        Arc::new(self.guest(thread).domain.task(tid).expect("no TID comes twice in a namespace"))
    }

    fn task(&self, thread: usize) -> Arc<Task> {
        self.tasks[thread].lock().expect("not poisoned").clone()
    }

    /// Wakes all waiters that can be woken and interrupts the others, so that no call without a timeout sleeps for
    /// ever.
    fn deliver(&self) {
        for domain in 0..DOMAINS {
            Caller::new(self, THREADS + domain, Random::new(1)).wake_all();
        }
        (0..THREADS).for_each(|thread| self.task(thread).interrupt().raise());
    }
}

#[test]
fn no_wake_is_lost_or_doubled_by_hostile_guests() {
    let (calls, seed) = (number("UFUTEX_STORM_CALLS", 200_000), number("UFUTEX_STORM_SEED", 1));
    let storm = Arc::new(Storm::new(seed));
    let threads: Vec<_> = (0..THREADS)
        .map(|thread| {
            let storm = storm.clone();
            std::thread::spawn(move || {
                let mut caller = Caller::new(&storm, thread, Random::new(seed << 8 | thread as u64));
                while storm.accounts.calls() < calls {
                    caller.call();
                }
            })
        })
        .collect();
    let (mut last, mut since, mut said) = (0, Instant::now(), Instant::now());
    while threads.iter().any(|thread| !thread.is_finished()) {
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
    for thread in threads {
        if let Err(panic) = thread.join() {
            println!("seed {seed}: {}", storm.accounts);
            std::panic::resume_unwind(panic);
        }
    }
    println!("{} calls: {}", storm.accounts.calls(), storm.accounts);
    storm.accounts.balance(seed);
    for guest in &storm.guests {
        assert_eq!(guest.domain.waiting(), 0, "seed {seed}: a waiter is left");
    }
}
