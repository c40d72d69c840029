//! Guest memory that is not always there. The n-th access faults, for every n; what the guest's owner does to bring it
//! back happens with no lock held.

use std::pin::Pin;
use std::sync::Mutex;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::task::Waker;

use ufutex::layout::Layout;
use ufutex::scheme::Scheme;
use ufutex::{Access, Domain, Error, Fault, Guest, Options, Queued, Shared, UserMemory, WaitOptions, Waiter, Width};

use crate::common::domains::{on_every_domain, system};
use crate::common::waiters::{idle, queue};

type Hook = Box<dyn Fn() -> Result<(), Fault> + Send + Sync>;

/// A word at every address, whose reads number `first_fault` to `first_fault + faults` fault.
struct Flaky {
    value: AtomicU64,
    loads: AtomicUsize,
    first_fault: usize,
    faults: usize,
    faulted_in: AtomicUsize,
    /// What bringing the memory back comes to.
    hook: Mutex<Option<Hook>>,
}

impl Flaky {
    fn new(first_fault: usize, faults: usize) -> Self {
        let [value, zero] = [(); 2].map(|()| AtomicUsize::new(0));
        let hook = Mutex::new(None);
        Self { value: AtomicU64::new(0), loads: value, first_fault, faults, faulted_in: zero, hook }
    }

    fn on_fault(self, hook: impl Fn() -> Result<(), Fault> + Send + Sync + 'static) -> Self {
        *self.hook.lock().expect("nobody panics with it") = Some(Box::new(hook));
        self
    }

    fn word(&self) -> Guest<'_, Self> {
        Guest::new(self, 0x1000, Width::U32).expect("aligned")
    }

    /// Another word, in the same cache line and so in the same bucket.
    fn neighbour(&self) -> Guest<'_, Self> {
        Guest::new(self, 0x1004, Width::U32).expect("aligned")
    }
}

impl UserMemory for Flaky {
    fn load(&self, _: u64, _: Width) -> Result<u64, Fault> {
        let number = self.loads.fetch_add(1, Relaxed);
        let faults = self.first_fault..self.first_fault.saturating_add(self.faults);
        if faults.contains(&number) { Err(Fault) } else { Ok(self.value.load(Relaxed)) }
    }

    fn compare_exchange(&self, _: u64, _: Width, _: u64, _: u64) -> Result<Result<u64, u64>, Fault> {
        Err(Fault) // it is read-only
    }
    fn fault_in(&self, address: u64, access: Access) -> Result<(), Fault> {
        assert_eq!((address & !4, access), (0x1000, Access::Read));
        self.faulted_in.fetch_add(1, Relaxed);
        self.hook.lock().expect("nobody panics with it").as_ref().map_or(Ok(()), |hook| hook())
    }
}

fn domain<S: Scheme<L>, L: Layout>(early_return: bool) -> Domain<S, L> {
    Domain::with_options(&system(), Options::new().early_return(early_return))
}

fn prepare<'w, 'd, S: Scheme<L>, L: Layout>(
    domain: &'d Domain<S, L>,
    waiter: &'w mut Pin<Box<Waiter<'d, S, L>>>,
    memory: &Flaky,
    expected: u64,
) -> Result<Queued<'w, 'd, S, L>, Error> {
    let waker = Waker::noop().clone();
    domain.prepare_with(waiter.as_mut(), memory.word(), expected, &WaitOptions::new(), waker)
}

/// Reads before the one under the lock: the early return's.
fn early_loads(early_return: bool) -> usize {
    usize::from(early_return)
}

fn wait_goes_on_after_any_number_of_faults_that_are_cured<S: Scheme<L>, L: Layout>() {
    for early_return in [false, true] {
        for (first_fault, faults) in (0..4).flat_map(|first| (0..5).map(move |faults| (first, faults))) {
            let domain = domain::<S, L>(early_return);
            let memory = Flaky::new(first_fault, faults);
            let mut waiter = Box::pin(Waiter::new());
            let queued = prepare(&domain, &mut waiter, &memory, 0).expect("it is cured each time");
            assert_eq!(domain.wake(memory.word(), usize::MAX), 1);
            assert!(queued.is_woken());
            drop(queued);
            // Every fault under the lock is cured once; the early look does without.
            let early = early_loads(early_return);
            let reads = memory.loads.load(Relaxed);
            let under_lock = (early..reads).filter(|n| (first_fault..first_fault + faults).contains(n)).count();
            assert_eq!(memory.faulted_in.load(Relaxed), under_lock);
            assert_eq!(reads, early + under_lock + 1);
        }
    }
}

