//! Deadlines in order: a hierarchical timing wheel, exact to the nanosecond.
//!
//! Time is read as sixteen digits of four bits. A deadline stands at the level of the highest digit in which it differs
//! from the wheel's own time, in the slot of that digit. So inserting and removing take a few instructions however many
//! deadlines there are, and the earliest deadline is in the first slot of the lowest level in use. A slot with few
//! nodes is searched. A slot with many nodes is emptied into the levels below, a batch at a time, when its time has
//! come.
//!
//! No operation takes longer because there are more nodes: work on many nodes is done in batches, and the caller may
//! unlock the wheel between two of them ([`Next::Working`]).
//!
//! Nodes are in the memory of their owners. The wheel is behind a lock. The holder of that lock has exclusive access to
//! the nodes in the wheel.

use core::marker::PhantomPinned;
use core::ptr;

use super::clocks::LAST;
use crate::sync::MODEL;

/// Bits of a digit.
const DIGIT: u32 = 4;
const SLOTS: usize = 1 << DIGIT;
/// In a model the clocks end early, and the wheel fits on the small stacks of its threads.
const LEVELS: usize = if MODEL { LAST.count_ones().div_ceil(DIGIT) as usize } else { (u64::BITS / DIGIT) as usize };
/// A slot with more nodes than this is not searched for its earliest node.
const FEW: usize = 16;
/// The number of nodes that move down a level before the wheel's lock may change hands.
const BATCH: usize = 64;

/// Two rings after all slots. One contains the nodes that are held back until the turn is done. The other contains
/// nodes to be placed, because they were held back before or the clock has been set back. At the end of a turn the
/// rings change roles.
const RINGS: [u16; 2] = [(LEVELS * SLOTS) as u16, (LEVELS * SLOTS) as u16 + 1];
/// A third ring: the ready line. It contains nodes whose deadlines have passed, in the order in which they are to be
/// served.
const READY: u16 = RINGS[1] + 1;
/// The bit of the first ring in `levels`.
const RING: u32 = 1 << 16;
/// The `slot` of a node that is in no wheel.
const NOWHERE: u16 = u16::MAX;

/// A place in a wheel. Its fields are guarded by the lock of the wheel.
///
/// Other nodes link to it, so it is pinned, and so is every struct that contains one. An owner may hold a `&mut` to
/// such a struct, for example in its `drop`, while neighbours access the node; because the node is not [`Unpin`], that
/// reference claims no exclusive access to it. Nodes are reached by pointers, or by shared references to cells.
pub struct Node {
    next: *mut Node,
    previous: *mut Node,
    deadline: u64,
    /// The slot or ring that the node is in, or `NOWHERE`.
    slot: u16,
    /// For the owner: the node's number among several.
    pub index: u16,
    /// For the owner: a number that it reads when the node is due.
    pub tag: u32,
    _pinned: PhantomPinned,
}

impl Node {
    pub const fn new() -> Self {
        Self::keeping::<()>(0, ptr::null_mut())
    }

    /// Makes a node that is in no wheel, with an index, and with a pointer that it [keeps](Self::keep) for the owner.
    pub const fn keeping<T>(index: u16, kept: *mut T) -> Self {
        Self {
            next: kept.cast(),
            previous: ptr::null_mut(),
            deadline: 0,
            slot: NOWHERE,
            index,
            tag: 0,
            _pinned: PhantomPinned,
        }
    }

    /// Keeps a pointer for the owner, until the node is inserted into a wheel.
    pub const fn keep<T>(&mut self, kept: *mut T) {
        self.next = kept.cast();
    }

    /// The pointer that [`keep`](Self::keep) stored.
    pub const fn kept<T>(&self) -> *mut T {
        self.next.cast()
    }

    pub const fn is_linked(&self) -> bool {
        self.slot != NOWHERE
    }

    /// Whether the node is in the ready line.
    pub const fn is_ready(&self) -> bool {
        self.slot == READY
    }

    /// The deadline with which the node was last inserted into a wheel.
    pub const fn deadline(&self) -> u64 {
        self.deadline
    }
}

