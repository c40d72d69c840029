//! `resize`: a new table size while every core hammers the old one.

use super::engine::{self, Case, Engine, Job, PLAIN_CYCLES};
use super::words::Words;
use crate::settings::Settings;
use anyhow::{Result, anyhow, ensure};
use hdrhistogram::Histogram;
use std::cell::{Cell, RefCell};
use ufutex_coherence::{Report, Simulation, current};
use ufutex_sim::Error;
use ufutex_sim::layout::Layout;
use ufutex_sim::scheme::Scheme;

/// Nobody waits for this value.
const DIFFERING_VALUE: u64 = 1234;
/// How long the cores hammer before the resize begins and after it has ended, in virtual nanoseconds.
const LEAD_NS: u64 = 60_000;
/// A resize that has not completed by then is given up, where the scheme lets us.
pub const GIVE_UP_NS: u64 = 500_000;
/// Throughput over time is told in pieces of this length.
pub const PIECE_NS: u64 = 10_000;

/// What came of a case.
pub struct Finding {
    /// Of the whole run, and by operation.
    pub report: Report,
    /// How long the resize took, or until it was given up.
    pub resize_ns: u64,
    /// Whether it was not given up.
    pub completed: bool,
    /// When it began, since the first piece.
    pub began_ns: u64,
    /// Operations that overlap the resize, in nanoseconds.
    pub pauses: Histogram<u64>,
    /// Operations in each piece of time.
    pub pieces: Vec<u64>,
}

struct Resize<'a> {
    settings: &'a Settings,
    cores: usize,
}

/// What the threads leave for each other and for us; none of it is the machine's memory.
struct Course {
    window: Cell<Option<(u64, u64)>>,
    begun: Cell<Option<u64>>,
    is_over: Cell<bool>,
    result: Cell<Result<(), Error>>,
    pauses: RefCell<Histogram<u64>>,
    pieces: RefCell<Vec<u64>>,
    failed: Cell<u64>,
}

impl Job for Resize<'_> {
    type Output = Result<Finding>;

    fn run<S: Scheme<L>, L: Layout>(&self, engine: &Engine<S, L>) -> Self::Output {
        let Settings { topology, futexes, seed, .. } = self.settings;
        let words = Words::new(self.cores, *futexes);
        let course = Course {
            window: Cell::new(None),
            begun: Cell::new(None),
            is_over: Cell::new(false),
            result: Cell::new(Ok(())),
            pauses: RefCell::new(Histogram::new_with_bounds(1, 1 << 40, 3)?),
            pieces: RefCell::new(Vec::new()),
            failed: Cell::new(0),
        };
        let plain_ns = PLAIN_CYCLES / topology.ghz;
        // Who resizes shares the first core, as one more thread of a process on all CPUs would share one.
        let beside = if self.cores < topology.cpus() { self.cores } else { 0 };
        let placement = (0..self.cores).chain([beside]).map(|cpu| cpu as u16).collect();
        let report = Simulation::new(topology).placement(placement).seed(*seed).run(|thread| {
            if thread == self.cores {
                self.resize(engine, &course);
            } else {
                self.hammer(engine, &words, &course, plain_ns);
            }
        });
        course.finding(report)
    }
}

impl Resize<'_> {
    fn hammer<S: Scheme<L>, L: Layout>(&self, engine: &Engine<S, L>, words: &Words, course: &Course, plain_ns: f64) {
        words.warm_up();
        current::rendezvous();
        let start = current::now_ns();
        let (mut number, mut before) = (0, start);
        while !course.is_over.get() {
            current::compute(plain_ns);
            let waited = engine.domain.wait(words.word(current::thread(), number), DIFFERING_VALUE);
            course.failed.set(course.failed.get() + u64::from(waited != Err(Error::Again)));
            current::done(1);
            let now = current::now_ns();
            course.note(start, before, now);
            before = now;
            number = if number + 1 == words.count() { 0 } else { number + 1 };
        }
    }

    fn resize<S: Scheme<L>, L: Layout>(&self, engine: &Engine<S, L>, course: &Course) {
        current::rendezvous();
        current::nap(LEAD_NS);
        let begin = current::now_ns();
        course.begun.set(Some(begin));
        let keep_trying = || current::now_ns() < begin + GIVE_UP_NS;
        course.result.set(engine.domain.set_slots_while(self.settings.resize.1, keep_trying));
        course.window.set(Some((begin, current::now_ns())));
        current::nap(LEAD_NS);
        course.is_over.set(true);
    }
}

impl Course {
    /// An operation lasted from `before` to `now`.
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
        ensure!(self.failed.get() == 0, "{} operations did not end as they must", self.failed.get());
        let completed = match self.result.get() {
            Ok(()) => true,
            Err(Error::TimedOut) => false,
            Err(error) => return Err(anyhow!("{error}")),
        };
        let (begin, end) = self.window.get().ok_or_else(|| anyhow!("the resize never ended"))?;
        // The last piece is cut short.
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
    engine::on_engine(settings, case, &Resize { settings, cores: case.cores })?
        .map_err(|error| error.context(format!("{} on {} cores", case.scheme, case.cores)))
}
