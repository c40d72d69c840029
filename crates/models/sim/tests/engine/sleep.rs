//! Threads that sleep: a wait ends by a wake or by its timeout, also during a resize.

use crate::support::{Words, domain, epyc};
use std::cell::Cell;
use std::time::Duration;
use ufutex_coherence::atomic::Ordering;
use ufutex_coherence::{Simulation, current};
use ufutex_sim::{Clock, Error, Scheme, Timeout, WaitOptions};

fn pass_a_word_around(scheme: Scheme) {
    const THREADS: usize = 8;
    const ROUNDS: u32 = 20;
    let (words, domain) = (Words::new(16 * THREADS), domain(scheme, 4));
    let turns = Cell::new(0);
    let report = Simulation::new(&epyc()).threads(THREADS).run(|thread| {
        let (mine, next) = (thread * 16, (thread + 1) % THREADS * 16);
        for round in 0..ROUNDS {
            while thread > 0 && words.host(mine).load(Ordering::Acquire) == round {
                let _ = domain.wait(words.word(mine), round.into());
            }
            while thread == 0 && words.host(mine).load(Ordering::Acquire) < round {
                let _ = domain.wait(words.word(mine), u64::from(round) - 1);
            }
            turns.set(turns.get() + 1);
            words.host(next).store(round + 1, Ordering::Release);
            domain.wake(words.word(next), 1);
        }
    });
    assert_eq!((report.stuck, turns.get()), (0, ROUNDS as usize * THREADS));
    assert!(report.counts.hitm > 0);
    // Each turn is a sleep and a wake, which take a few microseconds.
    assert!((100_000.0..10_000_000.0).contains(&report.ended_ns), "{}", report.ended_ns);
}

#[test]
fn who_waits_is_woken() {
    pass_a_word_around(Scheme::Live);
    pass_a_word_around(Scheme::Atomic);
    pass_a_word_around(Scheme::PerCpu);
}

#[test]
fn a_timeout_ends_a_wait_in_virtual_time() {
    let (words, domain) = (Words::new(1), domain(Scheme::Live, 4));
    let report = Simulation::new(&epyc()).run(|_| {
        let begin = current::now_ns();
        let options = WaitOptions::new().timeout(Timeout::After(Duration::from_micros(300)));
        assert_eq!(domain.wait_with(words.word(0), 0, &options), Err(Error::TimedOut));
        assert!((300_000..310_000).contains(&(current::now_ns() - begin)), "{}", current::now_ns() - begin);
        let until = Duration::from_nanos(current::now_ns() + 5_000_000);
        let options = WaitOptions::new().timeout(Timeout::At(Clock::Monotonic, until));
        assert_eq!(domain.wait_with(words.word(0), 0, &options), Err(Error::TimedOut));
        assert!((5_300_000..5_320_000).contains(&(current::now_ns() - begin)), "{}", current::now_ns() - begin);
    });
    assert_eq!(report.stuck, 0);
}

#[test]
fn waiters_go_along_with_a_resize() {
    const WAITERS: usize = 12;
    let (words, domain) = (Words::new(16 * WAITERS), domain(Scheme::Live, 2));
    let woken = Cell::new(0);
    let report = Simulation::new(&epyc()).threads(WAITERS + 1).run(|thread| {
        if thread < WAITERS {
            assert_eq!(domain.wait(words.word(16 * thread), 0), Ok(()));
            woken.set(woken.get() + 1);
            return;
        }
        current::nap(100_000);
        assert_eq!(domain.set_slots(1024), Ok(()));
        (0..WAITERS).for_each(|number| assert_eq!(domain.wake(words.word(16 * number), 1), 1));
    });
    assert_eq!((report.stuck, woken.get()), (0, WAITERS));
}

/// Whether a resize ends within a virtual millisecond while `cores` cores hammer the table.
fn resize_under_load(scheme: Scheme, cores: usize) -> bool {
    let (words, domain) = (Words::new(1024 * cores), domain(scheme, 16));
    let (is_over, completed) = (Cell::new(false), Cell::new(false));
    let report = Simulation::new(&epyc()).threads(cores + 1).run(|thread| {
        let mut number = thread * 1024;
        while thread < cores && !is_over.get() {
            let _ = domain.wait(words.word(number), 1);
            number = thread * 1024 + (number + 1) % 1024;
        }
        if thread == cores {
            current::nap(20_000);
            let begin = current::now_ns();
            completed.set(domain.set_slots_while(1024, || current::now_ns() < begin + 1_000_000).is_ok());
            is_over.set(true);
        }
    });
    assert_eq!(report.stuck, 0);
    completed.get()
}

#[test]
fn a_resize_under_load_ends_in_live_and_stalls_where_it_waits_for_silence() {
    assert!(resize_under_load(Scheme::Live, 16));
    assert!(!resize_under_load(Scheme::Atomic, 16));
    assert!(resize_under_load(Scheme::Atomic, 1));
}
