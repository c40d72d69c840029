//! Compares queues with a simple model, and checks every link after every step.
//!
//! Promise: short holds

use super::*;
use std::boxed::Box;
use std::collections::{BTreeMap, HashMap};
use std::vec::Vec;

use crate::table::bucket::Bucket;
use crate::table::hash::Hasher;
use crate::table::node::Links;

fn new_bucket() -> Box<Bucket> {
    // SAFETY: all zeroes are a bucket.
    let bucket: Box<Bucket> = Box::new(unsafe { core::mem::zeroed() });
    bucket.make_live();
    bucket
}

fn lock(bucket: &Bucket) -> Guard<'_> {
    bucket.lock_to_move().expect("it is live")
}

#[repr(C)]
struct Item {
    // The first field, so that a pointer to the node is a pointer to the item.
    node: Node,
    id: usize,
}

fn id_of(node: NonNull<Node>) -> usize {
    // SAFETY: the nodes of these tests are items, and live until the end of the test.
    unsafe { (*node.cast::<Item>().as_ptr()).id }
}

/// A copy of a node's fields.
fn fields(node: NonNull<Node>) -> Links {
    // SAFETY: the test has one thread, and plain fields can be copied.
    unsafe { links(node.as_ptr()).read() }
}

fn set_priority(node: NonNull<Node>, priority: u8) {
    // SAFETY: the test has one thread.
    unsafe { (*links(node.as_ptr())).priority = priority };
}

fn is_marker(node: NonNull<Node>) -> bool {
    fields(node).is_marker
}

/// Owns the nodes of a test.
#[derive(Default)]
struct Items(Vec<NonNull<Item>>);

impl Items {
    fn make(&mut self, position: Position, priority: u8) -> NonNull<Node> {
        self.keep(Node::new(position.key, position.hash, priority))
    }

    fn make_marker(&mut self, position: Position) -> NonNull<Node> {
        self.keep(Node::marker(position.key, position.hash))
    }

    fn keep(&mut self, node: Node) -> NonNull<Node> {
        let item = Item { node, id: self.0.len() };
        // SAFETY: a box is not null.
        let item = unsafe { NonNull::new_unchecked(Box::into_raw(Box::new(item))) };
        self.0.push(item);
        item.cast()
    }
}

impl Drop for Items {
    fn drop(&mut self) {
        for item in &self.0 {
            // SAFETY: the pointer is from `into_raw`, and is not used again.
            drop(unsafe { Box::from_raw(item.as_ptr()) });
        }
    }
}

/// xorshift64*.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    fn below(&mut self, n: usize) -> usize {
        self.next() as usize % n
    }
}

/// What a queue contains: by space, hash and address, the IDs of the waiters in wake order.
type Shown = Vec<((u64, u32, u64), Vec<usize>)>;

fn shown(queue: &Guard<'_>) -> Shown {
    let mut shown = Shown::new();
    queue.for_each_key(|key, hash, waiters| {
        shown.push(((key.space, hash, key.address), waiters.map(id_of).collect()));
    });
    shown
}

type Order = (u64, u32, u64);

fn order(Position { key, hash }: Position) -> Order {
    (key.space, hash, key.address)
}

fn position_of(node: NonNull<Node>) -> Position {
    // SAFETY: the test has one thread.
    unsafe { Position::of(node.as_ptr()) }
}

/// Checks all heads, from the root down: their order, weights and number. Returns the heads, and the depth of the tree.
fn check_tree(queue: &Guard<'_>) -> (Vec<NonNull<Node>>, usize) {
    // SAFETY: the guard has the lock.
    let BucketQueue { root, keys } = unsafe { &*queue.queue() };
    let (mut heads, mut deepest) = (Vec::new(), 0);
    let all = (0, 0, 0)..=(u64::MAX, u32::MAX, u64::MAX);
    let mut left: Vec<_> = NonNull::new(*root).map(|root| (root, 1, all, u32::MAX)).into_iter().collect();
    while let Some((head, depth, range, heaviest)) = left.pop() {
        let (l, at) = (fields(head), order(position_of(head)));
        let weight = position_of(head).weight();
        assert!(
            l.is_head && range.contains(&at) && weight <= heaviest,
            "{at:?} in {range:?}, {weight} under {heaviest}"
        );
        deepest = deepest.max(depth);
        heads.push(head);
        left.extend(NonNull::new(l.left).map(|child| (child, depth + 1, *range.start()..=at, weight)));
        left.extend(NonNull::new(l.right).map(|child| (child, depth + 1, at..=*range.end(), weight)));
    }
    assert_eq!(*keys as usize, heads.len());
    heads.sort_by_key(|&head| order(position_of(head)));
    (heads, deepest)
}