/// The next step for the caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// This node was due, and has been taken out of the wheel.
    Due(*mut Node),
    /// Nothing is due before this time. Even then there may be only a slot to be emptied.
    At(u64),
    /// A batch has been moved; call again.
    Working,
    /// There are no nodes.
    Never,
}

/// A set of nodes, ordered by deadline: see the top of this file.
pub struct Wheel {
    /// The wheel's own time. No node is due before it, unless its deadline had passed already when it was inserted.
    elapsed: u64,
    /// One bit for each level that has nodes; above them, from `RING` on, one bit for each ring that has nodes.
    levels: u32,
    /// For each level, one bit for each slot that has nodes.
    slots: [u16; LEVELS],
    /// The slot that is being emptied into lower levels.
    emptied: u16,
    /// During a turn: a node that is inserted with an earlier deadline than this is held back until the turn is done. 0
    /// means that no turn is going on.
    floor: u64,
    /// The index in `RINGS` of the ring with the nodes that are held back.
    held: u8,
    /// The clock has been set back: nodes are being moved from the slots to the ring of nodes to be placed.
    gathers: bool,
    /// The first node of each slot or ring, or null. The others follow in a ring.
    first: [*mut Node; READY as usize + 1],
}

// SAFETY: the pointers are to nodes in the wheel, to which only the holder of the wheel has access.
unsafe impl Send for Wheel {}

impl Wheel {
    pub const fn new() -> Self {
        Self {
            elapsed: 0,
            levels: 0,
            slots: [0; LEVELS],
            emptied: NOWHERE,
            floor: 0,
            held: 0,
            gathers: false,
            first: [ptr::null_mut(); READY as usize + 1],
        }
    }

    pub const fn is_empty(&self) -> bool {
        self.levels == 0
    }

    const fn is_empty_in(&self, slot: u16) -> bool {
        self.first[slot as usize].is_null()
    }

    /// The ring of nodes that are held back.
    const fn held(&self) -> u16 {
        RINGS[self.held as usize]
    }

    /// The ring of nodes to be placed.
    const fn pool(&self) -> u16 {
        RINGS[1 - self.held as usize]
    }

    const fn is_settled(&self) -> bool {
        !self.gathers && self.is_empty_in(self.pool())
    }

    /// Notes that a turn began at `began`. A node that is inserted from now on with a deadline up to `began` is held
    /// back until [`release`](Self::release). Without that, a turn might never end if its callbacks armed deadlines
    /// that have passed already. Nodes that the turn before held back are available to this turn.
    pub fn hold_back(&mut self, began: u64) {
        let floor = began.saturating_add(1);
        if floor > self.floor && (self.floor == 0 || self.release()) {
            self.floor = floor;
        }
    }

    /// Ends the turn. `false` if that is not possible yet, because nodes from the turn before still have to be placed.
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

    /// Inserts `node` with `deadline`, behind other nodes with that deadline.
    ///
    /// # Safety
    /// `node` is valid and in no wheel. It stays in place until it has been taken out.
    pub unsafe fn insert(&mut self, node: *mut Node, deadline: u64, now: u64) {
        if self.is_empty() {
            // An empty wheel need not catch up with the time that has passed: start at `now`.
            self.elapsed = now;
            self.emptied = NOWHERE;
            self.gathers = false;
        }
        // SAFETY: the caller guarantees that the node is valid. It belongs to this wheel from here on.
        unsafe {
            (*node).deadline = deadline;
            if deadline < self.floor { self.link_ring(node, self.held()) } else { self.place(node) }
        }
    }

    /// Puts `node` at the end of the ready line.
    ///
    /// # Safety
    /// `node` is valid and in no wheel. It stays in place until it has been taken out.
    pub unsafe fn make_ready(&mut self, node: *mut Node) {
        // SAFETY: the caller guarantees it.
        unsafe { self.link_ring(node, READY) };
    }

    /// Takes out the first node of the ready line.
    pub fn pop_ready(&mut self) -> Option<*mut Node> {
        let first = self.first[READY as usize];
        // SAFETY: a node of this wheel, or null, which is not removed.
        (!first.is_null() && unsafe { self.remove(first) }).then_some(first)
    }

