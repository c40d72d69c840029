//! Names of memory: which object and which of its fields lies at an address.
//!
//! They are kept for each thread of the host, so that what is made before a simulation can be named, too.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

/// A part of an object.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Field {
    /// Where it begins.
    pub offset: usize,
    /// How many bytes it has.
    pub bytes: usize,
    /// What it is called.
    pub name: &'static str,
}

/// What lies at an address.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Place {
    /// The object.
    pub object: &'static str,
    /// The field; empty where none was named.
    pub field: &'static str,
    /// Where the field begins, or where the access was if none was named.
    pub offset: usize,
}

/// What nobody has named.
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

/// Names `count` objects of `bytes` each that begin at `address`, one after the other. What was there before is forgotten.
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

/// Forgets all names: what is made for the next simulation may lie where something else did.
pub fn forget_all() {
    forget(0, usize::MAX);
}

/// Forgets what was named between two addresses: all objects that begin there, and an array that reaches in.
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

/// How often names have been given or forgotten: as long as that stays, [`at`] has the same returns.
pub(crate) fn changes() -> u64 {
    CHANGES.get()
}

fn note_change() {
    CHANGES.set(CHANGES.get() + 1);
}

/// What lies at `address`. Of what nobody has named, the offset is the one in its line.
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
