//! A worker: it asks for a message, sleeps until it comes, and does a request.

use super::hall::{BLOCKED, Desk, Hall, Worker, post_self, was_posted};
use super::tasks::Rest;
use super::work::Matrices;
use crate::Subject;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Who sleeps for longer looks so often whether the run is over.
const GLANCE: Duration = Duration::from_millis(50);

/// Runs until the hall stops. Written once for threads, whose rest blocks, and for tasks.
pub async fn work<R: Rest>(hall: &Hall, desk: &Desk, number: usize, subject: &dyn Subject, rest: &R) {
    let worker = &desk.workers[number];
    let mut matrices = Matrices::new(hall.plan.footprint_bytes);
    let start = hall.now();
    while !hall.stopped() {
        let requests = ask_and_wait(hall, desk, number, subject, rest).await;
        // By rate, a wake-up without requests was one too early, or the last one.
        let count = if hall.is_by_rate() { requests } else { 1 };
        for _ in 0..count {
            let begun = request(hall, &mut matrices, rest).await;
            // By rate there may be a hundred more; and this one may have been cut short.
            if hall.stopped() {
                break;
            }
            let now = hall.now();
            worker.runtime_ns.store(now - start, Ordering::Relaxed);
            worker.requests_done.0.fetch_add(1, Ordering::Relaxed);
            worker.record().requests.record(now - begun);
        }
    }
}

/// Asks, sleeps, and answers how many requests there were without sleeping.
async fn ask_and_wait<R: Rest>(hall: &Hall, desk: &Desk, number: usize, subject: &dyn Subject, rest: &R) -> u32 {
    let worker = &desk.workers[number];
    worker.write_page(2);
    worker.call.0.futex.store(BLOCKED, Ordering::SeqCst);
    worker.call.0.woken_ns.store(hall.now(), Ordering::Release);
    if hall.is_by_rate() {
        let requests = worker.requests.swap(0, Ordering::SeqCst);
        if requests > 0 {
            post_self(&worker.call.0.futex);
            return requests;
        }
    } else {
        desk.queue(number);
    }
    desk.post(subject);
    // After the store of BLOCKED: either this sees that the run is over, or the message thread's last post comes after.
    if !hall.stopped() {
        sleep(worker, rest).await;
    }
    let waited = hall.now().saturating_sub(worker.call.0.woken_ns.load(Ordering::Acquire));
    worker.record().wakeups.record(waited);
    0
}

async fn sleep<R: Rest>(worker: &Worker, rest: &R) {
    while !was_posted(&worker.call.0.futex) {
        rest.wait(&worker.call.0.futex, BLOCKED).await;
    }
}

/// Answers when it began.
async fn request<R: Rest>(hall: &Hall, matrices: &mut Matrices, rest: &R) -> u64 {
    let plan = &hall.plan;
    let begun = hall.now();
    if plan.pipe_bytes > 0 {
        return begun;
    }
    let mut left = plan.nap;
    while !left.is_zero() && !hall.stopped() {
        let piece = left.min(GLANCE);
        rest.nap(piece).await;
        left -= piece;
    }
    let begun = if plan.calibrate { hall.now() } else { begun };
    let goes_on = || !hall.stopped();
    let mut multiply = || (0..plan.operations).take_while(|_| goes_on()).for_each(|_| matrices.multiply(goes_on));
    if plan.locking {
        hall.cpu_locks.with(multiply)
    } else {
        multiply()
    }
    begun
}
