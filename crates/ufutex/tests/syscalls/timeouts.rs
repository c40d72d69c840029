//! Timeouts of futex(2): their clock, whether they are relative or absolute, and invalid ones.

use std::time::{Duration, Instant};

use crate::call::Call;
use crate::calls::ANY;
use crate::common::arena::Rights;
use crate::common::errno::{EFAULT, EINVAL, ETIMEDOUT};
use crate::common::libc;
use crate::machine::{Machine, Thread};
use crate::memory::Word;
use crate::on_every_machine;

const MONOTONIC: libc::clockid_t = libc::CLOCK_MONOTONIC;
const REALTIME: libc::clockid_t = libc::CLOCK_REALTIME;
const LENGTH: Duration = Duration::from_millis(15);

/// A blocking call of each operation that has a timeout.
fn blocking(m: &Machine) -> [Call; 6] {
    let [word, lock] = m.words(0);
    let held = m.word(m.thread().tid());
    [
        m.wait(word, 0),
        m.wait_bitset(word, 0, 1),
        m.wait_bitset(word, 0, 1).realtime(),
        m.lock_pi(held),
        m.lock_pi2(held),
        m.wait_requeue_pi(word, 0, lock),
    ]
}

fn invalid_time_is_einval(m: &Machine) {
    let t = m.thread();
    for (seconds, nanoseconds) in
        [(-1, 0), (i64::MIN, 0), (0, -1), (0, 1_000_000_000), (0, i64::MAX), (1, i64::MIN), (-1, 999_999_999)]
    {
        let time = m.raw_time(seconds, nanoseconds);
        for call in blocking(m) {
            assert_eq!(t.call(call.timeout(time)), EINVAL, "{seconds} {nanoseconds}: {call:x?}");
        }
    }
}

fn unmapped_timeout_is_efault(m: &Machine) {
    let t = m.thread();
    let page = m.page(Rights::ReadWrite);
    let gone = m.page(Rights::Nothing);
    assert_eq!(gone, page + 4096);
    for at in [8, gone, gone - 8, 1 << 63, u64::MAX] {
        for call in blocking(m) {
            assert_eq!(t.call(call.timeout(at)), EFAULT, "{at:#x}: {call:x?}");
        }
    }
}

fn time_may_lie_anywhere(m: &Machine) {
    let (t, page) = (m.thread(), m.page(Rights::ReadWrite));
    // A timeout of 0 at an odd address on a read-only page.
    m.protect(page, Rights::Read);
    for call in [m.wait(m.word(0), 0), m.wait_bitset(m.word(0), 0, 1)] {
        assert_eq!(t.call(call.timeout(page + 3)), ETIMEDOUT);
    }
}

fn time_that_has_passed_ends_the_wait_at_once(m: &Machine) {
    let ([owner, t], [word, lock]) = (m.threads(), m.words(0));
    assert_eq!(t.call(m.wait(word, 0).timeout(m.raw_time(0, 0))), ETIMEDOUT);
    let past = [m.raw_time(0, 0), m.past(), m.time_from_now(MONOTONIC, Duration::ZERO)];
    for past in past {
        assert_eq!(t.call(m.wait_bitset(word, 0, 1).timeout(past)), ETIMEDOUT);
        assert_eq!(t.call(m.wait_bitset(word, 0, 1).realtime().timeout(past)), ETIMEDOUT);
        assert_eq!(t.call(m.wait_requeue_pi(word, 0, lock).timeout(past)), ETIMEDOUT);
        assert_eq!(t.call(m.wait_requeue_pi(word, 0, lock).realtime().timeout(past)), ETIMEDOUT);
        let held = m.word(owner.tid());
        assert_eq!(t.call(m.lock_pi(held).timeout(past)), ETIMEDOUT);
        assert_eq!(t.call(m.lock_pi2(held).timeout(past)), ETIMEDOUT);
        assert_eq!(t.call(m.lock_pi2(held).realtime().timeout(past)), ETIMEDOUT);
    }
    m.assert_waiters(word, 0);
}

/// Checks that the wait ends by its timeout and not before it.
fn ends_in_time(m: &Machine, word: Word, begin: Instant, call: Call) {
    assert_eq!(m.thread().call(call), ETIMEDOUT);
    assert!(begin.elapsed() >= LENGTH, "after {:?}", begin.elapsed());
    m.assert_waiters(word, 0);
}

fn relative_wait_does_not_end_before_its_time(m: &Machine) {
    let (word, begin) = (m.word(0), Instant::now());
    ends_in_time(m, word, begin, m.wait(word, 0).timeout(m.time(LENGTH)));
}

fn absolute_wait_does_not_end_before_its_time(m: &Machine) {
    let word = m.word(0);
    let begin = Instant::now();
    ends_in_time(m, word, begin, m.wait_bitset(word, 0, ANY).timeout(m.time_from_now(MONOTONIC, LENGTH)));
    let begin = Instant::now();
    ends_in_time(m, word, begin, m.wait_bitset(word, 0, ANY).realtime().timeout(m.time_from_now(REALTIME, LENGTH)));
}

