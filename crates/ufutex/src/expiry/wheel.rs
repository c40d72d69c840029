//! Deadlines in order: a hierarchical timing wheel, exact to the nanosecond.
//!
//! Time is read as sixteen digits of four bits. A deadline stands at the level of the highest digit in which it differs from
//! the wheel's own time, in the slot of that digit. So inserting and removing take a few instructions, and the earliest
//! deadline is in the first slot of the lowest level in use. A slot with few nodes is searched. One with many is emptied into
//! the levels below when its time has come, in batches, between which the caller may unlock the wheel ([`Next::Working`]).
//!
//! Nodes are in the memory of their owners, and belong to the holder of the wheel's lock while they are in it.

use core::marker::PhantomPinned;
use core::ptr;

const DIGIT: u32 = 4;
const SLOTS: usize = 1 << DIGIT;
const LEVELS: usize = (u64::BITS / DIGIT) as usize;
/// A slot with more nodes than this is not searched for its earliest node.
const FEW: usize = 16;
/// Nodes that move down a level before the wheel's lock may change hands.
const BATCH: usize = 64;

/// Two rings, on a level above all others: of nodes that are held back until the turn is done, and of nodes to be placed,
/// because they were held back or the clock has been set back. At the end of a turn the rings change roles.
const RINGS: [u16; 2] = [(LEVELS * SLOTS) as u16, (LEVELS * SLOTS) as u16 + 1];
/// The `slot` of a node in a ring of the ready line.
const READY: u16 = u16::MAX - 1;
/// The `slot` of a node that is in no wheel and no ring.
const NOWHERE: u16 = u16::MAX;

/// A place in a wheel. Its fields belong to the lock of the wheel.
///
/// It is pinned, because other nodes link to it. An owner may hold a `&mut` to a struct with a node, as in its `drop`, while
/// neighbours access the node: because the node is not [`Unpin`], that reference claims no exclusive access to it.
pub struct WheelNode {
    next: *mut WheelNode,
    previous: *mut WheelNode,
    pub deadline: u64,
    slot: u16,
    /// For the owner: the node's number among several.
    pub index: u16,
    /// For the owner: a number that it reads when the node is due.
    pub tag: u32,
    _pinned: PhantomPinned,
}

impl WheelNode {
    pub const fn new() -> Self {
        Self {
            next: ptr::null_mut(),
            previous: ptr::null_mut(),
            deadline: 0,
            slot: NOWHERE,
            index: 0,
            tag: 0,
            _pinned: PhantomPinned,
        }
    }

    /// Keeps a pointer for the owner, until the node is inserted into a wheel.
    pub const fn keep<T>(&mut self, kept: *mut T) {
        self.next = kept.cast();
    }

    pub const fn kept<T>(&self) -> *mut T {
        self.next.cast()
    }

    pub const fn is_linked(&self) -> bool {
        self.slot != NOWHERE
    }

    pub const fn is_ready(&self) -> bool {
        self.slot == READY
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// This node was due, and has been taken out of the wheel.
    Due(*mut WheelNode),
    /// A batch has been moved; call again.
    Working,
    /// Nothing is due. [`peek`](Wheel::peek) says when to call again; even then there may be only a slot to be emptied.
    Later,
}

/// The first node of a ring, or null. Nodes stay in place until they have been taken out.
pub struct NodeRing(*mut WheelNode);

// SAFETY: only the holder of the lock that a ring belongs to has access to its nodes.
unsafe impl Send for NodeRing {}

impl NodeRing {
    pub const fn new() -> Self {
        Self(ptr::null_mut())
    }

    pub fn first(&self) -> Option<*mut WheelNode> {
        (!self.0.is_null()).then_some(self.0)
    }

    /// # Safety
    /// `node` is valid, and in no wheel and no ring.
    pub unsafe fn push(&mut self, node: *mut WheelNode) {
        // SAFETY: the caller guarantees it.
        unsafe { self.link(node, READY) };
    }

    /// # Safety
    /// As for `push`.
    unsafe fn link(&mut self, node: *mut WheelNode, slot: u16) {
        let first = self.0;
        // SAFETY: the caller guarantees that `node` is valid. The ring's nodes are valid.
        unsafe {
            (*node).slot = slot;
            if first.is_null() {
                self.0 = node;
                (*node).next = node;
                (*node).previous = node;
            } else {
                let last = (*first).previous;
                (*node).next = first;
                (*node).previous = last;
                (*last).next = node;
                (*first).previous = node;
            }
        }
    }

