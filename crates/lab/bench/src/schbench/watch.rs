//! The main thread during a run: it counts requests once a second, and ends the run.

use super::Schbench;
use super::load::{Busy, next_rate, scheduling_delay_us};
use lab_measure::interrupt;
use lab_targets::schbench::{Latencies, SharedState, Worker};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Interval at which the rate is counted.
const TICK: Duration = Duration::from_secs(1);
/// A last interval that is shorter than this is not counted.
const TICK_MIN: Duration = Duration::from_millis(500);

/// Results of a run, at its end or until now.
#[derive(Clone, Default)]
pub struct Findings {
    /// Time from the message thread's time stamp until the worker runs, in ns.
    pub wakeups: Latencies,
    /// Time of one request, in ns.
    pub requests: Latencies,
    /// Requests in each second.
    pub rates: Latencies,
    /// Number of requests that all workers have completed.
    pub done: u64,
    /// Time since the beginning of the run.
    pub elapsed: Duration,
    /// Running times of all workers, added up.
    pub worker_time: Duration,
    /// Mean time that message threads and workers waited for a CPU, in us.
    pub delay_us: (Option<f64>, Option<f64>),
    /// Requests per second that the message threads hand out, all together. 0 if the workers begin.
    pub rate_goal: u32,
}

impl Findings {
    /// Requests per second over the whole run.
    pub fn rps(&self) -> f64 {
        self.done as f64 / self.elapsed.as_secs_f64()
    }
}

/// Watches a run until it ends, and calls `interval` at each interval.
pub fn watch(shared: &SharedState, asked: &Schbench, mut interval: impl FnMut(&Findings)) -> Findings {
    let (start, runtime) = (Instant::now(), Duration::from_secs_f64(asked.runtime_s()));
    let mut watch =
        Watch { shared, asked, start, first: done(shared), rates: Latencies::default(), busy: Busy::default() };
    let (mut tick, mut last_done) = (start, watch.first);
    let (mut told, mut zeroed, mut warm) = (start, start, asked.warmuptime.is_zero());
    let mut goal_met = asked.auto_rps.is_none();
    while start.elapsed() < runtime && !interrupt::requested() {
        interrupt::sleep(TICK.min(runtime.saturating_sub(start.elapsed())));
        let (now, done) = (Instant::now(), done(shared));
        let passed = now - tick;
        if goal_met && (passed >= TICK_MIN || watch.rates.count() == 0) {
            watch.rates.record(((done - last_done) as f64 / passed.as_secs_f64()) as u64);
        }
        (tick, last_done) = (now, done);
        if !warm && now - start >= asked.warmuptime {
            (warm, zeroed) = (true, now);
            watch.forget();
        } else if now - told >= asked.intervaltime && start.elapsed() < runtime {
            told = now;
            interval(&watch.findings());
        }
        if asked.zerotime.is_some_and(|zero| now - zeroed > zero) {
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
    shared: &'a SharedState,
    asked: &'a Schbench,
    start: Instant,
    /// Requests that were completed before the watch began.
    first: u64,
    rates: Latencies,
    busy: Busy,
}

impl Watch<'_> {
    fn findings(&self) -> Findings {
        let shared = self.shared;
        let (wakeups, requests) = shared.latencies();
        let messages = shared.message_threads.iter().map(|message_thread| message_thread.tid.load(Ordering::Relaxed));
        let workers = shared.workers().map(|worker| worker.tid.load(Ordering::Relaxed));
        let delay_us = (scheduling_delay_us(messages), scheduling_delay_us(workers));
        let runtime = |worker: &Worker| worker.runtime_ns.load(Ordering::Relaxed);
        Findings {
            wakeups,
            requests,
            rates: self.rates.clone(),
            done: done(shared) - self.first,
            elapsed: self.start.elapsed(),
            worker_time: Duration::from_nanos(shared.workers().map(runtime).sum()),
            delay_us,
            rate_goal: shared.rate_each.load(Ordering::Relaxed) * shared.message_threads.len() as u32,
        }
    }

    fn forget(&mut self) {
        self.shared.clear();
        self.rates.clear();
    }

    /// With `-A`: adjusts the rate. Returns whether the goal is nearly met.
    fn adjust_rate(&mut self) -> bool {
        let (Some(goal), Some(busy)) = (self.asked.auto_rps, self.busy.percent()) else { return false };
        let (rate, met) = next_rate(self.shared.rate_each.load(Ordering::Relaxed), busy, goal);
        self.shared.rate_each.store(rate, Ordering::Relaxed);
        met
    }
}

fn done(shared: &SharedState) -> u64 {
    shared.workers().map(|worker| worker.requests_done.0.load(Ordering::Relaxed)).sum()
}
