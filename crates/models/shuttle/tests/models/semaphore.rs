//! A semaphore on a futex: each post wakes one waiter, once, so a lost wake leaves a waiter asleep for ever.
//!
//! Meanwhile waits time out, futures are dropped, and the table is resized. A waiter that was woken and does not take
//! the token passes the wake on. A dropped future does that by itself.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};

use shuttle::sync::Arc;
use shuttle::thread;
use ufutex_shuttle::model::Ordering::SeqCst;
use ufutex_shuttle::{Error, Scheme, WaitOptions};

use crate::support::{Word, World, catches, check, some_time};

const POSTERS: usize = 2;
const POSTS: usize = 2;

fn acquire(world: &World) {
    let word = &world.words[0];
    loop {
        let tokens = word.value.load(SeqCst);
        if tokens == 0 {
            assert!(matches!(world.domain.wait(word, 0), Ok(()) | Err(Error::Again)));
        } else if word.value.compare_exchange(tokens, tokens - 1, SeqCst, SeqCst).is_ok() {
            return;
        }
    }
}

fn post(world: &World) {
    for _ in 0..POSTS {
        world.words[0].value.fetch_add(1, SeqCst);
        world.domain.wake(&world.words[0], 1);
    }
}

/// Waits with a timeout. A wake that comes is passed on.
fn give_up(world: &World) {
    if world.domain.wait_with(&world.words[0], 0, &some_time()) == Ok(()) {
        world.domain.wake(&world.words[0], 1);
    }
}

/// Waits as a future that is dropped.
fn drop_out(world: &World) {
    let mut wait = pin!(world.domain.wait_async(&world.words[0], 0, &WaitOptions::new()));
    let _ = wait.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    thread::yield_now();
}

fn semaphore(scheme: Scheme, sizes: &'static [usize]) {
    let world = World::of(scheme);
    let spawn = |f: fn(&World)| {
        let world: Arc<World> = world.clone();
        thread::spawn(move || f(&world))
    };
    let mut threads: Vec<_> = (0..POSTERS * POSTS).map(|_| spawn(acquire)).collect();
    threads.extend((0..POSTERS).map(|_| spawn(post)));
    threads.extend([spawn(give_up), spawn(give_up), spawn(drop_out), spawn(drop_out)]);
    world.resize(sizes);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let left: &Word = &world.words[0];
    assert_eq!((left.value.load(SeqCst), world.domain.wake(left, usize::MAX)), (0, 0));
}

fn live_up_and_down() {
    semaphore(Scheme::Live, &[4, 2, 8]);
}

fn live_to_the_global_table_and_back() {
    semaphore(Scheme::Live, &[0, 4, 0]);
}

fn atomic() {
    semaphore(Scheme::Atomic, &[4, 0, 2]);
}

fn percpu() {
    semaphore(Scheme::PerCpu, &[4, 0, 2]);
}

fn fixed() {
    semaphore(Scheme::Fixed, &[]);
}

#[test]
fn no_post_is_lost_while_live_goes_up_and_down() {
    check(6000, live_up_and_down);
}

#[test]
fn no_post_is_lost_while_live_goes_to_the_global_table_and_back() {
    check(24_000, live_to_the_global_table_and_back);
}

#[test]
fn no_post_is_lost_by_the_other_schemes() {
    check(400, atomic);
    check(400, percpu);
    check(400, fixed);
}

catches!(semaphore_catches_empty_ignores_live, EmptyIgnoresLive, 6000, live_up_and_down);
catches!(semaphore_catches_empty_ignores_lock, EmptyIgnoresLock, 6000, live_up_and_down);
catches!(semaphore_catches_source_stays_live, SourceStaysLive, 6000, live_up_and_down);
catches!(semaphore_catches_drop_loses_wake, DropLosesWake, 6000, live_up_and_down);
catches!(semaphore_catches_timeout_loses_wake, TimeoutLosesWake, 6000, live_up_and_down);
catches!(semaphore_catches_global_skips_recheck, GlobalSkipsRecheck, 24_000, live_to_the_global_table_and_back);
catches!(semaphore_catches_pivot_skips_count, PivotSkipsCount, 400, atomic);
catches!(semaphore_catches_pivot_skips_sections, PivotSkipsSections, 400, percpu);
