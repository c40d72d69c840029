//! The main thread during a run: it counts requests once a second, and ends the run.

use lab_measure::interrupt;
use lab_targets::schbench::{Latencies, SharedState};
use std::fs;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Interval at which the rate is counted.
const TICK: Duration = Duration::from_secs(1);
/// A last interval that is shorter than this is not counted.
const TICK_MIN: Duration = Duration::from_millis(500);

/// Results of a run.
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
    /// Mean time that message threads and workers waited for a CPU, in us.
    pub delay_us: (Option<f64>, Option<f64>),
}

impl Findings {
    /// Requests per second over the whole run.
    pub fn rps(&self) -> f64 {
        self.done as f64 / self.elapsed.as_secs_f64()
    }
}

/// Watches a run until its time has passed.
pub fn watch(shared: &SharedState, runtime: Duration) -> Findings {
    let (start, first) = (Instant::now(), done(shared));
    let (mut tick, mut last_done, mut rates) = (start, first, Latencies::default());
    while start.elapsed() < runtime && !interrupt::requested() {
        interrupt::sleep(TICK.min(runtime.saturating_sub(start.elapsed())));
        let (now, done) = (Instant::now(), done(shared));
        let passed = now - tick;
        if passed >= TICK_MIN || rates.count() == 0 {
            rates.record(((done - last_done) as f64 / passed.as_secs_f64()) as u64);
        }
        (tick, last_done) = (now, done);
    }
    let (wakeups, requests) = shared.latencies();
    let messages = shared.message_threads.iter().map(|message_thread| message_thread.tid.load(Ordering::Relaxed));
    let workers = shared.workers().map(|worker| worker.tid.load(Ordering::Relaxed));
    let delay_us = (scheduling_delay_us(messages), scheduling_delay_us(workers));
    Findings { wakeups, requests, rates, done: done(shared) - first, elapsed: start.elapsed(), delay_us }
}

fn done(shared: &SharedState) -> u64 {
    shared.workers().map(|worker| worker.requests_done.0.load(Ordering::Relaxed)).sum()
}

/// Mean time that a thread waited for a CPU, in us. `None` if the kernel does not report it.
fn scheduling_delay_us(tids: impl Iterator<Item = u32>) -> Option<f64> {
    let of = |tid: u32| delay_ns(&fs::read_to_string(format!("/proc/self/task/{tid}/schedstat")).ok()?);
    let delays: Vec<f64> = tids.filter(|tid| *tid != 0).filter_map(of).collect();
    (!delays.is_empty()).then(|| delays.iter().sum::<f64>() / delays.len() as f64 / 1e3)
}

/// From the three numbers of `schedstat`: time running, time waiting, number of waits.
fn delay_ns(schedstat: &str) -> Option<f64> {
    let mut numbers = schedstat.split_whitespace().skip(1).map(|number| number.parse::<f64>().ok());
    let (waiting, times) = (numbers.next()??, numbers.next()??);
    (times > 0.0).then(|| waiting / times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_file_is_read_column_by_column() {
        assert_eq!(delay_ns("100 3000 3\n"), Some(1000.0));
        assert_eq!(delay_ns("0 0 0\n"), None);
    }
}
