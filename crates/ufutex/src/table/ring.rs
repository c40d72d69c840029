//! The waiters of a key: a ring in wake order, which begins with the key's head.
//!
//! Waiters are sorted by priority, and those of one priority, a *level*, by arrival. Nearly all rings have one level. If there
//! are several, of at most 101, the last waiters of the levels form a list, along which a new waiter's place is found: `left`
//! links to the level that is woken before, `right` to the level after. A head uses these pointers for the tree, so it is never
//! in the list: if it is the only waiter of the first level, the list begins with the second.
//!
//! # Safety
//! The caller of each function holds the lock of the bucket that the ring is in, so the ring's nodes are valid and
//! their links belong to the caller. A node that joins the ring belongs to the caller. `head` begins the ring.

use core::ptr;

use super::node::{Node, links};

/// Whether all waiters of the ring have the priority of `node`.
#[inline(always)]
pub unsafe fn is_of_one_level(head: *mut Node, node: *mut Node) -> bool {
    // SAFETY: the nodes of a ring are valid.
    unsafe {
        let (h, priority) = (links(head), (*links(node)).priority);
        (*h).priority == priority && (*links((*h).prev)).priority == priority
    }
}

/// Inserts `node`, which has no better priority than `head`, behind the waiters that have its priority or a better one.
pub unsafe fn insert(head: *mut Node, node: *mut Node) {
    // SAFETY: the nodes of a ring are valid.
    unsafe {
        let next = if is_of_one_level(head, node) { head } else { enter_level(head, (*links(head)).prev, node) };
        link_before(node, next);
    }
}

/// Enters `node` in the list of levels. Returns the waiter before which it has to be linked in the ring.
unsafe fn enter_level(head: *mut Node, tail: *mut Node, node: *mut Node) -> *mut Node {
    // SAFETY: the nodes of a ring are valid, and so is the list of levels where there are several.
    unsafe {
        let priority = (*links(node)).priority;
        if tail != head && (*links(tail)).priority == (*links(head)).priority {
            (*links(tail)).left = ptr::null_mut(); // `tail` begins the list
        }
        // At the end `at` is the last waiter that stands before `node`, and `later` the last waiter of the level behind.
        let (mut at, mut later) = (tail, ptr::null_mut());
        while (*links(at)).priority > priority {
            later = at;
            at = (*links(at)).left;
            if at.is_null() {
                at = head;
            }
        }
        let earlier = if at == head {
            ptr::null_mut()
        } else if (*links(at)).priority == priority {
            (*links(at)).left
        } else {
            at
        };
        join_levels(earlier, node);
        join_levels(node, later);
        (*links(at)).next
    }
}

/// Links `node`, which has a better priority, before `head`. `node` has already replaced `head` in the tree.
pub unsafe fn push_front(head: *mut Node, node: *mut Node) {
    // SAFETY: the nodes of a ring are valid, and so is the list of levels where there are several.
    unsafe {
        let (l, tail) = (links(head), (*links(head)).prev);
        if (*links(tail)).priority == (*l).priority {
            // There was one level. Its last waiter becomes the only entry of the list of levels.
            join_levels(ptr::null_mut(), tail);
            join_levels(tail, ptr::null_mut());
        } else if is_last_of_level(head) {
            // The old head was the only waiter of its level. It is no longer a head, so it enters the list.
            let mut second = tail;
            while !(*links(second)).left.is_null() {
                second = (*links(second)).left;
            }
            (*l).left = ptr::null_mut();
            join_levels(head, second);
        }
        link_before(node, head);
    }
}

/// Takes `node`, which is not alone, out of its ring. If it is the head, the next waiter becomes the head, and the caller has
/// to put that waiter into the tree.
#[inline(always)]
pub unsafe fn remove(node: *mut Node) {
    // SAFETY: the nodes of a ring are valid.
    unsafe {
        let l = links(node);
        let (prev, next, priority) = ((*l).prev, (*l).next, (*l).priority);
        // Within a level, the list of levels does not change.
        if (*links(prev)).priority != priority || (*links(next)).priority != priority {
            leave_level(node);
        }
        link(prev, next);
    }
}

/// Takes `node` out of the list of levels if it is in it; another waiter of its level may take its place there. If `node` is
/// the head, the next waiter leaves the list instead, because it becomes the head.
#[cold]
#[inline(never)]
unsafe fn leave_level(node: *mut Node) {
    // SAFETY: the nodes of a ring are valid, and so is the list of levels where there are several.
    unsafe {
        let l = links(node);
        let (prev, next, priority) = ((*l).prev, (*l).next, (*l).priority);
        if (*l).is_head {
            if is_last_of_level(next) {
                join_levels(ptr::null_mut(), (*links(next)).right);
            }
        } else if is_last_of_level(node) {
            let (earlier, later) = ((*l).left, (*l).right);
            if (*links(prev)).priority == priority && !(*links(prev)).is_head {
                join_levels(earlier, prev);
                join_levels(prev, later);
            } else {
                join_levels(earlier, later);
            }
        }
    }
}

/// Whether `node` is the last waiter of its level, in a ring of several levels.
unsafe fn is_last_of_level(node: *mut Node) -> bool {
    // SAFETY: the nodes of a ring are valid.
    unsafe { (*links((*links(node)).next)).priority != (*links(node)).priority }
}

/// The first waiter behind those that have the priority of `node`, or null. It walks along levels, not waiters.
pub unsafe fn after_level(head: *mut Node, node: *mut Node) -> *mut Node {
    // SAFETY: the nodes of a ring are valid, and so is the list of levels where there are several.
    unsafe {
        let priority = (*links(node)).priority;
        let mut end = (*links(head)).prev;
        if (*links(end)).priority == priority {
            return ptr::null_mut();
        }
        loop {
            let earlier = (*links(end)).left;
            if earlier.is_null() {
                return (*links(head)).next; // the first level is the head alone, so it is not in the list
            }
            if (*links(earlier)).priority == priority {
                return (*links(earlier)).next;
            }
            end = earlier;
        }
    }
}

/// Makes `later` follow `earlier` in the list of levels. Null stands for the beginning or the end of the list.
unsafe fn join_levels(earlier: *mut Node, later: *mut Node) {
    // SAFETY: both are null or nodes of the ring.
    unsafe {
        if !earlier.is_null() {
            (*links(earlier)).right = later;
        }
        if !later.is_null() {
            (*links(later)).left = earlier;
        }
    }
}

/// At the end of the ring, `next` is the head.
#[inline(always)]
pub unsafe fn link_before(node: *mut Node, next: *mut Node) {
    // SAFETY: the nodes of a ring are valid.
    unsafe {
        link((*links(next)).prev, node);
        link(node, next);
    }
}

#[inline(always)]
pub unsafe fn link(prev: *mut Node, next: *mut Node) {
    // SAFETY: both are nodes of the ring.
    unsafe {
        (*links(prev)).next = next;
        (*links(next)).prev = prev;
    }
}