    /// Takes `node` out, if it is in this wheel. Returns whether it was.
    ///
    /// # Safety
    /// `node` is valid, and is in this wheel or in none.
    pub unsafe fn remove(&mut self, node: *mut Node) -> bool {
        // SAFETY: the caller guarantees that the node is valid. Its neighbours are in the wheel, so they are valid too.
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

    /// Takes out the earliest node, if it is due by `now`. Otherwise returns when to call again.
    pub fn next(&mut self, now: u64) -> Next {
        loop {
            if !self.settle() {
                return Next::Working;
            }
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
            // All nodes of a slot of the lowest level have one deadline, or their deadlines had passed when they were
            // inserted.
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

    /// The time to call [`next`](Self::next); `None` if there are no nodes. 0 means at once, whatever the clock shows.
    pub fn peek(&self) -> Option<u64> {
        if self.is_empty_in(self.held()) { self.peek_in_turn() } else { Some(0) }
    }

    /// As [`peek`](Self::peek), without the nodes that are held back until the turn is done.
    pub fn peek_in_turn(&self) -> Option<u64> {
        if !self.is_settled() || !self.is_empty_in(READY) {
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

    /// Notes that the clock has been set back to `now`. All nodes have to be placed again, which [`next`](Self::next)
    /// and [`settle`](Self::settle) do.
    pub fn set_back(&mut self, now: u64) {
        self.elapsed = now;
        self.emptied = NOWHERE;
        self.gathers = true;
    }

    /// Places a batch of the nodes to be placed. Returns whether all have been placed.
    pub fn settle(&mut self) -> bool {
        for _ in 0..BATCH {
            if self.is_settled() {
                return true;
            }
            let from = if self.gathers { self.first_slot() } else { Some(self.pool()) };
            let Some(from) = from else {
                self.gathers = false;
                continue;
            };
            let node = self.first[usize::from(from)];
            // SAFETY: a node of this wheel. While the wheel gathers, `place` puts the node into the pool.
            unsafe {
                self.remove(node);
                self.place(node);
            }
        }
        self.is_settled()
    }

    /// Whether the wheel's time is ahead of `now`, as it is after the clock has been set back.
    pub const fn is_ahead_of(&self, now: u64) -> bool {
        self.elapsed > now
    }

    /// # Safety
    /// `node` is valid and in no wheel.
    unsafe fn place(&mut self, node: *mut Node) {
        if self.gathers {
            // SAFETY: the caller guarantees it.
            return unsafe { self.link_ring(node, self.pool()) };
        }
        // SAFETY: the caller guarantees that the node is valid.
        let at = unsafe { (*node).deadline }.max(self.elapsed);
        let level = (at ^ self.elapsed).checked_ilog2().unwrap_or(0) / DIGIT;
        let digit = digit(at, level);
        let slot = level as usize * SLOTS + digit;
        self.levels |= 1 << level;
        self.slots[level as usize] |= 1 << digit;
        // SAFETY: the caller guarantees it.
        unsafe { self.link(node, slot as u16) };
    }

    /// # Safety
    /// As for `place`.
    unsafe fn link_ring(&mut self, node: *mut Node, ring: u16) {
        self.levels |= RING << (ring - RINGS[0]);
        // SAFETY: the caller guarantees it.
        unsafe { self.link(node, ring) };
    }

    /// # Safety
    /// As for `place`.
    unsafe fn link(&mut self, node: *mut Node, slot: u16) {
        let first = &mut self.first[usize::from(slot)];
        // SAFETY: the caller guarantees that `node` is valid. The slot's nodes are valid.
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
        if slot >= RINGS[0] {
            self.levels &= !(RING << (slot - RINGS[0]));
            return;
        }
        let (level, digit) = (usize::from(slot) / SLOTS, usize::from(slot) % SLOTS);
        self.slots[level] &= !(1 << digit);
        if self.slots[level] == 0 {
            self.levels &= !(1 << level);
        }
    }

    /// Moves a batch out of the slot that is being emptied. Returns whether the slot is empty now.
    fn empty_further(&mut self) -> bool {
        for _ in 0..BATCH {
            let node = self.first[usize::from(self.emptied)];
            if node.is_null() {
                self.emptied = NOWHERE;
                return true;
            }
            // SAFETY: a node of this wheel. It goes to a lower level, because the wheel's time has the slot's digit by
            // now.
            unsafe {
                self.remove(node);
                self.place(node);
            }
        }
        false
    }

    fn first_slot(&self) -> Option<u16> {
        (self.levels & (RING - 1) != 0).then(|| {
            let level = self.levels.trailing_zeros() as usize;
            (level * SLOTS) as u16 + self.slots[level].trailing_zeros() as u16
        })
    }

    /// The slot's earliest node, and `true`, if the slot has few nodes; of several with that deadline, the first.
    /// Otherwise the slot's first node, and `false`.
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

    /// The first moment of the time that `slot` stands for.
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

    /// The nodes that are due, in the order in which the wheel returns them, and the next time to call.
    fn due(wheel: &mut Wheel, now: u64) -> (Vec<(u64, u32)>, Option<u64>) {
        let mut due = Vec::new();
        loop {
            match wheel.next(now) {
                // SAFETY: the node is in a box that outlives the wheel.
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
    fn a_lone_deadline_is_returned_exactly() {
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

    /// The number of calls of `next` until no batch is left to be sorted, and the nodes that became due in these calls.
    fn asked(wheel: &mut Wheel, now: u64) -> (usize, Vec<u32>) {
        let (mut times, mut due) = (0, Vec::new());
        loop {
            times += 1;
            match wheel.next(now) {
                // SAFETY: the node is in a box that outlives the wheel.
                Next::Due(node) => due.push(unsafe { (*node).tag }),
                Next::Working => {}
                Next::At(_) | Next::Never => return (times, due),
            }
        }
    }

    /// Work on all nodes is done in batches, so that no thread has to wait for all of it.
    #[test]
    fn nodes_are_placed_anew_a_batch_at_a_time() {
        const NODES: usize = 100 * BATCH;
        let mut wheel = Wheel::new();
        let mut nodes: Vec<_> = (0..NODES).map(|_| Box::new(Node::new())).collect();
        for (tag, node) in nodes.iter_mut().enumerate() {
            node.tag = tag as u32;
            // SAFETY: `nodes` outlive the wheel.
            unsafe { wheel.insert(&raw mut **node, 1000 + tag as u64 * 1000, 500_000) };
        }
        wheel.set_back(999);
        assert_eq!(wheel.peek(), Some(0), "there is something to do at once");
        let (times, due_early) = asked(&mut wheel, 999);
        // Each node leaves its slot, and enters another.
        assert!(times >= 2 * NODES / BATCH, "{times} batches");
        assert_eq!((due_early, wheel.peek().is_some_and(|at| at <= 1000)), (Vec::new(), true));
        let (_, due) = asked(&mut wheel, u64::MAX >> 1);
        assert!(due.into_iter().eq(0..NODES as u32), "in order of their deadlines");
    }

    /// The nodes that go down first are the latest. Until the others have followed, nobody may sleep until those.
    #[test]
    fn slot_that_is_being_emptied_is_work_to_be_done_at_once() {
        const NODES: u64 = 3 * BATCH as u64;
        let (first, last) = (1 << 20, (1 << 20) + NODES - 1);
        let mut wheel = Wheel::new();
        let mut nodes: Vec<_> = (0..NODES).map(|_| Box::new(Node::new())).collect();
        for (node, deadline) in nodes.iter_mut().zip((first..=last).rev()) {
            // SAFETY: `nodes` outlive the wheel.
            unsafe { wheel.insert(&raw mut **node, deadline, 0) };
        }
        assert!(wheel.peek().is_some_and(|at| at <= first));
        let mut batches = 0;
        while wheel.next(first) == Next::Working {
            batches += 1;
            assert!(wheel.peek().is_some_and(|at| at <= first), "batch {batches}: {:?}", wheel.peek());
        }
        assert!(batches >= 2, "{batches} batches");
        let (due, next) = due(&mut wheel, last);
        assert!(due.into_iter().map(|(deadline, _)| deadline).eq(first + 1..=last) && next.is_none());
    }

    #[test]
    fn what_a_turn_has_held_back_is_for_the_next_and_is_placed_a_batch_at_a_time() {
        const NODES: usize = 100 * BATCH;
        let mut wheel = Wheel::new();
        let mut nodes: Vec<_> = (0..NODES).map(|_| Box::new(Node::new())).collect();
        wheel.hold_back(100);
        for (tag, node) in nodes.iter_mut().enumerate() {
            node.tag = tag as u32;
            // SAFETY: `nodes` outlive the wheel.
            unsafe { wheel.insert(&raw mut **node, 100, 100) };
        }
        assert_eq!(wheel.next(1000), Next::Never);
        assert_eq!((wheel.peek(), wheel.peek_in_turn()), (Some(0), None));
        // The turn before has not ended when the next one begins.
        wheel.hold_back(101);
        let (times, due) = asked(&mut wheel, 1000);
        assert!(times >= NODES + NODES / BATCH, "{times} times");
        assert!(due.into_iter().eq(0..NODES as u32));
        assert!(wheel.is_empty());
    }

    #[test]
    fn a_turn_that_begins_before_the_last_one_has_ended_holds_its_own_nodes_back() {
        let mut wheel = Wheel::new();
        let mut nodes: [_; 4] = core::array::from_fn(|_| Box::new(Node::new()));
        let mut insert = |wheel: &mut Wheel, tag: u32, deadline| {
            let node = &mut nodes[tag as usize];
            node.tag = tag;
            // SAFETY: `nodes` outlive the wheel.
            unsafe { wheel.insert(&raw mut **node, deadline, 100) };
        };
        wheel.hold_back(100);
        insert(&mut wheel, 0, 100);
        wheel.hold_back(200);
        insert(&mut wheel, 1, 150);
        assert_eq!(due(&mut wheel, 1000).0, [(100, 0)]);
        // The clock is set back, and before all nodes have been placed anew, the turn ends.
        wheel.set_back(50);
        insert(&mut wheel, 2, 300);
        assert!(!wheel.release(), "the node has to be placed");
        insert(&mut wheel, 3, 160);
        assert_eq!(due(&mut wheel, 1000).0, [(300, 2)]);
        assert!(wheel.release());
        assert_eq!(due(&mut wheel, 1000).0, [(150, 1), (160, 3)]);
    }

    #[test]
    fn nodes_come_and_go_while_they_are_placed_anew() {
        let mut state = 0x9876_5432_1fed_cba1;
        let mut nodes: Vec<_> = (0..1000).map(|_| Box::new(Node::new())).collect();
        let mut wheel = Wheel::new();
        let mut now = 1 << 40;
        for _ in 0..300 {
            for _ in 0..50 {
                let node: *mut Node = &raw mut *nodes[(random(&mut state) % 1000) as usize];
                // SAFETY: a node of `nodes`, which outlive the wheel.
                unsafe {
                    wheel.remove(node);
                    if !random(&mut state).is_multiple_of(4) {
                        wheel.insert(node, now + (random(&mut state) >> 40), now);
                    }
                }
            }
            now = if random(&mut state).is_multiple_of(3) { now - (random(&mut state) >> 42) } else { now + (1 << 14) };
            if wheel.is_ahead_of(now) {
                wheel.set_back(now);
            }
            // A batch or two, after which another thread may lock the wheel.
            for _ in 0..random(&mut state) % 5 {
                if let Next::Due(node) = wheel.next(now) {
                    // SAFETY: a node of `nodes`, which outlive the wheel.
                    assert!(unsafe { (*node).deadline } <= now);
                }
            }
        }
        while !wheel.settle() {}
        let mut left: Vec<u64> = nodes.iter().filter(|node| node.is_linked()).map(|node| node.deadline).collect();
        left.sort_unstable();
        let (due, _) = due(&mut wheel, u64::MAX >> 1);
        assert!(due.into_iter().map(|(deadline, _)| deadline).eq(left));
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
        wheel.set_back(100);
        assert!(!wheel.is_ahead_of(100));
        assert_eq!(due(&mut wheel, 1049), (Vec::new(), Some(1050)));
        assert_eq!(due(&mut wheel, 2000).0.len(), 50);
    }
}
