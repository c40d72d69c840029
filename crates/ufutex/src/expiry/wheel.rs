//! Deadlines in order: a hierarchical timing wheel, exact to the nanosecond.
//!
//! Time is read as sixteen digits of four bits. A deadline stands at the level of the highest digit in which it differs
//! from the wheel's own time, in the slot of that digit. So it is put in and taken out in a few instructions however
//! many there are, and the earliest is in the first slot of the lowest level in use. A slot with few nodes is searched;
//! one with many, when its time has come, is emptied into the levels below it, a batch at a time.
//!
//! Nodes lie in memory of their owners. Whoever has the wheel to itself (it stands behind a lock) has the nodes in it.

use core::ptr;

use super::clocks::LAST;
use crate::sync::MODEL;

/// Bits of a digit.
const DIGIT: u32 = 4;
const SLOTS: usize = 1 << DIGIT;
/// In a model the clocks end early, and the wheel fits on the small stacks of its threads.
const LEVELS: usize = if MODEL { LAST.count_ones().div_ceil(DIGIT) as usize } else { (u64::BITS / DIGIT) as usize };
/// A slot with more nodes than this is not searched for its earliest.
const FEW: usize = 16;
/// So many nodes go down a level before the wheel's lock may change hands.
const BATCH: usize = 64;

/// The slot of nodes that are held back, behind all others.
const LATER: u16 = (LEVELS * SLOTS) as u16;
/// In no slot.
const NOWHERE: u16 = u16::MAX;

/// A place in a wheel. Its fields belong to whoever has the wheel.
pub struct Node {
    next: *mut Node,
    previous: *mut Node,
    deadline: u64,
    /// Where it is.
    slot: u16,
    /// Its owner's: which of several it is.
    pub index: u16,
    /// What the owner wants to know when it is due.
    pub tag: u32,
}

impl Node {
    pub const fn new() -> Self {
        Self::keeping::<()>(0, ptr::null_mut())
    }

    /// In no wheel, with an index, and a pointer [kept](Self::keep) for the owner.
    pub const fn keeping<T>(index: u16, kept: *mut T) -> Self {
        Self { next: kept.cast(), previous: ptr::null_mut(), deadline: 0, slot: NOWHERE, index, tag: 0 }
    }

    /// Keeps a pointer for its owner while it is in no wheel: until it is put into one.
    pub const fn keep<T>(&mut self, kept: *mut T) {
        self.next = kept.cast();
    }

    /// What is kept.
    pub const fn kept<T>(&self) -> *mut T {
        self.next.cast()
    }

    pub const fn is_linked(&self) -> bool {
        self.slot != NOWHERE
    }

    /// Of the last time that it was put into a wheel.
    pub const fn deadline(&self) -> u64 {
        self.deadline
    }
}

/// What there is to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// This node was due, and is out of the wheel.
    Due(*mut Node),
    /// Nothing is due before this time; then perhaps nothing yet, but a slot has to be emptied.
    At(u64),
    /// A batch has been moved; ask again.
    Working,
    /// There are no nodes.
    Never,
}

/// See the top of this file.
pub struct Wheel {
    /// The wheel's own time: no node is due before it, unless it was late already when it came.
    elapsed: u64,
    /// The levels that have nodes.
    levels: u16,
    /// The slots of each level that have nodes.
    slots: [u16; LEVELS],
    /// The slot that is being emptied into lower levels.
    emptied: u16,
    /// While a turn is going on: nodes that are put in for earlier are held back until it is done.
    floor: u64,
    /// The first node of each slot; the others follow in a ring.
    first: [*mut Node; LEVELS * SLOTS + 1],
}

// SAFETY: the pointers are to nodes, which belong to whoever has the wheel.
unsafe impl Send for Wheel {}

impl Wheel {
    pub const fn new() -> Self {
        Self {
            elapsed: 0,
            levels: 0,
            slots: [0; LEVELS],
            emptied: NOWHERE,
            floor: 0,
            first: [ptr::null_mut(); LEVELS * SLOTS + 1],
        }
    }

    pub const fn is_empty(&self) -> bool {
        self.levels == 0 && self.first[LATER as usize].is_null()
    }

    /// What is put in from here on and due by `now` is held back, until [`release`](Self::release): a turn that also saw to
    /// what is due as soon as it is armed might never end.
    pub fn hold_back(&mut self, now: u64) {
        self.floor = self.floor.max(now + 1);
    }

