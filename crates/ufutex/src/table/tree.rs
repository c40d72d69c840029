//! The keys of a bucket's queue: a search tree of their heads, ordered by space, hash and address.
//!
//! It is a treap: no head stands above a heavier one. A head's weight is computed from its key and hash, and is unrelated to
//! the order of keys, so the tree is as deep as one with random weights: a search passes 2 ln n heads on average. Hashes are
//! secret: a guest can choose addresses, but knows neither the order nor the weights.
//!
//! By this order a mover passes only the keys that it moves, and a walk can go on behind a key that has been removed meanwhile.
//!
//! Nodes have no pointer to their parent: a search remembers the *slot* that refers to a node, to remove or replace it by.
//!
//! # Safety
//! The caller of each function holds the lock of the bucket that the tree is in, so its heads are valid and their links belong
//! to the caller. A slot belongs to the tree. A node that joins the tree belongs to the caller, and is in no tree.

use core::ptr;

use super::hash::TableKey;
use super::node::{Node, links};

/// A pointer to a head, or to null where a head could be inserted: the root, or a child pointer of the head above.
pub type HeadSlot = *mut *mut Node;

#[derive(Clone, Copy)]
pub struct Position {
    pub key: TableKey,
    pub hash: u32,
}

impl Position {
    /// # Safety
    /// `node` is valid and its fields belong to the caller.
    pub unsafe fn of(node: *mut Node) -> Self {
        // SAFETY: the caller guarantees it.
        unsafe { Self { key: (*links(node)).key, hash: (*links(node)).hash } }
    }

    /// The upper half of the product depends on all bits of both factors. By the address the words of one line, and keys with
    /// equal hashes, have different weights.
    pub fn weight(self) -> u32 {
        ((u64::from(self.hash) ^ self.key.address).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
    }

    pub fn is_before(self, other: Self) -> bool {
        let order = |Self { key, hash }: Self| (key.space, hash, key.address);
        order(self) < order(other)
    }
}

/// The child slot of `head` in whose subtree `position` belongs; `None` if `position` is that of `head` itself.
#[inline(always)]
unsafe fn child_towards(head: *mut Node, position: Position) -> Option<HeadSlot> {
    // SAFETY: the heads of a tree are valid.
    unsafe {
        let (l, at) = (links(head), Position::of(head));
        if at.hash == position.hash && at.key == position.key {
            None
        } else if position.is_before(at) {
            Some(&raw mut (*l).left)
        } else {
            Some(&raw mut (*l).right)
        }
    }
}

/// The slot that refers to the head of this key, or holds null if the key has none.
#[inline(always)]
pub unsafe fn find(root: HeadSlot, key: TableKey, hash: u32) -> HeadSlot {
    // SAFETY: the heads of a tree are valid.
    unsafe {
        if (*root).is_null() || ((*links(*root)).key == key && (*links(*root)).hash == hash) {
            root
        } else {
            find_below(root, key, hash)
        }
    }
}

#[inline(never)]
unsafe fn find_below(root: HeadSlot, key: TableKey, hash: u32) -> HeadSlot {
    let mut slot = root;
    // SAFETY: the heads of a tree are valid.
    unsafe {
        while !(*slot).is_null()
            && let Some(child) = child_towards(*slot, Position { key, hash })
        {
            slot = child;
        }
    }
    slot
}

/// As [`find`] for the key of `node`. If the key has no head, inserts `node` as its head and returns `None`.
pub unsafe fn find_or_insert(root: HeadSlot, node: *mut Node) -> Option<HeadSlot> {
    // SAFETY: the heads of a tree are valid; `node` belongs to the caller.
    unsafe {
        let position = Position::of(node);
        let mut slot = root;
        // The first slot whose head is lighter than `node`. If the key is not found further down, `node` is inserted there.
        let mut place: HeadSlot = ptr::null_mut();
        while !(*slot).is_null() {
            let Some(child) = child_towards(*slot, position) else { return Some(slot) };
            if place.is_null() && Position::of(*slot).weight() < position.weight() {
                place = slot;
            }
            slot = child;
        }
        // The subtree at `place`, whose head is lighter, is split: heads before `node` go to its left, the others to its right.
        let place = if place.is_null() { slot } else { place };
        let l = links(node);
        let mut rest = core::mem::replace(&mut *place, node);
        (*l).is_head = true;
        let (mut before, mut behind) = (&raw mut (*l).left, &raw mut (*l).right);
        while !rest.is_null() {
            if Position::of(rest).is_before(position) {
                *before = rest;
                before = &raw mut (*links(rest)).right;
                rest = *before;
            } else {
                *behind = rest;
                behind = &raw mut (*links(rest)).left;
                rest = *behind;
            }
        }
        *before = ptr::null_mut();
        *behind = ptr::null_mut();
        None
    }
}

#[inline(always)]
pub unsafe fn remove(slot: HeadSlot) {
    // SAFETY: the heads of a tree are valid.
    unsafe {
        let l = links(*slot);
        (*l).is_head = false;
        if (*l).left.is_null() && (*l).right.is_null() {
            *slot = ptr::null_mut();
        } else {
            merge(slot, (*l).left, (*l).right);
        }
    }
}

/// Joins two trees and puts the result into `slot`. All heads of `before` come before all heads of `behind`.
#[inline(never)]
unsafe fn merge(mut slot: HeadSlot, mut before: *mut Node, mut behind: *mut Node) {
    // SAFETY: the heads of a tree are valid.
    unsafe {
        while !before.is_null() && !behind.is_null() {
            if Position::of(before).weight() < Position::of(behind).weight() {
                *slot = behind;
                slot = &raw mut (*links(behind)).left;
                behind = *slot;
            } else {
                *slot = before;
                slot = &raw mut (*links(before)).right;
                before = *slot;
            }
        }
        *slot = if before.is_null() { behind } else { before };
    }
}

/// Replaces the head that `slot` refers to by `new`, a waiter of the same key.
#[inline(always)]
pub unsafe fn replace(slot: HeadSlot, new: *mut Node) {
    // SAFETY: the heads of a tree are valid.
    unsafe {
        let (old, l) = (links(*slot), links(new));
        (*l).left = (*old).left;
        (*l).right = (*old).right;
        (*l).is_head = true;
        (*old).is_head = false;
        *slot = new;
    }
}

/// The first head, in the tree's order, whose position `is_wanted`, as all behind it are.
pub unsafe fn first_with(root: *mut Node, is_wanted: impl Fn(Position) -> bool) -> *mut Node {
    let (mut head, mut first) = (root, ptr::null_mut());
    while !head.is_null() {
        // SAFETY: the heads of a tree are valid.
        unsafe {
            if is_wanted(Position::of(head)) {
                first = head;
                head = (*links(head)).left;
            } else {
                head = (*links(head)).right;
            }
        }
    }
    first
}
