//! The ready line of a clock: owners whose deadlines have passed, in the order in which turns serve them.
//!
//! Owners belong to groups, such as the processes of one guest. Groups with ready owners stand in the line. A group that has
//! been served goes to the end of the line, if it has more owners. So an owner waits for one owner of each other group, however
//! many those have, and as often for each owner of its own group that became ready before it.
//!
//! A **lap** is over, and the next begins, when every owner that was ready at its beginning has been taken out: see `turn`.

use core::cell::UnsafeCell;

use super::queue::Link;
use super::wheel::{NodeRing, WheelNode};
use super::{Base, Earliest};

/// Owners that together get one place in the rotation.
pub(crate) struct OwnerGroup([UnsafeCell<ReadyGroup>; 4]);

/// The ready owners of a group on a clock. Belongs to the lock of that clock's wheel.
#[repr(C)]
pub(super) struct ReadyGroup {
    /// The group's place in the line. First field: the line knows only the node's address.
    node: WheelNode,
    owners: NodeRing,
}

// SAFETY: each part is used only with the lock of its clock's wheel held.
unsafe impl Sync for OwnerGroup {}
// SAFETY: as for `Sync`. The nodes belong to that lock, too.
unsafe impl Send for OwnerGroup {}

impl OwnerGroup {
    pub const fn new() -> Self {
        Self([const { UnsafeCell::new(ReadyGroup { node: WheelNode::new(), owners: NodeRing::new() }) }; 4])
    }

    pub(super) fn on(&self, base: Base) -> &UnsafeCell<ReadyGroup> {
        &self.0[base as usize]
    }
}

impl Earliest {
    /// # Safety
    /// `node` belongs to a link, to the lock, and is in no wheel; its owner takes it out before freeing it.
    pub(super) unsafe fn make_ready(&mut self, node: *mut WheelNode) {
        self.ready += 1;
        // SAFETY: the caller guarantees a valid node, and holds the lock.
        unsafe {
            (*node).tag = self.lap as u32;
            let group = Link::of(node).group.as_ref().get();
            (*group).owners.push(node);
            if !(*group).node.is_linked() {
                self.line.push(group.cast());
            }
        }
    }

    /// Takes an owner out of its group, and the group out of the line if it has no other.
    ///
    /// # Safety
    /// As for [`make_ready`](Self::make_ready), but `node` is ready.
    pub(super) unsafe fn leave_line(&mut self, node: *mut WheelNode) {
        self.ready -= 1;
        // SAFETY: as above; the node is ready.
        unsafe {
            self.old -= usize::from((*node).tag != self.lap as u32);
            let group = Link::of(node).group.as_ref().get();
            (*group).owners.unlink(node);
            if (*group).owners.first().is_none() {
                self.line.unlink(group.cast());
            }
        }
    }

    /// Takes out the first owner of the first group, which goes to the end of the line.
    pub(super) fn pop_ready(&mut self) -> Option<*mut WheelNode> {
        if self.old == 0 {
            self.lap += 1;
            self.old = self.ready;
        }
        let group = self.line.first()?.cast::<ReadyGroup>();
        // SAFETY: a group in the line has an owner, and belongs to the lock.
        unsafe {
            self.line.unlink(group.cast());
            self.line.push(group.cast());
            let owner = (*group).owners.first()?;
            self.leave_line(owner);
            Some(owner)
        }
    }
}