    /// The turn is done.
    pub fn release(&mut self) {
        self.floor = 0;
        while let Some(node) = ptr::NonNull::new(self.first[LATER as usize]) {
            // SAFETY: a node of this wheel.
            unsafe {
                self.remove(node.as_ptr());
                self.place(node.as_ptr());
            }
        }
    }

    /// Puts `node` in, to be due at `deadline`, behind others of that time.
    ///
    /// # Safety
    /// `node` is valid and in no wheel; it stays where it is until it has been taken out.
    pub unsafe fn insert(&mut self, node: *mut Node, deadline: u64, now: u64) {
        if self.is_empty() {
            // Whatever the wheel has slept through is no business of this node.
            self.elapsed = now;
            self.emptied = NOWHERE;
        }
        // SAFETY: valid, says the caller, and ours from here on.
        unsafe {
            (*node).deadline = deadline;
            if deadline < self.floor { self.link(node, LATER) } else { self.place(node) }
        }
    }

    /// As [`insert`](Self::insert), of what this turn comes back to.
    ///
    /// # Safety
    /// As there.
    pub unsafe fn insert_at_once(&mut self, node: *mut Node, deadline: u64, now: u64) {
        let floor = core::mem::take(&mut self.floor);
        // SAFETY: says the caller.
        unsafe { self.insert(node, deadline, now) };
        self.floor = floor;
    }

    /// Takes `node` out, if it is in.
    ///
    /// # Safety
    /// `node` is valid, and is in this wheel or in none.
    pub unsafe fn remove(&mut self, node: *mut Node) -> bool {
        // SAFETY: valid, says the caller; its neighbours are in the wheel, and so valid.
        unsafe {
            let slot = (*node).slot;
            if slot == NOWHERE {
                return false;
            }
            let (next, previous) = ((*node).next, (*node).previous);
            let first = &mut self.first[usize::from(slot)];
            if next == node {
                *first = ptr::null_mut();
                self.mark_empty(slot);
            } else {
                (*previous).next = next;
                (*next).previous = previous;
                if *first == node {
                    *first = next;
                }
            }
            (*node).slot = NOWHERE;
        }
        true
    }

    /// The earliest node, if it is due by `now`; otherwise when to ask again.
    pub fn next(&mut self, now: u64) -> Next {
        loop {
            if self.emptied != NOWHERE {
                if !self.empty_further() {
                    return Next::Working;
                }
                continue;
            }
            let Some(slot) = self.first_slot() else { return Next::Never };
            let (earliest, is_all) = self.earliest_of(slot);
            // SAFETY: a node of the wheel.
            let deadline = unsafe { (*earliest).deadline };
            // The nodes of a slot of the lowest level have one deadline, or were late when they came.
            if is_all || usize::from(slot) < SLOTS {
                if deadline > now {
                    return Next::At(deadline);
                }
                // SAFETY: a node of this wheel.
                unsafe { self.remove(earliest) };
                return Next::Due(earliest);
            }
            let start = self.start_of(slot);
            if start > now {
                return Next::At(start);
            }
            self.elapsed = start;
            self.emptied = slot;
        }
    }

    /// When to ask [`next`](Self::next); `None` when there are no nodes.
    pub fn peek(&self) -> Option<u64> {
        if !self.first[LATER as usize].is_null() {
            return Some(0);
        }
        let slot = self.first_slot()?;
        let (earliest, is_all) = self.earliest_of(slot);
        if self.emptied != NOWHERE {
            return Some(self.elapsed);
        }
        // SAFETY: a node of the wheel.
        let deadline = unsafe { (*earliest).deadline };
        Some(if is_all || usize::from(slot) < SLOTS { deadline } else { self.start_of(slot) })
    }

    /// Puts all nodes where they belong when it is `now`: the clock has been set back.
    pub fn turn_back(&mut self, now: u64) {
        let mut all = Chain::default();
        for slot in 0..LEVELS * SLOTS {
            while !self.first[slot].is_null() {
                let node = self.first[slot];
                // SAFETY: a node of this wheel, which from here on is in the chain alone.
                unsafe {
                    self.remove(node);
                    all.push(node);
                }
            }
        }
        self.emptied = NOWHERE;
        self.elapsed = now;
        while let Some(node) = all.pop() {
            // SAFETY: taken out above, and valid as long as nobody else has the wheel.
            unsafe { self.place(node) };
        }
    }

    /// Whether the wheel is ahead of `now`, which a clock that has been set back leaves behind.
    pub const fn is_ahead_of(&self, now: u64) -> bool {
        self.elapsed > now
    }

