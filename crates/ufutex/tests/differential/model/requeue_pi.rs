//! `FUTEX_WAIT_REQUEUE_PI` and `FUTEX_CMP_REQUEUE_PI`, which move a condition variable's waiters to a PI futex.

use super::key::{Access, Key};
use super::pi::Attempt;
use super::requeue::Requeue;
use super::wait::Wait;
use super::{Answer, Kind, Model, OnSignal, errno};

impl Model {
    pub(super) fn wait_requeue_pi(&mut self, worker: usize, wait: Wait, target: u64) -> Answer {
        if wait.address == target {
            return errno(libc::EINVAL);
        }
        let target = self.key(target, wait.is_private, Access::Write)?;
        let key = self.compare(&wait)?;
        if key == target {
            return errno(libc::EINVAL);
        }
        self.sleep(worker, key, Kind::RequeuePi { target }, Wait { on_signal: OnSignal::Restarts, ..wait })
    }

    pub(super) fn requeue_pi(&mut self, requeue: Requeue, wake_count: i32, requeue_count: i32) -> Answer {
        let Requeue { from: from_address, to: to_address, is_private, value } = requeue;
        if wake_count < 0 || requeue_count < 0 || from_address == to_address || wake_count != 1 {
            return errno(libc::EINVAL);
        }
        let from = self.key(from_address, is_private, Access::Read)?;
        let to = self.key(to_address, is_private, Access::Write)?;
        if from == to {
            return errno(libc::EINVAL);
        }
        if value.is_some() && value != Some(self.load(from_address)?) {
            return errno(libc::EAGAIN);
        }
        let locked = self.lock_for_top_waiter(from, to, to_address, requeue_count != 0)?;
        let result = self.move_waiters(from, to, requeue_count as usize + usize::from(!locked));
        self.drop_unused_states();
        result.map(|moved| moved + i64::from(locked))
    }

    /// Tries to lock the target for the first waiter. If that succeeds the waiter returns. Returns whether it did.
    fn lock_for_top_waiter(&mut self, from: Key, to: Key, to_address: u64, set_waiters: bool) -> Answer<bool> {
        // The kernel reads the target first, even if there are no waiters.
        self.load(to_address)?;
        let Some(top) = self.top_waiter(from) else { return Ok(false) };
        if self.queue[top].kind != (Kind::RequeuePi { target: to }) {
            return errno(libc::EINVAL);
        }
        let worker = self.queue[top].worker;
        match self.lock_atomically(worker, to_address, to, set_waiters)? {
            Attempt::Contended => Ok(false),
            Attempt::Locked => {
                self.wake_one(top);
                Ok(true)
            }
        }
    }

    /// Requeues up to `count` waiters to the target. The first waiter for which that fails ends the call with its
    /// error. Waiters that have been requeued before it stay requeued.
    fn move_waiters(&mut self, from: Key, to: Key, count: usize) -> Answer {
        let mut moved = 0;
        while let Some(top) = self.top_waiter(from)
            && (moved as usize) < count
        {
            if self.queue[top].kind != (Kind::RequeuePi { target: to }) {
                return errno(libc::EINVAL);
            }
            let worker = self.queue[top].worker;
            if self.block(worker, to).is_err() {
                return errno(libc::EDEADLK);
            }
            let mut entry = self.queue.remove(top);
            entry.key = to;
            entry.kind = Kind::Pi { requeued: true };
            self.enqueue(entry);
            moved += 1;
        }
        Ok(moved)
    }
}
