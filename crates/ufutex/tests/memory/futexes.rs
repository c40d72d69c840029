//! Systems, domains, waits, wakes, requeues, tables.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::task::Poll;
use std::time::Duration;

use ufutex::parking::{Parked, ParkingLot};
use ufutex::pi::{Priority, Scheduler};
use ufutex::platform::Topology;
use ufutex::{
    At, Callbacks, Compare, Domain, DomainOptions, Error, Modify, PidNamespace, Policy, Requeue, Requeued,
    StaticDomain, System, SystemConfig, WaitOptions, WakeOp,
};

use crate::allocator::{Memory, for_every_failure};
use crate::works::{Time, at_last, begun, config, poll, system as given_system, system_with_clocks, words, works};

/// More than a wake takes without memory.
const MANY: usize = 60;

pub fn system() -> usize {
    let make = || System::with_config(SystemConfig::new());
    let allocations = for_every_failure(|memory| works(&Domain::new(&at_last(memory, make))));
    assert!(allocations >= 2, "{allocations}");
    allocations
}

struct Two;

impl Topology for Two {
    fn nodes(&self) -> usize {
        2
    }
    fn current_node(&self) -> u32 {
        1
    }
}

impl Scheduler for Two {
    fn set_priority(&self, _: u32, _: Priority) {}
}

pub fn system_with_callbacks() -> usize {
    let make = || {
        let nodes = Callbacks::try_new(Two)?;
        let clocks = Callbacks::try_new(Time(1.into()))?;
        System::with_scheduler(config().topology(nodes).clocks(clocks), Callbacks::try_new(Two)?)
    };
    for_every_failure(|memory| works(&Domain::new(&at_last(memory, make))))
}

pub fn namespace_and_domain() -> usize {
    for_every_failure(|memory| {
        let system = given_system();
        let namespace = at_last(memory, || PidNamespace::new(&system));
        let domain = memory.during(|| Domain::in_namespace(&namespace, DomainOptions::new().counters(true)));
        works(&domain);
    })
}

/// A domain takes no memory before its first wait.
pub fn domain_before_its_first_wait() -> usize {
    let allocations = for_every_failure(|memory| {
        let (system, word) = (given_system(), AtomicU32::new(0));
        let domain = memory.during(|| Domain::new(&system));
        assert_eq!(memory.during(|| domain.wake(&word, usize::MAX)), 0);
        assert_eq!(memory.during(|| domain.wake(At::address_space(&word), usize::MAX)), 0);
        assert_eq!(memory.during(|| domain.wait(&word, 1)), Err(Error::Again));
        works(&domain);
    });
    assert_eq!(allocations, 0);
    allocations
}

pub fn static_domain() -> usize {
    for_every_failure(|memory| {
        let futexes = StaticDomain::with(config(), DomainOptions::new());
        at_last(memory, || futexes.get().map(drop));
        works(futexes.get().expect("there is memory"));
    })
}

/// Waits until the timeout. A wait needs no memory.
fn times_out(memory: &mut Memory, domain: &Domain, key: impl ufutex::Target<Value = u32>) {
    let soon = WaitOptions::new().timeout(Duration::from_micros(10));
    assert_eq!(memory.during(|| domain.wait_with(key, 0, &soon)), Err(Error::TimedOut));
}

pub fn wait_of_a_thread() -> usize {
    for_every_failure(|memory| {
        let (domain, word) = (Domain::new(&given_system()), AtomicU32::new(0));
        times_out(memory, &domain, &word);
        assert_eq!(memory.during(|| domain.wake(&word, 1)), 0);
        works(&domain);
    })
}

pub fn wait_on_a_shared_word() -> usize {
    for_every_failure(|memory| {
        let (domain, word) = (Domain::new(&given_system()), AtomicU32::new(0));
        times_out(memory, &domain, At::address_space(&word));
        let mut wait = begun(memory, || domain.wait_async(At::address_space(&word), 0, &WaitOptions::new()));
        assert_eq!(memory.during(|| domain.wake(At::address_space(&word), 2)), 1);
        assert_eq!(memory.during(|| poll(&mut wait)), Poll::Ready(Ok(())));
        works(&domain);
    })
}

pub fn wait_of_a_future() -> usize {
    for_every_failure(|memory| {
        let (domain, word) = (Domain::new(&given_system()), AtomicU32::new(0));
        let [woken, dropped] = [(); 2].map(|()| begun(memory, || domain.wait_async(&word, 0, &WaitOptions::new())));
        let mut woken = woken;
        assert_eq!(memory.during(|| domain.wake(&word, 1)), 1);
        assert_eq!(memory.during(|| poll(&mut woken)), Poll::Ready(Ok(())));
        memory.during(|| drop((woken, dropped)));
        assert_eq!(domain.wake(&word, 1), 0);
        works(&domain);
    })
}

pub fn timeout_of_a_future() -> usize {
    for_every_failure(|memory| {
        let (system, time) = system_with_clocks();
        let (domain, word) = (Domain::new(&system), AtomicU32::new(0));
        let late = WaitOptions::new().timeout(Duration::from_secs(1));
        let mut waits = [(); 3].map(|()| begun(memory, || domain.wait_async(&word, 0, &late)));
        assert_eq!(memory.during(|| domain.wake(&word, 1)), 1);
        time.0.store(2_000_000_000, Relaxed);
        memory.during(|| system.driver().turn());
        let results = waits.each_mut().map(|wait| memory.during(|| poll(wait)));
        assert_eq!(results, [Ok(()), Err(Error::TimedOut), Err(Error::TimedOut)].map(Poll::Ready));
        drop(waits);
        works(&domain);
    })
}

