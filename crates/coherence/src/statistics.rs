//! The counts of a simulation, and its report.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::panic::Location;

use crate::directory::Supply;
use crate::machine::LineHasher;
use crate::objects::{self, Place};
use crate::topology::Distance;

/// Accesses, and the transfers that they caused.
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

    /// Lines that came from another core beyond the chiplet.
    #[must_use]
    pub fn far(&self) -> u64 {
        self.from_socket + self.from_far
    }
}

/// The transfers that one field, or one place in an unnamed line, caused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hot {
    /// The field or place.
    pub place: Place,
    /// Loads that found the line modified in a core of the chiplet.
    pub hitm_near: u64,
    /// Loads that found the line modified in a core beyond the chiplet.
    pub hitm_far: u64,
    /// All transfers of the line that an access to this place asked for, including those above.
    pub transfers: u64,
    /// The total time that accesses to this place waited for the line, in nanoseconds.
    pub waited_ns: u64,
    /// Where these accesses are in the source, with the number of transfers that each asked for; most first.
    pub sites: Vec<Site>,
}

impl Hot {
    /// Loads that found the line modified in another core.
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
    /// The file, as it was given to the compiler.
    pub file: &'static str,
    /// The line.
    pub line: u32,
    /// The number of transfers.
    pub transfers: u64,
}

impl Site {
    fn rank(&self) -> (Reverse<u64>, &'static str, u32) {
        (Reverse(self.transfers), self.file, self.line)
    }
}

/// The result of a simulation. All fields except `ended_ns` and `stuck` refer to the measured part only.
#[derive(Clone, PartialEq, Debug)]
pub struct Report {
    /// The operations that [`current::done`](crate::current::done) has noted.
    pub operations: u64,
    /// Operations of each thread.
    pub by_thread: Vec<u64>,
    /// The length of the measured part, in virtual nanoseconds.
    pub window_ns: f64,
    /// The counts of accesses and transfers.
    pub counts: Counts,
    /// By field: most HITM first, then most transfers.
    pub hot: Vec<Hot>,
    /// When the last thread ended, in virtual nanoseconds.
    pub ended_ns: f64,
    /// The number of threads that had not ended when no thread could go on, when the time limit was reached, or when
    /// the simulation was [given up](crate::give_up_when). If there was no memory for the stacks, all threads.
    pub stuck: usize,
}

impl Report {
    /// Operations of all threads in a virtual second.
    #[must_use]
    pub fn per_second(&self) -> f64 {
        if self.window_ns > 0.0 { self.operations as f64 * 1e9 / self.window_ns } else { 0.0 }
    }

    /// Adds the report of another simulation with the same settings. The lengths of the measured parts add up.
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

    /// `count` divided by the number of operations.
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

/// The counts of a running simulation.
#[derive(Default)]
pub(crate) struct Statistics {
    pub is_measuring: bool,
    pub counts: Counts,
    hot: Vec<(Place, Entry)>,
    by_place: HashMap<Place, usize>,
    /// The index in `hot` for an address. Names are looked up once for each address, until names change.
    by_address: HashMap<usize, usize, LineHasher>,
    names: u64,
}

impl Statistics {
    /// Resets all counts, and counts from now on.
    pub fn begin(&mut self) {
        *self = Self { is_measuring: true, ..Self::default() };
    }

    /// Counts a transfer of a line for an access at `address`.
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

    /// Counts the time that an access at `address` has waited for its line.
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

    /// The counts by field, most HITM first.
    pub fn hot(&self) -> Vec<Hot> {
        let mut hot: Vec<Hot> = self.hot.iter().map(|(place, entry)| entry.told(*place)).collect();
        hot.sort_by_key(Hot::rank);
        hot
    }
}

impl Entry {
    fn told(&self, place: Place) -> Hot {
        // A site may have several addresses, one in each copy of a generic function.
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
