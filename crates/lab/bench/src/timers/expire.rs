//! Timers that expire: one-shots spread over a second. Measures how late each is delivered.

use lab_measure::clock;
use lab_targets::timers::Lateness;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;
use ufutex::timer::{Callback, Driver, Expired, Expiry, Notify, Setting, TimerClock, TimerOptions, Timers};

/// Time over which the deadlines are spread.
const SPREAD: Duration = Duration::from_secs(1);
/// Time from arming the last timer to the first deadline.
const HEAD_START: Duration = Duration::from_millis(100);
/// A timer that has not expired this long after the last deadline is lost.
const PATIENCE: Duration = Duration::from_secs(2);
/// The timer has not been delivered.
const NOT_YET: u64 = u64::MAX;

/// What the driver's thread records.
struct Book {
    /// Time of each timer's delivery, in ns of the monotonic clock.
    delivered_at: Vec<AtomicU64>,
    count: AtomicUsize,
    /// Number of timers that were delivered early or twice.
    wrong: AtomicUsize,
}

/// One sample of `timers` timers of one process.
pub fn sample(timers: usize) -> Result<Lateness, String> {
    let say = |error: ufutex::Error| format!("the engine: {error}");
    let book = Arc::new(Book {
        delivered_at: (0..timers).map(|_| AtomicU64::new(NOT_YET)).collect(),
        count: AtomicUsize::new(0),
        wrong: AtomicUsize::new(0),
    });
    let theirs = book.clone();
    let callback = move |_: &Timers, expired: Expired| theirs.note(&expired);
    let driver = Driver::host().map_err(say)?;
    let process =
        Timers::with_options(&driver, Arc::new(Callback(callback)), TimerOptions::new().max_timers(usize::MAX))
            .map_err(say)?;
    let ids: Result<Vec<i32>, _> = (0..timers)
        .map(|number| {
            let notify = Notify::Signal { signal: libc::SIGALRM, value: number as u64 };
            process.create(TimerClock::Monotonic, Some(notify))
        })
        .collect();
    let ids = ids.map_err(say)?;
    // 2 us for arming each timer is enough on a slow machine.
    let begin = clock::monotonic() + HEAD_START + Duration::from_micros(2) * timers as u32;
    let due = |number: usize| begin + SPREAD.mul_f64(number as f64 / timers as f64);
    for (number, id) in ids.iter().enumerate() {
        let setting = Setting { value: due(number), interval: Duration::ZERO };
        process.settime(*id, Expiry::At(setting.value), setting.interval).map_err(say)?;
    }
    let last = begin + SPREAD + PATIENCE;
    // [Ld]: with the last timer counted, all times have been written down.
    while book.count.load(Ordering::Acquire) < timers && clock::monotonic() < last {
        thread::sleep(Duration::from_millis(10));
    }
    drop(process);
    book.judge(due)
}

impl Book {
    fn note(&self, expired: &Expired) {
        let now = clock::monotonic().as_nanos() as u64;
        let Notify::Signal { value, .. } = expired.notify else { return };
        if self.delivered_at[value as usize].swap(now, Ordering::Relaxed) != NOT_YET {
            self.wrong.fetch_add(1, Ordering::Relaxed);
        }
        self.count.fetch_add(1, Ordering::Release); // [Ld]
    }

    fn judge(&self, due: impl Fn(usize) -> Duration) -> Result<Lateness, String> {
        let mut late_us = Vec::with_capacity(self.delivered_at.len());
        let mut wrong = self.wrong.load(Ordering::Relaxed);
        for (number, at) in self.delivered_at.iter().enumerate() {
            match at.load(Ordering::Relaxed) {
                NOT_YET => {}
                at => match at.checked_sub(due(number).as_nanos() as u64) {
                    Some(late) => late_us.push(late as f64 / 1000.0),
                    None => wrong += 1,
                },
            }
        }
        if wrong > 0 {
            return Err(format!("{wrong} timers expired early or twice"));
        }
        late_us.sort_by(f64::total_cmp);
        let at = |share: f64| late_us.get((late_us.len() as f64 * share) as usize).or(late_us.last()).copied();
        let lost = self.delivered_at.len() - late_us.len();
        Ok(Lateness { p50: at(0.5), p99: at(0.99), max: at(1.0), lost })
    }
}