fn wait_ends_with_efault_only_when_a_fault_cannot_be_cured<S: Scheme<L>, L: Layout>() {
    for early_return in [false, true] {
        for first_fault in 0..4 {
            let domain = domain::<S, L>(early_return);
            let memory = Flaky::new(first_fault, 1).on_fault(|| Err(Fault));
            let mut waiter = Box::pin(Waiter::new());
            let result = prepare(&domain, &mut waiter, &memory, 0);
            let faults = first_fault == early_loads(early_return);
            assert_eq!(result.as_ref().err(), faults.then_some(&Error::Fault), "fault at read {first_fault}");
            assert_eq!(domain.wake(memory.word(), usize::MAX), usize::from(!faults));
            if let Ok(queued) = result {
                assert!(queued.is_woken());
            }
        }
    }
}

fn word_is_compared_again_after_a_fault<S: Scheme<L>, L: Layout>() {
    let domain = domain::<S, L>(false);
    let mut waiter = Box::pin(Waiter::new());
    let memory = Flaky::new(0, 1);
    memory.value.store(1, Relaxed);
    assert_eq!(prepare(&domain, &mut waiter, &memory, 0).err(), Some(Error::Again));
    assert_eq!(memory.faulted_in.load(Relaxed), 1);
    assert_eq!(domain.wake(memory.word(), usize::MAX), 0);
}

fn shared_words_fault_as_private_ones_do<S: Scheme<L>, L: Layout>() {
    let domain = domain::<S, L>(false);
    let cured = Flaky::new(0, 2);
    assert_eq!(domain.wait(Shared::address_space(cured.word()), 1), Err(Error::Again));
    assert_eq!(cured.faulted_in.load(Relaxed), 2);
    let lost = Flaky::new(0, 1).on_fault(|| Err(Fault));
    assert_eq!(domain.wait(Shared::address_space(lost.word()), 0), Err(Error::Fault));
}

/// While one wait has its word brought back, another thread queues, wakes and resizes in the same bucket.
fn no_lock_is_held_while_a_fault_is_cured<S: Scheme<L>, L: Layout>() {
    let domain: &'static Domain<S, L> = Box::leak(Box::new(domain(false)));
    let there: &'static Flaky = Box::leak(Box::new(Flaky::new(0, 0)));
    let memory = Flaky::new(0, 3).on_fault(move || {
        let mut waiters = idle(3);
        let [first, second, third] = &mut waiters[..] else { unreachable!() };
        let first = queue(domain, first, there.word());
        let second = queue(domain, second, there.neighbour());
        let third = queue(domain, third, there.word());
        assert_eq!(domain.wait(there.word(), 1), Err(Error::Again));
        if S::NAME != "fixed" {
            let slots = if domain.slots() == 64 { 32 } else { 64 };
            assert_eq!(domain.set_slots(slots), Ok(()));
        }
        assert!(first.cancel());
        assert_eq!(domain.wake(there.neighbour(), usize::MAX), 1);
        assert_eq!(domain.wake(there.word(), usize::MAX), 1);
        assert!(second.is_woken() && third.is_woken());
        Ok(())
    });
    let mut waiter = Box::pin(Waiter::new());
    let queued = prepare(domain, &mut waiter, &memory, 0).expect("it is cured each time");
    assert_eq!(memory.faulted_in.load(Relaxed), 3);
    assert_eq!(domain.wake(memory.word(), usize::MAX), 1);
    assert!(queued.is_woken());
}

/// Who was queued before stays first in line, and a wake during the cure goes to nobody who is not queued yet.
fn waiter_that_faults_takes_its_place_when_it_is_cured<S: Scheme<L>, L: Layout>() {
    let domain: &'static Domain<S, L> = Box::leak(Box::new(domain(false)));
    let there: &'static Flaky = Box::leak(Box::new(Flaky::new(0, 0)));
    let mut waiters = idle(2);
    let [before, faulting] = &mut waiters[..] else { unreachable!() };
    let before = queue(domain, before, there.word());
    let memory = Flaky::new(0, 1).on_fault(|| {
        assert_eq!(domain.wake(there.word(), 2), 1);
        Ok(())
    });
    let faulting = prepare(domain, faulting, &memory, 0).expect("it is cured");
    assert_eq!((before.is_woken(), faulting.is_woken()), (true, false));
    assert_eq!(domain.wake(there.word(), 2), 1);
    assert!(faulting.is_woken());
}

on_every_domain![
    wait_goes_on_after_any_number_of_faults_that_are_cured,
    wait_ends_with_efault_only_when_a_fault_cannot_be_cured,
    word_is_compared_again_after_a_fault,
    shared_words_fault_as_private_ones_do,
    no_lock_is_held_while_a_fault_is_cured,
    waiter_that_faults_takes_its_place_when_it_is_cured,
];
