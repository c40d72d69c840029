//! The latencies of two CPUs of this machine, and the model's machine that has them.

use lab_measure::machine::{self, Distance};
use lab_measure::stats;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::Instant;
use ufutex_coherence::Topology;

/// Instructions in flight in Zen 4's reorder buffer, and how many go through it in a cycle. Neither is measured.
const IN_FLIGHT: f64 = 320.0;
const INSTRUCTIONS: f64 = 1.6;

/// The measured latencies of all rounds.
#[derive(Default)]
pub struct Latencies(Vec<Latency>);

/// One measurement, in nanoseconds but for the clock.
#[derive(Clone, Copy, Debug)]
pub struct Latency {
    ghz: f64,
    hit: f64,
    locked: f64,
    barrier: f64,
    apart: f64,
}

impl Latency {
    /// Measures on two CPUs. Memory and more distant cores are not needed: the lines stay in the two cores' caches.
    pub fn measure(first: usize, second: usize) -> Latency {
        let alone = std::thread::scope(|scope| {
            let alone = scope.spawn(move || {
                machine::pin(first);
                let ghz = CHAIN_CYCLES / each_ns(chain);
                // The mask of an index is a cycle of its own.
                (ghz, each_ns(loads) - 1.0 / ghz, each_ns(locked), each_ns(barriers))
            });
            alone.join().expect("it does not panic")
        });
        let (ghz, hit, locked, barrier) = alone;
        Latency { ghz, hit, locked, barrier, apart: Distance::between(first, second).apart_ns }
    }

    /// The average of two.
    pub fn and(self, other: Latency) -> Latency {
        let half = |of: fn(&Latency) -> f64| (of(&self) + of(&other)) / 2.0;
        Latency {
            ghz: half(|one| one.ghz),
            hit: half(|one| one.hit),
            locked: half(|one| one.locked),
            barrier: half(|one| one.barrier),
            apart: half(|one| one.apart),
        }
    }

    /// Two cores of one socket with these latencies. At any distance a transfer is what was measured, and no more: only
    /// between sockets the model asks memory which cores have copies.
    pub fn topology(self) -> Topology {
        let mut topology = Topology::given("here").expect("a given machine");
        (topology.sockets, topology.cores_per_chiplet) = (1, 2);
        topology.ghz = self.ghz;
        let latency = &mut topology.latency;
        (latency.hit, latency.locked, latency.barrier) = (self.hit, self.locked, self.barrier);
        (latency.chiplet, latency.socket) = (self.apart, self.apart);
        latency.window = IN_FLIGHT / INSTRUCTIONS / self.ghz;
        topology
    }
}

impl Latencies {
    /// Adds a measurement.
    pub fn push(&mut self, latency: Latency) {
        self.0.push(latency);
    }

    /// In a sentence. Empty if there are none.
    pub fn text(&self) -> String {
        let Some(first) = self.0.first() else {
            return String::new();
        };
        let all = |of: fn(&Latency) -> f64| self.0.iter().map(of).collect::<Vec<_>>();
        let apart = all(|one| one.apart);
        let (least, most) = apart.iter().fold((first.apart, first.apart), |(a, b), ns| (a.min(*ns), b.max(*ns)));
        format!(
            "Measured between the runs of `bench`, medians: {:.2} GHz, a load {:.2} ns, a locked instruction {:.2}, a barrier \
             {:.2}; the CPUs {:.1} ns apart ({least:.1} to {most:.1}).",
            stats::median(&all(|one| one.ghz)),
            stats::median(&all(|one| one.hit)),
            stats::median(&all(|one| one.locked)),
            stats::median(&all(|one| one.barrier)),
            stats::median(&apart),
        )
    }
}

/// Steps of each batch. A batch takes some microseconds, so that few are interrupted.
const STEPS: u64 = 20_000;
const BATCHES: usize = 31;

/// Nanoseconds of one step of a loop: the median of several batches.
fn each_ns(steps: fn(u64)) -> f64 {
    let batch = |_| {
        let start = Instant::now();
        steps(STEPS);
        start.elapsed().as_nanos() as f64 / STEPS as f64
    };
    stats::median(&(0..BATCHES).map(batch).collect::<Vec<_>>())
}

/// Cycles of a step of [`chain`]: a product and a rotation, each of which needs the result before it.
const CHAIN_CYCLES: f64 = 4.0;

fn chain(steps: u64) {
    let mut value = black_box(0x9e37_79b9_7f4a_7c15_u64);
    for _ in 0..steps {
        value = value.wrapping_mul(value).rotate_left(7);
    }
    black_box(value);
}

/// Loads of which each needs the result of the one before it, all from one line.
fn loads(steps: u64) {
    let next = [1_usize, 2, 3, 4, 5, 6, 7, 0];
    let next = black_box(&next);
    let mut at = 0;
    for _ in 0..steps {
        at = next[at & 7];
    }
    black_box(at);
}

fn locked(steps: u64) {
    let counter = AtomicU64::new(0);
    for _ in 0..steps {
        black_box(&counter).fetch_add(1, Ordering::Relaxed);
    }
}

fn barriers(steps: u64) {
    for step in 0..steps {
        // Only its time is of interest. Without something between two of them the compiler leaves one.
        black_box(step);
        fence(Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_has_the_measured_latencies_and_one_socket() {
        let latency = Latency { ghz: 4.0, hit: 1.0, locked: 2.0, barrier: 3.0, apart: 150.0 };
        let machine = latency.and(Latency { apart: 50.0, ..latency }).topology();
        assert_eq!((machine.cpus(), machine.sockets), (2, 1));
        assert_eq!(machine.transfer(machine.distance(0, 1)), 100.0);
        let l = machine.latency;
        assert_eq!((l.hit, l.locked, l.barrier, l.window), (1.0, 2.0, 3.0, 50.0));
    }
}