fn waiters_that_time_out_leave_the_others_queued_in_order(m: &Machine) {
    let (waker, word) = (m.thread(), m.word(0));
    let threads: [Thread; 5] = m.threads();
    let waiting = threads.iter().enumerate().map(|(i, thread)| {
        // The first in the queue, one in the middle and the last leave.
        let call = if i % 2 == 0 { m.wait(word, 0).timeout(m.time(LENGTH)) } else { m.wait(word, 0) };
        let waiting = thread.start(call);
        waiting.until_asleep_or_over();
        (i, waiting)
    });
    let (leave, stay): (Vec<_>, Vec<_>) = waiting.partition(|(i, _)| i % 2 == 0);
    leave.into_iter().for_each(|(_, waiting)| assert_eq!(waiting.finish(), ETIMEDOUT));
    for (_, waiting) in stay {
        assert_eq!(waker.call(m.wake(word, 1)), 1);
        assert_eq!(waiting.finish(), 0);
    }
    m.assert_waiters(word, 0);
}

fn plain_wait_is_relative(m: &Machine) {
    let ([t, waker], word) = (m.threads(), m.word(0));
    // As an absolute time this would have passed already.
    let waiting = t.begin(m.wait(word, 0).timeout(m.time(Duration::from_secs(1000))));
    waiting.stays_asleep();
    assert_eq!(waker.call(m.wake(word, 1)), 1);
    assert_eq!(waiting.finish(), 0);
}

fn timeout_of_wait_bitset_is_absolute_on_its_clock(m: &Machine) {
    let ([t, waker], word) = (m.threads(), m.word(0));
    // This time has passed on the realtime clock and is ahead on the monotonic clock.
    let ahead = m.time_from_now(MONOTONIC, Duration::from_secs(1000));
    assert_eq!(t.call(m.wait_bitset(word, 0, 1).realtime().timeout(ahead)), ETIMEDOUT);
    let waiting = t.begin(m.wait_bitset(word, 0, 1).timeout(ahead));
    waiting.stays_asleep();
    assert_eq!(waker.call(m.wake(word, 1)), 1);
    assert_eq!(waiting.finish(), 0);
    let waiting = t.begin(m.wait_bitset(word, 0, 1).realtime().timeout(m.far(REALTIME)));
    assert_eq!(waker.call(m.wake(word, 1)), 1);
    assert_eq!(waiting.finish(), 0);
}

fn timeout_beyond_the_clocks_range_never_expires(m: &Machine) {
    let (forever, waker) = (m.raw_time(i64::MAX, 999_999_999), m.thread());
    let word = m.word(0);
    let calls = [m.wait(word, 0), m.wait_bitset(word, 0, 1), m.wait_bitset(word, 0, 1).realtime()];
    for call in calls.into_iter().chain([m.waitv(&[m.entry(word, 0)]), m.wait2(word, 0, 1)]) {
        let t = m.thread();
        let waiting = t.begin(call.timeout(forever));
        waiting.stays_asleep();
        assert_eq!(waker.call(m.wake(word, 1)), 1);
        assert_eq!(waiting.finish(), 0);
    }
}

fn lock_with_a_timeout_beyond_the_clocks_range_never_times_out(m: &Machine) {
    let ([owner, t], word) = (m.threads(), m.word(0));
    let forever = m.raw_time(i64::MAX, 0);
    for call in [m.lock_pi(word), m.lock_pi2(word)] {
        assert_eq!(owner.call(m.lock_pi(word)), 0);
        let waiting = t.begin(call.timeout(forever));
        waiting.stays_asleep();
        assert_eq!(owner.call(m.unlock_pi(word)), 0);
        assert_eq!(waiting.finish(), 0);
        assert_eq!(t.call(m.unlock_pi(word)), 0);
    }
}

fn no_timeout_is_none(m: &Machine) {
    let ([t, waker], word) = (m.threads(), m.word(0));
    let waiting = t.begin(m.wait_bitset(word, 0, 1).realtime());
    waiting.stays_asleep();
    assert_eq!(waker.call(m.wake(word, 1)), 1);
    assert_eq!(waiting.finish(), 0);
}

on_every_machine![
    invalid_time_is_einval,
    unmapped_timeout_is_efault,
    time_may_lie_anywhere,
    time_that_has_passed_ends_the_wait_at_once,
    relative_wait_does_not_end_before_its_time,
    absolute_wait_does_not_end_before_its_time,
    waiters_that_time_out_leave_the_others_queued_in_order,
    plain_wait_is_relative,
    timeout_of_wait_bitset_is_absolute_on_its_clock,
    timeout_beyond_the_clocks_range_never_expires,
    lock_with_a_timeout_beyond_the_clocks_range_never_times_out,
    no_timeout_is_none,
];
