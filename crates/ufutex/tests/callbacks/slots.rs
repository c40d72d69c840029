//! Callbacks of resizes for memory, and races of requests for slots.
//!
//! Promise: resizes rest

use std::cell::Cell;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use ufutex::platform::{Clock, Deadline, Platform};
use ufutex::{Domain, Error, System, SystemConfig};

use crate::bomb::{Bomb, Call, for_every};
use crate::common::domains::{on_resizable_domains, system};
use crate::common::waiters::{idle, queue, waiter_on};

/// A request that fails or panics leaves the size to the policy.
fn memory_of_a_resize_panics() {
    let scenario = |bomb: &mut Bomb| {
        let domain = Domain::with_options(&crate::guest::system_of_nodes(), ufutex::DomainOptions::new());
        let word = std::sync::atomic::AtomicU32::new(0);
        let queued = waiter_on(&domain, &word);
        let before = domain.slots();
        let resized = bomb.during(|| domain.set_slots(256));
        assert_eq!(domain.slots(), if resized.is_none() { before } else { 256 });
        assert_eq!(domain.set_slots(64), Ok(()));
        assert_eq!(domain.wake(&word, 1), 1);
        assert!(queued.is_woken());
    };
    for_every(Call::Allocate, 1, scenario);
    for_every(Call::CurrentNode, 1, scenario);
}

/// Runs both functions at the same time.
fn race<A: Send, B: Send>(one: impl FnOnce() -> A + Send, other: impl FnOnce() -> B + Send) -> (A, B) {
    let start = std::sync::Barrier::new(2);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            start.wait();
            other()
        });
        start.wait();
        (one(), other.join().expect("it does not panic"))
    })
}

const RACES: usize = 200;
const SET_SLOTS: u64 = 1;
const IMMUTABLE: u64 = 1;

/// Runs `f` on a domain with `count` waiters, each on a word of its own, so that a resize takes long.
fn with_waiters(count: usize, f: impl FnOnce(&Domain)) {
    let system = system();
    let domain = Domain::with_options(&system, ufutex::DomainOptions::new());
    let words: Vec<_> = (0..16 * count).map(|_| std::sync::atomic::AtomicU32::new(0)).collect();
    let mut waiters = idle(count);
    let queued: Vec<_> = std::iter::zip(words.iter().step_by(16), &mut waiters)
        .map(|(word, waiter)| queue(&domain, waiter, word))
        .collect();
    f(&domain);
    let woken: usize = words.iter().step_by(16).map(|word| domain.wake(word, 1)).sum();
    assert_eq!(woken, count, "a waiter was lost");
    assert!(queued.iter().all(ufutex::Queued::is_woken));
}

fn zero_slots_are_final_although_other_requests_race() {
    for _ in 0..RACES {
        with_waiters(300, |domain| {
            assert_eq!(domain.prctl_futex_hash(SET_SLOTS, 16, 0), 0);
            let (zero, two) =
                race(|| domain.prctl_futex_hash(SET_SLOTS, 0, 0), || domain.prctl_futex_hash(SET_SLOTS, 2, 0));
            assert_eq!(zero, 0);
            assert!([0, -16].contains(&two), "{two}");
            assert_eq!(domain.slots(), 0, "it was to be the global table for good");
            assert_eq!(domain.prctl_futex_hash(SET_SLOTS, 2, 0), -16);
        });
    }
}

fn immutable_slots_stay_although_other_requests_race() {
    for round in 0..RACES {
        with_waiters(300, |domain| {
            assert_eq!(domain.prctl_futex_hash(SET_SLOTS, 16, 0), 0);
            let at_once = |slots| move |domain: &Domain| domain.prctl_futex_hash(SET_SLOTS, slots, IMMUTABLE);
            let (one, other) = race(|| at_once(64)(domain), || at_once(2)(domain));
            assert_eq!([one, other].iter().filter(|&&result| result == 0).count(), 1, "{one} {other}");
            assert_eq!(domain.slots(), if one == 0 { 64 } else { 2 }, "round {round}");
        });
        with_waiters(300, |domain| {
            assert_eq!(domain.set_slots(16), Ok(()));
            let (slots, set) = race(
                || {
                    domain.set_immutable();
                    domain.slots()
                },
                || domain.set_slots(64),
            );
            assert!(domain.is_immutable());
            assert_eq!(domain.slots(), slots, "it has changed since it was immutable");
            assert_eq!(slots, if set.is_ok() { 64 } else { 16 });
        });
    }
}

