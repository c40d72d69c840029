//! schbench's threads on virtual cores: message threads that wake workers, and workers that post back and wait.
//!
//! `threads.rs` has the threads' work, `thread_data.rs` their shared memory, `scheduler.rs` the scheduler's memory.

mod scheduler;
mod thread_data;
mod threads;

use crate::engine::{self, Wanted};
use crate::runs::{self, Output};
use crate::validate::hash::Scheme;
use crate::validate::{CALL_NS, SHARE_LOCKED};
use anyhow::{Result, ensure};
use lab_targets::{Layout, Policy};
use lab_terminal::table;
use scheduler::Tasks;
use serde_json::json;
use std::time::Duration;
use thread_data::ThreadData;
use threads::Threads;
use ufutex_coherence::statistics::Hot;
use ufutex_coherence::{Length, Report, Simulation, Topology, current};

/// The settings of `sim schbench`.
pub struct Settings {
    pub topology: Topology,
    pub schemes: Vec<Scheme>,
    pub buckets: usize,
    pub messages: usize,
    pub workers: usize,
    pub runtime_us: u64,
    pub kernel: bool,
    pub spin: Duration,
    pub seed: u64,
    pub silent: bool,
    pub json: bool,
}

/// The most hot lines in a row.
const HOT_MAX: usize = 10;

/// The parameters of one simulation.
#[derive(Clone, Debug)]
pub struct Case {
    /// The modelled machine.
    pub topology: Topology,
    /// How operations reach their bucket.
    pub scheme: Scheme,
    /// Number of buckets. 0 means the namespace's global table.
    pub buckets: usize,
    /// Number of message threads.
    pub messages: usize,
    /// Workers of each message thread.
    pub workers: usize,
    /// Nanoseconds of a futex call beyond the engine and the sleep. If it is not 0, buckets also have the pointer to
    /// their table that the kernel's had before Linux 7.2 ([priv-removed]).
    pub call_ns: f64,
    /// How long a thread may spin before it sleeps.
    pub spin: Duration,
    /// Virtual nanoseconds that are measured.
    pub measured_ns: u64,
    /// The seed of all random choices.
    pub seed: u64,
}

/// Runs a case. An operation is a request.
pub fn run(case: &Case) -> Report {
    let layout = if case.call_ns > 0.0 { Layout::Packed } else { Layout::Lean };
    let wanted = Wanted {
        scheme: case.scheme.of_table(),
        policy: Policy::Fixed(case.buckets),
        early_return: false,
        spin: case.spin,
        seed: 7,
        cpus: case.topology.cpus(),
    };
    let domain = engine::make(layout, wanted, 1).expect("a valid configuration").remove(0);
    let all = case.messages * (1 + case.workers);
    let threads = Threads {
        domain: &*domain,
        data: ThreadData::new(all, case.call_ns * SHARE_LOCKED),
        tasks: Tasks::new(all),
        workers: case.workers,
        call_ns: case.call_ns,
    };
    let length = Length::Time { warm_up_ns: case.measured_ns / 2, measured_ns: case.measured_ns };
    Simulation::new(&machine(case)).placement(placement(case)).seed(case.seed).length(length).run(|thread| {
        current::rendezvous();
        threads.run(thread);
    })
}

/// The machine. If futex calls are the kernel's, `call_ns` includes the entry into the kernel.
fn machine(case: &Case) -> Topology {
    let mut topology = case.topology.clone();
    if case.call_ns > 0.0 {
        topology.thread.syscall = 0.0;
    }
    topology
}

/// As with `-M auto`, each message thread has a CPU of its own, from the first on. The workers share the others.
fn placement(case: &Case) -> Vec<u16> {
    let cpus = case.topology.cpus();
    let others = cpus.saturating_sub(case.messages).max(1);
    let cpu = |thread: usize| match (thread / (case.workers + 1), thread % (case.workers + 1)) {
        (message, 0) => message % cpus,
        (message, number) => (case.messages + (message * case.workers + number - 1) % others) % cpus,
    };
    (0..case.messages * (case.workers + 1)).map(|thread| cpu(thread) as u16).collect()
}

