//! A signal arrives during a call. Some calls return `EINTR`, others are restarted.

use std::time::{Duration, Instant};

use crate::call::{Call, Number};
use crate::calls::{ALL, ANY, WAITERS};
use crate::common::errno::{EAGAIN, EINTR, ETIMEDOUT};
use crate::common::libc;
use crate::machine::{Interruption, Machine};
use crate::memory::Word;
use crate::on_every_machine;

use Interruption::{Handler, NoHandler, RestartingHandler};

const MONOTONIC: libc::clockid_t = libc::CLOCK_MONOTONIC;

/// Checks that a wait on `word` that is interrupted in this way returns `EINTR` and leaves no waiter queued.
fn is_eintr(m: &Machine, word: Word, call: Call, how: Interruption) {
    let t = m.thread();
    let waiting = t.begin(call);
    t.interrupt(how);
    assert_eq!(waiting.finish(), EINTR, "{how:?}");
    m.assert_waiters(word, 0);
}

/// Checks that a wait on `word` that is interrupted in this way is restarted and sleeps again.
fn is_restarted(m: &Machine, word: Word, call: Call, how: Interruption) {
    let t = m.thread();
    let waiting = t.begin(call);
    for _ in 0..3 {
        t.interrupt(how);
        waiting.until_asleep();
    }
    m.assert_waiters(word, 1);
    assert_eq!(waiting.finish(), 0, "{how:?}");
}

/// Checks that a wait on `word` that is interrupted without a handler continues in restart_syscall(2).
fn is_continued(m: &Machine, word: Word, call: Call) {
    let t = m.thread();
    let waiting = t.begin(call);
    for _ in 0..3 {
        t.interrupt(NoHandler);
        waiting.until_asleep_again();
    }
    m.assert_waiters(word, 1);
    assert_eq!(waiting.finish(), 0);
}

fn wait_without_a_timeout_is_restarted_with_sa_restart(m: &Machine) {
    let word = m.word(0);
    for call in [m.wait(word, 0), m.wait_bitset(word, 0, 1)] {
        is_eintr(m, word, call, Handler);
        is_restarted(m, word, call, RestartingHandler);
    }
}

fn wait_with_a_timeout_is_eintr_even_with_sa_restart(m: &Machine) {
    let word = m.word(0);
    let long = m.time(Duration::from_secs(1000));
    let realtime = m.wait_bitset(word, 0, ANY).realtime().timeout(m.far(libc::CLOCK_REALTIME));
    for call in [m.wait(word, 0).timeout(long), m.wait_bitset(word, 0, 1).timeout(m.far(MONOTONIC)), realtime] {
        is_eintr(m, word, call, Handler);
        is_eintr(m, word, call, RestartingHandler);
    }
}

fn waitv_and_wait2_are_restarted_with_sa_restart_with_and_without_a_timeout(m: &Machine) {
    let word = m.word(0);
    let (waitv, wait2) = (m.waitv(&[m.entry(word, 0)]), m.wait2(word, 0, 1));
    let far = m.far(MONOTONIC);
    for call in [waitv, wait2, waitv.timeout(far), wait2.timeout(far)] {
        is_eintr(m, word, call, Handler);
        is_restarted(m, word, call, RestartingHandler);
    }
}

fn interruption_without_a_handler_ends_no_wait(m: &Machine) {
    if !m.has_stops() {
        return;
    }
    let word = m.word(0);
    let far = m.far(MONOTONIC);
    let (waitv, wait2) = (m.waitv(&[m.entry(word, 0)]), m.wait2(word, 0, ANY.into()));
    for call in [m.wait(word, 0), m.wait_bitset(word, 0, 1), waitv, wait2, waitv.timeout(far), wait2.timeout(far)] {
        is_restarted(m, word, call, NoHandler);
    }
    is_continued(m, word, m.wait(word, 0).timeout(m.time(Duration::from_secs(1000))));
    is_continued(m, word, m.wait_bitset(word, 0, 1).timeout(far));
}