/// A node whose allocator calls a hook first, and fails for more than 1 MiB.
struct Hooked(Memory);

/// Called with the size of a table in bytes.
type Hook = Box<dyn FnOnce(usize) + Send>;

struct Memory(std::sync::Mutex<Option<Hook>>);

impl Hooked {
    fn new() -> &'static Self {
        Box::leak(Box::new(Self(Memory(std::sync::Mutex::new(None)))))
    }

    /// Sets the hook of the next allocation.
    fn set(&self, hook: impl FnOnce(usize) + Send + 'static) {
        *self.0.0.lock().expect("not poisoned") = Some(Box::new(hook));
    }

    fn domain(&'static self) -> Domain {
        let config = ufutex::SystemConfig::new().cpus(64).global_slots(1024).hash_seed(1);
        let config = config.topology(std::sync::Arc::new(Topology(&self.0)));
        let system = ufutex::System::with_config(config).expect("there is that much memory");
        Domain::with_options(&system, ufutex::DomainOptions::new().policy(ufutex::Policy::Threads))
    }
}

struct Topology(&'static Memory);

impl ufutex::platform::Topology for Topology {
    fn nodes(&self) -> usize {
        1
    }
    fn current_node(&self) -> u32 {
        0
    }
    fn memory(&self) -> &'static dyn ufutex::platform::NodeMemory {
        self.0
    }
}

// SAFETY: the memory is null or the global allocator's.
unsafe impl ufutex::platform::NodeMemory for Memory {
    fn allocate(&self, layout: std::alloc::Layout, _node: u32) -> *mut u8 {
        let hook = self.0.lock().expect("not poisoned").take();
        hook.into_iter().for_each(|hook| hook(layout.size()));
        // SAFETY: the layout's size is not 0, says the caller.
        if layout.size() > 1 << 20 { std::ptr::null_mut() } else { unsafe { std::alloc::alloc_zeroed(layout) } }
    }
    unsafe fn free(&self, memory: *mut u8, layout: std::alloc::Layout) {
        // SAFETY: from `allocate`, says the caller.
        unsafe { std::alloc::dealloc(memory, layout) }
    }
}

/// A request that fails gives the size back to the policy, but not if another request has set it meanwhile. Here the
/// second request begins while an allocation of the first fails.
fn size_that_was_set_stays_when_another_request_fails() {
    let memory = Hooked::new();
    let domain: &Domain = Box::leak(Box::new(memory.domain()));
    let word = std::sync::atomic::AtomicU32::new(0);
    let queued = waiter_on(domain, &word);
    let (begins, begun) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let sets = scope.spawn(move || {
            begun.recv().expect("it begins");
            domain.set_slots(4)
        });
        memory.set(move |_| {
            begins.send(()).expect("the receiver exists");
            // Long enough for the other request to begin to wait for this one.
            std::thread::sleep(std::time::Duration::from_millis(100));
        });
        assert_eq!(domain.set_slots(1 << 20), Err(Error::NoMemory));
        assert_eq!(sets.join().expect("it does not panic"), Ok(()));
    });
    domain.note_threads(64);
    assert_eq!(domain.slots(), 4, "the policy has decided again");
    assert_eq!(domain.wake(&word, 1), 1);
    assert!(queued.is_woken());
}

/// Threads are announced while the first wait makes a table that is too small for them.
fn threads_announced_during_the_first_wait_count() {
    let memory = Hooked::new();
    let domain: &'static Domain = Box::leak(Box::new(memory.domain()));
    let word = std::sync::atomic::AtomicU32::new(0);
    memory.set(|_| std::thread::spawn(|| domain.note_threads(16)).join().expect("it does not panic"));
    let first = waiter_on(domain, &word);
    let second = waiter_on(domain, &word);
    assert_eq!(domain.slots(), 64, "the table is as small as without them");
    assert_eq!(domain.wake(&word, 2), 2);
    assert!(first.is_woken() && second.is_woken());
}

