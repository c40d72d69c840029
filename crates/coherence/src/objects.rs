//! Names of memory: which object, and which of its fields, is at an address.
//!
//! Each thread of the host has names of its own, so that objects that are made before a simulation can be named, too.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

/// A part of an object.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Field {
    /// The offset of its first byte.
    pub offset: usize,
    /// Its size in bytes.
    pub bytes: usize,
    /// Its name.
    pub name: &'static str,
}

/// The object and the field at an address.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Place {
    /// The object.
    pub object: &'static str,
    /// The field; empty if none was named.
    pub field: &'static str,
    /// The offset of the field, or of the access if no field was named.
    pub offset: usize,
}

/// The name of objects that were not named.
pub const UNNAMED: &str = "(unnamed)";

struct Range {
    end: usize,
    bytes: usize,
    name: &'static str,
    fields: &'static [Field],
}

thread_local! {
    static NAMES: RefCell<BTreeMap<usize, Range>> = const { RefCell::new(BTreeMap::new()) };
    static CHANGES: Cell<u64> = const { Cell::new(0) };
}

/// Names `count` adjacent objects of `bytes` bytes each, the first of them at `address`. Earlier names there are
/// forgotten.
pub fn name(address: usize, bytes: usize, count: usize, name: &'static str, fields: &'static [Field]) {
    if bytes == 0 || count == 0 {
        return;
    }
    let end = address.saturating_add(bytes.saturating_mul(count));
    forget(address, end);
    crate::current::uncounted(|| {
        NAMES.with_borrow_mut(|names| names.insert(address, Range { end, bytes, name, fields }));
        note_change();
    });
}

/// Forgets all names. Objects of the next simulation may be at addresses where others were.
pub fn forget_all() {
    forget(0, usize::MAX);
}

/// Forgets the names between two addresses: all objects that begin there, and an array that reaches in.
pub fn forget(from: usize, to: usize) {
    crate::current::uncounted(|| {
        NAMES.with_borrow_mut(|names| {
            if names.is_empty() {
                return;
            }
            let before = names.len();
            let reaches_in = names.range(..from).next_back().filter(|(_, range)| range.end > from);
            if let Some(start) = reaches_in.map(|(start, _)| *start) {
                names.remove(&start);
            }
            while let Some(start) = names.range(from..to).next().map(|(start, _)| *start) {
                names.remove(&start);
            }
            if names.len() < before {
                note_change();
            }
        });
    });
}

/// The number of times that names have been given or forgotten. While it stays the same, [`at`] gives the same answers.
pub(crate) fn changes() -> u64 {
    CHANGES.get()
}

fn note_change() {
    CHANGES.set(CHANGES.get() + 1);
}

/// The object and the field at `address`. Without a name, the offset is that in the cache line.
#[must_use]
pub fn at(address: usize) -> Place {
    NAMES.with_borrow(|names| {
        let Some((start, range)) = names.range(..=address).next_back().filter(|(_, range)| address < range.end) else {
            return Place { object: UNNAMED, field: "", offset: address % 64 };
        };
        let offset = (address - start) % range.bytes;
        let holds = |field: &&Field| (field.offset..field.offset + field.bytes.max(1)).contains(&offset);
        match range.fields.iter().find(holds) {
            Some(field) => Place { object: range.name, field: field.name, offset: field.offset },
            None => Place { object: range.name, field: "", offset },
        }
    })
}