    /// # Safety
    /// `node` is in this ring.
    pub unsafe fn unlink(&mut self, node: *mut WheelNode) {
        // SAFETY: the caller guarantees that the node is valid. Its neighbours are in the ring, so they are valid too.
        unsafe {
            let (next, previous) = ((*node).next, (*node).previous);
            if next == node {
                self.0 = ptr::null_mut();
            } else {
                (*previous).next = next;
                (*next).previous = previous;
                if self.0 == node {
                    self.0 = next;
                }
            }
            (*node).slot = NOWHERE;
        }
    }
}

pub struct Wheel {
    /// No node is due before it, unless its deadline had passed already when it was inserted.
    elapsed: u64,
    /// One bit for each level that has nodes, the rings' too.
    levels: u32,
    slots: [u16; LEVELS + 1],
    /// The slot that is being emptied into lower levels.
    emptied: u16,
    /// During a turn a node with an earlier deadline than this is held back. 0: no turn is going on.
    floor: u64,
    /// The index in `RINGS` of the ring of nodes that are held back.
    held: u8,
    /// The clock has been set back: nodes are being moved from the slots to the ring of nodes to be placed.
    gathers: bool,
    /// The nodes of each slot, and the rings after them.
    first: [NodeRing; RINGS[1] as usize + 1],
}

impl Wheel {
    pub const fn new() -> Self {
        Self {
            elapsed: 0,
            levels: 0,
            slots: [0; LEVELS + 1],
            emptied: NOWHERE,
            floor: 0,
            held: 0,
            gathers: false,
            first: [const { NodeRing::new() }; RINGS[1] as usize + 1],
        }
    }

    pub const fn is_empty(&self) -> bool {
        self.levels == 0
    }

    const fn is_empty_in(&self, slot: u16) -> bool {
        self.first[slot as usize].0.is_null()
    }

    const fn held(&self) -> u16 {
        RINGS[self.held as usize]
    }

    const fn pool(&self) -> u16 {
        RINGS[1 - self.held as usize]
    }

    /// Notes that a turn began at `began`. Until [`release`](Self::release), new nodes due by then are held back: callbacks
    /// that arm deadlines in the past could make the turn endless. Nodes that the turn before held back are available.
    pub fn hold_back(&mut self, began: u64) {
        let floor = began.saturating_add(1);
        if floor > self.floor && (self.floor == 0 || self.release()) {
            self.floor = floor;
        }
    }

    /// Ends the turn. `false` while nodes from the turn before still have to be placed.
    pub fn release(&mut self) -> bool {
        if !self.is_empty_in(self.held()) {
            if !self.is_empty_in(self.pool()) {
                return false;
            }
            self.held = 1 - self.held;
        }
        self.floor = 0;
        true
    }

    /// Inserts `node`, behind other nodes with that deadline.
    ///
    /// # Safety
    /// `node` is valid and in no wheel. It stays in place until it has been taken out.
    pub unsafe fn insert(&mut self, node: *mut WheelNode, deadline: u64, now: u64) {
        if self.is_empty() {
            // An empty wheel need not catch up with the time that has passed.
            self.elapsed = now;
            self.emptied = NOWHERE;
            self.gathers = false;
        }
        // SAFETY: the caller guarantees a valid node, which is this wheel's from here on.
        unsafe {
            (*node).deadline = deadline;
            if deadline < self.floor { self.link(node, self.held()) } else { self.place(node) }
        }
    }

    /// Returns whether `node` was in this wheel.
    ///
    /// # Safety
    /// `node` is valid, and is in this wheel or in none.
    pub unsafe fn remove(&mut self, node: *mut WheelNode) -> bool {
        // SAFETY: the caller guarantees that the node is valid.
        let slot = unsafe { (*node).slot };
        if slot == NOWHERE {
            return false;
        }
        // SAFETY: the node is in this slot.
        unsafe { self.first[usize::from(slot)].unlink(node) };
        if !self.is_empty_in(slot) {
            return true;
        }
        let (level, digit) = (usize::from(slot) / SLOTS, usize::from(slot) % SLOTS);
        self.slots[level] &= !(1 << digit);
        if self.slots[level] == 0 {
            self.levels &= !(1 << level);
        }
        true
    }

    /// Takes out the earliest node, if it is due by `now`.
    pub fn next(&mut self, now: u64) -> Next {
        loop {
            if !self.settle() {
                return Next::Working;
            }
            let due = self.earliest().filter(|&(_, at, _)| at <= now);
            let Some((slot, at, earliest)) = due else { return Next::Later };
            if let Some(node) = earliest {
                // SAFETY: a node of this wheel.
                unsafe { self.remove(node) };
                return Next::Due(node);
            }
            (self.elapsed, self.emptied) = (at, slot);
        }
    }

