//! Timers that are made, set, read and deleted while they expire. Timers with an even number expire once, and each setting of
//! them ends in one of three ways. Timers with an odd number have an interval, and what they have delivered always follows
//! from the clock.

use super::manual;
use crate::clock;
use crate::findings::exactly;
use crate::heart::Doing;
use crate::random::Random;
use crate::settings::seconds;
use crate::shift::{Seat, Shift};
use crate::watched;
use crate::world::World;
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use ufutex::platform::{Clock, Host, Platform};
use ufutex::timer::{Base, Clocks, Deliver, Expiry, Notice, Notify, Setting, TimerClock, TimerOptions, Timers};

/// Settings between two sleeps.
const ACTS: usize = 64;
const IDLE: Duration = Duration::from_millis(2);
const LONGEST_NS: u64 = 1_000_000_000;
/// The driver may be this late before a timer is expected to catch up.
const LATE: Duration = Duration::from_secs(1);
/// A timer that is due may still be set again for this time, which races with its expiry.
const RACE: Duration = Duration::from_millis(2);

/// What a timer is set to.
#[derive(Clone, Copy, Default)]
enum State {
    #[default]
    Disarmed,
    /// It expires once, at `deadline` of `clock`, or of CLOCK_MONOTONIC if it was set to a length of time.
    Once { base: Base, deadline: Duration, setting: Option<u64> },
    /// It has delivered `delivered` expirations, with overruns.
    Every { base: Base, first: Duration, interval: Duration, delivered: u64 },
}

impl State {
    /// The clock and the first deadline that the timer has not delivered. `None` if it is disarmed.
    fn deadline(&self) -> Option<(Base, Duration)> {
        match *self {
            Self::Disarmed => None,
            Self::Once { base, deadline, .. } => Some((base, deadline)),
            Self::Every { base, first, interval, delivered } => {
                let next = first.as_nanos() + interval.as_nanos() * u128::from(delivered);
                Some((base, Duration::from_nanos(next as u64)))
            }
        }
    }
}

/// As findings have it.
impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Disarmed => f.write_str("a disarmed timer"),
            Self::Once { base, deadline, .. } => {
                write!(f, "a timer that expires once, when {} shows {}", clock_name(base), exactly(deadline))
            }
            Self::Every { base, first, interval, delivered } => write!(
                f,
                "a timer that expires each {} from {} of {} on, and has expired {delivered} times",
                exactly(interval),
                exactly(first),
                clock_name(base)
            ),
        }
    }
}

pub fn clock_name(base: Base) -> &'static str {
    match base {
        Base::Monotonic => "CLOCK_MONOTONIC",
        Base::Boottime => "CLOCK_BOOTTIME",
        Base::Realtime => "CLOCK_REALTIME",
        Base::Tai => "CLOCK_TAI",
    }
}

/// One timer.
#[derive(Default)]
struct Entry {
    /// `None` while there is no timer.
    id: Option<i32>,
    clock: Option<TimerClock>,
    state: State,
    /// When it was first noticed that the timer is late, since it was set or has expired: by the clock of [`watched`].
    late_since: Option<Duration>,
}

/// What is known of the timers of a shift. The driver's thread takes each notice when it comes.
struct Book {
    world: Arc<World>,
    entries: Vec<Mutex<Entry>>,
}

/// The number of expirations that are due at `now`.
fn due(first: Duration, interval: Duration, now: Duration) -> u64 {
    now.checked_sub(first).map_or(0, |passed| (passed.as_nanos() / interval.as_nanos()) as u64 + 1)
}

/// The host's `CLOCK_BOOTTIME`.
fn boottime() -> Duration {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes to `now`, which lives until it returns.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut now) };
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

impl Book {
    fn entry(&self, index: usize) -> MutexGuard<'_, Entry> {
        self.entries[index].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn time(&self, base: Base) -> Duration {
        match (&self.world.clocks, base) {
            (Some(clocks), base) => clocks.now(base),
            (None, Base::Boottime) => boottime(),
            (None, Base::Realtime) => Host::now(Clock::Realtime),
            (None, _) => Host::now(Clock::Monotonic),
        }
    }

    fn broken(&self, law: &str, expected: String, found: String) {
        self.world.findings.add(format_args!("{}: {law}", self.world.name), expected, found);
    }

    /// A timer that expires once has expired.
    fn expired_once(&self, entry: &mut Entry, overrun: i32) {
        let State::Once { base, deadline, setting } = entry.state else {
            let found = entry.state.to_string();
            return self.broken("a timer expires once for each setting", "an armed timer".to_string(), found);
        };
        entry.state = State::Disarmed;
        self.world.counts.timers_expired.add(1);
        let now = self.time(base);
        let is_steady = base != Base::Realtime || setting.is_some() && setting == clock::setting();
        // The host's own CLOCK_REALTIME may be set by others.
        let is_known = base != Base::Realtime || self.world.clocks.is_some();
        if now < deadline && is_steady && is_known {
            let expected = format!("when {} shows {} or more", clock_name(base), exactly(deadline));
            let found = format!("it shows {}, {} less", exactly(now), exactly(deadline - now));
            self.broken("no timer expires early", expected, found);
        }
        if overrun != 0 {
            self.broken("a timer without an interval has no overrun", 0.to_string(), overrun.to_string());
        }
    }