/// Checks all links of a ring and of its levels. Returns the IDs in wake order.
fn check_ring(head: NonNull<Node>, queue: &Guard<'_>) -> Vec<usize> {
    let mut ring = Vec::from([head]);
    while let Some(next) = NonNull::new(fields(ring[ring.len() - 1]).next).filter(|&next| next != head) {
        ring.push(next);
    }
    let mut ends = Vec::new();
    for (i, &node) in ring.iter().enumerate() {
        let next = ring[(i + 1) % ring.len()];
        // SAFETY: valid, and the test has one thread.
        assert_eq!(unsafe { node.as_ref() }.bucket(), queue.bucket().address());
        assert_eq!(fields(next).prev, node.as_ptr());
        assert_eq!(order(position_of(node)), order(position_of(head)));
        assert_eq!(fields(node).is_head, node == head);
        assert!(next == head || fields(node).priority <= fields(next).priority);
        let is_last = next == head || fields(node).priority != fields(next).priority;
        if is_last && node != head {
            ends.push(node);
        }
    }
    if fields(head).priority != fields(ring[ring.len() - 1]).priority {
        let at = |i: usize| ends.get(i).map_or(ptr::null_mut(), |end| end.as_ptr());
        for (i, &end) in ends.iter().enumerate() {
            assert_eq!(fields(end).left, at(i.wrapping_sub(1)), "level {i} of {}", ends.len());
            assert_eq!(fields(end).right, at(i + 1), "level {i} of {}", ends.len());
        }
    }
    ring.into_iter().map(id_of).collect()
}

/// A waiter or a marker in the model.
struct Waiting {
    at: Order,
    priority: u8,
    queue: usize,
    node: NonNull<Node>,
}

/// Two queues, and a plain list of their waiters.
struct World {
    buckets: [Box<Bucket>; 2],
    /// Sorted by queue, key and wake order.
    model: Vec<Waiting>,
    items: Items,
    positions: Vec<Position>,
    priorities: Vec<u8>,
    random: Random,
}

impl World {
    fn new(seed: u64, keys: usize, levels: usize) -> Self {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let hasher = Hasher::new(seed);
        let positions = (0..keys as u64)
            .map(|i| {
                // Some are the key before, on another node.
                let (of, node) = if i % 3 == 2 { (i - 1, 1) } else { (i, 0) };
                let key = TableKey { address: 4 * of, space: 4 * (of % 3) };
                let hash = hasher.hash(key.address, hasher.salt(key.space)).bits & !1 | node;
                // Some keys have equal hashes, in one space and in several.
                Position { key, hash: if of % 4 == 0 { hash & 0x8000_0001 } else { hash } }
            })
            .collect();
        let priorities = (0..levels).map(|_| random.below(101) as u8).collect();
        Self {
            buckets: [new_bucket(), new_bucket()],
            model: Vec::new(),
            items: Items::default(),
            positions,
            priorities,
            random,
        }
    }

    fn any_position(&mut self) -> Position {
        self.positions[self.random.below(self.positions.len())]
    }

    fn arrive(&mut self, node: NonNull<Node>, queue: usize) {
        let (at, priority) = (order(position_of(node)), fields(node).priority);
        self.model.push(Waiting { at, priority, queue, node });
        // A stable sort: waiters that came first stay first.
        self.model.sort_by_key(|w| (w.queue, w.at, w.priority));
    }

    /// The waiters of a key in wake order, and its markers.
    fn waiters(&self, queue: usize, at: Order) -> Vec<NonNull<Node>> {
        self.model.iter().filter(|w| w.queue == queue && w.at == at).map(|w| w.node).collect()
    }

    fn forget(&mut self, nodes: &[NonNull<Node>]) {
        self.model.retain(|w| !nodes.contains(&w.node));
    }

