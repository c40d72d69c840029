//! `resize`: resizes the table while all cores hammer it.

use super::engine::{self, Case, Domain, PLAIN_CYCLES, Waited};
use super::words::Words;
use crate::settings::Settings;
use anyhow::{Result, anyhow, ensure};
use hdrhistogram::Histogram;
use std::cell::{Cell, RefCell};
use ufutex_coherence::{Report, Simulation, current};

/// The expected value of the waits. The words hold 0.
const DIFFERING_VALUE: u32 = 1234;
/// Virtual nanoseconds for which the cores hammer before the resize begins, and again after it has ended.
const LEAD_NS: u64 = 60_000;
/// A resize that takes longer than this is cancelled, if the scheme can cancel one.
pub const GIVE_UP_NS: u64 = 500_000;
/// Length of the pieces of time in which operations are counted.
pub const PIECE_NS: u64 = 10_000;

/// The result of a case.
pub struct Finding {
    /// The machine's report of the whole run.
    pub report: Report,
    /// Length of the resize, or the time until it was cancelled.
    pub resize_ns: u64,
    /// Whether the resize was completed, not cancelled.
    pub completed: bool,
    /// When the resize began, from the start of the first piece.
    pub began_ns: u64,
    /// Nanoseconds of the operations that overlap the resize.
    pub pauses: Histogram<u64>,
    /// Number of operations in each piece of time.
    pub pieces: Vec<u64>,
}

struct Resize<'a> {
    settings: &'a Settings,
    cores: usize,
}

/// Data that the virtual threads share with each other and with the caller. It is not memory of the virtual machine.
struct State {
    window: Cell<Option<(u64, u64)>>,
    begun: Cell<Option<u64>>,
    is_over: Cell<bool>,
    result: Cell<Option<Result<bool>>>,
    pauses: RefCell<Histogram<u64>>,
    pieces: RefCell<Vec<u64>>,
    failed: Cell<u64>,
}

impl Resize<'_> {
    fn run(&self, domain: &dyn Domain) -> Result<Finding> {
        let Settings { topology, futexes, seed, .. } = self.settings;
        let words = Words::new(self.cores, *futexes);
        let state = State {
            window: Cell::new(None),
            begun: Cell::new(None),
            is_over: Cell::new(false),
            result: Cell::new(None),
            pauses: RefCell::new(Histogram::new_with_bounds(1, 1 << 40, 3)?),
            pieces: RefCell::new(Vec::new()),
            failed: Cell::new(0),
        };
        let plain_ns = PLAIN_CYCLES / topology.ghz;
        // On a full machine, the resizing thread shares the first core, as one more thread of a real process would.
        let beside = if self.cores < topology.cpus() { self.cores } else { 0 };
        let placement = (0..self.cores).chain([beside]).map(|cpu| cpu as u16).collect();
        let report = Simulation::new(topology).placement(placement).seed(*seed).run(|thread| {
            if thread == self.cores {
                self.resize(domain, &state);
            } else {
                self.hammer(domain, &words, &state, plain_ns);
            }
        });
        state.finding(report)
    }

    fn hammer(&self, domain: &dyn Domain, words: &Words, state: &State, plain_ns: f64) {
        words.warm_up();
        current::rendezvous();
        let start = current::now_ns();
        let (mut number, mut before) = (0, start);
        while !state.is_over.get() {
            current::compute(plain_ns);
            let waited = domain.wait(words.word(current::thread(), number), DIFFERING_VALUE);
            state.failed.set(state.failed.get() + u64::from(waited != Waited::Differs));
            current::done(1);
            let now = current::now_ns();
            state.note(start, before, now);
            before = now;
            number = if number + 1 == words.count() { 0 } else { number + 1 };
        }
    }

    fn resize(&self, domain: &dyn Domain, state: &State) {
        current::rendezvous();
        current::nap(LEAD_NS);
        let begin = current::now_ns();
        state.begun.set(Some(begin));
        let mut keep_trying = || current::now_ns() < begin + GIVE_UP_NS;
        state.result.set(Some(domain.set_slots_while(self.settings.resize.1, &mut keep_trying)));
        state.window.set(Some((begin, current::now_ns())));
        current::nap(LEAD_NS);
        state.is_over.set(true);
    }
}

impl State {
    /// Records an operation that lasted from `before` to `now`.
    fn note(&self, start: u64, before: u64, now: u64) {
        let overlaps = match (self.begun.get(), self.window.get()) {
            (Some(begin), None) => now >= begin,
            (_, Some((begin, end))) => now >= begin && before <= end,
            (None, None) => false,
        };
        if overlaps {
            self.pauses.borrow_mut().saturating_record(now - before);
        }
        let mut pieces = self.pieces.borrow_mut();
        let piece = ((now - start.min(now)) / PIECE_NS) as usize;
        if pieces.len() <= piece {
            pieces.resize(piece + 1, 0);
        }
        pieces[piece] += 1;
    }

    fn finding(self, report: Report) -> Result<Finding> {
        ensure!(report.stuck == 0, "{} threads never ended", report.stuck);
        ensure!(self.failed.get() == 0, "{} operations had a wrong result", self.failed.get());
        let never_ended = || anyhow!("the resize never ended");
        let completed = self.result.into_inner().ok_or_else(never_ended)??;
        let (begin, end) = self.window.get().ok_or_else(never_ended)?;
        // The last piece is incomplete.
        let mut pieces = self.pieces.into_inner();
        pieces.pop();
        Ok(Finding {
            report,
            resize_ns: end - begin,
            completed,
            began_ns: LEAD_NS,
            pauses: self.pauses.into_inner(),
            pieces,
        })
    }
}

/// Runs a case.
pub fn find(settings: &Settings, case: Case) -> Result<Finding> {
    Resize { settings, cores: case.cores }
        .run(&*engine::of_case(settings, case)?)
        .map_err(|error| error.context(format!("{} on {} cores", case.scheme, case.cores)))
}