pub fn wait_for_several_words() -> usize {
    for_every_failure(|memory| {
        let (domain, words) = (Domain::new(&given_system()), words::<20>());
        let all = words.each_ref().map(|word| (word, 0));
        let soon = WaitOptions::new().timeout(Duration::from_micros(10));
        let result = memory.during(|| domain.wait_any(&all, &soon));
        assert!(
            result == Err(Error::TimedOut) || result == Err(Error::NoMemory) && memory.has_just_failed(),
            "{result:?}"
        );
        let mut wait = begun(memory, || domain.wait_any_async(all, &WaitOptions::new()));
        assert_eq!(memory.during(|| domain.wake(&words[7], 9)), 1);
        assert_eq!(memory.during(|| poll(&mut wait)), Poll::Ready(Ok(7)));
        assert!(words.iter().all(|word| domain.wake(word, 1) == 0));
        works(&domain);
    })
}

/// Runs `wake` with `MANY` futures waiting for each of two words, and then wakes the others. `wake` returns how many it
/// has woken.
fn with_many(wake: impl Fn(&mut Memory, &Domain, [&AtomicU32; 2]) -> usize) -> usize {
    for_every_failure(|memory| {
        let (domain, [first, second]) = (Domain::new(&given_system()), words());
        let mut waits = Vec::new();
        for word in [&first, &second] {
            waits.extend((0..MANY).map(|_| begun(memory, || domain.wait_async(word, 0, &WaitOptions::new()))));
        }
        let woken = wake(memory, &domain, [&first, &second]);
        waits.retain_mut(|wait| poll(wait) == Poll::Pending);
        assert_eq!(2 * MANY - waits.len(), woken);
        assert_eq!(domain.wake(&first, usize::MAX) + domain.wake(&second, usize::MAX), waits.len());
        assert!(waits.iter_mut().all(|wait| poll(wait) == Poll::Ready(Ok(()))));
        drop(waits);
        works(&domain);
    })
}

pub fn wake_of_many() -> usize {
    with_many(|memory, domain, [first, _]| {
        assert_eq!(memory.during(|| domain.wake(first, MANY - 1)), MANY - 1);
        MANY - 1
    })
}

pub fn requeue_of_many() -> usize {
    with_many(|memory, domain, [first, second]| {
        let most = Requeue { wake: 20, requeue: 30 };
        assert_eq!(memory.during(|| domain.requeue(first, second, most)), Ok(Requeued { woken: 20, requeued: 30 }));
        assert_eq!(memory.during(|| domain.cmp_requeue(second, 0, first, most)).map(|done| done.woken), Ok(20));
        40
    })
}

pub fn wake_op_of_many() -> usize {
    with_many(|memory, domain, [first, second]| {
        let op = WakeOp { modify: Modify::Add(0), compare: Compare::Eq(0) };
        assert_eq!(memory.during(|| domain.wake_op(first, 40, second, op, 50)), Ok(90));
        90
    })
}

pub fn sizes() -> usize {
    for_every_failure(|memory| {
        let domain = Domain::with_options(&given_system(), DomainOptions::new().policy(Policy::Threads));
        at_last(memory, || domain.set_slots(64));
        at_last(memory, || domain.set_slots(0));
        memory.during(|| domain.note_threads(50));
        const SET_SLOTS: u64 = 1;
        let result = memory.during(|| domain.prctl_futex_hash(SET_SLOTS, 128, 0));
        assert!(result == 0 || result == -12 && memory.has_just_failed(), "{result}");
        works(&domain);
    })
}

pub fn growth() -> usize {
    for_every_failure(|memory| {
        let (domain, words) = (Domain::new(&given_system()), words::<300>());
        let mut waits: Vec<_> =
            words.iter().map(|word| begun(memory, || domain.wait_async(word, 0, &WaitOptions::new()))).collect();
        for word in &words {
            assert_eq!(memory.during(|| domain.wake(word, 2)), 1);
        }
        assert!(waits.iter_mut().all(|wait| poll(wait) == Poll::Ready(Ok(()))));
        drop(waits);
        works(&domain);
    })
}

pub fn lists_and_counters() -> usize {
    for_every_failure(|memory| {
        let system = given_system();
        let (domain, words) = (Domain::with_options(&system, DomainOptions::new().counters(true)), words::<50>());
        let waits: Vec<_> =
            words.iter().map(|word| begun(memory, || domain.wait_async(word, 0, &WaitOptions::new()))).collect();
        let found = memory.during(|| domain.who_waits(usize::MAX));
        assert_eq!(found.iter().count() + found.omitted(), 50);
        assert_eq!(memory.during(|| system.who_waits(usize::MAX)).iter().count(), 0);
        memory.during(|| domain.counters());
        drop((waits, found));
        works(&domain);
    })
}

pub fn parking() -> usize {
    for_every_failure(|memory| {
        let lot = ParkingLot::new(&given_system());
        let asleep = AtomicU32::new(0);
        let park = &|key| lot.park(key, 0, || true, |_| asleep.fetch_add(1, Relaxed), |_, _| (), None);
        std::thread::scope(|scope| {
            let threads = [64, 128, 128].map(|key| scope.spawn(move || assert_eq!(park(key), Parked::Unparked(1))));
            while asleep.load(Relaxed) != 3 {
                std::thread::yield_now();
            }
            memory.during(|| lot.lock_both(128, 64).unpark_and_requeue(true, 9, 1));
            assert_eq!(memory.during(|| lot.lock(64).unpark_all(1)), 2);
            at_last(memory, || lot.set_slots(64));
            threads.into_iter().for_each(|thread| thread.join().expect("it does not panic"));
        });
        let invalid = memory.during(|| lot.park(64, 0, || false, |_| (), |_, _| (), None));
        assert_eq!(invalid, Parked::Invalid);
    })
}