    fn check(&mut self) {
        for (queue, bucket) in self.buckets.iter().enumerate() {
            let guard = lock(bucket);
            assert_eq!(guard.waiters() as usize, self.model.iter().filter(|w| w.queue == queue).count());
            let mut expected = BTreeMap::<Order, Vec<usize>>::new();
            self.model.iter().filter(|w| w.queue == queue).for_each(|w| {
                expected.entry(w.at).or_default().push(id_of(w.node));
            });
            let expected: Shown = expected.into_iter().collect();
            let (heads, _) = check_tree(&guard);
            let found: Shown = heads.iter().map(|&head| (order(position_of(head)), check_ring(head, &guard))).collect();
            assert_eq!(found, expected);
            let markers: Vec<usize> =
                self.model.iter().map(|w| w.node).filter(|&node| is_marker(node)).map(id_of).collect();
            let mut without = expected;
            without.iter_mut().for_each(|(_, waiters)| waiters.retain(|id| !markers.contains(id)));
            without.retain(|(_, waiters)| !waiters.is_empty());
            assert_eq!(shown(&guard), without);
        }
    }

    fn insert(&mut self, queue: usize, node: NonNull<Node>) {
        let at = order(position_of(node));
        let is_new = self.waiters(queue, at).is_empty();
        // SAFETY: unqueued, or taken off with `take_to` for this queue.
        let answer = unsafe { lock(&self.buckets[queue]).insert(node) };
        self.arrive(node, queue);
        let mut keys: Vec<Order> = self.model.iter().filter(|w| w.queue == queue).map(|w| w.at).collect();
        keys.dedup();
        assert_eq!(answer, is_new.then_some(keys.len() as u32));
    }

    fn step(&mut self) {
        let (queue, position) = (self.random.below(2), self.any_position());
        let Position { key, hash } = position;
        match self.random.below(24) {
            0..7 => {
                let priority = self.priorities[self.random.below(self.priorities.len())];
                let node = self.items.make(position, priority);
                self.insert(queue, node);
            }
            7..11 if !self.model.is_empty() => {
                let Waiting { queue, node, .. } = self.model[self.random.below(self.model.len())];
                // SAFETY: queued there.
                unsafe { lock(&self.buckets[queue]).remove(node) };
                self.forget(&[node]);
                // SAFETY: valid.
                assert!(unsafe { node.as_ref() }.bucket().is_null());
            }
            11..13 if !self.model.is_empty() => {
                let Waiting { queue, node, .. } = self.model[self.random.below(self.model.len())];
                if is_marker(node) {
                    return;
                }
                // SAFETY: queued there, and inserted at once.
                unsafe { lock(&self.buckets[queue]).take_to(node, key, hash) };
                self.forget(&[node]);
                let to = self.random.below(2);
                self.insert(to, node);
            }
            13..15 => self.take(queue, position),
            15 => self.look(queue, position),
            16 => {
                let head = lock(&self.buckets[queue]).any_head();
                assert_eq!(head.is_none(), self.model.iter().all(|w| w.queue != queue));
                let Some((head, hash)) = head else { return };
                assert!(fields(head).is_head && fields(head).hash == hash);
                self.pass(queue, head);
            }
            17..19 => {
                let (from, most) = (self.any_position().hash, self.random.below(6));
                let hashes = from.min(hash)..=from.max(hash);
                for _ in 0..most {
                    let head = lock(&self.buckets[queue]).first_in(key.space, hashes.clone());
                    let is_wanted = |w: &&Waiting| w.queue == queue && w.at.0 == key.space && hashes.contains(&w.at.1);
                    assert_eq!(head, self.model.iter().find(is_wanted).map(|w| w.node));
                    let Some(head) = head else { return };
                    self.pass(queue, head);
                    self.check();
                }
            }
            19..23 => self.walk(queue, position),
            _ => {}
        }
    }

    /// Decides at random what happens to each waiter: it is taken, is passed over, or stops the walk.
    fn any_pick(&mut self) -> impl Fn(NonNull<Node>) -> Pick + Copy + use<> {
        let (skips, stops) = (self.random.next(), self.random.below(4) == 0);
        move |node| match (skips >> (id_of(node) % 48)) & 1 {
            _ if is_marker(node) => Pick::Skip,
            0 => Pick::Take,
            _ if stops => Pick::Stop,
            _ => Pick::Skip,
        }
    }