    /// # Safety
    /// `node` is valid and in no wheel.
    unsafe fn place(&mut self, node: *mut Node) {
        // SAFETY: valid, says the caller.
        let at = unsafe { (*node).deadline }.max(self.elapsed);
        let level = (at ^ self.elapsed).checked_ilog2().unwrap_or(0) / DIGIT;
        let digit = digit(at, level);
        let slot = level as usize * SLOTS + digit;
        self.levels |= 1 << level;
        self.slots[level as usize] |= 1 << digit;
        // SAFETY: says the caller.
        unsafe { self.link(node, slot as u16) };
    }

    /// # Safety
    /// As for `place`.
    unsafe fn link(&mut self, node: *mut Node, slot: u16) {
        let first = &mut self.first[usize::from(slot)];
        // SAFETY: `node` is valid, says the caller; the first of a slot and its neighbours are valid.
        unsafe {
            (*node).slot = slot;
            if first.is_null() {
                *first = node;
                (*node).next = node;
                (*node).previous = node;
            } else {
                let last = (**first).previous;
                (*node).next = *first;
                (*node).previous = last;
                (*last).next = node;
                (**first).previous = node;
            }
        }
    }

    fn mark_empty(&mut self, slot: u16) {
        if slot == LATER {
            return;
        }
        let (level, digit) = (usize::from(slot) / SLOTS, usize::from(slot) % SLOTS);
        self.slots[level] &= !(1 << digit);
        if self.slots[level] == 0 {
            self.levels &= !(1 << level);
        }
    }

    /// Moves a batch out of the slot that is being emptied; whether that was the last.
    fn empty_further(&mut self) -> bool {
        for _ in 0..BATCH {
            let node = self.first[usize::from(self.emptied)];
            if node.is_null() {
                self.emptied = NOWHERE;
                return true;
            }
            // SAFETY: a node of this wheel. It goes to a lower level: the wheel's time has the slot's digit by now.
            unsafe {
                self.remove(node);
                self.place(node);
            }
        }
        false
    }

    fn first_slot(&self) -> Option<u16> {
        (self.levels != 0).then(|| {
            let level = self.levels.trailing_zeros() as usize;
            (level * SLOTS) as u16 + self.slots[level].trailing_zeros() as u16
        })
    }

    /// The earliest of the slot's first few nodes, the first one if there are several; whether these are all.
    fn earliest_of(&self, slot: u16) -> (*mut Node, bool) {
        let first = self.first[usize::from(slot)];
        let mut earliest = first;
        let mut node = first;
        for _ in 0..FEW {
            // SAFETY: the slot has nodes, and all in its ring are valid.
            unsafe {
                node = (*node).next;
                if node == first {
                    return (earliest, true);
                }
                if (*node).deadline < (*earliest).deadline {
                    earliest = node;
                }
            }
        }
        (first, false)
    }

    /// When the time of `slot` begins.
    fn start_of(&self, slot: u16) -> u64 {
        let level = u32::from(slot) / SLOTS as u32;
        let digit = u64::from(slot) % SLOTS as u64;
        let below = (level + 1) * DIGIT;
        let above = if below == u64::BITS { 0 } else { self.elapsed >> below << below };
        above | digit << (level * DIGIT)
    }
}

const fn digit(time: u64, level: u32) -> usize {
    (time >> (level * DIGIT)) as usize % SLOTS
}

/// Nodes on their way, first in first out.
struct Chain {
    first: *mut Node,
    last: *mut Node,
}

impl Default for Chain {
    fn default() -> Self {
        Self { first: ptr::null_mut(), last: ptr::null_mut() }
    }
}

impl Chain {
    /// # Safety
    /// `node` is valid until it is popped, and nowhere else.
    unsafe fn push(&mut self, node: *mut Node) {
        // SAFETY: valid, says the caller, like the last one.
        unsafe {
            (*node).next = ptr::null_mut();
            if self.last.is_null() {
                self.first = node;
            } else {
                (*self.last).next = node;
            }
        }
        self.last = node;
    }

    fn pop(&mut self) -> Option<*mut Node> {
        let node = self.first;
        if node.is_null() {
            return None;
        }
        // SAFETY: pushed and not popped, so valid.
        self.first = unsafe { (*node).next };
        Some(node)
    }
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle", feature = "sim"))))]
mod tests {
    use super::*;
    use std::boxed::Box;
    use std::collections::BTreeMap;
    use std::vec::Vec;

    fn random(state: &mut u64) -> u64 {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        *state
    }

