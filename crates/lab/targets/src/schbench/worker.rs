//! A worker: it posts to its message thread, sleeps until it is woken, and does a request.

use super::shared::{BLOCKED, MessageThread, SharedState, Worker, post_self, was_posted};
use super::tasks::Rest;
use super::work::Matrices;
use crate::Subject;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A longer sleep is interrupted this often to check whether the run is over.
const CHECK_EVERY: Duration = Duration::from_millis(50);

/// Runs until the run is stopped. A thread's `rest` blocks. A task's does not.
pub async fn work<R: Rest>(
    shared: &SharedState,
    message_thread: &MessageThread,
    number: usize,
    subject: &dyn Subject,
    rest: &R,
) {
    let worker = &message_thread.workers[number];
    let mut matrices = Matrices::new(shared.plan.footprint_bytes);
    let start = shared.now();
    while !shared.stopped() {
        let requests = ask_and_wait(shared, message_thread, number, subject, rest).await;
        // With a rate, a worker may be woken without requests: too early, or at the end of the run.
        let count = if shared.is_by_rate() { requests } else { 1 };
        for _ in 0..count {
            let begun = request(shared, &mut matrices, rest).await;
            // With a rate, a hundred requests may be left. This one may have been cut short.
            if shared.stopped() {
                break;
            }
            let now = shared.now();
            worker.runtime_ns.store(now - start, Ordering::Relaxed);
            worker.requests_done.0.fetch_add(1, Ordering::Relaxed);
            worker.record().requests.record(now - begun);
        }
    }
}

/// Posts to the message thread and sleeps. If there are requests already, returns them without sleeping.
async fn ask_and_wait<R: Rest>(
    shared: &SharedState,
    message_thread: &MessageThread,
    number: usize,
    subject: &dyn Subject,
    rest: &R,
) -> u32 {
    let worker = &message_thread.workers[number];
    worker.write_page(2);
    // [Li], [Lj], [Lk]: before the worker joins the list, and before it checks the flag and its requests.
    worker.slot.0.futex.store(BLOCKED, Ordering::SeqCst);
    worker.slot.0.woken_ns.store(shared.now(), Ordering::Release); // [Ll]
    if shared.is_by_rate() {
        let requests = worker.requests.swap(0, Ordering::SeqCst); // [Lk]
        if requests > 0 {
            post_self(&worker.slot.0.futex);
            return requests;
        }
    } else {
        message_thread.queue(number);
    }
    message_thread.post(subject);
    // [Lj]: checked after the store of BLOCKED: the worker sees the end here, or the message thread's last post wakes it.
    if !shared.stopped() {
        sleep(worker, rest).await;
    }
    // [Ll]
    let waited = shared.now().saturating_sub(worker.slot.0.woken_ns.load(Ordering::Acquire));
    worker.record().wakeups.record(waited);
    0
}

async fn sleep<R: Rest>(worker: &Worker, rest: &R) {
    while !was_posted(&worker.slot.0.futex) {
        rest.wait(&worker.slot.0.futex, BLOCKED).await;
    }
}

/// Does a request. Returns the time when it began.
async fn request<R: Rest>(shared: &SharedState, matrices: &mut Matrices, rest: &R) -> u64 {
    let plan = &shared.plan;
    let begun = shared.now();
    if plan.pipe_bytes > 0 {
        return begun;
    }
    let mut left = plan.nap;
    while !left.is_zero() && !shared.stopped() {
        let piece = left.min(CHECK_EVERY);
        rest.nap(piece).await;
        left -= piece;
    }
    let begun = if plan.calibrate { shared.now() } else { begun };
    let goes_on = || !shared.stopped();
    let mut multiply = || (0..plan.operations).take_while(|_| goes_on()).for_each(|_| matrices.multiply(goes_on));
    if plan.locking {
        shared.cpu_locks.with(multiply)
    } else {
        multiply()
    }
    begun
}