    /// The time to call [`next`](Self::next); `None` if there are no nodes. 0 means at once, whatever the clock shows.
    pub fn peek(&self) -> Option<u64> {
        if self.is_empty_in(self.held()) { self.peek_in_turn() } else { Some(0) }
    }

    /// As [`peek`](Self::peek), without the nodes that are held back.
    pub fn peek_in_turn(&self) -> Option<u64> {
        if self.gathers || !self.is_empty_in(self.pool()) {
            return Some(0);
        }
        let (_, at, _) = self.earliest()?;
        Some(if self.emptied == NOWHERE { at } else { self.elapsed })
    }

    /// Sets the wheel back to `now` if it is ahead. Then `next` and `settle` place all nodes again.
    pub fn set_back(&mut self, now: u64) {
        if self.is_ahead_of(now) {
            self.elapsed = now;
            self.emptied = NOWHERE;
            self.gathers = true;
        }
    }

    /// Moves a batch of the nodes to be placed, or of the slot that is being emptied. Returns whether none is left.
    pub fn settle(&mut self) -> bool {
        for _ in 0..BATCH {
            let from = if self.gathers {
                self.first_slot()
            } else if !self.is_empty_in(self.pool()) {
                Some(self.pool())
            } else if self.emptied != NOWHERE {
                Some(self.emptied)
            } else {
                return true;
            };
            let Some(node) = from.and_then(|slot| self.first[usize::from(slot)].first()) else {
                (self.gathers, self.emptied) = (false, NOWHERE);
                continue;
            };
            // SAFETY: a node of this wheel. `place` never puts it back here: the wheel's time has the digit of an emptied slot.
            unsafe {
                self.remove(node);
                self.place(node);
            }
        }
        false
    }

    /// Whether the clock has been set back.
    pub const fn is_ahead_of(&self, now: u64) -> bool {
        self.elapsed > now
    }

    /// # Safety
    /// `node` is valid and in no wheel.
    unsafe fn place(&mut self, node: *mut WheelNode) {
        // SAFETY: the caller guarantees it.
        unsafe {
            if self.gathers {
                return self.link(node, self.pool());
            }
            let at = (*node).deadline.max(self.elapsed);
            let level = (at ^ self.elapsed).checked_ilog2().unwrap_or(0) / DIGIT;
            let digit = (at >> (level * DIGIT)) as usize % SLOTS;
            self.link(node, (level as usize * SLOTS + digit) as u16);
        }
    }

    /// # Safety
    /// As for `place`.
    #[inline(always)]
    unsafe fn link(&mut self, node: *mut WheelNode, slot: u16) {
        let (level, digit) = (usize::from(slot) / SLOTS, usize::from(slot) % SLOTS);
        self.levels |= 1 << level;
        self.slots[level] |= 1 << digit;
        // SAFETY: the caller guarantees it.
        unsafe { self.first[usize::from(slot)].link(node, slot) };
    }

    fn first_slot(&self) -> Option<u16> {
        let level = self.levels.trailing_zeros() as usize;
        (level < LEVELS).then(|| (level * SLOTS) as u16 + self.slots[level].trailing_zeros() as u16)
    }

    /// The first slot, and its earliest node with the deadline. If it has more than `FEW`, the begin of its time and no node.
    fn earliest(&self) -> Option<(u16, u64, Option<*mut WheelNode>)> {
        let slot = self.first_slot()?;
        let first = self.first[usize::from(slot)].0;
        let (mut node, mut earliest) = (first, first);
        // SAFETY: the slot has nodes, and all in its ring are valid.
        unsafe {
            for _ in 0..FEW {
                node = (*node).next;
                if node == first {
                    return Some((slot, (*earliest).deadline, Some(earliest)));
                }
                if (*node).deadline < (*earliest).deadline {
                    earliest = node;
                }
            }
            // All nodes here have one deadline, or it had passed when they were inserted.
            if usize::from(slot) < SLOTS {
                return Some((slot, (*first).deadline, Some(first)));
            }
        }
        let (level, digit) = (u32::from(slot) / SLOTS as u32, u64::from(slot) % SLOTS as u64);
        let above = self.elapsed.checked_shr((level + 1) * DIGIT).unwrap_or(0);
        Some((slot, (above << DIGIT | digit) << (level * DIGIT), None))
    }
}

#[cfg(test)]
mod tests;