fn wait_that_is_continued_keeps_its_bitset(m: &Machine) {
    if !m.has_stops() {
        return;
    }
    let ([t, waker], word) = (m.threads(), m.word(0));
    let waiting = t.begin(m.wait_bitset(word, 0, 0b100).timeout(m.far(MONOTONIC)));
    t.interrupt(NoHandler);
    waiting.until_asleep_again();
    assert_eq!(waker.call(m.wake_bitset(word, ALL, 0b011)), 0);
    assert_eq!(waker.call(m.wake_bitset(word, ALL, 0b110)), 1);
    assert_eq!(waiting.finish(), 0);
}

fn wait_that_is_continued_compares_the_word_again(m: &Machine) {
    if !m.has_stops() {
        return;
    }
    let (t, word) = (m.thread(), m.word(0));
    let waiting = t.begin(m.wait_bitset(word, 0, ANY).timeout(m.far(MONOTONIC)));
    word.set(1);
    t.interrupt(NoHandler);
    assert_eq!(waiting.finish(), EAGAIN);
}

fn wait_that_is_continued_ends_at_its_first_deadline(m: &Machine) {
    if !m.has_stops() {
        return;
    }
    m.in_time(|length| {
        let (t, word) = (m.thread(), m.word(0));
        let begin = Instant::now();
        let waiting = t.start(m.wait(word, 0).timeout(m.time(length)));
        waiting.until_asleep_or_over();
        t.interrupt(NoHandler);
        let is_in_time = begin.elapsed() < length;
        assert_eq!(waiting.finish(), ETIMEDOUT);
        assert!(begin.elapsed() >= length);
        m.assert_waiters(word, 0);
        is_in_time
    });
}

fn restart_syscall_without_a_call_to_continue_is_eintr(m: &Machine) {
    let (t, word) = (m.thread(), m.word(0));
    let restart = Call::new(Number::Restart, [0; 6]);
    assert_eq!(t.call(restart), EINTR);
    // After a handler has run, the interrupted call cannot be continued.
    let waiting = t.begin(m.wait(word, 0).timeout(m.time(Duration::from_secs(1000))));
    t.interrupt(Handler);
    assert_eq!(waiting.finish(), EINTR);
    assert_eq!(t.call(restart), EINTR);
}

fn lock_pi_is_restarted_always(m: &Machine) {
    for how in [Handler, RestartingHandler] {
        let far = m.far(libc::CLOCK_REALTIME);
        let ([owner, t], word) = (m.threads(), m.word(0));
        for call in [m.lock_pi(word), m.lock_pi2(word), m.lock_pi(word).timeout(far)] {
            assert_eq!(owner.call(m.lock_pi(word)), 0);
            let waiting = t.begin(call);
            for _ in 0..3 {
                t.interrupt(how);
                waiting.until_asleep();
            }
            assert_eq!(word.get(), owner.tid() | WAITERS);
            assert_eq!(owner.call(m.unlock_pi(word)), 0);
            assert_eq!(waiting.finish(), 0);
            assert_eq!(t.call(m.unlock_pi(word)), 0);
        }
    }
}

fn lock_pi_is_restarted_without_a_handler_too(m: &Machine) {
    if !m.has_stops() {
        return;
    }
    let ([owner, t, from_t], [word, from]) = (m.threads(), m.words(0));
    assert_eq!(owner.call(m.lock_pi(word)), 0);
    let waiting = t.begin(m.lock_pi(word));
    t.interrupt(NoHandler);
    waiting.until_asleep();
    let requeued = from_t.begin(m.wait_requeue_pi(from, 0, word));
    from_t.interrupt(NoHandler);
    requeued.until_asleep();
    assert_eq!(owner.call(m.cmp_requeue_pi(from, 0, word, 0)), 1);
    from_t.interrupt(NoHandler);
    assert_eq!(requeued.finish(), EAGAIN, "it was requeued: it cannot be restarted");
    assert_eq!(owner.call(m.unlock_pi(word)), 0);
    assert_eq!(waiting.finish(), 0);
}

