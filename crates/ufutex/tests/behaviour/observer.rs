//! What the observer of a domain is told.

use std::cell::Cell;
use std::collections::HashMap;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::{Mutex, OnceLock};
use std::task::Poll;
use std::time::Duration;

use ufutex::observe::{Observer, WaitEnd};
use ufutex::{
    Address, At, Cause, Domain, DomainOptions, Error, Interrupt, ObjectId, Requeue, Requeued, Scope, System, Timeout,
    WaitOptions,
};

use crate::common::asleep::until;
use crate::common::domains::{on_domains, system};
use crate::common::futures::{pending, poll};
use crate::common::places::forever;
use crate::common::waiters::{idle, queue, waiter_on, waiters_on};

const PLAINLY: WaitOptions = WaitOptions::new();

thread_local! {
    /// What `Observer::caller` returns on this thread.
    static CALLER: Cell<u64> = const { Cell::new(0) };
}

type Word = At<Address>;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Event {
    Began(usize, Word),
    Ended(usize, Word, WaitEnd),
    Woke(Word, usize),
    Requeued(Word, Word, Requeued),
}
use Event::{Began, Ended, Woke};

/// Keeps what it is told.
#[derive(Default, Debug)]
struct Notes(Mutex<Vec<Event>>);

impl Notes {
    fn all(&self) -> Vec<Event> {
        self.0.lock().expect("not poisoned").clone()
    }

    fn take(&self) -> Vec<Event> {
        std::mem::take(&mut self.0.lock().expect("not poisoned"))
    }

    /// The only event since the last call, which is the begin of a wait for this word: its number.
    fn begun(&self, word: Word) -> usize {
        let [Began(wait, at)] = self.take()[..] else { panic!("not one wait has begun") };
        assert_eq!(at, word);
        wait
    }

    fn note(&self, event: Event) {
        self.0.lock().expect("not poisoned").push(event);
    }
}

impl Observer for Notes {
    fn wait_began(&self, wait: usize, word: Word) {
        self.note(Began(wait, word));
    }
    fn wait_ended(&self, wait: usize, word: Word, end: WaitEnd) {
        self.note(Ended(wait, word, end));
    }
    fn woke(&self, word: Word, count: usize) {
        self.note(Woke(word, count));
    }
    fn requeued(&self, from: Word, to: Word, done: Requeued) {
        self.note(Event::Requeued(from, to, done));
    }
    fn waker_id(&self) -> u64 {
        CALLER.get()
    }
}

fn observed_in(system: &System) -> (Domain, &'static Notes) {
    let notes: &Notes = forever(Notes::default());
    (Domain::with_options(system, DomainOptions::new().observer(notes)), notes)
}

fn observed() -> (Domain, &'static Notes) {
    observed_in(&system())
}

fn words<const N: usize>() -> [AtomicU32; N] {
    [(); N].map(|()| AtomicU32::new(0))
}

fn at(word: &AtomicU32) -> Word {
    At::new(Address::of(word), Scope::Private)
}

/// Runs `f` as the thread or task with this number.
fn by<R>(number: u64, f: impl FnOnce() -> R) -> R {
    let before = CALLER.replace(number);
    let result = f();
    CALLER.set(before);
    result
}

fn wait_that_is_woken_names_its_waker() {
    let (domain, notes) = observed();
    let [word] = words();
    let queued = waiter_on(&domain, &word);
    let wait = notes.begun(at(&word));
    assert_eq!(by(7, || domain.wake(&word, 5)), 1);
    assert_eq!(notes.take(), [Woke(at(&word), 1)]);
    assert_eq!(queued.finish(), Ok(()));
    assert_eq!(notes.take(), [Ended(wait, at(&word), WaitEnd::Woken(7))]);

    let mut future = pending(domain.wait_async(&word, 0, &PLAINLY));
    let wait = notes.begun(at(&word));
    assert_eq!(by(8, || domain.wake(&word, 1)), 1);
    assert_eq!(poll(&mut future), Poll::Ready(Ok(())));
    assert_eq!(notes.take(), [Woke(at(&word), 1), Ended(wait, at(&word), WaitEnd::Woken(8))]);
}

