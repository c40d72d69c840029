//! What operations name: addresses without a word, and how often, and under which lock, a wait loads its word.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::task::Waker;
use std::time::Duration;

use ufutex::{
    Access, Address, At, Compare, Domain, DomainOptions, Error, Fault, Key, Modify, ObjectId, Requeue, Requeued,
    Target, WaitOptions, Waiter, WakeOp,
};

use crate::common::domains::{domain, on_domains, system};
use crate::common::futures::poll;
use crate::common::places::neighbours;
use crate::common::waiters::{waiter_on, waiters_on};

fn address_of_a_word_meets_its_reference() {
    let (domain, words) = (domain(), [const { AtomicU32::new(0) }; 3]);
    let address = |i: usize| Address::of(&raw const words[i]);
    let queued = waiters_on(&domain, &words[0], 3);
    assert_eq!(
        domain.requeue(address(0), address(1), Requeue { wake: 0, requeue: 1 }),
        Ok(Requeued { woken: 0, requeued: 1 })
    );
    assert_eq!(
        domain.cmp_requeue(&words[0], 0, address(2), Requeue { wake: 0, requeue: 1 }),
        Ok(Requeued { woken: 0, requeued: 1 })
    );
    for i in 0..3 {
        assert_eq!(domain.wake(address(i), 9), 1, "word {i}");
    }
    assert!(queued.iter().all(|queued| queued.is_woken()));
}

fn address_of_a_freed_word_can_be_woken() {
    let domain = domain();
    let word = Box::new(AtomicU32::new(0));
    let address = Address::of(&raw const *word);
    let queued = waiter_on(&domain, &*word);
    drop(word);
    assert_eq!(domain.wake(Address::of(std::ptr::null::<u8>()), 1), 0);
    assert_eq!(domain.wake(address, 1), 1);
    assert!(queued.is_woken());
}

fn address_of_a_shared_word_meets_it() {
    let (domain, word) = (domain(), AtomicU32::new(0));
    let id = ObjectId::new(5).expect("a number");
    let queued = waiter_on(&domain, At::object(&word, id, 8));
    assert_eq!(domain.wake(Address::of(&raw const word), 1), 0, "a private word");
    assert_eq!(domain.wake(At::object(Address::of(&raw const word), id, 8), 1), 1);
    assert!(queued.is_woken());
}

fn signed_and_boolean_words_are_words() {
    let domain = domain();
    let (number, flag, lock) = (AtomicI32::new(-1), AtomicBool::new(true), AtomicI32::new(0));
    assert_eq!(domain.wait(&number, 1), Err(Error::Again));
    assert_eq!(domain.wait(&flag, false), Err(Error::Again));
    let [mut first, mut second] = [(); 2].map(|()| Box::pin(Waiter::new()));
    let by_number = domain.prepare(first.as_mut(), &number, -1, &WaitOptions::new()).expect("it holds -1");
    let by_flag = domain.prepare(second.as_mut(), &flag, true, &WaitOptions::new()).expect("it is set");
    assert_eq!((domain.wake(&number, 9), domain.wake(&flag, 9)), (1, 1));
    assert_eq!((by_number.finish(), by_flag.finish()), (Ok(()), Ok(())));
    let task = domain.task(7).expect("a free TID");
    assert_eq!(domain.try_lock_pi(&lock, &task), Ok(()));
    assert_eq!(lock.load(SeqCst), 7);
    assert_eq!(domain.try_lock_pi(&flag, &task), Err(Error::Invalid), "four bytes, or none");
}

/// A word that holds 0, and does something with the number of each load.
struct Watched<'a> {
    word: &'a AtomicU32,
    loads: AtomicU32,
    faults_in: AtomicU32,
    on_load: &'a (dyn Fn(u32) -> Result<u32, Fault> + Sync),
}

impl<'a> Watched<'a> {
    fn new(word: &'a AtomicU32, on_load: &'a (dyn Fn(u32) -> Result<u32, Fault> + Sync)) -> Self {
        Self { word, loads: AtomicU32::new(0), faults_in: AtomicU32::new(0), on_load }
    }

    /// How often it has been loaded since the last call, and how often a fault was resolved.
    fn taken(&self) -> (u32, u32) {
        (self.loads.swap(0, SeqCst), self.faults_in.swap(0, SeqCst))
    }
}

impl Key for &Watched<'_> {
    fn address(&self) -> u64 {
        self.word.address()
    }
}

impl Target for &Watched<'_> {
    type Value = u32;

    fn load(&self) -> Result<u32, Fault> {
        (self.on_load)(self.loads.fetch_add(1, SeqCst) + 1)
    }
    fn compare_exchange(&self, _current: u32, _new: u32) -> Result<Result<u32, u32>, Fault> {
        unreachable!("a wait does not write")
    }
    fn fault_in(&self, access: Access) -> Result<(), Fault> {
        assert_eq!(access, Access::Read);
        self.faults_in.fetch_add(1, SeqCst);
        Ok(())
    }
}

/// The four combinations of the options that a wait has paths of its own for, and the loads before the first attempt.
fn paths() -> impl Iterator<Item = (DomainOptions, u32)> {
    [false, true].into_iter().flat_map(|counters| {
        [false, true].map(|early| (DomainOptions::new().counters(counters).early_return(early), u32::from(early)))
    })
}