fn lock_pi_that_is_restarted_keeps_its_deadline(m: &Machine) {
    m.in_time(|length| {
        let ([owner, t], word) = (m.threads(), m.word(0));
        assert_eq!(owner.call(m.lock_pi(word)), 0);
        let deadline = m.time_from_now(MONOTONIC, length);
        let begin = Instant::now();
        let waiting = t.start(m.lock_pi2(word).timeout(deadline));
        waiting.until_asleep_or_over();
        t.interrupt(Handler);
        let is_in_time = begin.elapsed() < length;
        assert_eq!(waiting.finish(), ETIMEDOUT);
        is_in_time
    });
}

fn restarted_waiter_queues_behind_the_others(m: &Machine) {
    let ([a, b, waker], word) = (m.threads(), m.word(0));
    let first = a.begin(m.wait(word, 0));
    let second = b.begin(m.wait(word, 0));
    a.interrupt(RestartingHandler);
    first.until_asleep();
    assert_eq!(waker.call(m.wake(word, 1)), 1);
    assert_eq!(second.finish(), 0);
    first.stays_asleep();
    assert_eq!(waker.call(m.wake(word, 1)), 1);
    assert_eq!(first.finish(), 0);
}

fn locker_that_is_restarted_queues_behind_the_others(m: &Machine) {
    let ([owner, a, b], word) = (m.threads(), m.word(0));
    assert_eq!(owner.call(m.lock_pi(word)), 0);
    let first = a.begin(m.lock_pi(word));
    let second = b.begin(m.lock_pi(word));
    a.interrupt(Handler);
    first.until_asleep();
    assert_eq!(owner.call(m.unlock_pi(word)), 0);
    assert_eq!(second.finish(), 0);
    first.stays_asleep();
    assert_eq!(b.call(m.unlock_pi(word)), 0);
    assert_eq!(first.finish(), 0);
}

fn restarted_wait_compares_the_word_again(m: &Machine) {
    let (t, word) = (m.thread(), m.word(0));
    for call in [m.wait(word, 0), m.waitv(&[m.entry(word, 0)]), m.wait2(word, 0, 1)] {
        word.set(0);
        let waiting = t.begin(call);
        word.set(1);
        t.interrupt(RestartingHandler);
        assert_eq!(waiting.finish(), EAGAIN);
    }
}

fn interrupted_waitv_leaves_no_waiter(m: &Machine) {
    let (t, words) = (m.thread(), m.words::<5>(0));
    let waiting = t.begin(m.waitv(&words.map(|word| m.entry(word, 0))));
    t.interrupt(Handler);
    assert_eq!(waiting.finish(), EINTR);
    for word in words {
        m.assert_waiters(word, 0);
    }
}

fn thread_that_was_interrupted_waits_again(m: &Machine) {
    let (t, word) = (m.thread(), m.word(0));
    for _ in 0..3 {
        let waiting = t.begin(m.wait(word, 0));
        t.interrupt(Handler);
        assert_eq!(waiting.finish(), EINTR);
        let waiting = t.begin(m.wait(word, 0));
        m.assert_waiters(word, 1);
        assert_eq!(waiting.finish(), 0);
    }
}

on_every_machine![
    wait_without_a_timeout_is_restarted_with_sa_restart,
    wait_with_a_timeout_is_eintr_even_with_sa_restart,
    waitv_and_wait2_are_restarted_with_sa_restart_with_and_without_a_timeout,
    interruption_without_a_handler_ends_no_wait,
    wait_that_is_continued_keeps_its_bitset,
    wait_that_is_continued_compares_the_word_again,
    wait_that_is_continued_ends_at_its_first_deadline,
    restart_syscall_without_a_call_to_continue_is_eintr,
    lock_pi_is_restarted_always,
    lock_pi_is_restarted_without_a_handler_too,
    lock_pi_that_is_restarted_keeps_its_deadline,
    restarted_waiter_queues_behind_the_others,
    locker_that_is_restarted_queues_behind_the_others,
    restarted_wait_compares_the_word_again,
    interrupted_waitv_leaves_no_waiter,
    thread_that_was_interrupted_waits_again,
];
