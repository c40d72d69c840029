//! Priority inversion. `low` owns a lock and needs a CPU to unlock it, but a `medium` spins on each. `high` waits for
//! another lock, whose owner `middle` waits for `low`. If the priority of `high` does not reach `low` along this chain,
//! no `medium` ever ends. Nor does one if `low` loses that priority before it has woken `middle`. All of this happens
//! twice: `low` unlocks its lock, and `low` ends and leaves the lock to its heir.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::SeqCst;
use core::sync::atomic::{AtomicBool, AtomicU32};

use ufutex::{
    DomainOptions, System,
    pi::{Priority, WAITERS},
};

use crate::cpu::{self, CPUS};
use crate::guest::{PAGES, Process, Thread};
use crate::{say, scheduler};

/// The lock of `low`.
const FIRST: u64 = PAGES;
/// The lock of `middle`.
const SECOND: u64 = PAGES + 64;

const LOW: u8 = 10;
const MIDDLE: u8 = 20;
const MEDIUM: u8 = 50;
const HIGH: u8 = 80;

#[derive(Default)]
struct State {
    /// The CPUs on which a `medium` spins.
    spinning: AtomicU32,
    /// How often `low` has looked whether it may go on.
    looks: AtomicU32,
    high_waits: AtomicBool,
    high_has_it: AtomicBool,
    /// The priority of `low` in the end of its critical section.
    lent: AtomicU32,
}

pub fn check(system: &System) {
    for low in [low_unlocks, low_ends] {
        invert(&Process::new(system, DomainOptions::new()), low);
    }
    say!("inversion: two owners of priority {LOW} and {MIDDLE} ran with {HIGH}, ahead of {CPUS} of {MEDIUM}; twice");
}

fn invert(process: &Arc<Process>, low: fn(&State, &Thread)) {
    let state = Arc::new(State::default());
    let start = |priority, program: fn(&State, &Thread)| {
        let state = state.clone();
        process.spawn(priority, move |thread| program(&state, thread))
    };
    let low = start(LOW, low);
    wait_until(|| process.peek(FIRST) != 0);
    let middle = start(MIDDLE, middle);
    wait_until(|| process.waiters(FIRST) == 1);
    let mediums: Vec<_> = (0..CPUS).map(|_| start(MEDIUM, medium)).collect();
    // This thread is better than all of them, so a `medium` spins on its CPU only while it sleeps.
    wait_until(|| state.spinning.load(SeqCst) == (1 << CPUS) - 1);
    let looks = state.looks.load(SeqCst);
    (0..5).for_each(|_| scheduler::sleep_a_tick());
    assert_eq!(state.looks.load(SeqCst), looks, "inversion: `low` has a CPU, and needs no loan");
    let high = start(HIGH, high);
    for child in [high, middle, low].into_iter().chain(mediums) {
        child.join();
    }
    assert_eq!(state.lent.load(SeqCst), HIGH.into(), "inversion: what was lent");
}

/// Sleeps for a moment at a time.
fn wait_until(is_so: impl Fn() -> bool) {
    while !is_so() {
        scheduler::sleep_a_tick();
    }
}

/// Waits until the caller has its own priority again: a thread on another CPU may be about to report it.
fn gives_back(own: u8) {
    while scheduler::me().1 != Priority::realtime(own) {
        core::hint::spin_loop();
    }
}

fn low_unlocks(state: &State, thread: &Thread) {
    low_ends(state, thread);
    thread.unlock_pi(FIRST);
    gives_back(LOW);
}

fn low_ends(state: &State, thread: &Thread) {
    thread.lock_pi(FIRST);
    while !state.high_waits.load(SeqCst) || scheduler::me().1 < Priority::realtime(MEDIUM) {
        state.looks.fetch_add(1, SeqCst);
    }
    assert_ne!(thread.load(FIRST) & WAITERS, 0);
    state.lent.store(scheduler::me().1.as_realtime().into(), SeqCst);
}

fn middle(_: &State, thread: &Thread) {
    thread.lock_pi(SECOND);
    thread.lock_pi(FIRST);
    thread.unlock_pi(FIRST);
    thread.unlock_pi(SECOND);
    gives_back(MIDDLE);
}

fn medium(state: &State, _: &Thread) {
    while !state.high_has_it.load(SeqCst) {
        state.spinning.fetch_or(1 << cpu::index(), SeqCst);
    }
}

fn high(state: &State, thread: &Thread) {
    state.high_waits.store(true, SeqCst);
    thread.lock_pi(SECOND);
    state.high_has_it.store(true, SeqCst);
    thread.unlock_pi(SECOND);
}
