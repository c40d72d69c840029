//! What is counted, and what a simulation reports.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::panic::Location;

use crate::directory::Supply;
use crate::machine::LineHasher;
use crate::objects::{self, Place};
use crate::topology::Distance;

/// Accesses and what they met.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Counts {
    /// Plain loads, and the loads of locked instructions.
    pub loads: u64,
    /// Plain stores, and the stores of locked instructions.
    pub stores: u64,
    /// Locked instructions.
    pub locked: u64,
    /// Full barriers.
    pub barriers: u64,
    /// Lines from the sibling thread.
    pub from_sibling: u64,
    /// Lines from another core of the chiplet.
    pub from_chiplet: u64,
    /// Lines from another chiplet of the socket.
    pub from_socket: u64,
    /// Lines from another socket.
    pub from_far: u64,
    /// Lines from memory.
    pub from_memory: u64,
    /// Loads that found the line modified in another core.
    pub hitm: u64,
}

impl Counts {
    fn add(&mut self, other: &Self) {
        self.loads += other.loads;
        self.stores += other.stores;
        self.locked += other.locked;
        self.barriers += other.barriers;
        self.from_sibling += other.from_sibling;
        self.from_chiplet += other.from_chiplet;
        self.from_socket += other.from_socket;
        self.from_far += other.from_far;
        self.from_memory += other.from_memory;
        self.hitm += other.hitm;
    }

    /// Lines that came from within the chiplet.
    #[must_use]
    pub fn near(&self) -> u64 {
        self.from_sibling + self.from_chiplet
    }

    /// Lines that came from beyond it, out of another core.
    #[must_use]
    pub fn far(&self) -> u64 {
        self.from_socket + self.from_far
    }
}

/// What one field, or one place in an unnamed line, had to do with transfers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hot {
    /// Which.
    pub place: Place,
    /// Loads that found it modified in a core of the chiplet.
    pub hitm_near: u64,
    /// Loads that found it modified in a core beyond.
    pub hitm_far: u64,
    /// Transfers of its line that an access to it asked for, these and all others.
    pub transfers: u64,
    /// For how long its accesses waited for the line, in all, in nanoseconds.
    pub waited_ns: u64,
    /// Where in the source these accesses are, and how many of the transfers each asked for; most first.
    pub sites: Vec<Site>,
}

impl Hot {
    /// Loads that found it modified in another core.
    #[must_use]
    pub fn hitm(&self) -> u64 {
        self.hitm_near + self.hitm_far
    }

    /// Most HITM first, then most transfers.
    fn rank(&self) -> (Reverse<(u64, u64)>, Place) {
        (Reverse((self.hitm(), self.transfers)), self.place)
    }

    fn add(&mut self, other: &Self) {
        self.hitm_near += other.hitm_near;
        self.hitm_far += other.hitm_far;
        self.transfers += other.transfers;
        self.waited_ns += other.waited_ns;
        for theirs in &other.sites {
            match self.sites.iter_mut().find(|mine| (mine.file, mine.line) == (theirs.file, theirs.line)) {
                Some(mine) => mine.transfers += theirs.transfers,
                None => self.sites.push(*theirs),
            }
        }
        self.sites.sort_by_key(Site::rank);
    }
}

/// A place in the source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Site {
    /// The file, as the compiler was given it.
    pub file: &'static str,
    /// The line.
    pub line: u32,
    /// Transfers.
    pub transfers: u64,
}

impl Site {
    fn rank(&self) -> (Reverse<u64>, &'static str, u32) {
        (Reverse(self.transfers), self.file, self.line)
    }
}

/// What a simulation was like. Everything but `ended_ns` and `stuck` is of the measured window alone.
#[derive(Clone, PartialEq, Debug)]
pub struct Report {
    /// Operations, as [`current::done`](crate::current::done) was told.
    pub operations: u64,
    /// Operations of each thread.
    pub by_thread: Vec<u64>,
    /// How long the window was, in virtual nanoseconds.
    pub window_ns: f64,
    /// What was counted.
    pub counts: Counts,
    /// By field, most HITM first; then most transfers.
    pub hot: Vec<Hot>,
    /// When the last thread ended, in virtual nanoseconds.
    pub ended_ns: f64,
    /// Threads that slept, or spun, when nothing could go on any more, the limit of time was reached or it was
    /// [given up](crate::give_up_when); all of them where there was no memory for their stacks.
    pub stuck: usize,
}

impl Report {
    /// Operations of all threads in a virtual second.
    #[must_use]
    pub fn per_second(&self) -> f64 {
        if self.window_ns > 0.0 { self.operations as f64 * 1e9 / self.window_ns } else { 0.0 }
    }