fn thread_that_sleeps_is_told_of_by_itself() {
    let (domain, notes) = observed();
    let [word] = words();
    std::thread::scope(|scope| {
        // The waiting thread's own number is not that of its waker.
        let thread = scope.spawn(|| by(1, || domain.wait(&word, 0)));
        until("the wait has begun", || !notes.all().is_empty());
        assert_eq!(by(2, || domain.wake(&word, 1)), 1);
        assert_eq!(thread.join().expect("it does not panic"), Ok(()));
    });
    let told = notes.take();
    let Some(&Began(wait, _)) = told.first() else { panic!("{told:?}") };
    let ended = Ended(wait, at(&word), WaitEnd::Woken(2));
    assert_eq!((told.len(), told.contains(&ended), told.contains(&Woke(at(&word), 1))), (3, true, true), "{told:?}");
}

fn words_are_told_with_their_scope() {
    let (domain, notes) = observed();
    let [word] = words();
    let id = ObjectId::new(5).expect("a small number");
    for scope in [Scope::Private, Scope::AddressSpace, Scope::Object { id, offset: 24 }] {
        let queued = waiter_on(&domain, At::new(&word, scope));
        let told = notes.take();
        let [Began(wait, key)] = told[..] else { panic!("{told:?}") };
        assert_eq!(ufutex::Key::scope(&key), scope);
        assert_eq!(domain.wake(key, 1), 1, "a word that an observer is told is a key");
        drop(queued);
        assert_eq!(notes.take(), [Woke(key, 1), Ended(wait, key, WaitEnd::Woken(0))]);
    }
}

fn timeout_interrupt_cancel_and_drop_are_told_apart() {
    let (domain, notes) = observed();
    let [word] = words();
    let ended = |expected| {
        let told = notes.take();
        let [Began(wait, began_at), Ended(ended, ended_at, end)] = told[..] else { panic!("{told:?}") };
        assert_eq!((wait, began_at, ended_at, end), (ended, at(&word), at(&word), expected));
    };
    let (timed_out, interrupted) = (WaitEnd::GaveUp(Cause::TimedOut), WaitEnd::GaveUp(Cause::Interrupted));
    let soon = PLAINLY.timeout(Timeout::After(Duration::from_micros(10)));
    assert_eq!(domain.wait_with(&word, 0, &soon), Err(Error::TimedOut));
    ended(timed_out);
    let interrupt = Interrupt::new();
    assert_eq!(domain.wait_interruptible(&word, 0, &soon, &interrupt), Err(Error::TimedOut));
    ended(timed_out);
    interrupt.raise();
    assert_eq!(domain.wait_interruptible(&word, 0, &PLAINLY, &interrupt), Err(Error::Interrupted));
    ended(interrupted);
    assert!(queue(&domain, &mut idle(1)[0], &word).cancel());
    ended(WaitEnd::Cancelled);
    drop(queue(&domain, &mut idle(1)[0], &word));
    ended(WaitEnd::Cancelled);
    for (cause, end) in [(Cause::TimedOut, timed_out), (Cause::Interrupted, interrupted)] {
        let mut future = pending(domain.wait_async(&word, 0, &PLAINLY));
        assert_eq!(future.as_mut().end(cause), Err(cause.into()));
        drop(future);
        ended(end);
    }
    drop(pending(domain.wait_async(&word, 0, &PLAINLY)));
    ended(WaitEnd::Cancelled);
}

fn wake_that_is_passed_on_names_the_thread_that_passed_it_on() {
    let (domain, notes) = observed();
    let [word] = words();
    let first = waiter_on(&domain, &word);
    let a = notes.begun(at(&word));
    let second = waiter_on(&domain, &word);
    let b = notes.begun(at(&word));
    assert_eq!(by(1, || domain.wake(&word, 1)), 1);
    by(2, || drop(first));
    assert_eq!(second.finish(), Ok(()));
    let ended = |wait, by| Ended(wait, at(&word), WaitEnd::Woken(by));
    assert_eq!(notes.take(), [Woke(at(&word), 1), ended(a, 1), ended(b, 2)]);
}

