//! Published results of others that nothing in the model was fitted to: counters and a lock, on machines whose latencies
//! somebody has published.

use anyhow::Result;
use lab_measure::interrupt;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::LazyLock;
use strum::IntoStaticStr;
use ufutex_coherence::atomic::{AtomicU64, Ordering, spin_loop};
use ufutex_coherence::{Length, Simulation, Topology, current, memory, objects};
use ufutex_designs_sim::OwnLine;

/// A result and its figures.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Published {
    source: String,
    machine: String,
    operation: Operation,
    #[serde(default = "one")]
    lines: usize,
    #[serde(default)]
    all_threads: Option<usize>,
    /// Nanoseconds of an operation, by threads.
    ns: BTreeMap<String, f64>,
}

fn one() -> usize {
    1
}

#[derive(Deserialize)]
struct File {
    result: Vec<Published>,
}

static RESULTS: LazyLock<Vec<Published>> = LazyLock::new(|| {
    let file: File = toml::from_str(include_str!("others.toml")).expect("our own file: a test reads it, too");
    file.result
});

/// What each thread repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, IntoStaticStr)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
enum Operation {
    /// An atomic addition.
    Add,
    /// A load and then compare and exchange until it succeeds.
    CompareExchange,
    /// A ticket lock that spins, both its numbers in one line; with it held, a plain addition in another line.
    TicketLock,
}

/// A figure and its prediction, in nanoseconds.
pub struct Row {
    pub source: String,
    pub machine: String,
    pub operation: &'static str,
    pub threads: usize,
    pub published: f64,
    pub predicted: f64,
}

/// The machine of a result.
fn machine(name: &str) -> Topology {
    let text = match name {
        "graviton2" => include_str!("machines/graviton2.toml"),
        "zen4-laptop" => include_str!("machines/zen4-laptop.toml"),
        "broadwell-2s" => include_str!("machines/broadwell-2s.toml"),
        unknown => panic!("no machine {unknown}"),
    };
    Topology::parse(text).expect("our own file: a test reads it, too")
}

/// Number of results.
pub fn steps() -> usize {
    RESULTS.len()
}

/// Predicts all figures of more than one thread. Calls `step` after each result. After Ctrl-C, those so far.
pub fn rows(step: impl Fn()) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for published in RESULTS.iter() {
        let one = predict(published)?;
        if interrupt::requested() {
            break;
        }
        rows.extend(one);
        step();
    }
    Ok(rows)
}

fn predict(published: &Published) -> Result<Vec<Row>> {
    let topology = machine(&published.machine);
    let threads_of = |threads: &String| threads.parse::<usize>().expect("a number of threads");
    let mut load = Load::new(published, &topology)?;
    let mut rows = Vec::new();
    for (threads, ns) in &published.ns {
        load.threads = threads_of(threads);
        if load.threads > 1 {
            rows.push(Row {
                source: published.source.clone(),
                machine: published.machine.clone(),
                operation: published.operation.into(),
                threads: load.threads,
                published: *ns,
                predicted: load.ns()?,
            });
        }
    }
    rows.sort_by_key(|row| row.threads);
    Ok(rows)
}

/// A number of threads at a result's operation.
struct Load<'a> {
    published: &'a Published,
    topology: &'a Topology,
    /// Threads of a group.
    threads: usize,
    /// What an operation computes beside its shared lines.
    plain_ns: f64,
}

/// What the threads of a group share, each on its own line.
#[derive(Default)]
struct Shared {
    counters: Vec<OwnLine<AtomicU64>>,
    tickets: OwnLine<(AtomicU64, AtomicU64)>,
}

/// Measured operations of each thread.
const OPERATIONS: usize = 400;
/// Runs with other seeds, and other CPUs where the threads of a result were not pinned.
const RUNS: u64 = 4;

impl<'a> Load<'a> {
    /// One thread. What its operation computes is what makes it take the published time.
    fn new(published: &'a Published, topology: &'a Topology) -> Result<Self> {
        let mut load = Load { published, topology, threads: 1, plain_ns: 0.0 };
        // The time is linear in it.
        let one_thread = published.ns["1"];
        let none = load.ns()?;
        load.plain_ns = one_thread;
        load.plain_ns = (one_thread * (one_thread - none) / (load.ns()? - none)).max(0.0);
        Ok(load)
    }