    /// Adds another simulation of the same: its window counts on top.
    pub fn add(&mut self, other: &Self) {
        self.operations += other.operations;
        self.by_thread.iter_mut().zip(&other.by_thread).for_each(|(mine, theirs)| *mine += theirs);
        self.window_ns += other.window_ns;
        self.counts.add(&other.counts);
        for theirs in &other.hot {
            match self.hot.iter_mut().find(|mine| mine.place == theirs.place) {
                Some(mine) => mine.add(theirs),
                None => self.hot.push(theirs.clone()),
            }
        }
        self.hot.sort_by_key(Hot::rank);
        self.ended_ns = self.ended_ns.max(other.ended_ns);
        self.stuck += other.stuck;
    }

    /// `count` for one operation.
    #[must_use]
    pub fn per_operation(&self, count: u64) -> f64 {
        if self.operations > 0 { count as f64 / self.operations as f64 } else { 0.0 }
    }
}

#[derive(Default)]
struct Entry {
    near: u64,
    far: u64,
    transfers: u64,
    waited_ps: u64,
    sites: Vec<(&'static Location<'static>, u64)>,
}

/// The counting of a running simulation.
#[derive(Default)]
pub(crate) struct Statistics {
    pub is_measuring: bool,
    pub counts: Counts,
    hot: Vec<(Place, Entry)>,
    by_place: HashMap<Place, usize>,
    /// Which entry an address has: names are compared once for each, as long as no memory gets another name.
    by_address: HashMap<usize, usize, LineHasher>,
    names: u64,
}

impl Statistics {
    /// Begins anew, and counts from now on.
    pub fn begin(&mut self) {
        *self = Self { is_measuring: true, ..Self::default() };
    }

    /// A line that had to come, for an access at `address`.
    pub fn transfer(&mut self, supply: Supply, loads: bool, address: usize, site: &'static Location<'static>) {
        if !self.is_measuring {
            return;
        }
        let counts = &mut self.counts;
        let (modified, far) = match supply {
            Supply::Hit => return,
            Supply::Memory => {
                counts.from_memory += 1;
                (false, false)
            }
            Supply::Core { distance, modified } => {
                *match distance {
                    Distance::Smt => &mut counts.from_sibling,
                    Distance::Chiplet => &mut counts.from_chiplet,
                    Distance::Socket => &mut counts.from_socket,
                    Distance::Far => &mut counts.from_far,
                } += 1;
                (modified, distance >= Distance::Socket)
            }
        };
        let hitm = u64::from(modified && loads);
        counts.hitm += hitm;
        let entry = self.entry(address);
        entry.transfers += 1;
        *(if far { &mut entry.far } else { &mut entry.near }) += hitm;
        match entry.sites.iter_mut().find(|(known, _)| std::ptr::eq(*known, site)) {
            Some((_, transfers)) => *transfers += 1,
            None => entry.sites.push((site, 1)),
        }
    }

    /// An access at `address` has waited for its line.
    pub fn waited(&mut self, address: usize, ps: u64) {
        if self.is_measuring {
            self.entry(address).waited_ps += ps;
        }
    }

    fn entry(&mut self, address: usize) -> &mut Entry {
        let names = objects::changes();
        if self.names != names {
            self.names = names;
            self.by_address.clear();
        }
        let number = *self.by_address.entry(address).or_insert_with(|| {
            let place = objects::at(address);
            *self.by_place.entry(place).or_insert_with(|| {
                self.hot.push((place, Entry::default()));
                self.hot.len() - 1
            })
        });
        &mut self.hot[number].1
    }

    /// By field, most HITM first.
    pub fn hot(&self) -> Vec<Hot> {
        let mut hot: Vec<Hot> = self.hot.iter().map(|(place, entry)| entry.told(*place)).collect();
        hot.sort_by_key(Hot::rank);
        hot
    }
}

impl Entry {
    fn told(&self, place: Place) -> Hot {
        // The same site may have several addresses, one in each copy of a generic function.
        let mut by_site = BTreeMap::new();
        for (at, transfers) in &self.sites {
            *by_site.entry((at.file(), at.line(), at.column())).or_insert(0) += transfers;
        }
        let site = |((file, line, _), transfers)| Site { file, line, transfers };
        let mut sites: Vec<Site> = by_site.into_iter().map(site).collect();
        sites.sort_by_key(Site::rank);
        Hot {
            place,
            hitm_near: self.near,
            hitm_far: self.far,
            transfers: self.transfers,
            waited_ns: self.waited_ps / 1000,
            sites,
        }
    }
}