fn requeue_is_told_and_moves_the_wait() {
    let (domain, notes) = observed();
    let [from, to] = words();
    let first = waiter_on(&domain, &from);
    let a = notes.begun(at(&from));
    let second = waiter_on(&domain, &from);
    let b = notes.begun(at(&from));
    let done = Requeued { woken: 1, requeued: 1 };
    assert_eq!(by(3, || domain.cmp_requeue(&from, 0, &to, Requeue { wake: 1, requeue: 9 })), Ok(done));
    assert_eq!(notes.take(), [Event::Requeued(at(&from), at(&to), done)]);
    assert_eq!(first.finish(), Ok(()));
    assert_eq!(by(4, || domain.wake(&to, 1)), 1);
    assert_eq!(second.finish(), Ok(()));
    let ended = |wait, word, by| Ended(wait, at(word), WaitEnd::Woken(by));
    assert_eq!(notes.take(), [ended(a, &from, 3), Woke(at(&to), 1), ended(b, &to, 4)]);
}

fn each_word_of_a_wait_for_several_is_told() {
    let (domain, notes) = observed();
    let [a, b, differs] = words();
    let begun = |words: &[&AtomicU32]| -> Vec<usize> {
        let told = notes.take();
        let waits: Vec<_> = told.iter().map(|event| if let Began(wait, _) = event { *wait } else { 0 }).collect();
        let began: Vec<_> = waits.iter().zip(words).map(|(wait, word)| Began(*wait, at(word))).collect();
        assert_eq!(told, began);
        assert!(waits[0] != waits[1]);
        waits
    };
    let mut future = pending(domain.wait_any_async([(&a, 0), (&b, 0)], &PLAINLY));
    let waits = begun(&[&a, &b]);
    assert_eq!(by(5, || domain.wake(&b, 1)), 1);
    assert_eq!(poll(&mut future), Poll::Ready(Ok(1)));
    let first = Ended(waits[0], at(&a), WaitEnd::Cancelled);
    assert_eq!(notes.take(), [Woke(at(&b), 1), first, Ended(waits[1], at(&b), WaitEnd::Woken(5))]);

    let soon = PLAINLY.timeout(Timeout::After(Duration::from_micros(10)));
    assert_eq!(domain.wait_any(&[(&a, 0), (&b, 0)], &soon), Err(Error::TimedOut));
    let told = notes.take();
    let ends: Vec<_> =
        told[2..].iter().map(|event| if let Ended(_, _, end) = event { Some(*end) } else { None }).collect();
    assert_eq!(ends, [Some(WaitEnd::GaveUp(Cause::TimedOut)); 2], "{told:?}");

    // The word that differs has no waiter.
    assert_eq!(domain.wait_any(&[(&a, 0), (&differs, 1)], &PLAINLY), Err(Error::Again));
    let told = notes.take();
    let [Began(wait, _), end] = told[..] else { panic!("{told:?}") };
    assert_eq!(end, Ended(wait, at(&a), WaitEnd::Cancelled));
}

