//! Requeueing waiters from one word to another.

use super::key::Access;
use super::{Answer, Kind, Model, errno};

pub(super) struct Requeue {
    pub from: u64,
    pub to: u64,
    pub is_private: bool,
    /// The expected value of the word, `None` for no comparison.
    pub value: Option<u32>,
}

impl Model {
    pub(super) fn requeue(&mut self, requeue: Requeue, wake_count: i32, requeue_count: i32) -> Answer {
        if wake_count < 0 || requeue_count < 0 {
            return errno(libc::EINVAL);
        }
        let from = self.key(requeue.from, requeue.is_private, Access::Read)?;
        let to = self.key(requeue.to, requeue.is_private, Access::Read)?;
        if let Some(value) = requeue.value
            && self.load(requeue.from)? != value
        {
            return errno(libc::EAGAIN);
        }
        let (wake_count, most) = (wake_count as usize, wake_count as usize + requeue_count as usize);
        let all = self.waiters(from);
        // Reaching a waiter for a PI futex is an error. The waiters before it stay woken or requeued.
        let wrong = all.iter().position(|&at| self.queue[at].kind != Kind::Plain);
        let count = all.len().min(most).min(wrong.unwrap_or(usize::MAX));
        let (woken, moved) = all[..count].split_at(count.min(wake_count));
        let mut entries = Vec::new();
        if from != to {
            // A requeue to the same futex does not change the order.
            entries.extend(moved.iter().rev().map(|&at| self.queue.remove(at)));
        }
        for &at in woken.iter().rev() {
            self.wake_one(at);
        }
        for mut entry in entries.into_iter().rev() {
            entry.key = to;
            self.enqueue(entry);
        }
        if wrong.is_some_and(|wrong| wrong < most) { errno(libc::EINVAL) } else { Ok(count as i64) }
    }
}
