//! Where the waiters of a word are queued: the word's address, space and hash, and the bucket that follows from them.

use super::domain::Domain;
use super::key::{Address, At, Key};
use crate::sync::Ordering;
use crate::sys::mem::{ObjectId, Scope};
use crate::table::Table;
use crate::table::bucket::Bucket;
use crate::table::globals::Globals;
use crate::table::hash::{Hash, TableKey};
use crate::table::live::{self, Locked};
use crate::table::tables::Global;

// The two low bits of a key's space are its kind: 0 in the private space of a domain.
const SPACE_KIND: u64 = 3;
const SPACE_OF_OBJECT: u64 = 2;
const SPACE_OF_SHARED_ADDRESSES: u64 = 1;
const SPACE_ON_NODES: u64 = 3;

pub(crate) const fn private_space(domain: u64) -> u64 {
    domain << 2
}

/// The space of a key, as an operation of one domain sees it.
#[derive(Clone, Copy)]
pub(super) enum Space {
    /// The domain's private space. The key is looked up in the table that the domain uses.
    Private,
    /// The space with this number. The key is looked up in one of the namespace's tables.
    Shared(u64),
    /// The space with this number, of a [`SharedObject`](super::objects::SharedObject) with this table.
    Object(u64, Table),
}

pub(super) fn scope_of(key: TableKey) -> Scope {
    match key.space & SPACE_KIND {
        SPACE_OF_SHARED_ADDRESSES => Scope::AddressSpace,
        SPACE_OF_OBJECT => {
            ObjectId::new(key.space >> 2).map_or(Scope::AddressSpace, |id| Scope::Object { id, offset: key.address })
        }
        _ => Scope::Private,
    }
}

impl TableKey {
    /// The word, as an embedder's key.
    pub(super) fn word(self) -> At<Address> {
        At::new(Address::at(self.address), scope_of(self))
    }
}

/// Whether the key is that of a private word of the domain with `private_space`, with or without a node.
pub(super) fn is_private_of(key: TableKey, private_space: u64) -> bool {
    key.space == private_space || key.space == private_space | SPACE_ON_NODES
}

/// Whether the key belongs to the domain with `private_space`, but is never in that domain's own table.
pub(super) fn is_shared_of(key: TableKey, private_space: u64) -> bool {
    !is_of_object(key) && key.space != private_space && key.space & !SPACE_KIND == private_space
}

pub(super) fn is_of_object(key: TableKey) -> bool {
    key.space & SPACE_KIND == SPACE_OF_OBJECT
}

/// The place of a word's waiters. Operations on words with equal places meet. Every operation makes one, so it has only what
/// finding the bucket needs. [`Domain::key`] adds the domain's number, which only a search or a change of the queue loads.
#[derive(Clone, Copy)]
pub(super) struct Place {
    /// The address, or the offset in a shared object.
    pub address: u64,
    /// With the object's table, if any. Looked up once for each operation: if the embedder names an object before it makes it,
    /// a second look-up could find another table than the first.
    pub space: Space,
    /// The key's hash. For a global table it also says which one: see `Globals::place`.
    pub hash: u32,
}

impl Place {
    #[inline(always)]
    pub fn is_private(&self) -> bool {
        matches!(self.space, Space::Private)
    }
}

impl Domain {
    /// Whether the system has several nodes, each with a table. The answer never changes.
    #[inline(always)]
    fn has_several_nodes(&self) -> bool {
        self.has_one_node.load(Ordering::Relaxed) == 0 && self.look_up_nodes()
    }

    #[cold]
    fn look_up_nodes(&self) -> bool {
        let has_one = self.system.nodes() == 1;
        self.has_one_node.store(has_one.into(), Ordering::Relaxed);
        !has_one
    }

    #[inline(always)]
    pub(super) fn place<K: Key>(&self, key: &K) -> Place {
        self.place_and_line(key).0
    }