    /// A timer with an interval has expired. The engine has read the clock between `before` and `after`.
    fn expired_again(&self, entry: &mut Entry, overrun: i32, before: Duration) {
        let State::Every { base, first, interval, delivered } = &mut entry.state else {
            let found = entry.state.to_string();
            return self.broken("no disarmed timer expires", "an armed timer".to_string(), found);
        };
        let more = 1 + u64::try_from(overrun).unwrap_or(0);
        *delivered += more;
        self.world.counts.expirations.add(more as usize);
        let bounds = due(*first, *interval, before)..=due(*first, *interval, self.time(*base));
        if !bounds.contains(delivered) {
            let law = format!("a timer of {} has delivered what its interval and the clock say", exactly(*interval));
            let delivered = *delivered;
            self.broken(&law, format!("{} to {}", bounds.start(), bounds.end()), delivered.to_string());
        }
    }
}

impl Deliver for Book {
    fn expired(&self, timers: &Timers, notice: Notice) {
        let Notify::Signal { value, .. } = notice.notify() else { return };
        let index = value as usize;
        let mut entry = self.entry(index);
        entry.late_since = None;
        let before = match entry.state {
            State::Every { base, .. } => self.time(base),
            _ => Duration::ZERO,
        };
        match timers.take(notice) {
            Some(expired) if index.is_multiple_of(2) => self.expired_once(&mut entry, expired.overrun),
            Some(expired) => self.expired_again(&mut entry, expired.overrun, before),
            None if index.is_multiple_of(2) => self.world.counts.timers_voided.add(1),
            None => {}
        }
    }
}

/// Works until the run is stopped, and then until all that is due has expired.
pub fn run(shift: &Shift, mut seat: Seat) {
    let world = &shift.world;
    let entries = (0..shift.timers).map(|_| Mutex::default()).collect();
    let book = Arc::new(Book { world: world.clone(), entries });
    let made = Timers::with_options(world.system.driver(), book.clone(), TimerOptions::new().max_timers(usize::MAX));
    let timers = match made {
        Ok(timers) => timers,
        Err(error) => return world.unexpected("new timers", error),
    };
    for index in (0..shift.timers).take_while(|_| world.is_running()) {
        seat.heart.during(Doing::Timers, 0, || act(&book, &timers, index, &mut seat.random));
    }
    world.flags.filled.fetch_add(1, Ordering::Relaxed);
    while world.is_running() {
        for _ in 0..ACTS {
            let index = seat.random.below(shift.timers);
            seat.heart.during(Doing::Timers, 0, || act(&book, &timers, index, &mut seat.random));
        }
        if seat.random.one_in(16) {
            seat.heart.during(Doing::Timers, 0, || manual::trial(world, &mut seat.random));
        }
        std::thread::sleep(IDLE);
    }
    for index in 0..shift.timers {
        // After a finding the run ends.
        while is_behind(&book, index) && world.findings.count() == 0 {
            look_after(&book, index);
            std::thread::sleep(IDLE);
            seat.heart.beat();
        }
        delete(&book, &timers, index);
        seat.heart.beat();
    }
    if timers.count() != 0 {
        book.broken("no timer is left", "0".to_string(), timers.count().to_string());
    }
}

fn act(book: &Book, timers: &Timers, index: usize, random: &mut Random) {
    look_after(book, index);
    // Now and then a timer is set again while it expires.
    let late = late(book, book.entry(index).state);
    let may_be_set = late.is_zero() || random.one_in(8) && late < RACE;
    if !may_be_set {
        return;
    }
    if random.one_in(8) {
        delete(book, timers, index);
    }
    let is_once = index.is_multiple_of(2);
    let mut entry = book.entry(index);
    let id = match entry.id {
        Some(id) => id,
        None => {
            // Timers with an interval are on clocks that are never set.
            let clocks = [TimerClock::Monotonic, TimerClock::Boottime, TimerClock::Realtime];
            let clock = random.of(&clocks[..if is_once { 3 } else { 2 }]);
            match timers.create(clock, Some(Notify::Signal { signal: 14, value: index as u64 })) {
                Ok(id) => {
                    (entry.id, entry.clock) = (Some(id), Some(clock));
                    id
                }
                Err(error) => return book.world.unexpected("timer_create", error),
            }
        }
    };
    set(book, timers, &mut entry, id, is_once, random);
    if let Err(error) = timers.getoverrun(id) {
        book.world.unexpected("timer_getoverrun", error);
    }
}

