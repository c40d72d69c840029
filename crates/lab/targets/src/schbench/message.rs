//! A message thread: it answers its workers' messages.

use super::shared::{BLOCKED, MessageThread, SharedState, post, was_posted};
use crate::{Subject, Waited};
use std::sync::atomic::Ordering;

/// Runs until the run is stopped. When it returns, none of its workers sleeps any more.
pub fn serve(shared: &SharedState, message_thread: &MessageThread, subject: &dyn Subject) {
    // SAFETY: the call takes nothing and changes nothing.
    message_thread.tid.store(unsafe { libc::gettid() } as u32, Ordering::Relaxed);
    answer(shared, message_thread, subject);
    for worker in &message_thread.workers {
        post(subject, &worker.slot.0.futex);
    }
}

fn answer(shared: &SharedState, message_thread: &MessageThread, subject: &dyn Subject) {
    loop {
        // [Li]: before the list is taken. [Lj]: before the flag is checked.
        message_thread.futex().store(BLOCKED, Ordering::SeqCst);
        wake_all(shared, message_thread, subject);
        if shared.stopped() {
            break;
        }
        while !was_posted(message_thread.futex()) {
            assert_ne!(subject.wait(message_thread.futex(), BLOCKED), Waited::Failed, "a message thread's wait");
        }
    }
}

/// Wakes all workers on the list. They all get the time before the first wake, so a wake-up that preempts the waker
/// shows in the latencies of the others.
fn wake_all(shared: &SharedState, message_thread: &MessageThread, subject: &dyn Subject) {
    let start = shared.now();
    for worker in message_thread.take() {
        worker.slot.0.woken_ns.store(start, Ordering::Release); // [Ll]
        post(subject, &worker.slot.0.futex);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Policy;
    use crate::schbench::Plan;
    use crate::{Layout, Name, Shape};
    use std::time::Duration;

    /// The worker computes its wakeup latency from this time.
    #[test]
    fn a_woken_worker_finds_the_time_of_its_wake() {
        let plan = Plan {
            message_threads: 1,
            workers: 2,
            footprint_bytes: 0,
            operations: 0,
            nap: Duration::ZERO,
            locking: false,
        };
        let shared = SharedState::new(plan);
        let shape = Shape::new(Layout::Lean, Policy::Fixed(16));
        let subject = crate::build(Name::Live, &shape).expect("a target");
        let message_thread = &shared.message_threads[0];
        message_thread.queue(0);
        let begin = shared.now();
        wake_all(&shared, message_thread, &*subject);
        let stamp = |worker: usize| message_thread.workers[worker].slot.0.woken_ns.load(Ordering::Relaxed);
        assert!((begin.max(1)..=shared.now()).contains(&stamp(0)), "{} in {begin}..", stamp(0));
        assert_eq!(stamp(1), 0, "a worker that is not on the list is not woken");
        assert!(
            was_posted(&message_thread.workers[0].slot.0.futex) && !was_posted(&message_thread.workers[1].slot.0.futex)
        );
    }
}