fn wait_loads_its_word_once_an_attempt() {
    for (options, early) in paths() {
        let (domain, word) = (Domain::with_options(&system(), options), AtomicU32::new(0));
        let at_once = WaitOptions::new().timeout(Duration::ZERO);
        let equal = Watched::new(&word, &|_| Ok(0));
        // Queued, and not loaded again when the wait ends.
        assert_eq!(domain.wait_with(&equal, 0, &at_once), Err(Error::TimedOut));
        assert_eq!(equal.taken(), (early + 1, 0));
        let mut waiter = pin!(Waiter::new());
        let queued = domain.prepare_with(waiter.as_mut(), &equal, 0, &WaitOptions::new(), Waker::noop().clone());
        assert_eq!(domain.wake(&equal, 1), 1);
        assert!(queued.is_ok_and(|queued| queued.is_woken() && queued.finish().is_ok()));
        assert_eq!(equal.taken(), (early + 1, 0));

        let mut future = pin!(domain.wait_async(&equal, 0, &WaitOptions::new()));
        for _ in 0..3 {
            assert!(poll(&mut future).is_pending());
        }
        domain.wake(&equal, 1);
        assert!(poll(&mut future).is_ready());
        assert_eq!(equal.taken(), (early + 1, 0));

        // The first word of several that differs ends the attempts.
        assert_eq!(domain.wait_any(&[(&equal, 0), (&equal, 0)], &at_once), Err(Error::TimedOut));
        assert_eq!(equal.taken(), (2 * (early + 1), 0));
        assert_eq!(domain.wait_any(&[(&equal, 0), (&equal, 1), (&equal, 0)], &at_once), Err(Error::Again));
        assert_eq!(equal.taken(), (early + 2, 0));

        // Differs, and is found to differ once.
        let differs = Watched::new(&word, &|_| Ok(1));
        assert_eq!(domain.wait(&differs, 0), Err(Error::Again));
        assert_eq!(differs.taken(), (1, 0));
        assert!(domain.prepare(pin!(Waiter::new()), &differs, 0, &WaitOptions::new()).is_err());
        assert_eq!(differs.taken(), (1, 0));

        // Each fault of an attempt costs one more. The load before the first attempt ignores its fault.
        let faults_twice = |load| if load <= early + 2 { Err(Fault) } else { Ok(0) };
        let faults = Watched::new(&word, &faults_twice);
        assert_eq!(domain.wait_with(&faults, 0, &at_once), Err(Error::TimedOut));
        assert_eq!(faults.taken(), (early + 3, 2));
    }
}

/// Whether a wake of another word of the same bucket can be done while `load` number `at` runs.
fn wake_is_done_during(early_return: bool, at: u32) -> bool {
    let domain = Domain::with_options(&system(), DomainOptions::new().early_return(early_return));
    let [word, neighbour] = neighbours();
    let _queued = waiter_on(&domain, neighbour);
    let (begin, begun) = channel();
    let (is_done, was_done) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let (domain, is_done) = (&domain, &is_done);
        scope.spawn(move || {
            begun.recv().expect("a load");
            assert_eq!(domain.wake(neighbour, 1), 1);
            is_done.store(true, SeqCst);
        });
        let on_load = |load: u32| {
            if load == at {
                begin.send(()).expect("a waiting thread");
                // A wake that need not wait is done in some microseconds.
                for _ in 0..200 {
                    std::thread::sleep(Duration::from_millis(1));
                    was_done.fetch_or(is_done.load(SeqCst), SeqCst);
                    if was_done.load(SeqCst) {
                        break;
                    }
                }
            }
            Ok(0)
        };
        let watched = Watched::new(word, &on_load);
        let ended = domain.wait_with(&watched, 0, &WaitOptions::new().timeout(Duration::ZERO));
        assert_eq!(ended, Err(Error::TimedOut));
    });
    was_done.into_inner()
}

fn attempt_loads_its_word_with_the_bucket_locked() {
    assert!(!wake_is_done_during(false, 1), "an attempt");
    assert!(!wake_is_done_during(true, 2), "an attempt after the first look");
    assert!(wake_is_done_during(true, 1), "the first look");
}

/// A word that can only be read.
struct ReadOnly<'a>(&'a AtomicU32);

impl Key for ReadOnly<'_> {
    fn address(&self) -> u64 {
        Key::address(&self.0)
    }
}

impl Target for ReadOnly<'_> {
    type Value = u32;
    fn load(&self) -> Result<u32, Fault> {
        Target::load(&self.0)
    }
}

fn target_with_load_alone_can_be_waited_for_and_not_written() {
    let (domain, word) = (domain(), AtomicU32::new(0));
    let queued = waiter_on(&domain, ReadOnly(&word));
    let set = WakeOp { modify: Modify::Set(1), compare: Compare::Eq(0) };
    assert_eq!(domain.wake_op(&word, 1, ReadOnly(&word), set, 1), Err(Error::Fault));
    assert!(!queued.is_woken());
    assert_eq!(domain.wake(&word, 1), 1);
    assert!(queued.is_woken());
    let task = domain.task(1).expect("the TID is free");
    assert_eq!(domain.lock_pi(ReadOnly(&word), &task), Err(Error::Fault));
    assert_eq!(word.load(SeqCst), 0);
}

on_domains![
    target_with_load_alone_can_be_waited_for_and_not_written,
    address_of_a_word_meets_its_reference,
    signed_and_boolean_words_are_words,
    address_of_a_freed_word_can_be_woken,
    address_of_a_shared_word_meets_it,
    wait_loads_its_word_once_an_attempt,
    attempt_loads_its_word_with_the_bucket_locked,
];