    /// One piece of a walk. It resumes a walk if there is a marker for this position, and begins one otherwise.
    fn walk(&mut self, queue: usize, position: Position) {
        let (pick, limit, most) = (self.any_pick(), self.random.below(4), self.random.below(5));
        let all = self.waiters(queue, order(position));
        let marker = all.iter().copied().find(|&node| is_marker(node) && self.random.below(2) == 0);
        let from = marker.map_or(0, |marker| all.iter().position(|&node| node == marker).expect("it is there") + 1);
        let mut left = all[from..].iter().copied().filter(|&node| !is_marker(node));
        let marker = marker.unwrap_or_else(|| self.items.make_marker(position));
        // SAFETY: a marker that is queued in this queue or in none.
        let mut next = unsafe { lock(&self.buckets[queue]).resume(marker) };
        // SAFETY: valid.
        assert!(unsafe { marker.as_ref() }.bucket().is_null());
        let mut expected = Vec::new();
        let (mut expected_next, mut looked) = (left.next(), 0);
        assert_eq!(next, expected_next);
        self.forget(&[marker]);
        if let Some(first) = next {
            while let Some(node) = expected_next
                && expected.len() < limit
                && looked < most
            {
                looked += 1;
                expected_next = left.next();
                match pick(node) {
                    Pick::Take => expected.push(node),
                    Pick::Skip => {}
                    Pick::Stop => expected_next = None,
                }
            }
            // SAFETY: queued there.
            let (mut taken, after) =
                unsafe { lock(&self.buckets[queue]).take_from(first, Most { taken: limit, visited: most }, pick) };
            next = after;
            assert_eq!(core::iter::from_fn(|| taken.pop()).collect::<Vec<_>>(), expected);
        }
        assert_eq!(next, expected_next);
        self.forget(&expected);
        let Some(next) = next else { return };
        let place = self.model.iter().position(|w| w.node == next).expect("it waits");
        let is_first = self.waiters(queue, order(position))[0] == next;
        // SAFETY: the marker is unqueued, and `next` queued there.
        unsafe { lock(&self.buckets[queue]).pause(marker, next) };
        // SAFETY: valid.
        assert_eq!(unsafe { marker.as_ref() }.bucket().is_null(), is_first);
        if !is_first {
            let Waiting { at, priority, .. } = self.model[place];
            self.model.insert(place, Waiting { at, priority, queue, node: marker });
        }
    }

    fn take(&mut self, queue: usize, position: Position) {
        let (pick, limit) = (self.any_pick(), self.random.below(5));
        let mut expected = Vec::new();
        let mut was_stopped = false;
        for node in self.waiters(queue, order(position)).into_iter().filter(|&node| !is_marker(node)) {
            if expected.len() == limit {
                break;
            }
            match pick(node) {
                Pick::Take => expected.push(node),
                Pick::Skip => {}
                Pick::Stop => {
                    was_stopped = true;
                    break;
                }
            }
        }
        let mut taken = lock(&self.buckets[queue]).take(position.key, position.hash, limit, pick);
        assert_eq!((taken.len(), taken.was_stopped), (expected.len(), was_stopped));
        // SAFETY: valid.
        assert!(expected.iter().all(|node| unsafe { node.as_ref() }.bucket().is_null()));
        assert_eq!(core::iter::from_fn(|| taken.pop()).collect::<Vec<_>>(), expected);
        self.forget(&expected);
    }

    fn look(&mut self, queue: usize, position: Position) {
        let waiters = self.waiters(queue, order(position));
        let limit = 1 + self.random.below(6);
        let q = lock(&self.buckets[queue]);
        let count = waiters.iter().filter(|&&node| !is_marker(node)).count();
        assert_eq!(q.count(position.key, position.hash, limit), count.min(limit));
        assert_eq!(q.head(position.key, position.hash), waiters.first().copied());
        let mut next = q.first(position.key, position.hash);
        for node in waiters.into_iter().filter(|&node| !is_marker(node)) {
            assert_eq!(next, Some(node));
            // SAFETY: queued there.
            next = unsafe { q.after(node) };
        }
        assert_eq!(next, None);
        for inclusive in [false, true] {
            let is_wanted = |at: &Order| *at > order(position) || inclusive && *at == order(position);
            let expected = self.model.iter().filter(|w| w.queue == queue).map(|w| w.at).find(is_wanted);
            let found = q.first_with(|at| if inclusive { !at.is_before(position) } else { position.is_before(at) });
            assert_eq!(found.map(|head| order(position_of(head))), expected);
        }
    }

    /// Moves a waiter or a marker to one of the two queues, as a mover does.
    fn pass(&mut self, from: usize, node: NonNull<Node>) {
        let Position { key, hash } = position_of(node);
        // SAFETY: queued there, and inserted at once.
        unsafe { lock(&self.buckets[from]).take_to(node, key, hash) };
        // SAFETY: valid.
        assert_eq!(unsafe { node.as_ref() }.bucket(), self.buckets[from].address(), "it still looks queued");
        self.forget(&[node]);
        self.check();
        let to = self.random.below(2);
        self.insert(to, node);
    }
}