/// More threads are announced while the table grows for fewer.
fn threads_announced_during_a_growth_count() {
    let memory = Hooked::new();
    let domain: &'static Domain = Box::leak(Box::new(memory.domain()));
    let word = std::sync::atomic::AtomicU32::new(0);
    let queued = waiter_on(domain, &word);
    let more = std::sync::Arc::new(std::sync::Mutex::new(None));
    let noted = more.clone();
    memory.set(move |_| {
        let notes = std::thread::spawn(|| domain.note_threads(64));
        // Long enough for the other thread to wait for the resize or to give up.
        std::thread::sleep(std::time::Duration::from_millis(100));
        *noted.lock().expect("not poisoned") = Some(notes);
    });
    domain.note_threads(16);
    let notes = more.lock().expect("not poisoned").take();
    notes.expect("a table was made").join().expect("it does not panic");
    let at_once = ufutex::WaitOptions::new().timeout(ufutex::Timeout::After(std::time::Duration::ZERO));
    for _ in 0..100 {
        assert_eq!(domain.wait_with(&word, 0, &at_once), Err(Error::TimedOut));
    }
    assert_eq!(domain.slots(), 256, "the later note was lost");
    assert_eq!(domain.wake(&word, 1), 1);
    assert!(queued.is_woken());
}

/// `set_slots` ends a growth by the policy, and the table gets the size that was set.
fn set_slots_ends_the_policys_growth() {
    for _ in 0..RACES {
        let config = ufutex::SystemConfig::new().cpus(64).global_slots(1024).hash_seed(1);
        let system = ufutex::System::with_config(config).expect("the memory is there");
        let options = ufutex::DomainOptions::new().policy(ufutex::Policy::Threads);
        let domain = Domain::with_options(&system, options);
        let word = std::sync::atomic::AtomicU32::new(0);
        let queued = waiter_on(&domain, &word);
        let (set, ()) = race(|| domain.set_slots(4), || domain.note_threads(64));
        assert_eq!((set, domain.slots()), (Ok(()), 4), "the policy has decided after a size was set");
        assert_eq!(domain.wake(&word, 1), 1);
        assert!(queued.is_woken());
    }
}

on_resizable_domains![
    memory_of_a_resize_panics,
    zero_slots_are_final_although_other_requests_race,
    immutable_slots_stay_although_other_requests_race,
    size_that_was_set_stays_when_another_request_fails,
    threads_announced_during_the_first_wait_count,
    threads_announced_during_a_growth_count,
    set_slots_ends_the_policys_growth,
];

thread_local! {
    /// The time on the clocks of [`SlowClock`], in milliseconds.
    static TIME_MS: Cell<u64> = const { Cell::new(1000) };
    /// How long the thread has slept, in milliseconds.
    static SLEPT_MS: Cell<u64> = const { Cell::new(0) };
}

/// A platform on which a millisecond passes whenever the time is asked for. So a request for slots takes one.
struct SlowClock;

impl Platform for SlowClock {
    fn park(_: &AtomicU32, _: u32, deadline: Option<Deadline>) {
        let until = deadline.expect("no thread waits for another").at.as_millis() as u64;
        let now = TIME_MS.get();
        SLEPT_MS.set(SLEPT_MS.get() + until - now);
        TIME_MS.set(until);
    }

    fn unpark(_: *const AtomicU32, _: usize) -> usize {
        0
    }

    fn now(_: Clock) -> Duration {
        TIME_MS.set(TIME_MS.get() + 1);
        Duration::from_millis(TIME_MS.get())
    }
}

/// A guest that resizes without end locks its buckets for a twentieth of the time. An embedder's requests are not held up.
#[test]
#[cfg_attr(feature = "fixed", ignore = "the table is set once")]
fn request_of_a_guest_comes_after_a_rest_of_twenty_times_the_last_one() {
    let domain =
        Domain::new(&System::with_config(SystemConfig::new().platform::<SlowClock>()).expect("the memory is there"));
    for slots in [16, 32, 64] {
        assert_eq!(domain.set_slots(slots), Ok(()));
    }
    assert_eq!((domain.prctl_futex_hash(1, 16, 0), SLEPT_MS.get()), (0, 0), "the first one begins at once");
    for requests in 1..5 {
        assert_eq!(domain.prctl_futex_hash(1, 32, 0), 0);
        let slept = SLEPT_MS.get();
        assert!((17 * requests..=20 * requests).contains(&slept), "{requests} requests, {slept} ms");
    }
    assert_eq!((domain.prctl_futex_hash(2, 0, 0), domain.prctl_futex_hash(1, 3, 0)), (32, -22), "these need no rest");
    assert!(SLEPT_MS.get() <= 80);
}
