//! A wake of many waiters in the global table, which takes them in pieces: in a model, one at a time.
//!
//! The interleavings looked for: a waiter that was queued when the wake began is left behind; one that came later is
//! taken in its place, or in addition. Both would happen if a waiter and a wake disagreed about which of them came
//! first. Both read or change the *moment* with the queue's bucket locked ([E]).
//!
//! And what may happen to a wake's marker between two pieces: a resize moves it, its neighbours leave, other operations
//! look for waiters where it stands.
//!
//! Promise: short holds

use std::future::Future;
use std::num::NonZeroU32;
use std::pin::{Pin, pin};
use std::task::{Context, Waker};

use loom::sync::Arc;
use loom::thread;
use ufutex_loom::{Cause, Error, Queued, Requeue, WaitOptions, Waiter, pi::Priority};

use crate::support::{PAIR, World, assert_not_lost, catches, check, check_pair, hangs, resize};

/// Queues ahead of all waiters.
const FIRST: WaitOptions = WaitOptions::new().realtime_priority(1);

fn spawn_wake_of_all(world: &Arc<World>) -> thread::JoinHandle<usize> {
    let world = world.clone();
    thread::spawn(move || {
        world.word.store(1);
        world.domain.wake(&world.word, 9)
    })
}

/// A second waiter comes while the wake begins. It sees the new value, or is woken.
fn waiter_comes_as_wake_begins() {
    let world = World::with_slots(0);
    let mut waiters = [pin!(Waiter::new()), pin!(Waiter::new())];
    let [first, second] = waiters.each_mut();
    let mut first = world.queue(first.as_mut()).expect("the word holds 0");
    let waker = spawn_wake_of_all(&world);
    let queued = world.queue(second.as_mut());
    let woken = waker.join().unwrap();
    assert!(!first.cancel());
    assert_not_lost(queued, woken - 1);
}

/// When the first of two waiters has been woken, a third comes, ahead of the second. This wake must not take it.
fn third_comes_between_pieces(sizes: &'static [usize]) {
    let world = World::with_slots(0);
    let mut waiters = [pin!(Waiter::new()), pin!(Waiter::new())];
    let [mut first, mut second] =
        waiters.each_mut().map(|waiter| world.queue(waiter.as_mut()).expect("the word holds 0"));
    let mover = (!sizes.is_empty()).then(|| resize(&world, sizes));
    let waker = spawn_wake_of_all(&world);
    let mut late = pin!(Waiter::new());
    let third = first.is_woken().then(|| {
        let noop = Waker::noop().clone();
        world.domain.prepare_with(late.as_mut(), &world.word, 1, &FIRST, noop).expect("the word holds 1")
    });
    assert_eq!(waker.join().unwrap(), 2, "those who were there");
    assert!(third.is_none_or(|mut third| third.cancel()), "a wake took one that came after it had begun");
    assert!(!first.cancel() && !second.cancel());
    if let Some(mover) = mover {
        mover.join().unwrap();
    }
}

fn third_comes() {
    third_comes_between_pieces(&[]);
}

/// When the first two waiters of the second word have been woken, a waiter is requeued there from the first word.
fn waiter_is_requeued_between_pieces() {
    let world = World::with_slots(0);
    let mut waiters = [(); 3].map(|()| Box::pin(Waiter::new()));
    let [waiter, others @ ..] = waiters.each_mut();
    let mut moved = world.queue(waiter.as_mut()).expect("the word holds 0");
    let there = others.map(|other| {
        let noop = Waker::noop().clone();
        world.domain.prepare_with(other.as_mut(), &world.other, 0, &WaitOptions::new(), noop).expect("it holds 0")
    });
    let waker = {
        let world = world.clone();
        thread::spawn(move || world.domain.wake(&world.other, 9))
    };
    if there[0].is_woken() {
        assert!(
            world
                .domain
                .requeue(&world.word, &world.other, Requeue { wake: 0, requeue: 1 })
                .is_ok_and(|done| done.requeued == 1)
        );
    }
    assert_eq!(waker.join().unwrap(), 2, "those who were there");
    assert!(moved.cancel(), "a wake took one that was moved there after it had begun");
    assert!(there.into_iter().all(|mut there| !there.cancel()));
}

