//! A restartable sequence in a model checker: the thread holds this virtual CPU's mutex. To make all running
//! sequences end or start again, [`CpuCounter::close`] locks and unlocks each mutex.

use crate::sync::{AtomicU32, Mutex, Ordering, fence};

/// A reference that was counted.
#[derive(Clone, Copy)]
pub struct Taken<'a>(&'a CpuCounter);

impl Taken<'_> {
    pub fn try_return(self) -> bool {
        self.0.try_add(-1)
    }
}

/// See the module.
pub struct CpuCounter {
    closed: AtomicU32,
    slots: [Mutex<i64>; 2],
}

impl CpuCounter {
    pub fn new() -> Self {
        Self { closed: AtomicU32::new(0), slots: [Mutex::new(0), Mutex::new(0)] }
    }

    pub fn try_take(&self) -> Option<Taken<'_>> {
        self.try_add(1).then_some(Taken(self))
    }

    fn try_add(&self, delta: i64) -> bool {
        // Taking and returning use different slots, as if every operation were migrated between the two.
        let cpu = &self.slots[usize::from(delta < 0)];
        let mut section = cpu.lock().expect("never poisoned");
        if self.closed.load(Ordering::Acquire) != 0 {
            // [I]
            return false;
        }
        *section += delta;
        true
    }

    pub fn close(&self) -> i64 {
        self.closed.store(1, Ordering::SeqCst); // [I]
        fence(Ordering::SeqCst); // [I]
        self.slots.iter().map(|slot| core::mem::take(&mut *slot.lock().expect("never poisoned"))).sum()
    }

    pub fn open(&self) {
        self.closed.store(0, Ordering::Release); // [I]
    }
}
