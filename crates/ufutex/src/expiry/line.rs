//! The ready line of a clock: owners whose deadlines have passed, in the order in which turns serve them.
//!
//! Owners belong to groups, such as the processes of one guest. At most one ready owner of each group stands in the line,
//! which is a ring of the driver's wheel. The group's other ready owners wait behind it, in a ring of the group's. When an
//! owner leaves the line, the next one of its group joins the end. So groups are served in rotation, and within a group its
//! owners are. An owner waits for one owner of each other group, however many owners those have, and as often for each
//! owner of its own group that became ready before.
//!
//! The turn that visits owners has to know when it has visited all that were ready at some moment. It counts **laps**:
//! a lap is over when every owner that was ready at its beginning has been taken out. The next lap then begins.

use core::cell::UnsafeCell;

use super::Earliest;
use super::queue::Link;
use super::wheel::{NodeRing, WheelNode};

/// Owners that together get one place in the rotation.
pub(crate) struct OwnerGroup([UnsafeCell<WaitingOwners>; 4]);

/// The owners of one group that wait on one clock. Belongs to the lock of that clock's wheel.
pub(super) struct WaitingOwners {
    /// Empty unless `stands`.
    owners: NodeRing,
    /// Whether an owner of the group stands in the line.
    stands: bool,
}

// SAFETY: each part is used only with the lock of its clock's wheel held.
unsafe impl Sync for OwnerGroup {}
// SAFETY: as for `Sync`. The nodes belong to that lock, too.
unsafe impl Send for OwnerGroup {}

impl OwnerGroup {
    pub const fn new() -> Self {
        Self([const { UnsafeCell::new(WaitingOwners { owners: NodeRing::new(), stands: false }) }; 4])
    }

    /// What the links of the group's owners on a clock refer to.
    pub(super) fn on(&self, base: super::Base) -> &UnsafeCell<WaitingOwners> {
        &self.0[base as usize]
    }
}

/// The numbers that [`Earliest`] keeps of its ready line.
pub(super) struct Laps {
    /// The number of owners that are ready, in the line or behind it.
    ready: usize,
    /// The number of the lap. An owner that becomes ready notes the lower half in its node's `tag`.
    lap: u64,
    /// The number of those that were ready when the lap began.
    old: usize,
}

impl Laps {
    pub const fn new() -> Self {
        Self { ready: 0, lap: 0, old: 0 }
    }

    /// The lap at whose end all owners that are ready now will have been taken out.
    pub fn until(&self) -> u64 {
        self.lap + 1
    }

    pub fn is_over(&self, lap: u64) -> bool {
        self.lap > lap || self.lap == lap && self.old == 0
    }
}

impl Earliest {
    /// Puts an owner at the end of its group, or of the line if none of the group stands there.
    ///
    /// # Safety
    /// `node` belongs to a link, to the lock, and is in no wheel; its owner takes it out before freeing it.
    pub(super) unsafe fn make_ready(&mut self, node: *mut WheelNode) {
        self.laps.ready += 1;
        // SAFETY: the caller guarantees that the node is valid, and holds the lock.
        unsafe {
            (*node).tag = self.laps.lap as u32;
            let group = Link::waiting_of(node);
            if (*group).stands {
                (*group).owners.push(node);
            } else {
                (*group).stands = true;
                self.wheel.make_ready(node);
            }
        }
    }

    /// Takes an owner out of the line, or of its group. If it stood in the line, the next one of its group joins the end.
    ///
    /// # Safety
    /// As for [`make_ready`](Self::make_ready), but `node` is ready.
    pub(super) unsafe fn leave_line(&mut self, node: *mut WheelNode) {
        self.laps.ready -= 1;
        // SAFETY: the caller guarantees that the node is valid and ready, and holds the lock.
        unsafe {
            self.laps.old -= usize::from((*node).tag != self.laps.lap as u32);
            let group = Link::waiting_of(node);
            if (*node).is_apart() {
                return (*group).owners.unlink(node);
            }
            self.wheel.remove(node);
            let next = (*group).owners.pop();
            (*group).stands = next.is_some();
            if let Some(next) = next {
                self.wheel.make_ready(next);
            }
        }
    }

    /// Takes out the first owner in the line. If a lap is over, the next one begins.
    pub(super) fn pop_ready(&mut self) -> Option<*mut WheelNode> {
        if self.laps.old == 0 {
            self.laps.lap = self.laps.until();
            self.laps.old = self.laps.ready;
        }
        let first = self.wheel.first_ready()?;
        // SAFETY: it is in the line.
        unsafe { self.leave_line(first) };
        Some(first)
    }
}