/// When the first of two waiters has been requeued, a third comes, ahead of the second. This requeue must not move it.
fn third_comes_between_pieces_of_a_requeue() {
    let world = World::with_slots(0);
    let mut waiters = [pin!(Waiter::new()), pin!(Waiter::new())];
    let there = waiters.each_mut().map(|waiter| world.queue(waiter.as_mut()).expect("the word holds 0"));
    let requeue = {
        let world = world.clone();
        thread::spawn(move || world.domain.requeue(&world.word, &world.other, Requeue { wake: 0, requeue: 9 }))
    };
    let mut late = pin!(Waiter::new());
    let woken = world.domain.wake(&world.other, 1);
    let third = (woken == 1).then(|| {
        let noop = Waker::noop().clone();
        world.domain.prepare_with(late.as_mut(), &world.word, 0, &FIRST, noop).expect("the word holds 0")
    });
    assert_eq!(requeue.join().unwrap().map(|done| done.requeued), Ok(2), "those who were there");
    assert_eq!(world.domain.wake(&world.word, 9), usize::from(third.is_some()), "one that came later has been moved");
    assert_eq!(world.domain.wake(&world.other, 9), 2 - woken);
    assert!(there.into_iter().chain(third).all(|mut waiter| !waiter.cancel()));
}

/// Queues waiters of the first word in the global table, with these bitsets.
fn queue_bits<'w, 'd, const N: usize>(
    world: &'d World,
    waiters: &'w mut [Pin<Box<Waiter<'d>>>; N],
    bits: [u32; N],
) -> [Queued<'w, 'd>; N] {
    let mut bits = bits.into_iter();
    waiters.each_mut().map(|waiter| {
        let bitset = bits.next().and_then(NonZeroU32::new).expect("there are as many");
        let (options, noop) = (WaitOptions::new().bitset(bitset), Waker::noop().clone());
        world.domain.prepare_with(waiter.as_mut(), &world.word, 0, &options, noop).expect("the word holds 0")
    })
}

fn spawn_wake_of_bits(world: &Arc<World>, bits: u32) -> thread::JoinHandle<usize> {
    let world = world.clone();
    let bits = NonZeroU32::new(bits).expect("it is not 0");
    thread::spawn(move || world.domain.wake_bitset(&world.word, 9, bits))
}

/// A wake passes over two waiters and wakes the third. When it unlocks the bucket, its marker is in the queue.
/// `meanwhile` happens to the first two waiters.
fn wake_passes_over(meanwhile: impl FnOnce(&Arc<World>, [Queued<'_, '_>; 2])) {
    let world = World::with_slots(0);
    let mut waiters = [(); 3].map(|()| Box::pin(Waiter::new()));
    let [first, second, mut third] = queue_bits(&world, &mut waiters, [1, 1, 2]);
    let waker = spawn_wake_of_bits(&world, 2);
    meanwhile(&world, [first, second]);
    assert_eq!(waker.join().unwrap(), 1);
    assert!(!third.cancel());
    assert_eq!(world.domain.waiting(), 0);
}

/// The table becomes a private one.
fn table_is_resized_between_pieces() {
    wake_passes_over(|world, passed_over| {
        assert_eq!(world.domain.set_slots(2), Ok(()));
        assert_eq!(passed_over.map(|mut queued| queued.cancel()), [true; 2]);
    });
}

/// The waiters that were passed over leave. They are the marker's neighbours.
fn neighbours_leave_between_pieces() {
    wake_passes_over(|_, passed_over| assert_eq!(passed_over.map(|mut queued| queued.cancel()), [true; 2]));
}

