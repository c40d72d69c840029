//! Random system calls from many threads over several domains, with memory that is hostile, and an oracle that counts wakes. The
//! last domain is in a PID namespace of its own, where the TIDs are those of the others once more.
//!
//! `UFUTEX_STORM_CALLS` sets how many calls are made in all; the default is 200,000. `UFUTEX_STORM_SEED` sets the seed.
//! A hundred million take some minutes:
//!
//! `UFUTEX_STORM_CALLS=100000000 cargo test --release -p ufutex --test storm -- --nocapture`

#[path = "../common/mod.rs"]
mod common;

mod accounts;
mod caller;
mod memory;
#[path = "../stress/random.rs"]
mod random;

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ufutex::{Config, Domain, Options, PidNamespace, System, Task};

use accounts::Accounts;
use caller::Caller;
use common::PATIENCE;
use memory::{Memory, Page};
use random::Random;

const DOMAINS: usize = 3;
const THREADS: usize = 12;
/// The first TID; words that are accounted for never hold one.
const FIRST_TID: u32 = 1000;

/// A guest.
struct Guest {
    domain: Domain,
    memory: Memory,
}

/// What all threads share.
struct Storm {
    guests: Vec<Guest>,
    /// The present task of each thread, and at the end the postman's, one in each domain.
    tasks: Vec<Mutex<Arc<Task>>>,
    /// The next TID of each guest's namespace.
    next_tids: [Arc<AtomicU32>; DOMAINS],
    accounts: Accounts,
}

impl Storm {
    fn new(seed: u64) -> Self {
        // Few global buckets, so that strangers meet.
        let config = Config::new().global_slots(8).hash_seed(seed);
        let system = System::with_config(config).expect("these settings are valid");
        let object = Arc::new(Page::new());
        let (common, own) = (system.pid_namespace(), PidNamespace::new(&system).expect("the memory is there"));
        let domains = [&common, &common, &own].map(|namespace| Domain::in_namespace(namespace, Options::new()));
        let [tids, own_tids] = [(); 2].map(|()| Arc::new(AtomicU32::new(FIRST_TID)));
        let mut storm = Self {
            guests: domains.map(|domain| Guest { domain, memory: Memory::new(object.clone()) }).into(),
            tasks: Vec::new(),
            next_tids: [tids.clone(), tids, own_tids],
            accounts: Accounts::default(),
        };
        storm.tasks = (0..THREADS + DOMAINS).map(|thread| Mutex::new(storm.new_task(thread))).collect();
        storm
    }

    /// The guest of a thread, or of a task of the postman.
    fn guest(&self, thread: usize) -> &Guest {
        &self.guests[thread % DOMAINS]
    }

    fn new_task(&self, thread: usize) -> Arc<Task> {
        let tid = self.next_tids[thread % DOMAINS].fetch_add(1, Relaxed);
        Arc::new(self.guest(thread).domain.task(tid).expect("no TID comes twice in a namespace"))
    }

    fn task(&self, thread: usize) -> Arc<Task> {
        self.tasks[thread].lock().expect("nobody panics with it").clone()
    }

    /// Wakes everybody who can be woken, and interrupts the others: whoever sleeps without a timeout goes on.
    fn deliver(&self) {
        for domain in 0..DOMAINS {
            Caller::new(self, THREADS + domain, Random::new(1)).wake_everybody();
        }
        (0..THREADS).for_each(|thread| self.task(thread).interrupt().raise());
    }
}

#[test]
fn no_wake_is_lost_or_doubled_whatever_guests_call_and_their_memory_does() {
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
        assert!(since.elapsed() < PATIENCE, "somebody hangs after {made} calls of seed {seed}: {}", storm.accounts);
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
        assert_eq!(guest.domain.waiting(), 0, "seed {seed}: nobody waits any more");
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .map_or(default, |value| value.parse().unwrap_or_else(|_| panic!("{name}={value:?} is no number")))
}