fn wait_for_a_lock_is_told_and_names_the_one_that_unlocked_it() {
    let (domain, notes) = observed();
    let [lock] = words();
    let [owner, next, last] = [1, 2, 3].map(|tid| domain.task(tid).expect("the number is free"));
    assert_eq!(domain.lock_pi(&lock, &owner), Ok(()));
    assert_eq!(domain.lock_pi(&lock, &owner), Err(Error::Deadlock));
    assert_eq!(notes.take(), [], "no task has waited");
    let mut wait = pending(domain.lock_pi_async(&lock, &next, &PLAINLY));
    let number = notes.begun(at(&lock));
    assert_eq!(by(6, || domain.unlock_pi(&lock, &owner)), Ok(()));
    assert_eq!(poll(&mut wait), Poll::Ready(Ok(())));
    assert_eq!(notes.take(), [Ended(number, at(&lock), WaitEnd::Woken(6))]);
    drop(wait);

    let mut given_up = pending(domain.lock_pi_async(&lock, &owner, &PLAINLY));
    let number = notes.begun(at(&lock));
    assert_eq!(given_up.as_mut().end(Cause::Interrupted), Err(Error::Interrupted));
    assert_eq!(notes.take(), [Ended(number, at(&lock), WaitEnd::GaveUp(Cause::Interrupted))]);
    let dropped = pending(domain.lock_pi_async(&lock, &owner, &PLAINLY));
    let number = notes.begun(at(&lock));
    drop(dropped);
    assert_eq!(notes.take(), [Ended(number, at(&lock), WaitEnd::Cancelled)]);

    // The owner dies. Its heir has been woken by no thread that unlocked.
    let mut heir = pending(domain.lock_pi_async(&lock, &last, &PLAINLY));
    let number = notes.begun(at(&lock));
    by(7, || drop(next));
    assert_eq!(poll(&mut heir), Poll::Ready(Ok(())));
    assert_eq!(notes.take(), [Ended(number, at(&lock), WaitEnd::Woken(0))]);
}

fn wait_that_would_be_a_deadlock_is_not_told() {
    let (domain, notes) = observed();
    let [first, second] = words();
    let [a, b] = [1, 2].map(|tid| domain.task(tid).expect("the number is free"));
    assert_eq!((domain.lock_pi(&first, &a), domain.lock_pi(&second, &b)), (Ok(()), Ok(())));
    let _wait = pending(domain.lock_pi_async(&second, &a, &PLAINLY));
    notes.begun(at(&second));
    assert_eq!(domain.lock_pi(&first, &b), Err(Error::Deadlock));
    assert_eq!(notes.take(), []);
}

fn requeue_to_a_lock_is_told() {
    let (domain, notes) = observed();
    let [condition, lock] = words();
    let [first, second] = [1, 2].map(|tid| domain.task(tid).expect("the number is free"));
    let mut waits =
        [&first, &second].map(|task| Box::pin(domain.wait_requeue_pi_async(&condition, 0, &lock, task, &PLAINLY)));
    let numbers = waits.each_mut().map(|wait| {
        assert!(poll(wait).is_pending());
        notes.begun(at(&condition))
    });
    assert_eq!(by(1, || domain.cmp_requeue_pi(&condition, 0, &lock, 1)), Ok(2));
    let done = Requeued { woken: 1, requeued: 1 };
    assert_eq!(notes.take(), [Event::Requeued(at(&condition), at(&lock), done)]);
    assert_eq!(poll(&mut waits[0]), Poll::Ready(Ok(())));
    assert_eq!(notes.take(), [Ended(numbers[0], at(&condition), WaitEnd::Woken(1))]);
    assert_eq!(by(2, || domain.unlock_pi(&lock, &first)), Ok(()));
    assert_eq!(poll(&mut waits[1]), Poll::Ready(Ok(())));
    assert_eq!(notes.take(), [Ended(numbers[1], at(&lock), WaitEnd::Woken(2))]);
}

fn nothing_is_told_of_what_finds_no_waiter_nor_of_other_domains() {
    let system = system();
    let (domain, notes) = observed_in(&system);
    let [word, to] = words();
    let id = ObjectId::new(9).expect("a small number");
    let shared = At::object(&word, id, 0);
    assert_eq!(domain.wait(&word, 1), Err(Error::Again));
    assert_eq!(domain.wake(&word, 1), 0);
    assert_eq!(domain.requeue(&word, &to, Requeue { wake: 1, requeue: 1 }), Ok(Requeued::default()));
    let other = Domain::with_options(&system, DomainOptions::new());
    let mut waiters = idle(2);
    let [private, of_object] = &mut waiters[..] else { unreachable!() };
    let (private, of_object) = (queue(&other, private, &word), queue(&other, of_object, shared));
    assert_eq!(other.wake(&word, 1), 1);
    drop(private);
    assert_eq!(notes.take(), []);
    // Each domain's observer is told of what its own threads do: here of the wake and not of the wait.
    assert_eq!(domain.wake(shared, 1), 1);
    drop(of_object);
    assert_eq!(notes.take(), [Woke(At::object(Address::at(0), id, 0), 1)]);
    // A wake by a domain without an observer has no number.
    let queued = queue(&domain, &mut waiters[0], shared);
    assert_eq!(by(5, || other.wake(shared, 1)), 1);
    drop(queued);
    let told = notes.take();
    assert!(matches!(told[..], [Began(..), Ended(_, _, WaitEnd::Woken(0))]), "{told:?}");
}

