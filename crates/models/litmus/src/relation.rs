//! Relations between the events of an execution, at most 64 of them.

use std::ops::{BitAnd, BitOr, Sub};

/// A set of pairs of events. Row `i` holds a bit for each event that `i` is related to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Relation(Vec<u64>);

impl Relation {
    /// The empty relation between `events` events.
    pub fn new(events: usize) -> Self {
        assert!(events <= 64, "a litmus test has at most 64 events");
        Self(vec![0; events])
    }

    /// The pairs for which `holds`.
    pub fn of(events: usize, holds: impl Fn(usize, usize) -> bool) -> Self {
        let mut all = Self::new(events);
        for (from, row) in all.0.iter_mut().enumerate() {
            *row = (0..events).filter(|&to| holds(from, to)).fold(0, |row, to| row | 1 << to);
        }
        all
    }

    /// These pairs.
    pub fn from_pairs(events: usize, pairs: impl IntoIterator<Item = (usize, usize)>) -> Self {
        let mut all = Self::new(events);
        pairs.into_iter().for_each(|(from, to)| all.0[from] |= 1 << to);
        all
    }

    /// Whether the pair is in the relation.
    pub fn has(&self, from: usize, to: usize) -> bool {
        self.0[from] >> to & 1 == 1
    }

    /// Pairs reached by a step of `self` and a step of `next`: `self ; next`.
    pub fn then(&self, next: &Self) -> Self {
        let reached = |mut row: u64| {
            let mut all = 0;
            while row != 0 {
                all |= next.0[row.trailing_zeros() as usize];
                row &= row - 1;
            }
            all
        };
        Self(self.0.iter().map(|&row| reached(row)).collect())
    }

    /// Pairs reached by one step or more.
    pub fn closure(&self) -> Self {
        let mut all = self.clone();
        for middle in 0..all.0.len() {
            let onwards = all.0[middle];
            all.0.iter_mut().filter(|row| **row >> middle & 1 == 1).for_each(|row| *row |= onwards);
        }
        all
    }

    /// The relation, and each event with itself.
    pub fn or_same(&self) -> Self {
        Self(self.0.iter().enumerate().map(|(event, row)| row | 1 << event).collect())
    }

    /// The pairs the other way round.
    pub fn inverse(&self) -> Self {
        Self::of(self.0.len(), |from, to| self.has(to, from))
    }

    /// Whether no event is related to itself.
    pub fn is_irreflexive(&self) -> bool {
        self.0.iter().enumerate().all(|(event, row)| row >> event & 1 == 0)
    }

    /// Whether no event is reached from itself.
    pub fn is_acyclic(&self) -> bool {
        self.closure().is_irreflexive()
    }
}

impl BitOr for &Relation {
    type Output = Relation;
    fn bitor(self, other: Self) -> Relation {
        Relation(self.0.iter().zip(&other.0).map(|(a, b)| a | b).collect())
    }
}

impl BitAnd for &Relation {
    type Output = Relation;
    fn bitand(self, other: Self) -> Relation {
        Relation(self.0.iter().zip(&other.0).map(|(a, b)| a & b).collect())
    }
}

impl Sub for &Relation {
    type Output = Relation;
    fn sub(self, other: Self) -> Relation {
        Relation(self.0.iter().zip(&other.0).map(|(a, b)| a & !b).collect())
    }
}