    /// The place of `key`'s waiters, and the hash of its cache line.
    #[inline(always)]
    pub(super) fn place_and_line<K: Key>(&self, key: &K) -> (Place, u32) {
        let (address, space) = match key.scope() {
            Scope::Private if key.node().is_none() => (key.address(), Space::Private),
            scope => self.shared_space(key, scope),
        };
        let salt = match space {
            Space::Private => self.private_salt,
            Space::Shared(space) | Space::Object(space, _) => self.hasher.salt(space),
        };
        let Hash { bits, line } = self.hasher.hash(address, salt);
        let is_spread = matches!(space, Space::Shared(_)) && self.has_several_nodes();
        let hash = if is_spread { self.system.globals().place(bits, key.node()) } else { bits };
        (Place { address, space, hash }, line)
    }

    fn shared_space<K: Key>(&self, key: &K, scope: Scope) -> (u64, Space) {
        match scope {
            Scope::Private => (key.address(), Space::Shared(self.tables.space | SPACE_ON_NODES)),
            Scope::Object { id, offset } => (offset, self.with_table(id.get() << 2 | SPACE_OF_OBJECT)),
            Scope::AddressSpace => (key.address(), Space::Shared(self.tables.space | SPACE_OF_SHARED_ADDRESSES)),
        }
    }

    /// The space with this number, which is not private, with its table if it is that of a shared object.
    fn with_table(&self, space: u64) -> Space {
        let id = ObjectId::new(space >> 2).filter(|_id| space & SPACE_KIND == SPACE_OF_OBJECT);
        let table = id.and_then(|id| self.system.inner.objects.table(id));
        table.map_or(Space::Shared(space), |table| Space::Object(space, table))
    }

    pub(super) fn place_of(&self, key: TableKey, hash: u32) -> Place {
        let is_private = key.space == self.tables.space;
        let space = if is_private { Space::Private } else { self.with_table(key.space) };
        Place { address: key.address, space, hash }
    }

    pub(super) fn key(&self, place: &Place) -> TableKey {
        let space = match place.space {
            Space::Private => self.tables.space,
            Space::Shared(space) | Space::Object(space, _) => space,
        };
        TableKey { address: place.address, space }
    }

    /// Locks the bucket of `place`. `None` if the domain needs a table of its own, and has none yet.
    #[inline(always)]
    pub(super) fn lock(&self, place: &Place) -> Option<Locked<'_>> {
        if place.is_private() { live::lock(&self.tables, place.hash) } else { Some(self.lock_global(place)) }
    }

    /// As [`lock`](Self::lock), but makes the domain's first table if there is none.
    #[inline(always)]
    pub(super) fn lock_or_make(&self, place: &Place) -> Locked<'_> {
        if !place.is_private() {
            self.prepare_to_wait();
            return self.lock_global(place);
        }
        loop {
            if let Some(locked) = live::lock(&self.tables, place.hash) {
                return locked;
            }
            self.make_first_table();
        }
    }

    fn lock_global(&self, place: &Place) -> Locked<'_> {
        loop {
            let bucket = self.global_bucket(place, Global::get).unwrap_or_else(|| self.make_global_bucket(place.hash));
            // Global buckets are always live.
            if let Some(guard) = bucket.lock(&self.tables.store) {
                return guard;
            }
        }
    }

    /// Whether other domains lock `bucket`, too. `bucket` is the bucket of `place`.
    pub(super) fn is_global(&self, bucket: &Bucket, place: &Place) -> bool {
        !place.is_private() || self.tables.global.contains(bucket, place.hash)
    }

    /// The bucket of a place that is not private. `None` if no domain of the namespace has needed one yet: then none has a
    /// waiter. If the system has one node, `one` finds its table: [`Global::get`], or [`Global::known`] with a bucket locked.
    #[inline(always)]
    pub(super) fn global_bucket(&self, place: &Place, one: impl FnOnce(&Global) -> Option<Table>) -> Option<&Bucket> {
        let table = match place.space {
            Space::Object(_, table) => Some(table),
            _ if self.has_several_nodes() => self.namespace().globals.on(Globals::node_of(place.hash)),
            _ => one(&self.tables.global),
        };
        Some(table?.bucket(place.hash))
    }

    #[cold]
    fn make_global_bucket(&self, hash: u32) -> &Bucket {
        let table = if self.has_several_nodes() {
            self.namespace().globals.on_or_make(Globals::node_of(hash))
        } else {
            self.tables.global.get_or_make()
        };
        table.bucket(hash)
    }
}