/// Another wake takes one of them in one step.
fn first_is_woken_between_pieces() {
    wake_passes_over(|world, [mut first, mut second]| {
        let nonzero = NonZeroU32::new(1).expect("it is not 0");
        assert_eq!(world.domain.wake_bitset(&world.word, 1, nonzero), 1);
        assert!(!first.cancel());
        // In the first waiter's place, before all others.
        assert!(second.cancel());
    });
}

/// Wakes of one take all waiters and meet the marker.
fn all_are_woken_one_by_one() {
    let world = World::with_slots(0);
    let mut waiters = [(); 2].map(|()| Box::pin(Waiter::new()));
    let queued = queue_bits(&world, &mut waiters, [1, 1]);
    let waker = spawn_wake_of_bits(&world, 2);
    assert_eq!([(); 3].map(|()| world.domain.wake(&world.word, 1)), [1, 1, 0]);
    assert_eq!(waker.join().unwrap(), 0);
    assert!(queued.into_iter().all(|mut waiter| !waiter.cancel()));
}

/// Each wake passes over waiters that only the other one takes, and over its marker.
fn two_wakes_pass_over() {
    let world = World::with_slots(0);
    let mut waiters = [(); 3].map(|()| Box::pin(Waiter::new()));
    let queued = queue_bits(&world, &mut waiters, [1, 2, 4]);
    let waker = spawn_wake_of_bits(&world, 4);
    assert_eq!(world.domain.wake_bitset(&world.word, 9, NonZeroU32::new(2).expect("it is not 0")), 1);
    assert_eq!(waker.join().unwrap(), 1);
    assert_eq!(queued.map(|mut queued| queued.cancel()), [true, false, false]);
}

/// All waiters are requeued to the other word. The marker is not.
fn waiters_are_requeued_between_pieces() {
    let world = World::with_slots(0);
    let mut waiters = [(); 2].map(|()| Box::pin(Waiter::new()));
    let queued = queue_bits(&world, &mut waiters, [1, 2]);
    let waker = spawn_wake_of_bits(&world, 2);
    let moved = world
        .domain
        .requeue(&world.word, &world.other, Requeue { wake: 0, requeue: 9 })
        .expect("nobody waits for a lock")
        .requeued;
    let woken = waker.join().unwrap();
    assert_eq!(woken + moved, 2);
    assert_eq!(world.domain.wake(&world.other, 9), moved);
    assert!(queued.into_iter().all(|mut waiter| !waiter.cancel()));
}

/// A requeue of a word to itself counts the word's waiters while one leaves.
fn word_is_requeued_to_itself() {
    let world = World::with_slots(0);
    let mut waiters = [(); 3].map(|()| Box::pin(Waiter::new()));
    let [mut first, mut second, mut third] = queue_bits(&world, &mut waiters, [1, 1, 1]);
    let other = {
        let world = world.clone();
        thread::spawn(move || world.domain.requeue(&world.word, &world.word, Requeue { wake: 1, requeue: 9 }))
    };
    let has_left = second.cancel();
    let done = other.join().unwrap().expect("nobody waits for a lock");
    if first.cancel() {
        unreachable!("the first is woken");
    }
    assert!(has_left && third.cancel() && done.woken == 1 && (1..=2).contains(&done.requeued), "{done:?}");
}

