//! Futexes that nobody has to make: a domain in a static, and the functions on the process's own domain.

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use ufutex::{
    Address, DomainOptions, Error, Requeue, Requeued, StaticDomain, SystemConfig, WaitOptions, platform::Topology,
};

use crate::common::asleep::until;
use crate::common::skipped::skip;
use crate::common::sleeping::Sleeping;

static COUNTED: StaticDomain = StaticDomain::with(SystemConfig::new().cpus(2), DomainOptions::new().counters(true));

#[test]
fn static_domain_is_used_as_a_domain() {
    let counted = COUNTED.get().expect("there is memory");
    let [word, other] = [const { AtomicU32::new(0) }; 2];
    thread::scope(|scope| {
        let waiters = [(); 2].map(|()| scope.spawn(|| counted.wait(&word, 0)));
        until("two threads wait", || counted.waiting() == 2);
        assert_eq!(
            counted.requeue(&word, Address::of(&raw const other), Requeue { wake: 0, requeue: 1 }),
            Ok(Requeued { woken: 0, requeued: 1 })
        );
        assert_eq!((COUNTED.wake_one(&word), COUNTED.wake_all(&other)), (true, 1));
        assert!(waiters.into_iter().all(|waiter| waiter.join().unwrap() == Ok(())));
    });
    assert_eq!(counted.wait(&word, 1), Err(Error::Again));
    assert!(counted.counters().wakes >= 2, "it has the options that it was made with");
    let task = counted.task(7).expect("the TID is free");
    counted.lock_pi(&word, &task).expect("it is free");
    counted.unlock_pi(&word, &task).expect("it is ours");
}

/// Counts how often a system is made with it.
struct Asked(AtomicU32);

impl Topology for Asked {
    fn nodes(&self) -> usize {
        self.0.fetch_add(1, SeqCst);
        1
    }
    fn current_node(&self) -> u32 {
        0
    }
}

#[test]
fn wake_before_the_first_wait_makes_nothing() {
    let asked = std::sync::Arc::new(Asked(AtomicU32::new(0)));
    let futexes = StaticDomain::with(SystemConfig::new().topology(asked.clone()), DomainOptions::new());
    let word = AtomicU32::new(0);
    assert_eq!((futexes.wake(&word, 1), futexes.wake_one(&word), futexes.wake_all(&word)), (0, false, 0));
    assert_eq!(format!("{futexes:?}"), "StaticDomain { domain: None, .. }");
    assert_eq!(asked.0.load(SeqCst), 0);
    let made = [(); 2].map(|()| {
        let at_once = WaitOptions::new().timeout(Duration::ZERO);
        let domain = futexes.get().expect("there is memory");
        assert_eq!(domain.wait_with(&word, 0, &at_once), Err(Error::TimedOut));
        asked.0.load(SeqCst)
    });
    assert!(made[0] > 0 && made[0] == made[1], "the first wait has made it, and the second has found it");
}

#[test]
fn invalid_configuration_is_an_error() {
    let futexes = StaticDomain::with(SystemConfig::new().cpus(0), DomainOptions::new());
    assert_eq!(futexes.wake(&AtomicU32::new(0), 1), 0);
    assert_eq!(futexes.get().err(), Some(Error::Invalid));
}

#[test]
fn first_waits_at_once_meet_in_one_domain() {
    for _ in 0..50 {
        let (futexes, word) =
            (StaticDomain::with(SystemConfig::new().cpus(1), DomainOptions::new()), AtomicU32::new(0));
        thread::scope(|scope| {
            let waiters = [(); 4].map(|()| scope.spawn(|| futexes.get()?.wait(&word, 0)));
            let mut woken = 0;
            until("all four are woken", || {
                woken += futexes.wake(&word, 9);
                woken == 4
            });
            assert!(waiters.into_iter().all(|waiter| waiter.join().unwrap() == Ok(())));
        });
    }
}

#[test]
fn wait_of_the_process_ends_with_a_wake_or_another_value() {
    let word = AtomicU32::new(5);
    ufutex::wait(&word, 4);
    assert!(ufutex::wait_timeout(&word, 4, Duration::ZERO));
    let began = Instant::now();
    assert!(!ufutex::wait_timeout(&word, 5, began + Duration::from_millis(10)));
    assert!(began.elapsed() >= Duration::from_millis(10));
}

#[test]
fn wakes_of_the_process_wake_one_and_all() {
    if !cfg!(target_os = "linux") {
        return skip("nothing shows here whether a thread sleeps by the process's own domain");
    }
    let word: &'static AtomicU32 = Box::leak(Box::new(AtomicU32::new(0)));
    let waiters = [(); 3].map(|()| Sleeping::new(move || ufutex::wait(word, 0)));
    let ended = || waiters.iter().filter(|waiter| waiter.has_ended()).count();
    ufutex::wake_one(&AtomicU32::new(0));
    ufutex::wake_one(word);
    until("one waiter is woken", || ended() == 1);
    thread::sleep(Duration::from_millis(20));
    assert_eq!(ended(), 1);
    ufutex::wake_all(Address::of(word));
    until("the others are woken", || ended() == 3);
}

#[test]
fn wakes_of_the_process_take_a_dangling_pointer() {
    let address = Address::of(&raw const *Box::new(AtomicU32::new(0)));
    ufutex::wake_one(address);
    ufutex::wake_all(address);
}
