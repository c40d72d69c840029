//! The targets `floor` and `parking_lot` of `bench hash` and `bench wake`, on virtual cores. Nobody sleeps there, so of a
//! table only the locks of its buckets matter.

use super::super::hash::WORDS;
use crate::engine::PLAIN_CYCLES;
use ufutex_coherence::atomic::{AtomicU32, Ordering, spin_loop};
use ufutex_coherence::{Length, Simulation, Topology, current, memory, objects};
use ufutex_designs_sim::OwnLine;

/// A table of locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bare {
    /// `targets/floor.rs`: a bucket for the words of a line, locked by an exchange, unlocked by a store.
    Floor { buckets: usize },
    /// parking_lot_core 0.10: a bucket for each word, locked and unlocked by a locked instruction each. With two threads its
    /// table has the size that it begins with.
    ParkingLot,
}

/// Size of parking_lot_core's first table: its load factor of 3, squared, as a power of two.
const PARKING_LOT_BUCKETS: usize = 16;
/// The factor of Fibonacci hashing, which both use.
const GOLDEN_RATIO: u64 = 0x9e37_79b9_7f4a_7c15;
const LINE: u64 = 64;
/// Where the words of the first thread are, and how far those of the next.
const BASE: u64 = 0x7f00_0000_1000;
const STEP: u64 = 4096 + 4096;
/// Measured operations of a thread.
const OPERATIONS: usize = 8192;

impl Bare {
    fn buckets(self) -> usize {
        match self {
            Bare::Floor { buckets } => buckets,
            Bare::ParkingLot => PARKING_LOT_BUCKETS,
        }
    }

    fn bucket(self, address: u64) -> usize {
        match self {
            Bare::Floor { buckets } => ((address / LINE).wrapping_mul(GOLDEN_RATIO) >> 32) as usize & (buckets - 1),
            Bare::ParkingLot => (address.wrapping_mul(GOLDEN_RATIO) >> (64 - PARKING_LOT_BUCKETS.ilog2())) as usize,
        }
    }

    /// Nanoseconds of an operation of one of `threads` threads. A wait of parking_lot reads the word; a wake does not.
    pub fn ns(self, topology: &Topology, threads: usize, reads_word: bool, seed: u64) -> f64 {
        objects::forget_all();
        let locks: Vec<OwnLine<AtomicU32>> =
            memory::by_line(|| (0..self.buckets()).map(|_| OwnLine::default()).collect());
        let table = OwnLine(AtomicU32::new(0));
        let words: Vec<OwnLine<AtomicU32>> = memory::by_line(|| (0..threads).map(|_| OwnLine::default()).collect());
        let length = Length::Operations { warm_up: (threads * WORDS) as u64, measured: (threads * OPERATIONS) as u64 };
        let report = Simulation::new(topology).threads(threads).seed(seed).length(length).run(|thread| {
            let mut number = current::below(WORDS as u64);
            current::rendezvous();
            while !current::is_over() {
                current::compute(PLAIN_CYCLES / topology.ghz);
                let lock = &locks[self.bucket(BASE + thread as u64 * STEP + 4 * number)].0;
                let is_parking_lot = self == Bare::ParkingLot;
                if is_parking_lot {
                    table.0.load(Ordering::Acquire);
                }
                while lock.compare_exchange_weak(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
                    spin_loop();
                }
                if is_parking_lot {
                    table.0.load(Ordering::Relaxed);
                    if reads_word {
                        words[thread].0.load(Ordering::Relaxed);
                    }
                    lock.fetch_sub(1, Ordering::Release);
                } else {
                    lock.store(0, Ordering::Release);
                }
                number = (number + 1) % WORDS as u64;
                current::done(1);
            }
        });
        threads as f64 * 1e9 / report.per_second()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_threads_meet_in_few_buckets_and_seldom_in_many() {
        let here = Topology::given("here").expect("a given machine");
        let ns = |bare: Bare, threads| bare.ns(&here, threads, true, 1);
        assert!(ns(Bare::ParkingLot, 2) > 1.5 * ns(Bare::ParkingLot, 1));
        let [few, many] = [16, 4096].map(|buckets| ns(Bare::Floor { buckets }, 2));
        assert!(few > 1.2 * many, "{few} and {many}");
    }
}