/// When the first of two waiters has got a free lock, a third comes, ahead of the second. The requeue must not take it.
fn third_comes_between_pieces_of_a_requeue_to_a_lock() {
    let world = World::with_slots(0);
    let tasks = [1, 2, 3].map(|tid| world.domain.task(tid).expect("the number is free"));
    tasks[2].set_priority(Priority::realtime(1));
    let mut waits = [0, 1, 2].map(|i| {
        Box::pin(world.domain.wait_requeue_pi_async(&world.other, 0, &world.word, &tasks[i], &WaitOptions::new()))
    });
    let mut context = Context::from_waker(Waker::noop());
    for wait in &mut waits[..2] {
        assert!(wait.as_mut().poll(&mut context).is_pending());
    }
    let mover = {
        let world = world.clone();
        thread::spawn(move || world.domain.cmp_requeue_pi(&world.other, 0, &world.word, 9))
    };
    let has_begun = waits[0].as_mut().poll(&mut context).is_ready();
    if has_begun {
        assert!(waits[2].as_mut().poll(&mut context).is_pending());
    }
    assert_eq!(mover.join().unwrap(), Ok(2), "those who were there");
    if has_begun {
        let left = waits[2].as_mut().end(Cause::Interrupted);
        assert_eq!(left, Err(Error::Interrupted), "a requeue moved one that came after it had begun");
    }
    assert_eq!(waits[1].as_mut().end(Cause::Interrupted), Err(Error::Again), "it waits for the lock");
}

#[test]
fn a_requeue_to_a_lock_moves_those_that_were_there() {
    check_pair(third_comes_between_pieces_of_a_requeue_to_a_lock);
}

catches!(
    pieces_of_a_requeue_to_a_lock_catch_late_comers_are_taken,
    LateComersAreTaken,
    PAIR,
    third_comes_between_pieces_of_a_requeue_to_a_lock
);

#[test]
fn a_requeue_of_all_moves_those_that_were_there() {
    check_pair(third_comes_between_pieces_of_a_requeue);
}

#[test]
fn a_waiter_comes_before_a_wake_of_all_or_after() {
    check_pair(waiter_comes_as_wake_begins);
}

#[test]
fn a_wake_of_all_takes_those_that_were_there() {
    check_pair(third_comes);
}

#[test]
fn a_wake_of_all_takes_those_that_were_there_wherever_they_are_by_then() {
    check(|| third_comes_between_pieces(&[2]));
}

#[test]
fn a_wake_of_all_does_not_take_those_that_were_moved_there() {
    check_pair(waiter_is_requeued_between_pieces);
}

#[test]
fn a_resize_takes_a_marker_along() {
    check_pair(table_is_resized_between_pieces);
}

#[test]
fn neighbours_of_a_marker_leave() {
    check_pair(neighbours_leave_between_pieces);
}

#[test]
fn a_neighbour_of_a_marker_is_woken() {
    check_pair(first_is_woken_between_pieces);
}

#[test]
fn wakes_of_one_pass_over_a_marker() {
    check_pair(all_are_woken_one_by_one);
}

#[test]
fn wakes_pass_over_each_others_markers() {
    check_pair(two_wakes_pass_over);
}

#[test]
fn a_marker_is_not_requeued() {
    check_pair(waiters_are_requeued_between_pieces);
}

#[test]
fn a_word_is_requeued_to_itself_in_pieces() {
    check_pair(word_is_requeued_to_itself);
}

catches!(pieces_catches_begins_unlocked, BeginsUnlocked, PAIR, waiter_comes_as_wake_begins);
catches!(pieces_catches_late_comers_are_taken, LateComersAreTaken, PAIR, third_comes);
catches!(
    pieces_of_a_requeue_catch_late_comers_are_taken,
    LateComersAreTaken,
    PAIR,
    third_comes_between_pieces_of_a_requeue
);
catches!(pieces_catches_requeue_keeps_moment, RequeueKeepsMoment, PAIR, waiter_is_requeued_between_pieces);
catches!(pieces_catches_marker_is_not_moved, MarkerIsNotMoved, PAIR, table_is_resized_between_pieces);
catches!(pieces_catches_marker_ends_wake, MarkerEndsWake, PAIR, all_are_woken_one_by_one);
catches!(pieces_catches_marker_is_waiter, MarkerIsWaiter, PAIR, waiters_are_requeued_between_pieces);
hangs!(pieces_hangs_with_piece_forgets_place, PieceForgetsPlace, PAIR, neighbours_leave_between_pieces);
