//! A worker: it posts to its message thread, sleeps until it is woken, and does a request.

use super::shared::{BLOCKED, MessageThread, SharedState, was_posted};
use super::work::Matrices;
use crate::{Subject, Waited};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A longer sleep is interrupted this often to check whether the run is over.
const CHECK_EVERY: Duration = Duration::from_millis(50);

/// Runs on the calling thread until the run is stopped.
pub fn work(shared: &SharedState, message_thread: &MessageThread, number: usize, subject: &dyn Subject) {
    let worker = &message_thread.workers[number];
    // SAFETY: the call takes nothing and changes nothing.
    worker.tid.store(unsafe { libc::gettid() } as u32, Ordering::Relaxed);
    let mut matrices = Matrices::new(shared.plan.footprint_bytes);
    while !shared.stopped() {
        ask_and_wait(shared, message_thread, number, subject);
        let begun = shared.now();
        request(shared, &mut matrices);
        // A request may have been cut short.
        if shared.stopped() {
            break;
        }
        worker.requests_done.0.fetch_add(1, Ordering::Relaxed);
        worker.record().requests.record(shared.now() - begun);
    }
}

/// Posts to the message thread, and sleeps until it is woken.
fn ask_and_wait(shared: &SharedState, message_thread: &MessageThread, number: usize, subject: &dyn Subject) {
    let worker = &message_thread.workers[number];
    // [Li], [Lj]: before the worker joins the list, and before it checks the flag.
    worker.slot.0.futex.store(BLOCKED, Ordering::SeqCst);
    worker.slot.0.woken_ns.store(shared.now(), Ordering::Release); // [Ll]
    message_thread.queue(number);
    message_thread.post(subject);
    // [Lj]: checked after the store of BLOCKED: the worker sees the end here, or the message thread's last post wakes it.
    if !shared.stopped() {
        while !was_posted(&worker.slot.0.futex) {
            assert_ne!(subject.wait(&worker.slot.0.futex, BLOCKED), Waited::Failed, "a worker's wait");
        }
    }
    // [Ll]
    let waited = shared.now().saturating_sub(worker.slot.0.woken_ns.load(Ordering::Acquire));
    worker.record().wakeups.record(waited);
}

fn request(shared: &SharedState, matrices: &mut Matrices) {
    let plan = &shared.plan;
    let mut left = plan.nap;
    while !left.is_zero() && !shared.stopped() {
        let piece = left.min(CHECK_EVERY);
        std::thread::sleep(piece);
        left -= piece;
    }
    let goes_on = || !shared.stopped();
    let mut multiply = || (0..plan.operations).take_while(|_| goes_on()).for_each(|_| matrices.multiply(goes_on));
    if plan.locking { shared.cpu_locks.with(multiply) } else { multiply() }
}