fn wake_of_more_waiters_than_fit_a_piece_is_told_once() {
    const WAITERS: usize = 700;
    let (domain, notes) = observed();
    let [word] = words();
    let id = ObjectId::new(3).expect("a small number");
    let key = At::object(&word, id, 0);
    let queued = waiters_on(&domain, key, WAITERS);
    assert_eq!(notes.take().len(), WAITERS);
    assert_eq!(by(4, || domain.wake(key, usize::MAX)), WAITERS);
    assert_eq!(notes.take(), [Woke(At::object(Address::at(0), id, 0), WAITERS)]);
    drop(queued);
    let told = notes.take();
    assert_eq!(told.iter().filter(|event| matches!(event, Ended(_, _, WaitEnd::Woken(4)))).count(), WAITERS);
}

/// Panics in every call, while it is armed.
#[derive(Debug)]
struct Panics(AtomicBool);

impl Panics {
    fn pass(&self) {
        if self.0.load(SeqCst) {
            resume_unwind(Box::new(Payload));
        }
    }
}

/// The payload of an observer's panic. Its drop panics too.
struct Payload;

impl Drop for Payload {
    fn drop(&mut self) {
        panic!("the payload of an observer's panic was dropped");
    }
}

impl Observer for Panics {
    fn wait_began(&self, _: usize, _: Word) {
        self.pass();
    }
    fn wait_ended(&self, _: usize, _: Word, _: WaitEnd) {
        self.pass();
    }
    fn woke(&self, _: Word, _: usize) {
        self.pass();
    }
    fn requeued(&self, _: Word, _: Word, _: Requeued) {
        self.pass();
    }
    fn waker_id(&self) -> u64 {
        self.pass();
        1
    }
}

fn panic_of_an_observer_changes_nothing() {
    let domain = Domain::with_options(&system(), DomainOptions::new().observer(forever(Panics(AtomicBool::new(true)))));
    let [word, to, lock] = words();
    let mut waiters = idle(5);
    let mut queued = waiters.iter_mut().map(|waiter| queue(&domain, waiter, &word)).collect::<Vec<_>>().into_iter();
    let mut next = || queued.next().expect("one of five");
    assert_eq!(domain.wake(&word, 1), 1);
    assert_eq!(next().finish(), Ok(()));
    // The wake of a waiter that is dropped goes to the next one.
    assert_eq!(domain.wake(&word, 1), 1);
    drop(next());
    assert_eq!(next().finish(), Ok(()));
    let done = Requeued { woken: 1, requeued: 1 };
    assert_eq!(domain.requeue(&word, &to, Requeue { wake: 1, requeue: 1 }), Ok(done));
    assert!(!next().cancel());
    assert!(next().cancel());
    assert_eq!(domain.waiting(), 0);
    let soon = PLAINLY.timeout(Timeout::After(Duration::from_micros(10)));
    assert_eq!(domain.wait_with(&word, 0, &soon), Err(Error::TimedOut));
    assert_eq!(domain.wait_any(&[(&word, 0), (&to, 0)], &soon), Err(Error::TimedOut));
    let [owner, heir] = [1, 2].map(|tid| domain.task(tid).expect("the number is free"));
    assert_eq!(domain.lock_pi(&lock, &owner), Ok(()));
    let mut wait = pending(domain.lock_pi_async(&lock, &heir, &PLAINLY));
    assert_eq!(domain.unlock_pi(&lock, &owner), Ok(()));
    assert_eq!(poll(&mut wait), Poll::Ready(Ok(())));
    // A thread that sleeps.
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| domain.wait(&word, 0));
        until("the thread is queued", || domain.waiting() == 1);
        assert_eq!(domain.wake(&word, 1), 1);
        assert_eq!(thread.join().expect("the panic does not leave the wait"), Ok(()));
    });
}

