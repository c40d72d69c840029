//! The driver ([U]): arming and the end of a process against turns, and the channel that receives expired timers.
//!
//! The interleavings looked for: an embedder reads when the next turn is due, and sleeps until then, while another
//! thread arms an earlier deadline or runs a turn too; the last handle of a process's timers is dropped while the
//! driver serves their queue; a receiver goes to sleep while a notice comes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use loom::thread;
use ufutex_loom::timer::{Base, Driver, Expiries, Expiry, TimerClock, Timers};

use crate::support::{PAIR, catches, check, check_pair};
use crate::timers::{DUE, ModelClock, Process, spawn};

/// The time for which the other timer is armed.
const NEXT: u64 = DUE + 5;

/// Whether an embedder that read `seen` as its next turn, and was notified `told` times since, will turn by `at`.
fn will_turn_by(at: u64, seen: Option<u64>, told: usize) -> bool {
    seen.is_some_and(|seen| seen <= at) || told != 0
}

/// An embedder's loop, and a thread that arms a timer.
fn armed_during_a_turn() {
    let process = Process::with_one_due(&[0, 1], 0);
    let before = process.clock.changed();
    let embedder = spawn(&process, |process| {
        process.driver.turn();
        process.next()
    });
    process.arm(1, NEXT, 0).expect("the timer is there");
    let seen = embedder.join().unwrap();
    assert!(will_turn_by(NEXT, seen, process.clock.changed() - before));
    assert!(process.next().is_some_and(|at| at <= NEXT));
    process.notices.drain();
    assert_eq!(process.expired_at(NEXT), [1]);
}

/// An embedder reads when the next turn is due, while another thread runs a turn.
fn asked_during_a_turn() {
    let process = Process::with_one_due(&[0, 1], 0);
    process.arm(1, NEXT, 0).expect("the timer is there");
    let before = process.clock.changed();
    let turn = spawn(&process, |process| process.driver.turn());
    let seen = process.next();
    assert_eq!(turn.join().unwrap(), 1);
    assert!(will_turn_by(NEXT, seen, process.clock.changed() - before));
    assert_eq!(process.next(), Some(NEXT));
}

/// One timer is disarmed, another is armed.
fn armed_while_the_last_goes() {
    let process = Process::with(&[0, 1]);
    process.arm(0, DUE, 0).expect("the timer is there");
    let before = process.clock.changed();
    let other = spawn(&process, |process| {
        process.disarm(0).expect("the timer is there");
        process.next()
    });
    process.arm(1, NEXT, 0).expect("the timer is there");
    let seen = other.join().unwrap();
    assert!(will_turn_by(NEXT, seen, process.clock.changed() - before));
    assert!(process.next().is_some_and(|at| at <= NEXT));
    assert_eq!(process.expired_at(NEXT), [1]);
    assert_eq!(process.next(), None);
}

/// An embedder asks again when the earliest timer has been disarmed, and is told the time of another process's timer.
/// Then a timer is armed for a time between the two answers.
fn armed_between_two_answers() {
    let process = Process::with(&[0, 1]);
    let other = Timers::new(&process.driver, process.notices.clone()).expect("timers can be made");
    let far = other.create(TimerClock::Monotonic, None).expect("there is room");
    other.settime(far, Expiry::At(Duration::from_nanos(1000)), Duration::ZERO).expect("the timer is there");
    process.arm(0, DUE, 0).expect("the timer is there");
    assert_eq!(process.next(), Some(DUE));
    let before = process.clock.changed();
    let embedder = spawn(&process, Process::next);
    process.disarm(0).expect("the timer is there");
    process.arm(1, NEXT, 0).expect("the timer is there");
    let seen = embedder.join().unwrap();
    assert!(will_turn_by(NEXT, seen, process.clock.changed() - before));
}

/// The last handle is dropped during a turn.
fn dropped_during_a_turn() {
    let process = Arc::into_inner(Process::with_one_due(&[0], 0)).expect("nobody else has it");
    let Process { clock, notices, driver, timers } = process;
    let turn = {
        let driver = driver.clone();
        thread::spawn(move || {
            driver.turn();
        })
    };
    drop(timers);
    assert_eq!(driver.next(Base::Monotonic), None, "they are out of the wheel, or in the hands of the turn");
    turn.join().unwrap();
    assert_eq!(driver.next(Base::Monotonic), None);
    assert_eq!(driver.turn(), 0);
    assert_eq!(Arc::strong_count(&notices), 1, "the timers are gone");
    drop(driver);
    assert_eq!(Arc::strong_count(&clock), 1, "and so is the driver");
}

struct Channel {
    clock: Arc<ModelClock>,
    driver: Driver,
    timers: Timers,
    expiries: Expiries,
}