    /// Nanoseconds of an operation.
    fn ns(&self) -> Result<f64> {
        let runs: Result<Vec<f64>> = (1..=RUNS).map(|seed| self.run(seed)).collect();
        Ok(runs?.iter().sum::<f64>() / RUNS as f64)
    }

    fn run(&self, seed: u64) -> Result<f64> {
        objects::forget_all();
        let all = self.published.all_threads.unwrap_or(self.threads);
        let groups = all / self.threads;
        let group = || Shared {
            counters: (0..self.published.lines).map(|_| OwnLine::default()).collect(),
            tickets: OwnLine::default(),
        };
        let shared: Vec<Shared> = memory::by_line(|| (0..groups).map(|_| group()).collect());
        let length = Length::Operations { warm_up: (all * OPERATIONS / 4) as u64, measured: (all * OPERATIONS) as u64 };
        let simulation = Simulation::new(self.topology).placement(self.placement(all, seed)).seed(seed);
        let report = simulation.length(length).run(|thread| {
            current::rendezvous();
            while !current::is_over() {
                self.operate(&shared[thread % groups]);
                current::compute(self.plain_ns);
                current::done(1);
            }
        });
        anyhow::ensure!(report.stuck == 0, "{} virtual threads never ended", report.stuck);
        Ok(all as f64 * 1e9 / report.per_second())
    }

    fn operate(&self, shared: &Shared) {
        for counter in &shared.counters {
            match self.published.operation {
                Operation::Add => {
                    counter.0.fetch_add(1, Ordering::Relaxed);
                }
                Operation::CompareExchange => {
                    let mut value = counter.0.load(Ordering::Relaxed);
                    while let Err(found) =
                        counter.0.compare_exchange(value, value + 1, Ordering::Relaxed, Ordering::Relaxed)
                    {
                        value = found;
                    }
                }
                Operation::TicketLock => {
                    let (dispenser, serving) = &shared.tickets.0;
                    let ticket = dispenser.fetch_add(1, Ordering::Relaxed);
                    while serving.load(Ordering::Acquire) != ticket {
                        spin_loop();
                    }
                    counter.0.add_unlocked(1);
                    serving.store(ticket + 1, Ordering::Release);
                }
            }
        }
    }

    /// The CPU of each thread: in order, or any where the threads were not pinned.
    fn placement(&self, threads: usize, seed: u64) -> Vec<u16> {
        let mut cpus: Vec<u16> = (0..self.topology.cpus() as u16).collect();
        if self.published.all_threads.is_some() {
            let mut state = seed;
            for at in (1..cpus.len()).rev() {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                cpus.swap(at, (state >> 33) as usize % (at + 1));
            }
        }
        (0..threads).map(|thread| cpus[thread % cpus.len()]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_result_has_its_machine_and_a_figure_of_one_thread() {
        assert!(RESULTS.len() >= 3);
        for published in RESULTS.iter() {
            let topology = machine(&published.machine);
            assert_eq!(topology.name, published.machine);
            for (threads, ns) in &published.ns {
                let threads: usize = threads.parse().expect("a number");
                assert!((1..=topology.cpus()).contains(&threads) && *ns > 0.0, "{}: {threads}", published.source);
            }
            assert!(published.ns.contains_key("1") && published.ns.len() > 1, "{}", published.source);
        }
    }

    #[test]
    fn the_figure_of_one_thread_comes_out_as_it_went_in_and_more_threads_take_longer() {
        for published in RESULTS.iter() {
            let topology = machine(&published.machine);
            let mut load = Load::new(published, &topology).expect("it ends");
            let (alone, one_thread) = (load.ns().expect("it ends"), published.ns["1"]);
            // Where the instructions alone take longer, nothing can be taken off: a load before an exchange on Zen 4.
            assert!((alone - one_thread).abs() < 0.2 * one_thread, "{}: {alone}", published.source);
            load.threads = 4;
            let four = load.ns().expect("it ends");
            assert!(four > 1.2 * alone, "{}: {four} for {alone}", published.source);
            assert_eq!(load.ns().expect("it ends"), four, "a run depends on its seed alone");
        }
    }
}
