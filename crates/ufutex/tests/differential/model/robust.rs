//! The exit of a thread: its robust list and its PI futexes.

use super::Model;
use super::key::Access;
use crate::layout::FUTEX_OFFSET;
use crate::program::{OWNER_DIED, TID_MASK, WAITERS};
use crate::resolve::Robust;

/// The rest of the robust list cannot be read or is invalid.
struct Broken;

impl Model {
    pub(super) fn exit(&mut self, worker: usize, robust: &Robust) {
        let _ = self.walk(worker, robust);
        self.end_woken();
        self.give_up_locks(worker);
        self.is_dead[worker] = true;
    }

    fn walk(&mut self, worker: usize, robust: &Robust) -> Result<(), Broken> {
        const MOST: usize = 2048;
        let [mut entry, _, pending] = robust.members;
        for _ in 0..MOST {
            if entry == robust.head {
                break;
            }
            let (address, is_pi) = (entry & !1, entry & 1 != 0);
            if address != pending & !1 {
                self.mark_dead(worker, address, is_pi, false)?;
            }
            // If a word is listed twice, its second entry has overwritten the first.
            let next = robust.links.iter().rfind(|[at, _]| *at == address);
            entry = next.expect("every entry has a link")[1];
        }
        if pending == 0 { Ok(()) } else { self.mark_dead(worker, pending & !1, pending & 1 != 0, true) }
    }

    /// Sets `OWNER_DIED` in a word and wakes one waiter.
    fn mark_dead(&mut self, worker: usize, entry: u64, is_pi: bool, is_pending: bool) -> Result<(), Broken> {
        let address = entry.wrapping_add_signed(FUTEX_OFFSET);
        let word = self.load(address).or(Err(Broken))?;
        if is_pending && !is_pi && word & TID_MASK == 0 {
            // The thread may have unlocked and died before its wake.
            self.wake_shared(address);
            return Ok(());
        }
        if word & TID_MASK != self.tids[worker] {
            return Ok(());
        }
        self.store(address, word & WAITERS | OWNER_DIED).or(Err(Broken))?;
        if !is_pi && word & WAITERS != 0 {
            self.wake_shared(address);
        }
        Ok(())
    }

    /// Wakes one waiter of a shared futex. Errors are ignored.
    fn wake_shared(&mut self, address: u64) {
        let key = self.key(address, false, Access::Read);
        let _ = key.and_then(|key| self.wake_key(key, 1, u32::MAX));
    }

    /// Passes each PI futex that the worker owns to its next waiter. In the kernel the new owner itself writes the
    /// word, at the address with which it waits.
    fn give_up_locks(&mut self, worker: usize) {
        let mut words = Vec::new();
        while let Some(at) = self.pi_states.iter().position(|state| state.owner == worker) {
            let state = &mut self.pi_states[at];
            let next = state.waiters.remove(0).worker;
            state.owner = next;
            self.queue.retain(|entry| entry.worker != next);
            self.drop_unused_states();
            let address = self.blocked[next].as_ref().expect("it waits").pi_address();
            // Private and shared waiters of one word have different states. Which of them writes last depends on the
            // scheduler.
            let word = self.memory.place(address);
            if words.contains(&word) {
                self.is_defined.set(false);
            }
            words.push(word);
            let result = self.store(address, OWNER_DIED | WAITERS | self.tids[next]);
            self.end(next, if result.is_ok() { 0 } else { -i64::from(libc::EFAULT) });
        }
    }
}
