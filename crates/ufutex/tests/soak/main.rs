//! Uses all features concurrently in one process for a long time. Every wake and every expiration must be accounted
//! for, and memory use must not grow.
//!
//! `UFUTEX_SOAK_SECONDS` sets the duration. The default is 5.
//!
//! `UFUTEX_SOAK_SECONDS=600 cargo test --release -p ufutex --test soak -- --nocapture`

#[path = "../common/mod.rs"]
mod common;

mod guest;
mod heap;
mod ledger;
mod memory;
mod work;
#[path = "../stress/workers.rs"]
mod workers;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use ufutex::System;
use ufutex::timer::Timers;

use common::random::{Random, number};
use guest::Guest;
use ledger::Ledger;
use memory::Most;
use workers::{Desk, Workers};

const GUESTS: usize = 3;
type Work = fn(&Soak, &Desk, Random);
const WORKERS: [(&str, Work); 13] = [
    ("a sleeper", work::sleep),
    ("another sleeper", work::sleep),
    ("a third sleeper", work::sleep),
    ("canceller", work::cancel),
    ("future poller", work::poll),
    ("a waker", work::wake),
    ("another waker", work::wake),
    ("resizer", work::resize),
    ("an owner", work::lock),
    ("another owner", work::lock),
    ("a third owner", work::lock),
    ("short-lived domains", work::come_and_go),
    ("timer setter", work::set_timers),
];
/// Bytes that may remain allocated after everything has been dropped: what the standard library keeps for threads and
/// output, and the driver's thread, which may not have ended yet.
const LEFT: isize = 64 << 10;

/// The state that all workers share.
struct Soak {
    system: System,
    guests: [Guest; GUESTS],
    timers: Timers,
    ledger: Arc<Ledger>,
    next_tid: AtomicU32,
    /// Number of short-lived domains that have been dropped.
    domains: AtomicU64,
}

impl Soak {
    fn new() -> Arc<Self> {
        let (system, ledger) = (System::new(), Arc::new(Ledger::default()));
        Arc::new(Self {
            guests: [(); GUESTS].map(|()| Guest::new(&system)),
            timers: Timers::new(system.driver(), ledger.clone()).expect("there is memory"),
            system,
            ledger,
            next_tid: AtomicU32::new(0),
            domains: AtomicU64::new(0),
        })
    }

    fn guest(&self, random: &mut Random) -> &Guest {
        &self.guests[random.below(GUESTS)]
    }

    /// The next TID. TIDs are reused long after their task has ended.
    fn next_tid(&self) -> u32 {
        1 + self.next_tid.fetch_add(1, Relaxed) % (1 << 29)
    }

    fn line(&self) -> String {
        let sums = |i: usize| self.guests.iter().map(|guest| guest.sums()[i]).sum::<u64>();
        let (counted, received, taken) = (sums(0), sums(1), sums(2));
        let (domains, expired) = (self.domains.load(Relaxed), self.ledger.delivered());
        format!(
            "{counted} wakes counted, {received} received; {taken} locks taken, {expired} timers expired, {domains} domains gone"
        )
    }
}

/// Runs the workers. Returns the maximum memory use in the fifth of the time after the warm-up, and in the last fifth.
fn run(soak: &Soak, workers: &Workers<Soak>, length: Duration) -> [Most; 2] {
    const STEP: Duration = Duration::from_millis(10);
    let (begin, mut said) = (Instant::now(), Instant::now());
    let mut fifths = [Most::default(); 5];
    while begin.elapsed() < length {
        let step = Instant::now();
        workers.run(STEP);
        if step.elapsed() < STEP {
            // A worker has panicked.
            break;
        }
        let fifth = (begin.elapsed().as_nanos() * 5 / length.as_nanos()).min(4) as usize;
        fifths[fifth].look(&soak.system);
        assert_eq!(soak.ledger.wrong(), None);
        if said.elapsed() >= Duration::from_secs(10) {
            said = Instant::now();
            println!("{} s: {}; at most {}", begin.elapsed().as_secs(), soak.line(), fifths[fifth]);
        }
    }
    [fifths[1], fifths[4]]
}

#[test]
fn every_wake_and_expiration_is_accounted_for_and_memory_is_flat() {
    let before = heap::live_bytes();
    let soak = Soak::new();
    let mut workers = Workers::new(soak.clone());
    WORKERS.into_iter().for_each(|(name, work)| workers.add(name, work));
    let [early, late] = run(&soak, &workers, length());
    workers.stop(|soak| soak.guests.iter().for_each(Guest::wake_all));
    println!("{}", soak.line());
    assert_eq!(soak.ledger.wrong(), None);
    soak.guests.iter().for_each(Guest::balance);
    assert!(soak.ledger.delivered() > 0 && soak.domains.load(Relaxed) > 0);
    assert_eq!(soak.timers.count(), 0);
    early.compare(&late, GUESTS, WORKERS.len());
    drop(soak);
    let left = heap::live_bytes() - before;
    println!("{left} bytes are left when all is dropped");
    assert!(left <= LEFT, "{left} bytes are left on the heap when all is dropped");
}

fn length() -> Duration {
    Duration::from_secs(number("UFUTEX_SOAK_SECONDS", 5))
}