/// Runs the requested cases and prints the results.
pub fn print(settings: &Settings) -> Result<()> {
    let what = format!("{} message threads with {} workers each", settings.messages, settings.workers);
    let opening = runs::opening("schbench", &settings.topology, &what);
    let output = Output { silent: settings.silent, json: settings.json };
    let run = |scheme: &Scheme| {
        let report = run(&case(settings, *scheme));
        ensure!(report.stuck == 0, "{} virtual threads never ended", report.stuck);
        let (rps, hitm) = (report.per_second(), report.per_operation(report.counts.hitm));
        let name: &str = scheme.into();
        let row = json!({
            "workload": "schbench", "scheme": name, "buckets": settings.buckets, "topology": settings.topology.name,
            "message_threads": settings.messages, "threads": settings.workers, "seed": settings.seed,
            "spin_us": settings.spin.as_micros() as u64, "rps": rps, "hitm_per_op": hitm, "hot": hot(&report),
        });
        Ok((
            row.to_string(),
            vec![name.to_string(), settings.buckets.to_string(), format!("{rps:.0}"), format!("{hitm:.2}")],
        ))
    };
    let table = |lines| table::text(&["scheme", "buckets", "requests/s", "HITM/request"], 1, lines);
    runs::print("schbench", &opening, &settings.schemes, output, run, table)
}

/// The lines with the most transfers, per request.
fn hot(report: &Report) -> Vec<serde_json::Value> {
    let by = |count: u64| report.per_operation(count);
    let place = |hot: &Hot| {
        json!({
            "object": hot.place.object, "field": hot.place.field, "offset": hot.place.offset,
            "hitm": by(hot.hitm()), "transfers": by(hot.transfers),
        })
    };
    report.hot.iter().take(HOT_MAX).map(place).collect()
}

fn case(settings: &Settings, scheme: Scheme) -> Case {
    Case {
        topology: settings.topology.clone(),
        scheme,
        buckets: settings.buckets,
        messages: settings.messages,
        workers: settings.workers,
        call_ns: if settings.kernel { CALL_NS } else { 0.0 },
        spin: settings.spin,
        measured_ns: settings.runtime_us * 1000,
        seed: settings.seed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small(topology: &str, scheme: Scheme) -> Case {
        Case {
            topology: Topology::given(topology).expect("a given machine"),
            scheme,
            buckets: 64,
            messages: 2,
            workers: 40,
            call_ns: CALL_NS,
            spin: Duration::ZERO,
            measured_ns: 400_000,
            seed: 1,
        }
    }

    fn transfers(report: &Report, object: &str) -> f64 {
        let of = report.hot.iter().filter(|hot| hot.place.object == object);
        report.per_operation(of.map(|hot| hot.transfers).sum())
    }

    #[test]
    fn message_threads_have_the_first_cpus_and_workers_share_the_others() {
        let case = Case { messages: 2, workers: 3, ..small("here", Scheme::Fixed) };
        assert_eq!(placement(&case), [0, 0, 0, 0, 1, 0, 0, 0], "two CPUs: one each, and what is left over");
        let case = Case { topology: Topology::given("skylake-2s").expect("given"), workers: 60, ..case };
        let cpus = placement(&case);
        assert_eq!((cpus[0], cpus[61], cpus.len()), (0, 1, 122));
        assert_eq!((cpus[1], cpus[60], cpus[62], cpus[111], cpus[112]), (2, 61, 62, 111, 2));
    }

    #[test]
    fn one_count_for_all_is_what_all_calls_wait_for() {
        let [fixed, atomic] = [Scheme::Fixed, Scheme::Atomic].map(|scheme| run(&small("zen3-2s", scheme)));
        assert_eq!((fixed.stuck, atomic.stuck), (0, 0));
        assert_eq!(transfers(&fixed, "Atomic"), 0.0);
        // A request is a wake and a wait. Each increments and decrements the count, and reads it before. Sometimes the
        // line is still in the cache.
        assert!((4.5..10.5).contains(&transfers(&atomic, "Atomic")), "{}", transfers(&atomic, "Atomic"));
        assert!(fixed.per_second() > 1.1 * atomic.per_second(), "{} {}", fixed.per_second(), atomic.per_second());
    }

    #[test]
    fn every_request_is_a_sleep_and_a_wake() {
        let report = run(&small("zen3-2s", Scheme::Live));
        // The waker writes to the task's lines, and the woken thread writes to them when it sleeps again.
        assert!((4.0..8.0).contains(&transfers(&report, "task")), "{}", transfers(&report, "task"));
    }
}
