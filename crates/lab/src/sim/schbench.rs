//! The pattern of schbench's threads on virtual cores: message threads that wake workers, workers that post back and wait.
//!
//! With `-n 0 -s 0` a worker has no work of its own. A request is: the worker puts itself into the list of its message
//! thread, posts that one's futex, and waits on its own; the message thread takes the whole list and posts the futex of
//! each worker in it. A post that finds the other one running is a compare-and-swap and no call. It is a pattern: the
//! scheduler is one queue for each core, and what schbench does beside (clocks, its own statistics) is left out.

use crate::cli::sim_more::SchbenchSettings;
use crate::interrupt;
use crate::progress::Progress;
use crate::report::{self, table};
use crate::sim::seeds::CALL_NS;
use crate::sim::seeds::hash::Scheme;
use crate::sim::words::Words;
use anyhow::{Result, ensure};
use clap::ValueEnum;
use serde_json::json;
use std::cell::RefCell;
use ufutex_coherence::atomic::{AtomicU32, Ordering};
use ufutex_coherence::{Length, Report, Simulation, Topology, current, memory, objects};
use ufutex_designs_sim::OwnLine;
use ufutex_sim::layout::Lean;
use ufutex_sim::scheme::{Atomic, Fixed, Live, PerCpu, Scheme as TableScheme};
use ufutex_sim::{Config, Domain, Options, Policy, System};

/// One simulation.
#[derive(Clone, Debug)]
pub struct Case {
    /// Where.
    pub topology: Topology,
    /// How operations reach their bucket.
    pub scheme: Scheme,
    /// Buckets; 0: of the system's global table.
    pub buckets: usize,
    /// Message threads.
    pub messages: usize,
    /// Workers of each message thread.
    pub workers: usize,
    /// What a futex call takes beside the engine and the sleep.
    pub call_ns: f64,
    /// How long it is measured, in virtual nanoseconds.
    pub measured_ns: u64,
    /// Chance comes from this.
    pub seed: u64,
}

/// What a thread's futex says: nobody has posted it, or somebody has.
const BLOCKED: u32 = 0;
const RUNNING: u32 = 1;

/// Runs it; an operation is a request.
pub fn run(case: &Case) -> Report {
    match case.scheme {
        Scheme::Fixed => simulate::<Fixed>(case),
        Scheme::Atomic => simulate::<Atomic>(case),
        Scheme::PerCpu | Scheme::Stalled => simulate::<PerCpu>(case),
        Scheme::Live => simulate::<Live>(case),
    }
}

fn simulate<S: TableScheme<Lean>>(case: &Case) -> Report {
    objects::forget_all();
    let domain: Box<Domain<S, Lean>> = memory::by_line(|| {
        let config = Config::new().hash_seed(7).cpus(case.topology.cpus());
        let system = System::<Lean>::with_config(config).expect("a valid configuration");
        Box::new(Domain::with_options(&system, Options::new().policy(Policy::Fixed(case.buckets)).early_return(false)))
    });
    domain.name_objects();
    let bench = Bench {
        case,
        domain,
        words: Words::as_if_by_line(case.messages * (1 + case.workers), 1),
        heads: memory::by_line(|| (0..case.messages).map(|_| OwnLine(AtomicU32::new(0))).collect()),
        lists: RefCell::new(vec![Vec::new(); case.messages]),
    };
    let length = Length::Time { warm_up_ns: case.measured_ns / 2, measured_ns: case.measured_ns };
    Simulation::new(&case.topology).placement(bench.placement()).seed(case.seed).length(length).run(|thread| {
        current::rendezvous();
        if thread < case.messages { bench.message(thread) } else { bench.worker(thread) }
    })
}