impl Channel {
    /// Makes a channel, and `timers` timers that are due.
    fn with_due(timers: i32) -> Arc<Self> {
        let clock = Arc::new(ModelClock::default());
        let driver = Driver::with_clocks(clock.clone()).expect("a driver can be made");
        let (process, expiries) = Timers::channel(&driver, Default::default()).expect("timers can be made");
        for id in 0..timers {
            process.create_as(id, TimerClock::Monotonic, None).expect("the ID is free");
            process.settime(id, Expiry::At(Duration::from_nanos(DUE)), Duration::ZERO).expect("the timer is there");
        }
        clock.set(DUE);
        Arc::new(Self { clock, driver, timers: process, expiries })
    }

    fn spawn_turn(self: &Arc<Self>) -> thread::JoinHandle<()> {
        let channel = self.clone();
        thread::spawn(move || {
            channel.driver.turn();
        })
    }
}

fn received() {
    let channel = Channel::with_due(1);
    let turn = channel.spawn_turn();
    assert_eq!(channel.expiries.recv().id, 0);
    turn.join().unwrap();
    assert_eq!(channel.expiries.try_recv(), None);
}

/// Each of two receivers gets a notice, although one of them may have been woken for both.
fn received_by_two() {
    let channel = Channel::with_due(2);
    let other = {
        let channel = channel.clone();
        thread::spawn(move || channel.expiries.recv().id)
    };
    let turn = channel.spawn_turn();
    let ids = [channel.expiries.recv().id, other.join().unwrap()];
    assert!(ids == [0, 1] || ids == [1, 0]);
    turn.join().unwrap();
}

#[derive(Default)]
struct CountingWaker(AtomicUsize);

impl Wake for CountingWaker {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

fn received_by_a_task() {
    let channel = Channel::with_due(1);
    let woken = Arc::new(CountingWaker::default());
    let waker = Waker::from(woken.clone());
    let poll = || channel.expiries.poll_recv(&mut Context::from_waker(&waker)).map(|expired| expired.id);
    let turn = channel.spawn_turn();
    let is_pending = poll().is_pending();
    turn.join().unwrap();
    assert!(!is_pending || woken.0.load(Relaxed) == 1, "a task that waits is woken");
    assert_eq!(poll(), if is_pending { Poll::Ready(0) } else { Poll::Pending });
}

/// A notice in the channel is void once its timer is deleted.
fn received_or_deleted() {
    let channel = Channel::with_due(1);
    let turn = channel.spawn_turn();
    channel.timers.delete(0).expect("the timer was there");
    turn.join().unwrap();
    assert_eq!(channel.expiries.try_recv(), None);
    assert_eq!(channel.clock.changed(), 1, "nobody is told of a deadline that is gone");
}

#[test]
fn an_earlier_deadline_is_not_overlooked() {
    check_pair(armed_during_a_turn);
}

#[test]
fn a_deadline_between_two_answers_is_not_overlooked() {
    check_pair(armed_between_two_answers);
}

#[test]
fn who_asks_during_a_turn_is_told_afterwards() {
    check_pair(asked_during_a_turn);
}

#[test]
fn disarming_one_leaves_the_other_armed() {
    check_pair(armed_while_the_last_goes);
}

#[test]
fn timers_go_while_the_driver_turns() {
    check_pair(dropped_during_a_turn);
}

#[test]
fn a_receiver_does_not_sleep_through_an_expiry() {
    check_pair(received);
    check_pair(received_by_a_task);
    check_pair(received_or_deleted);
}

#[test]
fn each_of_two_receivers_gets_one() {
    check(received_by_two);
}

catches!(timers_driver_catches_arm_notifies_nobody, ArmNotifiesNobody, PAIR, armed_during_a_turn);
catches!(timers_driver_catches_told_keeps_earlier, ToldKeepsEarlier, PAIR, armed_between_two_answers);
catches!(timers_driver_catches_turn_forgets_rest, TurnForgetsRest, PAIR, asked_during_a_turn);
catches!(timers_driver_catches_turn_ignores_looks, TurnIgnoresLooks, PAIR, asked_during_a_turn);
catches!(timers_driver_catches_disarm_silences_others, DisarmSilencesOthers, PAIR, armed_while_the_last_goes);
catches!(timers_driver_catches_hold_revives, HoldRevives, PAIR, dropped_during_a_turn);
catches!(timers_driver_catches_retire_forgets, RetireForgets, PAIR, dropped_during_a_turn);
catches!(timers_driver_catches_bell_rings_first, BellRingsFirst, PAIR, received);
catches!(timers_driver_catches_recv_looks_first, RecvLooksFirst, PAIR, received_by_a_task);
