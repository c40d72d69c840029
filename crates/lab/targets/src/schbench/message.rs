//! A message thread: it answers its workers, or hands out requests to them.

use super::hall::{BLOCKED, Desk, Hall, post, was_posted};
use crate::{Subject, Waited};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A worker with more requests than this gets no others for now …
const PENDING_MAX: u32 = 128;
/// … and the message thread takes a break.
const BREAK: Duration = Duration::from_micros(100);
const SECOND: Duration = Duration::from_secs(1);
/// With `-R` the message thread sleeps through most of a second: it looks so often whether the run is over.
const GLANCE: Duration = Duration::from_millis(20);

/// Runs until the hall stops; then no worker of the desk sleeps.
pub fn serve(hall: &Hall, desk: &Desk, subject: &dyn Subject) {
    // SAFETY: the call takes nothing and changes nothing.
    desk.tid.store(unsafe { libc::gettid() } as u32, Ordering::Relaxed);
    if hall.is_by_rate() {
        hand_out(hall, desk, subject)
    } else {
        answer(hall, desk, subject)
    }
    for worker in &desk.workers {
        post(subject, &worker.call.0.futex);
    }
}

fn answer(hall: &Hall, desk: &Desk, subject: &dyn Subject) {
    loop {
        desk.futex().store(BLOCKED, Ordering::SeqCst);
        wake_all(hall, desk, subject);
        if hall.stopped() {
            break;
        }
        while !was_posted(desk.futex()) {
            assert_ne!(subject.wait(desk.futex(), BLOCKED), Waited::Failed, "a message thread's wait");
        }
    }
}

/// All get the time at which the first was woken: so it shows where a wake-up takes the waker's CPU. With `-p` each gets
/// its own.
fn wake_all(hall: &Hall, desk: &Desk, subject: &dyn Subject) {
    let start = hall.now();
    for worker in desk.take() {
        worker.write_page(1);
        let now = if worker.page.is_empty() { start } else { hall.now() };
        worker.call.0.woken_ns.store(now, Ordering::Release);
        post(subject, &worker.call.0.futex);
    }
}

fn hand_out(hall: &Hall, desk: &Desk, subject: &dyn Subject) {
    let mut turns = desk.workers.iter().cycle();
    while !hall.stopped() {
        let start = Instant::now();
        for worker in turns.by_ref().take(hall.rate_each.load(Ordering::Relaxed) as usize) {
            if hall.stopped() {
                return;
            }
            let now = hall.now();
            if worker.requests.load(Ordering::Acquire) > PENDING_MAX {
                std::thread::sleep(BREAK);
                continue;
            }
            worker.requests.fetch_add(1, Ordering::SeqCst);
            worker.call.0.woken_ns.store(now, Ordering::Release);
            post(subject, &worker.call.0.futex);
        }
        while !hall.stopped() && start.elapsed() < SECOND {
            std::thread::sleep(GLANCE.min(SECOND.saturating_sub(start.elapsed())));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Policy;
    use crate::schbench::Plan;
    use crate::{Layout, Name, Shape};

    /// What a worker makes its wake-up latency from.
    #[test]
    fn who_is_woken_finds_when_that_was() {
        let plan = Plan {
            message_threads: 1,
            workers: 2,
            footprint_bytes: 0,
            operations: 0,
            nap: Duration::ZERO,
            pipe_bytes: 0,
            rate: 0,
            calibrate: false,
            locking: false,
        };
        let hall = Hall::new(plan);
        let shape = Shape { layout: Layout::Lean, policy: Policy::Fixed(16), shared: false, early_return: false };
        let subject = crate::build(Name::Live, &shape).expect("a target");
        let desk = &hall.desks[0];
        desk.queue(0);
        let begin = hall.now();
        wake_all(&hall, desk, &*subject);
        let stamp = |worker: usize| desk.workers[worker].call.0.woken_ns.load(Ordering::Relaxed);
        assert!((begin.max(1)..=hall.now()).contains(&stamp(0)), "{} in {begin}..", stamp(0));
        assert_eq!(stamp(1), 0, "who is not on the list is not woken");
        assert!(was_posted(&desk.workers[0].call.0.futex) && !was_posted(&desk.workers[1].call.0.futex));
    }
}