/// Sets a timer again.
fn set(book: &Book, timers: &Timers, entry: &mut Entry, id: i32, is_once: bool, random: &mut Random) {
    let is_relative = is_once && random.one_in(2);
    let base = match entry.clock {
        // A length of time on CLOCK_REALTIME runs by the monotonic clock.
        Some(TimerClock::Realtime) if !is_relative => Base::Realtime,
        Some(TimerClock::Boottime) => Base::Boottime,
        _ => Base::Monotonic,
    };
    let length = Duration::from_nanos(1 + random.below(LONGEST_NS));
    let setting = clock::setting();
    // The engine reads the clock a moment later, so a length of time ends later than this.
    let deadline = book.time(base) + length;
    let first = if is_relative { Expiry::After(length) } else { Expiry::At(deadline) };
    let interval = match is_once {
        true => Duration::ZERO,
        false => Duration::from_micros(random.of(&[1_000, 100_000, 100_000, 300_000, 1_000_000, 3_000_000])),
    };
    disarm(book, timers, entry, id);
    entry.late_since = None;
    match timers.settime(id, first, interval) {
        Ok(_) => {}
        Err(error) => return book.world.unexpected("timer_settime", error),
    }
    if is_once {
        book.world.counts.timers_armed.add(1);
        entry.state = State::Once { base, deadline, setting };
    } else {
        entry.state = State::Every { base, first: deadline, interval, delivered: 0 };
    }
}

/// Disarms a timer, and notes how its last setting has ended.
fn disarm(book: &Book, timers: &Timers, entry: &mut Entry, id: i32) {
    let state = std::mem::take(&mut entry.state);
    match (timers.settime(id, Expiry::Never, Duration::ZERO), state) {
        (Ok(Setting { value, .. }), State::Once { .. }) if !value.is_zero() => {
            book.world.counts.timers_cancelled.add(1)
        }
        // Its notice is on its way, and will be void.
        (Ok(_), State::Once { .. } | State::Every { .. }) => {}
        (Ok(old), State::Disarmed) => {
            if old != Setting::default() {
                let found = format!("{} left, interval {}", exactly(old.value), exactly(old.interval));
                book.broken("a timer that has expired is disarmed", "no time left".to_string(), found);
            }
        }
        (Err(error), _) => book.world.unexpected("timer_settime", error),
    }
}

fn delete(book: &Book, timers: &Timers, index: usize) {
    let mut entry = book.entry(index);
    let Some(id) = entry.id.take() else { return };
    disarm(book, timers, &mut entry, id);
    if let Err(error) = timers.delete(id) {
        book.world.unexpected("timer_delete", error);
    }
}

/// The time since the first deadline that a timer has not delivered.
fn since_deadline(book: &Book, state: State) -> Duration {
    state.deadline().map_or(Duration::ZERO, |(base, deadline)| book.time(base).saturating_sub(deadline))
}

/// By how much a timer is late: the time since the first deadline that it has not delivered.
fn late(book: &Book, state: State) -> Duration {
    match state {
        State::Disarmed => Duration::ZERO,
        // Its clock jumps. The last jump is far ahead.
        State::Once { base: Base::Realtime, deadline, .. } if !book.world.is_running() => {
            if book.time(Base::Realtime) >= deadline { Duration::from_nanos(1) } else { Duration::ZERO }
        }
        State::Once { base: Base::Realtime, .. } => Duration::ZERO,
        State::Once { .. } => since_deadline(book, state),
        State::Every { .. } => since_deadline(book, state).saturating_sub(LATE),
    }
}

/// Whether a timer still has to deliver what is due. It is not set again before.
fn is_behind(book: &Book, index: usize) -> bool {
    !late(book, book.entry(index).state).is_zero()
}

/// Checks that a timer that is due expires.
fn look_after(book: &Book, index: usize) {
    let mut entry = book.entry(index);
    let late = late(book, entry.state);
    if late.is_zero() {
        return;
    }
    let since = *entry.late_since.get_or_insert_with(watched::now);
    if watched::now() - since > book.world.flags.patience {
        let (state, expected) = (entry.state, format!("within {}", seconds(book.world.flags.patience)));
        let found = format!("{} after its deadline it has not: {state}", exactly(since_deadline(book, state)));
        book.broken("each timer that is due expires", expected, found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_say_in_words_what_a_timer_is_set_to() {
        let (first, interval) = (Duration::new(1_795_844_182, 726_607_632), Duration::from_millis(300));
        let once = State::Once { base: Base::Realtime, deadline: first, setting: Some(2) };
        assert_eq!(once.to_string(), "a timer that expires once, when CLOCK_REALTIME shows 1795844182.726607632 s");
        let every = State::Every { base: Base::Boottime, first, interval, delivered: 7 };
        assert_eq!(
            every.to_string(),
            "a timer that expires each 0.300000000 s from 1795844182.726607632 s of CLOCK_BOOTTIME on, and has expired 7 times"
        );
        let next = every.deadline().map(|(_, at)| at);
        assert_eq!(next, Some(first + 7 * interval));
    }
}