#[test]
fn queues_do_what_a_plain_list_does_and_every_link_is_right() {
    let (seeds, steps) = if cfg!(miri) { (6, 60) } else { (120, 400) };
    for seed in 0..seeds {
        let (keys, levels) = [(1, 1), (1, 2), (1, 5), (3, 3), (30, 2), (12, 60)][seed as usize % 6];
        let mut world = World::new(seed, keys, levels);
        for _ in 0..steps {
            world.step();
            world.check();
        }
    }
}

fn position(space: u64, hash: u32, address: u64) -> Position {
    Position { key: TableKey { address, space }, hash }
}

/// Checks that a queue of these keys, with one waiter each, is at most `limit` deep.
fn check_depth(what: &str, limit: usize, positions: impl IntoIterator<Item = Position>) {
    let (mut items, bucket) = (Items::default(), new_bucket());
    let mut queue = lock(&bucket);
    for position in positions {
        let node = items.make(position, 100);
        // SAFETY: fresh.
        unsafe { queue.insert(node) };
    }
    let (heads, depth) = check_tree(&queue);
    assert_eq!(heads.len(), items.0.len(), "{what}");
    assert!(depth <= limit, "{what}: {} keys are {depth} deep", heads.len());
}

const MANY: u64 = if cfg!(miri) { 60 } else { 100_000 };

#[test]
fn a_hundred_thousand_keys_are_at_most_64_deep() {
    let hasher = Hasher::new(1);
    let at = |space: u64, address: u64| {
        let hash = hasher.hash(address, hasher.salt(space)).bits;
        position(space, hash, address)
    };
    for stride in [4, 64, 4096, 1 << 21, 1 << 40] {
        check_depth("neighbours", 64, (0..MANY).map(|i| at(4, i * stride)));
    }
    check_depth("one address in many spaces", 64, (0..MANY).map(|i| at(4 * i, 4096)));
    let mut sorted: Vec<Position> = (0..MANY).map(|i| at(4, 4 * i)).collect();
    sorted.sort_by_key(|at| at.hash);
    check_depth("in order", 64, sorted.iter().copied());
    check_depth("in reverse order", 64, sorted.iter().rev().copied());
    sorted.sort_by_key(|at| at.weight());
    check_depth("the lightest first", 64, sorted.iter().copied());
    check_depth("the heaviest first", 64, sorted.iter().rev().copied());
    // Hashes of one bucket of one of several tables: they agree in the bits of the bucket and in the bits of the table.
    let on_node = |at: Position| Position { hash: at.hash & 0x007f_fc00 | 0x1280_0005, ..at };
    check_depth("13 bits of the hash differ", 64, sorted.iter().copied().map(on_node));
    check_depth("one hash", 64, (0..MANY).map(|i| position(4, 7, 4 * i)));
}

#[test]
fn keys_of_one_hash_are_told_apart() {
    let (mut items, bucket) = (Items::default(), new_bucket());
    let mut queue = lock(&bucket);
    let positions: Vec<Position> = (0..64).map(|i| position(4 * (i % 2), 7, 4 * i)).collect();
    for (i, &position) in positions.iter().enumerate() {
        let node = items.make(position, 100);
        // SAFETY: fresh.
        assert_eq!(unsafe { queue.insert(node) }, Some(i as u32 + 1));
    }
    check_tree(&queue);
    for (i, at) in positions.iter().enumerate() {
        assert_eq!(queue.first(at.key, at.hash).map(id_of), Some(i));
    }
}

#[test]
fn a_walk_goes_on_behind_a_key_that_has_gone() {
    let (mut items, bucket) = (Items::default(), new_bucket());
    let mut queue = lock(&bucket);
    let mut nodes = HashMap::new();
    for i in 0..100 {
        let node = items.make(position(i % 2, (i as u32).wrapping_mul(0x9e37_79b9), i), 100);
        // SAFETY: fresh.
        unsafe { queue.insert(node) };
        nodes.insert(i, node);
    }
    let mut from = position(1, 0, 0);
    let mut seen = Vec::new();
    while let Some(head) = queue.first_with(|at| from.is_before(at)) {
        from = position_of(head);
        seen.push(from.hash);
        // SAFETY: queued there.
        unsafe { queue.remove(head) };
    }
    assert_eq!(seen.len(), 50);
    assert!(seen.is_sorted());
}

