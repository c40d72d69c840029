//! The main thread's part in a run: it looks on once a second, and ends it.

use super::load::{Busy, next_rate, scheduling_delay_us};
use crate::schbench::Course;
use lab_measure::interrupt;
use lab_targets::schbench::{Hall, Latencies, Worker};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Rates are counted so often.
const TICK: Duration = Duration::from_secs(1);
/// A shorter rest at the end of a run says nothing of its rate.
const TICK_MIN: Duration = Duration::from_millis(500);

/// What a run has found, at its end or on the way.
#[derive(Clone, Default)]
pub struct Findings {
    /// From the message thread's stamp to the worker's next instruction, in nanoseconds.
    pub wakeups: Latencies,
    /// Of one request, in nanoseconds.
    pub requests: Latencies,
    /// Requests in each second.
    pub rates: Latencies,
    /// Requests that all workers have done.
    pub done: u64,
    /// How long they took.
    pub elapsed: Duration,
    /// How long workers ran, together.
    pub worker_time: Duration,
    /// Message threads' and workers' waits for a CPU, on average, in microseconds.
    pub delay_us: (Option<f64>, Option<f64>),
    /// The rate that message threads hand out, together; 0 where workers begin.
    pub rate_goal: u32,
}

impl Findings {
    /// Requests a second, of the whole run.
    pub fn rps(&self) -> f64 {
        self.done as f64 / self.elapsed.as_secs_f64()
    }
}

/// Watches for as long as the course says, and tells of each interval.
pub fn watch(hall: &Hall, course: &Course, mut interval: impl FnMut(&Findings)) -> Findings {
    let start = Instant::now();
    let mut watch =
        Watch { hall, course, start, first: done(hall), rates: Latencies::default(), busy: Busy::default() };
    let (mut tick, mut last_done) = (start, watch.first);
    let (mut told, mut zeroed, mut warm) = (start, start, course.warm_up.is_zero());
    let mut goal_met = course.busy_percent.is_none();
    while start.elapsed() < course.runtime && !interrupt::asked() {
        interrupt::sleep(TICK.min(course.runtime.saturating_sub(start.elapsed())));
        let (now, done) = (Instant::now(), done(hall));
        let passed = now - tick;
        if goal_met && (passed >= TICK_MIN || watch.rates.count() == 0) {
            watch.rates.record(((done - last_done) as f64 / passed.as_secs_f64()) as u64);
        }
        (tick, last_done) = (now, done);
        if !warm && now - start >= course.warm_up {
            (warm, zeroed) = (true, now);
            watch.forget();
        } else if now - told >= course.interval && start.elapsed() < course.runtime {
            told = now;
            interval(&watch.findings());
        }
        if course.zero.is_some_and(|zero| now - zeroed > zero) {
            zeroed = now;
            watch.forget();
        }
        if watch.adjust_rate() && !goal_met {
            goal_met = true;
            watch.rates.clear();
        }
    }
    watch.findings()
}

struct Watch<'a> {
    hall: &'a Hall,
    course: &'a Course,
    start: Instant,
    /// Requests that were done before the watch began.
    first: u64,
    rates: Latencies,
    busy: Busy,
}

impl Watch<'_> {
    fn findings(&self) -> Findings {
        let hall = self.hall;
        let (wakeups, requests) = hall.latencies();
        let messages = hall.desks.iter().map(|desk| desk.tid.load(Ordering::Relaxed));
        let workers = hall.workers().map(|worker| worker.tid.load(Ordering::Relaxed));
        let delay_us = (scheduling_delay_us(messages), scheduling_delay_us(workers));
        let runtime = |worker: &Worker| worker.runtime_ns.load(Ordering::Relaxed);
        Findings {
            wakeups,
            requests,
            rates: self.rates.clone(),
            done: done(hall) - self.first,
            elapsed: self.start.elapsed(),
            worker_time: Duration::from_nanos(hall.workers().map(runtime).sum()),
            delay_us,
            rate_goal: hall.rate_each.load(Ordering::Relaxed) * hall.desks.len() as u32,
        }
    }

    fn forget(&mut self) {
        self.hall.clear();
        self.rates.clear();
    }

    /// With `-A`; whether the machine is about as busy as it is to be.
    fn adjust_rate(&mut self) -> bool {
        let (Some(goal), Some(busy)) = (self.course.busy_percent, self.busy.percent()) else { return false };
        let (rate, met) = next_rate(self.hall.rate_each.load(Ordering::Relaxed), busy, goal);
        self.hall.rate_each.store(rate, Ordering::Relaxed);
        met
    }
}

fn done(hall: &Hall) -> u64 {
    hall.workers().map(|worker| worker.requests_done.0.load(Ordering::Relaxed)).sum()
}
