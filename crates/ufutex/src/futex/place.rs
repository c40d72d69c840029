//! Where the waiters of a word are queued: the word's key, its hash, and which table the key is looked up in.

use super::domain::Domain;
use super::key::{Key, Space, address_and_space};
use crate::table::bucket::Bucket;
use crate::table::hash::{Hash, Key as TableKey};
use crate::table::layout::Layout;
use crate::table::refs::{Locked, Scheme};

/// The place of a word's waiters. Operations on words with equal places meet.
///
/// It is made by every operation, also by one that ends at once. So it contains only what finding the bucket needs: the
/// [key](TableKey) itself, for which the domain's number has to be loaded, is made by [`Domain::key`] when a queue is searched
/// or changed.
#[derive(Clone, Copy)]
pub(super) struct Place {
    /// The address, or the offset in a shared object.
    pub address: u64,
    pub space: Space,
    /// The key's hash. For a key that is not private it also says in which of the system's tables the key is: see
    /// `Globals::place`.
    pub hash: u32,
}

impl Place {
    /// Whether the key is in the domain's own private space, and so in the table that the domain uses. If not, it is in
    /// one of the system's tables.
    #[inline(always)]
    pub fn is_private(&self) -> bool {
        matches!(self.space, Space::Private)
    }
}

impl<S: Scheme<L>, L: Layout> Domain<S, L> {
    /// The place of `key`'s waiters.
    #[inline(always)]
    pub(super) fn place<K: Key>(&self, key: &K) -> Place {
        self.place_and_line(key).0
    }

    /// The place of `key`'s waiters, and the hash of its cache line.
    #[inline(always)]
    pub(super) fn place_and_line<K: Key>(&self, key: &K) -> (Place, u32) {
        let (address, space) = address_and_space(key, self.tables.space);
        let salt = match space {
            Space::Private => self.private_salt,
            Space::Shared(space) => self.hasher.salt(space),
        };
        let Hash { bits, line } = self.hasher.hash(address, salt);
        let is_spread = matches!(space, Space::Shared(_)) && self.has_nodes;
        let hash = if is_spread { self.system.globals().place(bits, key.node()) } else { bits };
        (Place { address, space, hash }, line)
    }

    /// The place of the waiters with this key and hash.
    pub(super) fn place_of(&self, key: TableKey, hash: u32) -> Place {
        let space = if key.space == self.tables.space { Space::Private } else { Space::Shared(key.space) };
        Place { address: key.address, space, hash }
    }

    /// The key of a place. Only operations that search or change a queue need it.
    pub(super) fn key(&self, place: &Place) -> TableKey {
        let space = match place.space {
            Space::Private => self.tables.space,
            Space::Shared(space) => space,
        };
        TableKey { address: place.address, space }
    }

    /// Locks the bucket of `place`. `None` if the domain needs a table of its own, and has none yet.
    #[inline(always)]
    pub(super) fn lock(&self, place: &Place) -> Option<Locked<'_, L, S>> {
        if place.is_private() {
            return self.scheme.lock(&self.tables, place.hash);
        }
        loop {
            // Global buckets are always live.
            if let Some(guard) = self.global_bucket(place).lock(&self.tables.contended) {
                return Some(Locked::global(guard));
            }
        }
    }

    /// As [`lock`](Self::lock), but makes the domain's first table if there is none.
    #[inline(always)]
    pub(super) fn lock_or_make(&self, place: &Place) -> Locked<'_, L, S> {
        loop {
            if let Some(locked) = self.lock(place) {
                return locked;
            }
            self.make_first_table();
        }
    }

    /// Whether other domains lock `bucket`, too. `bucket` is the bucket of `place`.
    pub(super) fn is_global(&self, bucket: &Bucket<L>, place: &Place) -> bool {
        !place.is_private() || core::ptr::eq(bucket, self.tables.global.bucket(place.hash))
    }

    /// The bucket of a place that is not private.
    #[inline(always)]
    pub(super) fn global_bucket(&self, place: &Place) -> &Bucket<L> {
        let hash = place.hash;
        if self.has_nodes { self.system.globals().placed(hash).bucket(hash) } else { self.tables.global.bucket(hash) }
    }
}