#[test]
fn a_walk_in_pieces_looks_at_each_waiter_once_whoever_comes_and_goes_meanwhile() {
    let (mut items, bucket) = (Items::default(), new_bucket());
    let mut queue = lock(&bucket);
    let at = position(4, 7, 0x1000);
    let mut add = |queue: &mut Guard<'_>, priority: u8| {
        let node = items.make(at, priority);
        // SAFETY: fresh.
        unsafe { queue.insert(node) };
        node
    };
    let waiters: Vec<_> = (0..MANY).map(|i| add(&mut queue, 20 + (i * 3 / MANY) as u8)).collect();
    let marker = Box::new(Node::marker(at.key, at.hash));
    let marker = NonNull::from(&*marker);
    let mut seen = Vec::new();
    for piece in 0.. {
        // SAFETY: queued here, or in no queue.
        let Some(first) = (unsafe { queue.resume(marker) }) else { break };
        // SAFETY: queued here.
        let (taken, next) = unsafe {
            queue.take_from(first, Most { taken: usize::MAX, visited: 16 }, |node| {
                seen.push(node);
                Pick::Skip
            })
        };
        assert_eq!(taken.len(), 0);
        assert!(seen.len() <= 16 * (piece + 1));
        let Some(next) = next else { break };
        // SAFETY: unqueued, and `next` is queued here.
        unsafe { queue.pause(marker, next) };
        assert_eq!(fields(next).prev, marker.as_ptr());
        // A new waiter enters before all others, and a waiter that the walk has passed over leaves.
        add(&mut queue, 10);
        let gone = seen[16 * piece];
        // SAFETY: queued here.
        unsafe { queue.remove(gone) };
    }
    assert_eq!(seen.len(), waiters.len(), "each is looked at once");
    assert_eq!(seen, waiters);
}

#[test]
fn the_place_of_a_waiter_is_found_by_levels_and_not_by_waiters() {
    let (mut items, bucket) = (Items::default(), new_bucket());
    let mut queue = lock(&bucket);
    let at = position(4, 7, 0x1000);
    let mut add = |queue: &mut Guard<'_>, priority: u8| {
        let node = items.make(at, priority);
        // SAFETY: fresh.
        unsafe { queue.insert(node) };
        node
    };
    let better: Vec<_> = (0..100).map(|_| add(&mut queue, 10)).collect();
    let worse: Vec<_> = (0..100).map(|_| add(&mut queue, 30)).collect();
    // These waiters get misleading priorities: a search that looks at one of them takes a wrong turn, from whichever
    // end it comes.
    better[1..99].iter().for_each(|&node| set_priority(node, 255));
    worse[1..99].iter().for_each(|&node| set_priority(node, 0));
    let between = add(&mut queue, 20);
    assert_eq!(fields(between).prev, better[99].as_ptr());
    assert_eq!(fields(between).next, worse[0].as_ptr());
    better[1..99].iter().for_each(|&node| set_priority(node, 10));
    worse[1..99].iter().for_each(|&node| set_priority(node, 30));
    assert_eq!(check_ring(queue.first(at.key, at.hash).expect("it has waiters"), &queue).len(), 201);
}

#[test]
fn waiters_of_101_levels_come_out_by_priority_and_then_in_the_order_they_came() {
    let (mut items, bucket, mut random) = (Items::default(), new_bucket(), Random(9));
    let mut queue = lock(&bucket);
    let at = position(4, 7, 0x1000);
    let mut expected = Vec::new();
    for i in 0..if cfg!(miri) { 150 } else { 3000 } {
        let priority = random.below(101) as u8;
        let node = items.make(at, priority);
        // SAFETY: fresh.
        unsafe { queue.insert(node) };
        expected.push((priority, i));
        if i % 100 == 0 {
            check_ring(queue.first(at.key, at.hash).expect("it has waiters"), &queue);
        }
    }
    expected.sort_unstable();
    let mut taken = queue.take(at.key, at.hash, usize::MAX, |_| Pick::Take);
    let order: Vec<usize> = core::iter::from_fn(|| taken.pop()).map(id_of).collect();
    assert_eq!(order, expected.into_iter().map(|(_, i)| i).collect::<Vec<_>>());
    assert_eq!((check_tree(&queue).0.len(), queue.waiters()), (0, 0));
}
