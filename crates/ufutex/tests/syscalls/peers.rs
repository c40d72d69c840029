//! Regression tests for defects of other futex implementations ([peer-tables]), one for each defect.

use crate::calls::{ALL, WAITERS};
use crate::common::errno::{EAGAIN, ETIMEDOUT};
use crate::common::libc;
use crate::machine::Machine;
use crate::on_every_machine;
use crate::robust_list::RobustList;

fn waiter_that_times_out_after_a_requeue_is_removed_from_its_new_queue(m: &Machine) {
    m.in_time(|length| {
        let (t, words) = (m.thread(), m.words::<8>(0));
        let w = m.thread();
        let waiting = w.start(m.wait(words[0], 0).timeout(m.time(length)));
        waiting.until_asleep_or_over();
        // Requeues the waiter through several buckets. No entry may stay in any of them.
        let moved: isize = words.windows(2).map(|pair| t.call(m.requeue(pair[0], pair[1], 0, 1))).sum();
        assert_eq!(waiting.finish(), ETIMEDOUT);
        for word in words {
            let next = w.begin(m.wait(word, 0));
            assert_eq!(t.call(m.wake(word, ALL)), 1, "the next one alone");
            assert_eq!(next.finish(), 0);
        }
        moved == 7
    });
}

fn two_quick_wakes_are_not_counted_on_one_waiter(m: &Machine) {
    let ([v, w, t], word) = (m.threads(), m.word(0));
    for _ in 0..50 {
        let waiting = [&v, &w].map(|thread| thread.begin(m.wait(word, 0)));
        assert_eq!([1; 3].map(|count| t.call(m.wake(word, count))), [1, 1, 0]);
        assert_eq!(waiting.map(|waiting| waiting.finish()), [0, 0]);
    }
}

fn wake_is_not_spent_on_a_wait_that_reports_a_difference(m: &Machine) {
    let ([w, differs, t], word) = (m.threads(), m.word(0));
    for _ in 0..20 {
        let waiting = w.begin(m.wait(word, 0));
        let differing: Vec<_> = (0..50).map(|_| differs.start(m.wait(word, 1))).collect();
        assert_eq!([1; 2].map(|count| t.call(m.wake(word, count))), [1, 0]);
        assert_eq!(waiting.finish(), 0);
        differing.into_iter().for_each(|wait| assert_eq!(wait.finish(), EAGAIN));
    }
}

fn entries_that_timed_out_are_not_left_queued(m: &Machine) {
    let ([w, t], word) = (m.threads(), m.word(0));
    for _ in 0..20 {
        assert_eq!(w.call(m.wait(word, 0).timeout(m.raw_time(0, 0))), ETIMEDOUT);
        assert_eq!(w.call(m.waitv(&[m.entry(word, 0), m.entry(word, 0)]).timeout(m.past())), ETIMEDOUT);
    }
    let waiting = w.begin(m.wait(word, 0));
    assert_eq!(t.call(m.wake(word, 1)), 1);
    assert_eq!(waiting.finish(), 0, "the wake went to the one that waits");
    assert_eq!(t.call(m.wake(word, ALL)), 0);
}

fn wake_at_exit_is_shared_whatever_the_value_of_the_word(m: &Machine) {
    // The private flag is bit 7 of an operation. Repeats until both values of bit 7 have occurred in a TID.
    let mut seen = [false; 2];
    for _ in 0..300 {
        let [t, w] = m.threads();
        let bit = usize::from(t.tid() & libc::FUTEX_PRIVATE_FLAG as u32 != 0);
        if seen[bit] {
            continue;
        }
        let list = RobustList::new(m, &t);
        let lock = list.lock(t.tid() | WAITERS);
        list.link_plain(&[lock]);
        let waiting = w.begin(m.wait(lock.word, t.tid() | WAITERS).shared());
        t.exit();
        assert_eq!(waiting.finish(), 0);
        seen[bit] = true;
        if seen == [true; 2] {
            return;
        }
    }
    panic!("no thread's number had bit 7 set, or none had it clear");
}

fn bitsets_that_overlap_match_without_being_equal(m: &Machine) {
    let ([w, t], word) = (m.threads(), m.word(0));
    for (waits, wakes, woken) in
        [(0b0110, 0b0011, 1), (0b0110, 0b0110, 1), (0b0110, 0b1111, 1), (0b0110, 0b1001, 0), (1 << 31, !(1 << 31), 0)]
    {
        let waiting = w.begin(m.wait_bitset(word, 0, waits));
        assert_eq!(t.call(m.wake_bitset(word, 1, wakes)), woken, "{waits:#b} {wakes:#b}");
        assert_eq!(t.call(m.wake(word, 1)), 1 - woken);
        assert_eq!(waiting.finish(), 0);
    }
}

on_every_machine![
    waiter_that_times_out_after_a_requeue_is_removed_from_its_new_queue,
    two_quick_wakes_are_not_counted_on_one_waiter,
    wake_is_not_spent_on_a_wait_that_reports_a_difference,
    entries_that_timed_out_are_not_left_queued,
    wake_at_exit_is_shared_whatever_the_value_of_the_word,
    bitsets_that_overlap_match_without_being_equal,
];