    /// All that is due, in the order in which the wheel gives it.
    fn due(wheel: &mut Wheel, now: u64) -> (Vec<(u64, u32)>, Option<u64>) {
        let mut due = Vec::new();
        loop {
            match wheel.next(now) {
                // SAFETY: of a box that outlives the wheel.
                Next::Due(node) => due.push(unsafe { ((*node).deadline, (*node).tag) }),
                Next::Working => {}
                Next::At(time) => return (due, Some(time)),
                Next::Never => return (due, None),
            }
        }
    }

    #[test]
    fn what_is_due_comes_in_order_whatever_is_put_in_and_taken_out() {
        let mut state = 0x1234_5678_9abc_def1;
        for spread_log2 in [4, 10, 20, 34, 63] {
            let mut nodes: Vec<_> = (0..3000).map(|_| Box::new(Node::new())).collect();
            let mut wheel = Wheel::new();
            let mut model: BTreeMap<(u64, u32), usize> = BTreeMap::new();
            let mut now = random(&mut state) >> 10;
            let mut number = 0;
            for _ in 0..200 {
                for _ in 0..random(&mut state) % 100 {
                    let index = (random(&mut state) % 3000) as usize;
                    let node: *mut Node = &raw mut *nodes[index];
                    // SAFETY: a node of `nodes`, which outlive the wheel.
                    unsafe {
                        if wheel.remove(node) {
                            model.remove(&((*node).deadline, (*node).tag)).expect("the model has it too");
                        }
                        let deadline = now.saturating_add(random(&mut state) >> (64 - spread_log2));
                        (*node).tag = number;
                        wheel.insert(node, deadline, now);
                        model.insert((deadline, number), index);
                        number += 1;
                    }
                }
                now = now.saturating_add(random(&mut state) >> (64 - spread_log2) >> 3);
                let (due, next) = due(&mut wheel, now);
                let mut expected = Vec::new();
                while let Some(entry) = model.first_entry()
                    && entry.key().0 <= now
                {
                    expected.push(*entry.key());
                    entry.remove();
                }
                assert_eq!(due, expected);
                match (next, model.keys().next()) {
                    (None, None) => {}
                    (Some(time), Some(earliest)) => assert!(time > now && time <= earliest.0),
                    (next, earliest) => panic!("{next:?} but {earliest:?}"),
                }
            }
        }
    }

    #[test]
    fn a_lone_deadline_is_told_exactly() {
        let mut wheel = Wheel::new();
        let mut node = Node::new();
        // SAFETY: `node` outlives the wheel.
        unsafe { wheel.insert(&raw mut node, 1_000_000_007, 5) };
        assert_eq!(wheel.next(5), Next::At(1_000_000_007));
        assert_eq!(wheel.next(1_000_000_006), Next::At(1_000_000_007));
        assert!(matches!(wheel.next(1_000_000_007), Next::Due(_)));
        assert_eq!(wheel.next(u64::MAX), Next::Never);
    }

    #[test]
    fn many_at_one_time_come_as_they_were_put_in() {
        let mut wheel = Wheel::new();
        let mut nodes: Vec<_> = (0..1000).map(|_| Box::new(Node::new())).collect();
        for (tag, node) in nodes.iter_mut().enumerate() {
            node.tag = tag as u32;
            // SAFETY: `nodes` outlive the wheel.
            unsafe { wheel.insert(&raw mut **node, 1 << 40, 7) };
        }
        let (due, next) = due(&mut wheel, 1 << 40);
        assert!(due.iter().map(|(_, tag)| *tag).eq(0..1000));
        assert_eq!(next, None);
    }

    #[test]
    fn a_clock_that_is_set_back_makes_nothing_due() {
        let mut wheel = Wheel::new();
        let mut nodes: Vec<_> = (0..100).map(|_| Box::new(Node::new())).collect();
        for (tag, node) in nodes.iter_mut().enumerate() {
            node.tag = tag as u32;
            // SAFETY: `nodes` outlive the wheel.
            unsafe { wheel.insert(&raw mut **node, 1000 + tag as u64, 0) };
        }
        assert_eq!(due(&mut wheel, 1049).0.len(), 50);
        assert!(wheel.is_ahead_of(100));
        wheel.turn_back(100);
        assert!(!wheel.is_ahead_of(100));
        assert_eq!(due(&mut wheel, 1049), (Vec::new(), Some(1050)));
        assert_eq!(due(&mut wheel, 2000).0.len(), 50);
    }
}