/// Wakes a waiter of a second word whenever a waiter of the first has been woken.
#[derive(Debug)]
struct WakesMore<'a> {
    domain: OnceLock<&'static Domain>,
    words: [&'a AtomicU32; 2],
}

impl Observer for WakesMore<'_> {
    fn woke(&self, word: Word, _: usize) {
        if word == at(self.words[0]) {
            assert_eq!(self.domain.get().expect("it is set").wake(self.words[1], 1), 1);
        }
    }
}

fn observer_may_use_the_engine() {
    let words: [&'static AtomicU32; 2] = words().map(forever);
    let observer = forever(WakesMore { domain: OnceLock::new(), words });
    let domain = forever(Domain::with_options(&system(), DomainOptions::new().observer(observer)));
    observer.domain.set(domain).expect("set once");
    let (first, second) = (waiter_on(domain, words[0]), waiter_on(domain, words[1]));
    assert_eq!(domain.wake(words[0], 1), 1);
    assert_eq!((first.finish(), second.finish()), (Ok(()), Ok(())));
}

/// Threads hand a turn around. In what each domain's observer is told, every wait begins before it ends, no two waits under
/// way have one number, and as many waits end by a wake as wakes have told of.
fn events_of_threads_come_in_order() {
    const THREADS: u32 = 3;
    const TURNS: u32 = 300;
    let (domain, notes) = observed();
    let [turn] = words();
    std::thread::scope(|scope| {
        for me in 0..THREADS {
            let (domain, turn) = (&domain, &turn);
            scope.spawn(move || {
                by(u64::from(me) + 1, || {
                    for round in 0..TURNS {
                        let mine = round * THREADS + me;
                        loop {
                            let now = turn.load(SeqCst);
                            if now == mine {
                                break;
                            }
                            let _or_changed = domain.wait(turn, now);
                        }
                        turn.store(mine + 1, SeqCst);
                        domain.wake(turn, usize::MAX);
                    }
                });
            });
        }
    });
    let (mut under_way, mut woken, mut told_woken) = (HashMap::new(), 0, 0);
    for event in notes.take() {
        match event {
            Began(wait, word) => assert_eq!(under_way.insert(wait, word), None, "two waits have one number"),
            Ended(wait, word, WaitEnd::Woken(by)) => {
                assert_eq!(under_way.remove(&wait), Some(word), "the wait has not begun");
                assert!((1..=THREADS.into()).contains(&by));
                woken += 1;
            }
            Woke(word, count) => {
                assert_eq!(word, at(&turn));
                told_woken += count;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((under_way.len(), woken), (0, told_woken));
}

on_domains![
    wait_that_is_woken_names_its_waker,
    thread_that_sleeps_is_told_of_by_itself,
    words_are_told_with_their_scope,
    timeout_interrupt_cancel_and_drop_are_told_apart,
    wake_that_is_passed_on_names_the_thread_that_passed_it_on,
    requeue_is_told_and_moves_the_wait,
    each_word_of_a_wait_for_several_is_told,
    wait_for_a_lock_is_told_and_names_the_one_that_unlocked_it,
    wait_that_would_be_a_deadlock_is_not_told,
    requeue_to_a_lock_is_told,
    nothing_is_told_of_what_finds_no_waiter_nor_of_other_domains,
    wake_of_more_waiters_than_fit_a_piece_is_told_once,
    panic_of_an_observer_changes_nothing,
    observer_may_use_the_engine,
    events_of_threads_come_in_order,
];