/// Runs and prints what was asked for.
pub fn print(settings: &SchbenchSettings) -> Result<()> {
    let mut lines = table::new(&["scheme", "buckets", "requests/s", "HITM/request"]);
    let schemes = &settings.schemes;
    let stage = format!("sim schbench: {} runs", schemes.len());
    let progress = Progress::start(&stage, schemes.len(), settings.silent || settings.json);
    let mut made = 0;
    for scheme in schemes.iter().take_while(|_| !interrupt::asked()) {
        let report = run(&case(settings, *scheme));
        progress.step();
        made += 1;
        ensure!(report.stuck == 0, "{} virtual threads never ended", report.stuck);
        let (rps, hitm) = (report.per_second(), report.per_operation(report.counts.hitm));
        let name = scheme.to_possible_value().map(|name| name.get_name().to_string()).unwrap_or_default();
        if settings.json {
            let row = json!({
                "workload": "schbench", "scheme": name, "buckets": settings.buckets, "topology": settings.topology.name,
                "message_threads": settings.messages, "threads": settings.workers, "seed": settings.seed,
                "rps": rps, "hitm_per_op": hitm,
            });
            report::print(&row.to_string())?;
        }
        lines.add_row(table::align(
            vec![name, settings.buckets.to_string(), format!("{rps:.0}"), format!("{hitm:.2}")],
            1,
        ));
    }
    drop(progress);
    interrupt::tell(made, schemes.len(), "runs");
    if settings.json || made == 0 {
        return Ok(());
    }
    let topology = &settings.topology;
    report::print(&format!(
        "# ufutex sim schbench: modelled, not measured; on {} ({}); {} message threads with {} workers each\n\n{}",
        topology.name,
        topology.description,
        settings.messages,
        settings.workers,
        table::finish(lines)
    ))
}

fn case(settings: &SchbenchSettings, scheme: Scheme) -> Case {
    Case {
        topology: settings.topology.clone(),
        scheme,
        buckets: settings.buckets,
        messages: settings.messages,
        workers: settings.workers,
        call_ns: if settings.kernel { CALL_NS } else { 0.0 },
        measured_ns: settings.runtime_us * 1000,
        seed: settings.seed,
    }
}

struct Bench<'a, S: TableScheme<Lean>> {
    case: &'a Case,
    domain: Box<Domain<S, Lean>>,
    /// A futex for each thread: those of message threads come first.
    words: Words,
    /// The first link of each list, which whoever joins or takes it changes.
    heads: Vec<OwnLine<AtomicU32>>,
    /// What is in them; only the first link is shared memory.
    lists: RefCell<Vec<Vec<usize>>>,
}

impl<S: TableScheme<Lean>> Bench<'_, S> {
    /// `-M auto`: message threads have a core each, workers share the others.
    fn placement(&self) -> Vec<u16> {
        let (messages, cpus) = (self.case.messages, self.case.topology.cpus());
        let workers = messages * self.case.workers;
        let others = cpus.saturating_sub(messages).max(1);
        let worker = |number: usize| ((messages + number % others) % cpus) as u16;
        (0..messages).map(|number| (number % cpus) as u16).chain((0..workers).map(worker)).collect()
    }

    fn message(&self, message: usize) {
        while !current::is_over() {
            self.heads[message].0.swap(0, Ordering::AcqRel);
            let list = std::mem::take(&mut self.lists.borrow_mut()[message]);
            for worker in &list {
                self.post(*worker);
            }
            if list.is_empty() {
                self.wait(message);
            }
        }
        // Whoever still waits is let go.
        (0..self.case.messages * (1 + self.case.workers)).for_each(|thread| self.post(thread));
    }

    fn worker(&self, worker: usize) {
        let message = (worker - self.case.messages) % self.case.messages;
        while !current::is_over() {
            // schbench tries compare-and-swap until it succeeds. In the model, where a line goes to the next who asks for it at
            // once, 256 workers would fail for each other for ever.
            self.heads[message].0.swap(worker as u32, Ordering::AcqRel);
            self.lists.borrow_mut()[message].push(worker);
            self.post(message);
            self.wait(worker);
            current::done(1);
        }
    }

    fn post(&self, thread: usize) {
        let word = self.words.host(thread, 0);
        if word.compare_exchange(BLOCKED, RUNNING, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            current::compute(self.case.call_ns);
            self.domain.wake(self.words.word(thread, 0), 1);
        }
    }

    /// Takes the token that a post leaves, once there is one.
    fn wait(&self, thread: usize) {
        let word = self.words.host(thread, 0);
        while word.compare_exchange(RUNNING, BLOCKED, Ordering::AcqRel, Ordering::Acquire).is_err() {
            if current::is_over() {
                return;
            }
            current::compute(self.case.call_ns);
            let _ = self.domain.wait(self.words.word(thread, 0), u64::from(BLOCKED));
        }
    }
}
