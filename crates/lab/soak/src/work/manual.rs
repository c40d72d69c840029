//! Timers on clocks that only the trial moves. After each turn every timer must have delivered exactly what the clocks say,
//! also if CLOCK_REALTIME has jumped.

use crate::random::Random;
use crate::world::World;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use ufutex::Error;
use ufutex::timer::{Base, Callback, Clocks, Driver, Expired, Expiry, Notify, TimerClock, Timers};

const TIMERS: usize = 32;
const TURNS: usize = 12;
/// Longest time of a timer, and about how far the clocks go in a trial.
const LONGEST_NS: u64 = 1_000_000_000;
const JUMP_NS: u64 = 20 * LONGEST_NS;

/// The clocks, in nanoseconds.
struct Manual {
    monotonic: AtomicU64,
    realtime: AtomicU64,
}

impl Manual {
    fn of(&self, base: Base) -> &AtomicU64 {
        match base {
            Base::Monotonic | Base::Boottime => &self.monotonic,
            Base::Realtime | Base::Tai => &self.realtime,
        }
    }

    fn read(&self, base: Base) -> u64 {
        self.of(base).load(Ordering::Relaxed)
    }
}

impl Clocks for Manual {
    fn now(&self, base: Base) -> Duration {
        Duration::from_nanos(self.read(base))
    }

    fn changed(&self) {}
}

/// What a timer has to deliver.
struct Model {
    base: Base,
    deadline: u64,
    /// 0: it expires once.
    interval: u64,
    delivered: u64,
}

impl Model {
    /// Moves on to `now`, the time of a turn.
    fn turn(&mut self, now: u64) {
        let Some(passed) = now.checked_sub(self.deadline) else { return };
        let due = passed.checked_div(self.interval).map_or(1, |intervals| intervals + 1);
        self.delivered = self.delivered.max(due);
    }
}

/// One trial.
pub fn trial(world: &World, random: &mut Random) {
    if let Err(error) = attempt(world, random) {
        world.unexpected("an operation on timers of a clock of our own", error);
    }
}

fn attempt(world: &World, random: &mut Random) -> Result<(), Error> {
    let began = 1 << 40;
    let clocks = Arc::new(Manual { monotonic: AtomicU64::new(began), realtime: AtomicU64::new(began) });
    let delivered: Arc<Vec<AtomicU64>> = Arc::new((0..TIMERS).map(|_| AtomicU64::new(0)).collect());
    let driver = Driver::with_clocks(clocks.clone())?;
    let counted = delivered.clone();
    let count = Callback(move |_: &Timers, expired: Expired| {
        if let Notify::Signal { value, .. } = expired.notify {
            counted[value as usize].fetch_add(1 + u64::from(expired.overrun.cast_unsigned()), Ordering::Relaxed);
        }
    });
    let timers = Timers::new(&driver, Arc::new(count))?;
    let mut models = Vec::new();
    for index in 0..TIMERS {
        models.push(arm(&timers, &clocks, index, random)?);
    }
    for _ in 0..TURNS {
        let step = random.below(LONGEST_NS / 4);
        clocks.of(Base::Monotonic).fetch_add(step, Ordering::Relaxed);
        clocks.of(Base::Realtime).fetch_add(step, Ordering::Relaxed);
        if random.one_in(4) {
            let jumped = clocks.read(Base::Realtime) - JUMP_NS / 2 + random.below(JUMP_NS);
            clocks.of(Base::Realtime).store(jumped, Ordering::Relaxed);
            driver.clock_was_set();
        }
        driver.turn();
        for (index, model) in models.iter_mut().enumerate() {
            let before = model.delivered;
            model.turn(clocks.read(model.base));
            world.counts.manual_expirations.add((model.delivered - before) as usize);
            let found = delivered[index].load(Ordering::Relaxed);
            if found != model.delivered {
                world.findings.add(
                    "a timer on a clock of our own has delivered exactly what the clock says",
                    format_args!("{} expirations on {}", model.delivered, super::timers::clock_name(model.base)),
                    found,
                );
                model.delivered = found;
            }
        }
    }
    Ok(())
}

fn arm(timers: &Timers, clocks: &Manual, index: usize, random: &mut Random) -> Result<Model, Error> {
    let (clock, base) = random.of(&[
        (TimerClock::Monotonic, Base::Monotonic),
        (TimerClock::Boottime, Base::Boottime),
        (TimerClock::Realtime, Base::Realtime),
        (TimerClock::Tai, Base::Tai),
    ]);
    let jumps = matches!(base, Base::Realtime | Base::Tai);
    let interval = if jumps || random.one_in(2) { 0 } else { 1 + random.below(LONGEST_NS / 8) };
    let deadline = clocks.read(base) + 1 + random.below(LONGEST_NS);
    let id = timers.create(clock, Some(Notify::Signal { signal: 1, value: index as u64 }))?;
    timers.settime(id, Expiry::At(Duration::from_nanos(deadline)), Duration::from_nanos(interval))?;
    Ok(Model { base, deadline, interval, delivered: 0 })
}
